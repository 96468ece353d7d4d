//! Passages that address a model instead of a human reader.
//!
//! Patterns match words in a skeleton form, so that spacing, case, accents, invisible characters,
//! similar letters of other scripts and digits for letters make no difference. Texts in base64,
//! hexadecimal digits, percent encoding, ROT13 and in reverse are decoded first.

mod encoding;
mod patterns;
mod skeleton;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use patterns::{MARKS, PAIRS, PATTERNS, PairPattern, Pattern};
use skeleton::{Skeleton, skeleton};

/// Maximum number of other letters between two parts of a pattern, in words without spaces.
const MAX_GAP_CHARS: usize = 16;

/// Whether a passage probably contains instructions for a model, such as "ignore previous
/// instructions". Articles about such texts may match.
pub fn is_suspected(passage: &str) -> bool {
    reason(passage).is_some()
}

/// Returns the purpose of the first pattern that a passage matches, such as "overrides the
/// instructions".
pub fn reason(passage: &str) -> Option<&'static str> {
    let plain = plain_reason(passage);
    plain.or_else(|| {
        encoding::decoded(passage)
            .iter()
            .find_map(|text| plain_reason(text))
    })
}

fn plain_reason(passage: &str) -> Option<&'static str> {
    let Skeleton {
        words,
        joined,
        raw,
        compact,
    } = skeleton::of(passage);
    // A mark may continue on the next line.
    let line = raw.split_whitespace().collect::<Vec<_>>().join(" ");
    let mark = MARKS.iter().find(|(mark, _)| line.contains(mark));
    mark.map(|(_, reason)| *reason)
        .or_else(|| role_marker(&raw, &line))
        .or_else(|| COMPILED.find(&words))
        .or_else(|| joined.iter().find_map(|run| COMPILED.find_joined(run)))
        .or_else(|| {
            COMPILED_PAIRS
                .iter()
                .find(|pair| pair.is_in(&compact))
                .map(|pair| pair.reason)
        })
}

/// Recognizes lines that imitate the turns of a chat, and two turns in one line.
fn role_marker(raw: &str, line: &str) -> Option<&'static str> {
    let is_marker = |line: &str| {
        let line = line.trim_start_matches(['#', '*', '>', ' ', '\t', '[', '<']);
        [
            "assistant:",
            "assistant]:",
            "assistant**:",
            "assistant>",
            "human:",
        ]
        .iter()
        .any(|mark| line.starts_with(mark))
    };
    let turns = line.split_once("human:").or_else(|| line.split_once("user:"));
    let has_turns = turns.is_some_and(|(_, next)| next.contains(" assistant:"));
    (has_turns || raw.lines().any(is_marker)).then_some("imitates a chat")
}

static COMPILED: LazyLock<Compiled> = LazyLock::new(Compiled::new);
static COMPILED_PAIRS: LazyLock<Vec<CompiledPair>> =
    LazyLock::new(|| PAIRS.iter().map(CompiledPair::new).collect());

/// A pattern in skeleton form.
struct CompiledPattern {
    slots: Vec<Vec<String>>,
    except: Vec<String>,
    gaps: &'static [usize],
    reason: &'static str,
}

/// All patterns, by their first words.
struct Compiled {
    patterns: Vec<CompiledPattern>,
    by_first: HashMap<String, Vec<usize>>,
}

impl Compiled {
    fn new() -> Self {
        let patterns: Vec<CompiledPattern> = PATTERNS.iter().map(compile).collect();
        let mut by_first: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, pattern) in patterns.iter().enumerate() {
            for word in &pattern.slots[0] {
                by_first.entry(word.clone()).or_default().push(number);
            }
        }
        Self { patterns, by_first }
    }

    fn find(&self, words: &[String]) -> Option<&'static str> {
        words.iter().enumerate().find_map(|(at, word)| {
            let numbers = self.by_first.get(word)?;
            let mut patterns = numbers.iter().map(|&number| &self.patterns[number]);
            patterns
                .find(|pattern| pattern.matches(&words[at + 1..], 1))
                .map(|pattern| pattern.reason)
        })
    }

    /// Searches letters that were written with a space after each. Only patterns of three parts are
    /// specific enough.
    fn find_joined(&self, run: &str) -> Option<&'static str> {
        let mut patterns = self.patterns.iter().filter(|pattern| pattern.slots.len() >= 3);
        patterns
            .find(|pattern| pattern.matches_joined(run))
            .map(|pattern| pattern.reason)
    }
}

fn compile(pattern: &'static Pattern) -> CompiledPattern {
    let words = |list: &str| list.split_whitespace().map(skeleton).collect();
    CompiledPattern {
        slots: pattern.slots.iter().map(|slot| words(slot)).collect(),
        except: words(pattern.except),
        gaps: pattern.gaps,
        reason: pattern.reason,
    }
}

impl CompiledPattern {
    /// Whether the slots from a number on match words, each after at most its gap.
    fn matches(&self, words: &[String], slot: usize) -> bool {
        let Some(alternatives) = self.slots.get(slot) else {
            return words.first().is_none_or(|word| !self.except.contains(word));
        };
        let gap = self.gaps.get(slot - 1).copied().unwrap_or(0);
        let candidates = words.iter().enumerate().take(gap + 1);
        candidates
            .filter(|(_, word)| alternatives.contains(word))
            .any(|(at, _)| self.matches(&words[at + 1..], slot + 1))
    }

    fn matches_joined(&self, run: &str) -> bool {
        let first = self.slots[0].iter().filter(|word| word.len() > 3);
        first
            .flat_map(|word| run.match_indices(word.as_str()))
            .any(|(start, word)| {
                let mut rest = &run[start + word.len()..];
                self.slots[1..].iter().all(|slot| {
                    let longest = slot.iter().map(|word| word.chars().count()).max().unwrap_or(0);
                    let window = first_chars(rest, MAX_GAP_CHARS + longest);
                    let ends = slot
                        .iter()
                        .filter_map(|word| Some(window.find(word.as_str())? + word.len()));
                    let next = ends.min();
                    rest = next.map_or("", |end| &rest[end..]);
                    next.is_some()
                })
            })
    }
}

/// Returns the first characters of a text, at most this many.
fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices()
        .nth(count)
        .map_or(text, |(end, _)| &text[..end])
}

/// A pair pattern in skeleton form.
struct CompiledPair {
    first: Vec<String>,
    second: Vec<String>,
    gap: usize,
    reason: &'static str,
}

impl CompiledPair {
    fn new(pair: &'static PairPattern) -> Self {
        let words = |list: &str| list.split_whitespace().map(skeleton).collect();
        let (first, second) = (words(pair.first), words(pair.second));
        Self {
            first,
            second,
            gap: pair.gap,
            reason: pair.reason,
        }
    }

    /// Whether a text without spaces contains the first part, and then the second after at most
    /// `gap` characters.
    fn is_in(&self, text: &str) -> bool {
        let mut ends = self.first.iter().flat_map(|word| {
            text.match_indices(word.as_str())
                .map(|(start, word)| start + word.len())
        });
        ends.any(|end| {
            let rest = &text[end..];
            let longest = self
                .second
                .iter()
                .map(|word| word.chars().count())
                .max()
                .unwrap_or(0);
            let window = first_chars(rest, self.gap + longest);
            self.second.is_empty() || self.second.iter().any(|word| window.contains(word.as_str()))
        })
    }
}
