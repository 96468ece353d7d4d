//! Evaluation of a research model: `tollgate research eval`. Every citation is compared with the
//! stored text of its source, and every report with the expected answers.
//!
//! Suggested reading order: [`cases`], `client.rs`, `score.rs`, [`report`].

mod agreement;
pub mod cases;
mod client;
mod filters;
pub mod report;
mod score;

use super::EvaluationError;

pub use cases::{Format, ResearchCase};
pub use client::{ResearchClient, ResearchTarget};
pub use report::ResearchEvaluation;

/// Sends all questions to the gateway and scores the reports. Calls `on_progress` after each
/// question with the number of finished questions.
///
/// # Errors
///
/// Fails if an error affects all questions and no question has a report.
pub async fn evaluate(
    gateway: &ResearchClient,
    cases: &[ResearchCase],
    target: &ResearchTarget,
    parallel: usize,
    on_progress: impl FnMut(usize),
) -> Result<ResearchEvaluation, EvaluationError> {
    let (outcomes, failed) = gateway
        .all(cases, target, parallel, on_progress)
        .await
        .map_err(EvaluationError)?;
    Ok(report::of(target, cases, outcomes, failed))
}
