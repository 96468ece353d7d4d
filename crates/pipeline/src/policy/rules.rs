//! Built-in rule engine: word lists and regular expressions, compiled once. The engine reports
//! matches; its callers enforce the policy.

use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::Hir;

/// Maximum size of a compiled pattern, or of a compiled part of a word list, in bytes.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// Maximum number of words per compiled pattern.
const WORDS_PER_PATTERN: usize = 500;
/// Maximum length of a word, phrase or pattern, in bytes.
const MAX_ENTRY_BYTES: usize = 1_000;
/// Maximum number of bytes that are held back for an incomplete match. Longer matches are found
/// only when they are complete.
pub(super) const MAX_HELD_BACK_BYTES: usize = 512;
/// Pattern for scripts without spaces between words, to which word boundaries do not apply.
const UNSPACED_SCRIPTS: &str =
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]";

/// Configuration of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSpec {
    /// Name of the rule in log messages.
    pub name: String,
    /// Category that `POST /v1/moderations` reports for a match.
    pub category: String,
    /// Words and phrases. They match whole words, ignoring case. White space in a phrase matches 1
    /// to 8 white-space characters.
    pub words: Vec<String>,
    /// Regular expressions, case-sensitive unless they contain `(?i)`.
    pub patterns: Vec<String>,
}

/// A configuration error in a rule, shown to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Name of the rule.
    pub rule: String,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.message)
    }
}

impl std::error::Error for RuleError {}

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    /// Name of the rule in log messages.
    pub(super) name: Arc<str>,
    /// Category that `POST /v1/moderations` reports for a match.
    pub(super) category: Arc<str>,
    matchers: Vec<Regex>,
    /// Maximum match length in bytes, capped at [`MAX_HELD_BACK_BYTES`].
    longest: usize,
}

/// Byte range of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleMatch {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Rule {
    /// Compiles a rule. Fails if the rule is empty, or if an entry is too long, is malformed or
    /// matches the empty string.
    pub fn compile(spec: &RuleSpec) -> Result<Self, RuleError> {
        let rule_error = |message: String| RuleError {
            rule: spec.name.clone(),
            message,
        };
        let mut sources = Vec::with_capacity(spec.patterns.len() + 1);
        for pattern in &spec.patterns {
            check_length(pattern).map_err(rule_error)?;
            sources.push(pattern.clone());
        }
        let unspaced = Regex::new(UNSPACED_SCRIPTS).map_err(|error| rule_error(error.to_string()))?;
        let mut words = Vec::with_capacity(spec.words.len());
        for word in &spec.words {
            check_length(word).map_err(rule_error)?;
            words.extend(word_pattern(word, &unspaced));
        }
        for group in words.chunks(WORDS_PER_PATTERN) {
            sources.push(format!("(?i:{})", group.join("|")));
        }
        if sources.is_empty() {
            return Err(rule_error("the rule has neither words nor patterns".to_owned()));
        }
        let mut matchers = Vec::with_capacity(sources.len());
        let mut longest = 0;
        for source in sources {
            let (matcher, max_len) = compile(&source).map_err(rule_error)?;
            matchers.push(matcher);
            longest = longest.max(max_len);
        }
        Ok(Self {
            name: spec.name.as_str().into(),
            category: spec.category.as_str().into(),
            matchers,
            longest,
        })
    }

    /// Returns the maximum match length in bytes, capped at [`MAX_HELD_BACK_BYTES`].
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Whether the rule matches anywhere in the text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.matchers.iter().any(|matcher| matcher.is_match(text))
    }

    /// Returns the earliest match that starts at byte `from` or later and ends after byte `after`.
    pub(super) fn first(&self, text: &str, from: usize, after: usize) -> Option<RuleMatch> {
        let found = self.matchers.iter().filter_map(|matcher| {
            let mut at = from;
            loop {
                let found = matcher.find_at(text, at)?;
                if found.end() > after {
                    return Some(RuleMatch {
                        start: found.start(),
                        end: found.end(),
                    });
                }
                at = found.end();
            }
        });
        found.min_by_key(|found| found.start)
    }
}

fn check_length(entry: &str) -> Result<(), String> {
    if entry.len() <= MAX_ENTRY_BYTES {
        return Ok(());
    }
    let prefix: String = entry.chars().take(30).collect();
    Err(format!("'{prefix}…' is longer than {MAX_ENTRY_BYTES} bytes"))
}

