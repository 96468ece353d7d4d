//! Collects the text that the content policy inspects: all text of the caller that a model may
//! read.

use serde_json::Value;
use tollgate_formats::{embeddings, to_common};
use tollgate_pipeline::DecideCall;
use tollgate_types::embed::EmbedInput;
use tollgate_types::generate::{GenerateRequest, Message, Part, ResponseFormat, Tool, ToolCall};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{EmbedCall, ModerationCall, TextCall};

/// A call with text that the content policy can inspect.
pub(crate) trait Inspectable {
    /// Returns the texts to inspect.
    fn texts(&self) -> Result<Vec<String>, Error>;
}

impl Inspectable for TextCall {
    fn texts(&self) -> Result<Vec<String>, Error> {
        match &self.common {
            Some(request) => Ok(texts_of(request)),
            None => Ok(texts_of(&to_common::decode_request(self.format, &self.body)?)),
        }
    }
}

impl Inspectable for EmbedCall {
    fn texts(&self) -> Result<Vec<String>, Error> {
        let request = embeddings::decode_request(&self.body)?;
        let text = |input| match input {
            EmbedInput::Text(text) => Ok(text),
            EmbedInput::Tokens(_) => {
                let message = "The content policy cannot inspect token ids. Send 'input' as text.";
                Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("input"))
            }
        };
        request.inputs.into_iter().map(text).collect()
    }
}

impl Inspectable for DecideCall {
    fn texts(&self) -> Result<Vec<String>, Error> {
        let questions = self.questions.iter().map(crate::decisions::text_of);
        Ok([self.state.text.clone()].into_iter().chain(questions).collect())
    }
}

/// A moderation request may contain any text, so nothing is inspected.
impl Inspectable for ModerationCall {
    fn texts(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

/// Returns the texts of a request. The parts of a message are joined into one text.
fn texts_of(request: &GenerateRequest) -> Vec<String> {
    let mut texts: Vec<String> = request.messages.iter().map(text_of).collect();
    texts.extend(request.tools.iter().map(tool_text));
    if let ResponseFormat::JsonSchema {
        description, schema, ..
    } = &request.response_format
    {
        let mut text = description.clone().unwrap_or_default();
        collect(schema, &mut text);
        texts.push(text);
    }
    let mut rest = String::new();
    request.extra.values().for_each(|value| collect(value, &mut rest));
    texts.push(rest);
    texts.retain(|text| !text.trim().is_empty());
    texts
}

fn text_of(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(text_part) | Part::Refusal(text_part) => add(text_part, &mut text),
            Part::Reasoning(reasoning) => add(reasoning.text.as_deref().unwrap_or_default(), &mut text),
            Part::File(file) => {
                let fields = [&file.text, &file.filename].into_iter().flatten();
                fields.for_each(|text_part| add(text_part, &mut text));
            }
            Part::Foreign { value, .. } => collect(value, &mut text),
            Part::Image { .. } | Part::Audio { .. } | Part::Stored(_) | Part::CacheBreakpoint(_) => {}
        }
    }
    message
        .tool_calls
        .iter()
        .for_each(|call| add_call(call, &mut text));
    add(message.name.as_deref().unwrap_or_default(), &mut text);
    message.extra.values().for_each(|value| collect(value, &mut text));
    text
}

fn add_call(call: &ToolCall, text: &mut String) {
    add(&call.name, text);
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(arguments) => collect(&arguments, text),
        Err(_) => add(&call.arguments, text),
    }
}

fn tool_text(tool: &Tool) -> String {
    let mut text = tool.name().to_owned();
    match tool {
        Tool::Function {
            description,
            parameters: value,
            ..
        }
        | Tool::Custom {
            description,
            format: value,
            ..
        } => {
            add(description.as_deref().unwrap_or_default(), &mut text);
            value.iter().for_each(|value| collect(value, &mut text));
        }
        Tool::Foreign { value, .. } => collect(value, &mut text),
    }
    text
}

/// Appends all strings in a JSON value, including the names of object members.
fn collect(value: &Value, text: &mut String) {
    match value {
        Value::String(text_part) => add(text_part, text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            add(name, text);
            collect(value, text);
        }),
        _ => {}
    }
}

/// Appends a text as a separate line, so that words of different parts do not join.
fn add(text_part: &str, text: &mut String) {
    if !text.is_empty() && !text_part.is_empty() {
        text.push('\n');
    }
    text.push_str(text_part);
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollgate_types::Format;

    use super::*;

    #[test]
    fn all_model_inputs_are_inspected() {
        let chat = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "word1"},
                {"role": "user", "name": "word2", "content": [
                    {"type": "text", "text": "word3"},
                    {"type": "file", "file": {"file_data": "data:text/plain;base64,AA==", "filename": "word4"}}
                ]},
                {"role": "assistant", "content": null, "reasoning_content": "word5", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "word6", "arguments": "{\"x\":\"w\\u006frd7\"}"}}
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "word8"}
            ],
            "tools": [{"type": "function", "function": {"name": "word9", "description": "word10",
                "parameters": {"type": "object", "properties": {"word11": {"description": "word12"}}}}}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "description": "word13",
                "schema": {"type": "object", "properties": {"word14": {"type": "string"}}}}},
            "prediction": {"type": "content", "content": "word15"}
        });
        let messages = json!({
            "model": "m", "max_tokens": 9,
            "system": [{"type": "text", "text": "word1"}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "word2"},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "word3"}}
                ]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": "word4"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "word5"}]}
            ],
            "tools": [{"name": "f", "description": "word6", "input_schema": {"type": "object"}}]
        });
        for (format, body, words) in [
            (Format::ChatCompletions, chat, 15),
            (Format::Messages, messages, 6),
        ] {
            let request = to_common::decode_request(format, body.to_string().as_bytes()).unwrap();
            let texts = texts_of(&request).join("\n");
            for word in 1..=words {
                let word = format!("word{word}");
                assert!(
                    texts.lines().any(|line| line == word),
                    "{format:?}: {word} in {texts}"
                );
            }
        }
    }
}
