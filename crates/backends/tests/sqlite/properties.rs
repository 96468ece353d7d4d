//! Compares random sequences of steps and crashes with an oracle that shares no code with the
//! engine.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_backends::sqlite::open;
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::subscription::WEEK;
use tollgate_storage::{
    Change, HoldOutcome, LedgerAccount, Storage, StorageError, StorageErrorKind, SubscriptionState,
};
use tollgate_types::AccountId;
use tollgate_types::clock::ManualClock;
use tollgate_types::usage::Outcome;

use crate::oracle::{Answer, Oracle, Plan, Step, WEEKLY};
use crate::samples::{
    DataDir, Directory, START, account, at, block_on, create, grant, hold, nanos, plan, settlement,
};

const ACCOUNTS: u8 = 2;

fn step() -> impl Strategy<Value = Step> {
    let any_account = || 0..ACCOUNTS;
    let id = || 0..24_u8;
    prop_oneof![
        8 => (any_account(), id(), -1..60_i64, prop_oneof![3 => Just(0), 2 => 0..4_u8])
            .prop_map(|(account, id, amount, week)| Step::Hold { account, id, amount, week }),
        2 => any_account().prop_map(|account| Step::Subscribe { account }),
        2 => (any_account(), prop_oneof![2 => Just(Plan::PastDue), 2 => Just(Plan::Active), 1 => Just(Plan::Expired)])
            .prop_map(|(account, to)| Step::Change { account, to }),
        8 => (any_account(), id(), -1..60_i64, prop_oneof![9 => Just(0), 1 => -1..40_i64])
            .prop_map(|(account, id, charge, overrun)| Step::Settle { account, id, charge, overrun }),
        2 => (any_account(), 0..6_u8, -1..200_i64).prop_map(|(account, id, amount)| Step::Grant { account, id, amount }),
        1 => id().prop_map(|before| Step::Sweep { before }),
        1 => Just(Step::Flush),
        1 => Just(Step::Forget),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        ..ProptestConfig::default()
    })]

    #[test]
    fn engine_matches_the_oracle(steps in prop::collection::vec(step(), 1..80)) {
        block_on(run(&steps));
    }
}

/// The engine, its data directory and its clock.
struct Engine {
    directory: DataDir,
    clock: Arc<ManualClock>,
    storage: Storage,
}

async fn run(steps: &[Step]) {
    let home = Directory::new();
    let mut engine = Engine::open(home.path()).await;
    let mut oracle = Oracle::new(usize::from(ACCOUNTS));
    for number in 0..ACCOUNTS {
        create(&engine.storage, u128::from(number)).await;
    }
    for (place, step) in steps.iter().enumerate() {
        let answer = engine.step(step, place).await;
        assert_eq!(answer, oracle.step(step), "step {place}: {step:?}");
        if matches!(step, Step::Flush | Step::Reopen | Step::Crash) {
            check(&engine.storage, &oracle).await;
        }
    }
    check(&engine.storage, &oracle).await;
    engine.storage.engine.close().await.unwrap();
}

impl Engine {
    async fn open(directory: DataDir) -> Engine {
        let clock = Arc::new(ManualClock::at(START));
        let mut config = directory.config(clock.clone());
        config.segment_bytes = 1500;
        let storage = open(config).await.unwrap();
        Engine {
            directory,
            clock,
            storage,
        }
    }

