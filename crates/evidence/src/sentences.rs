//! Sentences of a text.

mod abbreviations;
#[cfg(test)]
mod tests;

use crate::script::{is_closer, is_terminator};
pub use crate::text::Span;

/// Maximum length of a line without a final full stop that is a heading, in code points.
const MAX_HEADING_CHARS: usize = 60;

/// Returns the sentences of a text in reading order, without white space at their ends. Headings
/// and list items are separate sentences, without their marks. The time is proportional to the
/// length.
pub fn sentences(text: &str) -> Vec<Span> {
    let chars: Vec<char> = text.chars().collect();
    let mut spans = Spans {
        chars: &chars,
        start: 0,
        is_line_start: true,
        spans: Vec::new(),
    };
    // First visible character of the line.
    let mut line_start = skip_space(&chars, 0, chars.len());
    let mut at = line_start;
    while let Some(&c) = chars.get(at) {
        if c == '\n' {
            let next = skip_space(&chars, at, chars.len());
            if is_block_end(&chars, line_start, at, next) {
                spans.cut(at, true);
            }
            line_start = next;
            at = next;
        } else if is_terminator(c) {
            let end = skip_closers(&chars, at + 1);
            if ends_sentence(&chars, at, end, line_start) {
                spans.cut(end, false);
            }
            at = end;
        } else {
            at += 1;
        }
    }
    spans.cut(chars.len(), true);
    spans.spans
}

struct Spans<'c> {
    chars: &'c [char],
    start: usize,
    /// Whether `start` is the start of a block, so that a mark may follow.
    is_line_start: bool,
    spans: Vec<Span>,
}

impl Spans<'_> {
    fn cut(&mut self, end: usize, ends_block: bool) {
        let mut start = skip_space(self.chars, self.start, end);
        if self.is_line_start {
            while let Some(after) = skip_mark(self.chars, start).filter(|&after| after <= end) {
                start = skip_space(self.chars, after, end);
            }
        }
        let mut last = end;
        while last > start && self.chars[last - 1].is_whitespace() {
            last -= 1;
        }
        if start < last {
            self.spans.push(Span { start, end: last });
        }
        self.start = end;
        self.is_line_start = ends_block;
    }
}

fn skip_space(chars: &[char], start: usize, end: usize) -> usize {
    let spaces = chars[start.min(end)..end]
        .iter()
        .take_while(|c| c.is_whitespace());
    start + spaces.count()
}

/// Returns the place after the mark of a heading, quotation or list item; `None` without a mark.
fn skip_mark(chars: &[char], start: usize) -> Option<usize> {
    let is_space = |at: usize| chars.get(at).is_none_or(|c| c.is_whitespace());
    let count = |is_part: fn(&char) -> bool| chars[start..].iter().take(8).take_while(|c| is_part(c)).count();
    let signs = count(|&c| c == '#');
    let digits = count(char::is_ascii_digit);
    match chars.get(start)? {
        '#' if signs <= 6 && is_space(start + signs) => Some(start + signs),
        '-' | '*' | '+' | '•' | '◦' | '‣' | '·' | '–' | '>' if is_space(start + 1) => {
            Some(start + 1)
        }
        '0'..='9' if digits <= 3 => {
            let has_mark = matches!(chars.get(start + digits), Some('.' | ')'));
            (has_mark && is_space(start + digits + 1)).then_some(start + digits + 1)
        }
        _ => None,
    }
}

/// Whether the line break at `end` ends a paragraph, a heading or a list item. `next` is the first
/// visible character after it.
fn is_block_end(chars: &[char], line_start: usize, end: usize, next: usize) -> bool {
    let Some(&first) = chars.get(next) else {
        return true;
    };
    let breaks = chars[end..next].iter().filter(|&&c| c == '\n').count();
    if breaks > 1 || chars[line_start] == '#' || skip_mark(chars, next).is_some() {
        return true;
    }
    let is_short = end - line_start <= MAX_HEADING_CHARS;
    let continues = matches!(chars[end - 1], ',' | ';' | '-' | '–' | '(') || first.is_lowercase();
    is_short && !continues
}

/// Returns the place after further terminators, closing quote marks and references such as `[12]`.
fn skip_closers(chars: &[char], mut at: usize) -> usize {
    loop {
        match chars.get(at) {
            Some(&c) if is_terminator(c) || is_closer(c) => at += 1,
            Some('[') => {
                let digits = chars[at + 1..]
                    .iter()
                    .take(4)
                    .take_while(|c| c.is_ascii_digit())
                    .count();
                if digits == 0 || chars.get(at + 1 + digits) != Some(&']') {
                    return at;
                }
                at += digits + 2;
            }
            _ => return at,
        }
    }
}

/// Whether the terminator at `at` ends a sentence. `end` is the place after its closers.
fn ends_sentence(chars: &[char], at: usize, end: usize, line_start: usize) -> bool {
    if matches!(chars[at], '。' | '！' | '？' | '।' | '؟' | '۔') {
        return true;
    }
    let next = skip_space(chars, end, chars.len());
    let Some(&first) = chars.get(next) else {
        return true;
    };
    if next == end || first.is_lowercase() {
        return false;
    }
    if chars[at] != '.' || is_terminator(chars.get(at + 1).copied().unwrap_or(' ')) {
        return true;
    }
    let is_word = |c: &&char| c.is_alphanumeric() || **c == '.';
    let length = chars[line_start..at]
        .iter()
        .rev()
        .take(16)
        .take_while(is_word)
        .count();
    let before: String = chars[at - length..at].iter().collect();
    let is_mark = at - length == line_start && before.chars().all(|c| c.is_ascii_digit());
    let after: String = chars[next..]
        .iter()
        .take(16)
        .take_while(|c| c.is_alphabetic())
        .collect();
    (!is_mark || before.is_empty()) && !abbreviations::is_abbreviation(&before, &after)
}
