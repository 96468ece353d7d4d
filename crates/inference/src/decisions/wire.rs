//! Request and response schemas for the OpenAPI document. `tollgate_formats::decisions` defines the
//! accepted dialects and validates requests.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Request body of `POST /v1/decisions`: a state and questions about it, in one of three dialects.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the schema")]
pub enum CreateDecisions {
    /// The gateway's own dialect, also used by System One.
    Native(NativeDecisions),
    /// OpenAI's dialect, with `input` and an array of questions.
    OpenAi(OpenAiDecisions),
    /// Google's dialect, with `input` and a map of questions.
    Google(GoogleDecisions),
}

/// A decision request in the gateway's own dialect.
#[derive(Serialize, ToSchema)]
pub struct NativeDecisions {
    /// Id or alias of a decision model, or of a chat model that returns token probabilities or can
    /// be sampled.
    model: String,
    /// Subject of the decisions: a string, an object or an array. It may contain media at any
    /// place, at most 16 images, 8 audio recordings and 4 videos. A medium is a content part such
    /// as `{"type": "image_url", "image_url": {"url": …}}` (http, https or data URL),
    /// `{"type": "input_audio", …}` or `{"type": "video_url", …}`, a `data:` URL, or an uploaded
    /// file with its `file_id`.
    #[schema(value_type = Value)]
    state: serde_json::Value,
    /// 1 to 128 questions: an array, or a map of id to question. `answers` has the same form.
    questions: DecisionQuestions,
    /// Settings that apply to all questions.
    options: Option<DecisionOptions>,
}

/// A decision request in OpenAI's dialect: `input`, and an array of questions.
#[derive(Serialize, ToSchema)]
pub struct OpenAiDecisions {
    /// Id or alias of the model.
    model: String,
    /// Subject of the decisions: a string, or an array of messages.
    #[schema(value_type = Value)]
    input: serde_json::Value,
    /// Questions, in order. `name` is optional.
    #[schema(min_items = 1, max_items = 128)]
    questions: Vec<DecisionQuestion>,
    /// Settings that apply to all questions.
    options: Option<DecisionOptions>,
}

/// A decision request in Google's dialect: `input`, and a map of questions.
#[derive(Serialize, ToSchema)]
pub struct GoogleDecisions {
    /// Id or alias of the model, optionally with the prefix `models/`.
    model: String,
    /// Subject of the decisions: a string, a content part, or an array of content parts. Part
    /// types: `text`, `image`, `audio` and `video`.
    #[schema(value_type = Value)]
    input: serde_json::Value,
    /// Map of id to question, 1 to 128.
    questions: BTreeMap<String, DecisionQuestion>,
    /// Settings that apply to all questions.
    options: Option<DecisionOptions>,
}

/// Questions as an array or a map.
#[derive(Serialize)]
pub struct DecisionQuestions;

/// Maximum number of questions of a request.
const MAX_QUESTIONS: usize = 128;

impl PartialSchema for DecisionQuestions {
    fn schema() -> RefOr<Schema> {
        let question = || Ref::from_schema_name("DecisionQuestion");
        let list = ArrayBuilder::new()
            .items(question())
            .description(Some("Questions in order, each with an optional `id` or `name`."))
            .min_items(Some(1))
            .max_items(Some(MAX_QUESTIONS));
        let map = ObjectBuilder::new()
            .schema_type(Type::Object)
            .additional_properties(Some(question()))
            .description(Some("Map of id to question."))
            .max_properties(Some(MAX_QUESTIONS));
        let either = OneOfBuilder::new()
            .item(list)
            .item(map)
            .description(Some("Questions as an array or a map."));
        RefOr::T(either.into())
    }
}

impl ToSchema for DecisionQuestions {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((DecisionQuestion::name().into(), DecisionQuestion::schema()));
        DecisionQuestion::schemas(schemas);
    }
}

