//! The targets: the servers between the load tool and the stub.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::process::Process;
use crate::payload::Payload;

/// A running target.
pub(super) struct Started {
    /// Empty for `direct`: the stub serves and is measured.
    pub(super) processes: Vec<Process>,
    /// The address of each process.
    pub(super) addresses: Vec<SocketAddr>,
    /// The model name in the requests.
    pub(super) model: String,
    /// API keys, one for each caller.
    pub(super) keys: Vec<String>,
}

/// The good answers since the start of a target, to check its charges.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered {
    /// Payload and number of good answers.
    pub(super) answers: Vec<(Payload, u64)>,
    /// Number of bad answers, which a target may charge or not.
    pub(super) bad: u64,
}

/// The actual and the expected charges of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// Expected charges in nano-credits.
    pub(super) expected: i64,
    /// Actual charges in nano-credits.
    pub(super) charged: i64,
}

/// One way from the load tool to the stub.
pub(super) trait Target {
    /// Returns the name in `--targets` and in the tables.
    fn name(&self) -> &'static str;

    /// Returns the product and version, for the record.
    fn version(&self) -> String;

    /// Prepares the target once, before the first round.
    fn prepare(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Starts the target; it may not answer yet when this returns.
    fn start(&mut self) -> anyhow::Result<Started>;

    /// Computes the charges for the answers since the start, while the target runs. `None` where no
    /// answer is metered.
    fn charged(&mut self, _answered: &Answered) -> anyhow::Result<Option<Charged>> {
        Ok(None)
    }

    /// Checks the stopped target once, after the last round: an error if its ledger has faults.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Returns the time from SIGTERM until the stop counts as failed.
    fn stop_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Returns whether the target answers in formats that its upstream does not speak.
    fn translates(&self) -> bool {
        false
    }

    /// Returns whether PostgreSQL processes of this machine do part of its work.
    fn uses_postgres(&self) -> bool {
        false
    }
}

/// No gateway: the load tool calls the stub.
pub(super) struct Direct {
    pub(super) stub: SocketAddr,
}

impl Target for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn version(&self) -> String {
        "direct: the stub without a gateway".to_owned()
    }

    fn start(&mut self) -> anyhow::Result<Started> {
        Ok(Started {
            processes: Vec::new(),
            addresses: vec![self.stub],
            model: "stub-model".to_owned(),
            keys: Vec::new(),
        })
    }
}

/// The bare hyper proxy.
pub(super) struct Bare {
    pub(super) stub: SocketAddr,
    pub(super) work: PathBuf,
}

impl Target for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn version(&self) -> String {
        "bare: hyper on both sides, bodies not parsed".to_owned()
    }

    fn start(&mut self) -> anyhow::Result<Started> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "bare",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            &self.stub.to_string(),
        ]);
        let process = Process::start(command, &self.work, "bare")?;
        let address = process.bound_address()?;
        Ok(Started {
            processes: vec![process],
            addresses: vec![address],
            model: "stub-model".to_owned(),
            keys: Vec::new(),
        })
    }
}

/// nginx as a plain reverse proxy.
pub(super) struct Nginx {
    program: PathBuf,
    version: String,
    stub: SocketAddr,
    work: PathBuf,
}

impl Nginx {
    /// Finds nginx on the path or in Debian's location; `None` when it is not installed.
    pub(super) fn find(stub: SocketAddr, work: &Path) -> Option<Nginx> {
        [
            "nginx",
            "/usr/sbin/nginx",
            "/usr/local/sbin/nginx",
            "/usr/local/bin/nginx",
        ]
        .iter()
        .find_map(|program| {
            let output = Command::new(program)
                .arg("-v")
                .output()
                .ok()
                .filter(|output| output.status.success())?;
            let version = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Some(Nginx {
                program: PathBuf::from(program),
                version,
                stub,
                work: work.to_owned(),
            })
        })
    }

    fn settings(&self, port: u16) -> String {
        let (stub, work) = (self.stub, self.work.display());
        let (workers, files) = (super::cores(), crate::accounting::open_files());
        let connections = (files / 2).min(16_384);
        format!(
            "worker_processes {workers};
worker_rlimit_nofile {files};
daemon off;
pid {work}/nginx.pid;
error_log {work}/nginx-error.log warn;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  client_body_temp_path {work}/nginx-body;
  proxy_temp_path {work}/nginx-proxy;
  fastcgi_temp_path {work}/nginx-fastcgi;
  uwsgi_temp_path {work}/nginx-uwsgi;
  scgi_temp_path {work}/nginx-scgi;
  tcp_nodelay on;
  keepalive_requests 100000000;
  client_max_body_size 16m;
  client_body_buffer_size 256k;
  upstream stub {{ server {stub}; keepalive 512; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://stub;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_read_timeout 120s;
    }}
  }}
}}
"
        )
    }
}

impl Target for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn start(&mut self) -> anyhow::Result<Started> {
        let port = free_port()?;
        let file = self.work.join("nginx.conf");
        std::fs::write(&file, self.settings(port))?;
        let mut command = Command::new(&self.program);
        command.arg("-p").arg(&self.work).arg("-c").arg(&file);
        // Messages before the settings are read go to a compiled-in path by default; stderr is
        // better.
        command.args(["-e", "stderr"]);
        let process = Process::start(command, &self.work, "nginx")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Started {
            processes: vec![process],
            addresses: vec![address],
            model: "stub-model".to_owned(),
            keys: Vec::new(),
        })
    }
}

/// Finds a free port, for servers that cannot choose one themselves.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}
