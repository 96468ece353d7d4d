//! A curve that rises: what is said to be likelier is not corrected to be less likely. Found by pooling neighbours that
//! do not rise (Ayer and others, 1955; Zadrozny and Elkan, 2002).

use super::rounded;

/// Labels are put together in so many groups first, so that no point stands on a few.
const GROUPS: usize = 50;
/// The least probability of a corrected answer is that of one in so many labels, and no curve ends at 0 or 1.
const DOUBT: f64 = 0.5;

/// Labels whose points are one.
struct Pool {
    said: f64,
    right: f64,
    labels: f64,
}

impl Pool {
    /// What these labels come to. Half a label of either side is added: never is not shown by a few.
    fn height(&self) -> f64 {
        (self.right + DOUBT) / (self.labels + 2.0 * DOUBT)
    }

    fn and(self, other: &Pool) -> Pool {
        Pool {
            said: self.said + other.said,
            right: self.right + other.right,
            labels: self.labels + other.labels,
        }
    }
}

/// Points of the curve of labels: what was said of each, and how right it was.
pub(super) fn fit(mut labels: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    labels.sort_by(|one, two| one.0.total_cmp(&two.0));
    let size = labels.len().div_ceil(GROUPS).max(1);
    let mut pools: Vec<Pool> = Vec::new();
    for group in labels.chunks(size) {
        let mut pool = Pool {
            said: group.iter().map(|(said, _)| said).sum(),
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
            rounded((pool.said / pool.labels).clamp(0.0, 1.0)),
            rounded(pool.height()),
        );
        // Groups that are said to be alike are one point.
        match points.last_mut() {
            Some(last) if point.0 <= last.0 => last.1 = point.1,
            _ => points.push(point),
        }
    }
    points
}

/// The curve at what was said: straight between points, level beyond them.
pub(super) fn at(points: &[(f64, f64)], said: f64) -> f64 {
    let after = points.partition_point(|point| point.0 <= said);
    let before = after.checked_sub(1).and_then(|place| points.get(place));
    match (before, points.get(after)) {
        (Some(one), Some(two)) => one.1 + (two.1 - one.1) * (said - one.0) / (two.0 - one.0),
        (Some(only), None) | (None, Some(only)) => only.1,
        (None, None) => said,
    }
}
