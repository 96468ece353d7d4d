//! Compares the arithmetic of plans with an oracle that shares no code with the engine: charges
//! paid from an allowance, the boundaries of its weeks, and the amounts that are returned or
//! expire. The clock moves around the boundaries of weeks, to the microsecond, and back.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::{
    Change, HoldOutcome, LedgerAccount, NewHold, NewRefund, NewSubscription, Payer, Payment, RefundOutcome,
    Storage, StorageErrorKind,
};
use tollgate_types::clock::ManualClock;
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, HoldId, SubscriptionId, Timestamp};

use crate::samples::{Directory, START, block_on, create, grant, hold, nanos, plan, settlement};

/// Length of a week in microseconds: seven days of 24 hours.
const WEEK: i64 = 604_800_000_000;
/// Number of generated steps of one account.
const STEPS: usize = 125;

#[derive(Clone, Copy, Debug)]
enum Step {
    Hold {
        amount: i64,
    },
    Settle {
        which: usize,
        charge: i64,
    },
    Refund {
        which: usize,
        amount: Option<i64>,
    },
    Grant {
        amount: i64,
    },
    Subscribe {
        weekly: i64,
        price: i64,
        weeks: i64,
    },
    Replace {
        weekly: i64,
        fee: i64,
        weeks: i64,
    },
    Change(PlanChange),
    /// Moves the clock to `micros` microseconds after the boundary of the week that is `weeks`
    /// away.
    Go {
        weeks: i64,
        micros: i64,
    },
}

#[derive(Clone, Copy, Debug)]
enum PlanChange {
    Renew { weeks: i64 },
    PastDue,
    CancelAtPeriodEnd,
    Resume,
    Cancel,
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    let weekly = || prop_oneof![1 => Just(0), 4 => 1..100_i64, 1 => 1..1_000_000_000_000_i64];
    let amount = || prop_oneof![1 => Just(0), 8 => 1..80_i64, 1 => 1..2_000_000_000_000_i64];
    let plan_change = prop_oneof![
        3 => (1..4_i64).prop_map(|weeks| PlanChange::Renew { weeks }),
        2 => Just(PlanChange::PastDue),
        2 => Just(PlanChange::CancelAtPeriodEnd),
        2 => Just(PlanChange::Resume),
        1 => Just(PlanChange::Cancel),
        1 => Just(PlanChange::Expire),
    ];
    prop_oneof![
        40 => amount().prop_map(|amount| Step::Hold { amount }),
        40 => (any::<usize>(), amount()).prop_map(|(which, charge)| Step::Settle { which, charge }),
        3 => (any::<usize>(), proptest::option::of(amount())).prop_map(|(which, amount)| Step::Refund { which, amount }),
        2 => amount().prop_map(|amount| Step::Grant { amount }),
        3 => (weekly(), 0..20_i64, 1..5_i64).prop_map(|(weekly, price, weeks)| Step::Subscribe { weekly, price, weeks }),
        1 => (weekly(), 0..20_i64, 1..5_i64).prop_map(|(weekly, fee, weeks)| Step::Replace { weekly, fee, weeks }),
        3 => plan_change.prop_map(Step::Change),
        10 => (prop_oneof![3 => Just(0), 3 => Just(1), 1 => -2..6_i64], prop_oneof![3 => -1..2_i64, 1 => 0..WEEK])
            .prop_map(|(weeks, micros)| Step::Go { weeks, micros }),
    ]
}

/// Answer to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Held(i64),
    Denied(i64),
    /// Charge, and the part that the allowance paid.
    Settled(i64, i64),
    /// Refund to credits, and refund to the allowance.
    Refunded(i64, i64),
    Conflict,
    Nothing,
}

/// A call. `week` contains the plan and the number of the week that paid for `share`.
#[derive(Clone, Copy, Debug)]
struct Call {
    held: i64,
    share: i64,
    week: Option<(u128, i64)>,
    /// Charge, included part of the charge, refund to credits, and refund to the allowance.
    settled: Option<[i64; 4]>,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    id: u128,
    weekly: i64,
    price: i64,
    anchor: i64,
    paid_through: i64,
    week: i64,
    is_past_due: bool,
    is_canceling: bool,
}

