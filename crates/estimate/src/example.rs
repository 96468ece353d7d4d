//! Decisions whose truth is known: what profiles are fitted to and models are judged by.

use std::fmt;

use serde::{Deserialize, Serialize};
use tollgate_types::decide::{
    OPTIONS, confidence_of_choice, confidence_of_noul, confidence_of_score, likeliest,
};

use crate::simplex::normalised;

/// The type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Yes or no: two probabilities, that of a yes first.
    Noul,
    /// One of several.
    Choice,
    /// A level of a scale, the lowest one first.
    Score,
    /// A function.
    Tool,
}

/// What would have been right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Truth {
    /// This option, counted from 0.
    Option(usize),
    /// Each option so much, such as the share of people who chose it.
    Soft(Vec<f64>),
}

/// A decision whose truth is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: AnswerKind,
    /// How probable each option was said to be.
    pub probabilities: Vec<f64>,
    /// What would have been right.
    pub truth: Truth,
    /// How probable it was said to be that the question cannot be answered, and whether it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abstain: Option<(f64, bool)>,
    /// How sure the answer was; without it what follows from the probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// What it is judged together with, such as a data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// An example that says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadExample {
    /// Which, counted from 0.
    pub place: usize,
    /// Which member of it.
    pub member: &'static str,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for BadExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "example {}: {}", self.place, self.what)
    }
}

impl std::error::Error for BadExample {}

/// How far probabilities may be from a sum of one: they are rounded where they come from.
const ROUNDED: f64 = 0.02;

/// An example that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub kind: AnswerKind,
    /// They sum to one.
    pub probabilities: Vec<f64>,
    /// How right each option is; they sum to one.
    pub truth: Vec<f64>,
    pub abstain: Option<(f64, bool)>,
    pub confidence: f64,
}

impl Known {
    /// How probable the answer was said to be.
    pub(crate) fn said(&self) -> f64 {
        self.probabilities.iter().copied().fold(0.0, f64::max)
    }

    /// How right the answer is: 0 or 1, or its share of a soft truth.
    pub(crate) fn right(&self) -> f64 {
        self.truth
            .get(likeliest(&self.probabilities))
            .copied()
            .unwrap_or(0.0)
    }

    /// Whether the answer is the likeliest one of the truth.
    pub(crate) fn is_right(&self) -> bool {
        likeliest(&self.probabilities) == likeliest(&self.truth)
    }
}

/// Checks examples.
pub(crate) fn checked(examples: &[Example]) -> Result<Vec<Known>, BadExample> {
    let each = examples.iter().enumerate();
    each.map(|(place, example)| known(example).map_err(|(member, what)| BadExample { place, member, what }))
        .collect()
}

/// The error is which member is wrong, and what is wrong with it.
fn known(example: &Example) -> Result<Known, (&'static str, &'static str)> {
    let number = example.probabilities.len();
    if !OPTIONS.contains(&number) || (example.kind == AnswerKind::Noul && number != 2) {
        return Err((
            "probabilities",
            "there are 2 to 255 probabilities, and two of a yes or no",
        ));
    }
    let probabilities = distribution(&example.probabilities)
        .ok_or(("probabilities", "probabilities are 0 to 1 and sum to 1"))?;
    let truth = match &example.truth {
        Truth::Option(option) if *option < number => {
            let right = |place| if place == *option { 1.0 } else { 0.0 };
            (0..number).map(right).collect()
        }
        Truth::Soft(shares) if shares.len() == number => {
            distribution(shares).ok_or(("truth", "shares of a truth are 0 to 1 and sum to 1"))?
        }
        _ => return Err(("truth", "the truth is not one of the options")),
    };
    let is_share = |value: f64| (0.0..=1.0).contains(&value);
    if !example.confidence.is_none_or(is_share) {
        return Err(("confidence", "confidence is 0 to 1"));
    }
    if !example.abstain.is_none_or(|(said, _)| is_share(said)) {
        return Err(("abstain", "abstain is 0 to 1"));
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
