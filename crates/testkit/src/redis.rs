//! A Redis of a test's own: a process that can be stopped, frozen and started again, and a way to it that can be slow.
//! The process is `redis-server` or `valkey-server`; `scripts/with-services.sh` installs one where there is none.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "only tests use this: what goes wrong here fails the test, and there is no clock to take the time from"
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

/// Programs that may be there.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// How often a port is looked for that nobody takes in between.
const ATTEMPTS: usize = 20;

/// The address of a server that is shared with others: `TEST_REDIS_URL`, or the one on this machine.
pub fn shared_url() -> String {
    std::env::var("TEST_REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned())
}

/// A prefix that no other test has, in this process or in another.
pub fn prefix() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{}-{count}", std::process::id(), now.as_micros())
}

/// A server in a process of its own, which keeps nothing on disk. It is killed when it is dropped.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    folder: TempDir,
    process: Option<Child>,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it takes connections.
    ///
    /// # Panics
    /// When there is no such program, or it does not start.
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

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Ends it at once (SIGKILL): with it goes what it had.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("Redis runs");
        process.kill().await.unwrap();
    }

    /// Starts it again on its port, empty.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn restart(&mut self) {
        for _ in 0..ATTEMPTS {
            if let Some(process) = launch(self.port, &self.folder).await {
                self.process = Some(process);
                return;
            }
        }
        panic!("Redis could not be started again on port {}", self.port);
    }

    /// Sends it a signal, such as `STOP` or `CONT`.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn signal(&self, name: &str) {
        let process = self.process.as_ref().expect("Redis runs");
        let id = process.id().expect("Redis runs").to_string();
        // The shell's own `kill`: sending a signal from here would need code that is not safe.
        let command = ["-c", "kill -s \"$0\" \"$1\"", name, &id];
        assert!(Command::new("sh").args(command).status().await.unwrap().success());
    }

    /// Executes a command and answers the first line of what it says.
    ///
    /// # Panics
    /// When the server does not answer, or by an error.
    pub async fn execute(&self, command: &[&str]) -> String {
        execute(self.address(), command).await
    }
}

async fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts a server and waits until it says that it is ready; nothing when it ends instead.
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

/// A way to a server on which answers take their time.
#[derive(Debug)]
pub struct SlowRoad {
    address: SocketAddr,
    delay: Arc<AtomicU64>,
    _connections: JoinSet<()>,
}

impl SlowRoad {
    /// A way to this server. It is not slow yet.
    ///
    /// # Panics
    /// When it cannot listen.
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

    /// The address of the server by this way.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// From now on answers take this long.
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