/// A simple model of one account, as documented in docs/plans.md.
#[derive(Debug, Default)]
struct Oracle {
    now: i64,
    granted: i64,
    credits: i64,
    allowance: i64,
    opened: i64,
    breakage: i64,
    fees: i64,
    charged: i64,
    included: i64,
    refunded: i64,
    plan: Option<Plan>,
    plans: u128,
    calls: Vec<Call>,
}

impl Oracle {
    /// Returns the number of the week that a call uses, and its unused allowance.
    fn draw(&self) -> Option<(i64, i64)> {
        let plan = self.plan.filter(|plan| !plan.is_past_due)?;
        let is_paid = self.now < plan.paid_through;
        let mut week = 0;
        while plan.anchor + (week + 1) * WEEK <= self.now {
            week += 1;
        }
        if week <= plan.week {
            return (is_paid || !plan.is_canceling).then_some((plan.week, self.allowance));
        }
        is_paid.then_some((week, plan.weekly))
    }

    fn open(&mut self, weekly: i64) {
        self.breakage += self.allowance;
        self.allowance = weekly;
        self.opened += weekly;
    }

    fn is_open(&self, week: Option<(u128, i64)>) -> bool {
        week.is_some() && week == self.plan.map(|plan| (plan.id, plan.week))
    }

    fn hold(&mut self, amount: i64) -> Answer {
        let draw = self.draw().filter(|_| amount > 0);
        let left = draw.map_or(0, |(_, left)| left);
        if self.credits + left < amount {
            return Answer::Denied(self.credits + left);
        }
        let mut week = None;
        if let (Some((number, _)), Some(plan)) = (draw, &mut self.plan) {
            week = Some((plan.id, number));
            if plan.week != number {
                plan.week = number;
                let weekly = plan.weekly;
                self.open(weekly);
            }
        }
        let share = left.min(amount);
        self.allowance -= share;
        self.credits -= amount - share;
        self.calls.push(Call {
            held: amount,
            share,
            week,
            settled: None,
        });
        Answer::Held(self.credits)
    }

    fn settle(&mut self, which: usize, charge: i64) -> Answer {
        let call = self.calls[which];
        if let Some([charge, included, ..]) = call.settled {
            return Answer::Settled(charge, included);
        }
        let charge = charge.min(call.held);
        let included = charge.min(call.share);
        let back = call.share - included;
        if self.is_open(call.week) {
            self.allowance += back;
        } else {
            self.breakage += back;
        }
        self.credits += call.held - call.share - (charge - included);
        self.charged += charge - included;
        self.included += included;
        self.calls[which].settled = Some([charge, included, 0, 0]);
        Answer::Settled(charge, included)
    }

    fn refund(&mut self, which: usize, amount: Option<i64>) -> Answer {
        let call = self.calls[which];
        let Some([charge, included, credits_back, week_back]) = call.settled else {
            return Answer::Nothing;
        };
        let credits = charge - included - credits_back;
        let week = if self.is_open(call.week) {
            included - week_back
        } else {
            0
        };
        let amount = amount.unwrap_or(credits + week);
        if amount <= 0 || amount > credits + week {
            return Answer::Denied(credits + week);
        }
        let (credits, week) = (amount.min(credits), (amount - credits).max(0));
        self.calls[which].settled = Some([charge, included, credits_back + credits, week_back + week]);
        self.credits += credits;
        self.allowance += week;
        self.refunded += credits + week;
        Answer::Refunded(credits, week)
    }

    /// Starts a plan, which ends the week of the previous one.
    fn begin(&mut self, weekly: i64, price: i64, fee: i64, weeks: i64) -> Answer {
        if fee > self.credits {
            return Answer::Denied(self.credits);
        }
        self.credits -= fee;
        self.fees += fee;
        self.plans += 1;
        self.plan = Some(Plan {
            id: self.plans,
            weekly,
            price,
            anchor: self.now,
            paid_through: self.now + weeks * WEEK,
            week: 0,
            is_past_due: false,
            is_canceling: false,
        });
        self.open(weekly);
        Answer::Done
    }

