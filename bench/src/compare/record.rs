//! The records: one line of JSON for each result, from which the tables are made.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::accounting::Memory;
use crate::load;

/// One line of the record file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Record {
    Machine(Machine),
    Idle(Idle),
    Phase(Box<PhaseResult>),
    Hold(Box<HoldResult>),
    #[serde(rename = "books")]
    ChargeCheck(ChargeCheck),
    Trouble(Trouble),
}

/// The machine and the options of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) started: String,
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) kernel: String,
    /// Whether SCHED_RR was requested for the light phases.
    pub(super) realtime: bool,
    pub(super) quick: bool,
    pub(super) rounds: usize,
    /// Number of API keys in Tollgate's store.
    pub(super) keys: usize,
    /// Number of accounts that the load is spread over.
    pub(super) callers: usize,
    pub(super) versions: Vec<String>,
}

/// A target that has just started and answered once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Idle {
    pub(super) round: usize,
    pub(super) target: String,
    /// Milliseconds from the start of the process to its first good answer.
    pub(super) start_ms: f64,
    pub(super) memory: Memory,
}

/// One phase on one target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PhaseResult {
    pub(super) round: usize,
    pub(super) target: String,
    pub(super) phase: String,
    /// CPU time of the target per good answer, in microseconds.
    pub(super) cpu_us: f64,
    /// CPU time per good answer of all processes named `postgres` on this machine, in microseconds,
    /// if the target uses one.
    pub(super) database_cpu_us: Option<f64>,
    /// Average number of cores that the target used.
    pub(super) cores: f64,
    /// Average number of cores that processes outside the comparison used.
    pub(super) other_cores: f64,
    /// Memory after the phase.
    pub(super) memory: Option<Memory>,
    pub(super) load: load::Report,
}

/// Memory with many streams open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HoldResult {
    pub(super) target: String,
    pub(super) streams: u64,
    /// Memory after the warm-up, without a stream.
    pub(super) before: Memory,
    /// Peak memory while all streams were open.
    pub(super) peak: Memory,
    /// Average number of cores that the target used meanwhile.
    pub(super) cores: f64,
    pub(super) load: load::Report,
}

/// The actual and the expected charges of a metering target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChargeCheck {
    pub(super) target: String,
    pub(super) round: usize,
    /// Expected charges in nano-credits.
    pub(super) expected: i64,
    /// Actual charges in nano-credits.
    pub(super) charged: i64,
}

/// A problem, which makes the run end with a failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Trouble {
    pub(super) round: usize,
    pub(super) target: String,
    pub(super) phase: String,
    pub(super) what: String,
}

/// The records of a run, stored and written as they come.
pub(super) struct Journal {
    pub(super) path: PathBuf,
    file: File,
    pub(super) records: Vec<Record>,
}

impl Journal {
    /// Creates a new file in this folder, named by the time.
    pub(super) fn create(folder: &Path, started: &str) -> anyhow::Result<Journal> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let path = folder.join(format!("{}.jsonl", started.replace([':', ' '], "-")));
        let file = File::options().create(true).append(true).open(&path)?;
        Ok(Journal {
            path,
            file,
            records: Vec::new(),
        })
    }

    pub(super) fn write(&mut self, record: Record) -> anyhow::Result<()> {
        serde_json::to_writer(&self.file, &record)?;
        self.file.write_all(b"\n")?;
        self.records.push(record);
        Ok(())
    }
}

/// Reads the records of an earlier run.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Record>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let lines = BufReader::new(file).lines().enumerate();
    lines
        .map(|(number, line)| serde_json::from_str(&line?).with_context(|| format!("line {}", number + 1)))
        .collect()
}