    async fn step(&mut self, step: &Step, place: usize) -> Answer {
        let ledger = self.storage.ledger.clone();
        match *step {
            Step::Subscribe { account } => {
                let account = self::account(account.into());
                let before = self.storage.subscriptions.list(account).await.unwrap();
                let id = account.as_u128() * 1000 + before.len() as u128;
                let created = self
                    .storage
                    .subscriptions
                    .subscribe(plan(id, account, WEEKLY))
                    .await;
                created.map_or_else(refusal, |_| Answer::Nothing)
            }
            Step::Change { account, to } => self.change(self::account(account.into()), to).await,
            Step::Hold {
                account,
                id,
                amount,
                week,
            } => {
                let mut new = hold(id.into(), self::account(account.into()), amount);
                new.created_at = at(u64::from(week) * WEEK.as_secs());
                new.expires_at = at(id.into());
                match ledger.hold(new).await {
                    Ok(HoldOutcome::Held { available }) => Answer::Held(available.nanos()),
                    Ok(HoldOutcome::Denied { available }) => Answer::Denied(available.nanos()),
                    Err(error) => refusal(error),
                }
            }
            Step::Settle {
                account,
                id,
                charge,
                overrun,
            } => {
                let mut settlement = settlement(&hold(id.into(), self::account(account.into()), 0), charge);
                settlement.overrun = nanos(overrun);
                ledger
                    .settle(settlement)
                    .await
                    .map_or_else(refusal, |resolution| Answer::Resolved {
                        charge: resolution.charge.nanos(),
                        first: resolution.first,
                        available: resolution.available.nanos(),
                    })
            }
            Step::Grant { account, id, amount } => {
                let grant = grant(id.into(), self::account(account.into()), amount);
                ledger
                    .grant(grant)
                    .await
                    .map_or_else(refusal, |balance| Answer::Granted {
                        credits: balance.credits.nanos(),
                        held: balance.held.nanos(),
                    })
            }
            Step::Sweep { before: 0 } => Answer::Swept(0),
            Step::Sweep { before } => {
                Answer::Swept(ledger.sweep(at(u64::from(before) - 1), 100).await.unwrap())
            }
            Step::Flush => {
                self.storage.engine.flush().await.unwrap();
                Answer::Nothing
            }
            // Removes calls in the database from memory.
            Step::Forget => {
                self.clock.advance(Duration::from_secs(3600));
                ledger.sweep(START.plus(Duration::ZERO), 0).await.unwrap();
                Answer::Nothing
            }
            Step::Reopen => {
                self.storage.engine.close().await.unwrap();
                *self = Engine::open(self.directory.clone()).await;
                Answer::Nothing
            }
            Step::Crash => {
                let crashed = self.directory.crash(&format!("crash-{place}"));
                self.storage.engine.close().await.unwrap();
                *self = Engine::open(crashed).await;
                Answer::Nothing
            }
        }
    }
}

impl Engine {
    async fn change(&self, account: AccountId, to: Plan) -> Answer {
        let subscriptions = &self.storage.subscriptions;
        let plans = subscriptions.list(account).await.unwrap();
        let Some(plan) = plans.first() else {
            return Answer::Conflict;
        };
        let change = match to {
            Plan::PastDue => Change::PastDue,
            // Renews only a plan that is past due. The engine would also renew an active plan.
            Plan::Active if plan.state == SubscriptionState::Active => return Answer::Conflict,
            Plan::Active => Change::Renew {
                period: plan.period + 1,
                paid_through: plan.terms.paid_through,
            },
            Plan::Expired => Change::Expire,
        };
        let changed = subscriptions.change(plan.terms.id, change, at(5)).await;
        changed.map_or_else(refusal, |_| Answer::Nothing)
    }
}

fn refusal(error: StorageError) -> Answer {
    match error.kind {
        StorageErrorKind::Conflict => Answer::Conflict,
        StorageErrorKind::NotFound => Answer::NotFound,
        _ => panic!("{error}"),
    }
}

async fn check(storage: &Storage, oracle: &Oracle) {
    let ledgers = LedgerSnapshot::read(storage).await;
    for (number, tenant) in oracle.tenants.iter().enumerate() {
        let ledger = ledgers.of(account(number as u128));
        assert_eq!(ledger.balance(LedgerAccount::Credits), tenant.credits);
        assert_eq!(ledger.balance(LedgerAccount::Hold), tenant.held());
        assert_eq!(ledger.balance(LedgerAccount::Cash), -tenant.granted);
        assert_eq!(
            ledger.balance(LedgerAccount::RevenueUsage),
            tenant.charged() - tenant.included + tenant.overrun
        );
        assert_eq!(ledger.balance(LedgerAccount::RevenueIncluded), tenant.included);
        assert_eq!(ledger.balance(LedgerAccount::Allowance), tenant.allowance);
        assert_eq!(ledger.balance(LedgerAccount::Breakage), tenant.breakage);
        assert_eq!(ledger.balance(LedgerAccount::ExpenseOverrun), -tenant.overrun);
        let open = ledger
            .holds
            .iter()
            .map(|hold| (hold.id.as_u128(), hold.amount.nanos()));
        let expected = tenant
            .open
            .iter()
            .map(|(id, open)| (u128::from(*id), open.amount));
        assert!(open.eq(expected), "{ledger:?}");
        let rows = ledger.usage.iter().map(|row| {
            (
                row.id.as_u128(),
                (row.charge.nanos(), row.outcome == Outcome::Crashed),
            )
        });
        let expected = tenant
            .resolved
            .iter()
            .map(|(id, resolved)| (u128::from(*id), *resolved));
        assert!(rows.eq(expected), "{ledger:?}");
    }
}
