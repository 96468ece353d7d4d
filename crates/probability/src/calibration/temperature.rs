//! Temperature scaling (Guo and others, "On calibration of modern neural networks", 2017).

use crate::calibration::TEMPERATURES;
use crate::example::Known;
use crate::simplex::{from_logs, log_sum_exp};

/// Lower bound of probabilities before the logarithm, which is infinite at 0.
const MIN_PROBABILITY: f64 = 1e-12;
/// Number of search steps. Each step shrinks the interval by a factor of 0.618; all steps shrink it
/// to less than 1e-8 of its length.
const STEPS: u32 = 40;
/// Strength of the regularization towards a temperature of 1: the penalty in nats at an inverse
/// temperature of 0 or 2. The log loss of several labels outweighs it.
const PULL: f64 = 1.0;

/// Finds the temperature with the smallest regularized log loss by a golden-section search over the
/// logarithm of the temperature. The loss is convex in the inverse temperature, so the minimum is
/// unique.
pub(super) fn fit(examples: &[&Known]) -> f64 {
    let logs: Vec<Vec<f64>> = examples.iter().map(|known| logs(&known.probabilities)).collect();
    let loss = |temperature: f64| {
        let each = examples.iter().zip(&logs).map(|(known, logs)| {
            let cooled: Vec<f64> = logs.iter().map(|log| log / temperature).collect();
            let whole = log_sum_exp(&cooled);
            let parts = known.truth.iter().zip(&cooled);
            parts.map(|(right, log)| right * (whole - log)).sum::<f64>()
        });
        each.sum::<f64>() + PULL * (1.0 / temperature - 1.0).powi(2)
    };
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (TEMPERATURES.start().ln(), TEMPERATURES.end().ln());
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (loss(left.exp()), loss(right.exp()));
    for _ in 0..STEPS {
        if at_left < at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = loss(left.exp());
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = loss(right.exp());
        }
    }
    ((low + high) / 2.0)
        .exp()
        .clamp(*TEMPERATURES.start(), *TEMPERATURES.end())
}

/// Returns the probabilities at this temperature; they sum to one.
pub(super) fn apply(probabilities: &[f64], temperature: f64) -> Vec<f64> {
    let cooled: Vec<f64> = logs(probabilities).iter().map(|log| log / temperature).collect();
    from_logs(&cooled)
}

fn logs(probabilities: &[f64]) -> Vec<f64> {
    probabilities
        .iter()
        .map(|probability| probability.max(MIN_PROBABILITY).ln())
        .collect()
}
