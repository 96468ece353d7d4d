//! The load tool: sends one payload in one of three ways and prints one line of JSON.
//!
//! - closed loop: every connection sends again as soon as it is answered; for throughput and CPU per request;
//! - open loop: a fixed schedule; latency counts from the scheduled instant, so a slow server cannot hide its queue
//!   (no coordinated omission);
//! - hold: many slow streams at once; for memory.

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
    /// The server to load; of several, separated by commas, the connections take turns.
    #[arg(long, value_delimiter = ',', required = true)]
    pub address: Vec<SocketAddr>,
    /// The path of every request.
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
    /// How to send.
    #[arg(long, value_enum, default_value = "closed")]
    pub mode: Mode,
    /// Connections; in `hold`, streams.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// How long to send, in seconds (`hold` ends with its streams).
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Requests a second of the open loop, over all connections.
    #[arg(long, default_value_t = 100.0)]
    pub rate: f64,
    /// The connections begin spread over this many milliseconds (`closed`, `hold`).
    #[arg(long, default_value_t = 0)]
    pub spread_ms: u64,
    /// Content chunks that a complete stream has; an answer with fewer counts as bad.
    #[arg(long, default_value_t = 0)]
    pub chunks: u64,
    /// Print `ready` when the connections are warm (in `hold`: when all streams are open), wait for a line on stdin
    /// before the measurement, and stay alive after the result until stdin ends.
    #[arg(long)]
    pub gated: bool,
}

/// How requests are sent.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As fast as they are answered.
    Closed,
    /// By the clock.
    Open,
    /// Many slow streams, held open.
    Hold,
}

impl Mode {
    /// The name on the command line.
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
/// When a file cannot be read or the options make no sense; bad answers are in the report.
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

/// The request as it goes over the wire, once for each key.
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

/// One POST request with this body.
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

/// The handshake with whoever measures: it lets connections and pools be made outside the measured time.
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
