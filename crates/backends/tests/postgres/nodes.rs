//! Tests with several nodes on one database, and with several runtimes on one engine.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::Builder;
use tollgate_backends::postgres;
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::refund::refund_id;
use tollgate_storage::{
    Account, AccountState, Balance, ChatSave, ChatSaveOutcome, Grant, HoldOutcome, HourDifference, HourSums,
    Limits, LotTerms, NewHold, NewRefund, RefundOutcome, Settlement, Storage, latest_expiry,
};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, ChatId, Credits, HoldId, PriceVersion, RequestId, Timestamp, Usage};

use crate::database::TestDatabase;

pub const ACCOUNT: AccountId = AccountId::from_u128(1);
pub const NOW: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);

/// Opens an engine on a migrated database and creates an account with this balance in nano-credits.
pub async fn one_account(database: &TestDatabase, balance: i64) -> Storage {
    let config = database.config();
    postgres::migrate(&config.url).await.unwrap();
    let storage = postgres::open(config).await.unwrap();
    let account = Account {
        id: ACCOUNT,
        name: "tenant".to_owned(),
        state: AccountState::Active,
        limits: Limits::default(),
        test_clock: None,
        created_at: NOW,
    };
    storage.accounts.create(account).await.unwrap();
    let grant = Grant {
        id: TransferId::from_u128(1),
        account: ACCOUNT,
        amount: Credits::from_nanos(balance),
        at: NOW,
        terms: LotTerms::default(),
    };
    storage.ledger.grant(grant).await.unwrap();
    storage
}

pub fn hold(number: u128, amount: i64) -> NewHold {
    NewHold {
        id: HoldId::from_u128(number),
        account: ACCOUNT,
        principal: None,
        request: RequestId::from_u128(number),
        amount: Credits::from_nanos(amount),
        price_version: PriceVersion::from_u64(9),
        model: Arc::from("maker/model"),
        endpoint: "/v1/chat/completions",
        not_covered_by: Arc::default(),
        created_at: NOW,
        expires_at: NOW,
    }
}

pub fn settlement(number: u128, charge: i64) -> Settlement {
    Settlement {
        hold: HoldId::from_u128(number),
        account: ACCOUNT,
        charge: Credits::from_nanos(charge),
        overrun: Credits::ZERO,
        usage: Usage::tokens(1, 1),
        outcome: Outcome::Ok,
        estimated: false,
        target: Arc::from("sim"),
        first_at: None,
        ended_at: NOW,
    }
}

/// Two nodes share a balance for exactly 10 calls and hold exactly 10. Both nodes report the same
/// balance, and a hold that both settle is settled once.
#[test]
fn nodes_never_overspend_together() {
    let database = TestDatabase::create();
    database.block_on(async {
        let one = one_account(&database, 109).await;
        let two = postgres::open(database.config()).await.unwrap();
        let nodes = [&one, &two];
        let holds = (0..200).map(|number| nodes[number % 2].ledger.hold(hold(number as u128, 10)));
        let outcomes: Vec<HoldOutcome> = join_all(holds).await.into_iter().map(Result::unwrap).collect();
        let held: Vec<u128> = (0..200)
            .filter(|number| matches!(outcomes[*number as usize], HoldOutcome::Held { .. }))
            .collect();
        assert_eq!(held.len(), 10);
        let settles = held
            .iter()
            .flat_map(|number| nodes.map(|node| node.ledger.settle(settlement(*number, 10))));
        let resolutions = join_all(settles).await;
        let first = resolutions
            .iter()
            .filter(|resolution| resolution.as_ref().unwrap().first);
        assert_eq!(first.count(), 10);
        let expected = Balance {
            credits: Credits::from_nanos(9),
            held: Credits::ZERO,
        };
        for node in nodes {
            assert_eq!(node.ledger.balance(ACCOUNT).await.unwrap(), expected);
        }
        assert_eq!(LedgerSnapshot::read(&two).await.of(ACCOUNT).usage.len(), 10);
    });
}

