//! Changes of prices that nobody makes on purpose without saying so: a price that is ten times another is most often a
//! misplaced point, or a price for a thousand where one for a million is meant.

use tollgate_types::{Credits, Prices, Unit};

/// How far a price may move at once, up or down.
const MOST: i128 = 10;

/// A price that moves farther.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The class, and where only long prompts are dearer the tokens beyond which they are, such as `input>272000`.
    pub class: String,
    /// What a million cost.
    pub before: Credits,
    /// What a million is to cost.
    pub after: Credits,
}

/// The classes whose price moves more than tenfold, or becomes nothing or something. Prices that are not written down
/// follow the class that they belong to and are not named.
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
        after > before * MOST || before > after * MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prices by their written names.
    type Written = &'static [(&'static str, &'static str)];

    fn prices(entries: Written) -> Prices {
        let add = |prices: Prices, (name, price): &(&str, &str)| {
            prices.with_named(name, price.parse().unwrap()).unwrap()
        };
        entries.iter().fold(Prices::default(), add)
    }

    #[test]
    fn only_what_moves_more_than_tenfold_is_far() {
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
            // A class that gets a price of its own moves from that of the class it belongs to.
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
