//! The shapes of request and answer, for the API document. What is accepted, and in which dialects, is in
//! `tollgate_formats::decisions`.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A state, and questions about it.
#[derive(Serialize, ToSchema)]
pub struct CreateDecisions {
    /// Id or alias of a decision model, or of a chat model that can be brought to numbers.
    model: String,
    /// What is decided about: a text, an object or a list. Pictures, sounds and films may stand anywhere in it, as parts
    /// such as `{"type": "image_url", "image_url": {"url": …}}` (https or data URL), `{"type": "input_audio", …}` and
    /// `{"type": "video_url", …}`, as `data:` URLs, or as uploaded files by their `file_id`: at most 16 pictures, 8 sounds and 4 films.
    #[schema(value_type = Value)]
    state: serde_json::Value,
    /// 1 to 128 questions: a list whose questions have an `id`, or a map of ids. Answers come back in the same container.
    questions: DecisionQuestions,
    /// How it is decided.
    options: Option<DecisionOptions>,
}

/// Questions, as a list or a map.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum DecisionQuestions {
    /// In order, each with its `id`.
    List(Vec<DecisionQuestion>),
    /// By id.
    Map(BTreeMap<String, DecisionQuestion>),
}

/// A question.
#[derive(Serialize, ToSchema)]
pub struct DecisionQuestion {
    /// Its id, in a list.
    id: Option<String>,
    /// `noul` (yes or no; also `predicate`), `choice`, `score` or `tool`.
    #[serde(rename = "type")]
    kind: String,
    /// What is asked.
    instructions: String,
    /// For a noul, what `true` and `false` mean; for a choice, 2 to 255 options, each with what it means or `null`; for a
    /// score, 2 to 10 levels, the lowest one first.
    #[schema(value_type = Option<Value>)]
    criteria: Option<serde_json::Value>,
    /// For a tool question: functions, in the shape of chat completions' tools.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<serde_json::Value>>,
    /// For a tool question: `auto` (the default), where none may be the answer, or `required`.
    tool_choice: Option<String>,
    /// Whether the answer says how probable it is that the state does not have what the question needs. Not for a tool.
    abstain: Option<bool>,
}

/// How it is decided.
#[derive(Serialize, ToSchema)]
pub struct DecisionOptions {
    /// In how many orders options are shown to a model that takes no questions.
    #[schema(minimum = 1, maximum = 8)]
    permutations: Option<u32>,
    /// `default` (the account's default calibration of the model, if it has one), `none`, or the id of a calibration.
    calibration: Option<String>,
    /// `standard`, `full`, or `fast`: wide choices in one look.
    detail: Option<String>,
    /// Decides the orders.
    seed: Option<u64>,
}

/// The answers.
#[derive(Serialize, ToSchema)]
pub struct Decisions {
    /// Id of the answer.
    id: String,
    /// Always `decision`.
    object: String,
    /// When, in seconds since 1970.
    created: i64,
    /// The model as the request named it.
    model: String,
    /// In the container of the questions.
    answers: DecisionAnswers,
    /// What was read and what it cost.
    usage: DecisionUsage,
    /// How the numbers were obtained: the worst of what the answers say.
    method: DecisionMethod,
}

/// Answers, as a list or a map.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum DecisionAnswers {
    /// In the order of the questions, each with its `id`.
    List(Vec<DecisionAnswer>),
    /// By id.
    Map(BTreeMap<String, DecisionAnswer>),
}

/// The answer to a question; what it has depends on its type.
#[derive(Serialize, ToSchema)]
pub struct DecisionAnswer {
    /// The question's id, in a list.
    id: Option<String>,
    /// `noul`, `choice`, `score`, `tool`; `refusal` when the model would not answer, `error` when the question failed alone.
    #[serde(rename = "type")]
    kind: String,
    /// How probable a yes is.
    noul: Option<f64>,
    /// The same.
    probability: Option<f64>,
    /// The likeliest option.
    choice: Option<String>,
    /// The expected level, from 0.
    score: Option<f64>,
    /// What the levels are, by number.
    legend: Option<BTreeMap<String, String>>,
    /// The likeliest function, or `none`.
    tool: Option<String>,
    /// How probable each option, level or function is; they sum to one.
    probabilities: Option<BTreeMap<String, f64>>,
    /// By function, its arguments that are enumerations or yes or no, as if it were called.
    #[schema(value_type = Option<Object>)]
    arguments: Option<serde_json::Value>,
    /// How far the answer is from a guess, 0 to 1.
    confidence: Option<f64>,
    /// How probable it is that the state does not have what the question needs.
    abstain: Option<f64>,
    /// How the numbers were obtained.
    method: Option<DecisionMethod>,
    /// Why the question failed.
    #[schema(value_type = Option<Object>)]
    error: Option<serde_json::Value>,
}

/// How numbers were obtained.
#[derive(Serialize, ToSchema)]
pub struct DecisionMethod {
    /// `native`, `logits`, `top_logprobs` or `sampled`, best first.
    source: String,
    /// In how many orders the options were shown; 0 where the model's server showed them.
    permutations: u32,
    /// The least share of probability that was seen on the options' labels.
    min_mass: Option<f64>,
    /// How many requests to the model it took.
    calls: u32,
    /// Whether a calibration has corrected the probabilities.
    calibrated: bool,
    /// Which one.
    calibration: Option<String>,
}

/// What was read, and what it cost.
#[derive(Serialize, ToSchema)]
pub struct DecisionUsage {
    /// Tokens of the state once, of each question that was answered, and of media.
    input_tokens: u64,
    /// Always 0.
    output_tokens: u64,
    /// The same as the input.
    total_tokens: u64,
    /// What the input is made of.
    input_tokens_details: DecisionInputDetails,
    /// What the call cost, in credits as a decimal string.
    cost: String,
}

/// What the input is made of.
#[derive(Serialize, ToSchema)]
pub struct DecisionInputDetails {
    /// Tokens of the state's text.
    state: u64,
    /// Tokens of the questions.
    questions: u64,
    /// Tokens of the media.
    media: u64,
}