/// A node whose clock is a month ahead takes a hold and dies. The hold expires within two days of
/// the true time. The hold of a job and a hold with a usual expiry stay unchanged.
#[test]
fn holds_dated_by_a_fast_clock_expire() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 100).await;
        let month = Duration::from_hours(30 * 24);
        for (number, expires_at) in [
            (1, NOW.plus(month)),
            (2, NOW.plus(Duration::from_mins(30))),
            (3, Timestamp::from_micros(i64::MAX)),
        ] {
            let hold = NewHold {
                expires_at,
                ..hold(number, 10)
            };
            storage.ledger.hold(hold).await.unwrap();
        }
        assert_eq!(storage.ledger.sweep(NOW, 10).await.unwrap(), 0);
        let open = LedgerSnapshot::read(&storage).await.of(ACCOUNT).holds.clone();
        let expiries: Vec<Timestamp> = open.iter().map(|hold| hold.expires_at).collect();
        let expected = [
            latest_expiry(NOW),
            NOW.plus(Duration::from_mins(30)),
            Timestamp::from_micros(i64::MAX),
        ];
        assert_eq!(expiries, expected);
        assert_eq!(storage.ledger.sweep(latest_expiry(NOW), 10).await.unwrap(), 2);
    });
}

/// Two nodes that sweep and refund concurrently expire a lot once and refund a call once.
#[test]
fn nodes_share_lots() {
    let database = TestDatabase::create();
    database.block_on(async {
        let one = one_account(&database, 100).await;
        let two = postgres::open(database.config()).await.unwrap();
        let nodes = [&one, &two];
        let lasting = Grant {
            id: TransferId::from_u128(2),
            account: ACCOUNT,
            amount: Credits::from_nanos(50),
            at: NOW,
            terms: LotTerms {
                expires_at: Some(NOW.plus(Duration::from_secs(1))),
                ..LotTerms::default()
            },
        };
        one.ledger.grant(lasting).await.unwrap();
        two.ledger.hold(hold(9, 20)).await.unwrap();
        one.ledger.settle(settlement(9, 20)).await.unwrap();
        let later = NOW.plus(Duration::from_secs(2));
        let rounds = (0..16).map(|number| nodes[number % 2].lots.expire(later, 10));
        let expired: u64 = join_all(rounds).await.into_iter().map(Result::unwrap).sum();
        assert_eq!(expired, 1);
        let refund = NewRefund {
            id: refund_id(HoldId::from_u128(9), "all"),
            account: ACCOUNT,
            hold: HoldId::from_u128(9),
            amount: None,
            reason: String::new(),
            at: later,
        };
        let refunds = (0..16).map(|number| nodes[number % 2].lots.refund(refund.clone()));
        let done = join_all(refunds).await.into_iter().map(Result::unwrap);
        let first = done.filter(|outcome| {
            matches!(
                outcome,
                RefundOutcome::Done {
                    is_repeated: false,
                    ..
                }
            )
        });
        assert_eq!(first.count(), 1);
        for node in nodes {
            let balance = node.ledger.balance(ACCOUNT).await.unwrap();
            assert_eq!(balance.credits, Credits::from_nanos(120));
        }
        LedgerSnapshot::read(&two).await;
    });
}

/// Two nodes that sweep, settle and hold concurrently do not deadlock.
#[test]
fn nodes_do_not_deadlock() {
    let database = TestDatabase::create();
    database.block_on(async {
        let one = one_account(&database, 1_000_000).await;
        let two = postgres::open(database.config()).await.unwrap();
        let calls = (0..64_u128).map(|number| {
            let (mine, other) = if number % 2 == 0 {
                (&one, &two)
            } else {
                (&two, &one)
            };
            async move {
                mine.ledger.hold(hold(number, 10)).await.unwrap();
                let (swept, settled, again) = tokio::join!(
                    other.ledger.sweep(NOW, 3),
                    mine.ledger.settle(settlement(number, 4)),
                    other.ledger.hold(hold(number, 10)),
                );
                assert!(again.is_err());
                settled.unwrap();
                swept.unwrap();
            }
        });
        join_all(calls).await;
        assert_eq!(LedgerSnapshot::read(&one).await.of(ACCOUNT).usage.len(), 64);
    });
}

