//! Test cases: one JSON line for each state, with questions and their correct answers.

use std::fmt;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tollgate_formats::decisions::{self, Dialect};
use tollgate_types::Error;
use tollgate_types::decide::{Question, QuestionKind};

/// Member of a line with the correct answers, which is not sent.
const TRUTH: &str = "truth";
/// Member of a line with the name of its group, which is not sent.
const GROUP: &str = "group";
/// The name of the answer "no function" in truths.
const NO_FUNCTION: &str = "none";
/// Maximum difference between the sum of shares and 1.
const SUM_TOLERANCE: f64 = 0.02;

/// A test case: a state, questions about it, and their correct answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Line number in the file, from 1.
    pub line: usize,
    /// The group of the case, for which separate metrics are computed.
    pub group: Option<String>,
    /// The request body.
    pub(super) body: Value,
    pub(super) questions: Vec<Question>,
    /// The correct answer to each question; `None` if the line contains none.
    pub(super) truths: Vec<Option<ExpectedAnswer>>,
}

/// The correct answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExpectedAnswer {
    /// The option with this index is correct.
    Option(usize),
    /// The share of each option, in the order of the options. The shares sum to 1.
    Soft(Vec<f64>),
    /// The question cannot be answered.
    Unanswerable,
}

/// The target of the evaluation requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationTarget {
    /// Id of the evaluated model.
    pub model: String,
    /// Calibration profile, sent as `options.calibration` in each request.
    pub calibration: Option<String>,
}

/// A line that cannot be sent as a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number in the file, from 1.
    pub line: usize,
    /// Error message with a fix, without a final period.
    pub what: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BadLine {}

/// Parses the lines of a file. Skips empty lines.
///
/// # Errors
///
/// Returns the first line that is invalid.
pub fn read(text: &str, target: &EvaluationTarget) -> Result<Vec<Case>, BadLine> {
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let filled = lines.filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(place, line)| {
            let number = place + 1;
            case(number, line, target).map_err(|what| BadLine { line: number, what })
        })
        .collect()
}

fn case(line: usize, text: &str, target: &EvaluationTarget) -> Result<Case, String> {
    let mut body: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?;
    let group = match body.remove(GROUP) {
        None => None,
        Some(Value::String(group)) => Some(group),
        Some(_) => {
            return Err("'group' must be a string: the group for which metrics are computed".to_owned());
        }
    };
    let truth = match body.remove(TRUTH) {
        Some(Value::Object(truth)) if !truth.is_empty() => truth,
        _ => {
            return Err(
                "'truth' must be an object with at least one correct answer by question id".to_owned(),
            );
        }
    };
    body.insert("model".to_owned(), json!(target.model));
    if let Some(calibration) = &target.calibration {
        let options = body.entry("options").or_insert_with(|| json!({}));
        if let Value::Object(options) = options {
            options.insert("calibration".to_owned(), json!(calibration));
        }
    }
    let body = Value::Object(body);
    let decision_request = decisions::read(body.to_string().as_bytes()).map_err(|error| {
        // The caller appends text to this message, so the final period is removed.
        let refusal = Error::from(error).message;
        refusal.trim_end_matches('.').to_owned()
    })?;
    if decision_request.dialect != Dialect::Native {
        return Err("'input' is not supported here; write 'state' instead".to_owned());
    }
    Ok(Case {
        line,
        group,
        truths: truths(&truth, &decision_request.questions)?,
        questions: decision_request.questions,
        body,
    })
}

fn truths(truth: &Map<String, Value>, questions: &[Question]) -> Result<Vec<Option<ExpectedAnswer>>, String> {
    let is_asked = |id: &String| questions.iter().any(|question| question.id == *id);
    if let Some(unknown) = truth.keys().find(|id| !is_asked(id)) {
        return Err(format!("truth.{unknown}: no question has this id"));
    }
    let of = |question: &Question| {
        let expected_answer = truth
            .get(&question.id)
            .map(|value| expected_answer(question, value));
        expected_answer
            .transpose()
            .map_err(|what| format!("truth.{}: {what}", question.id))
    };
    questions.iter().map(of).collect()
}

