//! Random sequences of calls on a reference ledger. The invariants hold in any order of steps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use tollgate_billing::{Demand, Ending, Evidence, Hold, HoldRequest, check_ledger, quote, verdict};
use tollgate_catalog::Model;
use tollgate_storage::{Coverage, Grant, LedgerAccount, LedgerStore, LotTerms};
use tollgate_types::id::TransferId;
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{
    AccountId, Credits, ErrorCode, KeyId, Prices, Principal, RequestId, Timestamp, Unit, Usage,
};

use crate::ledger::{Pages, TestLedger, WEEK_MICROS};
use crate::model::{demand, model, shares, usage_within};
use crate::ready;
use crate::verdict::ending;

const ACCOUNTS: [AccountId; 2] = [AccountId::from_u128(1), AccountId::from_u128(2)];

/// Usage report of the upstream.
#[derive(Clone, Debug)]
enum Report {
    Nothing,
    /// Usage within the bounds of the hold, as shares of each unit's bound.
    Within(Vec<u64>),
    /// Arbitrary usage, by unit.
    Wild(Vec<u64>),
}

#[derive(Clone, Debug)]
enum Step {
    Grant {
        account: Index,
        nanos: i64,
    },
    Take {
        account: Index,
        demand: Demand,
    },
    Settle {
        which: Index,
        ending: Ending,
        report: Report,
        output_bytes: u64,
    },
    /// The call's process dies.
    Abandon {
        which: Index,
    },
    /// Voids every open hold, long after all holds have expired.
    Sweep,
    /// An account subscribes to a plan or changes it.
    Subscribe {
        account: Index,
        weekly: i64,
    },
    /// A plan becomes past due, or is paid again.
    SetActive {
        account: Index,
        is_active: bool,
    },
    /// The clock moves forward or backward.
    Turn {
        weeks: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let report = prop_oneof![
        Just(Report::Nothing),
        shares().prop_map(Report::Within),
        vec(0..=MAX_QUANTITY, Unit::ALL.len()).prop_map(Report::Wild),
    ];
    let settle = (
        any::<Index>(),
        ending(),
        report,
        prop_oneof![Just(0), 0..100_000_u64],
    );
    prop_oneof![
        2 => (any::<Index>(), prop_oneof![1..100_000_000_i64, 1..10_000_000_000_000_i64])
            .prop_map(|(account, nanos)| Step::Grant { account, nanos }),
        4 => (any::<Index>(), demand()).prop_map(|(account, demand)| Step::Take { account, demand }),
        4 => settle.prop_map(|(which, ending, report, output_bytes)| Step::Settle { which, ending, report, output_bytes }),
        1 => any::<Index>().prop_map(|which| Step::Abandon { which }),
        1 => Just(Step::Sweep),
        1 => (any::<Index>(), prop_oneof![1..100_000_000_i64, 1..10_000_000_000_000_i64])
            .prop_map(|(account, weekly)| Step::Subscribe { account, weekly }),
        1 => (any::<Index>(), any::<bool>())
            .prop_map(|(account, is_active)| Step::SetActive { account, is_active }),
        1 => (-2..4_i64).prop_map(|weeks| Step::Turn { weeks }),
    ]
}

/// Generates models with realistic prices, so that the sums of many calls fit.
fn some_model() -> impl Strategy<Value = Model> {
    let price = || prop_oneof![1 => Just(0), 8 => 1..20_000_000_000_i64].prop_map(Credits::from_nanos);
    let prices = (price(), option::of(price()), price(), option::of(price()));
    let prices = prices.prop_map(|(input, cached, output, reasoning)| {
        let prices = Prices::default()
            .with(Unit::Input, input)
            .with(Unit::Output, output);
        let prices = cached.map_or(prices, |price| prices.with(Unit::CacheRead, price));
        reasoning.map_or(prices, |price| prices.with(Unit::Reasoning, price))
    });
    (prices, option::of(1..200_000_u64)).prop_map(|(prices, maximum)| model(prices, maximum, None))
}

/// Panics, because the text of models without a tokenizer is never counted.
async fn uncounted() -> Option<Demand> {
    unreachable!("the model has no tokenizer")
}

/// State of a run of steps.
struct Run {
    ledger: TestLedger,
    model: Model,
    live: Vec<Hold>,
    next_id: AtomicU64,
    week: i64,
}

type Checked = Result<(), TestCaseError>;

impl Run {
    fn new(model: Model) -> Run {
        Run {
            ledger: TestLedger::of(&ACCOUNTS, &[(model.price_version, model.prices)]),
            model,
            live: Vec::new(),
            next_id: AtomicU64::new(1),
            week: 0,
        }
    }

