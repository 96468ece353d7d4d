//! Most similar part of a source.
//!
//! A part within d edits of a quote of n characters contains at least n − 4 − 5d of its groups of 5
//! characters (the q-gram lemma). One pass counts these groups in every window; only the windows
//! with the highest counts are compared exactly, so that the time is bounded for any source.

use super::agreement::agrees;
use super::distance::{best_part, similarity};
use crate::fold::Folded;
use crate::script::splits_word;
use crate::simhash::mix;

/// Minimum similarity of a match.
const MIN_SIMILARITY: f64 = 0.90;

/// Characters of a group.
const GROUP: usize = 5;

/// Maximum number of windows that are compared exactly.
const MAX_WINDOWS: usize = 24;

/// Maximum number of characters that complete the words at the ends of a match.
const MAX_WORD_CHARS: usize = 24;

/// Bits of the table of groups.
const TABLE_BITS: u32 = 16;

/// Returns the range of the most similar part in folded characters; the first one of equals.
pub(super) fn find(source: &Folded, quote: &str) -> Option<(usize, usize)> {
    let quote: Vec<char> = quote.chars().collect();
    // The longer text may be the part: its length is at most n + d.
    let max_edits = quote.len() / 9;
    if quote.len() < 2 * GROUP {
        return None;
    }
    let mut best: Option<(f64, usize, usize)> = None;
    for start in windows(&source.chars, &quote, max_edits) {
        let from = start.saturating_sub(max_edits);
        let to = (start + quote.len() + max_edits).min(source.chars.len());
        let part = best_part(&source.chars[from..to], &quote);
        if part.distance > max_edits {
            continue;
        }
        let (start, end) = whole_words(source, from + part.start, from + part.end);
        let text = &source.chars[start..end];
        let score = similarity(text, &quote);
        let is_better = best.is_none_or(|(best, _, _)| score > best);
        if score >= MIN_SIMILARITY && is_better && agrees(text, &quote) {
            best = Some((score, start, end));
        }
    }
    best.map(|(_, start, end)| (start, end))
}

/// Returns the starts of the windows that share the largest number of groups with the quote, in
/// their order. A window has the length of the quote; neighbours count as one window.
fn windows(text: &[char], quote: &[char], max_edits: usize) -> Vec<usize> {
    let mut table = vec![false; 1 << TABLE_BITS];
    quote.windows(GROUP).for_each(|group| table[slot(group)] = true);
    let shared: Vec<bool> = text.windows(GROUP).map(|group| table[slot(group)]).collect();
    let width = quote.len() - GROUP + 1;
    let min_shared = width.saturating_sub(GROUP * max_edits).max(2);
    let mut count = shared.iter().take(width).filter(|&&is_shared| is_shared).count();
    // For each stretch of half a quote, the window with the highest count.
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut stretch_start = 0;
    for start in 0..=shared.len().saturating_sub(width) {
        if start > 0 {
            count += usize::from(shared[start + width - 1]);
            count -= usize::from(shared[start - 1]);
        }
        if count < min_shared {
            continue;
        }
        match found.last_mut() {
            Some(last) if start < stretch_start + quote.len() / 2 => {
                if count > last.0 {
                    *last = (count, start);
                }
            }
            _ => {
                found.push((count, start));
                stretch_start = start;
            }
        }
    }
    found.sort_by(|one, two| two.0.cmp(&one.0).then(one.1.cmp(&two.1)));
    found.truncate(MAX_WINDOWS);
    let mut starts: Vec<usize> = found.into_iter().map(|(_, start)| start).collect();
    starts.sort_unstable();
    starts
}

fn slot(group: &[char]) -> usize {
    let step = |hash: u64, c: &char| hash.wrapping_mul(0x0010_0193).wrapping_add(u64::from(*c));
    (mix(group.iter().fold(0, step)) >> (64 - TABLE_BITS)) as usize
}

/// Extends a range to whole words and whole clusters, and removes spaces at its ends.
fn whole_words(source: &Folded, mut start: usize, mut end: usize) -> (usize, usize) {
    let c = |at: usize| source.chars.get(at).copied();
    while start < end && c(start) == Some(' ') {
        start += 1;
    }
    while end > start && c(end - 1) == Some(' ') {
        end -= 1;
    }
    let earliest = start.saturating_sub(MAX_WORD_CHARS);
    let latest = (end + MAX_WORD_CHARS).min(source.chars.len());
    let divides = |at: usize| at > 0 && (splits_word(c(at - 1), c(at)) || source.divides_cluster(at));
    let divides_number = |at: usize| {
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let is_point = |c: Option<char>| matches!(c, Some('.' | ','));
        let before_point = at > 0 && is_digit(c(at - 1)) && is_point(c(at)) && is_digit(c(at + 1));
        let after_point = at > 1 && is_digit(c(at - 2)) && is_point(c(at - 1)) && is_digit(c(at));
        before_point || after_point
    };
    while start > earliest && (divides(start) || divides_number(start)) {
        start -= 1;
    }
    while end < latest && (divides(end) || divides_number(end)) {
        end += 1;
    }
    (start, end)
}
