//! The `tollgate research` commands.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum, value_parser};
use tollgate_operations::{ListResearchJobs, ShowResearchJob, ShowResearchSources};
use tollgate_server::evaluate::research::{self, ResearchCase, ResearchClient, ResearchTarget, cases};
use tollgate_types::JobId;

use super::arguments::AccountArg;
use super::check::block_on;
use super::gateway_access::{GatewayAccess, report_tenths};
use super::send::{resolve_filter, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, research as tables};

/// Advice for an unknown job id.
const KNOWN: &str = "`tollgate research list` shows the unfinished jobs.";

/// Subcommands of `tollgate research`.
#[derive(Debug, Subcommand)]
pub enum Research {
    /// List queued and running research jobs with their progress, newest first.
    #[command(
        after_help = "Examples:\n  tollgate research list\n  tollgate research list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    List {
        /// Filter by account (default: all).
        #[arg(long, value_name = "ID|NAME")]
        account: Option<AccountArg>,
        /// Maximum number of jobs to list, 1–1000.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Show a research job with its phase and cost.
    #[command(after_help = "Examples:\n  tollgate research show job_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Show {
        /// Job id (job_…).
        #[arg(value_parser = job_id)]
        id: JobId,
    },
    /// Show the search services and corpora of the running gateway with their state.
    #[command(after_help = "Examples:\n  tollgate research sources\n  tollgate research sources --json")]
    Sources,
    /// Evaluate the reports of a research model on questions with known answers.
    Eval(Eval),
}

/// Format of the file with questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Requests with answers, one JSON object a line.
    Shipped,
    /// SimpleQA: CSV with the columns problem and answer.
    SimpleQa,
    /// FRAMES: TSV with the columns Prompt and Answer.
    Frames,
    /// DeepResearch Bench: JSON lines with prompt; only citations are checked.
    DeepResearchBench,
    /// BrowseComp: CSV with the encrypted columns problem and answer, and the column canary.
    #[value(name = "browsecomp")]
    BrowseComp,
}

impl From<Format> for cases::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Shipped => Self::Shipped,
            Format::SimpleQa => Self::SimpleQa,
            Format::Frames => Self::Frames,
            Format::DeepResearchBench => Self::DeepResearchBench,
            Format::BrowseComp => Self::BrowseComp,
        }
    }
}

/// Arguments of `tollgate research eval`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate research eval --model sim/research --effort minimal
  tollgate research eval questions.jsonl --model tollgate/extractive --min-recall 0.8
  tollgate research eval frames.tsv --format frames --model acme/research --judge sim/decide --json

Without FILE, the questions are about the built-in corpus `demo`, which sim/research searches: its \
planted facts, its contradictions, and questions whose filters permit one of two documents.

With --format shipped, each line of FILE is a request body for POST /v1/research without `model`, \
plus the answers that the report should state:

  {\"query\": \"How high is the tower?\", \"answers\": [\"38 metres\"], \"group\": \"lighthouses\"}

`answers` and `group` are optional; each group is also scored separately. The other formats are \
files of public benchmarks, which you download yourself.

The scores:
  CITATIONS OK  citations whose quote is the stored text of the source at its offsets
  AT FIRST      statements that were verified as first written, as the gateway reports it
  RECALL        expected answers that the report states, by words and figures
  PRECISION     statements of the report that state an expected answer
  SUPPORTED     with --judge: statements that their quotes alone support, by a typed decision
  filter leaks  sources that the filters of the request exclude

The evaluation calls the gateway's API, which charges the key's account. A request that waits in \
the queue counts towards its time.

Exit code 3 when a citation is wrong, a filter leaks, a question failed, or the recall is below \
--min-recall.")]
pub struct Eval {
    /// File with questions; the questions about the corpus `demo` if omitted.
    pub file: Option<PathBuf>,
    /// Format of the file.
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "shipped",
        requires_ifs = [("simple-qa", "file"), ("frames", "file"), ("deep-research-bench", "file"), ("browsecomp", "file")]
    )]
    pub format: Format,
    /// Id of the research model to evaluate.
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Effort of questions whose line has none [default: the gateway's].
    #[arg(long, value_name = "EFFORT", value_parser = ["minimal", "low", "medium", "high"])]
    pub effort: Option<String>,
    /// Model for typed decisions that judges whether quotes support their statement.
    #[arg(long, value_name = "MODEL")]
    pub judge: Option<String>,
    /// Minimum recall, 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_recall: Option<f64>,
    #[command(flatten)]
    pub access: GatewayAccess,
    /// Number of concurrent reports, 1–4.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u8).range(1..=4))]
    pub parallel: u8,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err("must be from 0 to 1".to_owned()),
    }
}

