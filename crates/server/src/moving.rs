//! `tollgate move`: an installation goes to the other engine, its books are checked there, and the operator is told which
//! settings follow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use secrecy::ExposeSecret;
use serde::Serialize;
use tollgate_backends::moving::{self, Error, Moved, Route, TableTally};
use tollgate_backends::{postgres, sqlite};
use tollgate_billing::check::check_ledger;
use tollgate_storage::Storage;
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;

use crate::config::resolve::storage_at;
use crate::config::{Config, ConfigError, StorageUrl};
use crate::control::view::CheckView;

pub use tollgate_backends::moving::Step;

/// What was moved, and what is to be done now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveView {
    /// The engine that was left.
    pub from: &'static str,
    /// The engine that has everything now.
    pub to: &'static str,
    /// Each table, in the order in which they were copied.
    pub tables: Vec<TableView>,
    /// Rows of all tables.
    pub rows: u64,
    /// How many accounts own rows; the rows of each are the same on both sides.
    pub accounts: u64,
    /// The sum of all balances of each kind, in nano-credits, as decimal strings; the same on both sides.
    pub balances: BTreeMap<String, String>,
    /// What `ledger check --reprice` finds in the target.
    pub ledger: CheckView,
    /// What to change before the gateway is started on the target.
    pub settings: Vec<String>,
}

/// A table that has the same rows on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableView {
    /// Its name.
    pub table: String,
    /// How many rows.
    pub rows: u64,
    /// A digest of all rows, whatever their order.
    pub digest: String,
    /// The sum of each column that has numbers, as decimal strings.
    pub sums: BTreeMap<String, String>,
}

/// Why a move was not made.
#[derive(Debug)]
pub enum MoveError {
    /// It cannot be meant like this.
    Settings(ConfigError),
    /// A side is not fit for it; nothing was written. What to do.
    Refused(String),
    /// It failed on the way.
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

/// Moves the installation at `from` to the empty database at `to`. `watch` is told how far it is. Blocks.
pub fn run(
    config: &Config,
    from: &str,
    to: &str,
    watch: &mut dyn FnMut(Step<'_>),
) -> Result<MoveView, MoveError> {
    let route = route(config, from, to).map_err(MoveError::Settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| MoveError::Failed(error.into()))?;
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let moved = moving::run(&route, clock.clone(), watch).await?;
        let ledger = check(&route, clock).await;
        let ledger = ledger.context("everything was moved, but the target's books could not be checked");
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
            "both sides are SQLite: stop the server and copy the data directory, as docs/operations/backups.md says",
        )),
        (StorageUrl::Postgres(_), StorageUrl::Postgres(_)) => Err(ConfigError::new(
            "--to",
            "both sides are PostgreSQL: use pg_dump and pg_restore, as docs/operations/backups.md says",
        )),
    }
}

/// Reads the books of the target as its gateway will.
async fn check(route: &Route, clock: Arc<dyn Clock>) -> anyhow::Result<CheckView> {
    let storage: Storage = match route {
        Route::ToPostgres { url, .. } => postgres::open(postgres::PostgresConfig::new(url.as_str())).await?,
        Route::ToSqlite { dir, .. } => sqlite::open(sqlite::SqliteConfig::new(dir, clock)).await?,
    };
    let report = check_ledger(&*storage.ledger, true).await;
    storage.engine.close().await?;
    Ok(CheckView::from(&report?))
}

fn view(config: &Config, route: &Route, moved: Moved, ledger: CheckView) -> MoveView {
    let (from, to) = match route {
        Route::ToPostgres { .. } => ("sqlite", "postgres"),
        Route::ToSqlite { .. } => ("postgres", "sqlite"),
    };
    let texts = |sums: &BTreeMap<String, i128>| {
        let text = |(name, sum): (&String, &i128)| (name.clone(), sum.to_string());
        sums.iter().map(text).collect::<BTreeMap<_, _>>()
    };
    let table = |tally: &TableTally| TableView {
        table: tally.table.clone(),
        rows: tally.rows,
        digest: tally.digest.clone(),
        sums: texts(&tally.sums),
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

/// What the operator changes. No secret and no address, which may hold one, is repeated.
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
            "storage.url: the address that you gave with --to, on every node (TOLLGATE_STORAGE__URL keeps its password out \
             of the file)."
                .to_owned(),
            match (named, own_pepper(config, dir)) {
                (Some(named), _) => format!("{named} stays, with the same secret on every node."),
                (None, Some(file)) => format!(
                    "service.pepper_file = \"{}\", the same file on every node: the keys work under this secret only.",
                    file.display()
                ),
                (None, None) => "service.pepper_file or service.pepper_env: the secret under which the server on the \
                    source ran; its data directory has it in secrets/pepper. The keys work under this secret only."
                    .to_owned(),
            },
        ),
        Route::ToSqlite { dir, .. } => (
            format!(
                "storage.url = \"sqlite:{}\".",
                whole(dir).join("tollgate.db").display()
            ),
            match named {
                Some(named) => format!("{named} stays: the keys work under this secret only."),
                None => "service.pepper_file or service.pepper_env as the nodes have it: the keys work under this secret \
                    only."
                    .to_owned(),
            },
        ),
    };
    let never = "Never start a gateway on the source again: from now on its books would be others.";
    vec![place, secret, never.to_owned()]
}

/// The secret that a data directory keeps, with its whole path.
fn own_pepper(config: &Config, dir: &Path) -> Option<PathBuf> {
    let places = [&config.data, dir].map(|data| data.join("secrets").join("pepper"));
    let found = places.into_iter().find(|place| place.exists())?;
    Some(whole(&found))
}

/// The path as it is from everywhere.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
