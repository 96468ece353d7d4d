//! The Unix socket between the command line and a running server. Each connection transfers one
//! JSON line in each direction. The socket has mode 0600, so that only the server's own user can
//! connect.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;
use tollgate_operations::wire::{Request, other_version, reply_to, unknown_command};
use tollgate_operations::{Actor, CommandError, Operation, Operations};
use tollgate_types::{Error, ErrorCode};

/// Maximum length of a request line, in bytes.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// Returns the path of the socket in a directory, usually
/// [`Config::socket_home`](crate::Config::socket_home).
pub fn path(home: &Path) -> PathBuf {
    home.join("tollgate.sock")
}

/// Removes an existing socket file and opens the socket. The caller has the lock of the directory
/// or has checked that no server answers there, so the file belongs to a process that has ended.
pub fn open(home: &Path) -> std::io::Result<UnixListener> {
    let path = path(home);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // The directory was created with mode 0700, so no other user can connect before the mode of the
    // socket is set.
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves commands until the future is dropped.
pub async fn serve(listener: UnixListener, operations: Arc<Operations>, tasks: TaskTracker) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let operations = operations.clone();
                tasks.spawn(async move {
                    if let Err(error) = answer(stream, &operations).await {
                        tracing::debug!(%error, "a connection to the command socket failed");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the command socket");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, operations: &Operations) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(MAX_LINE_BYTES))
        .read_line(&mut line)
        .await?;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => operations.execute_request(&Actor::command_line(), request).await,
        Err(error) => Err(unknown_command(&error.to_string())),
    };
    let answer = answer.map_err(CommandError::from);
    let mut text = serde_json::to_vec(&answer).map_err(std::io::Error::other)?;
    text.push(b'\n');
    writer.write_all(&text).await
}

/// Returns whether a running server accepts connections on the socket in this directory.
pub async fn is_served(home: &Path) -> bool {
    UnixStream::connect(path(home)).await.is_ok()
}

/// Sends a command to the server on the socket in this directory, and returns its reply.
pub async fn send<C: Operation>(home: &Path, command: &C) -> Result<C::Reply, Error> {
    reply_to::<C>(exchange(home, &Request::of(command)?).await?)
}

/// Sends a command in transfer to the server on the socket in this directory, and returns its reply
/// as JSON.
pub async fn exchange(home: &Path, request: &Request) -> Result<Value, Error> {
    let unreachable = |error: std::io::Error| {
        let message = format!(
            "The data directory {} is in use, but its server cannot be reached: {error}",
            home.display()
        );
        Error::new(ErrorCode::Overloaded, message)
    };
    let stream = UnixStream::connect(path(home)).await.map_err(unreachable)?;
    let (reader, mut writer) = stream.into_split();
    let mut text = serde_json::to_vec(request).map_err(Error::internal)?;
    text.push(b'\n');
    writer.write_all(&text).await.map_err(unreachable)?;
    let mut line = String::new();
    BufReader::new(reader)
        .read_line(&mut line)
        .await
        .map_err(unreachable)?;
    let answer: Result<Value, CommandError> = serde_json::from_str(&line).map_err(|_| other_version())?;
    answer.map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use tollgate_operations::ListPlans;

    use super::*;

    #[tokio::test]
    async fn replies_of_another_version_are_not_shown() {
        let home = tempfile::tempdir().unwrap();
        let listener = open(home.path()).unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (reader, mut writer) = stream.split();
            let mut line = String::new();
            BufReader::new(reader).read_line(&mut line).await.unwrap();
            writer
                .write_all(b"{\"Ok\": {\"secret\": \"c4n4ry\"}}\n")
                .await
                .unwrap();
            line
        };
        let (line, reply) = tokio::join!(server, send(home.path(), &ListPlans));
        assert_eq!(line, "{\"command\":\"list_plans\",\"parameters\":null}\n");
        let message = reply.unwrap_err().operator_message();
        assert!(
            message.starts_with("The server sent an unexpected reply."),
            "{message}"
        );
    }
}
