//! Links, images and URLs in Markdown.

use super::cells::{Cell, Class, Output};

/// Maximum length of a link's destination and title, in characters.
const MAX_TARGET_CHARS: usize = 2_048;

/// Maximum depth of parentheses in a destination; the limit of CommonMark.
const MAX_PARENTHESES: usize = 32;

/// Maximum length of a URL scheme, in characters.
const MAX_SCHEME_CHARS: usize = 32;

/// The end of a link: the place after it, and its destination if the link remains.
type LinkEnd = (usize, Option<String>);

/// Removes images, and replaces links that are not allowed by their texts.
pub(super) fn without_links(cells: &[Cell], allowed: &dyn Fn(&str) -> bool) -> Vec<Cell> {
    let closing = closing_brackets(cells);
    // The ends of open links, at their closing brackets.
    let mut ends: Vec<Option<LinkEnd>> = vec![None; cells.len()];
    let mut output = Output::default();
    let mut at = 0;
    while let Some(&cell) = cells.get(at) {
        let open = at + usize::from(cell.is('!'));
        let target = closing[open.min(cells.len() - 1)].map(|close| (close, target_at(cells, close + 1)));
        if let Some((end, destination)) = ends[at].take() {
            if let Some(destination) = destination {
                output.push_verified(&format!("]({destination})"));
            }
            at = end;
        } else if open > at && cells.get(open).is_some_and(|cell| cell.is('[')) {
            output.skip();
            at = match target {
                Some((_, Some(target))) => target.end,
                // ![text][label]
                Some((close, None)) => closing.get(close + 1).copied().flatten().unwrap_or(close) + 1,
                None => open + 1,
            };
        } else if let (true, Some((close, Some(target)))) = (cell.is('['), target) {
            let is_allowed = !target.destination.is_empty() && allowed(&target.destination);
            if is_allowed {
                output.push_verified("[");
            }
            ends[close] = Some((target.end, is_allowed.then(|| escaped(&target.destination))));
            at += 1;
        } else {
            output.push(cell);
            at += 1;
        }
    }
    output.into_cells()
}

/// Returns the closing bracket of each opening bracket.
fn closing_brackets(cells: &[Cell]) -> Vec<Option<usize>> {
    let mut closing = vec![None; cells.len()];
    let mut open = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        if cell.is('[') {
            open.push(at);
        } else if cell.is(']')
            && let Some(start) = open.pop()
        {
            closing[start] = Some(at);
        }
    }
    closing
}

/// The part of a link after its text: `(destination "title")`.
struct Target {
    destination: String,
    /// Place after the closing parenthesis.
    end: usize,
}

/// Parses the target of a link at an opening parenthesis.
fn target_at(cells: &[Cell], open: usize) -> Option<Target> {
    cells.get(open).filter(|cell| cell.is('('))?;
    let limit = (open + MAX_TARGET_CHARS).min(cells.len());
    let cells = &cells[..limit];
    let mut at = skip_space(cells, open + 1);
    let mut destination = String::new();
    let mut depth = 0;
    while let Some(cell) = cells
        .get(at)
        .filter(|cell| cell.class != Class::Code && !cell.c.is_whitespace())
    {
        if cell.is('(') {
            depth += 1;
        } else if cell.is(')') && depth == 0 {
            break;
        } else if cell.is(')') {
            depth -= 1;
        }
        if depth > MAX_PARENTHESES {
            return None;
        }
        destination.push(cell.c);
        at += 1;
    }
    at = skip_title(cells, skip_space(cells, at));
    let is_closed = cells.get(at).is_some_and(|cell| cell.is(')'));
    is_closed.then_some(Target {
        destination,
        end: at + 1,
    })
}

fn skip_space(cells: &[Cell], start: usize) -> usize {
    let rest = cells.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|cell| cell.c.is_whitespace()).count()
}

/// Skips a title in quotation marks or parentheses, and the white space after it.
fn skip_title(cells: &[Cell], start: usize) -> usize {
    let closer = match cells.get(start).map(|cell| cell.c) {
        Some('"') => '"',
        Some('\'') => '\'',
        Some('(') => ')',
        _ => return start,
    };
    let end = (start + 1..cells.len()).find(|&at| cells[at].is(closer));
    end.map_or(start, |end| skip_space(cells, end + 1))
}

/// Returns a destination that Markdown reads as one, without white space, brackets and marks.
fn escaped(destination: &str) -> String {
    let mut output = String::with_capacity(destination.len());
    for c in destination.chars() {
        match c {
            '(' | ')' | '<' | '>' | '[' | ']' | '`' | '\\' | '|' => {
                output.push_str(&format!("%{:02X}", u32::from(c)))
            }
            c => output.push(c),
        }
    }
    output
}

/// Removes URLs in text that are not allowed.
pub(super) fn without_urls(cells: &[Cell], allowed: &dyn Fn(&str) -> bool) -> Vec<Cell> {
    let mut output = Output::default();
    let mut at = 0;
    while let Some(&cell) = cells.get(at) {
        let Some(length) = url_length(cells, at) else {
            output.push(cell);
            at += 1;
            continue;
        };
        let url: String = cells[at..at + length].iter().map(|cell| cell.c).collect();
        if allowed(&url) {
            output.push_verified(&url);
        } else {
            output.skip();
        }
        at += length;
    }
    output.into_cells()
}

/// Returns the length of the URL at a place: a scheme and `://`, or `www.`; `None` if no URL begins
/// there.
fn url_length(cells: &[Cell], start: usize) -> Option<usize> {
    let is_scheme = |cell: &&Cell| {
        cell.class == Class::Plain && (cell.c.is_alphanumeric() || matches!(cell.c, '+' | '-' | '.'))
    };
    let previous = start.checked_sub(1).map(|previous| &cells[previous]);
    if !cells[start].c.is_alphanumeric()
        || cells[start].class != Class::Plain
        || previous.is_some_and(|cell| cell.c.is_alphanumeric() && is_scheme(&cell))
    {
        return None;
    }
    let scheme = cells[start..]
        .iter()
        .take(MAX_SCHEME_CHARS)
        .take_while(is_scheme)
        .count();
    let text: String = cells[start..]
        .iter()
        .take(scheme + 3)
        .map(|cell| cell.c)
        .collect();
    let is_www = text
        .get(..4)
        .is_some_and(|text| text.eq_ignore_ascii_case("www."));
    if !text.ends_with("://") && !is_www {
        return None;
    }
    let is_part = |cell: &&Cell| {
        let ends = matches!(cell.c, '<' | '>' | '"' | '`' | '[' | ']' | '|' | '\\' | '”' | '“');
        cell.class == Class::Plain && !cell.c.is_whitespace() && !ends
    };
    let mut length = cells[start..].iter().take_while(is_part).count();
    let count = |mark: char| {
        cells[start..start + length]
            .iter()
            .filter(|cell| cell.c == mark)
            .count()
    };
    let mut unopened = count(')').saturating_sub(count('('));
    while length > scheme + 3 {
        match cells[start + length - 1].c {
            '.' | ',' | ';' | ':' | '!' | '?' | '*' | '_' | '\'' | '’' => {}
            ')' if unopened > 0 => unopened -= 1,
            _ => break,
        }
        length -= 1;
    }
    Some(length)
}
