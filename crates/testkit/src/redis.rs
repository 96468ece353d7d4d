//! A separate Redis for a test: a process that can be stopped, frozen and restarted, and a proxy
//! that delays its replies. The process is `redis-server` or `valkey-server`;
//! `scripts/with-services.sh` installs one if none is installed.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "only tests use this: an error here fails the test, and the code has no Clock"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// The server programs, in order of preference.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// Maximum number of attempts to find a port that no other process uses.
const ATTEMPTS: usize = 20;

/// Returns the URL of a server that tests share: `TEST_REDIS_URL`, or the local server.
pub fn shared_url() -> String {
    std::env::var("TEST_REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned())
}

/// Returns a key prefix that is unique among all tests and processes.
pub fn prefix() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{}-{count}", std::process::id(), now.as_micros())
}

/// A server process without persistence. Dropping it kills the process.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    folder: TempDir,
    process: Option<Child>,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it accepts connections.
    ///
    /// # Panics
    /// If no such program is installed, or the server does not start.
    pub async fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("tollgate-redis-")
            .tempdir()
            .unwrap();
        for _ in 0..ATTEMPTS {
            let port = free_port().await;
            if let Some(process) = launch(port, &folder).await {
                return Self {
                    port,
                    folder,
                    process: Some(process),
                };
            }
        }
        panic!("no Redis could be started");
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the address of the server on loopback.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Kills the server (SIGKILL); its data is lost.
    ///
    /// # Panics
    /// If the server does not run.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("Redis runs");
        process.kill().await.unwrap();
    }

    /// Starts the killed server again on its port, without data.
    ///
    /// # Panics
    /// If the server does not start.
    pub async fn restart(&mut self) {
        for _ in 0..ATTEMPTS {
            if let Some(process) = launch(self.port, &self.folder).await {
                self.process = Some(process);
                return;
            }
        }
        panic!("Redis could not be started again on port {}", self.port);
    }

    /// Sends the process a signal, such as `STOP` or `CONT`.
    ///
    /// # Panics
    /// If the server does not run.
    pub async fn signal(&self, name: &str) {
        let process = self.process.as_ref().expect("Redis runs");
        let id = process.id().expect("Redis runs").to_string();
        // The shell's builtin `kill`: sending a signal from Rust would need unsafe code.
        let command = ["-c", "kill -s \"$0\" \"$1\"", name, &id];
        assert!(Command::new("sh").args(command).status().await.unwrap().success());
    }

    /// Executes a command and returns the first line of the reply.
    ///
    /// # Panics
    /// If the server does not reply, or replies with an error.
    pub async fn execute(&self, command: &[&str]) -> String {
        execute(self.address(), command).await
    }
}

async fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts a server and waits until its log reports that it is ready. `None` if the process exits
/// before that.
async fn launch(port: u16, folder: &TempDir) -> Option<Child> {
    let port = port.to_string();
    let settings = [
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
    ];
    let mut spawned = PROGRAMS.iter().filter_map(|program| {
        let mut command = Command::new(program);
        command
            .args(settings)
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.kill_on_drop(true).spawn().ok()
    });
    let mut process = spawned
        .next()
        .expect("redis-server or valkey-server is installed");
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("eady to accept connections") {
            return Some(process);
        }
    }
    None
}

async fn execute(address: SocketAddr, command: &[&str]) -> String {
    let mut request = format!("*{}\r\n", command.len());
    for word in command {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.unwrap();
    assert!(
        !line.is_empty() && !line.starts_with('-'),
        "{command:?}: {line:?}"
    );
    line.trim_end().to_owned()
}

/// A proxy to a server that delays the server's replies.
#[derive(Debug)]
pub struct SlowRoad {
    address: SocketAddr,
    delay: Arc<AtomicU64>,
    _connections: JoinSet<()>,
}

impl SlowRoad {
    /// Starts a proxy to this server, without delay at first.
    ///
    /// # Panics
    /// If the proxy cannot listen.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let delay = Arc::new(AtomicU64::new(0));
        let mut connections = JoinSet::new();
        let slow = delay.clone();
        connections.spawn(async move {
            let mut travellers = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                travellers.spawn(travel(client, server, slow.clone()));
            }
        });
        Self {
            address,
            delay,
            _connections: connections,
        }
    }

    /// Returns the URL of the server through the proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Sets the delay of replies from now on.
    pub fn set_delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap();
        self.delay.store(millis, Ordering::Relaxed);
    }
}

async fn travel(mut client: TcpStream, server: SocketAddr, delay: Arc<AtomicU64>) {
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let there = tokio::io::copy(&mut from_client, &mut to_server);
    let back = async {
        let mut bytes = vec![0; 65_536];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            let delay = Duration::from_millis(delay.load(Ordering::Relaxed));
            tokio::time::sleep(delay).await;
            if to_client.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { _ = there => {}, () = back => {} }
}