    fn id(&self) -> u128 {
        u128::from(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Grant { account, nanos } => {
                let grant = Grant {
                    id: TransferId::from_u128(self.id()),
                    account: *account.get(&ACCOUNTS),
                    amount: Credits::from_nanos(*nanos),
                    at: Timestamp::from_micros(0),
                    terms: LotTerms::default(),
                };
                ready(self.ledger.grant(grant)).unwrap();
            }
            Step::Subscribe { account, weekly } => {
                self.ledger.subscribe(*account.get(&ACCOUNTS), *weekly);
            }
            Step::SetActive { account, is_active } => {
                self.ledger.set_active(*account.get(&ACCOUNTS), *is_active);
            }
            Step::Turn { weeks } => self.week = (self.week + weeks).max(0),
            Step::Take { account, demand } => self.take(*account.get(&ACCOUNTS), *demand)?,
            Step::Settle {
                which,
                ending,
                report,
                output_bytes,
            } if !self.live.is_empty() => {
                let hold = self.live.swap_remove(which.index(self.live.len()));
                self.settle(hold, *ending, report, *output_bytes)?;
            }
            Step::Abandon { which } if !self.live.is_empty() => {
                drop(self.live.swap_remove(which.index(self.live.len())));
            }
            Step::Settle { .. } | Step::Abandon { .. } => {}
            Step::Sweep => {
                let open = self.ledger.pages().open.len() as u64;
                prop_assert_eq!(
                    ready(self.ledger.sweep(Timestamp::from_micros(i64::MAX), 500)).unwrap(),
                    open
                );
            }
        }
        self.check()
    }

    fn take(&mut self, account: AccountId, demand: Demand) -> Checked {
        let before = self.ledger.pages();
        let accepted_at = Timestamp::from_micros(self.week * WEEK_MICROS);
        let credits = before.balance(account, LedgerAccount::Credits);
        let left = before.week_for(account, accepted_at).map_or(0, |(_, left)| left);
        let balance = credits + left;
        let request = HoldRequest {
            account,
            principal: Principal::Key(KeyId::from_u128(1)),
            request: RequestId::from_u128(self.id()),
            hold: None,
            public_model: self.model.id.clone(),
            endpoint: "/v1/chat/completions",
            max_cost: None,
            accepted_at,
            ahead: Duration::ZERO,
            lifetime: Duration::from_secs(60),
        };
        let full = quote(&self.model, &demand);
        match ready(Hold::take(&self.ledger, &request, &self.model, demand, uncounted)) {
            Ok(hold) => {
                let held = hold.terms().quote;
                prop_assert!(held.amount.nanos() <= balance);
                prop_assert!(held == full || (demand.max_tokens.is_none() && full.amount.nanos() > balance));
                let after = self.ledger.pages();
                prop_assert_eq!(
                    after.open.get(&hold.id()).map(|open| open.amount),
                    Some(held.amount)
                );
                let drawn = held.amount.nanos().min(left);
                prop_assert_eq!(
                    after.balance(account, LedgerAccount::Credits),
                    credits - (held.amount.nanos() - drawn)
                );
                let share = after
                    .shares
                    .get(&hold.id())
                    .map_or(0, |(_, allowance)| *allowance);
                prop_assert_eq!(share, drawn, "the allowance pays first");
                self.live.push(hold);
            }
            Err(error) => {
                prop_assert_eq!(error.code, ErrorCode::InsufficientCredits);
                prop_assert!(full.amount.nanos() > balance);
                prop_assert_eq!(self.ledger.pages(), before, "402 and something was written");
            }
        }
        Ok(())
    }

