//! Detects likely mistakes in price changes. A change by more than a factor of 10 is usually a
//! misplaced decimal point, or a price per thousand units instead of per million.

use tollgate_types::{Credits, Prices, Unit};

/// Largest factor of a change, up or down, that is not reported.
const MAX_RATIO: i128 = 10;

/// A price change by more than a factor of 10, or from or to zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Price class. For a price of long prompts, also the threshold in tokens: `input>272000`.
    pub class: String,
    /// Old price per 1,000,000 units.
    pub before: Credits,
    /// New price per 1,000,000 units.
    pub after: Credits,
}

/// Returns the classes whose price changes more than tenfold, or to or from zero. A class without a
/// price entry follows its parent class and is not listed.
pub fn jumps(before: &Prices, after: &Prices) -> Vec<Jump> {
    let mut found = Vec::new();
    for above in [None, before.long_above(), after.long_above()] {
        let tokens = above.map_or(0, |above| above.saturating_add(1));
        for unit in Unit::ALL {
            let class = match above {
                None => unit.as_str().to_owned(),
                Some(above) => format!("{}>{above}", unit.as_str()),
            };
            let is_written = |prices: &Prices| prices.entries().any(|(name, _)| name == class);
            let jump = Jump {
                before: before.price(unit, tokens),
                after: after.price(unit, tokens),
                class: class.clone(),
            };
            let is_new = !found.iter().any(|known: &Jump| known.class == class);
            if is_new && (is_written(before) || is_written(after)) && jump.is_far() {
                found.push(jump);
            }
        }
    }
    found
}

impl Jump {
    fn is_far(&self) -> bool {
        let (before, after) = (i128::from(self.before.nanos()), i128::from(self.after.nanos()));
        after > before * MAX_RATIO || before > after * MAX_RATIO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of price classes with their prices.
    type Written = &'static [(&'static str, &'static str)];

    fn prices(entries: Written) -> Prices {
        let add = |prices: Prices, (name, price): &(&str, &str)| {
            prices.with_named(name, price.parse().unwrap()).unwrap()
        };
        entries.iter().fold(Prices::default(), add)
    }

    #[test]
    fn only_changes_above_tenfold_are_reported() {
        let cases: &[(Written, Written, &[&str])] = &[
            (
                &[("input", "1"), ("output", "2")],
                &[("input", "1"), ("output", "2")],
                &[],
            ),
            (
                &[("input", "1"), ("output", "2")],
                &[("input", "10"), ("output", "0.2")],
                &[],
            ),
            (&[("input", "1")], &[("input", "10.000000001")], &["input"]),
            (&[("input", "10.000000001")], &[("input", "1")], &["input"]),
            (
                &[("input", "1"), ("output", "2")],
                &[("input", "1"), ("output", "2000")],
                &["output"],
            ),
            (&[("input", "0")], &[("input", "0.000000001")], &["input"]),
            (&[("input", "1")], &[("input", "0")], &["input"]),
            (&[("input", "0")], &[("input", "0")], &[]),
            // A class that receives its own price changes from the price of its parent class.
            (&[("input", "1")], &[("input", "1"), ("cache_read", "0.1")], &[]),
            (
                &[("input", "1")],
                &[("input", "1"), ("cache_read", "0.09")],
                &["cache_read"],
            ),
            (
                &[("input", "1"), ("cache_read", "0.01")],
                &[("input", "1")],
                &["cache_read"],
            ),
            (&[("input", "1")], &[("input", "1"), ("input>1000", "2")], &[]),
            (
                &[("input", "1")],
                &[("input", "1"), ("input>1000", "20")],
                &["input>1000"],
            ),
            (
                &[("input", "1"), ("input>1000", "20")],
                &[("input", "1")],
                &["input>1000"],
            ),
        ];
        for (before, after, expected) in cases {
            let found = jumps(&prices(before), &prices(after));
            let classes: Vec<&str> = found.iter().map(|jump| jump.class.as_str()).collect();
            assert_eq!(classes, *expected, "{before:?} {after:?}");
        }
    }
}
