//! How good decisions are whose truth is known: how often they are right, whether they are as right as they say, and whether
//! they know when they are not. No figure stands for the others: who always says how common each answer is, is perfectly
//! calibrated and decides nothing.

mod calibrated;
mod ranking;

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_types::decide::{expected_level, likeliest};

pub use calibrated::{BINS, Bin, Interval};

use crate::example::{AnswerKind, BadExample, Example, Known, checked};
use crate::simplex::mean;

/// The least probability that has a logarithm: a certainty that is wrong loses 27.6 nats.
const LEAST: f64 = 1e-12;

/// How decisions are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgeOptions {
    /// The share of errors that is borne where a machine decides alone.
    pub errors: f64,
    /// How often examples are drawn anew for an interval.
    pub resamples: u32,
    /// Decides which.
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

/// How good decisions are. `None` is what these examples do not say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How many.
    pub examples: usize,
    /// The share of answers that are the likeliest one of the truth.
    pub accuracy: f64,
    /// Half the squared distance to the truth, 0 to 1; of a yes or no `(p - t)²`.
    pub brier: f64,
    /// What the truth was believed to be improbable by, in nats.
    pub log_loss: f64,
    /// How far answers are from being as right as they say, over 15 bins of about as many examples each, with its 95 %
    /// interval.
    pub ece: Interval,
    /// How well confidence tells right answers from wrong ones: 0.5 is chance, 1 perfect.
    pub auroc: Option<f64>,
    /// The area under the curve of errors over coverage: the mean share of errors among the surest ones. 0 is best.
    pub aurc: f64,
    /// The largest share of answers, the surest ones, that has no more than `errors` errors.
    pub coverage: f64,
    /// How well `abstain` tells questions that cannot be answered from those that can.
    pub abstain_auroc: Option<f64>,
    /// How many levels the expected level of a score is off, on average.
    pub score_error: Option<f64>,
    /// The bins, for [`crate::diagram::reliability`].
    pub bins: Vec<Bin>,
}

/// Judges decisions; `None` when there are none.
pub fn judge(examples: &[Example], how: &JudgeOptions) -> Result<Option<Report>, BadExample> {
    let known = checked(examples)?;
    Ok((!known.is_empty()).then(|| report(&known, how)))
}

/// Judges decisions by their groups; those without one are a group without a name.
pub fn judge_groups(
    examples: &[Example],
    how: &JudgeOptions,
) -> Result<BTreeMap<String, Report>, BadExample> {
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

/// How often the likeliest option is another one, when the same options are shown in another order. Both are in the same
/// order here. `None` of no pairs.
pub fn flip_rate(pairs: &[(Vec<f64>, Vec<f64>)]) -> Option<f64> {
    let flips = pairs
        .iter()
        .filter(|(one, two)| likeliest(one) != likeliest(two))
        .count();
    (!pairs.is_empty()).then(|| flips as f64 / pairs.len() as f64)
}

/// How probable it is that one that is has a greater number than one that is not; half of the equal ones. `None` when all
/// are of one kind.
pub fn auroc(examples: &[(f64, bool)]) -> Option<f64> {
    ranking::auroc(examples)
}

fn report(known: &[Known], how: &JudgeOptions) -> Report {
    let of_each = |figure: fn(&Known) -> f64| mean(&known.iter().map(figure).collect::<Vec<_>>());
    let sure: Vec<(f64, bool)> = known
        .iter()
        .map(|known| (known.confidence, known.is_right()))
        .collect();
    let said: Vec<(f64, f64)> = known.iter().map(|known| (known.said(), known.right())).collect();
    let abstain: Vec<(f64, bool)> = known.iter().filter_map(|known| known.abstain).collect();
    let scores = known.iter().filter(|known| known.kind == AnswerKind::Score);
    let off = |known: &Known| (expected_level(&known.probabilities) - expected_level(&known.truth)).abs();
    let off: Vec<f64> = scores.map(off).collect();
    let bins = calibrated::Bins::of(&said);
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
    parts.map(|(said, is)| (said - is).powi(2)).sum::<f64>() / 2.0
}

fn log_loss(known: &Known) -> f64 {
    let parts = known.probabilities.iter().zip(&known.truth);
    parts.map(|(said, is)| -is * said.max(LEAST).ln()).sum()
}

#[cfg(test)]
mod tests;
