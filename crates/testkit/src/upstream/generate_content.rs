//! The scripted answers in Gemini's format: `POST …/models/{model}:generateContent` and
//! `:streamGenerateContent`, and the vectors of `:batchEmbedContents`, `:predict` and
//! `:embedContent`. Requests below `/projects/` are checked as strictly as by Vertex AI.

use serde_json::{Value, json};

use super::answer::{Answer, Usage};
use super::chat_request::{ChatRequest, Shape};
use super::composed::{Choice, Composed};
use super::stream::Event;

/// Returns the model and the action of a path in this format.
pub(super) fn target(path: &str) -> Option<(&str, &str)> {
    let (_, target) = path.split_once("/models/")?;
    let (model, action) = target.rsplit_once(':')?;
    let is_known = matches!(
        action,
        "generateContent" | "streamGenerateContent" | "batchEmbedContents" | "predict" | "embedContent"
    );
    is_known.then_some((model, action))
}

/// Parses a request body. The error is the text of the 400 that a provider would send.
pub(super) fn parse(path: &str, body: &[u8]) -> Result<ChatRequest, String> {
    let (model, action) = target(path).unwrap_or_default();
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("Invalid JSON payload received. {error}"))?;
    let contents = value.get("contents").and_then(Value::as_array);
    let Some(contents) = contents.filter(|contents| !contents.is_empty()) else {
        return Err("* GenerateContentRequest.contents: contents is not specified".to_owned());
    };
    if path.contains("/projects/") {
        check_vertex(&value, contents)?;
    }
    let config = |name: &str| value.pointer(&format!("/generationConfig/{name}"));
    let text_bytes: usize = contents.iter().map(|content| text_of(content).len()).sum();
    let is_model = |content: &&&Value| content.get("role").and_then(Value::as_str) == Some("model");
    let stops = config("stopSequences").and_then(Value::as_array);
    Ok(ChatRequest {
        shape: Shape::Content,
        model: model.to_owned(),
        stream: action == "streamGenerateContent",
        choices: config("candidateCount").and_then(Value::as_u64).unwrap_or(1) as usize,
        max_tokens: config("maxOutputTokens").and_then(Value::as_u64),
        stops: stops
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        response_format: requested_format(&value),
        last_text: contents
            .iter()
            .rev()
            .find(|content| !is_model(&content))
            .map(text_of)
            .unwrap_or_default(),
        prompt_tokens: (text_bytes as u64).div_ceil(4).max(1),
        ..ChatRequest::default()
    })
}

