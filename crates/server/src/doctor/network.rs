//! Checks of the two listen addresses: each must be free or in use by this gateway.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Finding;
use crate::config::Config;

/// Timeout of the readiness probe of a server on this machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of the probe's response, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 * 1024;

/// Checks the address of the public listener. `served` is true if a server owns the command socket.
pub async fn listener(config: &Config, served: bool) -> Finding {
    let what = "server";
    let address = config.listen;
    if address.port() != 0 {
        match readiness(address).await {
            Some(Readiness::Ready) if served => {
                return Finding::fine(what, format!("a gateway is ready at {address}"));
            }
            Some(Readiness::Ready) => {
                return Finding::note(
                    what,
                    format!(
                        "a gateway is ready at {address}, but it does not use the directory {}",
                        config.socket_home().display()
                    ),
                    "pass its directory with --data DIR, or start this server on another address with --listen ADDR",
                );
            }
            Some(Readiness::Unready) => {
                return Finding::fault(
                    what,
                    format!("the gateway at {address} reports that it is not ready"),
                    "it is stopping, its storage does not answer, or a component failed; check its log",
                );
            }
            Some(Readiness::Another) => {
                return Finding::fault(
                    what,
                    format!("the program that listens on {address} does not answer as a gateway"),
                    "stop that program, or choose another address with --listen ADDR or server.listen",
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
                config.socket_home().display()
            ),
            "it was started with --listen, or the settings changed since; its log contains its address",
        );
    }
    match TcpListener::bind(address) {
        Ok(_) => Finding::fine(what, format!("no server is running; {address} is free")),
        Err(error) => Finding::fault(
            what,
            format!("cannot listen on {address}: {error}"),
            "choose another address with --listen ADDR or server.listen",
        ),
    }
}

/// Checks the address of the admin listener. If the address is in use, a start uses a free port
/// instead. `is_servers` is true if the running server reported this address.
pub fn admin(config: &Config, is_servers: bool) -> Finding {
    let address = config.admin;
    match TcpListener::bind(address) {
        Ok(_) => Finding::fine("admin address", format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_servers => {
            Finding::fine("admin address", format!("the running server uses {address}"))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::note(
            "admin address",
            format!("{address} is in use by another process"),
            "`tollgate serve` uses a free port instead and logs it; for a fixed port set server.admin",
        ),
        Err(error) => Finding::fault(
            "admin address",
            format!("cannot listen on {address}: {error}"),
            "choose another address with --admin ADDR or server.admin",
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    Unready,
    /// A program other than a gateway listens on the address.
    Another,
}

/// Returns the readiness of the program at the address; `None` if no program accepts connections
/// there. A program that does not respond in time is [`Readiness::Another`].
async fn readiness(address: SocketAddr) -> Option<Readiness> {
    let probe = async {
        let stream = TcpStream::connect(reachable(address)).await.ok()?;
        Some(
            send_probe(stream, address)
                .await
                .map_or(Readiness::Another, |answer| read(&answer)),
        )
    };
    tokio::time::timeout(PROBE_TIMEOUT, probe)
        .await
        .unwrap_or(Some(Readiness::Another))
}

/// Replaces an unspecified address with the loopback address, over which the server can be reached.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], v6.port()))
        }
        other => other,
    }
}

async fn send_probe(mut stream: TcpStream, address: SocketAddr) -> std::io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Parses the probe's response. Only a gateway sends both a request id and one of the known status
/// texts.
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
    fn gateways_are_distinguished_from_other_servers() {
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
