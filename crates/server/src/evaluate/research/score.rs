//! Scores of one report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tollgate_types::{Credits, Date};

use super::agreement::states;
use super::cases::ResearchCase;

/// Scores of the report on one question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Index of the case.
    pub(super) place: usize,
    /// Number of citations that were compared with the stored text of their source.
    pub(super) citations: usize,
    /// Numbers of citations whose quote is not at its place in the stored text.
    pub(super) wrong_citations: Vec<u64>,
    /// Number of citations that the gateway itself shows as not verified.
    pub(super) unverified_citations: usize,
    /// Share of verified citations, as the gateway reports it.
    pub(super) citation_accuracy: Option<f64>,
    /// Number of all statements, with those that were removed.
    pub(super) claims: u64,
    /// Number of statements that were verified as first written.
    pub(super) first_verified: f64,
    /// Number of statements that the report shows.
    pub(super) statements: usize,
    /// Number of shown statements that state an expected answer.
    pub(super) answering: usize,
    /// Whether each expected answer is in the report.
    pub(super) found: Vec<bool>,
    /// URLs of sources that the filters of the request exclude.
    pub(super) leaks: Vec<String>,
    pub(super) searches: u64,
    pub(super) pages: u64,
    pub(super) is_degraded: bool,
    pub(super) cost: Credits,
    pub(super) took: Duration,
    /// Number of statements that the judge model received.
    pub(super) judged: usize,
    /// Number of judged statements that their quotes support.
    pub(super) supported: usize,
    /// Cost of the judge's decisions, in nano-credits.
    pub(super) judge_cost: i64,
}

/// A statement that a report shows, with the quotes of its citations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement<'j> {
    pub(super) text: &'j str,
    pub(super) quotes: Vec<&'j str>,
}

/// Scores a completed job. `texts` are the stored texts of its cited sources, by id.
pub(super) fn of(
    place: usize,
    case: &ResearchCase,
    job: &Value,
    texts: &BTreeMap<String, Vec<char>>,
    took: Duration,
) -> Result<Outcome, String> {
    let result = job.get("result").ok_or("the job has no result")?;
    let report = text(result, "report").ok_or("the result has no report")?;
    let stats = result.get("stats").unwrap_or(&Value::Null);
    let statements = statements(job);
    let (mut wrong_citations, mut unverified_citations, mut citations) = (Vec::new(), 0, 0);
    for citation in items(result, "citations") {
        if citation.get("verified") == Some(&Value::Bool(false)) {
            unverified_citations += 1;
            continue;
        }
        citations += 1;
        if !is_at_its_place(citation, texts) {
            wrong_citations.push(number(citation, "id"));
        }
    }
    let states_one =
        |statement: &Statement<'_>| case.answers.iter().any(|answer| states(statement.text, answer));
    // A report of a provider may have no separate statements.
    let whole = [Statement {
        text: report,
        quotes: Vec::new(),
    }];
    let searched = match statements.is_empty() {
        true => &whole[..],
        false => &statements,
    };
    let is_found = |answer: &String| searched.iter().any(|statement| states(statement.text, answer));
    let claims = number(stats, "claims");
    let first_accuracy = stats.get("first_accuracy").and_then(Value::as_f64);
    let cost = text(job, "cost").and_then(|cost| cost.parse().ok());
    Ok(Outcome {
        place,
        citations,
        wrong_citations,
        unverified_citations,
        citation_accuracy: stats.get("citation_accuracy").and_then(Value::as_f64),
        claims,
        first_verified: first_accuracy.unwrap_or_default() * claims as f64,
        answering: statements.iter().filter(|one| states_one(one)).count(),
        statements: statements.len(),
        found: case.answers.iter().map(is_found).collect(),
        leaks: leaks(case, result),
        searches: number(stats, "searches"),
        pages: number(stats, "pages"),
        is_degraded: result.get("degraded") == Some(&Value::Bool(true)),
        cost: cost.unwrap_or_default(),
        took,
        judged: 0,
        supported: 0,
        judge_cost: 0,
    })
}

/// Returns the statements that the report of a job shows.
pub(super) fn statements(job: &Value) -> Vec<Statement<'_>> {
    let result = job.get("result").unwrap_or(&Value::Null);
    let quotes: BTreeMap<u64, &str> = items(result, "citations")
        .filter_map(|citation| Some((citation.get("id")?.as_u64()?, text(citation, "quote")?)))
        .collect();
    let shown = items(result, "claims").filter(|claim| claim.get("report_start").is_some_and(Value::is_u64));
    shown
        .filter_map(|claim| {
            let ids = items(claim, "citations").filter_map(Value::as_u64);
            Some(Statement {
                text: text(claim, "text")?,
                quotes: ids.filter_map(|id| quotes.get(&id).copied()).collect(),
            })
        })
        .collect()
}

/// Returns the ids of the sources that the report of a job cites.
pub(super) fn cited_sources(job: &Value) -> BTreeSet<&str> {
    let result = job.get("result").unwrap_or(&Value::Null);
    items(result, "citations")
        .filter_map(|citation| text(citation, "source_id"))
        .collect()
}

/// Whether the stored text of a citation's source is the quote at the citation's offsets.
fn is_at_its_place(citation: &Value, texts: &BTreeMap<String, Vec<char>>) -> bool {
    let span = || {
        let place = |name: &str| usize::try_from(citation.get(name)?.as_u64()?).ok();
        let source = texts.get(text(citation, "source_id")?)?;
        let span = source.get(place("start")?..place("end")?)?;
        Some((span, text(citation, "quote")?))
    };
    span().is_some_and(|(span, quote)| !quote.is_empty() && span.iter().copied().eq(quote.chars()))
}

/// Returns the URLs of sources that the filters of the request exclude.
fn leaks(case: &ResearchCase, result: &Value) -> Vec<String> {
    let sources = items(result, "sources").filter_map(|source| {
        let url = text(source, "final_url").or_else(|| text(source, "url"))?;
        let date = text(source, "date").and_then(Date::parse);
        (!case.filters.permit(url, date)).then(|| url.to_owned())
    });
    sources.collect()
}

fn items<'v>(value: &'v Value, member: &str) -> impl Iterator<Item = &'v Value> {
    value.get(member).and_then(Value::as_array).into_iter().flatten()
}

fn text<'v>(value: &'v Value, member: &str) -> Option<&'v str> {
    value.get(member)?.as_str()
}

fn number(value: &Value, member: &str) -> u64 {
    value.get(member).and_then(Value::as_u64).unwrap_or_default()
}

#[cfg(test)]
mod tests;
