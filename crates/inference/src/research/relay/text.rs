//! The text of a provider's report: its sections without foreign markup, and the statements that
//! its citation marks support.

use std::ops::Range;

use tollgate_evidence::report::sanitize_section;
use tollgate_evidence::sentences::sentences;
use tollgate_evidence::text::CharText;
use tollgate_upstream::{ProviderReport, ReportMark};

/// Characters around the number of a mark while the text is edited. They do not occur in texts of
/// the provider.
const OPEN: char = '\u{27E6}';
const CLOSE: char = '\u{27E7}';
/// Characters of Markdown at the ends of a statement.
const MARKUP: [char; 6] = ['*', '_', '#', '|', '>', '-'];

/// The text of a report with the places of its marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MarkedText {
    /// Sections in order; one joined with the next by a blank line is the whole text.
    pub(super) sections: Vec<MarkedSection>,
}

/// A section with the places of its marks. Places count bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MarkedSection {
    /// Title; empty for the text before the first heading.
    pub(super) title: String,
    pub(super) text: String,
    pub(super) marks: Vec<Placed>,
}

/// A mark in the text of a section.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) place: Range<usize>,
    /// Positions of the cited documents in the provider's list.
    pub(super) sources: Vec<usize>,
}

/// A statement and the marks that support it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// Text without markup.
    pub(super) text: String,
    /// Place in the text of the section, in bytes. Its end is the start of the first mark.
    pub(super) place: Range<usize>,
    /// Positions of its marks in the list of the section.
    pub(super) marks: Range<usize>,
}

/// Returns the report as the provider wrote it, as one section.
pub(super) fn verbatim(report: &ProviderReport) -> MarkedText {
    let marks = report.marks.iter().map(|mark| Placed {
        place: mark.start..mark.end,
        sources: mark.sources.clone(),
    });
    let section = MarkedSection {
        title: String::new(),
        text: report.text.clone(),
        marks: marks.collect(),
    };
    MarkedText {
        sections: vec![section],
    }
}

/// Returns the report in sections without images, HTML and links. Each mark becomes an empty place
/// directly after the statement that it supports.
pub(super) fn formatted(report: &ProviderReport) -> MarkedText {
    let text = with_numbers(report);
    let sections = split(&text).into_iter().filter_map(|(title, body)| {
        let (heading, body) = (inline(&title), sanitize_section(&body, &|_| false));
        // Only here is it known what is code: other backticks are escaped or removed.
        let (heading, body) = (
            without_numbered_brackets(&heading),
            without_numbered_brackets(&body),
        );
        let text = match (heading.is_empty(), body.is_empty()) {
            (true, _) => body,
            (false, true) => format!("## {heading}"),
            (false, false) => format!("## {heading}\n\n{body}"),
        };
        let (text, marks) = without_numbers(&text, &report.marks);
        let (title, _) = without_numbers(&heading, &report.marks);
        (!text.is_empty()).then_some(MarkedSection { title, text, marks })
    });
    MarkedText {
        sections: sections.collect(),
    }
}

/// Replaces each mark by its number in brackets that do not occur elsewhere in the text.
fn with_numbers(report: &ProviderReport) -> String {
    let plain = |text: &str| text.replace(OPEN, "[").replace(CLOSE, "]");
    let (mut numbered, mut at) = (String::with_capacity(report.text.len()), 0);
    for (number, mark) in report.marks.iter().enumerate() {
        let (Some(before), true) = (report.text.get(at..mark.start), mark.start <= mark.end) else {
            continue;
        };
        numbered.push_str(&plain(before));
        numbered.push_str(&format!("{OPEN}{number}{CLOSE}"));
        at = mark.end;
    }
    numbered.push_str(&plain(report.text.get(at..).unwrap_or_default()));
    numbered
}

/// Replaces `[2]` by `(2)` outside code, because such a text would refer to a citation.
fn without_numbered_brackets(text: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let (mut rest, mut is_code) = (text, false);
    while let Some(at) = rest.find(['[', '`', '\\']) {
        let (before, found) = rest.split_at(at);
        replaced.push_str(before);
        let digits = found
            .strip_prefix('[')
            .map_or(0, |inside| inside.bytes().take_while(u8::is_ascii_digit).count());
        let number = found.get(1..=digits).filter(|_| digits > 0 && !is_code);
        match number.filter(|_| found[digits + 1..].starts_with(']')) {
            Some(number) => {
                replaced.push_str(&format!("({number})"));
                rest = &found[digits + 2..];
            }
            None if found.starts_with('\\') && !is_code => {
                let escaped = found.chars().nth(1).filter(|c| *c == '`');
                let length = 1 + escaped.map_or(0, char::len_utf8);
                replaced.push_str(&found[..length]);
                rest = &found[length..];
            }
            None => {
                let fence = found.len() - found.trim_start_matches('`').len();
                is_code ^= fence > 0;
                let length = fence.max(1);
                replaced.push_str(&found[..length]);
                rest = &found[length..];
            }
        }
    }
    replaced.push_str(rest);
    replaced
}

