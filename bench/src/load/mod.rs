//! The load tool: sends one payload in one of three ways and prints one line of JSON.
//!
//! - closed loop: every connection sends again after each answer; for throughput and CPU
//!   per request;
//! - open loop: a fixed schedule; latency counts from the scheduled instant, so a slow server
//!   cannot hide its queue (no coordinated omission);
//! - hold: many concurrent slow streams; for memory.

mod connection;
mod hold;
mod loops;
mod report;

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;

pub use connection::{Connection, Expected};
pub use report::{Quantiles, Report};

/// Command line of the load tool.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// Addresses of the server under load, separated by commas; the connections take turns.
    #[arg(long, value_delimiter = ',', required = true)]
    pub address: Vec<SocketAddr>,
    /// Path of every request.
    #[arg(long, default_value = "/v1/chat/completions")]
    pub path: String,
    /// File with the body of every request.
    #[arg(long)]
    pub body: PathBuf,
    /// File with the body of one uncounted request that each connection sends first.
    #[arg(long)]
    pub warm: Option<PathBuf>,
    /// API key; given several times, the connections take turns.
    #[arg(long = "bearer")]
    pub bearers: Vec<String>,
    /// The way of sending.
    #[arg(long, value_enum, default_value = "closed")]
    pub mode: Mode,
    /// Number of connections; in `hold`, of streams.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Duration in seconds (`hold` ends with its streams).
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Requests per second of the open loop, over all connections.
    #[arg(long, default_value_t = 100.0)]
    pub rate: f64,
    /// Milliseconds over which the connections start (`closed`, `hold`).
    #[arg(long, default_value_t = 0)]
    pub spread_ms: u64,
    /// Content chunks that a complete stream has; an answer with fewer counts as bad.
    #[arg(long, default_value_t = 0)]
    pub chunks: u64,
    /// Print `ready` when the connections are warm (in `hold`: when all streams are open), wait for
    /// a line on stdin before the measurement, and stay alive after the result until stdin ends.
    #[arg(long)]
    pub gated: bool,
}

/// The way in which requests are sent.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each connection sends again after every answer.
    Closed,
    /// By a fixed schedule.
    Open,
    /// Many slow streams, held open.
    Hold,
}

impl Mode {
    /// Returns the value of the `--mode` option.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Closed => "closed",
            Mode::Open => "open",
            Mode::Hold => "hold",
        }
    }
}

/// Runs and prints the report.
///
/// # Errors
/// A file cannot be read or the options are inconsistent; bad answers are in the report.
pub fn run(options: &Options) -> anyhow::Result<()> {
    anyhow::ensure!(options.connections > 0, "--connections must be at least 1");
    anyhow::ensure!(options.rate > 0.0, "--rate must be above 0");
    crate::accounting::raise_open_files();
    crate::clock::sharpen_timers();
    let gate = Gate {
        closed: options.gated,
    };
    let report = match options.mode {
        Mode::Hold => hold::run(options, gate)?,
        Mode::Closed | Mode::Open => loops::run(options, gate)?,
    };
    println!("{}", serde_json::to_string(&report)?);
    gate.linger();
    Ok(())
}

/// Returns the request in wire format, once for each key.
fn requests(options: &Options, body: &PathBuf) -> anyhow::Result<Vec<Vec<u8>>> {
    let body = std::fs::read(body).with_context(|| format!("reading {}", body.display()))?;
    let keys = options.bearers.iter().map(|key| Some(key.as_str()));
    let keys: Vec<_> = if options.bearers.is_empty() {
        vec![None]
    } else {
        keys.collect()
    };
    Ok(keys
        .into_iter()
        .map(|key| request(&options.path, key, &body))
        .collect())
}

/// Returns a POST request with this body.
pub fn request(path: &str, key: Option<&str>, body: &[u8]) -> Vec<u8> {
    let authorization = key
        .map(|key| format!("authorization: Bearer {key}\r\n"))
        .unwrap_or_default();
    let length = body.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\n{authorization}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// The handshake with the measuring process: connections and pools are opened outside the measured
/// time.
#[derive(Clone, Copy)]
struct Gate {
    closed: bool,
}

impl Gate {
    fn announce(self) -> anyhow::Result<()> {
        if self.closed {
            println!("ready");
            std::io::stdout().flush()?;
        }
        Ok(())
    }

    fn pass(self) -> anyhow::Result<()> {
        if self.closed {
            std::io::stdin().lock().read_line(&mut String::new())?;
        }
        Ok(())
    }

    fn linger(self) {
        if self.closed {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        }
    }
}
