//! The built-in rule engine: word lists and patterns, compiled once. It finds; what follows from that is said elsewhere.

use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::Hir;

/// Most bytes that one compiled pattern, or a part of a word list, may take.
const COMPILED_LIMIT: usize = 4 << 20;
/// Words that share one compiled pattern.
const WORDS_TOGETHER: usize = 500;
/// Longest word or phrase, and longest pattern, in bytes.
const ENTRY_LIMIT: usize = 1_000;
/// Most bytes that are kept back for a match that may still come; longer ones are found when they have come.
pub(super) const MOST_HELD_BACK: usize = 512;
/// Scripts that are written without blanks: their words have no boundary that could be asked for.
const WITHOUT_BLANKS: &str =
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]";

/// A rule as the settings have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSpec {
    /// Its name, for the log.
    pub name: String,
    /// What it finds, as `POST /v1/moderations` calls it.
    pub category: String,
    /// Words and phrases, in any case, as whole words. Any white space stands for that between two words.
    pub words: Vec<String>,
    /// Regular expressions. Case counts unless they say `(?i)`.
    pub patterns: Vec<String>,
}

/// What is wrong with a rule; for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Name of the rule.
    pub rule: String,
    /// What to change.
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
    /// Its name, for the log.
    pub(super) name: Arc<str>,
    /// What it finds.
    pub(super) category: Arc<str>,
    matchers: Vec<Regex>,
    /// Bytes of the longest text that it can match, at most [`MOST_HELD_BACK`].
    longest: usize,
}

/// Where a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Rule {
    /// Compiles a rule.
    pub fn compile(spec: &RuleSpec) -> Result<Self, RuleError> {
        let wrong = |message: String| RuleError {
            rule: spec.name.clone(),
            message,
        };
        let mut sources = Vec::with_capacity(spec.patterns.len() + 1);
        for pattern in &spec.patterns {
            check_length(pattern).map_err(wrong)?;
            sources.push(pattern.clone());
        }
        let joins_words = Regex::new(WITHOUT_BLANKS).map_err(|error| wrong(error.to_string()))?;
        let mut words = Vec::with_capacity(spec.words.len());
        for word in &spec.words {
            check_length(word).map_err(wrong)?;
            words.extend(word_pattern(word, &joins_words));
        }
        for some in words.chunks(WORDS_TOGETHER) {
            sources.push(format!("(?i:{})", some.join("|")));
        }
        if sources.is_empty() {
            return Err(wrong("it has neither words nor patterns".to_owned()));
        }
        let mut matchers = Vec::with_capacity(sources.len());
        let mut longest = 0;
        for source in sources {
            let (matcher, most) = compile(&source).map_err(wrong)?;
            matchers.push(matcher);
            longest = longest.max(most);
        }
        Ok(Self {
            name: spec.name.as_str().into(),
            category: spec.category.as_str().into(),
            matchers,
            longest,
        })
    }

    /// Bytes of the longest text that it can match, at most [`MOST_HELD_BACK`].
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Whether it matches anywhere.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.matchers.iter().any(|matcher| matcher.is_match(text))
    }

    /// The match that begins first among those that end behind `after`. `from` is where they may begin.
    pub(super) fn first(&self, text: &str, from: usize, after: usize) -> Option<Found> {
        let found = self.matchers.iter().filter_map(|matcher| {
            let mut at = from;
            loop {
                let found = matcher.find_at(text, at)?;
                if found.end() > after {
                    return Some(Found {
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
    if entry.len() <= ENTRY_LIMIT {
        return Ok(());
    }
    let beginning: String = entry.chars().take(30).collect();
    Err(format!("'{beginning}…' is longer than {ENTRY_LIMIT} bytes"))
}

/// A pattern for a word or phrase; nothing for an empty one.
fn word_pattern(word: &str, joins_words: &Regex) -> Option<String> {
    let parts: Vec<String> = word.split_whitespace().map(regex::escape).collect();
    if parts.is_empty() {
        return None;
    }
    let trimmed = word.trim();
    let needs_boundary =
        |c: Option<char>| c.is_some_and(|c| !joins_words.is_match(c.encode_utf8(&mut [0; 4])));
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
    let shape: Hir = regex_syntax::parse(source).map_err(|error| format!("it cannot be read: {error}"))?;
    if shape.properties().minimum_len().unwrap_or(0) == 0 {
        return Err(format!("'{source}' matches nothing at all, and so everywhere"));
    }
    let longest = shape
        .properties()
        .maximum_len()
        .map_or(MOST_HELD_BACK, |most| most.min(MOST_HELD_BACK));
    let matcher = RegexBuilder::new(source)
        .size_limit(COMPILED_LIMIT)
        .build()
        .map_err(|error| format!("it cannot be compiled: {error}"))?;
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
    fn patterns_say_themselves_what_case_is() {
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
    fn what_cannot_be_used_is_refused() {
        let long = "a".repeat(ENTRY_LIMIT + 1);
        for (words, patterns, why) in [
            (&[][..], &[][..], "neither"),
            (&["  "][..], &[][..], "neither"),
            (&[][..], &["("][..], "cannot be read"),
            (&[][..], &["a*"][..], "everywhere"),
            (&[][..], &[r"\b"][..], "everywhere"),
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
            (&[][..], &["a+"][..], MOST_HELD_BACK),
        ] {
            assert_eq!(rule(words, patterns).unwrap().longest(), longest);
        }
    }

    #[test]
    fn the_first_match_that_reaches_further_counts() {
        let rule = rule(&["one", "two"], &[]).unwrap();
        let text = "one and two";
        assert_eq!(rule.first(text, 0, 0), Some(Found { start: 0, end: 3 }));
        assert_eq!(rule.first(text, 0, 3), Some(Found { start: 8, end: 11 }));
        assert_eq!(rule.first(text, 0, 11), None);
        // What stands before counts for the boundary.
        assert_eq!(rule.first("xtwo", 1, 0), None);
    }
}
