//! The content of an answer: text, reasoning, tool calls, refusal, and the reported usage.

use serde_json::Value;

/// The content of one successful chat completion, whole or streamed as requested.
///
/// Without text, the upstream echoes the last user message, or returns a document that fits the
/// `response_format`. `max_tokens`, `stop`, `n` and `logprobs` of the request are honoured.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub(super) model: Option<String>,
    pub(super) reasoning: Vec<String>,
    pub(super) text: Option<Vec<String>>,
    pub(super) refusal: Option<Vec<String>>,
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Usage,
    pub(super) usage_position: UsagePosition,
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
    /// Counted from the content; every delta is one token.
    #[default]
    Counted,
    /// These numbers, regardless of the content. Zeros are reported as zeros.
    Fixed {
        /// `prompt_tokens`
        prompt: u64,
        /// `completion_tokens`
        completion: u64,
    },
    /// No `usage` member at all, even if requested.
    Missing,
    /// `"usage": null`.
    Null,
    /// This JSON text verbatim, for numbers that no integer type can represent.
    Raw(String),
}

/// Place of the usage in a stream. An answer that is not streamed always has it once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UsagePosition {
    /// In a separate chunk before `[DONE]`, only with `include_usage` (the rule of OpenAI).
    #[default]
    WhenRequested,
    /// In a separate chunk before `[DONE]`, requested or not.
    Always,
    /// In the chunk with the finish reason, requested or not.
    WithFinish,
    /// Cumulative on every chunk, and in a separate chunk at the end.
    EveryChunk,
    /// In two separate chunks at the end: half of the completion first, then all of it.
    Twice,
}

impl Answer {
    /// Creates an answer with this text, split into tokens at white space and after eight
    /// characters.
    pub fn text(text: &str) -> Self {
        Self {
            text: Some(tokens_of(text)),
            ..Self::default()
        }
    }

    /// Creates an answer of exactly these tokens, one delta each.
    pub fn deltas<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        Self {
            text: Some(deltas.into_iter().map(Into::into).collect()),
            ..Self::default()
        }
    }

    /// Creates an answer of `count` numbered words, one token each.
    pub fn words(count: usize) -> Self {
        Self::deltas((1..=count).map(|number| {
            if number == 1 {
                "w1".into()
            } else {
                format!(" w{number}")
            }
        }))
    }

    /// Creates an answer of a single token of `bytes` letters, which is one very long event in a
    /// stream.
    pub fn long_token(bytes: usize) -> Self {
        Self::deltas(["x".repeat(bytes)])
    }

    /// Creates a refusal: `content` is null and `refusal` has the text.
    pub fn refusal(text: &str) -> Self {
        Self {
            refusal: Some(tokens_of(text)),
            ..Self::default()
        }
    }

    /// Creates an answer that calls one function, without text. Repeat `tool_call` for parallel
    /// calls.
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

    /// Names a model other than the requested one in the answer, as providers do for dated
    /// versions.
    pub fn as_model(mut self, model: &str) -> Self {
        self.model = Some(model.to_owned());
        self
    }

    /// Ends with this `finish_reason` instead of the computed one.
    pub fn finish_reason(mut self, reason: &str) -> Self {
        self.finish_reason = Some(reason.to_owned());
        self
    }

    /// Reports this usage.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets where a stream carries the usage.
    pub fn usage_position(mut self, position: UsagePosition) -> Self {
        self.usage_position = position;
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

/// Splits text into tokens. The joined tokens equal the text.
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
