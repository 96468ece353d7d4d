//! Characters of Markdown with their meaning, which every step of the sanitizer preserves.

use std::collections::HashMap;

/// Meaning of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Text, or markup.
    Plain,
    /// Part of a code span, with its delimiters.
    Code,
    /// A character after a backslash, which the output repeats.
    Escaped,
    /// Verified output: an allowed URL, or the brackets of a link to it.
    Verified,
}

/// A character of Markdown and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) c: char,
    pub(super) class: Class,
}

impl Cell {
    /// Whether the cell is this character of text or markup.
    pub(super) fn is(self, c: char) -> bool {
        self.c == c && self.class == Class::Plain
    }
}

/// Divides a text without fenced code into cells.
pub(super) fn parse(text: &str) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let chars: Vec<char> = line.chars().collect();
        let is_code = code_spans(&chars);
        let mut at = 0;
        while at < chars.len() {
            let next = chars
                .get(at + 1)
                .filter(|next| next.is_ascii_punctuation() && !is_code[at + 1]);
            let (c, class) = match next {
                _ if is_code[at] => (chars[at], Class::Code),
                Some(&next) if chars[at] == '\\' => {
                    at += 1;
                    (next, Class::Escaped)
                }
                _ => (chars[at], Class::Plain),
            };
            cells.push(Cell { c, class });
            at += 1;
        }
    }
    cells
}

/// Returns which characters of a line belong to code spans. The delimiters of a span are equally
/// long. A span with `|` in a table ends there, so that one with markup after `|` is no code.
fn code_spans(line: &[char]) -> Vec<bool> {
    let runs = backtick_runs(line);
    // For each run, the next run with the same length.
    let mut closing = vec![None; runs.len()];
    let mut latest = HashMap::new();
    for (number, &(_, length)) in runs.iter().enumerate().rev() {
        closing[number] = latest.insert(length, number);
    }
    let mut is_code = vec![false; line.len()];
    let mut number = 0;
    while let Some(&(start, length)) = runs.get(number) {
        let slashes = line[..start].iter().rev().take_while(|&&c| c == '\\').count();
        number += 1;
        if let Some(close) = closing[number - 1].filter(|_| slashes % 2 == 0) {
            let end = runs[close].0 + length;
            let span = &line[start..end];
            if !span.contains(&'|') || !span.iter().any(|c| matches!(c, '<' | '[' | ':')) {
                is_code[start..end].fill(true);
                number = close + 1;
            }
        }
    }
    is_code
}

/// Returns the places and lengths of the runs of backticks.
fn backtick_runs(line: &[char]) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let length = line[at..].iter().take_while(|&&c| c == '`').count();
        if length > 0 {
            runs.push((at, length));
        }
        at += length.max(1);
    }
    runs
}

/// Returns the Markdown of cells. Plain `<`, stray backticks, images and unverified links and URLs
/// lose their meaning.
pub(super) fn serialize(cells: &[Cell]) -> String {
    let mut output = String::with_capacity(cells.len());
    for (at, cell) in cells.iter().enumerate() {
        let next = cells.get(at + 1).copied();
        match (cell.class, cell.c) {
            (Class::Code | Class::Verified, c) => output.push(c),
            (Class::Plain | Class::Escaped, '<') => output.push_str("&lt;"),
            (Class::Plain, '`') => output.push_str("\\`"),
            (Class::Plain, '\\') => {
                let escapes = next.is_some_and(|next| next.c.is_ascii_punctuation());
                output.push_str(if escapes { "\\\\" } else { "\\" });
            }
            (Class::Escaped, c) => output.extend(['\\', c]),
            (Class::Plain, c) => output.push(c),
        }
        let follows = |c: char| next.is_some_and(|next| next.c == c && next.class != Class::Code);
        let is_text = !matches!(cell.class, Class::Code | Class::Verified);
        let breaks = match cell.c {
            '!' => is_text && follows('['),
            ']' => is_text && follows('('),
            ':' => is_text && follows('/') && cells.get(at + 2).is_some_and(|next| next.c == '/'),
            _ => false,
        };
        if breaks {
            output.push(' ');
        }
    }
    output
}

/// Collects cells. A removed part becomes a space between two visible characters, so that its
/// neighbours do not form new markup.
#[derive(Default)]
pub(super) struct Output {
    cells: Vec<Cell>,
    has_gap: bool,
}

impl Output {
    /// Appends a cell.
    pub(super) fn push(&mut self, cell: Cell) {
        let is_open = self.cells.last().is_some_and(|last| !last.c.is_whitespace());
        if std::mem::take(&mut self.has_gap) {
            if is_open && !cell.c.is_whitespace() && !matches!(cell.c, '.' | ',' | ';' | ')') {
                self.cells.push(Cell {
                    c: ' ',
                    class: Class::Plain,
                });
            } else if !is_open && cell.c == ' ' {
                self.has_gap = true;
                return;
            }
        }
        self.cells.push(cell);
    }

    /// Appends verified characters.
    pub(super) fn push_verified(&mut self, text: &str) {
        text.chars().for_each(|c| {
            self.push(Cell {
                c,
                class: Class::Verified,
            })
        });
    }

    /// Records that a part was removed.
    pub(super) const fn skip(&mut self) {
        self.has_gap = true;
    }

    /// Returns the collected cells.
    pub(super) fn into_cells(self) -> Vec<Cell> {
        self.cells
    }
}
