//! Shared code of the reports of providers' own research models: prompts, sources and citation
//! marks. The code for each provider is in that provider's folder.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_types::Error;
use tollgate_types::usage::{MAX_QUANTITY, Unit, Usage};
use tollgate_upstream::{
    GenerationState, ProviderReport, ReportCall, ReportMark, ReportRole, ReportSource, Submitted,
    UpstreamError,
};

use crate::media::{from_handle, reject_unsupported, to_handle};

/// Maximum size of a response with a report, in bytes. It also contains the reasoning and the
/// results of all searches.
pub(crate) const MAX_REPORT_BYTES: usize = 32 << 20;
/// Delay before the first poll.
const POLL_AFTER: Duration = Duration::from_secs(1);
/// Quantity of one search.
const SEARCH: u64 = 1_000_000;

/// Id of a report at its provider.
#[derive(Serialize, Deserialize)]
struct Handle {
    id: String,
}

/// Returns the handle of an accepted job, from the object that the provider returned.
pub(crate) fn accepted(object: &Value) -> Result<Submitted<ProviderReport>, UpstreamError> {
    let id = text(object, "id").to_owned();
    if id.is_empty() {
        return Err(UpstreamError::protocol("the accepted job has no id"));
    }
    Ok(Submitted::Accepted {
        handle: to_handle(&Handle { id })?,
        poll_after: POLL_AFTER,
    })
}

/// Returns the provider's id of a job.
pub(crate) fn id_of(handle: &[u8]) -> Result<String, UpstreamError> {
    from_handle(handle).map(|Handle { id }| id)
}

/// Returns the state of a job that ended before the report was complete: a report, if there is one.
pub(crate) fn incomplete(report: Result<ProviderReport, UpstreamError>) -> GenerationState<ProviderReport> {
    match report {
        Ok(report) => GenerationState::Completed(ProviderReport {
            is_incomplete: true,
            ..report
        }),
        Err(error) => GenerationState::Failed(error),
    }
}

/// Filters that a provider cannot apply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsupported {
    /// Excluded sites and paths of sites.
    pub(crate) site_details: bool,
    /// All filters by site.
    pub(crate) sites: bool,
    /// Filters by age and date.
    pub(crate) dates: bool,
    /// Limits of searches and pages.
    pub(crate) counts: bool,
    /// Limits of the output.
    pub(crate) output: bool,
}

impl Unsupported {
    /// Returns an error for the first parameter of the call that the provider does not support.
    pub(crate) fn check(self, call: &ReportCall) -> Result<(), Error> {
        let filters = &call.filters;
        let has_sites = !filters.include.is_empty() || !filters.exclude.is_empty();
        let has_paths = filters.include.iter().any(|site| site.contains('/'));
        let has_details = has_paths || !filters.exclude.is_empty();
        let sites = self.sites && has_sites || self.site_details && has_details;
        let dates = self.dates;
        reject_unsupported(&[
            ("search_domain_filter", sites),
            ("search_recency_filter", dates && filters.recency.is_some()),
            ("search_after_date_filter", dates && filters.after.is_some()),
            ("search_before_date_filter", dates && filters.before.is_some()),
            ("max_searches", self.counts && call.max_searches.is_some()),
            ("max_pages", self.counts && call.max_pages.is_some()),
            (
                "max_output_tokens",
                self.output && call.max_output_tokens.is_some(),
            ),
        ])
    }
}

/// Returns the instructions for the report: those of the caller, and the language; `None` if there
/// are none.
pub(crate) fn instructions(call: &ReportCall) -> Option<String> {
    let language = call.filters.language.as_ref();
    let language = language.map(|tag| format!("Write the report in the language with the BCP 47 tag {tag}."));
    let all: Vec<String> = call.instructions.iter().cloned().chain(language).collect();
    (!all.is_empty()).then(|| all.join("\n\n"))
}

/// Returns the name of a role in OpenAI's formats. `system` is the name of instructions.
pub(crate) const fn role(role: ReportRole, system: &'static str) -> &'static str {
    match role {
        ReportRole::System => system,
        ReportRole::User => "user",
        ReportRole::Assistant => "assistant",
    }
}

/// The sources of a report, each once.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    all: Vec<ReportSource>,
}

impl Sources {
    /// Adds a source, or completes the one with the same URL. Returns its position; `None` for a
    /// URL that is not of the web.
    pub(crate) fn add(&mut self, source: ReportSource) -> Option<usize> {
        let is_web = ["http://", "https://"]
            .iter()
            .any(|scheme| source.url.starts_with(scheme));
        if !is_web {
            return None;
        }
        let known = self.all.iter().position(|known| known.url == source.url);
        let Some(known) = known else {
            self.all.push(source);
            return Some(self.all.len() - 1);
        };
        if let Some(entry) = self.all.get_mut(known) {
            if entry.title.is_empty() {
                entry.title = source.title;
            }
            entry.date = entry.date.or(source.date);
            entry.excerpt = entry.excerpt.take().or(source.excerpt);
        }
        Some(known)
    }

    /// Returns all sources in the order in which they were added.
    pub(crate) fn into_list(self) -> Vec<ReportSource> {
        self.all
    }
}

/// A report while the parts of a response are read.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    report: ProviderReport,
    sources: Sources,
    marks: Vec<ReportMark>,
}

impl Draft {
    /// Adds the searches of a list of queries.
    pub(crate) fn add_queries(&mut self, queries: &Value) {
        let queries = queries.as_array().into_iter().flatten();
        let queries = queries.filter_map(Value::as_str).map(str::to_owned);
        self.report.queries.extend(queries);
    }

