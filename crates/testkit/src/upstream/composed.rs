//! An [`Answer`] adapted to one request: its choices are truncated by `stop` and `max_tokens`, and
//! its tokens are counted.

use serde_json::{Value, json};

use super::answer::{Answer, ToolCall, Usage, tokens_of};
use super::chat_request::ChatRequest;
use super::schema;
use super::served::Tokens;

/// Date of the first answer. Each further answer is dated a second later, so that every run has the
/// same dates.
const FIRST_CREATED: u64 = 1_790_000_000;

/// An answer with truncated choices and counted tokens.
pub(super) struct Composed {
    pub id: String,
    pub created: u64,
    pub model: String,
    pub choices: Vec<Choice>,
    /// The answer's tokens, as counted by the upstream.
    pub tokens: Tokens,
}

/// One of the `n` choices.
#[derive(Clone)]
pub(super) struct Choice {
    pub reasoning: Vec<String>,
    pub text: Vec<String>,
    pub refusal: Vec<String>,
    pub tool_calls: Vec<ToolCall>,
    pub finish_reason: String,
}

impl Composed {
    /// Adapts the answer to the request. `sequence` determines the date.
    pub fn new(answer: &Answer, request: &ChatRequest, id: String, sequence: u64) -> Self {
        let choice = choice(answer, request);
        let per_choice = choice.tokens();
        let counted = Tokens {
            prompt: request.prompt_tokens,
            completion: match request.embeddings {
                None => per_choice * request.choices as u64,
                Some(_) => 0,
            },
            cached: answer.cached_tokens,
            cache_write: answer.cache_write_tokens,
            reasoning: (choice.reasoning.len() * request.choices) as u64,
        };
        let tokens = match answer.usage {
            Usage::Fixed { prompt, completion } => Tokens {
                prompt,
                completion,
                ..counted
            },
            _ => counted,
        };
        Self {
            id,
            created: FIRST_CREATED + sequence,
            model: answer.model.clone().unwrap_or_else(|| request.model.clone()),
            choices: vec![choice; request.choices],
            tokens,
        }
    }

    /// Returns the `usage` object of an answer with `completion` tokens so far, as JSON text;
    /// `None` without usage.
    pub fn usage_text(&self, usage: &Usage, completion: u64) -> Option<String> {
        match usage {
            Usage::Missing => None,
            Usage::Null => Some("null".to_owned()),
            Usage::Raw(text) => Some(text.clone()),
            Usage::Counted | Usage::Fixed { .. } => Some(self.counted_usage(completion).to_string()),
        }
    }

    fn counted_usage(&self, completion: u64) -> Value {
        let tokens = self.tokens;
        json!({
            "prompt_tokens": tokens.prompt,
            "completion_tokens": completion,
            "total_tokens": tokens.prompt.saturating_add(completion),
            "prompt_tokens_details": {
                "cached_tokens": tokens.cached,
                "cache_write_tokens": tokens.cache_write,
                "audio_tokens": 0,
            },
            "completion_tokens_details": {
                "reasoning_tokens": tokens.reasoning.min(completion),
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        })
    }
}

impl Choice {
    /// Returns the number of tokens. Every chunk of reasoning, text, refusal and tool arguments is
    /// one token.
    pub fn tokens(&self) -> u64 {
        let calls: usize = self.tool_calls.iter().map(|call| call.chunks().len()).sum();
        (self.reasoning.len() + self.text.len() + self.refusal.len() + calls) as u64
    }
}

impl ToolCall {
    /// Splits the arguments into the chunks of a stream.
    pub fn chunks(&self) -> Vec<String> {
        tokens_of(&self.arguments)
    }
}

fn choice(answer: &Answer, request: &ChatRequest) -> Choice {
    let speaks = answer.refusal.is_none() && answer.tool_calls.is_empty();
    let mut choice = Choice {
        reasoning: answer.reasoning.clone(),
        text: match &answer.text {
            Some(text) => text.clone(),
            None if speaks => tokens_of(&default_text(request)),
            None => Vec::new(),
        },
        refusal: answer.refusal.clone().unwrap_or_default(),
        tool_calls: answer.tool_calls.clone(),
        finish_reason: if answer.tool_calls.is_empty() {
            "stop".to_owned()
        } else {
            "tool_calls".to_owned()
        },
    };
    cut_at_stop(&mut choice.text, &request.stops);
    if let Some(max) = request.max_tokens
        && cut_at_length(&mut choice, max as usize)
    {
        "length".clone_into(&mut choice.finish_reason);
    }
    if let Some(reason) = &answer.finish_reason {
        choice.finish_reason.clone_from(reason);
    }
    choice
}

/// Returns the text of an answer without scripted text.
fn default_text(request: &ChatRequest) -> String {
    let format = request.response_format.as_ref();
    match format
        .and_then(|format| format.get("type"))
        .and_then(Value::as_str)
    {
        Some("json_object") => json!({ "echo": request.last_text }).to_string(),
        Some("json_schema") => {
            let schema = format.and_then(|format| format.pointer("/json_schema/schema"));
            schema::sample(schema.unwrap_or(&Value::Null)).to_string()
        }
        _ => format!("{}{}", request.preface, request.last_text),
    }
}

/// Truncates the text before the first stop sequence.
fn cut_at_stop(text: &mut Vec<String>, stops: &[String]) {
    let whole = text.concat();
    let first = stops
        .iter()
        .filter(|stop| !stop.is_empty())
        .filter_map(|stop| whole.find(stop))
        .min();
    let Some(mut left) = first else { return };
    text.retain_mut(|token| {
        token.truncate(left.min(token.len()));
        left -= token.len();
        !token.is_empty()
    });
}

/// Truncates reasoning, text and refusal to `max` tokens. Returns true if anything was truncated.
fn cut_at_length(choice: &mut Choice, max: usize) -> bool {
    let spoken = choice.reasoning.len() + choice.text.len() + choice.refusal.len();
    choice.reasoning.truncate(max);
    let left = max - choice.reasoning.len();
    choice.text.truncate(left);
    choice.refusal.truncate(left);
    spoken > max
}
