//! Scores of a model over all questions.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tollgate_types::Credits;

use super::cases::ResearchCase;
use super::client::ResearchTarget;
use super::score::Outcome;
use crate::evaluate::report::FailedLine;

/// The scores of a research model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResearchEvaluation {
    /// Id of the evaluated model.
    pub model: String,
    /// Requested effort; `None` for the gateway's default.
    pub effort: Option<String>,
    /// Failed lines with their messages.
    pub failed: Vec<FailedLine>,
    /// Scores of all reports.
    pub all: ReportScores,
    /// Scores by group; empty if no line has a group.
    pub by_group: BTreeMap<String, ReportScores>,
    /// Citations whose quote is not at its place in the stored text of the source.
    pub wrong_citations: Vec<WrongCitation>,
    /// Sources that the filters of their request exclude.
    pub filter_leaks: Vec<FilterLeak>,
    /// Expected answers that the reports do not state.
    pub missing_answers: Vec<MissingAnswer>,
    /// Number of searches of all reports.
    pub searches: u64,
    /// Number of pages of all reports.
    pub pages: u64,
    /// Number of reports in which a search or a call failed.
    pub degraded: usize,
    /// Time from the request to the report.
    pub time: ReportTimes,
    /// Cost of the reports.
    pub cost: Credits,
    /// Model that judged the support of statements, if any.
    pub judge: Option<String>,
    /// Cost of the judge's decisions.
    pub judge_cost: Credits,
}

/// Scores of several reports. A share is `None` if it has no denominator.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct ReportScores {
    /// Number of reports.
    pub reports: usize,
    /// Number of compared citations.
    pub citations: usize,
    /// Share of the compared citations whose quote is the stored text of their source.
    pub citation_check: Option<f64>,
    /// Number of citations that the gateway shows as not verified, and that were not compared.
    pub unverified_citations: usize,
    /// Mean share of verified citations that the gateway reports.
    pub citation_accuracy: Option<f64>,
    /// Share of statements that were verified as first written.
    pub first_accuracy: Option<f64>,
    /// Number of expected answers.
    pub answers: usize,
    /// Share of the expected answers that the reports state.
    pub recall: Option<f64>,
    /// Number of statements that reports on questions with expected answers show.
    pub statements: usize,
    /// Share of these statements that state an expected answer.
    pub precision: Option<f64>,
    /// Number of judged statements.
    pub judged: usize,
    /// Share of the judged statements that their quotes support.
    pub support: Option<f64>,
}

/// A citation whose quote is not at its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongCitation {
    /// Line number of the question, from 1.
    pub line: usize,
    /// Number of the citation in the report.
    pub citation: u64,
}

/// A source that the filters of its request exclude.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilterLeak {
    /// Line number of the question, from 1.
    pub line: usize,
    /// URL of the source.
    pub url: String,
}

/// An expected answer that the report does not state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingAnswer {
    /// Line number of the question, from 1.
    pub line: usize,
    /// Question, as it was sent.
    pub question: String,
    /// The expected answer.
    pub answer: String,
}

/// Durations of reports, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct ReportTimes {
    /// Median in seconds.
    pub p50_s: f64,
    /// 95th percentile in seconds.
    pub p95_s: f64,
    /// Maximum in seconds.
    pub max_s: f64,
}

