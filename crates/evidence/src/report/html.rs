//! Removal of HTML from Markdown.

use super::cells::{Cell, Class, Output};

/// Maximum length of an HTML tag, in characters. A longer one is text.
const MAX_TAG_CHARS: usize = 1_000;

/// Maximum length of a script or style sheet that is removed with its tags, in characters.
const MAX_RAW_CHARS: usize = 16_000;

/// Removes comments and tags, and replaces autolinks by their URLs if these are allowed.
pub(super) fn without_html(cells: &[Cell], allowed: &dyn Fn(&str) -> bool) -> Vec<Cell> {
    let mut output = Output::default();
    let mut has_comment_end = true;
    let mut raw_budget = MAX_RAW_CHARS * 8;
    let mut at = 0;
    while let Some(&cell) = cells.get(at) {
        let end = cell
            .is('<')
            .then(|| comment_end(cells, at, &mut has_comment_end).or_else(|| tag_end(cells, at)));
        let Some(end) = end.flatten() else {
            output.push(cell);
            at += 1;
            continue;
        };
        let inner: String = cells[at + 1..end - 1].iter().map(|cell| cell.c).collect();
        output.skip();
        if inner.contains("://") && !inner.contains(is_unsafe) && allowed(&inner) {
            output.push_verified(&inner);
            output.skip();
        }
        at = raw_text_end(cells, &inner, end, &mut raw_budget);
    }
    output.into_cells()
}

/// Whether a character cannot be part of a URL in text.
fn is_unsafe(c: char) -> bool {
    c.is_whitespace() || matches!(c, '<' | '>' | '`' | '\\' | '[' | ']' | '(' | ')')
}

fn starts_with(cells: &[Cell], text: &str) -> bool {
    let mut cells = cells.iter();
    text.chars().all(|c| {
        cells
            .next()
            .is_some_and(|cell| cell.class != Class::Code && cell.c == c)
    })
}

/// Returns the place after the comment at a `<`. `has_end` becomes false when no comment ends any
/// more.
fn comment_end(cells: &[Cell], start: usize, has_end: &mut bool) -> Option<usize> {
    if !*has_end || !starts_with(&cells[start..], "<!--") {
        return None;
    }
    let end = (start + 4..cells.len()).find(|&at| cells[at].c == '-' && starts_with(&cells[at..], "-->"));
    *has_end = end.is_some();
    end.map(|end| end + 3)
}

/// Returns the place after the tag, declaration or autolink at a `<`.
fn tag_end(cells: &[Cell], start: usize) -> Option<usize> {
    let first = cells.get(start + 1)?.c;
    if !first.is_ascii_alphabetic() && !matches!(first, '/' | '!' | '?') {
        return None;
    }
    let limit = (start + MAX_TAG_CHARS).min(cells.len());
    let mut quote = None;
    for at in start + 1..limit {
        let c = cells[at].c;
        if cells[at].class == Class::Code
            || (c == '\n' && cells.get(at + 1).is_some_and(|next| next.c == '\n'))
        {
            return None;
        }
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '>' => return Some(at + 1),
            None if c == '<' => return None,
            None if matches!(c, '"' | '\'') && cells[at - 1].c == '=' => quote = Some(c),
            None => {}
        }
    }
    None
}

/// Returns the place after the content of an element whose text is no prose; `end`, if its end tag
/// is far away. `budget` limits the characters that all searches of a section read.
fn raw_text_end(cells: &[Cell], tag: &str, end: usize, budget: &mut usize) -> usize {
    let name: String = tag.chars().take_while(char::is_ascii_alphanumeric).collect();
    if !["script", "style", "iframe", "svg"]
        .iter()
        .any(|raw| name.eq_ignore_ascii_case(raw))
    {
        return end;
    }
    let limit = (end + MAX_RAW_CHARS.min(*budget)).min(cells.len());
    let is_close = |at: &usize| {
        let after = cells[*at..].iter().skip(2).take(name.len());
        starts_with(&cells[*at..], "</")
            && after
                .map(|cell| cell.c.to_ascii_lowercase())
                .eq(name.to_ascii_lowercase().chars())
    };
    let close = (end..limit).find(is_close);
    *budget -= close.unwrap_or(limit) - end;
    close.unwrap_or(end)
}
