//! Ranking metrics. Examples with equal numbers have no order, so the metrics do not depend on the
//! input order.

/// Returns the probability that a positive example has a greater number than a negative one; ties
/// count half. `None` if all examples have the same class.
pub(super) fn auroc(examples: &[(f64, bool)]) -> Option<f64> {
    let all = examples.iter().filter(|(_, is)| *is).count() as f64;
    let others = examples.len() as f64 - all;
    if all == 0.0 || others == 0.0 {
        return None;
    }
    let (mut pairs, mut below) = (0.0, 0.0);
    for alike in sorted(examples).chunk_by(|one, two| one.0 == two.0) {
        let positives = alike.iter().filter(|(_, is)| *is).count() as f64;
        let negatives = alike.len() as f64 - positives;
        pairs += positives * (below + negatives / 2.0);
        below += negatives;
    }
    Some(pairs / (all * others))
}

/// Returns the error rate of the n most confident answers, averaged over all n. Answers with equal
/// confidence share their error rate.
pub(super) fn aurc(answers: &[(f64, bool)]) -> f64 {
    let (mut area, mut wrong, mut number) = (0.0, 0.0, 0.0);
    for alike in sorted(answers).chunk_by(|one, two| one.0 == two.0).rev() {
        let wrong_here = alike.iter().filter(|(_, is_right)| !is_right).count() as f64;
        let each = wrong_here / alike.len() as f64;
        for _ in alike {
            number += 1.0;
            wrong += each;
            area += wrong / number;
        }
    }
    area / answers.len().max(1) as f64
}

/// Returns the largest share of answers, the most confident ones, with an error rate of at most
/// `errors`. Answers with equal confidence are included or excluded together.
pub(super) fn coverage(answers: &[(f64, bool)], errors: f64) -> f64 {
    let (mut max, mut wrong, mut number) = (0, 0, 0);
    for alike in sorted(answers).chunk_by(|one, two| one.0 == two.0).rev() {
        wrong += alike.iter().filter(|(_, is_right)| !is_right).count();
        number += alike.len();
        if wrong as f64 <= errors * number as f64 {
            max = number;
        }
    }
    max as f64 / answers.len().max(1) as f64
}

fn sorted(examples: &[(f64, bool)]) -> Vec<(f64, bool)> {
    let mut sorted = examples.to_vec();
    sorted.sort_by(|one, two| one.0.total_cmp(&two.0));
    sorted
}
