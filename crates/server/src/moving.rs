//! `tollgate move`: copies an installation to the other storage engine, checks the ledger of the
//! target, and lists the settings to change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use secrecy::ExposeSecret;
use serde::Serialize;
use tollgate_backends::transfer::{self, Error, Route, TableChecksum, TransferSummary};
use tollgate_backends::{postgres, sqlite};
use tollgate_billing::check::check_ledger;
use tollgate_storage::Storage;
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;

use crate::config::resolve::storage_at;
use crate::config::{Config, ConfigError, StorageUrl};
use tollgate_operations::view::CheckView;

pub use tollgate_backends::transfer::TransferProgress;

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveView {
    /// Source engine: `sqlite` or `postgres`.
    pub from: &'static str,
    /// Target engine: `sqlite` or `postgres`.
    pub to: &'static str,
    /// The tables, in the order of copying.
    pub tables: Vec<TableView>,
    /// Total number of rows.
    pub rows: u64,
    /// Number of accounts that own rows. The rows of each account are identical in both databases.
    pub accounts: u64,
    /// The sum of all balances of each kind, in nano-credits, as decimal strings. The sums are
    /// identical in both databases.
    pub balances: BTreeMap<String, String>,
    /// The result of `ledger check --reprice` on the target.
    pub ledger: CheckView,
    /// Instructions for the settings to change before the gateway starts on the target.
    pub settings: Vec<String>,
}

/// A table whose contents are identical in both databases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableView {
    /// Name of the table.
    pub table: String,
    /// Number of rows.
    pub rows: u64,
    /// Digest of all rows, which does not depend on their order.
    pub digest: String,
    /// The sum of each numeric column, as decimal strings.
    pub sums: BTreeMap<String, String>,
}

/// The reason why a move failed.
#[derive(Debug)]
pub enum MoveError {
    /// `--from` or `--to` is invalid.
    Settings(ConfigError),
    /// A database cannot be used, and nothing was written. The text contains the fix.
    Refused(String),
    /// The move failed after it had started.
    Failed(anyhow::Error),
}

impl From<Error> for MoveError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(why) => MoveError::Refused(why),
            error => MoveError::Failed(error.into()),
        }
    }
}

/// Moves the installation at `from` to the empty database at `to`. Calls `watch` with the progress.
/// Blocks the calling thread.
pub fn run(
    config: &Config,
    from: &str,
    to: &str,
    watch: &mut dyn FnMut(TransferProgress<'_>),
) -> Result<MoveView, MoveError> {
    let route = route(config, from, to).map_err(MoveError::Settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| MoveError::Failed(error.into()))?;
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let moved = transfer::run(&route, clock.clone(), watch).await?;
        let ledger = check(&route, clock).await;
        let ledger = ledger.context("all data was moved, but the target's ledger could not be checked");
        Ok(view(config, &route, moved, ledger.map_err(MoveError::Failed)?))
    })
}

fn route(config: &Config, from: &str, to: &str) -> Result<Route, ConfigError> {
    let directory = |file: PathBuf| file.parent().unwrap_or(&config.data).to_owned();
    let source = storage_at("--from", from, &config.data)?;
    let target = storage_at("--to", to, &config.data)?;
    match (source, target) {
        (StorageUrl::Sqlite(file), StorageUrl::Postgres(url)) => Ok(Route::ToPostgres {
            dir: directory(file),
            url: url.expose_secret().to_owned(),
        }),
        (StorageUrl::Postgres(url), StorageUrl::Sqlite(file)) => Ok(Route::ToSqlite {
            url: url.expose_secret().to_owned(),
            dir: directory(file),
        }),
        (StorageUrl::Sqlite(_), StorageUrl::Sqlite(_)) => Err(ConfigError::new(
            "--to",
            "both sides are SQLite: stop the server and copy the data directory (docs/operations/backups.md)",
        )),
        (StorageUrl::Postgres(_), StorageUrl::Postgres(_)) => Err(ConfigError::new(
            "--to",
            "both sides are PostgreSQL: use pg_dump and pg_restore (docs/operations/backups.md)",
        )),
    }
}

