//! Metrics of a model's answers to the test cases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use tollgate_probability::diagram::reliability;
use tollgate_probability::judge::{self, judge, judge_groups};
use tollgate_probability::{AnswerKind, Example, InvalidExample, JudgeOptions, Report, Truth};
use tollgate_types::Credits;
use tollgate_types::decide::QuestionKind;

use super::Evaluated;
use super::answers::{AnswerProbabilities, ParsedAnswer};
use super::cases::{Case, ExpectedAnswer};
use super::client::Outcome;

/// The metrics of a model's decisions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Id of the evaluated model.
    pub model: String,
    /// Number of lines whose request was answered.
    pub lines: usize,
    /// Failed lines with their messages.
    pub failed: Vec<FailedLine>,
    /// Number of answered questions.
    pub decisions: usize,
    /// Number of questions that the model refused or that failed.
    pub unanswered: usize,
    /// The methods that produced the probabilities, such as `logits`.
    pub sources: BTreeSet<String>,
    /// Metrics of all questions whose correct answer is known and is one of their options; `None`
    /// if there are none.
    pub all: Option<Report>,
    /// The same metrics by question type: `noul`, `choice`, `score`, `tool`.
    pub by_type: BTreeMap<&'static str, Report>,
    /// The same metrics by group; empty if no line has a group.
    pub by_group: BTreeMap<String, Report>,
    /// Separation of unanswerable from answerable questions by `abstain`, as AUROC: 0.5 is chance,
    /// 1 is perfect. `None` if it cannot be computed.
    pub abstain_auroc: Option<f64>,
    /// Share of the questions answered in both orders whose answer changes when the options are
    /// reversed, 0 to 1.
    pub order_flips: Option<f64>,
    /// Number of questions that were answered in both orders.
    pub asked_in_both_orders: usize,
    /// Latency of the requests.
    pub latency: Latency,
    /// Total cost, including the requests with reversed options.
    pub cost: Credits,
    /// Cost of 1,000 decisions, without the requests with reversed options. `None` without
    /// decisions.
    pub cost_per_1000_decisions: Option<Credits>,
}

/// A line without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedLine {
    /// Line number in the file, from 1.
    pub line: usize,
    /// Error code and message of the response, or the local error.
    pub message: String,
}

/// Latency of the requests, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct Latency {
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile in milliseconds.
    pub p95_ms: f64,
}

impl Evaluation {
    /// Returns the reliability diagram (calibration plot) as SVG.
    pub fn diagram(&self) -> String {
        let title = format!("{}: {} decisions", self.model, self.decisions);
        let bins = self.all.as_ref().map(|all| all.bins.as_slice());
        reliability(
            &title,
            bins.unwrap_or_default(),
            self.all.as_ref().map(|all| all.ece),
        )
    }
}

/// Computes the metrics of the outcomes.
///
/// # Errors
///
/// Fails if an answer has invalid probabilities.
pub(super) fn of(
    model: &str,
    cases: &[Case],
    mut outcomes: Vec<Outcome>,
    failed: Vec<(usize, String)>,
) -> Result<Evaluated, String> {
    outcomes.sort_by_key(|outcome| outcome.place);
    let mut found = Collected::default();
    for outcome in &outcomes {
        if let Some(case) = cases.get(outcome.place) {
            found.add(case, outcome);
        }
    }
    let options = JudgeOptions::default();
    let judge_error = |error: InvalidExample| format!("cannot score an answer: {error}");
    let all = judge(&found.examples, &options).map_err(judge_error)?;
    let mut by_type = BTreeMap::new();
    for kind in [
        AnswerKind::Noul,
        AnswerKind::Choice,
        AnswerKind::Score,
        AnswerKind::Tool,
    ] {
        let of_kind = found.examples.iter().filter(|example| example.kind == kind);
        let of_kind: Vec<Example> = of_kind.cloned().collect();
        if let Some(report) = judge(&of_kind, &options).map_err(judge_error)? {
            by_type.insert(name(kind), report);
        }
    }
    let has_groups = found.examples.iter().any(|example| example.group.is_some());
    let by_group = match has_groups {
        true => judge_groups(&found.examples, &options).map_err(judge_error)?,
        false => BTreeMap::new(),
    };
    let orders: Vec<_> = outcomes
        .iter()
        .flat_map(|outcome| outcome.orders.clone())
        .collect();
    let sum =
        |of: fn(&Outcome) -> Credits| -> i64 { outcomes.iter().map(|outcome| of(outcome).nanos()).sum() };
    let cost = sum(|outcome| outcome.cost);
    let evaluation = Evaluation {
        model: model.to_owned(),
        lines: outcomes.len(),
        failed: failed
            .into_iter()
            .map(|(line, message)| FailedLine { line, message })
            .collect(),
        decisions: found.decisions,
        unanswered: found.unanswered,
        sources: found.sources,
        all,
        by_type,
        by_group,
        abstain_auroc: judge::auroc(&found.abstentions),
        order_flips: judge::flip_rate(&orders),
        asked_in_both_orders: orders.len(),
        latency: latency(outcomes.iter().map(|outcome| outcome.took).collect()),
        cost: Credits::from_nanos(cost + sum(|outcome| outcome.cost_of_orders)),
        cost_per_1000_decisions: i64::try_from(found.decisions)
            .ok()
            .and_then(|decisions| cost.saturating_mul(1_000).checked_div(decisions))
            .map(Credits::from_nanos),
    };
    Ok(Evaluated {
        evaluation,
        examples: found.examples,
    })
}

