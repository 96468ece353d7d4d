//! Storage: reachable, and with the schema of this program.

use tollgate_types::Error;

use super::Finding;
use crate::config::{Config, StorageUrl};
use crate::control::{Command, Reply, socket};
use crate::wiring;

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
                open(config).await,
                &format!("{} can be opened", path.display()),
                remedy,
            )
        }
        StorageUrl::Postgres(_) => {
            let remedy = "check storage.url, that the database runs and lets this machine in, and run `tollgate migrate`";
            judged(
                open(config).await,
                "the PostgreSQL database answers and its schema is current",
                remedy,
            )
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

async fn open(config: &Config) -> anyhow::Result<()> {
    let domains = wiring::domains(config).await?;
    let answered = domains.storage.engine.ping().await;
    domains.storage.engine.close().await?;
    Ok(answered?)
}
