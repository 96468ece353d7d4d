//! The `tollgate decisions` commands.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use tollgate_server::evaluate::{
    self, Case, Evaluated, EvaluationClient, EvaluationTarget, RunOptions, cases,
};

use super::check::block_on;
use crate::cli::{Decisions, Eval};
use crate::failure::{Exit, Failure};
use crate::print::{self, Printer};

/// Runs `tollgate decisions`.
pub fn decisions(command: Decisions, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Decisions::Eval(command) => eval(&command, printer),
    }
}

fn eval(command: &Eval, printer: &Printer) -> Result<Exit, Failure> {
    let Some(key) = &command.key else {
        return Err(Failure::usage(
            "no API key: set TOLLGATE_API_KEY or pass --key. Create one with `tollgate keys create`.",
        ));
    };
    // Profiles are fitted to the model's raw probabilities, not to corrected ones.
    let uncorrected = command.fit.as_ref().map(|_| "none".to_owned());
    let manner = EvaluationTarget {
        model: command.model.clone(),
        calibration: uncorrected.or_else(|| command.calibration.clone()),
    };
    let cases = read(&command.file, &manner)?;
    let gateway = EvaluationClient::new(&command.url, key)
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
    let reported = |done: usize| {
        if done * 10 / number != (done - 1) * 10 / number {
            printer.hint(&format!("{done} of {number} lines"));
        }
    };
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