/// Removes the numbers of marks, with the spaces before them, and returns their places.
fn without_numbers(text: &str, marks: &[ReportMark]) -> (String, Vec<Placed>) {
    let (mut plain, mut placed) = (String::with_capacity(text.len()), Vec::<Placed>::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        plain.push_str(before);
        let (number, after) = after.split_once(CLOSE).unwrap_or((after, ""));
        let mark = number.parse::<usize>().ok().and_then(|number| marks.get(number));
        if let Some(mark) = mark {
            plain.truncate(plain.trim_end_matches(' ').len());
            let at = plain.len();
            match placed.last_mut().filter(|last| last.place.end == at) {
                Some(last) => {
                    let new = mark.sources.iter().filter(|one| !last.sources.contains(one));
                    let new: Vec<usize> = new.copied().collect();
                    last.sources.extend(new);
                }
                None => placed.push(Placed {
                    place: at..at,
                    sources: mark.sources.clone(),
                }),
            }
        }
        rest = after;
    }
    plain.push_str(rest);
    (plain, placed)
}

/// Splits Markdown at its headings of the first two levels. Returns the title and the text of each
/// section.
fn split(text: &str) -> Vec<(String, String)> {
    let mut sections = vec![(String::new(), String::new())];
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_code = !is_code;
        }
        let heading = line.strip_prefix("# ").or_else(|| line.strip_prefix("## "));
        match heading.filter(|_| !is_code) {
            Some(title) => sections.push((title.trim().to_owned(), String::new())),
            None => {
                if let Some((_, body)) = sections.last_mut() {
                    body.push_str(line);
                    body.push('\n');
                }
            }
        }
    }
    sections
}

/// Returns a title in one line, without markup.
fn inline(title: &str) -> String {
    let title = without_markup(&sanitize_section(title, &|_| false));
    title.trim_matches(MARKUP).trim().to_owned()
}

impl MarkedSection {
    /// Returns the statements with marks, in order. A statement begins with its sentence, or after
    /// the mark before it in the same sentence.
    pub(super) fn statements(&self) -> Vec<Statement> {
        let masked = self.masked();
        let text = CharText::new(&masked);
        let sentences: Vec<Range<usize>> = sentences(&masked)
            .into_iter()
            .filter_map(|span| Some(text.byte_of_char(span.start)?..text.byte_of_char(span.end)?))
            .collect();
        let mut statements: Vec<Statement> = Vec::new();
        let mut previous_end = 0;
        for (number, mark) in self.marks.iter().enumerate() {
            let end = mark.place.start;
            let is_before = |sentence: &&Range<usize>| sentence.start < end;
            let start = sentences
                .iter()
                .rev()
                .find(is_before)
                .map_or(end, |sentence| sentence.start);
            let start = first_word(&masked, start.max(previous_end)..end);
            previous_end = mark.place.end;
            match (start, statements.last_mut()) {
                (Some(start), _) => statements.push(Statement {
                    text: without_markup(self.text.get(start..end).unwrap_or_default()),
                    place: start..end,
                    marks: number..number + 1,
                }),
                (None, Some(last)) => last.marks.end = number + 1,
                (None, None) => {}
            }
        }
        statements
    }

    /// Returns the text with spaces instead of the marks.
    fn masked(&self) -> String {
        let (mut masked, mut at) = (String::with_capacity(self.text.len()), 0);
        for mark in &self.marks {
            masked.push_str(self.text.get(at..mark.place.start).unwrap_or_default());
            masked.extend(std::iter::repeat_n(' ', mark.place.len()));
            at = mark.place.end;
        }
        masked.push_str(self.text.get(at..).unwrap_or_default());
        masked
    }
}

/// Returns the first byte of a place after white space and markup; `None` if the place has nothing
/// else.
fn first_word(text: &str, place: Range<usize>) -> Option<usize> {
    let part = text.get(place.clone())?;
    let is_empty = |c: char| c.is_whitespace() || MARKUP.contains(&c) || matches!(c, ',' | ';' | '.');
    let rest = part.trim_start_matches(is_empty);
    (!rest.is_empty()).then(|| place.end - rest.len())
}

