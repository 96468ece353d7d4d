//! The PostgreSQL engine: several nodes on one database.
//!
//! Hold and settle are one round trip each, to functions that the migrations define; the row of an account's
//! credits is the lock that orders everything that moves them. The connections must be to a primary, with a
//! transaction or a session for each call: a pooler in front must keep prepared statements and start-up options.

mod account;
mod admin;
mod audit;
mod audit_log;
mod error;
mod idempotency;
mod key;
mod ledger;
mod lot;
mod member;
mod moving;
mod news;
mod notice;
mod pool;
mod price;
mod refund;
mod report;
mod response;
mod rows;
mod schema;
mod subscription;
mod top_up;
mod usage;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgConnectOptions;
use tollgate_storage::{Engine, Result, Storage};

use pool::Pool;

pub(crate) use moving::PostgresSide;
pub use schema::migrate;

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
    Ok(Storage {
        accounts: Arc::new(account::Accounts(pool.clone())),
        keys: Arc::new(key::Keys(pool.clone())),
        ledger: Arc::new(ledger::Ledger(pool.clone())),
        lots: Arc::new(lot::Lots(pool.clone())),
        notices: Arc::new(notice::Notices(pool.clone())),
        top_ups: Arc::new(top_up::TopUps(pool.clone())),
        usage: Arc::new(usage::UsageRows(pool.clone())),
        reports: Arc::new(report::Reports(pool.clone())),
        admins: Arc::new(admin::Admins(pool.clone())),
        audit_log: Arc::new(audit_log::AuditRows(pool.clone())),
        members: Arc::new(member::Members(pool.clone())),
        prices: Arc::new(price::PriceVersions(pool.clone())),
        responses: Arc::new(response::Responses(pool.clone())),
        subscriptions: Arc::new(subscription::Subscriptions(pool.clone())),
        idempotency: Arc::new(idempotency::Idempotency(pool.clone())),
        news: Arc::new(news::Listener::new(pool.clone())),
        engine: Arc::new(PostgresEngine(pool)),
    })
}

struct PostgresEngine(Arc<Pool>);

#[async_trait]
impl Engine for PostgresEngine {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn ping(&self) -> Result<()> {
        self.0.one(sqlx::query("SELECT 1")).await.map(drop)
    }

    /// Everything is committed before it is answered.
    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}
