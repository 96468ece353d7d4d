//! Coverage of models by plans.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the plans that do not cover a model. `plans` maps each plan to patterns of model ids; a
/// plan covers the ids that match one of its patterns.
pub(crate) fn not_covered_by(id: &str, plans: &BTreeMap<String, Vec<String>>) -> Arc<[Arc<str>]> {
    let without = plans
        .iter()
        .filter(|(_, patterns)| !patterns.iter().any(|pattern| matches(pattern, id)));
    without.map(|(name, _)| Arc::from(name.as_str())).collect()
}

/// Whether the pattern matches the whole text; `*` matches any text, including none.
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
    fn star_matches_any_text() {
        for (pattern, text, expected) in [
            ("*", "vendor/model", true),
            ("*", "", true),
            ("vendor/*", "vendor/model", true),
            ("vendor/*", "other/vendor/model", false),
            ("*/model", "vendor/model", true),
            ("*/model", "vendor/model-2", false),
            ("*mini*", "vendor/large-mini-2", true),
            ("*mini*", "vendor/large", false),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("vendor/model", "vendor/model", true),
            ("vendor/model", "vendor/model-2", false),
            ("größ*", "größer", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn plan_covers_models_matching_any_pattern() {
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
