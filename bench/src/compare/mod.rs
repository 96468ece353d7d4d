//! The comparison: for every round, every target is started, warmed, measured and stopped; then the
//! tables are printed.
//!
//! Figures are compared within a round only, and the order of the targets rotates from round to
//! round, so that a machine that slows down puts no target at a disadvantage.

mod measure;
mod phase;
mod process;
mod record;
mod report;
mod target;
mod tollgate;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use self::measure::Session;
use self::phase::{Hold, PHASES, Phase};
use self::process::Process;
use self::record::{ChargeCheck, Idle, Journal, Machine, Record, Trouble};
use self::target::{Answered, Bare, Direct, Nginx, Target};
use self::tollgate::{Setup, Tollgate};
use crate::accounting::{self, Pid};
use crate::payload::Payload;

/// Every target, in the order of the tables.
const TARGETS: [&str; 6] = [
    "direct",
    "nginx",
    "bare",
    "tollgate-sqlite",
    "tollgate-postgres",
    "tollgate-nodes",
];
/// Number of nodes of the target `tollgate-nodes`.
const NODES: usize = 3;
/// The holds of a full run, and that of a quick one.
const HOLDS: [u64; 2] = [1000, 5000];
const QUICK_HOLD: u64 = 200;
/// Number of keys of a quick run, and the maximum that is created in PostgreSQL.
const QUICK_KEYS: usize = 500;

/// Command line of the comparison.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Rounds over all targets [default: 3, with --quick 1]. Each figure is the median over them.
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Targets, separated by commas: direct, nginx, bare, tollgate-sqlite, tollgate-postgres,
    /// tollgate-nodes [default: all that are available].
    #[arg(long, value_delimiter = ',')]
    pub targets: Vec<String>,
    /// Phases, separated by commas: small, large, stream, stream1, open100, open1000, paced,
    /// hold1000, hold5000 (any number will do) [default: all].
    #[arg(long, value_delimiter = ',')]
    pub phases: Vec<String>,
    /// The tollgate program [default: the one beside this program].
    #[arg(long)]
    pub tollgate: Option<PathBuf>,
    /// An empty PostgreSQL database for the target tollgate-postgres, as
    /// `postgres://user:password@host/database`.
    #[arg(long)]
    pub postgres: Option<String>,
    /// A Redis for the limits of the target tollgate-nodes (three nodes on the database above), as
    /// `redis://host:port/0`.
    #[arg(long)]
    pub redis: Option<String>,
    /// One round, short phases, 200 held streams, 500 keys: checks that everything works; the
    /// figures are rough.
    #[arg(long)]
    pub quick: bool,
    /// API keys in Tollgate's store, at most 500 of them in PostgreSQL [default: 10000, with
    /// --quick 500].
    #[arg(long)]
    pub keys: Option<usize>,
    /// Accounts that the load is spread over: one is the hardest case, since all calls use one
    /// balance.
    #[arg(long, default_value_t = 1)]
    pub callers: usize,
    /// Leave the light phases at normal priority.
    #[arg(long)]
    pub no_realtime: bool,
    /// Folder for the data of the targets during the run [default: one in the temporary folder].
    /// The speed of its disk affects the results.
    #[arg(long)]
    pub work: Option<PathBuf>,
    /// Folder for the records.
    #[arg(long, default_value = "bench/results")]
    pub results: PathBuf,
    /// Measure nothing: print the tables of an earlier run's records.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Runs the comparison and prints the tables; returns a failure when any step went wrong.
///
/// # Errors
/// The run cannot start, or its own tools fail. Failures of one target are recorded, and the others
/// continue.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let records = match &options.report {
        Some(file) => record::read(file)?,
        None => Comparison::new(options)?.run()?,
    };
    println!("{}", report::tables(&records));
    let failed = records.iter().any(|record| matches!(record, Record::Trouble(_)));
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the number of cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

struct Comparison<'a> {
    options: &'a Options,
    rounds: usize,
    phases: Vec<Phase>,
    holds: Vec<Hold>,
    realtime: bool,
    work: PathBuf,
    stub: Process,
    targets: Vec<Box<dyn Target>>,
    journal: Journal,
}

