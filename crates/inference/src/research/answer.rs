//! The end of a research job as the formats of other providers show it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollgate_evidence::text::CharText;
use tollgate_jobs::sealed;
use tollgate_storage::Job;
use tollgate_types::{Error, ErrorCode, JobStatus, Unit};

use super::Research;
use super::progress::search_result;

/// Millionths of a query in one query.
const QUERY: u64 = 1_000_000;

/// End of a research job.
pub(super) enum Ending {
    Complete(Answer),
    /// The content policy blocked a section.
    Blocked,
    Failed(Error),
}

/// A complete report.
pub(super) struct Answer {
    /// The result of the job.
    result: Value,
}

/// A citation mark, such as `[2]`, in the report. Offsets count code points.
pub(super) struct Mark<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    citation: &'a Value,
}

impl Ending {
    /// Returns the end of a job that has ended.
    pub(super) fn of(research: &Research, job: &Job) -> Result<Self, Error> {
        let failed = |code, message: &str| Ok(Ending::Failed(Error::new(code, message)));
        match (job.status, &job.result, &job.error) {
            (JobStatus::Completed, Some(sealed), _) => {
                let result = sealed::open(&research.vault, job, sealed)?;
                Ok(Ending::Complete(Answer { result }))
            }
            (_, _, Some(error)) if error.code == ErrorCode::OutputBlocked => Ok(Ending::Blocked),
            (_, _, Some(error)) => Ok(Ending::Failed(error.into())),
            (JobStatus::Cancelled, ..) => failed(
                ErrorCode::Conflict,
                "The research was cancelled. Its calls until then were charged.",
            ),
            _ => failed(ErrorCode::InternalError, "The research has no result."),
        }
    }
}

impl Answer {
    /// Returns the report in Markdown.
    pub(super) fn report(&self) -> &str {
        self.result["report"].as_str().unwrap_or_default()
    }

    /// Returns the URLs of the citations: the mark `[1]` refers to the first one.
    pub(super) fn urls(&self) -> Vec<&Value> {
        self.citations().map(|citation| &citation["url"]).collect()
    }

    /// Returns all sources as search results.
    pub(super) fn search_results(&self) -> Vec<Value> {
        let sources = self.result["sources"].as_array().into_iter().flatten();
        let result = |source: &Value| {
            let cited = self
                .citations()
                .find(|citation| citation["source_id"] == source["id"]);
            search_result(source, cited.and_then(|citation| citation["quote"].as_str()))
        };
        sources.map(result).collect()
    }

    /// Returns all citation marks of the report, in order. A citation may have several.
    pub(super) fn marks(&self) -> Vec<Mark<'_>> {
        let mut places = BTreeSet::new();
        for claim in self.result["claims"].as_array().into_iter().flatten() {
            let Some(mut start) = claim["report_end"].as_u64() else {
                continue;
            };
            let ids = claim["citations"].as_array().into_iter().flatten();
            for id in ids.filter_map(Value::as_u64) {
                let end = start + format!("[{id}]").len() as u64;
                places.insert((start, end, id));
                start = end;
            }
        }
        let first: BTreeSet<(u64, u64, u64)> = self
            .citations()
            .filter_map(|citation| {
                let place = |name: &str| citation[name].as_u64();
                Some((place("report_start")?, place("report_end")?, place("id")?))
            })
            .collect();
        let text = CharText::new(self.report());
        // A report with the marks of its provider has them only where citations are first used.
        let is_mark = |(start, end, id): &(u64, u64, u64)| {
            let place = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
            let written = place.and_then(|(start, end)| text.slice(start, end));
            first.contains(&(*start, *end, *id)) || written == Some(&*format!("[{id}]"))
        };
        let mark = |(start, end, id): (u64, u64, u64)| {
            let citation = self.citations().find(|citation| citation["id"] == id)?;
            Some(Mark { start, end, citation })
        };
        places.extend(first.iter().copied());
        places.into_iter().filter(is_mark).filter_map(mark).collect()
    }

    fn citations(&self) -> impl Iterator<Item = &Value> {
        self.result["citations"].as_array().into_iter().flatten()
    }
}

impl Mark<'_> {
    /// Returns the mark as the members of a URL citation.
    pub(super) fn members(&self) -> Value {
        json!({
            "start_index": self.start,
            "end_index": self.end,
            "url": self.citation["url"],
            "title": self.citation["title"],
        })
    }
}

/// Returns the number of charged queries of a job.
pub(super) fn queries(job: &Job) -> u64 {
    job.usage.get(Unit::Search) / QUERY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_has_a_place() {
        let report = "## A\n\nOne.[1][2] Two. Three.[1]";
        let answer = Answer {
            result: json!({
                "report": report,
                "claims": [
                    {"report_end": 10, "citations": [1, 2]},
                    {"report_end": 21, "citations": []},
                    {"report_end": null, "citations": [7]},
                    {"report_end": 28, "citations": [1]},
                ],
                "citations": [
                    {"id": 1, "report_start": 10, "report_end": 13, "url": "u1", "title": "t1"},
                    {"id": 2, "report_start": 13, "report_end": 16, "url": "u2", "title": "t2"},
                ],
            }),
        };
        let found: Vec<(&str, Value)> = answer
            .marks()
            .iter()
            .map(|mark| {
                let (start, end) = (mark.start as usize, mark.end as usize);
                (&report[start..end], mark.members()["url"].clone())
            })
            .collect();
        assert_eq!(
            found,
            [("[1]", json!("u1")), ("[2]", json!("u2")), ("[1]", json!("u1"))]
        );
        assert_eq!(answer.urls(), [&json!("u1"), &json!("u2")]);
    }
}