fn job_id(text: &str) -> Result<JobId, &'static str> {
    text.parse()
        .map_err(|_| "expected a job id: job_ and 32 hex digits; see `tollgate research list`")
}

/// Runs `tollgate research`.
pub fn research(place: Place, command: Research, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Research::List { account, limit } => {
            let config = &start(place)?;
            let command = ListResearchJobs {
                account: resolve_filter(config, account.as_ref())?,
                before: None,
                limit,
            };
            let found = send(config, command, KNOWN)?;
            printer.answer(&found, || tables::jobs(&found))?;
            if found.is_empty() {
                printer.hint("No queued or running research jobs.");
            }
            Ok(Exit::Fine)
        }
        Research::Show { id } => {
            let job = send(&start(place)?, ShowResearchJob { id }, KNOWN)?;
            printer.answer(&job, || tables::job(&job))?;
            Ok(Exit::Fine)
        }
        Research::Sources => {
            let sources = send(&start(place)?, ShowResearchSources, "")?;
            printer.answer(&sources, || tables::sources(&sources))?;
            if sources.search.is_empty() && sources.corpora.is_empty() {
                printer.hint("No search services or corpora. Add a section [search.NAME] or [corpora.NAME].");
            }
            Ok(Exit::Fine)
        }
        Research::Eval(command) => eval(&command, printer),
    }
}

fn eval(command: &Eval, printer: &Printer) -> Result<Exit, Failure> {
    let key = command.access.key()?;
    let cases = match &command.file {
        Some(file) => read(file, command.format)?,
        None => cases::shipped(),
    };
    let gateway = ResearchClient::new(&command.access.url, key)
        .map_err(|error| Failure::usage(format!("--url or --key: {error}")))?;
    let target = ResearchTarget {
        model: command.model.clone(),
        effort: command.effort.clone(),
        judge: command.judge.clone(),
    };
    let number = cases.len();
    printer.hint(&format!("Questions: {number}; every report is charged."));
    let reported = |done| report_tenths(printer, done, number, "questions");
    let parallel = usize::from(command.parallel);
    let found = block_on(research::evaluate(&gateway, &cases, &target, parallel, reported))?
        .map_err(|error| Failure::failed(error.to_string()))?;
    printer.answer(&found, || tables::evaluation(&found))?;
    let is_complete = |recall: f64| command.min_recall.is_none_or(|min| recall >= min);
    let is_fine = found.failed.is_empty()
        && found.wrong_citations.is_empty()
        && found.filter_leaks.is_empty()
        && found.all.recall.is_none_or(is_complete);
    Ok(match is_fine {
        true => Exit::Fine,
        false => Exit::Faults,
    })
}

fn read(file: &Path, format: Format) -> Result<Vec<ResearchCase>, Failure> {
    const EXAMPLE: &str = "`tollgate research eval --help` shows an example line.";
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    let cases = cases::read(&text, format.into())
        .map_err(|wrong| Failure::usage(format!("{shown}, {wrong}. No request was sent. {EXAMPLE}")))?;
    match cases.is_empty() {
        true => Err(Failure::usage(format!("{shown} is empty. {EXAMPLE}"))),
        false => Ok(cases),
    }
}
