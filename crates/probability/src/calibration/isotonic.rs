//! Isotonic regression: a monotone curve, fitted by pooling adjacent violators (Ayer and others,
//! 1955; Zadrozny and Elkan, 2002).

use super::rounded;

/// Maximum number of groups into which the labels are divided before the fit, so that each point
/// rests on many labels.
const GROUPS: usize = 50;
/// Pseudo-labels added to the correct and to the wrong labels of a point, so that no point is at 0
/// or 1.
const DOUBT: f64 = 0.5;

/// Labels that share one point of the curve.
struct Pool {
    predicted: f64,
    right: f64,
    labels: f64,
}

impl Pool {
    /// Returns the smoothed share of correct labels. Half a label is added to both sides, because a
    /// small number of labels does not prove a probability of 0 or 1.
    fn height(&self) -> f64 {
        (self.right + DOUBT) / (self.labels + 2.0 * DOUBT)
    }

    fn and(self, other: &Pool) -> Pool {
        Pool {
            predicted: self.predicted + other.predicted,
            right: self.right + other.right,
            labels: self.labels + other.labels,
        }
    }
}

/// Fits the points (predicted, corrected) of the curve to labels (predicted, correct).
pub(super) fn fit(mut labels: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    labels.sort_by(|one, two| one.0.total_cmp(&two.0));
    let size = labels.len().div_ceil(GROUPS).max(1);
    let mut pools: Vec<Pool> = Vec::new();
    for group in labels.chunks(size) {
        let mut pool = Pool {
            predicted: group.iter().map(|(predicted, _)| predicted).sum(),
            right: group.iter().map(|(_, right)| right).sum(),
            labels: group.len() as f64,
        };
        while let Some(before) = pools.pop_if(|before| before.height() >= pool.height()) {
            pool = before.and(&pool);
        }
        pools.push(pool);
    }
    let mut points: Vec<(f64, f64)> = Vec::new();
    for pool in &pools {
        let point = (
            rounded((pool.predicted / pool.labels).clamp(0.0, 1.0)),
            rounded(pool.height()),
        );
        // Groups with equal predictions share one point.
        match points.last_mut() {
            Some(last) if point.0 <= last.0 => last.1 = point.1,
            _ => points.push(point),
        }
    }
    points
}

/// Returns the value of the curve at a prediction: linear between points, constant beyond them.
pub(super) fn at(points: &[(f64, f64)], predicted: f64) -> f64 {
    let after = points.partition_point(|point| point.0 <= predicted);
    let before = after.checked_sub(1).and_then(|place| points.get(place));
    match (before, points.get(after)) {
        (Some(one), Some(two)) => one.1 + (two.1 - one.1) * (predicted - one.0) / (two.0 - one.0),
        (Some(only), None) | (None, Some(only)) => only.1,
        (None, None) => predicted,
    }
}
