//! Check of the storage: it is reachable and has the schema of this program version.

use super::Finding;
use crate::config::{Config, StorageUrl};
use crate::control::socket;
use crate::{cause, wiring};
use tollgate_operations::ListModels;

/// Maximum difference between the clocks of this machine and the database, in microseconds.
const MAX_CLOCK_AHEAD_MICROS: u64 = 10_000_000;

/// Checks the storage: queries the server if one owns the SQLite database, otherwise opens the
/// storage as a start does.
pub async fn check(config: &Config, served: bool) -> Finding {
    let what = "storage";
    match &config.storage {
        StorageUrl::Sqlite(path) if served => match socket::send(config.socket_home(), &ListModels).await {
            Ok(_) => Finding::fine(what, format!("the running server has opened {}", path.display())),
            Err(error) => Finding::fault(
                what,
                format!(
                    "the server that owns {} does not answer commands: {}",
                    path.display(),
                    error.message
                ),
                "check its log; restart it if it hangs",
            ),
        },
        StorageUrl::Sqlite(path) if !path.exists() => Finding::note(
            what,
            format!("{} does not exist yet", path.display()),
            "the first `tollgate serve` creates it",
        ),
        StorageUrl::Sqlite(path) => {
            let remedy = "follow the message; restore the directory from a backup if it is damaged";
            to_finding(
                open(config).await.map(drop),
                &format!("{} can be opened", path.display()),
                remedy,
            )
        }
        StorageUrl::Postgres(_) => {
            let remedy = "check that storage.url is correct, and that the database is running and accepts connections from this machine; then run `tollgate migrate`";
            match open(config).await {
                Ok(ahead) if ahead.unsigned_abs() > MAX_CLOCK_AHEAD_MICROS => Finding::note(
                    what,
                    format!(
                        "this machine's clock differs by {} s from that of the database, whose time the gateway uses",
                        ahead.unsigned_abs() / 1_000_000
                    ),
                    "set the clock (timedatectl set-ntp true): certificates and logs depend on it",
                ),
                opened => to_finding(
                    opened.map(drop),
                    "the PostgreSQL database answers and its schema is current",
                    remedy,
                ),
            }
        }
    }
}

fn to_finding(opened: anyhow::Result<()>, fine: &str, remedy: &str) -> Finding {
    match opened {
        Ok(()) => Finding::fine("storage", fine),
        Err(error) => Finding::fault("storage", cause::chain(&error), remedy),
    }
}

/// Opens and closes the storage. Returns the lead of this machine's clock over the database, in
/// microseconds.
async fn open(config: &Config) -> anyhow::Result<i64> {
    let app_state = wiring::app_state(config).await?;
    let answered = app_state.storage.engine.ping().await;
    app_state.storage.engine.close().await?;
    answered?;
    Ok(app_state.time.ahead())
}