/// A typed question about the state.
#[derive(Serialize, ToSchema)]
pub struct DecisionQuestion {
    /// Id of the question, only in an array: unique, at most 64 characters. Default: the index of
    /// the question, starting at 0.
    id: Option<String>,
    /// Synonym of `id`, as in OpenAI's dialect. Cannot be combined with `id`.
    name: Option<String>,
    /// Type of the question: `noul` (yes or no; also `predicate`), `choice`, `score` or `tool`.
    #[serde(rename = "type")]
    kind: String,
    /// Text of the question: a string, an array of text parts, or an object or array that the model
    /// receives as JSON.
    #[schema(value_type = Value)]
    instructions: serde_json::Value,
    /// Meaning of the answers. For a noul: the meaning of `true` and `false`. For a choice: 2 to
    /// 255 options, each with its meaning or `null`. For a score: 2 to 10 levels, lowest first.
    #[schema(value_type = Option<Value>)]
    criteria: Option<serde_json::Value>,
    /// For a choice, instead of `criteria`: 2 to 255 options, as an array of options or a map of
    /// option to meaning.
    #[schema(value_type = Option<Value>)]
    options: Option<serde_json::Value>,
    /// For a choice, instead of `criteria`: 2 to 255 options, each with `value` and `description`.
    #[schema(value_type = Option<Vec<Object>>)]
    choices: Option<Vec<serde_json::Value>>,
    /// For a score, instead of `criteria`: 2 to 10 levels, lowest first, each with `label` and
    /// `description`.
    #[schema(value_type = Option<Value>)]
    levels: Option<serde_json::Value>,
    /// For a tool question: 1 to 254 functions, in the shape of chat completion tools.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<serde_json::Value>>,
    /// For a tool question: `auto` (default), with `none` as a possible answer, or `required`.
    tool_choice: Option<String>,
    /// If true, the answer includes the probability that the state lacks the information that the
    /// question needs. Not allowed for a tool question.
    abstain: Option<bool>,
}

/// Settings that apply to all questions.
#[derive(Serialize, ToSchema)]
pub struct DecisionOptions {
    /// Number of option orders that a chat model evaluates, to cancel the effect of an option's
    /// position. Default: chosen by the gateway.
    #[schema(minimum = 1, maximum = 8)]
    permutations: Option<u32>,
    /// Calibration to apply: `default` (the account's default calibration of the model, if there is
    /// one), `none`, or the id of a calibration.
    calibration: Option<String>,
    /// Level of detail: `standard` (default), its synonym `full`, or `fast`. `fast` evaluates
    /// choices with many options in a single pass, which is faster and less accurate.
    detail: Option<String>,
    /// Seed of the option orders and of sampling. Default: 0.
    seed: Option<u64>,
}

/// Response body of `POST /v1/decisions`, in the dialect of the request.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the schema")]
pub enum Decisions {
    /// Response in the gateway's own dialect.
    Native(NativeAnswers),
    /// Response in OpenAI's dialect.
    OpenAi(OpenAiAnswers),
    /// Response in Google's dialect.
    Google(GoogleAnswers),
}

/// Answers in the gateway's own dialect.
#[derive(Serialize, ToSchema)]
pub struct NativeAnswers {
    /// Unique id of the decision.
    id: String,
    /// Always `decision`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created: i64,
    /// Model name as sent in the request.
    model: String,
    /// Answers: an array, or a map of question id to answer, like `questions`.
    answers: DecisionAnswers,
    /// Token usage and cost of the request.
    usage: DecisionUsage,
    /// Method that produced the probabilities. If the answers differ, the least reliable one.
    #[schema(nullable = false)]
    method: Option<DecisionMethod>,
}

/// Answers in OpenAI's dialect.
#[derive(Serialize, ToSchema)]
pub struct OpenAiAnswers {
    /// Unique id of the decision.
    id: String,
    /// Always `decision`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created: i64,
    /// Model name as sent in the request.
    model: String,
    /// Answers in the order of the questions.
    answers: Vec<OpenAiAnswer>,
    /// Token usage and cost of the request.
    usage: OpenAiUsage,
    /// Method that produced the probabilities. If the answers differ, the least reliable one.
    #[schema(nullable = false)]
    method: Option<DecisionMethod>,
}

