//! Evaluation of labeled decisions: accuracy, calibration, and the quality of confidence. No single
//! metric suffices: a model that always predicts the base rates is perfectly calibrated and decides
//! nothing.

mod calibrated;
mod ranking;

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_types::decide::{argmax, expected_level};

pub use calibrated::{BINS, Bin, Interval};

use crate::example::{AnswerKind, Example, InvalidExample, Known, checked};
use crate::simplex::mean;

/// Lower bound of probabilities before the logarithm: a wrong answer with probability 1 costs 27.6
/// nats.
const MIN_PROBABILITY: f64 = 1e-12;

/// Options of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgeOptions {
    /// Maximum error rate of automatic decisions, 0 to 1, for [`Report::coverage`].
    pub errors: f64,
    /// Number of bootstrap resamples for an interval.
    pub resamples: u32,
    /// Seed of the bootstrap resamples.
    pub seed: u64,
}

impl Default for JudgeOptions {
    fn default() -> JudgeOptions {
        JudgeOptions {
            errors: 0.05,
            resamples: 1_000,
            seed: 0,
        }
    }
}

/// Metrics of decisions. A metric is `None` if the examples do not determine it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Number of examples.
    pub examples: usize,
    /// Share of answers that are the top option of the truth.
    pub accuracy: f64,
    /// Mean Brier score: half the squared distance to the truth, 0 to 1; `(p - t)²` for yes/no
    /// answers.
    pub brier: f64,
    /// Mean log loss in nats.
    pub log_loss: f64,
    /// Expected calibration error over 15 bins of about equal size, with its 95 % interval.
    pub ece: Interval,
    /// AUROC of confidence as a predictor of correct answers: 0.5 for chance, 1 for a perfect
    /// predictor.
    pub auroc: Option<f64>,
    /// Area under the risk-coverage curve: the error rate of the n most confident answers, averaged
    /// over all n. 0 is best.
    pub aurc: f64,
    /// Largest share of answers, the most confident ones, with an error rate of at most
    /// [`JudgeOptions::errors`].
    pub coverage: f64,
    /// AUROC of the predicted `abstain` probability as a predictor of unanswerable questions.
    pub abstain_auroc: Option<f64>,
    /// Mean absolute error of a score's expected level, in levels.
    pub score_error: Option<f64>,
    /// Bins of the calibration error, for [`crate::diagram::reliability`].
    pub bins: Vec<Bin>,
}

/// Evaluates decisions. Returns `None` without examples, and an error for an invalid example.
pub fn judge(examples: &[Example], how: &JudgeOptions) -> Result<Option<Report>, InvalidExample> {
    let known = checked(examples)?;
    Ok((!known.is_empty()).then(|| report(&known, how)))
}

/// Evaluates decisions by group. Examples without a group have the empty name.
pub fn judge_groups(
    examples: &[Example],
    how: &JudgeOptions,
) -> Result<BTreeMap<String, Report>, InvalidExample> {
    let mut groups: BTreeMap<String, Vec<Known>> = BTreeMap::new();
    for (known, example) in checked(examples)?.into_iter().zip(examples) {
        let name = example.group.clone().unwrap_or_default();
        groups.entry(name).or_default().push(known);
    }
    Ok(groups
        .into_iter()
        .map(|(name, known)| (name, report(&known, how)))
        .collect())
}

/// Returns the share of pairs whose top option differs between two orders of the same options. Both
/// distributions of a pair list the options in the same order. `None` without pairs.
pub fn flip_rate(pairs: &[(Vec<f64>, Vec<f64>)]) -> Option<f64> {
    let flips = pairs
        .iter()
        .filter(|(one, two)| argmax(one) != argmax(two))
        .count();
    (!pairs.is_empty()).then(|| flips as f64 / pairs.len() as f64)
}

/// Returns the probability that a positive example has a greater number than a negative one; ties
/// count half. `None` if all examples have the same class.
pub fn auroc(examples: &[(f64, bool)]) -> Option<f64> {
    ranking::auroc(examples)
}

fn report(known: &[Known], how: &JudgeOptions) -> Report {
    let of_each = |figure: fn(&Known) -> f64| mean(&known.iter().map(figure).collect::<Vec<_>>());
    let sure: Vec<(f64, bool)> = known
        .iter()
        .map(|known| (known.confidence, known.is_right()))
        .collect();
    let predicted: Vec<(f64, f64)> = known
        .iter()
        .map(|known| (known.predicted(), known.right()))
        .collect();
    let abstain: Vec<(f64, bool)> = known.iter().filter_map(|known| known.abstain).collect();
    let scores = known.iter().filter(|known| known.kind == AnswerKind::Score);
    let off = |known: &Known| (expected_level(&known.probabilities) - expected_level(&known.truth)).abs();
    let off: Vec<f64> = scores.map(off).collect();
    let bins = calibrated::Bins::of(&predicted);
    Report {
        examples: known.len(),
        accuracy: of_each(|known| f64::from(u8::from(known.is_right()))),
        brier: of_each(brier),
        log_loss: of_each(log_loss),
        ece: bins.error(how.resamples, how.seed),
        auroc: ranking::auroc(&sure),
        aurc: ranking::aurc(&sure),
        coverage: ranking::coverage(&sure, how.errors),
        abstain_auroc: ranking::auroc(&abstain),
        score_error: (!off.is_empty()).then(|| mean(&off)),
        bins: bins.bins(),
    }
}

fn brier(known: &Known) -> f64 {
    let parts = known.probabilities.iter().zip(&known.truth);
    parts.map(|(predicted, is)| (predicted - is).powi(2)).sum::<f64>() / 2.0
}

fn log_loss(known: &Known) -> f64 {
    let parts = known.probabilities.iter().zip(&known.truth);
    parts
        .map(|(predicted, is)| -is * predicted.max(MIN_PROBABILITY).ln())
        .sum()
}

#[cfg(test)]
mod tests;
