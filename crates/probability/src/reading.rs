//! Rounds, their readings, and the completion of readings with unreported labels.

use std::f64::consts::LN_2;

/// Options that are shown together, as indices into the question's options. The first option has
/// label A, the next one B.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    /// Two or more different options, in the order of their labels.
    pub order: Vec<usize>,
}

/// Label probabilities that an upstream reported for a round.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RoundReading {
    /// Natural logarithm of each label's probability among all tokens, in label order; `None` for
    /// an unreported label.
    pub logprobs: Vec<Option<f64>>,
    /// Upper bound of the log-probability of each unreported label; `None` if the upstream implies
    /// none.
    pub rest: Option<f64>,
}

/// Log-probabilities up to this value count as unreported: some upstreams report -9999 for masked
/// tokens.
const UNREPORTED_LOGPROB: f64 = -1_000.0;
/// Maximum difference from the log-probability of the round's top label, in nats. Without the
/// limit, a probability near zero in one order would outweigh all other orders.
const MAX_LOG_GAP: f64 = 30.0;
/// Minimum total probability of the unreported labels. Reported values may be rounded up to a sum
/// of one.
const MIN_UNREPORTED_MASS: f64 = 1e-9;

/// A completed reading, with a value for every label.
#[derive(Clone, Debug)]
pub(crate) struct WholeReading {
    /// Option of each label, as an index into the question's options.
    pub order: Vec<usize>,
    /// Log-probability of each label: finite and at most 0.
    pub logprobs: Vec<f64>,
    /// Whether each label was reported.
    pub reported: Vec<bool>,
    /// Total probability of the reported labels.
    pub mass: f64,
}

/// Completes a reading; `None` if it reports no label.
///
/// An unreported label is at most as probable as `rest` and as the least probable reported label.
/// Its value is half of that bound, or an equal share of the remaining probability if that is less.
/// No value is more than [`MAX_LOG_GAP`] below the top label.
pub(crate) fn whole(round: &Round, reading: &RoundReading) -> Option<WholeReading> {
    let reported = |place: usize| {
        let logprob = reading.logprobs.get(place).copied().flatten()?;
        (logprob > UNREPORTED_LOGPROB).then(|| logprob.min(0.0))
    };
    let labels: Vec<Option<f64>> = (0..round.order.len()).map(reported).collect();
    let values = || labels.iter().copied().flatten();
    let max = values().reduce(f64::max)?;
    let min = values().fold(max, f64::min);
    let mass = values().map(f64::exp).sum::<f64>().min(1.0);
    let unreported = labels.iter().filter(|label| label.is_none()).count();
    let bound = reading
        .rest
        .filter(|rest| !rest.is_nan())
        .map_or(min, |rest| rest.min(min));
    let share = (1.0 - mass).max(MIN_UNREPORTED_MASS) / unreported.max(1) as f64;
    let guess = (bound - LN_2).min(share.ln());
    let min_logprob = max - MAX_LOG_GAP;
    Some(WholeReading {
        order: round.order.clone(),
        logprobs: labels
            .iter()
            .map(|label| label.unwrap_or(guess).max(min_logprob))
            .collect(),
        reported: labels.iter().map(Option::is_some).collect(),
        mass,
    })
}

#[cfg(test)]
mod tests;