    fn change(&mut self, plan_change: PlanChange) -> Answer {
        let credits = self.credits;
        let Some(plan) = &mut self.plan else {
            return Answer::Conflict;
        };
        match plan_change {
            PlanChange::Renew { .. } if plan.price > credits => return Answer::Denied(credits),
            PlanChange::Renew { weeks } => {
                self.credits -= plan.price;
                self.fees += plan.price;
                plan.paid_through += weeks * WEEK;
                plan.is_past_due = false;
            }
            PlanChange::PastDue if !plan.is_past_due => plan.is_past_due = true,
            PlanChange::CancelAtPeriodEnd if !plan.is_canceling => plan.is_canceling = true,
            PlanChange::Resume if plan.is_canceling => plan.is_canceling = false,
            PlanChange::Cancel if plan.is_canceling => self.end(),
            PlanChange::Expire if plan.is_past_due => self.end(),
            _ => return Answer::Conflict,
        }
        Answer::Done
    }

    fn end(&mut self) {
        self.plan = None;
        self.breakage += std::mem::take(&mut self.allowance);
    }

    fn step(&mut self, step: Step) -> Answer {
        match step {
            Step::Hold { amount } => self.hold(amount),
            Step::Settle { which, charge } => self.settle(which, charge),
            Step::Refund { which, amount } => self.refund(which, amount),
            Step::Grant { amount } => {
                self.granted += amount;
                self.credits += amount;
                Answer::Done
            }
            Step::Subscribe { .. } if self.plan.is_some() => Answer::Conflict,
            Step::Subscribe { weekly, price, weeks } => self.begin(weekly, price, price, weeks),
            Step::Replace { .. } if self.plan.is_none() => Answer::Conflict,
            Step::Replace { weekly, fee, weeks } => self.begin(weekly, 7, fee, weeks),
            Step::Change(plan_change) => self.change(plan_change),
            Step::Go { weeks, micros } => {
                let anchor = self.plan.map_or(0, |plan| plan.anchor);
                let edge = anchor + ((self.now - anchor).div_euclid(WEEK) + weeks) * WEEK;
                self.now = (edge + micros).max(anchor);
                Answer::Done
            }
        }
    }

    fn held(&self) -> i64 {
        let open = self.calls.iter().filter(|call| call.settled.is_none());
        open.map(|call| call.held).sum()
    }

    /// Checks the invariants of the oracle's amounts.
    fn check(&self) {
        assert!(self.credits >= 0 && self.allowance >= 0, "{self:?}");
        let shares = self
            .calls
            .iter()
            .filter(|call| call.settled.is_none())
            .map(|call| call.share);
        let used =
            self.included - self.weeks_refunded() + self.allowance + self.breakage + shares.sum::<i64>();
        assert_eq!(used, self.opened, "a week gives what it has: {self:?}");
    }

    fn weeks_refunded(&self) -> i64 {
        self.calls
            .iter()
            .filter_map(|call| call.settled)
            .map(|[.., week]| week)
            .sum()
    }
}

/// The engine under test and one of its accounts.
struct Subject<'a> {
    storage: &'a Storage,
    account: AccountId,
    /// Base of the ids of the account.
    base: u128,
    next: u128,
    period: i64,
}

