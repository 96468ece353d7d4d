//! Blocks of Markdown: fenced code, other text, headings.

/// Minimum level of headings in a section.
const MIN_LEVEL: usize = 3;

/// Maximum level of headings in Markdown.
const MAX_LEVEL: usize = 6;

/// A part of a text.
pub(super) enum Block<'t> {
    /// Lines outside fenced code.
    Text(String),
    /// Fenced code, also where the end of the text closes it.
    Code {
        fence: String,
        /// Language after the opening fence; may be empty.
        info: String,
        /// Lines without the indentation of the fence.
        lines: Vec<&'t str>,
    },
}

/// Divides a text into blocks. Fences in quotations are text.
pub(super) fn split(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = text.split('\n');
    let mut plain: Vec<&str> = Vec::new();
    while let Some(line) = lines.next() {
        let Some((fence, info)) = opening_fence(line) else {
            plain.push(line);
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let mut code = Vec::new();
        for line in lines.by_ref() {
            if is_closing_fence(line, &fence) {
                break;
            }
            code.push(without_indent(line, indent));
        }
        if !plain.is_empty() {
            blocks.push(Block::Text(plain.join("\n")));
            plain.clear();
        }
        blocks.push(Block::Code {
            fence,
            info,
            lines: code,
        });
    }
    if !plain.is_empty() {
        blocks.push(Block::Text(plain.join("\n")));
    }
    blocks
}

/// Returns the fence and the language of a line that begins fenced code.
fn opening_fence(line: &str) -> Option<(String, String)> {
    let line = line.trim_start_matches([' ', '\t']);
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    if length < 3 || info.contains('`') {
        return None;
    }
    let is_name = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '.' | '_');
    let info = info.trim().chars().take_while(is_name).collect();
    Some((mark.to_string().repeat(length), info))
}

/// Whether a renderer, or the rule for opening fences, takes a line as the end of fenced code.
fn is_closing_fence(line: &str, fence: &str) -> bool {
    let line = line.trim();
    let rest = line.trim_start_matches(&fence[..1]);
    rest.is_empty() && line.len() >= fence.len()
}

/// Removes up to this number of white-space characters.
fn without_indent(line: &str, indent: usize) -> &str {
    let spaces = line
        .bytes()
        .take(indent)
        .take_while(|byte| matches!(byte, b' ' | b'\t'));
    &line[spaces.count()..]
}

/// Raises the levels of all headings by the same number, so that the lowest is at least 3, removes
/// underlines of headings, and makes text of link definitions. Fenced code is unchanged.
pub(super) fn adapt_lines(text: &str) -> String {
    let lines = with_code(text);
    let levels = lines
        .iter()
        .filter(|(is_code, _)| !is_code)
        .filter_map(|(_, line)| heading(line));
    let lowest = levels.map(|(_, level)| level).min().unwrap_or(MIN_LEVEL);
    let shift = MIN_LEVEL.saturating_sub(lowest);
    let mut adapted: Vec<String> = Vec::with_capacity(lines.len());
    let mut after_text = false;
    for (is_code, line) in lines {
        let (start, level) = heading(line).unwrap_or_default();
        if is_code {
            adapted.push(line.to_owned());
        } else if level > 0 {
            let marks = "#".repeat((level + shift).min(MAX_LEVEL));
            adapted.push(format!("{}{marks}{}", &line[..start], &line[start + level..]));
        } else if after_text && is_underline(line) {
            // Under a paragraph, the line would make it a heading.
            let is_rule = !line.contains('=');
            adapted.extend(is_rule.then(|| format!("\n{line}")));
        } else if begins_definition(content(line)) {
            let (marks, content) = line.split_at(line.len() - content(line).len());
            adapted.push(format!("{marks}\\{content}"));
        } else {
            adapted.push(line.to_owned());
        }
        after_text = !is_code && !content(line).is_empty();
    }
    adapted.join("\n")
}

/// Returns the lines of a text, and whether each belongs to fenced code.
fn with_code(text: &str) -> Vec<(bool, &str)> {
    let mut fence: Option<String> = None;
    let mark = |line| {
        let opened = fence.take();
        let is_code = opened.is_some();
        fence = match opened {
            Some(open) => Some(open).filter(|open| !is_closing_fence(line, open)),
            None => opening_fence(line).map(|(fence, _)| fence),
        };
        (is_code || fence.is_some(), line)
    };
    text.split('\n').map(mark).collect()
}

/// Whether a line can begin a link definition, `[label]: URL`, whose label may continue on the next
/// line.
fn begins_definition(content: &str) -> bool {
    let label = content.split_once('[').filter(|(before, _)| before.is_empty());
    label.is_some_and(|(_, label)| {
        label
            .split_once(']')
            .is_none_or(|(_, after)| after.starts_with(':'))
    })
}

/// Returns the offset and the level of a heading, also in quotations and list items.
fn heading(line: &str) -> Option<(usize, usize)> {
    let content = content(line);
    let rest = content.trim_start_matches('#');
    let level = content.len() - rest.len();
    let is_heading = (1..=MAX_LEVEL).contains(&level) && (rest.is_empty() || rest.starts_with([' ', '\t']));
    is_heading.then(|| (line.len() - content.len(), level))
}

fn is_underline(line: &str) -> bool {
    let content = line.trim_start_matches([' ', '\t', '>']).trim_end();
    let is_line = |mark: char| !content.is_empty() && content.chars().all(|c| c == mark);
    is_line('=') || is_line('-')
}

/// Returns a line without white space and the marks of quotations and list items at its start.
pub(super) fn content(line: &str) -> &str {
    let mut rest = line.trim_start();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mark = match rest.as_bytes().get(digits) {
            Some(b'>') if digits == 0 => 1,
            Some(b'-' | b'*' | b'+') if digits == 0 => 1,
            Some(b'.' | b')') if (1..=9).contains(&digits) => digits + 1,
            _ => return rest,
        };
        let after = &rest[mark..];
        let is_mark = rest.starts_with('>') || after.is_empty() || after.starts_with([' ', '\t']);
        if !is_mark {
            return rest;
        }
        rest = after.trim_start();
    }
}