/// Returns the pattern for a word or phrase; `None` for an empty one.
fn word_pattern(word: &str, unspaced: &Regex) -> Option<String> {
    let parts: Vec<String> = word.split_whitespace().map(regex::escape).collect();
    if parts.is_empty() {
        return None;
    }
    let trimmed = word.trim();
    let needs_boundary = |c: Option<char>| c.is_some_and(|c| !unspaced.is_match(c.encode_utf8(&mut [0; 4])));
    let begin = if needs_boundary(trimmed.chars().next()) {
        r"\b{start-half}"
    } else {
        ""
    };
    let end = if needs_boundary(trimmed.chars().next_back()) {
        r"\b{end-half}"
    } else {
        ""
    };
    Some(format!("{begin}{}{end}", parts.join(r"\s{1,8}")))
}

fn compile(source: &str) -> Result<(Regex, usize), String> {
    let shape: Hir =
        regex_syntax::parse(source).map_err(|error| format!("a pattern cannot be parsed: {error}"))?;
    if shape.properties().minimum_len().unwrap_or(0) == 0 {
        return Err(format!("'{source}' matches the empty string, and so any text"));
    }
    let longest = shape
        .properties()
        .maximum_len()
        .map_or(MAX_HELD_BACK_BYTES, |max_len| max_len.min(MAX_HELD_BACK_BYTES));
    let matcher = RegexBuilder::new(source)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| format!("a pattern or the word list cannot be compiled: {error}"))?;
    Ok((matcher, longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(words: &[&str], patterns: &[&str]) -> Result<Rule, RuleError> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Rule::compile(&RuleSpec {
            name: "r".to_owned(),
            category: "r".to_owned(),
            words: owned(words),
            patterns: owned(patterns),
        })
    }

    #[test]
    fn words_are_whole_and_have_any_case() {
        let words = [
            "Bomb",
            "naïve",
            "two words",
            "straße",
            "@handle",
            "c++",
            "炸弹",
            "STOẞ",
        ];
        let rule = rule(&words, &[]).unwrap();
        for text in [
            "bomb",
            "a BOMB.",
            "Naïve!",
            "NAÏVE",
            "two  words",
            "TWO\nwords",
            "(Straße)",
            "say @Handle",
            "in C++",
            "造炸弹的",
            "stoß",
        ] {
            assert!(rule.is_match(text), "{text}");
        }
        for text in [
            "bombs",
            "abomb",
            "bomb_x",
            "naïveté",
            "twowords",
            "two, words",
            "straßen",
            "handle",
            "c+",
            "炸 弹",
            "",
        ] {
            assert!(!rule.is_match(text), "{text}");
        }
    }

    #[test]
    fn patterns_are_case_sensitive_by_default() {
        let rule = rule(&[], &[r"\b\d{3}-\d{2}\b", "(?i)secret"]).unwrap();
        for (text, matches) in [
            ("a 123-45 b", true),
            ("1123-45", false),
            ("SECRETS", true),
            ("public", false),
        ] {
            assert_eq!(rule.is_match(text), matches, "{text}");
        }
    }

    #[test]
    fn invalid_rules_are_refused() {
        let long = "a".repeat(MAX_ENTRY_BYTES + 1);
        for (words, patterns, why) in [
            (&[][..], &[][..], "neither"),
            (&["  "][..], &[][..], "neither"),
            (&[][..], &["("][..], "cannot be parsed"),
            (&[][..], &["a*"][..], "matches the empty string"),
            (&[][..], &[r"\b"][..], "matches the empty string"),
            (&[][..], &[r"\w{1000}{100}"][..], "cannot be compiled"),
            (&[long.as_str()][..], &[][..], "longer than"),
        ] {
            let error = rule(words, patterns).unwrap_err();
            assert!(error.message.contains(why), "{error}");
        }
        assert!(rule(&[&long[1..]], &[]).is_ok());
    }

    #[test]
    fn the_longest_match_is_known_and_bounded() {
        for (words, patterns, longest) in [
            (&["abc"][..], &[][..], 3),
            (&["abc"][..], &["[a-z]{7}"][..], 7),
            (&[][..], &["a+"][..], MAX_HELD_BACK_BYTES),
        ] {
            assert_eq!(rule(words, patterns).unwrap().longest(), longest);
        }
    }

    #[test]
    fn first_returns_the_earliest_match_behind_a_position() {
        let rule = rule(&["one", "two"], &[]).unwrap();
        let text = "one and two";
        assert_eq!(rule.first(text, 0, 0), Some(RuleMatch { start: 0, end: 3 }));
        assert_eq!(rule.first(text, 0, 3), Some(RuleMatch { start: 8, end: 11 }));
        assert_eq!(rule.first(text, 0, 11), None);
        // The text before `from` is considered at the word boundary.
        assert_eq!(rule.first("xtwo", 1, 0), None);
    }
}
