//! Markers: where a medium of a state stood, its text says which.

use std::borrow::Cow;

use tollgate_types::decide::{State, StateMedia, StateMediaKind};

/// The marker of a medium, which is the so manieth of its kind; the first one is 1.
pub fn marker(kind: StateMediaKind, number: usize) -> String {
    format!("[{} {number}]", kind.as_str())
}

/// A part of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'s> {
    /// Text, never empty. It ends with the marker of the medium that follows.
    Text(&'s str),
    /// A medium.
    Medium(&'s StateMedia),
}

/// A state in the order in which a model is to see it: each medium directly behind its marker.
pub fn pieces(state: &State) -> Vec<Piece<'_>> {
    let mut pieces = Vec::with_capacity(2 * state.media.len() + 1);
    let (mut rest, mut counts) = (state.text.as_str(), Counts::default());
    for medium in &state.media {
        let marker = marker(medium.kind, counts.next(medium.kind));
        if let Some(place) = rest.find(&marker) {
            let (text, after) = rest.split_at(place + marker.len());
            pieces.push(Piece::Text(text));
            rest = after;
        }
        pieces.push(Piece::Medium(medium));
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// How many media of each kind there are so far.
#[derive(Debug, Default)]
pub(super) struct Counts([usize; StateMediaKind::ALL.len()]);

impl Counts {
    /// The number of one more of a kind.
    pub(super) fn next(&mut self, kind: StateMediaKind) -> usize {
        let count = &mut self.0[kind as usize];
        *count += 1;
        *count
    }
}

/// The text without anything that could pass for a marker: those get round brackets. Spellings that a model might
/// take for one are meant as well, such as `[Image #1]`.
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

/// The first of them: what stands before it, inside its brackets, and after it.
fn next_marker(text: &str) -> Option<(&str, &str, &str)> {
    memchr::memchr_iter(b'[', text.as_bytes()).find_map(|open| {
        let after = text.get(open + 1..)?;
        let length = marker_length(after)?;
        Some((text.get(..open)?, after.get(..length)?, after.get(length + 1..)?))
    })
}

/// How long the inside of a marker is, its closing bracket not counted; `None` when the text begins with none.
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