/// Checks the ledger of the target, including the cost of every usage row.
async fn check(route: &Route, clock: Arc<dyn Clock>) -> anyhow::Result<CheckView> {
    let storage: Storage = match route {
        Route::ToPostgres { url, .. } => postgres::open(postgres::PostgresConfig::new(url.as_str())).await?,
        Route::ToSqlite { dir, .. } => sqlite::open(sqlite::SqliteConfig::new(dir, clock)).await?,
    };
    let report = check_ledger(&*storage.ledger, true).await;
    storage.engine.close().await?;
    Ok(CheckView::from(&report?))
}

fn view(config: &Config, route: &Route, moved: TransferSummary, ledger: CheckView) -> MoveView {
    let (from, to) = match route {
        Route::ToPostgres { .. } => ("sqlite", "postgres"),
        Route::ToSqlite { .. } => ("postgres", "sqlite"),
    };
    let texts = |sums: &BTreeMap<String, i128>| {
        let text = |(name, sum): (&String, &i128)| (name.clone(), sum.to_string());
        sums.iter().map(text).collect::<BTreeMap<_, _>>()
    };
    let table = |checksum: &TableChecksum| TableView {
        table: checksum.table.clone(),
        rows: checksum.rows,
        digest: checksum.digest.clone(),
        sums: texts(&checksum.sums),
    };
    MoveView {
        from,
        to,
        rows: moved.tables.iter().map(|table| table.rows).sum(),
        accounts: moved.accounts,
        balances: moved
            .tables
            .iter()
            .flat_map(|table| texts(&table.balances))
            .collect(),
        tables: moved.tables.iter().map(table).collect(),
        ledger,
        settings: settings(config, route),
    }
}

/// Returns instructions for the settings that the operator must change. They contain no secret and
/// no URL of PostgreSQL, which may contain a password.
fn settings(config: &Config, route: &Route) -> Vec<String> {
    let service = &config.file.service;
    let named = service
        .pepper_env
        .as_ref()
        .map(|name| format!("service.pepper_env = \"{name}\""))
        .or_else(|| {
            service
                .pepper_file
                .as_ref()
                .map(|file| format!("service.pepper_file = \"{file}\""))
        });
    let (place, secret) = match route {
        Route::ToPostgres { dir, .. } => (
            "storage.url: the address from --to, on every node (set TOLLGATE_STORAGE__URL to keep its password out \
             of the file)."
                .to_owned(),
            match (named, own_pepper(config, dir)) {
                (Some(named), _) => format!("{named}: keep it, with the same secret on every node."),
                (None, Some(file)) => format!(
                    "service.pepper_file = \"{}\", the same file on every node: the keys work only with this secret.",
                    file.display()
                ),
                (None, None) => "service.pepper_file or service.pepper_env: the secret of the source server, from \
                    secrets/pepper in its data directory. The keys work only with this secret."
                    .to_owned(),
            },
        ),
        Route::ToSqlite { dir, .. } => (
            format!(
                "storage.url = \"sqlite:{}\".",
                whole(dir).join("tollgate.db").display()
            ),
            match named {
                Some(named) => format!("{named}: keep it; the keys work only with this secret."),
                None => "service.pepper_file or service.pepper_env: the secret of the nodes; the keys work only with \
                    this secret."
                    .to_owned(),
            },
        ),
    };
    let never = "Never start the gateway on the old database again: the ledgers would diverge.";
    vec![place, secret, never.to_owned()]
}

/// Returns the absolute path of the pepper file in the data directory or in `dir`; `None` if
/// neither contains one.
fn own_pepper(config: &Config, dir: &Path) -> Option<PathBuf> {
    let places = [&config.data, dir].map(|data| data.join("secrets").join("pepper"));
    let found = places.into_iter().find(|place| place.exists())?;
    Some(whole(&found))
}

/// Returns the absolute path; `path` itself if it cannot be resolved.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
