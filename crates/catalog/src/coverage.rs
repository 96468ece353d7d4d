//! Which models a plan covers.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The plans that do not cover a model, out of patterns of ids by plan. A plan covers what one of its patterns matches.
pub(crate) fn not_covered_by(id: &str, plans: &BTreeMap<String, Vec<String>>) -> Arc<[Arc<str>]> {
    let without = plans
        .iter()
        .filter(|(_, patterns)| !patterns.iter().any(|pattern| matches(pattern, id)));
    without.map(|(name, _)| Arc::from(name.as_str())).collect()
}

/// Whether the whole text is as the pattern says, in which `*` stands for anything.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    while let Some((part, after)) = rest.split_once('*') {
        let Some(found) = text.find(part) else {
            return false;
        };
        text = &text[found + part.len()..];
        rest = after;
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("*", "maker/model", true),
            ("*", "", true),
            ("maker/*", "maker/model", true),
            ("maker/*", "other/maker/model", false),
            ("*/model", "maker/model", true),
            ("*/model", "maker/model-2", false),
            ("*mini*", "maker/large-mini-2", true),
            ("*mini*", "maker/large", false),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("maker/model", "maker/model", true),
            ("maker/model", "maker/model-2", false),
            ("größ*", "größer", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_plan_covers_what_one_of_its_patterns_matches() {
        let patterns = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let plans = BTreeMap::from([
            ("lite".to_owned(), patterns(&["a/*", "b/small"])),
            ("none".to_owned(), patterns(&[])),
            ("pro".to_owned(), patterns(&["*"])),
        ]);
        for (id, expected) in [
            ("a/x", &["none"][..]),
            ("b/small", &["none"]),
            ("b/large", &["lite", "none"]),
        ] {
            let not_covered: Vec<Arc<str>> = not_covered_by(id, &plans).to_vec();
            assert_eq!(
                not_covered,
                expected.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>(),
                "{id}"
            );
        }
        assert!(not_covered_by("a/x", &BTreeMap::new()).is_empty());
    }
}