fn expected_answer(question: &Question, value: &Value) -> Result<ExpectedAnswer, String> {
    let names = names(&question.kind);
    match (value, &question.kind) {
        (Value::Null, _) if question.abstain => Ok(ExpectedAnswer::Unanswerable),
        (Value::Null, _) => Err(
            "null means that the question cannot be answered; set \"abstain\": true in the question, or remove its truth"
                .to_owned(),
        ),
        (Value::Number(yes), QuestionKind::Noul { .. }) => {
            let yes = yes.as_f64().filter(|yes| (0.0..=1.0).contains(yes));
            let yes = yes.ok_or("the share of yes must be from 0 to 1")?;
            Ok(ExpectedAnswer::Soft(vec![yes, 1.0 - yes]))
        }
        (Value::Number(level), QuestionKind::Score { levels }) => {
            let place = level.as_u64().and_then(|level| usize::try_from(level).ok());
            let place = place.filter(|place| *place < levels.len());
            let max_level = levels.len().saturating_sub(1);
            Ok(ExpectedAnswer::Option(place.ok_or_else(|| {
                format!("the level {level} must be a whole number from 0 to {max_level}")
            })?))
        }
        (Value::Object(shares), _) => soft(shares, &names),
        (Value::Bool(_) | Value::String(_), _) => {
            let value_text = plain(value);
            let place = names.iter().position(|name| *name == value_text);
            Ok(ExpectedAnswer::Option(place.ok_or_else(|| none_of(&value_text, &names))?))
        }
        _ => Err(format!("must be the correct answer, one of {}", listed(&names))),
    }
}

fn soft(shares: &Map<String, Value>, names: &[String]) -> Result<ExpectedAnswer, String> {
    let mut expected_answer = vec![0.0; names.len()];
    for (name, share) in shares {
        let numbered = name.parse::<usize>().ok().filter(|place| *place < names.len());
        let place = names.iter().position(|known| known == name).or(numbered);
        let place = place.ok_or_else(|| none_of(name, names))?;
        expected_answer[place] = share
            .as_f64()
            .filter(|share| (0.0..=1.0).contains(share))
            .ok_or_else(|| format!("the share of '{name}' must be a number from 0 to 1"))?;
    }
    let sum: f64 = expected_answer.iter().sum();
    match (sum - 1.0).abs() <= SUM_TOLERANCE {
        true => Ok(ExpectedAnswer::Soft(expected_answer)),
        false => Err(format!("the shares sum to {sum}; they must sum to 1")),
    }
}

/// Returns the names of the possible answers to a question, as truths use them.
fn names(kind: &QuestionKind) -> Vec<String> {
    match kind {
        QuestionKind::Noul { .. } => vec!["true".to_owned(), "false".to_owned()],
        QuestionKind::Choice { options } => options.iter().map(|option| option.name()).collect(),
        QuestionKind::Score { levels } => levels.iter().map(|level| level.label.clone()).collect(),
        QuestionKind::Tool { tools, required } => {
            let no_function = (!required).then(|| NO_FUNCTION.to_owned());
            tools
                .iter()
                .map(|tool| tool.name.clone())
                .chain(no_function)
                .collect()
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn none_of(value_text: &str, names: &[String]) -> String {
    format!(
        "'{value_text}' is not a possible answer; use one of {}",
        listed(names)
    )
}

/// Joins the first eight names with commas, because a question may have 255 options.
fn listed(names: &[String]) -> String {
    const MAX_LISTED: usize = 8;
    let first = names
        .iter()
        .take(MAX_LISTED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len() > MAX_LISTED {
        true => format!("{first}, …"),
        false => first,
    }
}

impl Case {
    /// Returns the request body as JSON text.
    pub(super) fn request(&self) -> Bytes {
        Bytes::from(self.body.to_string())
    }

    /// Returns the request with reversed options and functions, without questions whose options are
    /// ordered. `None` if no question remains.
    pub(super) fn reversed(&self) -> Option<Bytes> {
        let mut body = self.body.clone();
        let questions = body.get_mut("questions")?;
        let has_questions = match questions {
            Value::Array(list) => {
                list.retain_mut(reverse);
                !list.is_empty()
            }
            Value::Object(map) => {
                map.retain(|_, question| reverse(question));
                !map.is_empty()
            }
            _ => false,
        };
        has_questions.then(|| Bytes::from(body.to_string()))
    }
}

/// Returns whether the options of a question can be reversed, because their order has no meaning.
pub(super) fn is_reversible(question: &Question) -> bool {
    matches!(
        question.kind,
        QuestionKind::Choice { .. } | QuestionKind::Tool { .. }
    )
}

/// Reverses the options of a question. Returns false if the question type has ordered options.
fn reverse(question: &mut Value) -> bool {
    let members: &[&str] = match question.get("type").and_then(Value::as_str) {
        Some("choice") => &["criteria", "choices", "options"],
        Some("tool") => &["tools"],
        _ => return false,
    };
    for member in members {
        match question.get_mut(member) {
            Some(Value::Array(options)) => options.reverse(),
            Some(Value::Object(options)) => {
                *options = std::mem::take(options).into_iter().rev().collect();
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests;