    /// Appends a part of the text, after a blank line, with its URL citations. `place` returns the
    /// bytes of the mark of an annotation within the part; `None` without a place.
    pub(crate) fn add_text(&mut self, part: &Value, place: fn(&str, &Value) -> Option<(usize, usize)>) {
        if !self.report.text.is_empty() {
            self.report.text.push_str("\n\n");
        }
        let from = self.report.text.len();
        let added = text(part, "text");
        self.report.text.push_str(added);
        let annotations = part["annotations"].as_array().into_iter().flatten();
        for annotation in annotations.filter(|annotation| annotation["type"] == "url_citation") {
            let source = self.sources.add(ReportSource {
                url: text(annotation, "url").to_owned(),
                title: text(annotation, "title").to_owned(),
                ..ReportSource::default()
            });
            let (Some(source), Some((start, end))) = (source, place(added, annotation)) else {
                continue;
            };
            self.marks.push(ReportMark {
                start: from + start,
                end: from + end,
                sources: vec![source],
            });
        }
    }

    /// Replaces the text of a report without visible text.
    pub(crate) fn set_text(&mut self, text: &str) {
        text.clone_into(&mut self.report.text);
    }

    /// Whether the report has no visible text.
    pub(crate) fn is_blank(&self) -> bool {
        self.report.text.trim().is_empty()
    }

    /// Returns the report. Fails if it has no text. Without a usage, its output is estimated.
    pub(crate) fn finish(
        self,
        usage: Option<Usage>,
        searches: u64,
        response: Value,
    ) -> Result<ProviderReport, UpstreamError> {
        if self.is_blank() {
            return Err(no_report());
        }
        let usage = usage.unwrap_or_else(|| estimated(&self.report.text));
        Ok(ProviderReport {
            usage: with_searches(usage, searches),
            sources: self.sources.into_list(),
            marks: ordered(self.marks),
            raw: response,
            ..self.report
        })
    }
}

/// Returns a place of an annotation, such as `end_index`.
pub(crate) fn index(annotation: &Value, name: &str) -> Option<usize> {
    usize::try_from(annotation[name].as_u64()?).ok()
}

/// Returns the marks in order. Marks at the same place become one, and a mark that overlaps an
/// earlier one begins at its end.
fn ordered(mut marks: Vec<ReportMark>) -> Vec<ReportMark> {
    marks.sort_by_key(|mark| (mark.start, mark.end));
    let mut ordered: Vec<ReportMark> = Vec::with_capacity(marks.len());
    for mut mark in marks {
        match ordered.last_mut() {
            Some(last) if (last.start, last.end) == (mark.start, mark.end) => {
                mark.sources.retain(|source| !last.sources.contains(source));
                last.sources.append(&mut mark.sources);
            }
            Some(last) if mark.start < last.end => {
                mark.start = last.end;
                mark.end = mark.end.max(last.end);
                ordered.push(mark);
            }
            _ => ordered.push(mark),
        }
    }
    ordered
}

/// Returns the position of a byte at or before `byte` that is between two characters.
pub(crate) fn char_boundary(text: &str, byte: usize) -> usize {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// Returns a member with a text; empty if it is missing.
pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Returns a member with a number of tokens or searches; 0 if it is missing or implausible.
pub(crate) fn count(value: &Value, name: &str) -> u64 {
    let count = value[name].as_u64().unwrap_or_default();
    if count > MAX_QUANTITY { 0 } else { count }
}

/// Returns a usage with this number of searches.
pub(crate) fn with_searches(usage: Usage, searches: u64) -> Usage {
    usage.with(
        Unit::Search,
        searches.min(MAX_QUANTITY / SEARCH).saturating_mul(SEARCH),
    )
}

/// Returns the usage of a report whose provider reported none: its output, at four bytes a token.
pub(crate) fn estimated(report: &str) -> Usage {
    Usage::tokens(0, (report.len() as u64).div_ceil(4))
}

/// Returns the error of a complete response without a report.
pub(crate) fn no_report() -> UpstreamError {
    UpstreamError::protocol("the response is complete and contains no report")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(start: usize, end: usize, source: usize) -> ReportMark {
        ReportMark {
            start,
            end,
            sources: vec![source],
        }
    }

    #[test]
    fn marks_are_in_order_and_disjoint() {
        let marks = vec![
            mark(9, 12, 2),
            mark(4, 4, 0),
            mark(4, 4, 1),
            mark(4, 4, 0),
            mark(10, 14, 3),
        ];
        assert_eq!(
            ordered(marks),
            [
                ReportMark {
                    sources: vec![0, 1],
                    ..mark(4, 4, 0)
                },
                mark(9, 12, 2),
                mark(12, 14, 3),
            ]
        );
    }

    #[test]
    fn sources_are_listed_once_and_only_from_the_web() {
        let source = |url: &str, title: &str| ReportSource {
            url: url.to_owned(),
            title: title.to_owned(),
            ..ReportSource::default()
        };
        let mut sources = Sources::default();
        assert_eq!(sources.add(source("https://a.example", "")), Some(0));
        assert_eq!(sources.add(source("javascript:alert(1)", "x")), None);
        assert_eq!(sources.add(source("https://b.example", "B")), Some(1));
        assert_eq!(sources.add(source("https://a.example", "A")), Some(0));
        assert_eq!(
            sources.into_list(),
            [source("https://a.example", "A"), source("https://b.example", "B")]
        );
    }
}
