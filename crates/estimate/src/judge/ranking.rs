//! Whether a number tells one kind of examples from the other. Examples with the same number have no order: figures do not
//! depend on how they came.

/// How probable it is that one that is has a greater number than one that is not; half of the equal ones. `None` when all
/// are of one kind.
pub(super) fn auroc(examples: &[(f64, bool)]) -> Option<f64> {
    let all = examples.iter().filter(|(_, is)| *is).count() as f64;
    let others = examples.len() as f64 - all;
    if all == 0.0 || others == 0.0 {
        return None;
    }
    let (mut pairs, mut below) = (0.0, 0.0);
    for alike in sorted(examples).chunk_by(|one, two| one.0 == two.0) {
        let here = alike.iter().filter(|(_, is)| *is).count() as f64;
        let others_here = alike.len() as f64 - here;
        pairs += here * (below + others_here / 2.0);
        below += others_here;
    }
    Some(pairs / (all * others))
}

/// The mean, over all numbers of the surest answers, of the share of wrong ones among them. Of answers that are as sure, each
/// is as wrong as all of them.
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

/// The largest share of answers, the surest ones, of which no more than `errors` are wrong. Answers that are as sure come
/// together or not at all.
pub(super) fn coverage(answers: &[(f64, bool)], errors: f64) -> f64 {
    let (mut most, mut wrong, mut number) = (0, 0, 0);
    for alike in sorted(answers).chunk_by(|one, two| one.0 == two.0).rev() {
        wrong += alike.iter().filter(|(_, is_right)| !is_right).count();
        number += alike.len();
        if wrong as f64 <= errors * number as f64 {
            most = number;
        }
    }
    most as f64 / answers.len().max(1) as f64
}

fn sorted(examples: &[(f64, bool)]) -> Vec<(f64, bool)> {
    let mut sorted = examples.to_vec();
    sorted.sort_by(|one, two| one.0.total_cmp(&two.0));
    sorted
}
