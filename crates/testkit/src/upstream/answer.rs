//! What an upstream says: text, reasoning, tool calls, refusal, and the usage that it claims.

use serde_json::Value;

/// The content of one successful chat completion, whole or streamed as the request asks.
///
/// Without any text it echoes the last user message, or gives a document that fits the `response_format`.
/// `max_tokens`, `stop`, `n` and `logprobs` of the request are honoured.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub(super) model: Option<String>,
    pub(super) reasoning: Vec<String>,
    pub(super) text: Option<Vec<String>>,
    pub(super) refusal: Option<Vec<String>>,
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Usage,
    pub(super) usage_place: UsagePlace,
    pub(super) cached_tokens: u64,
    pub(super) cache_write_tokens: u64,
}

/// A function call that the model makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub name: String,
    pub arguments: String,
}

/// The usage that the answer reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Usage {
    /// Counted from what was said; every delta is one token.
    #[default]
    Counted,
    /// These numbers, whatever was said. Zeros are reported as zeros.
    Fixed {
        /// `prompt_tokens`
        prompt: u64,
        /// `completion_tokens`
        completion: u64,
    },
    /// No `usage` member at all, even where it was asked for.
    Missing,
    /// `"usage": null`.
    Null,
    /// This JSON text as it stands, for numbers that no integer holds.
    Raw(String),
}

/// Where a stream carries its usage. An answer that is not streamed always has it once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UsagePlace {
    /// In a chunk of its own before `[DONE]`, only when `include_usage` was asked (the rule of OpenAI).
    #[default]
    WhenAsked,
    /// In a chunk of its own before `[DONE]`, asked or not.
    Always,
    /// In the chunk that carries the finish reason, asked or not.
    WithFinish,
    /// Cumulative on every chunk, and in a chunk of its own at the end.
    EveryChunk,
    /// In two chunks of their own at the end: half of the completion first, then all of it.
    Twice,
}

impl Answer {
    /// An answer with this text, cut into tokens at white space and after eight characters.
    pub fn text(text: &str) -> Self {
        Self {
            text: Some(tokens_of(text)),
            ..Self::default()
        }
    }

    /// An answer of exactly these tokens, one delta each.
    pub fn deltas<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        Self {
            text: Some(deltas.into_iter().map(Into::into).collect()),
            ..Self::default()
        }
    }

    /// An answer of `count` numbered words, one token each.
    pub fn words(count: usize) -> Self {
        Self::deltas((1..=count).map(|number| {
            if number == 1 {
                "w1".into()
            } else {
                format!(" w{number}")
            }
        }))
    }

    /// A single token of `bytes` letters: one very long event in a stream.
    pub fn long_token(bytes: usize) -> Self {
        Self::deltas(["x".repeat(bytes)])
    }

    /// A refusal: `content` is null and `refusal` has the text.
    pub fn refusal(text: &str) -> Self {
        Self {
            refusal: Some(tokens_of(text)),
            ..Self::default()
        }
    }

    /// A call of one function; without text unless it is added. Repeat `tool_call` for parallel calls.
    pub fn calling(name: &str, arguments: &Value) -> Self {
        Self::default().tool_call(name, arguments)
    }

    /// Adds one function call.
    pub fn tool_call(mut self, name: &str, arguments: &Value) -> Self {
        self.tool_calls.push(ToolCall {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        });
        self
    }

    /// Adds `reasoning_content` of `count` tokens, which count as completion tokens.
    pub fn reasoning(mut self, count: usize) -> Self {
        self.reasoning = (1..=count).map(|number| format!("r{number} ")).collect();
        self
    }

    /// Names another model in the answer than the one asked for, as providers do for dated versions.
    pub fn as_model(mut self, model: &str) -> Self {
        self.model = Some(model.to_owned());
        self
    }

    /// Ends with this `finish_reason` instead of the fitting one.
    pub fn finish_reason(mut self, reason: &str) -> Self {
        self.finish_reason = Some(reason.to_owned());
        self
    }

    /// Reports this usage.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Says where a stream carries the usage.
    pub fn usage_place(mut self, place: UsagePlace) -> Self {
        self.usage_place = place;
        self
    }

    /// Reports this many prompt tokens as read from the cache; they are part of `prompt_tokens`.
    pub fn cached_tokens(mut self, tokens: u64) -> Self {
        self.cached_tokens = tokens;
        self
    }

    /// Reports this many prompt tokens as written to the cache; they are part of `prompt_tokens`.
    pub fn cache_write_tokens(mut self, tokens: u64) -> Self {
        self.cache_write_tokens = tokens;
        self
    }
}

/// Cuts text into pieces that stand for tokens; joined they are the text again.
pub(super) fn tokens_of(text: &str) -> Vec<String> {
    const LONGEST: usize = 8;
    let mut tokens: Vec<String> = Vec::new();
    let (mut token, mut length) = (String::new(), 0);
    for letter in text.chars() {
        let starts_word = letter.is_whitespace() && !token.trim_end().is_empty();
        if length > 0 && (starts_word || length >= LONGEST) {
            tokens.push(std::mem::take(&mut token));
            length = 0;
        }
        token.push(letter);
        length += 1;
    }
    if !token.is_empty() {
        tokens.push(token);
    }
    tokens
}
