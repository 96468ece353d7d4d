//! Measures one target from its start to its stop: phases and holds, with the kernel's counters
//! read before and after each.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::phase::{HOLD_STEADY_SECONDS, Hold, Phase, WARM_UP};
use super::process::Process;
use super::record::{HoldResult, PhaseResult};
use super::target::{Answered, Started};
use crate::accounting::{self, Memory, Pid};
use crate::load::{Connection, Mode, Report, request};
use crate::payload::Payload;

/// Timeout from a server's start to its first good answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after the last answer in which a gateway's background work (settlement, for example) is
/// counted.
const SETTLE_DELAY: Duration = Duration::from_millis(250);
/// Timeout of a load beyond its length.
const LOAD_SLACK: Duration = Duration::from_secs(120);

/// A started target under measurement.
pub(super) struct Session<'a> {
    pub(super) name: &'a str,
    pub(super) round: usize,
    pub(super) started: &'a Started,
    pub(super) stub: Pid,
    pub(super) work: &'a Path,
    pub(super) realtime: bool,
    pub(super) uses_postgres: bool,
    pub(super) answered: Answered,
}

/// The kernel's counters at one moment.
struct Counters {
    at: Instant,
    target: u64,
    stub: u64,
    database: u64,
    machine: u64,
}

impl Session<'_> {
    /// Waits for the first good answer.
    pub(super) fn wait_until_up(&mut self) -> anyhow::Result<()> {
        let key = self.started.keys.first().map(String::as_str);
        let request = request(
            Payload::Small.path(),
            key,
            &Payload::Small.body(&self.started.model),
        );
        let deadline = Instant::now() + START_TIMEOUT;
        for address in &self.started.addresses {
            while let Err(error) = Connection::new(*address).probe(&request) {
                if Instant::now() > deadline {
                    return Err(error.context("the target never responded"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            self.answered.answers.push((Payload::Small, 1));
        }
        Ok(())
    }

    /// Runs the warm-up, which is not measured.
    pub(super) fn warm_up(&mut self, quick: bool) -> anyhow::Result<()> {
        let phase = if quick { WARM_UP.quick() } else { WARM_UP };
        let report = self.load(&phase)?.finish()?;
        self.count(&phase, &report);
        ensure!(
            report.ok > 0,
            "no valid response during the warm-up: {}",
            report.first_bad.unwrap_or_default()
        );
        Ok(())
    }

    /// Measures one phase.
    pub(super) fn phase(&mut self, phase: &Phase) -> anyhow::Result<PhaseResult> {
        let mut load = self.load(phase)?;
        if phase.realtime && self.realtime {
            for pids in [
                accounting::tree(load.process.pid()),
                self.pids(),
                accounting::tree(self.stub),
            ] {
                accounting::set_realtime(&pids, true);
            }
        }
        let before = self.counters();
        let report = load.send_go().and_then(|()| load.result(phase.seconds));
        let load_cpu = accounting::cpu_ns(&[load.process.pid()]);
        std::thread::sleep(SETTLE_DELAY);
        let after = self.counters();
        if phase.realtime && self.realtime {
            for pids in [self.pids(), accounting::tree(self.stub)] {
                accounting::set_realtime(&pids, false);
            }
        }
        let report = report?;
        load.end()?;
        self.count(phase, &report);
        let passed = (after.at - before.at).as_nanos() as f64;
        let each = |spent: u64| spent as f64 / 1e3 / report.ok.max(1) as f64;
        let target = after.target.saturating_sub(before.target);
        let database = after.database.saturating_sub(before.database);
        let stub = if !self.started.processes.is_empty() {
            after.stub.saturating_sub(before.stub)
        } else {
            0
        };
        let ours = target + stub + database + load_cpu;
        let busy = after.machine.saturating_sub(before.machine);
        Ok(PhaseResult {
            round: self.round,
            target: self.name.to_owned(),
            phase: phase.name.to_owned(),
            cpu_us: each(target),
            database_cpu_us: self.uses_postgres.then(|| each(database)),
            cores: target as f64 / passed,
            other_cores: busy.saturating_sub(ours) as f64 / passed,
            memory: (!self.started.processes.is_empty()).then(|| self.memory()),
            load: report,
        })
    }

    /// Measures many slow streams.
    pub(super) fn hold(&mut self, hold: Hold) -> anyhow::Result<HoldResult> {
        let before = self.memory();
        let phase = Phase {
            name: "hold",
            payload: hold.payload(),
            mode: Mode::Hold,
            connections: hold.streams as usize,
            spread_ms: hold.ramp_ms(),
            ..WARM_UP
        };
        let mut load = self.load(&phase)?;
        let counters = self.counters();
        let mut peak = Memory::default();
        while counters.at.elapsed() < Duration::from_secs(HOLD_STEADY_SECONDS) {
            peak = peak.max(self.memory());
            std::thread::sleep(Duration::from_millis(250));
        }
        let after = self.counters();
        load.send_go()?;
        let report = load.result(hold.payload().chunks() as f64)?;
        load.end()?;
        self.count(&phase, &report);
        let passed = (after.at - counters.at).as_nanos() as f64;
        Ok(HoldResult {
            target: self.name.to_owned(),
            streams: hold.streams,
            before,
            peak,
            cores: (after.target.saturating_sub(counters.target)) as f64 / passed,
            load: report,
        })
    }

    /// Returns the memory of the target.
    pub(super) fn memory(&self) -> Memory {
        accounting::memory(&self.pids())
    }

    fn pids(&self) -> Vec<Pid> {
        match self.started.processes.as_slice() {
            [] => accounting::tree(self.stub),
            processes => processes.iter().flat_map(Process::tree).collect(),
        }
    }

    fn counters(&self) -> Counters {
        Counters {
            at: Instant::now(),
            target: accounting::cpu_ns(&self.pids()),
            stub: accounting::cpu_ns(&[self.stub]),
            database: if self.uses_postgres {
                accounting::cpu_ns(&accounting::named("postgres"))
            } else {
                0
            },
            machine: accounting::machine_busy_ns(),
        }
    }

    fn count(&mut self, phase: &Phase, report: &Report) {
        self.answered.answers.push((phase.payload, report.ok));
        self.answered
            .answers
            .push((warm_body(phase.payload), report.warm));
        self.answered.bad += report.bad;
    }

    /// Starts the load tool and waits until its connections are warm (a hold: until its streams are
    /// open).
    fn load(&self, phase: &Phase) -> anyhow::Result<Load> {
        let body = self.body_file(phase.payload)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["load", "--gated", "--mode", phase.mode.name()]);
        let addresses: Vec<String> = self.started.addresses.iter().map(ToString::to_string).collect();
        command.args(["--address", &addresses.join(",")]);
        command.args(["--connections", &phase.connections.to_string()]);
        command.args([
            "--seconds",
            &phase.seconds.to_string(),
            "--rate",
            &phase.rate.to_string(),
        ]);
        command.args(["--spread-ms", &phase.spread_ms.to_string()]);
        command.args(["--chunks", &phase.payload.chunks().to_string()]);
        command.args(["--path", phase.payload.path()]);
        command.arg("--body").arg(body);
        if phase.mode != Mode::Hold {
            command
                .arg("--warm")
                .arg(self.body_file(warm_body(phase.payload))?);
        }
        for key in &self.started.keys {
            command.args(["--bearer", key]);
        }
        let mut process = Process::start(command, self.work, "load")?;
        let stdin = process.take_stdin().context("no stdin")?;
        let slack = LOAD_SLACK + Duration::from_millis(phase.spread_ms);
        let word = process.line(slack)?;
        ensure!(word == "ready", "unexpected output of the load tool: {word}");
        Ok(Load { process, stdin })
    }

    fn body_file(&self, payload: Payload) -> anyhow::Result<PathBuf> {
        let name = match payload {
            Payload::Small => "small.json",
            Payload::Crossed => "crossed.json",
            Payload::Large => "large.json",
            Payload::Stream(_) => "stream.json",
        };
        let file = self.work.join(name);
        std::fs::write(&file, payload.body(&self.started.model))?;
        Ok(file)
    }
}

/// Returns the payload that warms connections: a small request to the same path.
fn warm_body(payload: Payload) -> Payload {
    match payload {
        Payload::Crossed => Payload::Crossed,
        Payload::Small | Payload::Large | Payload::Stream(_) => Payload::Small,
    }
}

/// The load tool, waiting at its gate.
struct Load {
    process: Process,
    stdin: ChildStdin,
}

impl Load {
    fn send_go(&mut self) -> anyhow::Result<()> {
        self.stdin.write_all(b"go\n").context("the load tool exited")
    }

    fn result(&self, seconds: f64) -> anyhow::Result<Report> {
        let line = self.process.line(LOAD_SLACK + Duration::from_secs_f64(seconds))?;
        serde_json::from_str(&line).with_context(|| format!("unexpected output of the load tool: {line}"))
    }

    /// Lets the load tool end; until then it stays alive so that its CPU time can be read.
    fn end(self) -> anyhow::Result<()> {
        drop(self.stdin);
        self.process.stop(Duration::from_secs(10))
    }

    fn finish(mut self) -> anyhow::Result<Report> {
        self.send_go()?;
        let report = self.result(WARM_UP.seconds)?;
        self.end()?;
        Ok(report)
    }
}
