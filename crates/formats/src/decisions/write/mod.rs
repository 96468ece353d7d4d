//! Encoding of answers in the dialect of the request. All dialects have the same numbers. Responses
//! also contain fields that the dialect does not define, because official clients preserve unknown
//! fields.

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

/// Name of the answer that no function fits.
pub(super) const NO_TOOL: &str = "none";

/// Fields of a response other than the decisions.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFrame<'a> {
    /// Id of the decision, such as `dec_…`.
    pub id: &'a str,
    /// Creation time, in seconds since the Unix epoch.
    pub created: i64,
    /// Model name, as sent in the request.
    pub model: &'a str,
    /// Billed input tokens.
    pub usage: InputTokens,
    /// Price for the caller.
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
    /// Returns the sum of all tokens, saturating.
    pub const fn total(self) -> u64 {
        self.state
            .saturating_add(self.questions)
            .saturating_add(self.media)
    }
}

/// Writes the response for the caller. Requires one decision for each question, in the order of the
/// questions, each with one finite probability per option.
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
    /// Whether the caller set the name; otherwise it is generated.
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
            // OpenAI's clients require the member even if the question has no name.
            Dialect::OpenAi => ("name", name.is_named.then_some(name.id)),
            Dialect::Native | Dialect::Google => ("id", Some(name.id)),
        };
        let mut item = Map::from_iter([(key.to_owned(), json!(name))]);
        item.extend(answer);
        Value::Object(item)
    };
    answers.into_iter().map(item).collect()
}

/// Returns the members of a JSON object.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns a refusal, which only OpenAI's dialect defines. The other dialects use the same object.
fn refusal() -> Map<String, Value> {
    members(json!({"type": "refusal"}))
}

/// Returns the error of one question. Without its own parameter, the error has the path of the
/// question.
fn error(error: &Error, question: &Question) -> Value {
    let param = error.param.as_deref().unwrap_or(&question.param);
    json!({"code": error.code.as_str(), "message": error.message, "param": param})
}

/// Rounds a computed value to 12 decimal places, for `0.82` instead of `0.8200000000000001`.
fn rounded(value: f64) -> f64 {
    (value * 1e12).round() / 1e12
}

/// Returns a map from names to probabilities.
fn by_name(names: impl IntoIterator<Item = String>, probabilities: &[f64]) -> Value {
    let named = names.into_iter().zip(probabilities);
    Value::Object(
        named
            .map(|(name, probability)| (name, json!(probability)))
            .collect(),
    )
}

/// Returns the names of the possible answers to a question with functions. One more probability
/// than functions means that [`NO_TOOL`] is a possible answer; otherwise a call is required.
fn tool_names(tools: &[FunctionTool], probabilities: &[f64]) -> Vec<String> {
    let mut names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    if probabilities.len() > tools.len() {
        names.push(NO_TOOL.to_owned());
    }
    names
}

/// Returns the argument decisions of each function that has any.
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
