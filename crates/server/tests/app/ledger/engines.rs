//! A ledger in a real engine that tests can falsify.

use std::sync::Arc;

use tempfile::TempDir;
use tollgate_backends::postgres::{self, PostgresConfig};
use tollgate_backends::sqlite::{self, SqliteConfig};
use tollgate_billing::check_ledger;
use tollgate_storage::{
    Account, AccountState, Cadence, Grant, HoldOutcome, Limits, LotTerms, NewHold, NewSubscription, Payer,
    PriceRecord, Product, Settlement, Storage,
};
use tollgate_testkit::gateway::{Database, execute_embedded};
use tollgate_types::clock::ManualClock;
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, HoldId, PriceVersion, Prices, RequestId, SubscriptionId, Timestamp, Usage,
};

/// Time when the tests start: 2026-11-20, 13:30:00 UTC.
pub const START: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);
/// The account of most tests.
pub const ACCOUNT: AccountId = AccountId::from_u128(1);
/// The price version of every call.
pub const VERSION: PriceVersion = PriceVersion::from_u64(9);

#[derive(Clone, Copy, Debug)]
pub enum Engine {
    Sqlite,
    Postgres,
}

pub const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

enum Place {
    Directory(TempDir),
    Database(Database),
}

/// A ledger in its own storage engine.
pub struct TestLedger {
    place: Place,
    pub storage: Storage,
}

impl Place {
    async fn open(&self) -> Storage {
        match self {
            Place::Directory(directory) => {
                let clock = Arc::new(ManualClock::at(START));
                sqlite::open(SqliteConfig::new(directory.path(), clock))
                    .await
                    .unwrap()
            }
            Place::Database(database) => {
                let config = PostgresConfig {
                    max_connections: 4,
                    ..PostgresConfig::new(database.url())
                };
                postgres::open(config).await.unwrap()
            }
        }
    }

    async fn execute(&self, statements: &str) {
        match self {
            Place::Directory(directory) => {
                execute_embedded(&directory.path().join("tollgate.db"), statements).await;
            }
            Place::Database(database) => database.execute(statements).await,
        }
    }
}

impl TestLedger {
    /// Creates an empty ledger.
    pub async fn open(engine: Engine) -> TestLedger {
        let place = match engine {
            Engine::Sqlite => Place::Directory(TempDir::new().unwrap()),
            Engine::Postgres => {
                let database = Database::create().await;
                postgres::migrate(&database.url()).await.unwrap();
                Place::Database(database)
            }
        };
        let storage = place.open().await;
        TestLedger { place, storage }
    }

    /// Executes statements while the engine is closed, without the triggers that reject changes.
    pub async fn falsify(&mut self, statements: &str) {
        self.storage.engine.close().await.unwrap();
        let unguarded = match self.place {
            Place::Directory(_) => {
                "DROP TRIGGER transfer_no_update; DROP TRIGGER transfer_no_delete;
                DROP TRIGGER usage_row_no_update; DROP TRIGGER usage_row_no_delete;
                DROP TRIGGER usage_part_no_update; DROP TRIGGER usage_part_no_delete;
                DROP TRIGGER price_version_no_update; DROP TRIGGER refund_no_update"
            }
            Place::Database(_) => {
                "DROP TRIGGER transfer_append_only ON transfer; DROP TRIGGER usage_row_append_only ON usage_row;
                DROP TRIGGER usage_part_append_only ON usage_part; DROP TRIGGER price_version_append_only ON price_version;
                DROP TRIGGER refund_append_only ON refund"
            }
        };
        self.place.execute(unguarded).await;
        self.place.execute(statements).await;
        self.storage = self.place.open().await;
    }

    /// Records these prices as [`VERSION`].
    pub async fn price(&self, prices: Prices) {
        let record = PriceRecord {
            version: VERSION,
            model: "maker/model".to_owned(),
            prices,
            created_at: START,
        };
        self.storage.prices.record(vec![record]).await.unwrap();
    }

    /// Subscribes the account to a plan with a weekly allowance of `weekly` nano-credits, paid
    /// through a provider.
    pub async fn subscribe(&self, account: AccountId, weekly: i64) {
        let new = NewSubscription {
            id: SubscriptionId::from_u128(account.as_u128()),
            account,
            product: Product::Plan,
            subject: Arc::from("lite"),
            price: Credits::from_nanos(30),
            cadence: Cadence::Yearly,
            payer: Payer::Provider,
            allowance: Credits::from_nanos(weekly),
            anchor: START,
            paid_through: Timestamp::from_micros(i64::MAX),
        };
        self.storage.subscriptions.subscribe(new).await.unwrap();
    }

    /// Returns the faults that a ledger check finds.
    pub async fn faults(&self) -> Vec<String> {
        let report = check_ledger(&*self.storage.ledger, false).await.unwrap();
        report.faults.iter().map(ToString::to_string).collect()
    }

    pub async fn close(self) {
        self.storage.engine.close().await.unwrap();
    }

    /// Creates an account with `amount` nano-credits.
    pub async fn fund(&self, account: AccountId, amount: i64) {
        let new = Account {
            id: account,
            name: "tenant".to_owned(),
            state: AccountState::Active,
            limits: Limits::default(),
            test_clock: None,
            created_at: START,
        };
        self.storage.accounts.create(new).await.unwrap();
        let grant = Grant {
            id: TransferId::from_u128(account.as_u128() << 64),
            account,
            amount: Credits::from_nanos(amount),
            at: START,
            terms: LotTerms::default(),
        };
        self.storage.ledger.grant(grant).await.unwrap();
    }

    /// Records a hold and its settlement.
    pub async fn call(&self, hold: NewHold, settlement: Settlement) {
        let taken = self.storage.ledger.hold(hold).await.unwrap();
        assert!(matches!(taken, HoldOutcome::Held { .. }), "{taken:?}");
        assert!(self.storage.ledger.settle(settlement).await.unwrap().first);
    }
}

/// Creates a hold of `amount` nano-credits.
pub fn hold(number: u128, account: AccountId, amount: i64) -> NewHold {
    NewHold {
        id: HoldId::from_u128(number),
        account,
        principal: None,
        request: RequestId::from_u128(number),
        amount: Credits::from_nanos(amount),
        price_version: VERSION,
        model: Arc::from("maker/model"),
        endpoint: "/v1/chat/completions",
        not_covered_by: Arc::default(),
        created_at: START,
        expires_at: Timestamp::from_micros(START.as_micros() + 3_600_000_000),
    }
}

/// Creates the settlement of a hold with a charge of `charge` nano-credits.
pub fn settlement(hold: &NewHold, charge: i64) -> Settlement {
    Settlement {
        hold: hold.id,
        account: hold.account,
        charge: Credits::from_nanos(charge),
        overrun: Credits::ZERO,
        usage: Usage::tokens(u64::try_from(charge).unwrap(), 0),
        outcome: Outcome::Ok,
        estimated: false,
        target: Arc::from("upstream"),
        first_at: None,
        ended_at: Timestamp::from_micros(START.as_micros() + 1),
    }
}
