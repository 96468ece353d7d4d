//! Answers, in the dialect of the question. Numbers are the same in all of them; what the dialect has no word for is
//! added to it, and official clients pass it through.

mod google;
mod method;
mod native;
mod openai;

use serde_json::{Map, Value, json};
use tollgate_types::Credits;
use tollgate_types::Error;
use tollgate_types::decide::{
    ArgumentDecision, Decision, FunctionTool, Question, confidence_of_choice, likeliest,
};

use super::keys;
use super::{Asked, Container, Dialect};

/// The answer that no function fits.
pub(super) const NO_TOOL: &str = "none";

/// What an answer has beside the decisions.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFrame<'a> {
    /// Its id, such as `dec_…`.
    pub id: &'a str,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// The model as the caller named it.
    pub model: &'a str,
    /// What is billed.
    pub usage: InputTokens,
    /// What that costs.
    pub cost: Credits,
}

/// Tokens that went in. None come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InputTokens {
    /// Of the state's text, once.
    pub state: u64,
    /// Of the texts of all questions.
    pub questions: u64,
    /// Of the media.
    pub media: u64,
}

impl InputTokens {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.state
            .saturating_add(self.questions)
            .saturating_add(self.media)
    }
}

/// The answer as the caller gets it. There is one decision for each question, in their order, whose probabilities are
/// finite and as many as the question has options.
pub fn write(asked: &Asked, decisions: &[Decision], frame: &ResponseFrame<'_>) -> Vec<u8> {
    let answer = match asked.dialect {
        Dialect::Native => native::answer,
        Dialect::OpenAi => openai::answer,
        Dialect::Google => google::answer,
    };
    let named = asked.questions.iter().enumerate().zip(decisions);
    let answers: Vec<(Name<'_>, Map<String, Value>)> = named
        .map(|((place, question), decision)| {
            let mut members = answer(question, decision);
            if let Some(abstain) = decision.abstain {
                members.insert("abstain".to_owned(), json!(abstain));
            }
            if let Some(method) = &decision.method {
                members.insert("method".to_owned(), method::of_answer(method));
            }
            let is_named = !asked.unnamed.contains(&place);
            (
                Name {
                    id: &question.id,
                    is_named,
                },
                members,
            )
        })
        .collect();
    let usage = match asked.dialect {
        Dialect::Native => native::usage(frame),
        Dialect::OpenAi => openai::usage(frame),
        Dialect::Google => google::usage(frame),
    };
    let mut body = json!({
        "id": frame.id,
        "object": "decision",
        "created": frame.created,
        "model": frame.model,
        "answers": contained(asked, answers),
        "usage": usage,
    });
    if let Some(method) = method::of_all(decisions) {
        body["method"] = method;
    }
    body.to_string().into_bytes()
}

struct Name<'q> {
    id: &'q str,
    /// Whether the caller called it so.
    is_named: bool,
}

fn contained(asked: &Asked, answers: Vec<(Name<'_>, Map<String, Value>)>) -> Value {
    if asked.container == Container::Map {
        let entry =
            |(name, answer): (Name<'_>, Map<String, Value>)| (name.id.to_owned(), Value::Object(answer));
        return Value::Object(answers.into_iter().map(entry).collect());
    }
    let item = |(name, answer): (Name<'_>, Map<String, Value>)| {
        let (key, name) = match asked.dialect {
            // OpenAI's clients want the name even where there is none.
            Dialect::OpenAi => ("name", name.is_named.then_some(name.id)),
            Dialect::Native | Dialect::Google => ("id", Some(name.id)),
        };
        let mut item = Map::from_iter([(key.to_owned(), json!(name))]);
        item.extend(answer);
        Value::Object(item)
    };
    answers.into_iter().map(item).collect()
}

/// The members of an object.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A refusal, which OpenAI's dialect has and the others need.
fn refusal() -> Map<String, Value> {
    members(json!({"type": "refusal"}))
}

/// What is wrong with one question.
fn error(error: &Error, question: &Question) -> Value {
    let param = error.param.as_deref().unwrap_or(&question.param);
    json!({"code": error.code.as_str(), "message": error.message, "param": param})
}

/// What is computed of probabilities, without the last digits, which are not of them: `0.82` instead of
/// `0.8200000000000001`.
fn rounded(value: f64) -> f64 {
    (value * 1e12).round() / 1e12
}

/// Probabilities by their names.
fn by_name(names: impl IntoIterator<Item = String>, probabilities: &[f64]) -> Value {
    let named = names.into_iter().zip(probabilities);
    Value::Object(
        named
            .map(|(name, probability)| (name, json!(probability)))
            .collect(),
    )
}

/// Names of what may be answered to a question of functions: with as many probabilities as functions, one of them must
/// be called.
fn tool_names(tools: &[FunctionTool], probabilities: &[f64]) -> Vec<String> {
    let mut names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    if probabilities.len() > tools.len() {
        names.push(NO_TOOL.to_owned());
    }
    names
}

/// For each function that was looked into, its arguments.
fn arguments(tools: &[FunctionTool], arguments: &[Vec<ArgumentDecision>]) -> Value {
    let looked_into = tools
        .iter()
        .zip(arguments)
        .filter(|(_, decided)| !decided.is_empty());
    let of_tool = |(tool, decided): (&FunctionTool, &Vec<ArgumentDecision>)| {
        let decided = decided
            .iter()
            .map(|decision| (decision.argument.name.clone(), argument(decision)));
        (tool.name.clone(), Value::Object(decided.collect()))
    };
    Value::Object(looked_into.map(of_tool).collect())
}

fn argument(decision: &ArgumentDecision) -> Value {
    let values: Vec<&Value> = decision.argument.values.iter().collect();
    json!({
        "value": values.get(likeliest(&decision.probabilities)),
        "probabilities": by_name(keys::of_values(&values), &decision.probabilities),
        "confidence": rounded(confidence_of_choice(&decision.probabilities)),
    })
}