/// Returns a statement in one line, without emphasis and table marks.
fn without_markup(text: &str) -> String {
    let text = text.replace("**", "").replace("__", "").replace(['`', '|'], " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end_matches([',', ';', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a report whose marks are the texts `<a>` and `<b>`, for the sources 0 and 1.
    fn report(text: &str) -> ProviderReport {
        let find = |mark: &str, source: usize| {
            let places: Vec<ReportMark> = text
                .match_indices(mark)
                .map(|(start, found)| ReportMark {
                    start,
                    end: start + found.len(),
                    sources: vec![source],
                })
                .collect();
            places
        };
        let mut marks = [find("<a>", 0), find("<b>", 1)].concat();
        marks.sort_by_key(|mark| mark.start);
        ProviderReport {
            text: text.to_owned(),
            marks,
            ..ProviderReport::default()
        }
    }

    fn statements(section: &MarkedSection) -> Vec<(String, Vec<usize>)> {
        let sources = |statement: &Statement| {
            let marks = section.marks[statement.marks.clone()].iter();
            marks.flat_map(|mark| mark.sources.clone()).collect()
        };
        let statements = section.statements();
        statements
            .iter()
            .map(|statement| (statement.text.clone(), sources(statement)))
            .collect()
    }

    #[test]
    fn statements_end_at_their_marks() {
        let text = formatted(&report(
            "Intro.\n\n# The **ferry**\n\nFerries sail daily. <a><b> They cost 5 € <a> and need 2 h <b>.\n\n\
             - **Éole** blows <b>\n- Nothing\n\n| Port | Ships |\n|---|---|\n| Brest | 12 <a> |\n",
        ));
        let titles: Vec<&str> = text.sections.iter().map(|section| &*section.title).collect();
        assert_eq!(titles, ["", "The ferry"]);
        assert!(
            text.sections[1]
                .text
                .starts_with("## The ferry\n\nFerries sail daily.")
        );
        assert_eq!(
            statements(&text.sections[1]),
            [
                ("Ferries sail daily.".to_owned(), vec![0, 1]),
                ("They cost 5 €".to_owned(), vec![0]),
                ("and need 2 h".to_owned(), vec![1]),
                ("Éole blows".to_owned(), vec![1]),
                ("Brest 12".to_owned(), vec![0]),
            ]
        );
    }

    #[test]
    fn foreign_markup_is_removed_and_places_fit() {
        let text = formatted(&report(
            "A ⟦7⟧ <a> ![x](http://canary/1.png) [link](http://evil/) <b>\n\n```\n# no heading <a>\n```\n",
        ));
        let section = &text.sections[0];
        assert!(
            !section.text.contains("canary") && !section.text.contains("evil"),
            "{section:?}"
        );
        assert!(section.text.contains("# no heading"), "{section:?}");
        for mark in &section.marks {
            assert!(section.text.is_char_boundary(mark.place.start));
            assert!(mark.place.is_empty());
        }
        assert_eq!(section.marks.len(), 3);
    }

    #[test]
    fn numbers_in_brackets_are_no_marks() {
        for (text, expected) in [
            ("A [12] b [x] [3a] [] [", "A (12) b [x] [3a] [] ["),
            (
                "In `a[0]` and ``b[1]``, but [2].",
                "In `a[0]` and ``b[1]``, but (2).",
            ),
            ("é[1][2]", "é(1)(2)"),
            ("\\`[1] \\[2] \\", "\\`(1) \\(2) \\"),
        ] {
            assert_eq!(without_numbered_brackets(text), expected);
        }
    }

    #[test]
    fn verbatim_texts_and_their_marks_are_unchanged() {
        let text = verbatim(&report("Ferries sail daily <a><b>. Éole blows <b>."));
        let section = &text.sections[0];
        assert_eq!(section.text, "Ferries sail daily <a><b>. Éole blows <b>.");
        assert_eq!(
            statements(section),
            [
                ("Ferries sail daily".to_owned(), vec![0, 1]),
                ("Éole blows".to_owned(), vec![1]),
            ]
        );
    }

    #[test]
    fn invalid_marks_are_left_out() {
        let mut broken = report("One. Two.");
        broken.marks = vec![
            ReportMark {
                start: 7,
                end: 3,
                sources: vec![0],
            },
            ReportMark {
                start: 100,
                end: 120,
                sources: vec![0],
            },
        ];
        let text = formatted(&broken);
        assert_eq!(text.sections[0].text, "One. Two.");
        assert!(text.sections[0].marks.is_empty());
    }
}
