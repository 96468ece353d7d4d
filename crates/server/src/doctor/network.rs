//! The two addresses that are listened on: free, or this gateway's already.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Finding;
use crate::config::Config;

/// How long a server on this machine may take to say whether it is ready.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most that is read of its answer.
const ANSWER_BYTES: u64 = 16 * 1024;

/// The address where callers connect.
pub async fn listener(config: &Config, served: bool) -> Finding {
    let what = "server";
    let address = config.listen;
    if address.port() != 0 {
        match readiness(address).await {
            Some(Readiness::Ready) => return Finding::fine(what, format!("a gateway is ready at {address}")),
            Some(Readiness::Unready) => {
                return Finding::fault(
                    what,
                    format!("a gateway at {address} says that it is not ready"),
                    "it is stopping, or its storage does not answer: look at its log",
                );
            }
            Some(Readiness::Another) => {
                return Finding::fault(
                    what,
                    format!("another program listens on {address}"),
                    "stop it, or take another address: --listen ADDR, or server.listen in the settings",
                );
            }
            None => {}
        }
    }
    if served {
        return Finding::note(
            what,
            format!(
                "a server runs on {}, but not at {address}",
                config.home().unwrap_or(&config.data).display()
            ),
            "it was started with --listen, or its settings have changed since; its log names its address",
        );
    }
    match TcpListener::bind(address) {
        Ok(_) => Finding::fine(what, format!("none runs; {address} is free")),
        Err(error) => Finding::fault(
            what,
            format!("{address} cannot be listened on: {error}"),
            "take another address: --listen ADDR, or server.listen in the settings",
        ),
    }
}

/// The address where operators connect. A server that finds it busy takes another port.
pub fn admin(config: &Config, served: bool) -> Finding {
    let address = config.admin;
    match TcpListener::bind(address) {
        Ok(_) => Finding::fine("admin address", format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && served => Finding::fine(
            "admin address",
            format!("{address} is in use, most likely by the server that runs"),
        ),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::note(
            "admin address",
            format!("{address} is in use by another process"),
            "a start takes a free port and says which; for a fixed one set server.admin",
        ),
        Err(error) => Finding::fault(
            "admin address",
            format!("{address} cannot be listened on: {error}"),
            "take another one: --admin ADDR, or server.admin in the settings",
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    Unready,
    /// Something listens, and it is no gateway.
    Another,
}

/// What listens at an address says of itself; nothing when nobody listens.
async fn readiness(address: SocketAddr) -> Option<Readiness> {
    let asked = async {
        let stream = TcpStream::connect(reachable(address)).await.ok()?;
        Some(
            ask(stream, address)
                .await
                .map_or(Readiness::Another, |answer| read(&answer)),
        )
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap_or(Some(Readiness::Another))
}

/// A server on every address of this machine is reached over loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], v6.port()))
        }
        other => other,
    }
}

async fn ask(mut stream: TcpStream, address: SocketAddr) -> std::io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The gateway answers with its own words and a request id; others have other words.
fn read(answer: &str) -> Readiness {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let ours = head.to_ascii_lowercase().contains("\r\nx-request-id:");
    if ours && body.contains(r#""status":"ready""#) {
        Readiness::Ready
    } else if ours && body.contains(r#""status":"unavailable""#) {
        Readiness::Unready
    } else {
        Readiness::Another
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_told_from_another_server() {
        let ours = "HTTP/1.1 200 OK\r\nX-Request-Id: req_1\r\n\r\n";
        let cases = [
            (format!("{ours}{{\"status\":\"ready\"}}"), Readiness::Ready),
            (
                format!("{ours}{{\"status\":\"unavailable\",\"reason\":\"x\"}}"),
                Readiness::Unready,
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\n{\"status\":\"ready\"}".to_owned(),
                Readiness::Another,
            ),
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), Readiness::Another),
            (String::new(), Readiness::Another),
        ];
        for (answer, expected) in cases {
            assert_eq!(read(&answer), expected, "{answer}");
        }
    }

    #[test]
    fn every_address_is_reached_over_loopback() {
        assert_eq!(
            reachable("0.0.0.0:80".parse().unwrap()),
            "127.0.0.1:80".parse().unwrap()
        );
        assert_eq!(reachable("[::]:80".parse().unwrap()), "[::1]:80".parse().unwrap());
        assert_eq!(
            reachable("10.0.0.1:80".parse().unwrap()),
            "10.0.0.1:80".parse().unwrap()
        );
    }
}
