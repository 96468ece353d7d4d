//! Builds the simulator's responses.

use std::time::Duration;

use serde_json::{Map, json};
use tollgate_types::generate::{
    Choice, File, FinishReason, GenerateRequest, Message, Part, Reasoning, ResponseFormat, Role, Tool,
    ToolCall,
};
use tollgate_types::{ErrorCode, Unit, Usage};
use tollgate_upstream::UpstreamError;

use super::{Prompt, calls, failure, logprobs, schema, tokens};

/// Maximum number of tokens of one choice, as in the catalog.
const MAX_TOKENS: u64 = 65_536;
/// Maximum number of tokens of all choices of one response.
const MAX_TOTAL_TOKENS: u64 = 262_144;
/// Maximum number of tokens of all choices with log probabilities, which are large.
const MAX_LOGPROB_TOKENS: u64 = 4_096;
/// Maximum size of all echoes in the choices of one response, in bytes.
const MAX_ECHO_BYTES: usize = 1 << 20;
/// Number of tokens if the script sets none and there is no message to echo.
const DEFAULT_TOKENS: u64 = 16;

const WORDS: &[&str] = &[
    "the",
    "simulator",
    "says",
    "these",
    "words",
    "one",
    "token",
    "each",
    "so",
    "that",
    "you",
    "can",
    "count",
    "them",
    "and",
    "nothing",
    "else",
    "is",
    "meant",
    "by",
    "it",
    "today",
];
const THOUGHTS: &[&str] = &[
    "first", "consider", "then", "compare", "and", "at", "last", "decide",
];
const REFUSAL: &str = "I cannot help with that.";

/// A complete response to one request.
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) choices: Vec<AnswerChoice>,
    pub(super) usage: Usage,
}

/// One choice of the response.
pub(super) struct AnswerChoice {
    pub(super) index: u32,
    pub(super) reasoning: String,
    pub(super) text: String,
    pub(super) refusal: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) finish: FinishReason,
    /// Stop sequence that ended the choice, if any.
    pub(super) stop_sequence: Option<String>,
}

impl Answer {
    pub(super) fn compose(prompt: &Prompt) -> Result<Self, UpstreamError> {
        let n = prompt.request.n.max(1);
        let choices: Vec<AnswerChoice> = (0..n)
            .map(|index| AnswerChoice::compose(prompt, index))
            .collect::<Result<_, _>>()?;
        let sum = |tokens: fn(&AnswerChoice) -> u64| choices.iter().map(tokens).sum();
        let usage = Usage::ZERO
            .with(Unit::Input, input_tokens(&prompt.request))
            .with(Unit::Output, sum(AnswerChoice::output_tokens))
            .with(
                Unit::Reasoning,
                sum(|answer_choice| tokens::count(&answer_choice.reasoning)),
            );
        Ok(Self {
            id: format!("chatcmpl-{:016x}", prompt.hash),
            choices,
            usage,
        })
    }

    /// Returns the duration of the stream at this pace. A non-streamed response takes the same
    /// time.
    pub(super) fn stream_duration(&self, pace: Duration) -> Duration {
        let tokens = self.usage.total_output();
        pace.saturating_mul(u32::try_from(tokens.saturating_sub(1)).unwrap_or(u32::MAX))
    }
}

