//! Markers: placeholders for the media in the text of a state.

use std::borrow::Cow;

use tollgate_types::decide::{State, StateMedia, StateMediaKind};

/// Returns the marker of a medium, from its kind and its number within the kind, starting at 1.
pub fn marker(kind: StateMediaKind, number: usize) -> String {
    format!("[{} {number}]", kind.as_str())
}

/// Part of a state: text or a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatePart<'s> {
    /// Text, never empty. It ends with the marker of the next medium, if one follows.
    Text(&'s str),
    /// A medium, directly after its marker.
    Medium(&'s StateMedia),
}

/// Returns the parts of a state in the order for a model: each medium directly after its marker. A
/// medium whose marker is missing follows the previous part.
pub fn state_parts(state: &State) -> Vec<StatePart<'_>> {
    let mut state_parts = Vec::with_capacity(2 * state.media.len() + 1);
    let (mut rest, mut counts) = (state.text.as_str(), Counts::default());
    for medium in &state.media {
        let marker = marker(medium.kind, counts.next(medium.kind));
        if let Some(place) = rest.find(&marker) {
            let (text, after) = rest.split_at(place + marker.len());
            state_parts.push(StatePart::Text(text));
            rest = after;
        }
        state_parts.push(StatePart::Medium(medium));
    }
    if !rest.is_empty() {
        state_parts.push(StatePart::Text(rest));
    }
    state_parts
}

/// Number of media of each kind so far.
#[derive(Debug, Default)]
pub(super) struct Counts([usize; StateMediaKind::ALL.len()]);

impl Counts {
    /// Counts one more medium of a kind and returns its number.
    pub(super) fn next(&mut self, kind: StateMediaKind) -> usize {
        let count = &mut self.0[kind as usize];
        *count += 1;
        *count
    }
}

/// Replaces the brackets of any text that looks like a marker with parentheses. This includes
/// spellings that a model might mistake for a marker, such as `[Image #1]`.
pub(super) fn without_markers(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = &*text;
    while let Some((before, inside, after)) = next_marker(rest) {
        out.push_str(before);
        out.push('(');
        out.push_str(inside);
        out.push(')');
        rest = after;
    }
    if out.is_empty() {
        return text;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Finds the first text that looks like a marker. Returns the text before its brackets, inside
/// them, and after them.
fn next_marker(text: &str) -> Option<(&str, &str, &str)> {
    memchr::memchr_iter(b'[', text.as_bytes()).find_map(|open| {
        let after = text.get(open + 1..)?;
        let length = marker_length(after)?;
        Some((text.get(..open)?, after.get(..length)?, after.get(length + 1..)?))
    })
}

/// Returns the length of the text inside a marker, without the closing bracket; `None` if `text`,
/// which follows an opening bracket, is not a marker.
fn marker_length(text: &str) -> Option<usize> {
    let rest = text.trim_start();
    let is_word = |kind: &StateMediaKind| {
        let word = kind.as_str();
        rest.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let word = StateMediaKind::ALL.iter().find(|kind| is_word(kind))?.as_str();
    let rest = rest.get(word.len()..)?;
    let digits =
        rest.trim_start_matches(|character: char| character.is_whitespace() || "#_-:.".contains(character));
    let end = digits.trim_start_matches(char::is_numeric);
    let close = end.trim_start();
    (end.len() < digits.len() && close.starts_with(']')).then(|| text.len() - close.len())
}
