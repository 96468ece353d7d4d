//! Helpers that create directories, accounts and calls for tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
use tollgate_backends::sqlite::{SqliteConfig, open};
use tollgate_storage::{
    Account, AccountState, Cadence, Grant, HoldOutcome, Limits, LotTerms, NewHold, NewSubscription, Payer,
    Product, Result, Settlement, Storage,
};
use tollgate_types::clock::ManualClock;
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Clock, Credits, HoldId, KeyId, PriceVersion, Principal, RequestId, SubscriptionId, Timestamp,
    Usage,
};

/// 2026-11-20, 13:30:00 UTC.
pub const START: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);

/// A temporary directory, removed when it is dropped.
pub struct Directory(TempDir);

/// A data directory of the engine.
#[derive(Clone, Debug)]
pub struct DataDir(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        Directory(TempDir::new().unwrap())
    }

    pub fn path(&self) -> DataDir {
        DataDir(self.0.path().join("data"))
    }

    /// Copies the data directory in the state that a crash would leave; returns the copy.
    pub fn crash(&self, name: &str) -> DataDir {
        self.path().crash(name)
    }
}

impl DataDir {
    /// Returns settings with which the engine writes the journal to the database only for a read,
    /// an administrative write or a flush.
    pub fn config(&self, clock: Arc<dyn Clock>) -> SqliteConfig {
        SqliteConfig {
            commit_after: Duration::from_secs(3600),
            commit_records: usize::MAX,
            ..SqliteConfig::new(&self.0, clock)
        }
    }

    pub async fn open(&self) -> Result<Storage> {
        open(self.config(Arc::new(ManualClock::at(START)))).await
    }

    /// Executes a statement in the database, without the engine.
    pub async fn change(&self, statement: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.0.join("tollgate.db"));
        let mut connection = options.connect().await.unwrap();
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Copies the directory, in the state that a crash would leave, to a sibling directory with
    /// this name. A separate process copies the files, because closing a file in this process would
    /// release the engine's locks on it.
    pub fn crash(&self, name: &str) -> DataDir {
        let to = self.0.with_file_name(name);
        std::fs::create_dir_all(&to).unwrap();
        for what in ["tollgate.db", "tollgate.db-wal", "journal"] {
            if self.0.join(what).exists() {
                let done = Command::new("cp")
                    .arg("-a")
                    .arg(self.0.join(what))
                    .arg(&to)
                    .status()
                    .unwrap();
                assert!(done.success(), "{what}");
            }
        }
        DataDir(to)
    }

    /// Returns the paths of the journal's files, sorted.
    pub fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.join("journal")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

/// Runs a test on two threads.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

pub fn nanos(nanos: i64) -> Credits {
    Credits::from_nanos(nanos)
}

pub fn at(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// Creates a plan with a weekly allowance. A payment provider pays for the plan, for 52 weeks.
pub fn plan(number: u128, account: AccountId, weekly: i64) -> NewSubscription {
    NewSubscription {
        id: SubscriptionId::from_u128(number),
        account,
        product: Product::Plan,
        subject: Arc::from("lite"),
        price: nanos(30),
        cadence: Cadence::Yearly,
        payer: Payer::Provider,
        allowance: nanos(weekly),
        anchor: START,
        paid_through: at(52 * 7 * 24 * 3600),
    }
}

pub fn account(number: u128) -> AccountId {
    AccountId::from_u128(number)
}

pub async fn create(storage: &Storage, number: u128) -> AccountId {
    let new = Account {
        id: account(number),
        name: format!("tenant {number}"),
        state: AccountState::Active,
        limits: Limits::default(),
        test_clock: None,
        created_at: START,
    };
    storage.accounts.create(new).await.unwrap();
    account(number)
}

pub fn grant(number: u128, account: AccountId, amount: i64) -> Grant {
    Grant {
        id: TransferId::from_u128(number),
        account,
        amount: nanos(amount),
        at: START,
        terms: LotTerms::default(),
    }
}

pub async fn funded(storage: &Storage, number: u128, balance: i64) -> AccountId {
    let id = create(storage, number).await;
    storage.ledger.grant(grant(number, id, balance)).await.unwrap();
    id
}

pub fn hold(number: u128, account: AccountId, amount: i64) -> NewHold {
    NewHold {
        id: HoldId::from_u128(number),
        account,
        principal: Some(Principal::Key(KeyId::from_u128(5))),
        request: RequestId::from_u128(number),
        amount: nanos(amount),
        price_version: PriceVersion::from_u64(u64::MAX),
        model: Arc::from("maker/model"),
        endpoint: "/v1/chat/completions",
        not_covered_by: Arc::default(),
        created_at: START,
        expires_at: at(3600),
    }
}

pub async fn take(storage: &Storage, hold: NewHold) -> NewHold {
    let outcome = storage.ledger.hold(hold.clone()).await.unwrap();
    assert!(matches!(outcome, HoldOutcome::Held { .. }), "{outcome:?}");
    hold
}

pub fn settlement(hold: &NewHold, charge: i64) -> Settlement {
    Settlement {
        hold: hold.id,
        account: hold.account,
        charge: nanos(charge),
        overrun: Credits::ZERO,
        usage: Usage::tokens(12, 34),
        outcome: Outcome::Ok,
        estimated: false,
        target: Arc::from("sim"),
        first_at: Some(at(1)),
        ended_at: at(2),
    }
}

pub async fn call(storage: &Storage, hold: NewHold, charge: i64) {
    let hold = take(storage, hold).await;
    assert!(
        storage
            .ledger
            .settle(settlement(&hold, charge))
            .await
            .unwrap()
            .first
    );
}