impl AnswerChoice {
    fn compose(prompt: &Prompt, index: u32) -> Result<Self, UpstreamError> {
        let mut answer_choice = Self {
            index,
            reasoning: String::new(),
            text: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            finish: FinishReason::Stop,
            stop_sequence: None,
        };
        let mut budget = Budget::of(prompt);
        answer_choice.reasoning = budget.words(THOUGHTS, prompt.script.reason, 0);
        if prompt.script.refuse {
            answer_choice.refusal = budget.spend(REFUSAL);
        } else {
            let calls = calls::of(prompt, index)?;
            // With tool calls, the choice contains text only if the script sets `tokens`.
            if calls.is_empty() || prompt.script.tokens.is_some() {
                (answer_choice.text, answer_choice.stop_sequence) = text(prompt, index, &mut budget)?;
            }
            for mut call in calls {
                budget.spend(&call.name);
                if !budget.is_cut {
                    call.arguments = budget.spend(&call.arguments);
                    answer_choice.calls.push(call);
                    answer_choice.finish = FinishReason::ToolCalls;
                }
            }
        }
        if budget.is_cut {
            answer_choice.finish = FinishReason::Length;
            answer_choice.stop_sequence = None;
        } else if answer_choice.stop_sequence.is_some() && answer_choice.finish == FinishReason::Stop {
            answer_choice.finish = FinishReason::StopSequence;
        }
        Ok(answer_choice)
    }

    /// Returns the number of output tokens except reasoning. A tool call counts the tokens of its
    /// name and arguments.
    fn output_tokens(&self) -> u64 {
        let calls = self.calls.iter();
        let called: u64 = calls
            .map(|call| tokens::count(&call.name) + tokens::count(&call.arguments))
            .sum();
        tokens::count(&self.text) + tokens::count(&self.refusal) + called
    }

    pub(super) fn output_bytes(&self) -> u64 {
        let called: usize = self.calls.iter().map(|call| call.arguments.len()).sum();
        (self.reasoning.len() + self.text.len() + self.refusal.len() + called) as u64
    }

    /// Converts the choice to the common form. `top_logprobs` is set if the caller requested log
    /// probabilities.
    pub(super) fn into_choice(self, top_logprobs: Option<u32>) -> Choice {
        let logprobs = top_logprobs
            .filter(|_| !self.text.is_empty())
            .map(|alternatives| logprobs::of(tokens::split(&self.text), alternatives));
        let is_empty = self.calls.is_empty() && self.refusal.is_empty();
        let mut parts = Vec::with_capacity(2);
        if !self.reasoning.is_empty() {
            parts.push(Part::Reasoning(Reasoning::shown(self.reasoning)));
        }
        if !self.text.is_empty() || is_empty {
            parts.push(Part::Text(self.text));
        }
        if !self.refusal.is_empty() {
            parts.push(Part::Refusal(self.refusal));
        }
        Choice {
            index: self.index,
            parts,
            tool_calls: self.calls,
            finish: self.finish,
            stop_sequence: self.stop_sequence,
            logprobs,
            extra: Map::new(),
        }
    }
}

/// Returns the text of a choice and the stop sequence that ended the text, if any. The text is the
/// scripted number of words, or an echo; if the caller requested JSON, the text is JSON.
fn text(prompt: &Prompt, index: u32, budget: &mut Budget) -> Result<(String, Option<String>), UpstreamError> {
    let request = &prompt.request;
    let words = |tokens: u64| tokens::words(WORDS, tokens.min(budget.left), index as usize);
    let (mut plain, mut is_cut) = match prompt.script.tokens {
        Some(tokens) => (words(tokens), tokens > budget.left),
        None => echo(prompt),
    };
    if plain.is_empty() && prompt.script.tokens.is_none() {
        plain = words(DEFAULT_TOKENS);
    }
    match &request.response_format {
        ResponseFormat::Text => {}
        ResponseFormat::JsonObject => plain = json!({ "text": plain }).to_string(),
        ResponseFormat::JsonSchema { schema, .. } => {
            if let Some(fault) = schema::fault(schema) {
                return Err(UpstreamError {
                    param: Some("response_format.json_schema.schema".to_owned()),
                    ..failure::simulated(ErrorCode::InvalidParameter, fault)
                });
            }
            let sample = schema::sample(schema, &prompt.user_text).ok_or_else(|| UpstreamError {
                param: Some("response_format.json_schema.schema".to_owned()),
                ..failure::simulated(
                    ErrorCode::UnsupportedParameter,
                    "The simulator found no value that matches the schema. Simplify the schema.",
                )
            })?;
            (plain, is_cut) = (sample.to_string(), false);
        }
    }
    let stop = request
        .stop
        .iter()
        .filter(|stop| !stop.is_empty())
        .filter_map(|stop| Some((plain.find(stop.as_str())?, stop.clone())))
        .min_by_key(|(at, _)| *at);
    let mut sequence = None;
    if let Some((at, stop)) = stop {
        plain.truncate(at);
        is_cut = false;
        sequence = Some(stop);
    }
    let text = budget.spend(&plain);
    budget.is_cut |= is_cut;
    Ok((text, sequence))
}

