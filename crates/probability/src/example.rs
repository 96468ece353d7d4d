//! Labeled decisions, for calibration and evaluation.

use std::fmt;

use serde::{Deserialize, Serialize};
use tollgate_types::decide::{
    OPTIONS, argmax, confidence_of_choice, confidence_of_noul, confidence_of_score,
};

use crate::simplex::normalised;

/// Answer kind of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Yes or no: two probabilities, yes first.
    Noul,
    /// One of several options, without an order.
    Choice,
    /// A level of a scale; the probabilities start with the lowest level.
    Score,
    /// One of several functions (tools).
    Tool,
}

/// The correct answer of a labeled decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Truth {
    /// Index of the correct option, from 0.
    Option(usize),
    /// A probability for each option, such as the share of annotators who chose it.
    Soft(Vec<f64>),
}

/// A labeled decision: the predicted probabilities and the correct answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Answer kind of the question; `type` in JSON.
    #[serde(rename = "type")]
    pub kind: AnswerKind,
    /// Predicted probability of each option.
    pub probabilities: Vec<f64>,
    /// The correct answer.
    pub truth: Truth,
    /// Predicted probability that the question cannot be answered, and whether it really cannot be
    /// answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abstain: Option<(f64, bool)>,
    /// Confidence of the answer, 0 to 1; derived from the probabilities if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Group for [`judge_groups`](crate::judge::judge_groups), such as the name of a data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Reason why an example is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidExample {
    /// Index of the example, from 0.
    pub place: usize,
    /// Name of the invalid field.
    pub member: &'static str,
    /// Description of the fault, for an error message.
    pub what: &'static str,
}

impl fmt::Display for InvalidExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "example {}: {}", self.place, self.what)
    }
}

impl std::error::Error for InvalidExample {}

/// Maximum deviation of a sum of probabilities from one, because sources round their probabilities.
const ROUNDED: f64 = 0.02;

/// A validated example with normalized probabilities.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub kind: AnswerKind,
    /// Probabilities that sum to one.
    pub probabilities: Vec<f64>,
    /// Correctness of each option; the values sum to one.
    pub truth: Vec<f64>,
    pub abstain: Option<(f64, bool)>,
    pub confidence: f64,
}

impl Known {
    /// Returns the predicted probability of the answer, which is the most probable option.
    pub(crate) fn predicted(&self) -> f64 {
        self.probabilities.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the correctness of the answer: 0 or 1, or the share of the answer in a soft truth.
    pub(crate) fn right(&self) -> f64 {
        self.truth
            .get(argmax(&self.probabilities))
            .copied()
            .unwrap_or(0.0)
    }

    /// Whether the answer is the top option of the truth.
    pub(crate) fn is_right(&self) -> bool {
        argmax(&self.probabilities) == argmax(&self.truth)
    }
}

/// Validates examples and normalizes their probabilities. Returns an error for the first invalid
/// example.
pub(crate) fn checked(examples: &[Example]) -> Result<Vec<Known>, InvalidExample> {
    let each = examples.iter().enumerate();
    each.map(|(place, example)| {
        known(example).map_err(|(member, what)| InvalidExample { place, member, what })
    })
    .collect()
}

/// Validates one example. The error contains the field and the description of the fault.
fn known(example: &Example) -> Result<Known, (&'static str, &'static str)> {
    let number = example.probabilities.len();
    if !OPTIONS.contains(&number) || (example.kind == AnswerKind::Noul && number != 2) {
        return Err((
            "probabilities",
            "an answer must have 2 to 255 probabilities, and exactly two for a yes-or-no question",
        ));
    }
    let probabilities = distribution(&example.probabilities)
        .ok_or(("probabilities", "probabilities must be from 0 to 1 and sum to 1"))?;
    let truth = match &example.truth {
        Truth::Option(option) if *option < number => {
            let right = |place| if place == *option { 1.0 } else { 0.0 };
            (0..number).map(right).collect()
        }
        Truth::Soft(shares) if shares.len() == number => {
            let invalid = "the probabilities of a soft truth must be from 0 to 1 and sum to 1";
            distribution(shares).ok_or(("truth", invalid))?
        }
        _ => {
            return Err((
                "truth",
                "the truth must be the index of an option, or one probability for each option",
            ));
        }
    };
    let is_share = |value: f64| (0.0..=1.0).contains(&value);
    if !example.confidence.is_none_or(is_share) {
        return Err(("confidence", "confidence must be from 0 to 1"));
    }
    if !example.abstain.is_none_or(|(predicted, _)| is_share(predicted)) {
        return Err(("abstain", "abstain must be from 0 to 1"));
    }
    let follows = || match example.kind {
        AnswerKind::Noul => confidence_of_noul(probabilities.first().copied().unwrap_or_default()),
        AnswerKind::Score => confidence_of_score(&probabilities),
        AnswerKind::Choice | AnswerKind::Tool => confidence_of_choice(&probabilities),
    };
    Ok(Known {
        kind: example.kind,
        confidence: example.confidence.unwrap_or_else(follows),
        probabilities,
        truth,
        abstain: example.abstain,
    })
}

fn distribution(shares: &[f64]) -> Option<Vec<f64>> {
    let sum: f64 = shares.iter().sum();
    let is_fine =
        shares.iter().all(|share| (0.0..=1.0 + ROUNDED).contains(share)) && (sum - 1.0).abs() <= ROUNDED;
    is_fine.then(|| normalised(shares))
}

#[cfg(test)]
mod tests;
