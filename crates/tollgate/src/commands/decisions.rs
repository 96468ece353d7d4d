//! The `tollgate decisions` commands.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use tollgate_server::evaluate::{
    self, Case, Evaluated, EvaluationClient, EvaluationTarget, RunOptions, cases,
};

use super::check::block_on;
use super::gateway_access::{GatewayAccess, report_tenths};
use crate::failure::{Exit, Failure};
use crate::print::{self, Printer};

/// Subcommands of `tollgate decisions`.
#[derive(Debug, Subcommand)]
pub enum Decisions {
    /// Evaluate a model's decisions on questions with known answers.
    Eval(Eval),
}

/// Arguments of `tollgate decisions eval`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate decisions eval sample.jsonl --model sim/decide
  tollgate decisions eval sample.jsonl --model sim/decide-logits --svg reliability.svg --fit examples.json
  tollgate decisions eval sample.jsonl --model sim/decide --url https://gateway.example.com --one-order --json

Each line of the file is a request body for POST /v1/decisions without `model`, plus the true \
answers:

  {\"state\": \"I was charged twice!\", \"questions\": {
    \"refund\":  {\"type\": \"noul\", \"instructions\": \"Does the customer want a refund?\", \"abstain\": true},
    \"team\":    {\"type\": \"choice\", \"instructions\": \"Who answers?\", \"criteria\": {\"billing\": null, \"tech\": null}},
    \"urgency\": {\"type\": \"score\", \"instructions\": \"How urgent is it?\", \"criteria\": [\"can wait\", \"today\", \"now\"]}},
   \"truth\": {\"refund\": true, \"team\": \"billing\", \"urgency\": 1}, \"group\": \"payments\"}

(on one line). A truth is true or false, the name of an option or of a function, or a level's \
label or number (from 0). Use null when the question has \"abstain\" and cannot be answered. A \
truth can also be the share of people who would give each answer, such as {\"billing\": 0.8, \
\"tech\": 0.2}, or 0.8 for a yes. Questions without a truth are sent but not scored. `group` is \
optional; each group is also scored separately.

The evaluation calls the gateway's API, which charges the key's account. Choices and function \
questions are sent a second time with reversed options, to measure how often the order changes \
the answer; --one-order skips this.

docs/decisions-quality.md explains the metrics. Exit code 3 when requests failed.")]
pub struct Eval {
    /// File with questions and their true answers, one JSON object per line.
    pub file: PathBuf,
    /// Id of the model to evaluate.
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    #[command(flatten)]
    pub access: GatewayAccess,
    /// Plot the calibration curve (reliability diagram) and write it to this SVG file.
    #[arg(long, value_name = "OUT.svg")]
    pub svg: Option<PathBuf>,
    /// Write a request body for POST /v1/decisions/calibrations, with uncorrected probabilities, to
    /// this JSON file.
    #[arg(long, value_name = "OUT.json", conflicts_with = "calibration")]
    pub fit: Option<PathBuf>,
    /// Calibration profile: default (also if omitted), none, or a profile id.
    #[arg(long, value_name = "PROFILE")]
    pub calibration: Option<String>,
    /// Number of concurrent requests, 1–64.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Skip the second request with reversed options.
    #[arg(long)]
    pub one_order: bool,
}

/// Runs `tollgate decisions`.
pub fn decisions(command: Decisions, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Decisions::Eval(command) => eval(&command, printer),
    }
}

fn eval(command: &Eval, printer: &Printer) -> Result<Exit, Failure> {
    let key = command.access.key()?;
    // Profiles are fitted to the model's raw probabilities, not to corrected ones.
    let uncorrected = command.fit.as_ref().map(|_| "none".to_owned());
    let manner = EvaluationTarget {
        model: command.model.clone(),
        calibration: uncorrected.or_else(|| command.calibration.clone()),
    };
    let cases = read(&command.file, &manner)?;
    let gateway = EvaluationClient::new(&command.access.url, key)
        .map_err(|error| Failure::usage(format!("--url or --key: {error}")))?;
    // Opens the output files first, so that an unwritable path fails before any request is charged.
    let mut svg = command.svg.as_deref().map(Output::open).transpose()?;
    let mut fit = command.fit.as_deref().map(Output::open).transpose()?;
    let effort = RunOptions {
        parallel: usize::from(command.parallel),
        reversed: !command.one_order,
    };
    let number = cases.len();
    let requests = if effort.reversed { number * 2 } else { number };
    printer.hint(&format!(
        "Lines: {number}; requests: at most {requests}, plus retries after status 429 or 503."
    ));
    let reported = |done| report_tenths(printer, done, number, "lines");
    let Evaluated { evaluation, examples } =
        block_on(evaluate::evaluate(&gateway, &cases, &manner, effort, reported))?
            .map_err(|error| Failure::failed(error.to_string()))?;
    if let Some(svg) = &mut svg {
        svg.write(&evaluation.diagram())?;
    }
    if let Some(fit) = &mut fit {
        let body = json!({"model": command.model, "examples": examples});
        fit.write(&format!("{body}\n"))?;
    }
    printer.answer(&evaluation, || print::decisions::evaluation(&evaluation))?;
    Ok(match evaluation.failed.is_empty() {
        true => Exit::Fine,
        false => Exit::Faults,
    })
}

fn read(file: &Path, manner: &EvaluationTarget) -> Result<Vec<Case>, Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    let cases = cases::read(&text, manner).map_err(|wrong| {
        Failure::usage(format!(
            "{shown}, {wrong}. No request was sent. `tollgate decisions eval --help` shows an example line."
        ))
    })?;
    match cases.is_empty() {
        true => Err(Failure::usage(format!(
            "{shown} is empty. `tollgate decisions eval --help` shows an example line."
        ))),
        false => Ok(cases),
    }
}

/// An output file, opened at the start and written at the end.
struct Output<'p> {
    path: &'p Path,
    file: File,
}

impl<'p> Output<'p> {
    fn open(path: &'p Path) -> Result<Self, Failure> {
        let file = File::create(path);
        let file =
            file.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self { path, file })
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", self.path.display())))
    }
}