#[test]
fn changed_usage_hours_are_found() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 100).await;
        storage.ledger.hold(hold(1, 10)).await.unwrap();
        storage.ledger.settle(settlement(1, 7)).await.unwrap();
        let now = NOW.plus(Duration::from_hours(3));
        assert!(!storage.usage_hours.advance(ACCOUNT, now).await.unwrap());
        assert_eq!(storage.usage_hours.differences().await.unwrap(), []);
        database
            .execute("UPDATE usage_hour SET charge = charge + 1")
            .await;
        let sums = |nanos| HourSums {
            requests: 1,
            charge: Credits::from_nanos(nanos),
        };
        let expected = HourDifference {
            account: ACCOUNT,
            hours: sums(8),
            rows: sums(7),
        };
        assert_eq!(storage.usage_hours.differences().await.unwrap(), [expected]);
    });
}

/// Two nodes that save new chats concurrently never exceed the cap of the account.
#[test]
fn nodes_share_the_cap_of_chats() {
    let database = TestDatabase::create();
    database.block_on(async {
        let one = one_account(&database, 1).await;
        let two = postgres::open(database.config()).await.unwrap();
        let nodes = [&one, &two];
        for round in 1..=8_u32 {
            let saves = (0..8).map(|number| {
                nodes[number % 2].chats.save(ChatSave {
                    account: ACCOUNT,
                    id: ChatId::from_u128(u128::from(round) * 100 + number as u128),
                    created_by: None,
                    kind: "chat".to_owned(),
                    title: Some(Vec::new()),
                    models: Vec::new(),
                    settings: Vec::new(),
                    base_revision: 0,
                    from: 0,
                    turns: Vec::new(),
                    digest: [0; 32],
                    cap: round,
                    max_turns: 1,
                    max_bytes: 1,
                    at: NOW,
                })
            });
            let outcomes = join_all(saves).await.into_iter().map(Result::unwrap);
            let saved = outcomes.filter(|outcome| matches!(outcome, ChatSaveOutcome::Saved(_)));
            assert_eq!(saved.count(), 1);
            assert_eq!(two.chats.count(ACCOUNT).await.unwrap(), round);
        }
    });
}

/// The engine is opened on one runtime and used concurrently from three others, each with one
/// thread. No call is lost when a runtime ends.
#[test]
fn runtimes_share_one_engine() {
    let database = TestDatabase::create();
    let first = Builder::new_current_thread().enable_all().build().unwrap();
    let storage = first.block_on(one_account(&database, 1_000_000));
    drop(first);
    std::thread::scope(|scope| {
        let (sender, abandoned) = mpsc::channel();
        for worker in 0..3_u128 {
            let (storage, sender) = (storage.clone(), sender.clone());
            scope.spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    for round in 0..20 {
                        let number = worker * 1000 + round;
                        let holds = (0..4).map(|part| storage.ledger.hold(hold(number * 10 + part, 10)));
                        assert!(join_all(holds).await.iter().all(Result::is_ok));
                        let settles =
                            (0..4).map(|part| storage.ledger.settle(settlement(number * 10 + part, 3)));
                        assert!(join_all(settles).await.iter().all(Result::is_ok));
                    }
                    // Started on this runtime, which ends before the reply arrives.
                    let last = hold(900_000 + worker, 10);
                    let started = storage.ledger.hold(last).now_or_never();
                    sender.send(started.is_none()).unwrap();
                });
            });
        }
        drop(sender);
        assert_eq!(abandoned.iter().filter(|started| *started).count(), 3);
    });
    database.block_on(async {
        // A started call completes.
        while storage.ledger.balance(ACCOUNT).await.unwrap().held != Credits::from_nanos(30) {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            LedgerSnapshot::read(&storage).await.of(ACCOUNT).usage.len(),
            3 * 20 * 4
        );
        storage.engine.close().await.unwrap();
    });
}