/// Refuses members that the Gemini API accepts and Vertex AI refuses.
fn check_vertex(body: &Value, contents: &[Value]) -> Result<(), String> {
    let no_field = |name: &str, position: &str| {
        format!("Invalid JSON payload received. Unknown name \"{name}\"{position}: Cannot find field.")
    };
    for name in ["serviceTier", "service_tier", "store", "model"] {
        if body.get(name).is_some() {
            return Err(no_field(name, ""));
        }
    }
    for (turn, content) in contents.iter().enumerate() {
        if !matches!(
            content.get("role").and_then(Value::as_str),
            Some("user" | "model")
        ) {
            return Err("Please use a valid role: user, model.".to_owned());
        }
        let parts = content.get("parts").and_then(Value::as_array);
        for (index, part) in parts.into_iter().flatten().enumerate() {
            for name in [
                "functionCall",
                "function_call",
                "functionResponse",
                "function_response",
            ] {
                if part
                    .get(name)
                    .is_some_and(|function| function.get("id").is_some())
                {
                    return Err(no_field(
                        "id",
                        &format!(" at 'contents[{turn}].parts[{index}].{name}'"),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns the output format of the answer, in the form of a chat completion.
fn requested_format(body: &Value) -> Option<Value> {
    let config = body.get("generationConfig")?;
    if config.get("responseMimeType").and_then(Value::as_str) != Some("application/json") {
        return None;
    }
    let schema = config
        .get("responseJsonSchema")
        .or_else(|| config.get("responseSchema"));
    Some(match schema {
        Some(schema) => json!({"type": "json_schema", "json_schema": {"schema": schema}}),
        None => json!({"type": "json_object"}),
    })
}

/// Returns the texts of a content, or its last tool result.
fn text_of(content: &Value) -> String {
    let parts = content.get("parts").and_then(Value::as_array);
    let parts = || parts.into_iter().flatten();
    let result = parts()
        .filter_map(|part| part.get("functionResponse")?.get("response"))
        .next_back();
    match result {
        Some(response) => match response
            .as_object()
            .map(|object| object.values().collect::<Vec<_>>())
        {
            Some(values) if let [Value::String(text)] = values[..] => text.clone(),
            _ => response.to_string(),
        },
        None => parts().filter_map(|part| part.get("text")?.as_str()).collect(),
    }
}

/// Returns the response to an embeddings request: three numbers for each text, which depend on its
/// length.
pub(super) fn vectors(action: &str, body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    match action {
        "predict" => predictions(&value),
        "embedContent" => embedding(&value),
        _ => embeddings(&value),
    }
}

fn embedding(value: &Value) -> String {
    let text = text_of(&value["content"]);
    let tokens = text.len().div_ceil(4);
    json!({"embedding": {"values": [0.5, -0.25, text.len()]}, "usageMetadata": {"promptTokenCount": tokens}})
        .to_string()
}

fn predictions(value: &Value) -> String {
    let texts = value.get("instances").and_then(Value::as_array);
    let texts = texts
        .into_iter()
        .flatten()
        .map(|instance| instance["content"].as_str().unwrap_or_default());
    let predictions: Vec<Value> = texts
        .map(|text| {
            let statistics = json!({"token_count": text.len().div_ceil(4), "truncated": false});
            json!({"embeddings": {"values": [0.5, -0.25, text.len()], "statistics": statistics}})
        })
        .collect();
    json!({"predictions": predictions, "metadata": {"billableCharacterCount": 1}}).to_string()
}

fn embeddings(value: &Value) -> String {
    let requests = value.get("requests").and_then(Value::as_array);
    let texts: Vec<String> = requests
        .into_iter()
        .flatten()
        .map(|request| text_of(&request["content"]))
        .collect();
    let vectors: Vec<Value> = texts
        .iter()
        .map(|text| json!({"values": [0.5, -0.25, text.len()]}))
        .collect();
    let tokens: usize = texts.iter().map(|text| text.len().div_ceil(4)).sum();
    json!({"embeddings": vectors, "usageMetadata": {"promptTokenCount": tokens}}).to_string()
}

/// Returns the whole body, as JSON text.
pub(super) fn body(answer: &Answer, composed: &Composed) -> String {
    let candidates: Vec<Value> = composed
        .choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let parts: Vec<Value> = chunks(choice, composed, true)
                .into_iter()
                .map(|(part, _)| part)
                .collect();
            json!({
                "content": {"role": "model", "parts": parts},
                "finishReason": finish_reason(choice),
                "index": index,
            })
        })
        .collect();
    let mut object = envelope(composed, candidates);
    if let Some(usage) = usage(answer, composed, composed.tokens.completion) {
        object["usageMetadata"] = usage;
    }
    object.to_string()
}

/// Returns all events; the last one has the finish reason of each candidate.
pub(super) fn events(answer: &Answer, composed: &Composed) -> Vec<Event> {
    let (mut events, mut tokens_sent) = (Vec::new(), 0);
    for (index, choice) in composed.choices.iter().enumerate() {
        for (part, tokens) in chunks(choice, composed, false) {
            tokens_sent += tokens;
            let candidate = json!({"content": {"role": "model", "parts": [part]}, "index": index});
            let mut object = envelope(composed, vec![candidate]);
            if let Some(usage) = usage(answer, composed, tokens_sent) {
                object["usageMetadata"] = usage;
            }
            events.push(event(object, tokens_sent, None));
        }
    }
    let last = composed.choices.iter().enumerate().map(|(index, choice)| {
        json!({
            "content": {"role": "model", "parts": [{"text": ""}]},
            "finishReason": finish_reason(choice),
            "index": index,
        })
    });
    let mut object = envelope(composed, last.collect());
    let report = usage(answer, composed, composed.tokens.completion);
    if let Some(usage) = &report {
        object["usageMetadata"] = usage.clone();
    }
    let report = report.map(|usage| usage.to_string());
    events.push(Event {
        content: false,
        ..event(object, tokens_sent, report)
    });
    events
}

/// Returns the event that an endless stream repeats.
pub(super) fn filler(composed: &Composed, tokens_sent: u64) -> Event {
    let candidate = json!({"content": {"role": "model", "parts": [{"text": " more"}]}, "index": 0});
    event(envelope(composed, vec![candidate]), tokens_sent + 1, None)
}

fn event(object: Value, tokens_sent: u64, usage: Option<String>) -> Event {
    Event {
        data: object.to_string(),
        tokens_sent,
        usage,
        content: true,
    }
}

fn envelope(composed: &Composed, candidates: Vec<Value>) -> Value {
    json!({"candidates": candidates, "modelVersion": composed.model, "responseId": composed.id})
}

/// Returns the parts of a candidate with their tokens: one part for each kind, or one for each
/// token. The part after the reasoning has a signature.
fn chunks(choice: &Choice, composed: &Composed, whole: bool) -> Vec<(Value, u64)> {
    let mut parts = Vec::new();
    let mut push = |tokens: &[String], thought: bool| {
        let groups: Vec<&[String]> = match whole {
            true if tokens.is_empty() => Vec::new(),
            true => vec![tokens],
            false => tokens.chunks(1).collect(),
        };
        for group in groups {
            let mut part = json!({"text": group.concat()});
            if thought {
                part["thought"] = json!(true);
            }
            parts.push((part, group.len() as u64));
        }
    };
    push(&choice.reasoning, true);
    let thoughts = parts_count(choice.reasoning.len(), whole);
    push(&[&*choice.text, &*choice.refusal].concat(), false);
    for call in &choice.tool_calls {
        let args: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let part = json!({"functionCall": {"name": call.name, "args": args}});
        parts.push((part, call.chunks().len() as u64));
    }
    if !choice.reasoning.is_empty()
        && let Some((part, _)) = parts.get_mut(thoughts)
    {
        part["thoughtSignature"] = json!(format!("sig-{}", composed.id));
    }
    parts
}

fn parts_count(tokens: usize, whole: bool) -> usize {
    if whole { tokens.min(1) } else { tokens }
}

fn finish_reason(choice: &Choice) -> &str {
    match choice.finish_reason.as_str() {
        "stop" | "tool_calls" => "STOP",
        "length" => "MAX_TOKENS",
        "content_filter" => "SAFETY",
        other => other,
    }
}

/// Returns the usage with `completion` tokens so far; `None` if the script omits it.
fn usage(answer: &Answer, composed: &Composed, completion: u64) -> Option<Value> {
    let tokens = composed.tokens;
    match &answer.usage {
        Usage::Missing => None,
        Usage::Null => Some(Value::Null),
        Usage::Raw(text) => serde_json::from_str(text).ok(),
        Usage::Counted | Usage::Fixed { .. } => {
            let thoughts = tokens.reasoning.min(completion);
            Some(json!({
                "promptTokenCount": tokens.prompt,
                "cachedContentTokenCount": tokens.cached,
                "candidatesTokenCount": completion - thoughts,
                "thoughtsTokenCount": thoughts,
                "totalTokenCount": tokens.prompt + completion,
            }))
        }
    }
}
