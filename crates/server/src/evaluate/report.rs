//! What is said of the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use tollgate_estimate::diagram::reliability;
use tollgate_estimate::judge::{self, judge, judge_groups};
use tollgate_estimate::{AnswerKind, BadExample, Example, JudgeOptions, Report, Truth};
use tollgate_types::Credits;
use tollgate_types::decide::QuestionKind;

use super::Evaluated;
use super::answers::{Probable, Said};
use super::asking::Outcome;
use super::cases::{Case, Right};

/// How good the decisions of a model are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The model.
    pub model: String,
    /// How many lines were answered.
    pub lines: usize,
    /// Lines that were not, and why.
    pub failed: Vec<FailedLine>,
    /// How many questions were answered.
    pub decisions: usize,
    /// How many the model would not answer, or failed alone.
    pub unanswered: usize,
    /// How the numbers were obtained.
    pub sources: BTreeSet<String>,
    /// All questions whose truth is known and among their options; `None` when there are none.
    pub all: Option<Report>,
    /// The same by type: `noul`, `choice`, `score`, `tool`.
    pub by_type: BTreeMap<&'static str, Report>,
    /// The same by group; empty when no line has one.
    pub by_group: BTreeMap<String, Report>,
    /// How well `abstain` tells questions that cannot be answered from those that can: 0.5 is chance, 1 perfect.
    pub abstain_auroc: Option<f64>,
    /// How often the answer is another one when the options are reversed.
    pub order_flips: Option<f64>,
    /// How many questions were asked in both orders.
    pub asked_in_both_orders: usize,
    /// How long answers took.
    pub latency: Latency,
    /// What all of it has cost, with what was asked in the other order.
    pub cost: Credits,
    /// What a thousand decisions cost.
    pub cost_per_1000_decisions: Option<Credits>,
}

/// A line without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedLine {
    /// Which, from 1.
    pub line: usize,
    /// Why.
    pub message: String,
}

/// How long answers took, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// 95 of 100 took no longer.
    pub p95_ms: f64,
}

impl Evaluation {
    /// How right answers are beside how right they say to be, as an SVG file.
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

/// Judges what came of these cases.
pub(super) fn of(
    model: &str,
    cases: &[Case],
    mut outcomes: Vec<Outcome>,
    failed: Vec<(usize, String)>,
) -> Result<Evaluated, String> {
    outcomes.sort_by_key(|outcome| outcome.place);
    let mut found = Found::default();
    for outcome in &outcomes {
        if let Some(case) = cases.get(outcome.place) {
            found.add(case, outcome);
        }
    }
    let how = JudgeOptions::default();
    let wrong = |error: BadExample| format!("an answer cannot be judged: {error}");
    let all = judge(&found.examples, &how).map_err(wrong)?;
    let mut by_type = BTreeMap::new();
    for kind in [
        AnswerKind::Noul,
        AnswerKind::Choice,
        AnswerKind::Score,
        AnswerKind::Tool,
    ] {
        let of_kind = found.examples.iter().filter(|example| example.kind == kind);
        let of_kind: Vec<Example> = of_kind.cloned().collect();
        if let Some(report) = judge(&of_kind, &how).map_err(wrong)? {
            by_type.insert(name(kind), report);
        }
    }
    let has_groups = found.examples.iter().any(|example| example.group.is_some());
    let by_group = match has_groups {
        true => judge_groups(&found.examples, &how).map_err(wrong)?,
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

/// What is judged.
#[derive(Default)]
struct Found {
    examples: Vec<Example>,
    /// How probable it was said to be that a question cannot be answered, and whether it cannot.
    abstentions: Vec<(f64, bool)>,
    decisions: usize,
    unanswered: usize,
    sources: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, case: &Case, outcome: &Outcome) {
        for ((question, right), said) in case.questions.iter().zip(&case.truths).zip(&outcome.said) {
            let Said::Answered(probable) = said else {
                self.unanswered += 1;
                continue;
            };
            self.decisions += 1;
            self.sources.extend(probable.source.clone());
            let Some(right) = right else { continue };
            let is_unanswerable = *right == Right::Unanswerable;
            let abstain = probable.abstain.map(|said| (said, is_unanswerable));
            self.abstentions.extend(abstain);
            self.examples
                .extend(example(kind(&question.kind), probable, right, abstain, case));
        }
    }
}

/// A decision to be judged; nothing when none of its options would be right.
fn example(
    kind: AnswerKind,
    probable: &Probable,
    right: &Right,
    abstain: Option<(f64, bool)>,
    case: &Case,
) -> Option<Example> {
    let truth = match right {
        Right::Option(option) => Truth::Option(*option),
        Right::Soft(shares) => Truth::Soft(shares.clone()),
        Right::Unanswerable => return None,
    };
    Some(Example {
        kind,
        probabilities: probable.probabilities.clone(),
        truth,
        abstain,
        confidence: probable.confidence,
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
