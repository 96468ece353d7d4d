//! Evaluation of models with questions whose answers are known. The requests are sent to a running
//! gateway, so the results are those that callers receive.
//!
//! `tollgate decisions eval` measures decisions; suggested reading order: [`cases`], `client.rs`,
//! `answers.rs`, [`report`]. `tollgate research eval` measures reports ([`research`]).

mod answers;
pub mod cases;
mod client;
pub mod report;
mod request;
pub mod research;

use std::fmt;

use tollgate_probability::Example;

pub use cases::{BadLine, Case, EvaluationTarget};
pub use client::{EvaluationClient, RunOptions};
pub use report::Evaluation;

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Metrics of all decisions, also by type and by group.
    pub evaluation: Evaluation,
    /// Every decision whose correct answer is one of its options, in the order of the lines.
    pub examples: Vec<Example>,
}

/// The reason why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationError(String);

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EvaluationError {}

/// Sends all cases to the gateway and computes the metrics of its answers. Calls `on_progress`
/// after each case with the number of finished cases.
///
/// # Errors
///
/// Fails if an error affects all cases and no case has a result, or if an answer cannot be scored.
pub async fn evaluate(
    gateway: &EvaluationClient,
    cases: &[Case],
    target: &EvaluationTarget,
    options: RunOptions,
    on_progress: impl FnMut(usize),
) -> Result<Evaluated, EvaluationError> {
    let (outcomes, failed) = gateway
        .all(cases, options, on_progress)
        .await
        .map_err(EvaluationError)?;
    report::of(&target.model, cases, outcomes, failed).map_err(EvaluationError)
}
