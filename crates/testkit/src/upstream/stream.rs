//! The `chat.completion.chunk` events of a streamed answer, in the order in which OpenAI sends
//! them.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Usage, UsagePosition};
use super::chat_request::ChatRequest;
use super::completion::{call_id, logprobs, with_member};
use super::composed::{Choice, Composed};

/// One event of the stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// The payload of its `data:` line.
    pub data: String,
    /// Number of completion tokens sent up to this event, inclusive.
    pub tokens_sent: u64,
    /// The usage that the event reports.
    pub usage: Option<String>,
    /// Whether more content may follow: false from the first finish reason on.
    pub content: bool,
}

/// Returns all events: role, content and finish chunks of every choice, usage, and `[DONE]`.
pub(super) fn events(answer: &Answer, composed: &Composed, request: &ChatRequest) -> Vec<Event> {
    let mut writer = Writer {
        answer,
        composed,
        request,
        events: Vec::new(),
        tokens_sent: 0,
    };
    for (index, choice) in composed.choices.iter().enumerate() {
        let content = if choice.tool_calls.is_empty() {
            json!("")
        } else {
            Value::Null
        };
        let role = json!({"role": "assistant", "content": content, "refusal": null});
        writer.push_delta(index, role, 0, Value::Null);
    }
    let scripts: Vec<Vec<Delta>> = (composed.choices.iter().enumerate())
        .map(|(index, choice)| deltas(choice, index, request.logprobs))
        .collect();
    let longest = scripts.iter().map(Vec::len).max().unwrap_or(0);
    for step in 0..longest {
        for (index, script) in scripts.iter().enumerate() {
            if let Some(delta) = script.get(step) {
                writer.push_delta(index, delta.delta.clone(), delta.tokens, delta.logprobs.clone());
            }
        }
    }
    writer.finish();
    writer.events
}

/// Returns the delta that an endless stream repeats.
pub(super) fn filler(answer: &Answer, composed: &Composed, request: &ChatRequest, tokens_sent: u64) -> Event {
    let mut writer = Writer {
        answer,
        composed,
        request,
        events: Vec::new(),
        tokens_sent,
    };
    writer.push_delta(0, json!({"content": " more"}), 1, Value::Null);
    writer.events.remove(0)
}

/// One step of a choice.
struct Delta {
    delta: Value,
    tokens: u64,
    logprobs: Value,
}

fn deltas(choice: &Choice, choice_index: usize, top: Option<usize>) -> Vec<Delta> {
    let plain = |name: &str, token: &String| Delta {
        delta: Value::Object(Map::from_iter([(name.to_owned(), json!(token))])),
        tokens: 1,
        logprobs: Value::Null,
    };
    let mut list: Vec<Delta> = choice
        .reasoning
        .iter()
        .map(|token| plain("reasoning_content", token))
        .collect();
    list.extend(choice.text.iter().map(|token| Delta {
        logprobs: top.map_or(Value::Null, |top| logprobs(std::slice::from_ref(token), top)),
        ..plain("content", token)
    }));
    list.extend(choice.refusal.iter().map(|token| plain("refusal", token)));
    for (index, call) in choice.tool_calls.iter().enumerate() {
        let opening = json!({"tool_calls": [{
            "index": index,
            "id": call_id(choice_index, index),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }]});
        list.push(Delta {
            delta: opening,
            tokens: 0,
            logprobs: Value::Null,
        });
        list.extend(call.chunks().into_iter().map(|chunk| Delta {
            delta: json!({"tool_calls": [{"index": index, "function": {"arguments": chunk}}]}),
            tokens: 1,
            logprobs: Value::Null,
        }));
    }
    list
}

struct Writer<'a> {
    answer: &'a Answer,
    composed: &'a Composed,
    request: &'a ChatRequest,
    events: Vec<Event>,
    tokens_sent: u64,
}

impl Writer<'_> {
    fn push_delta(&mut self, choice: usize, delta: Value, tokens: u64, logprobs: Value) {
        self.tokens_sent += tokens;
        let choices = json!([{"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": null}]);
        let cumulative = self.answer.usage_position == UsagePosition::EveryChunk;
        let usage = if cumulative {
            self.usage(self.tokens_sent)
        } else {
            None
        };
        self.push(choices, usage, true, true);
    }

    /// Appends the finish chunks, the usage chunks and `[DONE]`.
    fn finish(&mut self) {
        let position = self.answer.usage_position;
        let total = self.composed.tokens.completion;
        let last = self.composed.choices.len().saturating_sub(1);
        for (index, choice) in self.composed.choices.iter().enumerate() {
            let choices = json!([{
                "index": index,
                "delta": {},
                "logprobs": null,
                "finish_reason": choice.finish_reason,
            }]);
            let here = match position {
                UsagePosition::WithFinish => index == last,
                UsagePosition::EveryChunk => true,
                UsagePosition::WhenRequested | UsagePosition::Always | UsagePosition::Twice => false,
            };
            let usage = if here { self.usage(total) } else { None };
            self.push(choices, usage, false, false);
        }
        let reports: &[u64] = match position {
            UsagePosition::WhenRequested if !self.request.include_usage => &[],
            UsagePosition::WithFinish => &[],
            UsagePosition::Twice => &[total / 2, total],
            UsagePosition::WhenRequested | UsagePosition::Always | UsagePosition::EveryChunk => &[total],
        };
        for completion in reports {
            if let Some(usage) = self.usage(*completion) {
                self.push(json!([]), Some(usage), false, false);
            }
        }
        self.events.push(Event {
            data: "[DONE]".to_owned(),
            tokens_sent: self.tokens_sent,
            usage: None,
            content: false,
        });
    }

    fn usage(&self, completion: u64) -> Option<String> {
        self.composed.usage_text(&self.answer.usage, completion)
    }

    fn push(&mut self, choices: Value, usage: Option<String>, content: bool, padded: bool) {
        let mut chunk = json!({
            "id": self.composed.id,
            "object": "chat.completion.chunk",
            "created": self.composed.created,
            "model": self.composed.model,
            "service_tier": "default",
            "system_fingerprint": "fp_fake",
            "choices": choices,
        });
        if padded && self.request.include_obfuscation {
            // Providers pad deltas to hide their length. Tests need only the presence of the
            // member.
            chunk["obfuscation"] = json!("p4dd1ng");
        }
        let requested = self.request.include_usage && self.answer.usage != Usage::Missing;
        let text = usage.clone().or_else(|| requested.then(|| "null".to_owned()));
        let data = with_member(&chunk, "usage", text.as_deref());
        self.events.push(Event {
            data,
            tokens_sent: self.tokens_sent,
            usage,
            content,
        });
    }
}