/// Computes the scores of all reports.
pub(super) fn of(
    target: &ResearchTarget,
    cases: &[ResearchCase],
    mut outcomes: Vec<Outcome>,
    failed: Vec<(usize, String)>,
) -> ResearchEvaluation {
    outcomes.sort_by_key(|outcome| outcome.place);
    let reports: Vec<(&ResearchCase, &Outcome)> = outcomes
        .iter()
        .filter_map(|outcome| Some((cases.get(outcome.place)?, outcome)))
        .collect();
    let mut groups: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for (case, outcome) in &reports {
        groups
            .entry(case.group.as_deref().unwrap_or_default())
            .or_default()
            .push(outcome);
    }
    let has_groups = reports.iter().any(|(case, _)| case.group.is_some());
    let by_group = groups
        .iter()
        .filter(|_| has_groups)
        .map(|(name, outcomes)| ((*name).to_owned(), scores(outcomes)));
    let sum = |of: fn(&Outcome) -> u64| reports.iter().map(|(_, outcome)| of(outcome)).sum();
    let nanos = |of: fn(&Outcome) -> i64| {
        let sum = reports
            .iter()
            .map(|(_, outcome)| of(outcome))
            .fold(0, i64::saturating_add);
        Credits::from_nanos(sum)
    };
    ResearchEvaluation {
        model: target.model.clone(),
        effort: target.effort.clone(),
        failed: failed
            .into_iter()
            .map(|(line, message)| FailedLine { line, message })
            .collect(),
        all: scores(&reports.iter().map(|(_, outcome)| *outcome).collect::<Vec<_>>()),
        by_group: by_group.collect(),
        wrong_citations: reports.iter().flat_map(wrong_citations).collect(),
        filter_leaks: reports.iter().flat_map(filter_leaks).collect(),
        missing_answers: reports.iter().flat_map(missing_answers).collect(),
        searches: sum(|outcome| outcome.searches),
        pages: sum(|outcome| outcome.pages),
        degraded: reports.iter().filter(|(_, outcome)| outcome.is_degraded).count(),
        time: times(reports.iter().map(|(_, outcome)| outcome.took).collect()),
        cost: nanos(|outcome| outcome.cost.nanos()),
        judge: target.judge.clone(),
        judge_cost: nanos(|outcome| outcome.judge_cost),
    }
}

type Scored<'a> = (&'a ResearchCase, &'a Outcome);

fn wrong_citations<'a>((case, outcome): &'a Scored<'a>) -> impl Iterator<Item = WrongCitation> + 'a {
    outcome.wrong_citations.iter().map(|citation| WrongCitation {
        line: case.line,
        citation: *citation,
    })
}

fn filter_leaks<'a>((case, outcome): &'a Scored<'a>) -> impl Iterator<Item = FilterLeak> + 'a {
    outcome.leaks.iter().map(|url| FilterLeak {
        line: case.line,
        url: url.clone(),
    })
}

fn missing_answers<'a>((case, outcome): &'a Scored<'a>) -> impl Iterator<Item = MissingAnswer> + 'a {
    let missing = case
        .answers
        .iter()
        .zip(&outcome.found)
        .filter(|(_, is_found)| !**is_found);
    missing.map(|(answer, _)| MissingAnswer {
        line: case.line,
        question: case.question().to_owned(),
        answer: answer.clone(),
    })
}

fn scores(outcomes: &[&Outcome]) -> ReportScores {
    let count = |of: fn(&Outcome) -> usize| outcomes.iter().map(|outcome| of(outcome)).sum::<usize>();
    let citations = count(|outcome| outcome.citations);
    let answers = count(|outcome| outcome.found.len());
    // Without expected answers, no statement can state one.
    let statements = count(|outcome| match outcome.found.is_empty() {
        true => 0,
        false => outcome.statements,
    });
    let judged = count(|outcome| outcome.judged);
    let claims: u64 = outcomes.iter().map(|outcome| outcome.claims).sum();
    let first: f64 = outcomes.iter().map(|outcome| outcome.first_verified).sum();
    let reported: Vec<f64> = outcomes
        .iter()
        .filter_map(|outcome| outcome.citation_accuracy)
        .collect();
    ReportScores {
        reports: outcomes.len(),
        citations,
        citation_check: share(
            citations - count(|outcome| outcome.wrong_citations.len()),
            citations,
        ),
        unverified_citations: count(|outcome| outcome.unverified_citations),
        citation_accuracy: (!reported.is_empty())
            .then(|| reported.iter().sum::<f64>() / reported.len() as f64),
        first_accuracy: (claims > 0).then(|| first / claims as f64),
        answers,
        recall: share(
            count(|outcome| outcome.found.iter().filter(|is_found| **is_found).count()),
            answers,
        ),
        statements,
        precision: share(count(|outcome| outcome.answering), statements),
        judged,
        support: share(count(|outcome| outcome.supported), judged),
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn times(mut took: Vec<Duration>) -> ReportTimes {
    took.sort();
    let at = |percent: usize| {
        let place = (took.len() * percent).div_ceil(100).max(1) - 1;
        took.get(place).map_or(0.0, Duration::as_secs_f64)
    };
    ReportTimes {
        p50_s: at(50),
        p95_s: at(95),
        max_s: at(100),
    }
}

#[cfg(test)]
mod tests;
