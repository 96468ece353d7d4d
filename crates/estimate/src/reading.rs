//! What is shown and what comes back, and how a reading that does not tell of every label is made whole.

use std::f64::consts::LN_2;

/// Options that are shown at once, by their places among the question's: the first has label A, the next one B.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heat {
    /// Two or more of the options, each once.
    pub order: Vec<usize>,
}

/// How probable the labels of a heat are.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HeatReading {
    /// The natural logarithm of each label's probability among all tokens, in the order of the labels; `None` where it was
    /// not told.
    pub logprobs: Vec<Option<f64>>,
    /// What is not told is at most so probable, as a logarithm.
    pub rest: Option<f64>,
}

/// What is so improbable was masked or not told: some upstreams say -9999 of it.
const UNTOLD: f64 = -1_000.0;
/// No label counts as less probable than e^-30 of its heat's likeliest: a single zero would otherwise outweigh every other
/// order.
const LEAST: f64 = 30.0;
/// What is certainly left to labels that were not told, since what was told may be rounded.
const LEFT: f64 = 1e-9;

/// A reading in which every label has a number.
#[derive(Clone, Debug)]
pub(crate) struct WholeReading {
    /// The option of each label.
    pub order: Vec<usize>,
    /// Of each label: finite, and none is positive.
    pub logprobs: Vec<f64>,
    /// Which of them were told.
    pub told: Vec<bool>,
    /// How probable all labels that were told are together.
    pub mass: f64,
}

/// Makes a reading whole; `None` when it tells of no label.
///
/// A label that was not told is at most as probable as `rest` says and as the least probable one that was told. It counts
/// as half of that, or as its even share of what the told ones leave, if that is less.
pub(crate) fn whole(heat: &Heat, reading: &HeatReading) -> Option<WholeReading> {
    let told = |place: usize| {
        let logprob = reading.logprobs.get(place).copied().flatten()?;
        (logprob > UNTOLD).then(|| logprob.min(0.0))
    };
    let labels: Vec<Option<f64>> = (0..heat.order.len()).map(told).collect();
    let values = || labels.iter().copied().flatten();
    let most = values().reduce(f64::max)?;
    let least = values().fold(most, f64::min);
    let mass = values().map(f64::exp).sum::<f64>().min(1.0);
    let untold = labels.iter().filter(|label| label.is_none()).count();
    let bound = reading
        .rest
        .filter(|rest| !rest.is_nan())
        .map_or(least, |rest| rest.min(least));
    let share = (1.0 - mass).max(LEFT) / untold.max(1) as f64;
    let guess = (bound - LN_2).min(share.ln());
    let floor = most - LEAST;
    Some(WholeReading {
        order: heat.order.clone(),
        logprobs: labels
            .iter()
            .map(|label| label.unwrap_or(guess).max(floor))
            .collect(),
        told: labels.iter().map(Option::is_some).collect(),
        mass,
    })
}

#[cfg(test)]
mod tests;
