//! Arithmetic of probabilities and their logarithms.

/// Returns the logarithm of the sum of the exponentials; negative infinity for an empty slice.
pub(crate) fn log_sum_exp(logs: &[f64]) -> f64 {
    let max = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !max.is_finite() {
        return max;
    }
    max + logs.iter().map(|log| (log - max).exp()).sum::<f64>().ln()
}

/// Converts logarithms (up to a common constant) to probabilities that sum to one. The result is
/// uniform if no logarithm is finite.
pub(crate) fn from_logs(logs: &[f64]) -> Vec<f64> {
    let whole = log_sum_exp(logs);
    if !whole.is_finite() {
        return vec![1.0 / logs.len().max(1) as f64; logs.len()];
    }
    normalised(&logs.iter().map(|log| (log - whole).exp()).collect::<Vec<_>>())
}

/// Scales the weights to a sum of one. The result is uniform if the sum is zero or not finite.
pub(crate) fn normalised(weights: &[f64]) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        weights.iter().map(|weight| weight / sum).collect()
    } else {
        vec![1.0 / weights.len().max(1) as f64; weights.len()]
    }
}

/// Returns the total variation distance: half the sum of the absolute differences. It is 0 for
/// equal distributions and 1 for disjoint ones.
pub(crate) fn total_variation(one: &[f64], two: &[f64]) -> f64 {
    one.iter()
        .zip(two)
        .map(|(one, two)| (one - two).abs())
        .sum::<f64>()
        / 2.0
}

/// Returns the arithmetic mean; 0 for an empty slice.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