impl<'a> Comparison<'a> {
    fn new(options: &'a Options) -> anyhow::Result<Comparison<'a>> {
        accounting::raise_open_files();
        let (phases, holds) = choose_phases(options)?;
        let started = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        let journal = Journal::create(&options.results, &started)?;
        let parent = options.work.clone().unwrap_or_else(std::env::temp_dir);
        let work = std::path::absolute(parent)?.join(format!("tollgate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["stub", "--listen", "127.0.0.1:0"]);
        let stub = Process::start(command, &work, "stub")?;
        let targets = choose_targets(options, &stub, &work)?;
        let realtime = !options.no_realtime && realtime_allowed(stub.pid());
        let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 3 });
        let mut comparison = Comparison {
            options,
            rounds,
            phases,
            holds,
            realtime,
            work,
            stub,
            targets,
            journal,
        };
        comparison
            .journal
            .write(Record::Machine(comparison.machine(started)))?;
        Ok(comparison)
    }

    fn run(mut self) -> anyhow::Result<Vec<Record>> {
        let mut targets = std::mem::take(&mut self.targets);
        let mut unprepared = Vec::new();
        for target in &mut targets {
            if let Err(error) = target.prepare() {
                self.trouble(0, target.name(), "prepare", &error)?;
                unprepared.push(target.name());
            }
        }
        targets.retain(|target| !unprepared.contains(&target.name()));
        for round in 0..self.rounds {
            for place in 0..targets.len() {
                let index = (round + place) % targets.len();
                let target = targets[index].as_mut();
                if let Err(error) = self.measure(round, target) {
                    self.trouble(round, target.name(), "run", &error)?;
                }
            }
        }
        for target in &mut targets {
            for hold in self.holds.clone() {
                if let Err(error) = self.measure_hold(hold, target.as_mut()) {
                    self.trouble(0, target.name(), &hold.name(), &error)?;
                }
            }
            if let Err(error) = target.finish() {
                self.trouble(0, target.name(), "ledger check", &error)?;
            }
        }
        drop(targets);
        self.clean_up()
    }

    /// Runs the phases of one round on one target.
    fn measure(&mut self, round: usize, target: &mut dyn Target) -> anyhow::Result<()> {
        if self.phases.is_empty() {
            return Ok(());
        }
        let can = |phase: &&Phase| phase.payload != Payload::Crossed || target.translates();
        let phases: Vec<Phase> = self.phases.iter().filter(can).copied().collect();
        self.with_target(round, target, |comparison, session| {
            session.warm_up(comparison.options.quick)?;
            for phase in &phases {
                let result = session.phase(phase).with_context(|| phase.name)?;
                let report = &result.load;
                eprintln!(
                    "round {round} {:<18} {:<9} {:>9.0}/s  cpu {:>8.1} us  p50 {:>7.0} us  p99 {:>7.0} us  bad {}",
                    result.target, result.phase, report.rps, result.cpu_us, report.latency.p50, report.latency.p99,
                    report.bad
                );
                comparison.judge(round, session.name, phase.name, report)?;
                comparison.journal.write(Record::Phase(Box::new(result)))?;
            }
            Ok(())
        })
    }

    /// Runs one hold on a fresh process.
    fn measure_hold(&mut self, hold: Hold, target: &mut dyn Target) -> anyhow::Result<()> {
        if target.name() == "direct" {
            return Ok(());
        }
        let available = accounting::open_files();
        if available < hold.open_files() {
            eprintln!(
                "{} is left out: it needs {} open files, {available} are allowed",
                hold.name(),
                hold.open_files()
            );
            return Ok(());
        }
        self.with_target(0, target, |comparison, session| {
            session.warm_up(comparison.options.quick)?;
            let result = session.hold(hold)?;
            eprintln!(
                "{:<18} {:<9} live {} peak {:.1} MB bad {}",
                result.target,
                hold.name(),
                result.load.peak_live,
                result.peak.pss as f64 / 1e6,
                result.load.bad
            );
            comparison.judge(0, session.name, &hold.name(), &result.load)?;
            comparison.journal.write(Record::Hold(Box::new(result)))
        })
    }

    /// Starts the target, waits until it answers, does the work, checks its charges, stops it.
    fn with_target(
        &mut self,
        round: usize,
        target: &mut dyn Target,
        work: impl FnOnce(&mut Self, &mut Session<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let name = target.name();
        let launched_at = Instant::now();
        let started = target.start().context("start")?;
        let directory = self.work.clone();
        let mut session = Session {
            name,
            round,
            started: &started,
            stub: self.stub.pid(),
            work: &directory,
            realtime: self.realtime,
            uses_postgres: target.uses_postgres(),
            answered: Answered::default(),
        };
        session.wait_until_up()?;
        let start_ms = launched_at.elapsed().as_secs_f64() * 1e3;
        std::thread::sleep(Duration::from_secs(1));
        if !started.processes.is_empty() {
            let memory = session.memory();
            self.journal.write(Record::Idle(Idle {
                round,
                target: name.to_owned(),
                start_ms,
                memory,
            }))?;
        }
        work(self, &mut session)?;
        let answered = session.answered;
        if let Some(charged) = target.charged(&answered).context("books")? {
            let (expected, charged) = (charged.expected, charged.charged);
            self.journal.write(Record::ChargeCheck(ChargeCheck {
                target: name.to_owned(),
                round,
                expected,
                charged,
            }))?;
            ensure!(
                expected == charged,
                "charged {charged} nano-credits instead of {expected}"
            );
        }
        let mut processes = started.processes.into_iter();
        processes.try_for_each(|process| process.stop(target.stop_timeout()))
    }

    /// Records bad answers as trouble: a gateway that refuses quickly would look cheap.
    fn judge(
        &mut self,
        round: usize,
        target: &str,
        phase: &str,
        report: &crate::load::Report,
    ) -> anyhow::Result<()> {
        if report.bad == 0 && report.missed == 0 {
            return Ok(());
        }
        let first = report.first_bad.clone().unwrap_or_default();
        let what = anyhow::anyhow!(
            "{} invalid responses, {} missed, {} valid; first: {first}",
            report.bad,
            report.missed,
            report.ok
        );
        self.trouble(round, target, phase, &what)
    }

    fn trouble(
        &mut self,
        round: usize,
        target: &str,
        phase: &str,
        error: &anyhow::Error,
    ) -> anyhow::Result<()> {
        let what = format!("{error:#}");
        eprintln!("PROBLEM: {target} {phase}: {what}");
        let (target, phase) = (target.to_owned(), phase.to_owned());
        self.journal.write(Record::Trouble(Trouble {
            round,
            target,
            phase,
            what,
        }))
    }

    fn machine(&self, started: String) -> Machine {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            started,
            cpu: cpu.map_or("unknown", |(_, name)| name).to_owned(),
            cores: cores(),
            kernel: kernel.trim().to_owned(),
            realtime: self.realtime,
            quick: self.options.quick,
            rounds: self.rounds,
            keys: keys(self.options),
            callers: self.options.callers,
            versions: self.targets.iter().map(|target| target.version()).collect(),
        }
    }

    /// Removes the data of a successful run; retains that of a failed one.
    fn clean_up(self) -> anyhow::Result<Vec<Record>> {
        self.stub.stop(Duration::from_secs(5))?;
        eprintln!("records: {}", self.journal.path.display());
        if self
            .journal
            .records
            .iter()
            .any(|record| matches!(record, Record::Trouble(_)))
        {
            eprintln!("logs and data remain in {}", self.work.display());
        } else {
            std::fs::remove_dir_all(&self.work)?;
        }
        Ok(self.journal.records)
    }
}

fn keys(options: &Options) -> usize {
    let usual = if options.quick { QUICK_KEYS } else { 10_000 };
    options.keys.unwrap_or(usual)
}

fn choose_phases(options: &Options) -> anyhow::Result<(Vec<Phase>, Vec<Hold>)> {
    let shortened = |phase: &Phase| if options.quick { phase.quick() } else { *phase };
    if options.phases.is_empty() {
        let holds = if options.quick {
            vec![QUICK_HOLD]
        } else {
            HOLDS.to_vec()
        };
        let holds = holds.into_iter().map(|streams| Hold { streams });
        return Ok((PHASES.iter().map(shortened).collect(), holds.collect()));
    }
    let mut phases = Vec::new();
    let mut holds = Vec::new();
    for name in &options.phases {
        if let Some(phase) = PHASES.iter().find(|phase| phase.name == name) {
            phases.push(shortened(phase));
        } else if let Some(streams) = name.strip_prefix("hold").and_then(|number| number.parse().ok()) {
            holds.push(Hold { streams });
        } else {
            let names: Vec<_> = PHASES.iter().map(|phase| phase.name).collect();
            bail!("unknown phase {name}; use {} or hold<streams>", names.join(", "));
        }
    }
    Ok((phases, holds))
}

fn choose_targets(options: &Options, stub: &Process, work: &Path) -> anyhow::Result<Vec<Box<dyn Target>>> {
    let address = stub.bound_address()?;
    for name in &options.targets {
        ensure!(
            TARGETS.contains(&name.as_str()),
            "unknown target {name}; use {}",
            TARGETS.join(", ")
        );
    }
    let wanted =
        |name: &str| options.targets.is_empty() || options.targets.iter().any(|wanted| wanted == name);
    let mut targets: Vec<Box<dyn Target>> = Vec::new();
    if wanted("direct") {
        targets.push(Box::new(Direct { stub: address }));
    }
    if wanted("nginx") {
        match Nginx::find(address, work) {
            Some(nginx) => targets.push(Box::new(nginx)),
            None => eprintln!("nginx is not installed: skipping it (Debian: apt-get install nginx-light)"),
        }
    }
    if wanted("bare") {
        targets.push(Box::new(Bare {
            stub: address,
            work: work.to_owned(),
        }));
    }
    let setup = |name: &'static str, postgres: Option<String>| -> anyhow::Result<Setup> {
        let max_keys = match &postgres {
            // Each key is created by a program that opens the database first; the large number is
            // only for SQLite's memory.
            Some(_) => QUICK_KEYS,
            None => usize::MAX,
        };
        let (binary, work) = (tollgate_program(options)?, work.to_owned());
        Ok(Setup {
            name,
            binary,
            work,
            stub: address,
            postgres,
            redis: None,
            nodes: 1,
            keys: keys(options).min(max_keys),
            callers: options.callers,
        })
    };
    if wanted("tollgate-sqlite") {
        targets.push(Box::new(Tollgate::new(setup("tollgate-sqlite", None)?)?));
    }
    match &options.postgres {
        Some(url) if wanted("tollgate-postgres") => {
            targets.push(Box::new(Tollgate::new(setup(
                "tollgate-postgres",
                Some(url.clone()),
            )?)?));
        }
        None if options.targets.iter().any(|name| name == "tollgate-postgres") => {
            bail!("the target tollgate-postgres needs --postgres URL");
        }
        None => eprintln!("no --postgres URL: skipping tollgate-postgres"),
        Some(_) => {}
    }
    match (&options.postgres, &options.redis) {
        (Some(url), Some(redis)) if wanted("tollgate-nodes") => {
            targets.push(Box::new(Tollgate::new(Setup {
                redis: Some(redis.clone()),
                nodes: NODES,
                ..setup("tollgate-nodes", Some(url.clone()))?
            })?));
        }
        _ if options.targets.iter().any(|name| name == "tollgate-nodes") => {
            ensure!(
                options.postgres.is_some() && options.redis.is_some(),
                "the target tollgate-nodes needs --postgres URL and --redis URL"
            );
        }
        _ => {}
    }
    Ok(targets)
}

fn tollgate_program(options: &Options) -> anyhow::Result<PathBuf> {
    let program = match &options.tollgate {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("tollgate"),
    };
    let advice = "build it with `cargo build -p tollgate --profile dist`, or pass --tollgate PATH";
    ensure!(
        program.is_file(),
        "{} does not exist: {advice}",
        program.display()
    );
    Ok(std::path::absolute(program)?)
}

/// Tries SCHED_RR on the stub and reverts it.
fn realtime_allowed(stub: Pid) -> bool {
    let allowed = accounting::set_realtime(&[stub], true);
    accounting::set_realtime(&[stub], false);
    if !allowed {
        eprintln!("SCHED_RR is not allowed (requires root): tail latencies include other work");
    }
    allowed
}