/// Returns the last message if it is a tool result, otherwise the last user message without its
/// script; and whether the text was cut at the choice's share of [`MAX_ECHO_BYTES`].
fn echo(prompt: &Prompt) -> (String, bool) {
    let last = prompt.request.messages.last();
    let user_text = match last.filter(|message| message.role == Role::Tool) {
        Some(result) => texts(result).collect::<Vec<_>>().join("\n"),
        None => prompt.user_text.clone(),
    };
    let max = MAX_ECHO_BYTES / prompt.request.n.max(1) as usize;
    let end = user_text.floor_char_boundary(max.min(user_text.len()));
    let is_cut = end < user_text.len();
    (user_text.get(..end).unwrap_or_default().to_owned(), is_cut)
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// Number of tokens that are left for a choice.
struct Budget {
    left: u64,
    is_cut: bool,
}

impl Budget {
    fn of(prompt: &Prompt) -> Self {
        let request = &prompt.request;
        let together = match request.top_logprobs {
            Some(_) => MAX_LOGPROB_TOKENS,
            None => MAX_TOTAL_TOKENS,
        };
        let max = MAX_TOKENS.min(together / u64::from(request.n.max(1)));
        Self {
            left: request.max_tokens.map_or(max, |asked| asked.min(max)),
            is_cut: false,
        }
    }

    /// Returns as much of the text as there are tokens left, and subtracts its tokens.
    fn spend(&mut self, text: &str) -> String {
        let (spent, is_cut) = tokens::first(text, self.left);
        self.left -= tokens::count(spent).min(self.left);
        self.is_cut |= is_cut;
        spent.to_owned()
    }

    fn words(&mut self, vocabulary: &[&str], wanted: u64, from: usize) -> String {
        let granted = wanted.min(self.left);
        self.left -= granted;
        self.is_cut |= granted < wanted;
        tokens::words(vocabulary, granted, from)
    }
}

/// Returns the number of input tokens of a request: those of all texts, of the names and arguments
/// of tool calls, and of the names and descriptions of tools. Each part without text, except a
/// cache breakpoint, counts as one token. So a request never has more tokens than bytes.
pub(super) fn input_tokens(request: &GenerateRequest) -> u64 {
    let messages: u64 = request.messages.iter().map(message_tokens).sum();
    let tools: u64 = request.tools.iter().map(tool_tokens).sum();
    messages + tools
}

fn message_tokens(message: &Message) -> u64 {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(text) | Part::Refusal(text) => tokens::count(text),
        Part::Reasoning(reasoning) => reasoning.text.as_deref().map_or(0, tokens::count),
        Part::File(File { text: Some(text), .. }) => tokens::count(text).max(1),
        Part::Image { .. } | Part::Audio { .. } | Part::File(_) | Part::Stored(_) | Part::Foreign { .. } => 1,
        Part::CacheBreakpoint(_) => 0,
    });
    let calls = message.tool_calls.iter();
    let called = calls.map(|call| tokens::count(&call.name) + tokens::count(&call.arguments));
    parts.chain(called).sum()
}

fn tool_tokens(tool: &Tool) -> u64 {
    let description = match tool {
        Tool::Function { description, .. } | Tool::Custom { description, .. } => description.as_deref(),
        Tool::Foreign { .. } => None,
    };
    tokens::count(tool.name()) + description.map_or(0, tokens::count)
}
