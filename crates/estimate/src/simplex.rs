//! Arithmetic of probabilities and their logarithms.

/// The logarithm of the sum of the exponentials; negative infinity of nothing.
pub(crate) fn log_sum_exp(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !most.is_finite() {
        return most;
    }
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}

/// Probabilities that sum to one, of logarithms up to a common constant. Even ones, when no logarithm is finite.
pub(crate) fn from_logs(logs: &[f64]) -> Vec<f64> {
    let whole = log_sum_exp(logs);
    if !whole.is_finite() {
        return vec![1.0 / logs.len().max(1) as f64; logs.len()];
    }
    normalised(&logs.iter().map(|log| (log - whole).exp()).collect::<Vec<_>>())
}

/// The same ratios, summing to one. Even ones, when there is nothing to divide.
pub(crate) fn normalised(weights: &[f64]) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        weights.iter().map(|weight| weight / sum).collect()
    } else {
        vec![1.0 / weights.len().max(1) as f64; weights.len()]
    }
}

/// Half the sum of the differences: 0 of equal distributions, 1 of those that share nothing.
pub(crate) fn total_variation(one: &[f64], two: &[f64]) -> f64 {
    one.iter()
        .zip(two)
        .map(|(one, two)| (one - two).abs())
        .sum::<f64>()
        / 2.0
}

/// The arithmetic mean; 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
