//! A separate PostgreSQL for a test, which can be killed and restarted. Its programs are those that
//! `scripts/with-services.sh` finds or installs: Debian's, or those in `PATH`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests use this: an error here fails the test"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Maximum number of attempts to find a port, and to start after a crash while old processes may
/// still be exiting.
const ATTEMPTS: usize = 100;

/// A server with its data in a temporary folder. Dropping it kills the server.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    folder: TempDir,
    /// Whether the test runs as root. PostgreSQL refuses root, so the server runs as `postgres`.
    is_root: bool,
    port: u16,
}

impl PostgresServer {
    /// Starts a server on a free port and waits until it accepts connections.
    ///
    /// # Panics
    /// If the programs are not installed, or the server does not start.
    pub async fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("tollgate-postgres-")
            .tempdir()
            .unwrap();
        let is_root = folder.path().metadata().unwrap().uid() == 0;
        if is_root {
            let chown = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(chown.unwrap().success(), "the user postgres exists");
        }
        let mut server = Self {
            programs: programs(),
            folder,
            is_root,
            port: 0,
        };
        let data = server.data();
        let settings = [
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ];
        let made = server
            .program("initdb")
            .arg("--pgdata")
            .arg(&data)
            .args(settings)
            .status();
        assert!(made.unwrap().success(), "initdb creates a cluster");
        for _ in 0..ATTEMPTS {
            server.port = free_port().await;
            if server.launch() {
                return server;
            }
        }
        panic!("PostgreSQL does not start: {}", server.log());
    }

    /// Returns the address of the server on loopback.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Returns the URL of the default database of every server.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address())
    }

    /// Shuts the server down with all connections, and starts it again.
    ///
    /// # Panics
    /// If the server does not start.
    pub async fn restart(&mut self) {
        self.stop("fast");
        self.start_again().await;
    }

    /// Kills the server (SIGKILL), as a crash does.
    ///
    /// # Panics
    /// If the server does not run.
    pub fn kill(&mut self) {
        let pid_file = std::fs::read_to_string(self.data().join("postmaster.pid")).expect("PostgreSQL runs");
        let id = pid_file.lines().next().unwrap();
        let killed = Command::new("sh")
            .args(["-c", "kill -s KILL \"$0\"", id])
            .status();
        assert!(killed.unwrap().success());
    }

    /// Starts a killed server on its port. The server recovers before it accepts connections.
    ///
    /// # Panics
    /// If the server does not start.
    pub async fn start_again(&mut self) {
        for _ in 0..ATTEMPTS {
            if self.launch() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("PostgreSQL does not start again: {}", self.log());
    }

    fn launch(&self) -> bool {
        let folder = self.folder.path().display();
        // The machine itself does not crash, so no data has to be synced to the disk.
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off -c max_connections=300",
            self.port
        );
        let mut start = self.program("pg_ctl");
        start
            .args(["start", "--silent", "--wait", "--pgdata"])
            .arg(self.data());
        start
            .arg("--log")
            .arg(self.data().join("server.log"))
            .arg("--options")
            .arg(options);
        start
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    fn stop(&self, mode: &str) {
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "--silent", "--mode", mode, "--pgdata"])
            .arg(self.data());
        let _ = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if self.is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .current_dir(self.folder.path());
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.data().join("server.log")).unwrap_or_default()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop("immediate");
    }
}

/// Returns the folder of the programs: the newest of Debian's packages, or the folder of `initdb`.
fn programs() -> PathBuf {
    let packaged = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut packaged: Vec<PathBuf> = packaged.map(|version| version.path().join("bin")).collect();
    packaged.retain(|folder| folder.join("initdb").exists());
    packaged.sort();
    packaged.pop().unwrap_or_else(|| Path::new("").to_owned())
}

async fn free_port() -> u16 {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    listener.local_addr().unwrap().port()
}
