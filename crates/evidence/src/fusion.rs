//! Fusion of rankings by reciprocal rank, after Cormack, Clarke and Büttcher (SIGIR 2009).

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;

/// Constant that limits the influence of the first ranks.
const K: f32 = 60.0;

/// Merges rankings, best first, and returns each key with its score: the sum of `weight / (60 +
/// rank)`. A missing weight is 1. Repeated keys of a ranking count once. Keys with equal scores are
/// in the order of their first appearance.
pub fn fuse<T: Eq + Hash + Clone>(rankings: &[Vec<T>], weights: &[f32]) -> Vec<(T, f32)> {
    let mut fused: Vec<(T, f32)> = Vec::new();
    // For each key, its place in `fused` and the last ranking that contains it.
    let mut places: HashMap<&T, (usize, usize)> = HashMap::new();
    for (number, ranking) in rankings.iter().enumerate() {
        let weight = weights.get(number).copied().unwrap_or(1.0);
        for (rank, key) in ranking.iter().enumerate() {
            let score = weight / (K + 1.0 + rank as f32);
            match places.get_mut(key) {
                Some((_, last)) if *last == number => {}
                Some((place, last)) => {
                    fused[*place].1 += score;
                    *last = number;
                }
                None => {
                    places.insert(key, (fused.len(), number));
                    fused.push((key.clone(), score));
                }
            }
        }
    }
    fused.sort_by(|one, two| two.1.total_cmp(&one.1));
    fused
}
