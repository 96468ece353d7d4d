//! What one choice of a streamed answer says at the moment: pieces that wait until it is known that nothing that is
//! forbidden begins in them. A match that is split over several pieces is found as in a whole text.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_types::stream::StreamEvent;

use super::rules::{MOST_HELD_BACK, Rule};

/// Bytes of what was shown that are kept: what stands before a word says whether it is one, and a classifier wants to
/// know what a text is about.
const CONTEXT: usize = 512;

/// A kind of text of a choice. Matches do not reach from one into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Text,
    Reasoning,
    Refusal,
    Call(u32),
}

/// Pieces of one channel.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) channel: Channel,
    /// The end of what was shown, then what waits.
    text: String,
    /// Where what waits begins.
    shown: usize,
    /// Events that wait, each with where it ends in `text`.
    waiting: VecDeque<(StreamEvent, usize)>,
    /// Whether the beginning of `text` was cut off.
    is_cut: bool,
}

/// What the rules say about a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    /// Up to here nothing forbidden begins.
    pub(super) clear: usize,
    /// The rule that matches behind that, by its place.
    pub(super) rule: Option<usize>,
}

impl Window {
    pub(super) fn new(channel: Channel) -> Self {
        Self {
            channel,
            text: String::new(),
            shown: 0,
            waiting: VecDeque::new(),
            is_cut: false,
        }
    }

    /// Adds a piece.
    pub(super) fn push(&mut self, event: StreamEvent, piece: &str) {
        self.text.push_str(piece);
        self.waiting.push_back((event, self.text.len()));
    }

    /// How far it may be shown. A match at the very end may still become another one, or none, unless the text is
    /// `whole`; it waits, but not for ever.
    pub(super) fn judge(&self, rules: &[Arc<Rule>], whole: bool) -> Judged {
        let end = self.text.len();
        let longest = rules.iter().map(|rule| rule.longest()).max().unwrap_or(0);
        let mut clear = if whole { end } else { end.saturating_sub(longest) };
        let mut forbidden: Option<(usize, usize)> = None;
        // Nothing is known of what stood before the first character.
        let from = match self.is_cut {
            true => self.text.chars().next().map_or(0, char::len_utf8),
            false => 0,
        };
        for (place, rule) in rules.iter().enumerate() {
            let Some(found) = rule.first(&self.text, from, self.shown) else {
                continue;
            };
            let is_open = !whole && found.end == end && end - found.start <= MOST_HELD_BACK;
            if is_open {
                clear = clear.min(found.start);
            } else if forbidden.is_none_or(|(start, _)| found.start < start) {
                forbidden = Some((found.start, place));
            }
        }
        Judged {
            clear: forbidden.map_or(clear, |(start, _)| start.min(end)),
            rule: forbidden.map(|(_, place)| place),
        }
    }

    /// What waits before `clear`, with what was shown before it.
    pub(super) fn unseen(&self, clear: usize) -> (&str, usize) {
        let clear = self.floor(clear);
        let context = self.text.get(..clear).unwrap_or_default();
        (context, clear.saturating_sub(self.shown))
    }

    /// The events that end at or before `clear`; they count as shown.
    pub(super) fn release(&mut self, clear: usize) -> Vec<StreamEvent> {
        let mut released = Vec::new();
        while let Some((event, end)) = self.waiting.pop_front_if(|(_, end)| *end <= clear) {
            self.shown = end;
            released.push(event);
        }
        let cut = self.floor(self.shown.saturating_sub(CONTEXT));
        if cut > 0 {
            self.text.drain(..cut);
            self.shown -= cut;
            self.is_cut = true;
            for (_, end) in &mut self.waiting {
                *end -= cut;
            }
        }
        released
    }

    fn floor(&self, at: usize) -> usize {
        self.text.floor_char_boundary(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::RuleSpec;
    use super::*;

    fn rules() -> Vec<Arc<Rule>> {
        let spec = |name: &str, words: &[&str], patterns: &[&str]| RuleSpec {
            name: name.to_owned(),
            category: name.to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        };
        [
            spec("words", &["forbidden", "quite bad"], &[]),
            spec("keys", &[], &["sk-[a-z0-9]{6}", "x{3,}"]),
        ]
        .iter()
        .map(|spec| Arc::new(Rule::compile(spec).unwrap()))
        .collect()
    }

    fn piece(text: &str) -> StreamEvent {
        StreamEvent::Text {
            choice: 0,
            text: text.to_owned(),
            logprobs: None,
        }
    }

    /// What is shown of these pieces, and whether a rule ended it.
    fn shown(pieces: &[&str]) -> (String, bool) {
        let rules = rules();
        let mut window = Window::new(Channel::Text);
        let mut shown = String::new();
        for (at, text) in pieces.iter().enumerate() {
            window.push(piece(text), text);
            for whole in [false, true] {
                if whole && at + 1 < pieces.len() {
                    continue;
                }
                let judged = window.judge(&rules, whole);
                for event in window.release(judged.clear) {
                    if let StreamEvent::Text { text, .. } = event {
                        shown.push_str(&text);
                    }
                }
                if judged.rule.is_some() {
                    return (shown, true);
                }
            }
        }
        (shown, false)
    }

    #[test]
    fn a_match_is_found_however_it_is_split() {
        let text = "Well, this is forbidden here.";
        for at in 0..=text.len() {
            let (before, ended) = shown(&[&text[..at], &text[at..]]);
            assert!(ended && !before.contains("forb"), "{at}: {before}");
        }
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(shown(&letters), ("Well, this is ".to_owned(), true));
        assert_eq!(shown(&["it is quite", " \n bad"]), (String::new(), true));
        assert_eq!(shown(&["key ", "sk-", "abc", "def."]), ("key ".to_owned(), true));
    }

    #[test]
    fn what_only_begins_like_a_match_is_shown() {
        for pieces in [
            &["this is forbidden", "ness itself"][..],
            &["un", "forbidden"],
            &["quite ", "badly"],
            &["sk-abc", " def"],
            &["xx", " x"],
            &["", "é", ""],
        ] {
            assert_eq!(shown(pieces), (pieces.concat(), false));
        }
    }

    #[test]
    fn a_long_text_is_kept_in_part_only_and_shown_as_a_whole() {
        let pieces: Vec<String> = (0..500)
            .map(|number| format!("wörter {number} und mehr "))
            .collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(shown(&pieces), (pieces.concat(), false));
        let with_end = [pieces.as_slice(), &["forbidden"]].concat();
        assert_eq!(shown(&with_end), (pieces.concat(), true));
        let mut window = Window::new(Channel::Text);
        for text in pieces {
            window.push(piece(text), text);
            let judged = window.judge(&rules(), false);
            window.release(judged.clear);
            assert!(window.text.len() < 2 * CONTEXT + MOST_HELD_BACK);
        }
    }

    #[test]
    fn a_match_without_an_end_does_not_wait_for_ever() {
        let endless = "x".repeat(100);
        let pieces: Vec<&str> = std::iter::once("so ").chain([endless.as_str(); 20]).collect();
        assert_eq!(shown(&pieces), ("so ".to_owned(), true));
    }
}
