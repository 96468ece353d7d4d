//! Property tests: after any sequence of holds, settlements, reports and lost messages, the lease
//! covers every report.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate_storage::NewHold;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, PriceVersion, RequestId, Usage};

use super::*;

const ACCOUNT: AccountId = AccountId::from_u128(1);
const LEASE: TransferId = TransferId::from_u128(2);

fn hold(id: u128, amount: i64) -> Arc<Hold> {
    Arc::new(Hold::from(NewHold {
        id: HoldId::from_u128(id),
        account: ACCOUNT,
        principal: None,
        request: RequestId::from_u128(id),
        amount: Credits::from_nanos(amount),
        price_version: PriceVersion::from_u64(1),
        model: Arc::from("maker/model"),
        endpoint: "/v1/chat/completions",
        not_covered_by: Arc::default(),
        created_at: Timestamp::from_micros(0),
        expires_at: Timestamp::from_micros(1_000),
    }))
}

fn settlement(id: u128, charge: i64) -> Settlement {
    Settlement {
        hold: HoldId::from_u128(id),
        account: ACCOUNT,
        charge: Credits::from_nanos(charge),
        overrun: Credits::ZERO,
        usage: Usage::ZERO,
        outcome: Outcome::Ok,
        estimated: false,
        target: Arc::from("sim"),
        first_at: None,
        ended_at: Timestamp::from_micros(1),
    }
}

/// Model of the ledger under `lease_round`.
#[derive(Debug)]
struct LedgerModel {
    credits: i64,
    leased: i64,
    is_open: bool,
    charged: HashMap<HoldId, i64>,
}

impl LedgerModel {
    fn answer(&mut self, report: &Report, may_hold: bool) -> Reply {
        for call in &report.calls {
            let charge = call.settlement.charge.nanos();
            if self.charged.insert(call.hold.id, charge).is_none() {
                self.leased -= charge;
            }
        }
        assert!(
            self.leased >= 0,
            "a report that the lease does not cover: {self:?}"
        );
        let may_hold = may_hold && self.credits + self.leased >= report.min_balance;
        if let Some(target) = report.target {
            let moved = match target {
                target if target < self.leased => target - self.leased,
                target if may_hold => (target.min((self.credits + self.leased) / 4) - self.leased).max(0),
                _ => 0,
            };
            self.leased += moved;
            self.credits -= moved;
        }
        self.is_open = self.leased > 0;
        Reply {
            leased: self.leased,
            available: self.credits,
            is_open: self.is_open,
            may_hold: may_hold && self.is_open,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Hold(i64),
    Settle(usize, i64),
    /// Maximum number of reported calls, and four flags: the round renews the lease, the report
    /// arrives, the reply arrives, and the node may take more holds.
    Round(usize, bool, bool, bool, bool),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_i64..40).prop_map(Step::Hold),
        5 => (any::<prop::sample::Index>(), 0_i64..=40).prop_map(|(which, charge)| Step::Settle(which.index(64), charge)),
        4 => (0_usize..6, any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.95))
            .prop_map(|(max_calls, renews, arrives, answered, may_hold)| {
                Step::Round(max_calls, renews, arrives, answered, may_hold)
            }),
        1 => Just(Step::Close),
    ]
}

proptest! {
    #[test]
    fn every_report_is_covered(credits in 0_i64..20_000, steps in prop::collection::vec(step(), 1..120)) {
        let mut state = State::new(LEASE, 10);
        let mut model = LedgerModel { credits, leased: 0, is_open: false, charged: HashMap::new() };
        let (mut open, mut charged, mut next) = (Vec::new(), 0, 0);
        for step in steps {
            match step {
                Step::Hold(amount) => {
                    if state.capacity(0, amount) == Capacity::Enough {
                        next += 1;
                        state.hold(next as u64, hold(next, amount));
                        open.push((next, amount));
                    }
                }
                Step::Settle(which, charge) if !open.is_empty() => {
                    let (id, amount) = open.swap_remove(which % open.len());
                    let charge = charge.min(amount);
                    prop_assert!(state.open(HoldId::from_u128(id)).is_some());
                    state.settle(settlement(id, charge));
                    prop_assert_eq!(state.charge_of(HoldId::from_u128(id)), Some(Credits::from_nanos(charge)));
                    charged += charge;
                }
                Step::Settle(..) => {}
                Step::Round(max_calls, renews, arrives, answered, may_hold) => {
                    let report = state.begin(renews, max_calls);
                    let reply = arrives.then(|| model.answer(&report, may_hold));
                    match reply.filter(|_| answered) {
                        Some(reply) => state.finish(report, reply, 1),
                        None => state.fail(report),
                    }
                }
                Step::Close => state.close(),
            }
            let held: i64 = open.iter().map(|(_, amount)| amount).sum();
            let reported: i64 = model.charged.values().sum();
            prop_assert!(held + charged - reported <= model.leased, "{held} held, {charged} charged: {model:?}");
        }
        for (id, amount) in open {
            state.settle(settlement(id, amount));
            charged += amount;
        }
        state.close();
        for _ in 0..3 {
            let report = state.begin(false, usize::MAX);
            let reply = model.answer(&report, false);
            state.finish(report, reply, 1);
        }
        prop_assert!(state.is_over());
        prop_assert_eq!(model.charged.values().sum::<i64>(), charged);
        prop_assert_eq!(model.credits + charged, credits);
    }
}

#[test]
fn leases_grant_no_holds_near_zero_or_after_expiry() {
    let mut state = State::new(LEASE, 10);
    assert_eq!(state.capacity(0, 1), Capacity::Closed);
    let report = state.begin(false, 10);
    assert_eq!((report.target, report.min_balance), (Some(80), 500));
    let reply = Reply {
        leased: 80,
        available: 420,
        is_open: true,
        may_hold: true,
    };
    state.finish(report, reply, 100);
    for (now, amount, expected) in [
        (99, 10, Capacity::Enough),
        (100, 10, Capacity::Closed),
        (0, 11, Capacity::Closed),
        (0, 0, Capacity::Enough),
    ] {
        assert_eq!(state.capacity(now, amount), expected, "{now} {amount}");
    }
    state.close();
    assert_eq!(state.capacity(0, 1), Capacity::Closed);
}

#[test]
fn leases_grow_on_shortfall_and_are_returned_when_idle() {
    let mut state = State::new(LEASE, 10);
    let grown = |leased| Reply {
        leased,
        available: 1_000_000,
        is_open: true,
        may_hold: true,
    };
    let report = state.begin(false, 10);
    state.finish(report, grown(80), 100);
    for id in 0..8 {
        assert_eq!(state.capacity(0, 10), Capacity::Enough);
        state.hold(id, hold(id.into(), 10));
    }
    assert_eq!(state.capacity(0, 10), Capacity::Short);
    let report = state.begin(false, 10);
    assert_eq!((report.target, report.in_flight), (Some(170), 80));
    state.finish(report, grown(170), 100);
    assert_eq!(state.capacity(0, 10), Capacity::Enough);
    for id in 0..8 {
        state.settle(settlement(id, 0));
    }
    let mut targets = Vec::new();
    for _ in 0..5 {
        let report = state.begin(true, 10);
        targets.push(report.target);
        let leased = report.target.unwrap_or(170);
        state.finish(
            report,
            Reply {
                is_open: leased > 0,
                ..grown(leased)
            },
            100,
        );
    }
    assert_eq!(targets[4], Some(0));
    assert!(state.is_over());
}
