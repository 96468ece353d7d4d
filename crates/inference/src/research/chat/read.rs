//! Parses a chat completion request for a research model.

use serde_json::Value;
use tollgate_edge::members::{Members, invalid, nested};
use tollgate_types::{Error, ErrorCode};

use super::super::read::{self, MAX_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS, Request};

/// Names of the maximum length of the report.
const OUTPUT_CAPS: [&str; 3] = ["max_completion_tokens", "max_tokens", "max_output_tokens"];

/// Parameters of chat completions that research models do not support.
const UNSUPPORTED: &[&str] = &[
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "modalities",
    "moderation",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "store",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "verbosity",
    "web_search_options",
];

/// Parameters that identify the end user or a cache. They do not change the report.
const HINTS: &[&str] = &[
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "user",
];

/// A parsed request.
pub(super) struct ChatRequest {
    pub(super) request: Request,
    pub(super) stream: Option<Usage>,
    /// Parameter that limits the length of the report.
    pub(super) output_cap: &'static str,
}

/// Place of the usage in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    /// In the chunk with the finish reason: the default.
    InLastChunk,
    /// In a separate chunk without choices, with `include_usage: true`.
    InOwnChunk,
    /// Nowhere, with `include_usage: false`.
    Omitted,
}

/// Parses the members of a request, all but unknown ones.
pub(super) fn members(members: &mut Members) -> Result<ChatRequest, Error> {
    let model = members.text("model")?.ok_or_else(|| read::missing("model"))?;
    let messages = members.take("messages").ok_or_else(missing_messages)?;
    let conversation = read::conversation("messages", messages, read::message)?;
    if members.number("n", 1, 128)?.is_some_and(|n| n > 1) {
        return Err(unsupported("n"));
    }
    if let Some(name) = UNSUPPORTED.iter().find(|name| members.has(name)) {
        return Err(unsupported(name));
    }
    for name in HINTS.iter().chain(UNSUPPORTED) {
        members.take(name);
    }
    let output_cap = output_cap(members)?;
    let stream = stream(members)?;
    Ok(ChatRequest {
        request: read::settings(members, model, conversation)?,
        stream,
        output_cap,
    })
}

/// Parses the maximum length of the report, which has three names. Returns the name that was used.
fn output_cap(members: &mut Members) -> Result<&'static str, Error> {
    let mut found: Option<(&'static str, u64)> = None;
    for name in OUTPUT_CAPS {
        let Some(cap) = members.number(name, MIN_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)? else {
            continue;
        };
        match found {
            Some((first, other)) if other != cap => {
                let what = format!("differs from '{first}'. Send only one of them");
                return Err(invalid(name, &what));
            }
            Some(_) => {}
            None => found = Some((name, cap)),
        }
    }
    let Some((name, cap)) = found else {
        return Ok("max_output_tokens");
    };
    members.put("max_output_tokens", cap.into());
    Ok(name)
}

fn stream(members: &mut Members) -> Result<Option<Usage>, Error> {
    let is_streamed = members.flag("stream")?.unwrap_or(false);
    let Some(options) = members.take("stream_options") else {
        return Ok(is_streamed.then_some(Usage::InLastChunk));
    };
    if !is_streamed {
        return Err(invalid("stream_options", "is only allowed with 'stream': true"));
    }
    let usage = nested("stream_options", options, |options| {
        options.flag("include_obfuscation")?;
        Ok(match options.flag("include_usage")? {
            None => Usage::InLastChunk,
            Some(true) => Usage::InOwnChunk,
            Some(false) => Usage::Omitted,
        })
    });
    usage.map(Some)
}

fn missing_messages() -> Error {
    let message = "'messages' is missing. The last message is the question.";
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param("messages")
}

/// Returns the error for a parameter that research models do not support.
pub(in super::super) fn unsupported(name: &str) -> Error {
    let message = format!("Research models do not support '{name}'. Remove it.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(name)
}

/// Parses a request body.
pub(super) fn body(body: &[u8]) -> Result<ChatRequest, Error> {
    let mut read = Members::read(body)?;
    let request = members(&mut read)?;
    read.end()?;
    Ok(request)
}

/// Parses the request of an asynchronous chat completion, which cannot be streamed.
pub(in super::super) fn asynchronous(value: Value) -> Result<(Request, &'static str), Error> {
    nested("request", value, |read| {
        let chat = members(read)?;
        match chat.stream {
            None => Ok((chat.request, chat.output_cap)),
            Some(_) => Err(unsupported("stream")),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(more: Value) -> Result<ChatRequest, Error> {
        let mut whole = json!({"model": "sim/research", "messages": [{"role": "user", "content": "Why?"}]});
        for (name, value) in more.as_object().unwrap() {
            whole[name] = value.clone();
        }
        body(whole.to_string().as_bytes())
    }

    #[test]
    fn the_length_of_the_report_has_three_names() {
        for (more, cap, name) in [
            (json!({}), None, "max_output_tokens"),
            (json!({"max_tokens": 256}), Some(256), "max_tokens"),
            (
                json!({"max_completion_tokens": 300, "max_tokens": 300}),
                Some(300),
                "max_completion_tokens",
            ),
            (json!({"max_output_tokens": 400}), Some(400), "max_output_tokens"),
        ] {
            let chat = parsed(more.clone()).unwrap();
            assert_eq!(
                (chat.request.max_output_tokens, chat.output_cap),
                (cap, name),
                "{more}"
            );
        }
        let differing = parsed(json!({"max_completion_tokens": 300, "max_tokens": 301}));
        assert_eq!(differing.err().unwrap().param.as_deref(), Some("max_tokens"));
    }

    #[test]
    fn usage_follows_the_stream_options() {
        for (more, expected) in [
            (json!({}), None),
            (json!({"stream": false}), None),
            (json!({"stream": true}), Some(Usage::InLastChunk)),
            (
                json!({"stream": true, "stream_options": {"include_obfuscation": false}}),
                Some(Usage::InLastChunk),
            ),
            (
                json!({"stream": true, "stream_options": {"include_usage": true}}),
                Some(Usage::InOwnChunk),
            ),
            (
                json!({"stream": true, "stream_options": {"include_usage": false}}),
                Some(Usage::Omitted),
            ),
        ] {
            assert_eq!(parsed(more.clone()).unwrap().stream, expected, "{more}");
        }
    }

    #[test]
    fn parameters_of_other_models_are_not_supported() {
        for name in UNSUPPORTED {
            let error = parsed(json!({*name: 1})).err().unwrap();
            assert_eq!(
                (error.code, error.param.as_deref()),
                (ErrorCode::UnsupportedParameter, Some(*name))
            );
        }
        for name in HINTS {
            assert!(parsed(json!({*name: "x"})).is_ok(), "{name}");
        }
    }
}
