//! Passages: parts of a text that are ranked and read separately.

#[cfg(test)]
mod tests;

use crate::script::WordMeter;
use crate::sentences::sentences;
use crate::text::{CharText, Span};

/// Maximum length of a passage in words, as [`crate::script::WordMeter`] counts them.
const MAX_WORDS: usize = 250;

/// Minimum length of a passage that ends with its paragraph although the next sentence would fit.
const MIN_PARAGRAPH_WORDS: usize = 180;

/// A passage of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Range in the text.
    pub span: Span,
    /// The text of the range, verbatim.
    pub text: String,
}

/// Returns the passages of a text in reading order. Each has about 250 words and ends with a
/// paragraph, else with a sentence; longer sentences are divided between words. Every visible
/// character is in exactly one passage. The time is proportional to the length.
pub fn passages(text: &str) -> Vec<Passage> {
    let index = CharText::new(text);
    let chars: Vec<char> = text.chars().collect();
    let mut passages = Vec::new();
    let mut start = 0;
    let mut words = 0;
    let mut end = 0;
    let mut cut = |start: usize, end: usize| {
        let span = trimmed(&chars, start, end);
        if let Some(text) = index.span(span).filter(|text| !text.is_empty()) {
            let text = text.to_owned();
            passages.push(Passage { span, text });
        }
    };
    for unit in units(text, &chars) {
        let is_paragraph_end = unit.begins_paragraph && words >= MIN_PARAGRAPH_WORDS;
        if words > 0 && (words + unit.words > MAX_WORDS || is_paragraph_end) {
            cut(start, end);
            (start, words) = (end, 0);
        }
        words += unit.words;
        end = unit.end;
    }
    cut(start, chars.len());
    passages
}

/// A sentence, or a part of a long one, with the white space and the mark before it.
struct Unit {
    end: usize,
    words: usize,
    begins_paragraph: bool,
}

fn units(text: &str, chars: &[char]) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut start = 0;
    for sentence in sentences(text) {
        let gap = chars[start..sentence.start]
            .iter()
            .filter(|&&c| c == '\n')
            .count();
        let mut begins_paragraph = gap > 1;
        let mut meter = WordMeter::default();
        let mut last_space = None;
        let mut at = start;
        while at < sentence.end {
            let c = chars[at];
            meter.push(c);
            if c.is_whitespace() {
                last_space = Some(at);
            }
            if meter.words() > MAX_WORDS {
                // Without white space, the sentence is divided before this character.
                let end = last_space
                    .filter(|&space| space > start)
                    .unwrap_or(at)
                    .max(start + 1);
                units.push(Unit {
                    end,
                    words: MAX_WORDS,
                    begins_paragraph,
                });
                (start, at, begins_paragraph) = (end, end, false);
                (meter, last_space) = (WordMeter::default(), None);
            } else {
                at += 1;
            }
        }
        let words = meter.words();
        units.push(Unit {
            end: sentence.end,
            words,
            begins_paragraph,
        });
        start = sentence.end;
    }
    units
}

fn trimmed(chars: &[char], mut start: usize, mut end: usize) -> Span {
    while start < end && chars[start].is_whitespace() {
        start += 1;
    }
    while end > start && chars[end - 1].is_whitespace() {
        end -= 1;
    }
    Span { start, end }
}
