//! Questions whose answers are known, a line for each state.

use std::fmt;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tollgate_formats::decisions::{self, Dialect};
use tollgate_types::Error;
use tollgate_types::decide::{Question, QuestionKind};

/// What a line has beside a request.
const TRUTH: &str = "truth";
const GROUP: &str = "group";
/// The answer that no function fits.
const NO_FUNCTION: &str = "none";
/// How far shares may be from a sum of one.
const ROUNDED: f64 = 0.02;

/// A state, questions about it, and what would be right.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its line, from 1.
    pub line: usize,
    /// What it is judged together with.
    pub group: Option<String>,
    /// The request.
    pub(super) body: Value,
    /// The questions.
    pub(super) questions: Vec<Question>,
    /// What would be right, for each question; `None` where the line does not say.
    pub(super) truths: Vec<Option<Right>>,
}

/// What would be right.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Right {
    /// This option.
    Option(usize),
    /// Each option so much.
    Soft(Vec<f64>),
    /// That the question cannot be answered.
    Unanswerable,
}

/// How questions are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The model.
    pub model: String,
    /// By which profile probabilities are corrected, as `options.calibration` of a request says it.
    pub calibration: Option<String>,
}

/// A line that cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it and what to do.
    pub what: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BadLine {}

/// Reads lines; empty ones are passed over.
pub fn read(text: &str, manner: &Manner) -> Result<Vec<Case>, BadLine> {
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let filled = lines.filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(place, line)| {
            let number = place + 1;
            case(number, line, manner).map_err(|what| BadLine { line: number, what })
        })
        .collect()
}

fn case(line: usize, text: &str, manner: &Manner) -> Result<Case, String> {
    let mut body: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("it is not a JSON object: {error}"))?;
    let group = match body.remove(GROUP) {
        None => None,
        Some(Value::String(group)) => Some(group),
        Some(_) => {
            return Err("'group' is a text that names what the line is judged together with".to_owned());
        }
    };
    let truth = match body.remove(TRUTH) {
        Some(Value::Object(truth)) if !truth.is_empty() => truth,
        _ => {
            return Err(
                "'truth' is missing: an object with the right answer to each question, by its id".to_owned(),
            );
        }
    };
    body.insert("model".to_owned(), json!(manner.model));
    if let Some(calibration) = &manner.calibration {
        let options = body.entry("options").or_insert_with(|| json!({}));
        if let Value::Object(options) = options {
            options.insert("calibration".to_owned(), json!(calibration));
        }
    }
    let body = Value::Object(body);
    let asked = decisions::read(body.to_string().as_bytes()).map_err(|error| {
        // What is said of a line goes on.
        let refusal = Error::from(error).message;
        refusal.trim_end_matches('.').to_owned()
    })?;
    if asked.dialect != Dialect::Native {
        return Err("write 'state' instead of 'input'".to_owned());
    }
    Ok(Case {
        line,
        group,
        truths: truths(&truth, &asked.questions)?,
        questions: asked.questions,
        body,
    })
}

fn truths(truth: &Map<String, Value>, questions: &[Question]) -> Result<Vec<Option<Right>>, String> {
    let is_asked = |id: &String| questions.iter().any(|question| question.id == *id);
    if let Some(unknown) = truth.keys().find(|id| !is_asked(id)) {
        return Err(format!("truth.{unknown}: there is no question of this id"));
    }
    let of = |question: &Question| {
        let right = truth.get(&question.id).map(|value| right(question, value));
        right
            .transpose()
            .map_err(|what| format!("truth.{}: {what}", question.id))
    };
    questions.iter().map(of).collect()
}

fn right(question: &Question, value: &Value) -> Result<Right, String> {
    let names = names(&question.kind);
    match (value, &question.kind) {
        (Value::Null, _) if question.abstain => Ok(Right::Unanswerable),
        (Value::Null, _) => Err(
            "null says that the question cannot be answered; ask it with \"abstain\": true, or leave its truth out"
                .to_owned(),
        ),
        (Value::Number(yes), QuestionKind::Noul { .. }) => {
            let yes = yes.as_f64().filter(|yes| (0.0..=1.0).contains(yes));
            let yes = yes.ok_or("a share of yes is from 0 to 1")?;
            Ok(Right::Soft(vec![yes, 1.0 - yes]))
        }
        (Value::Number(level), QuestionKind::Score { levels }) => {
            let place = level.as_u64().and_then(|level| usize::try_from(level).ok());
            let place = place.filter(|place| *place < levels.len());
            let most = levels.len().saturating_sub(1);
            Ok(Right::Option(place.ok_or_else(|| {
                format!("the level {level} is not from 0 to {most}")
            })?))
        }
        (Value::Object(shares), _) => soft(shares, &names),
        (Value::Bool(_) | Value::String(_), _) => {
            let said = plain(value);
            let place = names.iter().position(|name| *name == said);
            Ok(Right::Option(place.ok_or_else(|| none_of(&said, &names))?))
        }
        _ => Err(format!("it must be the right answer: {}", listed(&names))),
    }
}

fn soft(shares: &Map<String, Value>, names: &[String]) -> Result<Right, String> {
    let mut right = vec![0.0; names.len()];
    for (name, share) in shares {
        let numbered = name.parse::<usize>().ok().filter(|place| *place < names.len());
        let place = names.iter().position(|known| known == name).or(numbered);
        let place = place.ok_or_else(|| none_of(name, names))?;
        right[place] = share
            .as_f64()
            .filter(|share| (0.0..=1.0).contains(share))
            .ok_or_else(|| format!("the share of '{name}' is a number from 0 to 1"))?;
    }
    let sum: f64 = right.iter().sum();
    match (sum - 1.0).abs() <= ROUNDED {
        true => Ok(Right::Soft(right)),
        false => Err(format!("its shares sum to {sum}; they must sum to 1")),
    }
}

/// What can be answered, as truths name it.
fn names(kind: &QuestionKind) -> Vec<String> {
    match kind {
        QuestionKind::Noul { .. } => vec!["true".to_owned(), "false".to_owned()],
        QuestionKind::Choice { options } => options.iter().map(|option| option.name()).collect(),
        QuestionKind::Score { levels } => levels.iter().map(|level| level.label.clone()).collect(),
        QuestionKind::Tool { tools, required } => {
            let nobody = (!required).then(|| NO_FUNCTION.to_owned());
            tools.iter().map(|tool| tool.name.clone()).chain(nobody).collect()
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn none_of(said: &str, names: &[String]) -> String {
    format!("'{said}' cannot be answered; it is one of {}", listed(names))
}

/// The first names; nobody reads all of 255.
fn listed(names: &[String]) -> String {
    const MOST: usize = 8;
    let first = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match names.len() > MOST {
        true => format!("{first}, …"),
        false => first,
    }
}

impl Case {
    /// The request.
    pub(super) fn request(&self) -> Bytes {
        Bytes::from(self.body.to_string())
    }

    /// The same request with the options of its choices and functions from last to first, and without its other questions;
    /// nothing when it has neither.
    pub(super) fn reversed(&self) -> Option<Bytes> {
        let mut body = self.body.clone();
        let questions = body.get_mut("questions")?;
        let is_left = match questions {
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
        is_left.then(|| Bytes::from(body.to_string()))
    }
}

/// Whether the question has options without an order.
pub(super) fn is_reversible(question: &Question) -> bool {
    matches!(
        question.kind,
        QuestionKind::Choice { .. } | QuestionKind::Tool { .. }
    )
}

/// Reverses the options of a question; answers whether it has any that can be.
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
