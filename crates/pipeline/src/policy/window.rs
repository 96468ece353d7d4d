//! Sliding window over one choice of a streamed response. Chunks are delayed until no forbidden
//! text can start in them. Matches across chunk boundaries are found as in a complete text.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_types::stream::StreamEvent;

use super::rules::{MAX_HELD_BACK_BYTES, Rule};

/// Number of bytes of sent text to retain, as left context for word boundaries and for the
/// classifier.
pub(super) const CONTEXT: usize = 512;

/// Kind of text in a choice. Matches do not span channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Text,
    Reasoning,
    Refusal,
    Call(u32),
}

/// Window over the text of one channel.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) channel: Channel,
    /// Context that was sent, followed by the pending text.
    text: String,
    /// Byte offset of the pending text in `text`.
    shown: usize,
    /// Pending events, each with its end offset in `text`.
    waiting: VecDeque<(StreamEvent, usize)>,
    /// Whether earlier text was removed from the front of `text`.
    is_cut: bool,
}

/// Verdict of the rules on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowVerdict {
    /// Byte offset before which no forbidden text starts, according to the rules.
    pub(super) clear: usize,
    /// Index of the rule that matches at `clear`, if any.
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

    /// Appends an event with its text.
    pub(super) fn push(&mut self, event: StreamEvent, fragment: &str) {
        self.text.push_str(fragment);
        self.waiting.push_back((event, self.text.len()));
    }

    /// Checks the window against the rules. Unless the text is `whole`, a match at its end is
    /// pending, since more text may change it. Such a match is delayed for at most
    /// [`MAX_HELD_BACK_BYTES`].
    pub(super) fn judge(&self, rules: &[Arc<Rule>], whole: bool) -> WindowVerdict {
        let end = self.text.len();
        let longest = rules.iter().map(|rule| rule.longest()).max().unwrap_or(0);
        let mut clear = if whole { end } else { end.saturating_sub(longest) };
        let mut forbidden: Option<(usize, usize)> = None;
        // The character before the first one is unknown, so a match at the start could violate a
        // word boundary.
        let from = match self.is_cut {
            true => self.text.chars().next().map_or(0, char::len_utf8),
            false => 0,
        };
        for (place, rule) in rules.iter().enumerate() {
            let Some(found) = rule.first(&self.text, from, self.shown) else {
                continue;
            };
            let is_open = !whole && found.end == end && end - found.start <= MAX_HELD_BACK_BYTES;
            if is_open {
                clear = clear.min(found.start);
            } else if forbidden.is_none_or(|(start, _)| found.start < start) {
                forbidden = Some((found.start, place));
            }
        }
        WindowVerdict {
            clear: forbidden.map_or(clear, |(start, _)| start.min(end)),
            rule: forbidden.map(|(_, place)| place),
        }
    }

    /// Returns the text before `clear`, including the context that was sent, and the number of
    /// pending bytes in it.
    pub(super) fn unseen(&self, clear: usize) -> (&str, usize) {
        let clear = self.char_boundary(clear);
        let context = self.text.get(..clear).unwrap_or_default();
        (context, clear.saturating_sub(self.shown))
    }

    /// Removes and returns the events that end at or before `clear`.
    pub(super) fn release(&mut self, clear: usize) -> Vec<StreamEvent> {
        let mut released = Vec::new();
        while let Some((event, end)) = self.waiting.pop_front_if(|(_, end)| *end <= clear) {
            self.shown = end;
            released.push(event);
        }
        let cut = self.char_boundary(self.shown.saturating_sub(CONTEXT));
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

    fn char_boundary(&self, at: usize) -> usize {
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

    fn fragment(text: &str) -> StreamEvent {
        StreamEvent::Text {
            choice: 0,
            text: text.to_owned(),
            logprobs: None,
        }
    }

    /// Returns the text that is released from these chunks, and whether a rule matched.
    fn shown(fragments: &[&str]) -> (String, bool) {
        let rules = rules();
        let mut window = Window::new(Channel::Text);
        let mut shown = String::new();
        for (at, text) in fragments.iter().enumerate() {
            window.push(fragment(text), text);
            for whole in [false, true] {
                if whole && at + 1 < fragments.len() {
                    continue;
                }
                let verdict = window.judge(&rules, whole);
                for event in window.release(verdict.clear) {
                    if let StreamEvent::Text { text, .. } = event {
                        shown.push_str(&text);
                    }
                }
                if verdict.rule.is_some() {
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
    fn partial_matches_are_shown() {
        for fragments in [
            &["this is forbidden", "ness itself"][..],
            &["un", "forbidden"],
            &["quite ", "badly"],
            &["sk-abc", " def"],
            &["xx", " x"],
            &["", "é", ""],
        ] {
            assert_eq!(shown(fragments), (fragments.concat(), false));
        }
    }

    #[test]
    fn long_texts_are_shown_whole_from_a_bounded_window() {
        let fragments: Vec<String> = (0..500)
            .map(|number| format!("wörter {number} und mehr "))
            .collect();
        let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
        assert_eq!(shown(&fragments), (fragments.concat(), false));
        let with_end = [fragments.as_slice(), &["forbidden"]].concat();
        assert_eq!(shown(&with_end), (fragments.concat(), true));
        let mut window = Window::new(Channel::Text);
        for text in fragments {
            window.push(fragment(text), text);
            let verdict = window.judge(&rules(), false);
            window.release(verdict.clear);
            assert!(window.text.len() < 2 * CONTEXT + MAX_HELD_BACK_BYTES);
        }
    }

    #[test]
    fn unbounded_matches_are_not_held_forever() {
        let endless = "x".repeat(100);
        let fragments: Vec<&str> = std::iter::once("so ").chain([endless.as_str(); 20]).collect();
        assert_eq!(shown(&fragments), ("so ".to_owned(), true));
    }
}
