//! The scripted answers in the format of text completions: `POST …/completions`.

use serde_json::{Value, json};

use super::chat_request::{ChatRequest, Shape};
use super::stream::Event;

/// Parses the request as a chat with one message. The error is the text of the 400 that a provider
/// would send. Each prompt has `n` choices.
pub(super) fn parse(body: &[u8]) -> Result<ChatRequest, String> {
    let mut value: Value = serde_json::from_slice(body)
        .map_err(|error| format!("We could not parse the JSON body of your request: {error}"))?;
    let (prompts, text) = match &value["prompt"] {
        Value::String(text) => (1, text.clone()),
        Value::Array(tokens) if tokens.first().is_some_and(Value::is_number) => {
            (1, "x".repeat(4 * tokens.len()))
        }
        Value::Array(prompts) if !prompts.is_empty() => (prompts.len(), prompts[0].to_string()),
        _ => return Err("you must provide a prompt".to_owned()),
    };
    value["messages"] = json!([{"role": "user", "content": text}]);
    let request = ChatRequest::parse(value.to_string().as_bytes(), Shape::Text)?;
    Ok(ChatRequest {
        shape: Shape::Text,
        choices: request.choices * prompts,
        logprobs: None,
        ..request
    })
}

/// Converts the events of a streamed answer to this format.
pub(super) fn events(mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        event.data = of_chat(&event.data);
    }
    events
}

/// Converts a chat completion, or a chunk of one, to this format. Other data, such as `[DONE]`, is
/// returned unchanged.
pub(super) fn of_chat(data: &str) -> String {
    let Ok(mut object) = serde_json::from_str::<Value>(data) else {
        return data.to_owned();
    };
    let Some(choices) = object.get("choices").and_then(Value::as_array) else {
        return data.to_owned();
    };
    let choices: Vec<Value> = choices
        .iter()
        .map(|choice| {
            let message = choice.get("message").or_else(|| choice.get("delta"));
            let text = message
                .and_then(|message| message["content"].as_str())
                .unwrap_or_default();
            json!({
                "text": text,
                "index": choice["index"],
                "logprobs": null,
                "finish_reason": choice["finish_reason"],
            })
        })
        .collect();
    object["choices"] = Value::from(choices);
    object["object"] = json!("text_completion");
    object.to_string()
}
