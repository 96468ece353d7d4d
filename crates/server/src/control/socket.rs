//! The socket through which the command line reaches a running server: one JSON line each way. It stands beside the
//! embedded database and its lock with mode 0600, so only the server's own user can speak to it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;
use tollgate_types::{Error, ErrorCode};

use super::{Actor, Command, CommandError, Reply, perform};
use crate::wiring::Domains;

/// Longest line that is read.
const LONGEST_LINE: u64 = 1024 * 1024;

/// Where the socket is, by the directory of the database ([`Config::home`](crate::Config::home)).
pub fn path(home: &Path) -> PathBuf {
    home.join("tollgate.sock")
}

/// Opens the socket. The directory is locked by this process, so one that is there is a dead server's.
pub fn open(home: &Path) -> std::io::Result<UnixListener> {
    let path = path(home);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // The directory is made with mode 0700 before anything is put into it, so nobody slips in before the next line.
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves commands until the task is dropped.
pub async fn serve(listener: UnixListener, domains: Arc<Domains>, tasks: TaskTracker) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let domains = domains.clone();
                tasks.spawn(async move {
                    if let Err(error) = answer(stream, &domains).await {
                        tracing::debug!(%error, "a command's connection broke");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept on the command socket");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, domains: &Domains) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(LONGEST_LINE))
        .read_line(&mut line)
        .await?;
    let answer = match serde_json::from_str::<Command>(&line) {
        Ok(command) => {
            let done = perform(domains, &Actor::command_line(), command).await;
            done.map_err(CommandError::from)
        }
        Err(error) => {
            let message =
                format!("The server does not know this command; it may be of another version: {error}");
            Err(CommandError::from(Error::new(
                ErrorCode::InvalidParameter,
                message,
            )))
        }
    };
    let mut text = serde_json::to_vec(&answer).map_err(std::io::Error::other)?;
    text.push(b'\n');
    writer.write_all(&text).await
}

/// Whether a server has the database in this directory.
pub async fn is_served(home: &Path) -> bool {
    UnixStream::connect(path(home)).await.is_ok()
}

/// Sends a command to the server that has it.
pub async fn send(home: &Path, command: &Command) -> Result<Reply, Error> {
    let unreachable = |error: std::io::Error| {
        let message = format!(
            "The data directory {} is in use, and its server cannot be reached: {error}",
            home.display()
        );
        Error::new(ErrorCode::Overloaded, message)
    };
    let stream = UnixStream::connect(path(home)).await.map_err(unreachable)?;
    let (reader, mut writer) = stream.into_split();
    let mut text = serde_json::to_vec(command).map_err(Error::internal)?;
    text.push(b'\n');
    writer.write_all(&text).await.map_err(unreachable)?;
    let mut line = String::new();
    BufReader::new(reader)
        .read_line(&mut line)
        .await
        .map_err(unreachable)?;
    let answer: Result<Reply, CommandError> = serde_json::from_str(&line).map_err(Error::internal)?;
    answer.map_err(Error::from)
}