/// The data from which the metrics are computed.
#[derive(Default)]
struct Collected {
    examples: Vec<Example>,
    /// For each question with a known answer: the reported probability that it cannot be answered,
    /// and whether it is unanswerable.
    abstentions: Vec<(f64, bool)>,
    decisions: usize,
    unanswered: usize,
    sources: BTreeSet<String>,
}

impl Collected {
    fn add(&mut self, case: &Case, outcome: &Outcome) {
        for ((question, expected_answer), parsed) in
            case.questions.iter().zip(&case.truths).zip(&outcome.parsed)
        {
            let ParsedAnswer::Answered(answered) = parsed else {
                self.unanswered += 1;
                continue;
            };
            self.decisions += 1;
            self.sources.extend(answered.source.clone());
            let Some(expected_answer) = expected_answer else {
                continue;
            };
            let is_unanswerable = *expected_answer == ExpectedAnswer::Unanswerable;
            let abstain = answered.abstain.map(|share| (share, is_unanswerable));
            self.abstentions.extend(abstain);
            self.examples.extend(example(
                kind(&question.kind),
                answered,
                expected_answer,
                abstain,
                case,
            ));
        }
    }
}

/// Returns the decision with its correct answer; `None` if the question cannot be answered.
fn example(
    kind: AnswerKind,
    answered: &AnswerProbabilities,
    expected_answer: &ExpectedAnswer,
    abstain: Option<(f64, bool)>,
    case: &Case,
) -> Option<Example> {
    let truth = match expected_answer {
        ExpectedAnswer::Option(option) => Truth::Option(*option),
        ExpectedAnswer::Soft(shares) => Truth::Soft(shares.clone()),
        ExpectedAnswer::Unanswerable => return None,
    };
    Some(Example {
        kind,
        probabilities: answered.probabilities.clone(),
        truth,
        abstain,
        confidence: answered.confidence,
        group: case.group.clone(),
    })
}

fn kind(kind: &QuestionKind) -> AnswerKind {
    match kind {
        QuestionKind::Noul { .. } => AnswerKind::Noul,
        QuestionKind::Choice { .. } => AnswerKind::Choice,
        QuestionKind::Score { .. } => AnswerKind::Score,
        QuestionKind::Tool { .. } => AnswerKind::Tool,
    }
}

fn name(kind: AnswerKind) -> &'static str {
    match kind {
        AnswerKind::Noul => "noul",
        AnswerKind::Choice => "choice",
        AnswerKind::Score => "score",
        AnswerKind::Tool => "tool",
    }
}

fn latency(mut took: Vec<Duration>) -> Latency {
    took.sort();
    let at = |share: usize| {
        let place = (took.len() * share).div_ceil(100).max(1) - 1;
        took.get(place).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    Latency {
        p50_ms: at(50),
        p95_ms: at(95),
    }
}

#[cfg(test)]
mod tests;