/// Answers in Google's dialect.
#[derive(Serialize, ToSchema)]
pub struct GoogleAnswers {
    /// Unique id of the decision.
    id: String,
    /// Always `decision`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created: i64,
    /// Model name as sent in the request.
    model: String,
    /// Map of question id to answer.
    answers: BTreeMap<String, DecisionAnswer>,
    /// Token usage and cost of the request.
    usage: GoogleUsage,
    /// Method that produced the probabilities. If the answers differ, the least reliable one.
    #[schema(nullable = false)]
    method: Option<DecisionMethod>,
}

/// An answer in OpenAI's dialect. Its fields depend on the type of the question.
#[derive(Serialize, ToSchema)]
pub struct OpenAiAnswer {
    /// Name of the question; null if it has none.
    #[schema(required)]
    name: Option<String>,
    /// Type of the answer: `predicate`, `choice`, `score` or `tool`; `refusal` if the model refused
    /// or the question failed.
    #[serde(rename = "type")]
    kind: String,
    /// Probability of yes, from 0 to 1.
    #[schema(nullable = false)]
    probability: Option<f64>,
    /// Most probable option: a string, `true` or `false`.
    #[schema(value_type = Option<Value>)]
    choice: Option<serde_json::Value>,
    /// Expected level; the lowest level is 0.
    #[schema(nullable = false)]
    score: Option<f64>,
    /// Name of the most probable function, or `none`.
    #[schema(nullable = false)]
    tool: Option<String>,
    /// Probability of each option, level or function. The sum is 1.
    #[schema(nullable = false)]
    probabilities: Option<Vec<OpenAiProbability>>,
    /// Arguments of each probable function, by function name and argument name, each with `value`,
    /// `probabilities` and `confidence`. Only enumeration and boolean arguments are decided.
    #[schema(value_type = Option<Object>, nullable = false)]
    arguments: Option<serde_json::Value>,
    /// Distance of the answer from a random guess, from 0 to 1. Absent for a refused or failed
    /// question.
    #[schema(nullable = false)]
    confidence: Option<f64>,
    /// Probability that the state lacks the information that the question needs, from 0 to 1.
    /// Absent unless the question sets `abstain`, and for a refused or failed question.
    #[schema(nullable = false)]
    abstain: Option<f64>,
    /// Method that produced the probabilities.
    #[schema(nullable = false)]
    method: Option<DecisionMethod>,
    /// Error of the question, if it failed.
    #[schema(value_type = Option<Object>, nullable = false)]
    error: Option<serde_json::Value>,
}

/// Probability of one option, level or function.
#[derive(Serialize, ToSchema)]
pub struct OpenAiProbability {
    /// The option, the number of the level, or the name of the function.
    #[schema(value_type = Value)]
    value: serde_json::Value,
    /// Label of the level, for a score.
    #[schema(nullable = false)]
    label: Option<String>,
    /// Probability from 0 to 1.
    probability: f64,
}

/// Token usage and cost in OpenAI's dialect.
#[derive(Serialize, ToSchema)]
pub struct OpenAiUsage {
    /// Number of input tokens: the state once, each answered question, and media.
    input_tokens: u64,
    /// Breakdown of the input tokens; all values are 0.
    input_tokens_details: OpenAiInputDetails,
    /// Number of output tokens; always 0.
    output_tokens: u64,
    /// Breakdown of the output tokens; all values are 0.
    output_tokens_details: OpenAiOutputDetails,
    /// Equal to the number of input tokens.
    total_tokens: u64,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}

/// Breakdown of the input tokens in OpenAI's dialect.
#[derive(Serialize, ToSchema)]
pub struct OpenAiInputDetails {
    /// Number of input tokens written to a cache; always 0.
    cache_write_tokens: u64,
    /// Number of input tokens read from a cache; always 0.
    cached_tokens: u64,
}

/// Breakdown of the output tokens in OpenAI's dialect.
#[derive(Serialize, ToSchema)]
pub struct OpenAiOutputDetails {
    /// Number of reasoning tokens; always 0.
    reasoning_tokens: u64,
}

