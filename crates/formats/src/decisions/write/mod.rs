//! Encoding of answers in the dialect of the request. All dialects have the same numbers. Fields
//! that a dialect lacks are added to it: official clients pass them through.

mod google;
mod method;
mod native;
mod openai;

use serde_json::{Map, Value, json};
use tollgate_types::Credits;
use tollgate_types::Error;
use tollgate_types::decide::{
    ArgumentDecision, Decision, FunctionTool, Question, argmax, confidence_of_choice,
};

use super::keys;
use super::{Container, DecisionRequest, Dialect};

/// The answer when no function fits.
pub(super) const NO_TOOL: &str = "none";

/// The fields of an answer other than the decisions.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFrame<'a> {
    /// The decision id, such as `dec_…`.
    pub id: &'a str,
    /// Creation time, in seconds since 1970.
    pub created: i64,
    /// The model as the caller named it.
    pub model: &'a str,
    /// The billed tokens.
    pub usage: InputTokens,
    /// The price for the caller.
    pub cost: Credits,
}

/// Input tokens by origin. Decisions have no output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InputTokens {
    /// Tokens of the state's text, counted once.
    pub state: u64,
    /// Tokens of the texts of all questions.
    pub questions: u64,
    /// Tokens of the state's media.
    pub media: u64,
}

impl InputTokens {
    /// The sum, saturating.
    pub const fn total(self) -> u64 {
        self.state
            .saturating_add(self.questions)
            .saturating_add(self.media)
    }
}

/// Writes the answer for the caller. Requires one decision for each question, in their order, each
/// with one finite probability per option.
pub fn write(request: &DecisionRequest, decisions: &[Decision], frame: &ResponseFrame<'_>) -> Vec<u8> {
    let answer = match request.dialect {
        Dialect::Native => native::answer,
        Dialect::OpenAi => openai::answer,
        Dialect::Google => google::answer,
    };
    let named = request.questions.iter().enumerate().zip(decisions);
    let answers: Vec<(Name<'_>, Map<String, Value>)> = named
        .map(|((place, question), decision)| {
            let mut members = answer(question, decision);
            if let Some(abstain) = decision.abstain {
                members.insert("abstain".to_owned(), json!(abstain));
            }
            if let Some(method) = &decision.method {
                members.insert("method".to_owned(), method::for_answer(method));
            }
            let is_named = !request.unnamed.contains(&place);
            (
                Name {
                    id: &question.id,
                    is_named,
                },
                members,
            )
        })
        .collect();
    let usage = match request.dialect {
        Dialect::Native => native::usage(frame),
        Dialect::OpenAi => openai::usage(frame),
        Dialect::Google => google::usage(frame),
    };
    let mut body = json!({
        "id": frame.id,
        "object": "decision",
        "created": frame.created,
        "model": frame.model,
        "answers": in_container(request, answers),
        "usage": usage,
    });
    if let Some(method) = method::for_all(decisions) {
        body["method"] = method;
    }
    body.to_string().into_bytes()
}

struct Name<'q> {
    id: &'q str,
    /// Whether the name is the caller's; otherwise it is generated.
    is_named: bool,
}

fn in_container(request: &DecisionRequest, answers: Vec<(Name<'_>, Map<String, Value>)>) -> Value {
    if request.container == Container::Map {
        let entry =
            |(name, answer): (Name<'_>, Map<String, Value>)| (name.id.to_owned(), Value::Object(answer));
        return Value::Object(answers.into_iter().map(entry).collect());
    }
    let item = |(name, answer): (Name<'_>, Map<String, Value>)| {
        let (key, name) = match request.dialect {
            // OpenAI's clients require the member even without a name.
            Dialect::OpenAi => ("name", name.is_named.then_some(name.id)),
            Dialect::Native | Dialect::Google => ("id", Some(name.id)),
        };
        let mut item = Map::from_iter([(key.to_owned(), json!(name))]);
        item.extend(answer);
        Value::Object(item)
    };
    answers.into_iter().map(item).collect()
}

/// The members of a JSON object.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A refusal, native in OpenAI's dialect and added to the others.
fn refusal() -> Map<String, Value> {
    members(json!({"type": "refusal"}))
}

/// The error of one question.
fn error(error: &Error, question: &Question) -> Value {
    let param = error.param.as_deref().unwrap_or(&question.param);
    json!({"code": error.code.as_str(), "message": error.message, "param": param})
}

/// Rounds computed values to 12 digits, for `0.82` instead of `0.8200000000000001`.
fn rounded(value: f64) -> f64 {
    (value * 1e12).round() / 1e12
}

/// A map from names to probabilities.
fn by_name(names: impl IntoIterator<Item = String>, probabilities: &[f64]) -> Value {
    let named = names.into_iter().zip(probabilities);
    Value::Object(
        named
            .map(|(name, probability)| (name, json!(probability)))
            .collect(),
    )
}

/// Names of the possible answers to a question with functions. With as many probabilities as
/// functions, a call is required; one more is for `NO_TOOL`.
fn tool_names(tools: &[FunctionTool], probabilities: &[f64]) -> Vec<String> {
    let mut names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    if probabilities.len() > tools.len() {
        names.push(NO_TOOL.to_owned());
    }
    names
}

/// The argument decisions of each function that has any.
fn arguments(tools: &[FunctionTool], arguments: &[Vec<ArgumentDecision>]) -> Value {
    let evaluated = tools
        .iter()
        .zip(arguments)
        .filter(|(_, decided)| !decided.is_empty());
    let of_tool = |(tool, decided): (&FunctionTool, &Vec<ArgumentDecision>)| {
        let decided = decided
            .iter()
            .map(|decision| (decision.argument.name.clone(), argument(decision)));
        (tool.name.clone(), Value::Object(decided.collect()))
    };
    Value::Object(evaluated.map(of_tool).collect())
}

fn argument(decision: &ArgumentDecision) -> Value {
    let values: Vec<&Value> = decision.argument.values.iter().collect();
    json!({
        "value": values.get(argmax(&decision.probabilities)),
        "probabilities": by_name(keys::for_values(&values), &decision.probabilities),
        "confidence": rounded(confidence_of_choice(&decision.probabilities)),
    })
}
