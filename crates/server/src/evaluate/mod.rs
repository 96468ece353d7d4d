//! How good the decisions of a model are, by questions whose answers are known: `tollgate decisions eval`. A running gateway
//! is asked as any caller asks it, so that what is judged is what callers get.
//!
//! Suggested reading order: [`cases`], `asking.rs`, `answers.rs`, [`report`].

mod answers;
mod asking;
pub mod cases;
pub mod report;

use std::fmt;

use tollgate_estimate::Example;

pub use asking::{Asked, Effort};
pub use cases::{BadLine, Case, Manner};
pub use report::Evaluation;

/// What was found, and what it was found by.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// How good the decisions are.
    pub evaluation: Evaluation,
    /// Every decision that has an answer of its own among its options, in the order of the lines.
    pub examples: Vec<Example>,
}

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEvaluated(String);

impl fmt::Display for NotEvaluated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotEvaluated {}

/// Asks a gateway all of it and judges what it answers. `told` is told after each line how many are done.
pub async fn evaluate(
    gateway: &Asked,
    cases: &[Case],
    manner: &Manner,
    effort: Effort,
    told: impl FnMut(usize),
) -> Result<Evaluated, NotEvaluated> {
    let (outcomes, failed) = gateway.all(cases, effort, told).await.map_err(NotEvaluated)?;
    report::of(&manner.model, cases, outcomes, failed).map_err(NotEvaluated)
}