impl Subject<'_> {
    fn id(&mut self) -> u128 {
        self.next += 1;
        self.base + self.next
    }

    fn terms(&mut self, oracle: &Oracle, weekly: i64, price: i64, weeks: i64) -> NewSubscription {
        let number = self.base + oracle.plans + 1;
        NewSubscription {
            price: nanos(price),
            payer: Payer::Credits,
            anchor: moment(oracle.now),
            paid_through: moment(oracle.now + weeks * WEEK),
            ..plan(number, self.account, weekly)
        }
    }

    /// Executes a step. `before` is the oracle before the step; it determines the time and the ids.
    async fn step(&mut self, step: Step, before: &Oracle) -> Answer {
        let subscriptions = &self.storage.subscriptions;
        match step {
            Step::Hold { amount } => {
                let new = NewHold {
                    created_at: moment(before.now),
                    expires_at: moment(i64::from(u32::MAX) * 1_000_000),
                    ..hold(self.call(before.calls.len()), self.account, amount)
                };
                match self.storage.ledger.hold(new).await.unwrap() {
                    HoldOutcome::Held { available } => Answer::Held(available.nanos()),
                    HoldOutcome::Denied { available } => Answer::Denied(available.nanos()),
                }
            }
            Step::Settle { which, charge } => {
                let of = hold(self.call(which), self.account, 0);
                let resolution = self.storage.ledger.settle(settlement(&of, charge)).await.unwrap();
                // The included part is in the usage row, which is compared at the end.
                Answer::Settled(resolution.charge.nanos(), 0)
            }
            Step::Refund { which, amount } => {
                let new = NewRefund {
                    id: TransferId::from_u128(self.id()),
                    account: self.account,
                    hold: HoldId::from_u128(self.call(which)),
                    amount: amount.map(nanos),
                    reason: String::new(),
                    at: moment(before.now),
                };
                match self.storage.lots.refund(new).await {
                    Ok(RefundOutcome::Done { refund, .. }) => {
                        Answer::Refunded(refund.credits.nanos(), refund.allowance.nanos())
                    }
                    Ok(RefundOutcome::Denied { refundable }) => Answer::Denied(refundable.nanos()),
                    Err(error) if error.kind == StorageErrorKind::NotFound => Answer::Nothing,
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Grant { amount } => {
                let new = grant(self.id(), self.account, amount);
                self.storage.ledger.grant(new).await.unwrap();
                Answer::Done
            }
            Step::Subscribe { weekly, price, weeks } => {
                let terms = self.terms(before, weekly, price, weeks);
                self.paid(subscriptions.subscribe(terms).await, true)
            }
            Step::Replace { weekly, fee, weeks } => {
                let old = SubscriptionId::from_u128(self.base + before.plans);
                let terms = self.terms(before, weekly, 7, weeks);
                self.paid(subscriptions.replace(old, terms, nanos(fee)).await, true)
            }
            Step::Change(plan_change) => {
                let id = SubscriptionId::from_u128(self.base + before.plans);
                let change = match plan_change {
                    PlanChange::Renew { weeks } => Change::Renew {
                        period: self.period + 1,
                        paid_through: moment(before.plan.map_or(0, |plan| plan.paid_through) + weeks * WEEK),
                    },
                    PlanChange::PastDue => Change::PastDue,
                    PlanChange::CancelAtPeriodEnd => Change::CancelAtPeriodEnd,
                    PlanChange::Resume => Change::Resume,
                    PlanChange::Cancel => Change::Cancel,
                    PlanChange::Expire => Change::Expire,
                };
                let changed = subscriptions.change(id, change, moment(before.now)).await;
                let answer = self.paid(changed, false);
                self.period +=
                    i64::from(matches!(plan_change, PlanChange::Renew { .. }) && answer == Answer::Done);
                answer
            }
            Step::Go { .. } => Answer::Done,
        }
    }

    fn call(&self, place: usize) -> u128 {
        self.base + 1_000_000 + place as u128
    }

    fn paid(&mut self, payment: tollgate_storage::Result<Payment>, is_new: bool) -> Answer {
        match payment {
            Ok(Payment::Done(_)) => {
                self.period = if is_new { 0 } else { self.period };
                Answer::Done
            }
            Ok(Payment::Denied { available }) => Answer::Denied(available.nanos()),
            Err(error)
                if matches!(
                    error.kind,
                    StorageErrorKind::Conflict | StorageErrorKind::NotFound
                ) =>
            {
                Answer::Conflict
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn moment(micros: i64) -> Timestamp {
    Timestamp::from_micros(START.as_micros() + micros)
}

/// Adapts a step to the state of the oracle. Returns `None` if there is no suitable call or the
/// step would change nothing.
fn fitted(step: Step, oracle: &Oracle) -> Option<Step> {
    let calls = oracle.calls.len();
    match step {
        Step::Settle { which, charge } => {
            // Selects an open call.
            let open: Vec<usize> = (0..calls)
                .filter(|call| oracle.calls[*call].settled.is_none())
                .collect();
            let which = *open.get(which % open.len().max(1))?;
            Some(Step::Settle { which, charge })
        }
        Step::Refund { which, amount } if calls > 0 => Some(Step::Refund {
            which: which % calls,
            amount,
        }),
        Step::Refund { .. } | Step::Grant { amount: 0 } => None,
        step => Some(step),
    }
}

async fn live(storage: &Storage, number: u128, steps: &[Step]) -> usize {
    let account = create(storage, number).await;
    let mut subject = Subject {
        storage,
        account,
        base: number << 32,
        next: 10_000_000,
        period: 0,
    };
    let mut oracle = Oracle::default();
    let mut taken = 0;
    for step in steps {
        let Some(step) = fitted(*step, &oracle) else {
            continue;
        };
        let answer = subject.step(step, &oracle).await;
        let expected = match oracle.step(step) {
            Answer::Settled(charge, _) => Answer::Settled(charge, 0),
            answer => answer,
        };
        assert_eq!(answer, expected, "{step:?} of {steps:?}: {oracle:?}");
        let balance = storage.ledger.balance(account).await.unwrap();
        assert_eq!(
            (balance.credits.nanos(), balance.held.nanos()),
            (oracle.credits, oracle.held()),
            "{step:?}"
        );
        oracle.check();
        taken += 1;
    }
    compare(storage, account, &oracle, number << 32).await;
    taken
}

/// Compares all ledger accounts and usage rows with the oracle.
async fn compare(storage: &Storage, account: AccountId, oracle: &Oracle, base: u128) {
    let mut ledgers = LedgerSnapshot::default();
    storage.ledger.audit(Some(account), &mut ledgers).await.unwrap();
    let account_ledger = ledgers.of(account);
    for (ledger, expected) in [
        (LedgerAccount::Cash, -oracle.granted),
        (LedgerAccount::Credits, oracle.credits),
        (LedgerAccount::Hold, oracle.held()),
        (LedgerAccount::Allowance, oracle.allowance),
        (LedgerAccount::GrantPlan, -oracle.opened),
        (LedgerAccount::Breakage, oracle.breakage),
        (LedgerAccount::RevenuePlan, oracle.fees),
        (LedgerAccount::RevenueUsage, oracle.charged),
        (LedgerAccount::RevenueIncluded, oracle.included),
        (LedgerAccount::RevenueRefunds, -oracle.refunded),
    ] {
        assert_eq!(account_ledger.balance(ledger), expected, "{ledger:?}: {oracle:?}");
    }
    for (place, call) in oracle.calls.iter().enumerate() {
        let id = HoldId::from_u128(base + 1_000_000 + place as u128);
        let row = account_ledger.usage.iter().find(|row| row.id == id);
        let recorded = row.map(|row| [row.charge.nanos(), row.included.nanos()]);
        assert_eq!(
            recorded,
            call.settled.map(|[charge, included, ..]| [charge, included]),
            "{call:?}"
        );
        if let Some([charge, included, ..]) = call.settled {
            assert!(
                included == charge || included == call.share,
                "credits pay what the allowance cannot"
            );
        }
    }
}

/// Executes at least `min_steps` steps, one account after the other; returns the number of executed
/// steps.
fn run(min_steps: usize) -> usize {
    let home = Directory::new();
    let mut config = home.path().config(Arc::new(ManualClock::at(START)));
    config.commit_records = 20_000;
    config.commit_after = Duration::from_secs(1);
    block_on(async {
        let storage = tollgate_backends::sqlite::open(config).await.unwrap();
        // Each run generates other steps. A failure prints the steps of its account.
        let mut runner = TestRunner::new(Config::default());
        let strategy = prop::collection::vec(step(), STEPS);
        let (mut taken, mut accounts) = (0, 0);
        while taken < min_steps {
            let steps = strategy.new_tree(&mut runner).unwrap().current();
            accounts += 1;
            taken += live(&storage, accounts, &steps).await;
        }
        storage.engine.close().await.unwrap();
        println!("{taken} steps of {accounts} accounts");
        taken
    })
}

#[test]
fn plans_match_the_oracle() {
    assert!(run(10_000) >= 10_000);
}

#[test]
#[ignore = "takes minutes"]
fn prove_that_plans_match_the_oracle() {
    // Engines mostly wait for the disk, so several engines run concurrently.
    let engines: Vec<_> = (0..8).map(|_| std::thread::spawn(|| run(125_000))).collect();
    let taken: usize = engines.into_iter().map(|engine| engine.join().unwrap()).sum();
    assert!(taken >= 1_000_000);
}
