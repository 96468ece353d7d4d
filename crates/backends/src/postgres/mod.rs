//! The PostgreSQL engine: several nodes on one database.
//!
//! Hold and settle are one round trip each, to functions that the migrations define; the row of an account's
//! credits is the lock that orders everything that moves them. The connections must be to a primary, with a
//! transaction or a session for each call: a pooler in front must keep prepared statements and start-up options.
//! A node that serves calls holds and settles those of busy accounts without a round trip ([`lease`]).

mod account;
mod admin;
mod audit;
mod audit_log;
mod batch_line;
mod calibration;
mod error;
mod file;
mod idempotency;
mod job;
mod key;
mod label_prior;
mod lease;
mod ledger;
mod lot;
mod media;
mod member;
mod moving;
mod news;
mod notice;
mod pool;
mod price;
mod provider_subscription;
mod refund;
mod report;
mod response;
mod rows;
mod schema;
mod subscription;
mod top_up;
mod unsettled;
mod usage;
mod webhook;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgConnectOptions;
use tollgate_storage::{Engine, NewsSource, Result, Storage};
use tollgate_types::{AccountId, Credits, Timestamp};

pub use lease::LeaseConfig;
use lease::Leases;
use pool::Pool;
use unsettled::Unsettled;

pub(crate) use moving::PostgresSide;
pub use schema::migrate;

/// For how long what is not covered waits for what leases give back.
const GATHERING: Duration = Duration::from_secs(1);
/// Between two attempts meanwhile, doubled up to the second one.
const TRY_AGAIN: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// How to reach the database.
#[derive(Clone)]
pub struct PostgresConfig {
    /// `postgres://user:password@host:port/database?sslmode=verify-full`. It holds a secret.
    pub url: String,
    /// Most connections that this process opens.
    pub max_connections: u32,
    /// How long a call waits for a connection, one that has to be opened included.
    pub acquire_timeout: Duration,
    /// How long the database works on one statement before it gives up.
    pub statement_timeout: Duration,
    /// How this process leases balances ahead of the calls that it serves; not at all when it serves none.
    pub leases: Option<LeaseConfig>,
}

impl PostgresConfig {
    /// The database at this address, with 16 connections and time-outs of 5 seconds for a connection and 10 for a
    /// statement.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            max_connections: 16,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            leases: None,
        }
    }
}

/// Why an address cannot be one of a database; nothing is connected. The reason repeats nothing of the address.
pub fn check_url(url: &str) -> std::result::Result<(), String> {
    let parsed = url.parse::<PgConnectOptions>();
    parsed.map(drop).map_err(|error| match error {
        sqlx::Error::Configuration(cause) => cause.to_string(),
        other => other.to_string(),
    })
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .finish_non_exhaustive()
    }
}

/// Opens the database. It can be called, and its stores used, from any number of runtimes: the connections live on a
/// runtime of the engine's own. A call that was begun is carried to its end even when its caller goes away.
///
/// `Unavailable` when the database cannot be reached, or when its schema is not the one of this program: then
/// `tollgate migrate` has to be run first.
pub async fn open(config: PostgresConfig) -> Result<Storage> {
    let pool = Arc::new(Pool::open(&config).await?);
    schema::check(&pool).await?;
    let news: Arc<dyn NewsSource> = Arc::new(news::Listener::new(pool.clone()));
    let leases = match config.leases {
        Some(leases) => Some(Leases::open(pool.clone(), leases, news.clone()).await?),
        None => None,
    };
    let node = Arc::new(Node {
        pool: pool.clone(),
        leases,
        unsettled: Unsettled::default(),
    });
    Ok(Storage {
        accounts: Arc::new(account::Accounts(pool.clone())),
        keys: Arc::new(key::Keys(pool.clone())),
        ledger: Arc::new(ledger::Ledger(node.clone())),
        lots: Arc::new(lot::Lots(node.clone())),
        notices: Arc::new(notice::Notices(pool.clone())),
        top_ups: Arc::new(top_up::TopUps(pool.clone())),
        usage: Arc::new(usage::UsageRows(node.clone())),
        reports: Arc::new(report::Reports(node.clone())),
        admins: Arc::new(admin::Admins(pool.clone())),
        audit_log: Arc::new(audit_log::AuditRows(pool.clone())),
        members: Arc::new(member::Members(pool.clone())),
        prices: Arc::new(price::PriceVersions(pool.clone())),
        responses: Arc::new(response::Responses(pool.clone())),
        media: Arc::new(media::MediaRows(pool.clone())),
        files: Arc::new(file::Files(pool.clone())),
        batches: Arc::new(batch_line::BatchLines(pool.clone())),
        calibrations: Arc::new(calibration::Calibrations(pool.clone())),
        subscriptions: Arc::new(subscription::Subscriptions(node.clone())),
        provider_subscriptions: Arc::new(provider_subscription::ProviderSubscriptions(pool.clone())),
        idempotency: Arc::new(idempotency::Idempotency(pool.clone())),
        jobs: Arc::new(job::Jobs(node.clone())),
        label_priors: Arc::new(label_prior::LabelPriors(pool.clone())),
        webhooks: Arc::new(webhook::Webhooks(pool.clone())),
        news,
        engine: Arc::new(PostgresEngine(node)),
    })
}

/// The database, and what this process has not told it yet.
struct Node {
    pool: Arc<Pool>,
    leases: Option<Arc<Leases>>,
    unsettled: Unsettled,
}

impl Node {
    /// The database, with every call in it that has ended here; of this account, or of all.
    async fn settled(&self, account: Option<AccountId>) -> &Pool {
        if let Some(leases) = &self.leases {
            leases.report(account).await;
        }
        &self.pool
    }

    /// Asks every node for what is left of its leases of an account.
    async fn recall(&self, account: AccountId) -> Result<Recalled> {
        let statement = sqlx::query("SELECT leased, unused FROM recall_leases($1)");
        let row = self
            .pool
            .one(statement.bind(account.as_u128().to_be_bytes()))
            .await?;
        if let Some(leases) = &self.leases {
            leases.give_back(account);
        }
        Ok(Recalled {
            leased: rows::credits(&row, "leased")?,
            unused: rows::credits(&row, "unused")?,
        })
    }

    /// Waits a while until leases of an account are given back; answers whether there were any.
    async fn gather(&self, account: AccountId) -> Result<bool> {
        let (mut pause, mut waited) = (TRY_AGAIN[0], Duration::ZERO);
        while !self.recall(account).await?.leased.is_zero() && waited < GATHERING {
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(TRY_AGAIN[1]);
        }
        Ok(!waited.is_zero())
    }
}

/// What leases of an account have.
struct Recalled {
    leased: Credits,
    /// How much of it no call holds, as was reported last.
    unused: Credits,
}

struct PostgresEngine(Arc<Node>);

#[async_trait]
impl Engine for PostgresEngine {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn ping(&self) -> Result<()> {
        self.0.pool.one(sqlx::query("SELECT 1")).await.map(drop)
    }

    async fn time(&self) -> Result<Option<Timestamp>> {
        let now = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT AS now";
        let row = self.0.pool.one(sqlx::query(now)).await?;
        Ok(Some(Timestamp::from_micros(rows::get(&row, "now")?)))
    }

    /// What is settled out of a lease is reported; everything else is committed before it is answered.
    async fn flush(&self) -> Result<()> {
        self.0.settled(None).await;
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        if let Some(leases) = &self.0.leases {
            leases.close().await?;
        }
        self.0.unsettled.finish(&self.0).await;
        self.0.pool.close().await
    }
}
