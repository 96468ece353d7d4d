//! Documents in Markdown: front matter, and the text without the most frequent markup.

use tollgate_evidence::front_matter;

use super::{Document, file_title};

/// Reads a Markdown file. The title is the front matter's, the first heading, or the file name.
pub(super) fn parse(path: &str, content: &str) -> Document {
    let (front_matter, body) = front_matter::split(content);
    let title = front_matter.title.or_else(|| first_heading(body));
    Document {
        path: path.to_owned(),
        url: front_matter.url,
        title: title.unwrap_or_else(|| file_title(path)),
        author: front_matter.author,
        date: front_matter.date,
        text: plain_text(body),
    }
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with([' ', '\t']))
        .then(|| text.trim().trim_end_matches('#').trim())
}

fn first_heading(body: &str) -> Option<String> {
    let found = body.lines().find_map(heading).filter(|text| !text.is_empty())?;
    Some(inline_text(found))
}

/// Removes headings' signs, comments, images, link targets and emphasis. Code blocks stay verbatim.
fn plain_text(body: &str) -> String {
    let body = without_comments(body);
    let mut text = String::with_capacity(body.len());
    let mut is_code = false;
    for line in body.lines() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        match is_code {
            true => text.push_str(line),
            false => text.push_str(&inline_text(heading(line).unwrap_or(line))),
        }
        text.push('\n');
    }
    text
}

/// Removes HTML comments. A comment without an end extends to the end of the text.
fn without_comments(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some((before, comment)) = rest.split_once("<!--") {
        text.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text
}

/// Removes inline markup. Reads the line once.
fn inline_text(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut links = Links::new(line);
    let mut next = 0;
    while let Some(at) = line[next..].find(['*', '_', '`', '[', '!']).map(|at| next + at) {
        text.push_str(&line[next..at]);
        let marked = &line[at..];
        let is_image = marked.starts_with("![");
        if let Some((label, end)) = links.at(if is_image { at + 1 } else { at }) {
            if !is_image {
                text.push_str(&label.replace(['*', '`'], ""));
            }
            next = end;
            continue;
        }
        let sign = &marked[..1];
        let run = marked.len() - marked.trim_start_matches(sign).len();
        if is_literal(sign, run, &line[..at], &marked[run..]) {
            text.push_str(&marked[..run]);
        }
        next = at + run;
    }
    text.push_str(&line[next..]);
    text
}

/// Whether the run is not emphasis or code: an exclamation mark, a bracket, an underscore inside a
/// word or a sign between spaces.
fn is_literal(sign: &str, run: usize, before: &str, after: &str) -> bool {
    let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    let is_space = |character: Option<char>| character.is_none_or(char::is_whitespace);
    let (previous, next) = (before.chars().next_back(), after.chars().next());
    match sign {
        "!" | "[" => true,
        "_" => run > 2 || (is_word(previous) && is_word(next)) || (is_space(previous) && is_space(next)),
        "*" => run > 3 || (is_space(previous) && is_space(next)),
        _ => false,
    }
}

/// Maximum length of the text of a link, in bytes.
const MAX_LABEL_BYTES: usize = 2_000;

/// Links in a line, which are parsed in the order of their places. The ends that were found last
/// are stored, so that no part of the line is searched twice.
struct Links<'a> {
    line: &'a str,
    label_end: Option<usize>,
    target_end: Option<usize>,
}

impl<'a> Links<'a> {
    const fn new(line: &'a str) -> Self {
        Self {
            line,
            label_end: None,
            target_end: None,
        }
    }

    /// Parses `[label](target)` at a byte offset. Returns the label and the end of the link.
    fn at(&mut self, start: usize) -> Option<(&'a str, usize)> {
        if !self.line[start..].starts_with('[') {
            return None;
        }
        let label_end = find_from(&mut self.label_end, self.line, start, "](")?;
        let target_end = find_from(&mut self.target_end, self.line, label_end + 2, ")")?;
        let label = &self.line[start + 1..label_end];
        (label.len() <= MAX_LABEL_BYTES).then_some((label, target_end + 1))
    }
}

/// Returns the first place of the pattern at or after `from`. `found` is the result of the last
/// search, which started earlier; the length of the text stands for none.
fn find_from(found: &mut Option<usize>, text: &str, from: usize, pattern: &str) -> Option<usize> {
    let at = match *found {
        Some(at) if at >= from => at,
        _ => text[from..].find(pattern).map_or(text.len(), |at| from + at),
    };
    *found = Some(at);
    (at < text.len()).then_some(at)
}
