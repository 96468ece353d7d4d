//! Storage: reachable, and with the schema of this program.

use tollgate_types::Error;

use super::Finding;
use crate::config::{Config, StorageUrl};
use crate::control::{Command, Reply, socket};
use crate::wiring;

/// Microseconds by which two clocks may differ.
const MOST_AHEAD: u64 = 10_000_000;

/// Asks the server that has the database, else opens storage as a start would.
pub async fn look(config: &Config, served: bool) -> Finding {
    let what = "storage";
    match &config.storage {
        StorageUrl::Sqlite(path) if served => match ask(config).await {
            Ok(Reply::Models(_)) => Finding::fine(
                what,
                format!("{} is open in the server that runs", path.display()),
            ),
            Ok(_) => Finding::note(
                what,
                "the server that runs did not understand this program",
                "use the command line of the server's own version",
            ),
            Err(error) => Finding::fault(
                what,
                format!(
                    "the server that has {} does not answer commands: {}",
                    path.display(),
                    error.message
                ),
                "look at its log; stop it and start it again when it hangs",
            ),
        },
        StorageUrl::Sqlite(path) if !path.exists() => Finding::note(
            what,
            format!("{} does not exist yet", path.display()),
            "the first `tollgate serve` makes it",
        ),
        StorageUrl::Sqlite(path) => {
            let remedy = "see what the message says; restore the directory from a backup when it is damaged";
            judged(
                open(config).await.map(drop),
                &format!("{} can be opened", path.display()),
                remedy,
            )
        }
        StorageUrl::Postgres(_) => {
            let remedy = "check storage.url, that the database runs and lets this machine in, and run `tollgate migrate`";
            match open(config).await {
                Ok(ahead) if ahead.unsigned_abs() > MOST_AHEAD => Finding::note(
                    what,
                    format!(
                        "this machine's clock is {} s ahead of the database's, whose time everything goes by",
                        ahead / 1_000_000
                    ),
                    "set it (timedatectl set-ntp true): certificates and logs go by this machine's",
                ),
                opened => judged(
                    opened.map(drop),
                    "the PostgreSQL database answers and its schema is current",
                    remedy,
                ),
            }
        }
    }
}

async fn ask(config: &Config) -> Result<Reply, Error> {
    let home = config.home().unwrap_or(&config.data);
    socket::send(home, &Command::ListModels).await
}

fn judged(opened: anyhow::Result<()>, fine: &str, remedy: &str) -> Finding {
    match opened {
        Ok(()) => Finding::fine("storage", fine),
        Err(error) => Finding::fault("storage", format!("{error:#}"), remedy),
    }
}

/// Answers by how many microseconds this machine's clock is ahead.
async fn open(config: &Config) -> anyhow::Result<i64> {
    let domains = wiring::domains(config).await?;
    let answered = domains.storage.engine.ping().await;
    domains.storage.engine.close().await?;
    answered?;
    Ok(domains.time.ahead())
}