/// Token usage and cost in Google's dialect.
#[derive(Serialize, ToSchema)]
pub struct GoogleUsage {
    /// Number of input tokens: the state once, each answered question, and media.
    total_input_tokens: u64,
    /// Number of input tokens read from a cache; always 0.
    total_cached_tokens: u64,
    /// Number of output tokens; always 0.
    total_output_tokens: u64,
    /// Number of reasoning tokens; always 0.
    total_thought_tokens: u64,
    /// Number of tool use tokens; always 0.
    total_tool_use_tokens: u64,
    /// Equal to the number of input tokens.
    total_tokens: u64,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}

/// Answers as an array or a map, like the questions.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the schema")]
pub enum DecisionAnswers {
    /// Answers in the order of the questions, each with its `id`.
    List(Vec<DecisionAnswer>),
    /// Map of question id to answer.
    Map(BTreeMap<String, DecisionAnswer>),
}

/// The answer to a question. Its fields depend on the type of the question.
#[derive(Serialize, ToSchema)]
pub struct DecisionAnswer {
    /// Id of the question, only in an array.
    id: Option<String>,
    /// Type of the answer: `noul`, `choice`, `score` or `tool`; `refusal` if the model refused;
    /// `error` if only this question failed.
    #[serde(rename = "type")]
    kind: String,
    /// Probability of yes, from 0 to 1.
    noul: Option<f64>,
    /// Equal to `noul`.
    probability: Option<f64>,
    /// Most probable option: a string, `true` or `false`.
    #[schema(value_type = Option<Value>)]
    choice: Option<serde_json::Value>,
    /// Expected level; the lowest level is 0.
    score: Option<f64>,
    /// Map of level number to label, for a score.
    legend: Option<BTreeMap<String, String>>,
    /// Name of the most probable function, or `none`.
    tool: Option<String>,
    /// Probability of each option, level or function. The sum is 1.
    probabilities: Option<BTreeMap<String, f64>>,
    /// Arguments of each probable function, by function name and argument name, each with `value`,
    /// `probabilities` and `confidence`. Only enumeration and boolean arguments are decided.
    #[schema(value_type = Option<Object>)]
    arguments: Option<serde_json::Value>,
    /// Distance of the answer from a random guess, from 0 to 1. Absent for a refused or failed
    /// question.
    confidence: Option<f64>,
    /// Probability that the state lacks the information that the question needs, from 0 to 1.
    /// Absent unless the question sets `abstain`, and for a refused or failed question.
    abstain: Option<f64>,
    /// Method that produced the probabilities.
    method: Option<DecisionMethod>,
    /// Error of the question, if it failed.
    #[schema(value_type = Option<Object>)]
    error: Option<serde_json::Value>,
}

/// Method that produced probabilities.
#[derive(Serialize, ToSchema)]
pub struct DecisionMethod {
    /// Source of the probabilities, most reliable first: `native`, `logits`, `top_logprobs` or
    /// `sampled`.
    source: String,
    /// Number of option orders that were evaluated; 0 if the model's server evaluated them.
    permutations: u32,
    /// Lowest total probability of the option labels in any evaluated order; with `sampled`, the
    /// share of samples that name an option.
    min_mass: Option<f64>,
    /// Number of model requests for the answer. Absent in the method of the whole response.
    #[schema(nullable = false)]
    calls: Option<u32>,
    /// Whether a calibration has corrected the probabilities.
    calibrated: bool,
    /// Id of the applied calibration.
    calibration: Option<String>,
}

/// Token usage and cost of a decision request.
#[derive(Serialize, ToSchema)]
pub struct DecisionUsage {
    /// Number of input tokens: the state once, each answered question, and media.
    input_tokens: u64,
    /// Number of output tokens; always 0.
    output_tokens: u64,
    /// Equal to the number of input tokens.
    total_tokens: u64,
    /// Breakdown of the input tokens: state, questions and media.
    input_tokens_details: DecisionInputDetails,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}

/// Breakdown of the input tokens of a decision request.
#[derive(Serialize, ToSchema)]
pub struct DecisionInputDetails {
    /// Number of tokens of the state's text.
    state: u64,
    /// Number of tokens of all questions.
    questions: u64,
    /// Number of tokens of all media.
    media: u64,
}