    fn settle(&mut self, hold: Hold, ending: Ending, report: &Report, output_bytes: u64) -> Checked {
        let before = self.ledger.pages();
        let (id, terms) = (hold.id(), hold.terms().clone());
        let output_bound = terms.quote.output_cap * terms.demand.n;
        let is_bounded = !matches!(report, Report::Wild(_)) && output_bytes.div_ceil(4) <= output_bound;
        let reported = match report {
            Report::Nothing => None,
            Report::Within(shares) => Some(usage_within(&terms.demand, &terms.quote, shares)),
            Report::Wild(counts) => {
                let classes = Unit::ALL.into_iter().zip(counts);
                Some(classes.fold(Usage::ZERO, |usage, (unit, count)| usage.with(unit, *count)))
            }
        };
        let verdict = verdict(
            ending,
            &Evidence {
                reported,
                output_bytes,
                ..Evidence::default()
            },
            &terms.demand,
        );
        let charge = hold.price(&verdict);
        let cost = terms.prices.cost(&charge.usage);
        prop_assert!(charge.amount <= terms.quote.amount);
        prop_assert_eq!(charge.amount.checked_add(charge.overrun), Some(cost));
        prop_assert!(charge.overrun.is_zero() || !is_bounded, "{charge:?} of {terms:?}");
        let now = Timestamp::from_micros(1);
        ready(hold.settle(&self.ledger, &charge, "upstream".into(), None, now)).unwrap();

        let after = self.ledger.pages();
        if !before.open.contains_key(&id) {
            prop_assert_eq!(after, before, "resolved twice");
            return Ok(());
        }
        let row = after.rows.last().unwrap();
        let share = before.shares.get(&id).map_or(0, |(_, allowance)| *allowance);
        prop_assert_eq!(
            row.included.nanos(),
            row.charge.nanos().min(share),
            "frozen terms"
        );
        prop_assert_eq!(
            row.coverage() == Coverage::Fully,
            row.included == row.charge && !row.charge.is_zero()
        );
        prop_assert_eq!(
            (row.id, row.charge, row.overrun),
            (id, charge.amount, charge.overrun)
        );
        prop_assert_eq!((row.usage, row.outcome), (verdict.usage, verdict.outcome));
        prop_assert!(!after.open.contains_key(&id));
        Ok(())
    }

    fn check(&self) -> Checked {
        let pages = self.ledger.pages();
        for account in ACCOUNTS {
            check_account(&pages, account)?;
        }
        let report = ready(check_ledger(&self.ledger, true)).unwrap();
        prop_assert!(report.is_clean(), "{:?}", report.faults);
        prop_assert_eq!(report.open_holds, pages.open.len() as u64);
        prop_assert_eq!(report.usage_rows, pages.rows.len() as u64);
        Ok(())
    }
}

fn check_account(pages: &Pages, account: AccountId) -> Checked {
    let of = |ledger| i128::from(pages.balance(account, ledger));
    prop_assert_eq!(LedgerAccount::ALL.into_iter().map(of).sum::<i128>(), 0);
    for ledger in LedgerAccount::ALL
        .into_iter()
        .filter(|ledger| ledger.is_constrained())
    {
        prop_assert!(of(ledger) >= 0, "{ledger:?}");
    }
    let open = pages.open.values().filter(|hold| hold.account == account);
    let open: i128 = open.map(|hold| i128::from(hold.amount.nanos())).sum();
    prop_assert_eq!(of(LedgerAccount::Hold), open);
    let rows: Vec<_> = pages.rows.iter().filter(|row| row.account == account).collect();
    prop_assert!(rows.iter().all(|row| row.charge <= row.held));
    let recorded = rows
        .iter()
        .map(|row| i128::from(row.charge.nanos()) + i128::from(row.overrun.nanos()));
    let revenue = of(LedgerAccount::RevenueUsage) + of(LedgerAccount::RevenueIncluded);
    prop_assert_eq!(revenue, recorded.sum::<i128>());
    let included = rows.iter().map(|row| i128::from(row.included.nanos()));
    prop_assert_eq!(of(LedgerAccount::RevenueIncluded), included.sum::<i128>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn ledger_invariants_hold_for_any_sequence(model in some_model(), steps in vec(step(), 1..40)) {
        let mut run = Run::new(model);
        for step in &steps {
            run.step(step)?;
        }
    }
}
