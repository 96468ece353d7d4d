//! Requests of callers, and their processing before the provider is known.

use serde_json::{Map, Value, json};
use tollgate_formats::anthropic_messages::Version;
use tollgate_formats::{
    DecodeError, anthropic_messages, gemini, openai_chat, openai_completions, openai_responses,
};
use tollgate_types::Format;

/// All formats in the order of the page's columns.
pub const ALL: [Format; 5] = [
    Format::ChatCompletions,
    Format::Completions,
    Format::Messages,
    Format::Responses,
    Format::GenerateContent,
];

pub fn name(format: Format) -> &'static str {
    match format {
        Format::ChatCompletions => "chat completions",
        Format::Completions => "completions",
        Format::Messages => "messages",
        Format::Responses => "responses",
        Format::GenerateContent => "generated content",
    }
}

pub fn index(format: Format) -> usize {
    ALL.iter().position(|client| *client == format).unwrap()
}

/// Returns a minimal request with these additional members.
pub fn body(format: Format, members: &[&Value]) -> Map<String, Value> {
    let turn = json!([{"role": "user", "content": "Hello."}]);
    let plain = match format {
        Format::ChatCompletions => json!({"model": "m", "messages": turn}),
        Format::Completions => json!({"model": "m", "prompt": "Hello."}),
        Format::Messages => json!({"model": "m", "max_tokens": 8192, "messages": turn}),
        Format::Responses => json!({"model": "m", "input": turn}),
        Format::GenerateContent => json!({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}),
    };
    let mut body = plain.as_object().unwrap().clone();
    for members in members.iter().filter_map(|members| members.as_object()) {
        body.extend(members.clone());
    }
    body
}

/// Returns the fields of the caller's format that do not affect the response: those that no
/// upstream receives, and those that only an upstream of the same format receives.
pub fn hints(format: Format, body: &[u8]) -> Result<Vec<String>, DecodeError> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| names.push(name.to_owned());
    match format {
        Format::ChatCompletions => openai_chat::validate(body)?.ignored_hints(&[]).for_each(&mut add),
        Format::Completions => openai_completions::validate(body)?
            .ignored_hints(&[])
            .for_each(&mut add),
        Format::Messages => {
            let head = anthropic_messages::validate(
                body,
                Version::V2023_06_01,
                anthropic_messages::Purpose::Generate,
            )?;
            head.ignored_hints().chain(head.own_hints()).for_each(&mut add);
        }
        Format::Responses => {
            let head = openai_responses::validate(body)?;
            head.ignored_hints().chain(head.own_hints()).for_each(&mut add);
        }
        Format::GenerateContent => {
            let head = gemini::validate(body, gemini::Purpose::Generate)?;
            head.ignored_hints().chain(head.own_hints()).for_each(&mut add);
        }
    }
    Ok(names)
}
