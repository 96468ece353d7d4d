//! The process of the server.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;

use super::command_line::CommandLine;
use super::wait::in_time;

/// A process that listens.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    address: SocketAddr,
    stdout: Arc<Mutex<String>>,
    /// Task that drains stdout and stderr, so that the process never blocks on a full pipe.
    _reader: JoinSet<()>,
}

impl Process {
    /// Starts `serve` or `worker` and waits for the first line on stdout, which is the bound
    /// address.
    pub(super) async fn start(command_line: &CommandLine, role: &str, log: &Path) -> Self {
        Self::try_start(command_line, role, log)
            .await
            .unwrap_or_else(|first| {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                panic!("the gateway did not start; it printed {first:?} and logged:\n{log}");
            })
    }

    /// Like [`start`](Self::start), but returns the output of a process that did not start as the
    /// error.
    pub(super) async fn try_start(
        command_line: &CommandLine,
        role: &str,
        log: &Path,
    ) -> Result<Self, String> {
        let file = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = command_line.server_command();
        command
            .arg(role)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the binary can be started");
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        in_time("the first line of the gateway", lines.read_line(&mut first))
            .await
            .unwrap();
        let Ok(address) = first.trim_end().parse() else {
            let _ = child.kill().await;
            return Err(first);
        };
        let stdout = Arc::new(Mutex::new(first));
        let mut reader = JoinSet::new();
        reader.spawn(collect(lines, stdout.clone()));
        Ok(Self {
            child,
            address,
            stdout,
            _reader: reader,
        })
    }

    /// Whether the process is still running.
    pub(super) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn stdout(&self) -> String {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the peak memory of the process, in bytes.
    pub(super) fn peak_memory(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// Returns the present memory of the process, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Returns a size that the kernel reports, in bytes.
    fn status_bytes(&self, field: &str) -> u64 {
        let id = self.child.id().expect("the process runs");
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.expect("the kernel reports the field") << 10
    }

    pub(super) async fn signal(&self, name: &str) {
        let id = self.child.id().expect("the process runs").to_string();
        // The shell's builtin `kill`: sending a signal from Rust would need unsafe code.
        let sent = Command::new("sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", name, &id])
            .status()
            .await
            .unwrap();
        assert!(sent.success(), "no signal could be sent to {id}");
    }

    pub(super) async fn wait(&mut self) -> Option<i32> {
        in_time("the end of the gateway", self.child.wait())
            .await
            .unwrap()
            .code()
    }

    pub(super) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

async fn collect(mut lines: BufReader<ChildStdout>, into: Arc<Mutex<String>>) {
    let mut bytes = vec![0; 4096];
    while let Ok(count @ 1..) = lines.read(&mut bytes).await {
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        into.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_str(&text);
    }
}
