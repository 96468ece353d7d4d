//! Levenshtein distances.

/// The part of a text that is most similar to a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BestPart {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) distance: usize,
}

/// Returns the part of a text with the smallest distance to a pattern, and the first one of equals
/// (Sellers' algorithm). The time is the product of the lengths.
pub(super) fn best_part(text: &[char], pattern: &[char]) -> BestPart {
    // Row i: the distance of pattern[..i] to the best part that ends here, and the part's start.
    let mut column: Vec<(usize, usize)> = (0..=pattern.len()).map(|row| (row, 0)).collect();
    let mut best = BestPart {
        start: 0,
        end: 0,
        distance: pattern.len(),
    };
    for (at, &c) in text.iter().enumerate() {
        let mut diagonal = column[0];
        column[0] = (0, at + 1);
        for (row, &expected) in pattern.iter().enumerate() {
            let above = column[row];
            let left = column[row + 1];
            let replaced = (diagonal.0 + usize::from(c != expected), diagonal.1);
            let skipped = (above.0 + 1, above.1);
            let inserted = (left.0 + 1, left.1);
            diagonal = left;
            column[row + 1] =
                [skipped, inserted].into_iter().fold(
                    replaced,
                    |best, other| if other.0 < best.0 { other } else { best },
                );
        }
        let (distance, start) = column[pattern.len()];
        if distance < best.distance {
            best = BestPart {
                start,
                end: at + 1,
                distance,
            };
        }
    }
    best
}

/// Returns the similarity of two texts: 1 minus their distance divided by the longer length.
pub(super) fn similarity(one: &[char], two: &[char]) -> f64 {
    let longer = one.len().max(two.len());
    if longer == 0 {
        return 1.0;
    }
    1.0 - distance(one, two) as f64 / longer as f64
}

fn distance(one: &[char], two: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in two.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}
