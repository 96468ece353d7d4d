//! The PostgreSQL engine: several nodes share one database.
//!
//! A hold and a settlement are one round trip each, to functions that the migrations define. The
//! row of an account's credits is the lock that orders all changes of them. Connections must go to
//! a primary. A connection pooler must work per transaction or session and support prepared
//! statements and startup options. Nodes hold and settle the calls of busy accounts without a round
//! trip ([`lease`]).

mod account;
mod admin;
mod audit;
mod audit_log;
mod batch_line;
mod calibration;
mod chat;
mod client_secret;
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
mod notice;
mod notifications;
mod person;
mod pool;
mod price;
mod provider_subscription;
mod refund;
mod report;
mod response;
mod rows;
mod schema;
mod session;
mod subscription;
mod top_up;
mod transfer;
mod unsettled;
mod usage;
mod usage_hour;
mod webhook;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgConnectOptions;
use tollgate_storage::{Engine, NotificationSource, Result, Storage};
use tollgate_types::{AccountId, Credits, Timestamp};

pub use lease::LeaseConfig;
use lease::Leases;
use pool::Pool;
use unsettled::Unsettled;

pub use schema::migrate;
pub(crate) use transfer::PostgresSide;

/// Timeout of a hold that waits for recalled leases to be released.
const RECALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Initial and maximum pause between attempts, with exponential backoff.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// Connection settings of the database.
#[derive(Clone)]
pub struct PostgresConfig {
    /// `postgres://user:password@host:port/database?sslmode=verify-full`. Contains a secret.
    pub url: String,
    /// Maximum number of connections of this process.
    pub max_connections: u32,
    /// Timeout of acquiring a connection, including opening one.
    pub acquire_timeout: Duration,
    /// Timeout of a statement, enforced by the database.
    pub statement_timeout: Duration,
    /// Settings of balance leases; `None` if this process serves no calls.
    pub leases: Option<LeaseConfig>,
}

impl PostgresConfig {
    /// Creates settings for the database at this URL: 16 connections, a timeout of 5 seconds for
    /// acquiring a connection and of 10 seconds for a statement, and no leases.
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

/// Checks a database URL without connecting. The error contains no part of the URL.
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

/// Opens the database. The stores can be used from any runtime, because connections live on a
/// separate runtime of the engine. A call completes even if its caller is dropped.
///
/// Returns `Unavailable` if the database cannot be reached, or if its schema does not match this
/// program; in the second case run `tollgate migrate` first.
pub async fn open(config: PostgresConfig) -> Result<Storage> {
    let pool = Arc::new(Pool::open(&config).await?);
    schema::check(&pool).await?;
    let notifications: Arc<dyn NotificationSource> = Arc::new(notifications::Listener::new(pool.clone()));
    let leases = match config.leases {
        Some(leases) => Some(Leases::open(pool.clone(), leases, notifications.clone()).await?),
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
        usage_hours: Arc::new(usage_hour::UsageHours(node.clone())),
        reports: Arc::new(report::Reports(node.clone())),
        admins: Arc::new(admin::Admins(pool.clone())),
        audit_log: Arc::new(audit_log::AuditRows(pool.clone())),
        members: Arc::new(member::Members(pool.clone())),
        people: Arc::new(person::People(pool.clone())),
        sessions: Arc::new(session::Sessions(pool.clone())),
        client_secrets: Arc::new(client_secret::ClientSecrets(pool.clone())),
        prices: Arc::new(price::PriceVersions(pool.clone())),
        responses: Arc::new(response::Responses(pool.clone())),
        media: Arc::new(media::MediaRows(pool.clone())),
        files: Arc::new(file::Files(pool.clone())),
        batches: Arc::new(batch_line::BatchLines(pool.clone())),
        calibrations: Arc::new(calibration::Calibrations(pool.clone())),
        chats: Arc::new(chat::Chats(pool.clone())),
        subscriptions: Arc::new(subscription::Subscriptions(node.clone())),
        provider_subscriptions: Arc::new(provider_subscription::ProviderSubscriptions(pool.clone())),
        idempotency: Arc::new(idempotency::Idempotency(pool.clone())),
        jobs: Arc::new(job::Jobs(node.clone())),
        label_priors: Arc::new(label_prior::LabelPriors(pool.clone())),
        webhooks: Arc::new(webhook::Webhooks(pool.clone())),
        notifications,
        engine: Arc::new(PostgresEngine(node)),
    })
}

/// The database and the unreported state of this process.
struct Node {
    pool: Arc<Pool>,
    leases: Option<Arc<Leases>>,
    unsettled: Unsettled,
}

impl Node {
    /// Returns the pool after reporting all ended calls of this process, of one account or all.
    async fn settled(&self, account: Option<AccountId>) -> &Pool {
        if let Some(leases) = &self.leases {
            leases.report(account).await;
        }
        &self.pool
    }

    /// Recalls the leases of an account on all nodes and returns their remaining credits.
    async fn recall(&self, account: AccountId) -> Result<RecalledLeases> {
        let statement = sqlx::query("SELECT leased, unused FROM recall_leases($1)");
        let row = self
            .pool
            .one(statement.bind(account.as_u128().to_be_bytes()))
            .await?;
        if let Some(leases) = &self.leases {
            leases.release(account);
        }
        Ok(RecalledLeases {
            leased: rows::credits(&row, "leased")?,
            unused: rows::credits(&row, "unused")?,
        })
    }

    /// Recalls an account's leases and waits up to `RECALL_TIMEOUT` for their release. Returns
    /// whether the account had leases.
    async fn recall_and_wait(&self, account: AccountId) -> Result<bool> {
        let (mut pause, mut waited) = (RETRY_PAUSES[0], Duration::ZERO);
        while !self.recall(account).await?.leased.is_zero() && waited < RECALL_TIMEOUT {
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(RETRY_PAUSES[1]);
        }
        Ok(!waited.is_zero())
    }
}

/// Sums over the leases of an account.
struct RecalledLeases {
    leased: Credits,
    /// Part that no call held at the last report.
    unused: Credits,
}

struct PostgresEngine(Arc<Node>);

#[async_trait]
impl Engine for PostgresEngine {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn ping(&self) -> Result<()> {
        self.0.pool.fatal().check()?;
        self.0.pool.one(sqlx::query("SELECT 1")).await.map(drop)
    }

    async fn failed(&self) -> String {
        self.0.pool.fatal().reported().await
    }

    async fn time(&self) -> Result<Option<Timestamp>> {
        let now = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT AS now";
        let row = self.0.pool.one(sqlx::query(now)).await?;
        Ok(Some(Timestamp::from_micros(rows::get(&row, "now")?)))
    }

    /// Reports calls settled from leases; all other changes are committed before they return.
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
