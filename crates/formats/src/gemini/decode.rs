//! Decoding of requests to the common form.

use serde_json::{Map, Value, json};
use tollgate_types::generate::{
    File, GenerateRequest, Message, Part, Place, Reasoning, ResponseFormat, Role, Sampling, Seal, Stored,
    Thinking, Tool, ToolCall, ToolChoice,
};

use super::head::Purpose;
use super::ids::PendingCalls;
use super::{schema, seals, validate, wire};
use crate::error::DecodeError;

/// Name for schemas, because this format has no schema names and other formats require one.
const DEFAULT_SCHEMA_NAME: &str = "answer";

/// Decodes a request. Accepts what [`validate()`] accepts, except features that the common form
/// cannot express. The caller sets the model and the stream flag, which are in the path.
pub fn decode_request(body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    validate(body, Purpose::Generate)?;
    request_from_wire(read(body)?)
}

/// Decodes a request for token counting.
pub fn decode_count(body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    validate(body, Purpose::Count)?;
    let wrapped: wire::CountRequest = read(body)?;
    match wrapped.generate_content_request {
        Some(request) => request_from_wire(request),
        None => request_from_wire(read(body)?),
    }
}

fn read<'de, T: serde::Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))
}

fn request_from_wire(request: wire::Request) -> Result<GenerateRequest, DecodeError> {
    let mut messages: Vec<Message> = request.system_instruction.into_iter().map(system).collect();
    let mut open = PendingCalls::default();
    for (index, content) in request.contents.into_iter().enumerate() {
        turn(content, index, &mut open, &mut messages);
    }
    let config = request.generation_config.unwrap_or_default();
    let calling = request
        .tool_config
        .and_then(|config| config.function_calling_config)
        .unwrap_or_default();
    let mode = calling.mode.unwrap_or_default().to_ascii_uppercase();
    let thinking = config.thinking_config.unwrap_or_default();
    let is_validated = mode == "VALIDATED";
    let tools = request.tools.unwrap_or_default().into_iter();
    Ok(GenerateRequest {
        model: String::new(),
        messages,
        max_tokens: config.max_output_tokens,
        n: config.candidate_count.unwrap_or(1),
        stream: false,
        // The format always reports usage.
        include_usage: true,
        stop: config.stop_sequences.unwrap_or_default(),
        sampling: Sampling {
            temperature: config.temperature,
            top_p: config.top_p,
            top_k: config.top_k.map(|wire::Whole(top_k)| top_k),
            frequency_penalty: config.frequency_penalty,
            presence_penalty: config.presence_penalty,
            seed: config.seed,
        },
        tools: tools
            .flat_map(|tool| tool.function_declarations.unwrap_or_default())
            .map(|declaration| tool_from_wire(declaration, is_validated))
            .collect(),
        tool_choice: choice(&mode, calling.allowed_function_names.unwrap_or_default()),
        parallel_tool_calls: None,
        response_format: format(
            config.response_mime_type.as_deref(),
            config.response_json_schema,
            config.response_schema,
        )?,
        reasoning_effort: thinking.thinking_level.and_then(|level| effort(&level)),
        thinking: thinking.thinking_budget.map(|budget| match budget {
            0 => Thinking::Off,
            1.. => Thinking::Budget(budget.cast_unsigned()),
            _ => Thinking::Adaptive,
        }),
        hide_reasoning: thinking.include_thoughts != Some(true),
        user: None,
        top_logprobs: (config.response_logprobs == Some(true)).then(|| config.logprobs.unwrap_or(0)),
        extra: Map::new(),
    })
}

fn effort(level: &str) -> Option<String> {
    let level = level.to_ascii_lowercase();
    (level != "thinking_level_unspecified").then_some(level)
}

fn choice(mode: &str, mut names: Vec<String>) -> ToolChoice {
    match (mode, names.len()) {
        ("NONE", _) => ToolChoice::None,
        ("ANY", 0) => ToolChoice::Required,
        ("ANY", 1) => ToolChoice::Named(names.remove(0)),
        ("ANY", _) => ToolChoice::Allowed {
            required: true,
            names,
        },
        ("VALIDATED", 1..) => ToolChoice::Allowed {
            required: false,
            names,
        },
        _ => ToolChoice::Auto,
    }
}

fn format(
    mime_type: Option<&str>,
    json_schema: Option<Value>,
    openapi: Option<Value>,
) -> Result<ResponseFormat, DecodeError> {
    match (
        mime_type,
        json_schema.or_else(|| openapi.map(schema::from_openapi)),
    ) {
        (Some("text/x.enum"), _) => Err(DecodeError::unsupported(
            "generationConfig.responseMimeType",
            "is 'text/x.enum', which this model does not support",
        )),
        (Some("application/json"), Some(schema)) => Ok(ResponseFormat::JsonSchema {
            name: DEFAULT_SCHEMA_NAME.to_owned(),
            description: None,
            schema,
            strict: None,
        }),
        (Some("application/json"), None) => Ok(ResponseFormat::JsonObject),
        _ => Ok(ResponseFormat::Text),
    }
}

fn tool_from_wire(declaration: wire::FunctionDeclaration, is_validated: bool) -> Tool {
    let openapi = declaration.parameters.map(schema::from_openapi);
    Tool::Function {
        name: declaration.name,
        description: declaration.description,
        parameters: declaration.parameters_json_schema.or(openapi),
        strict: is_validated.then_some(true),
        cache: None,
    }
}

fn place(path: &str) -> Place {
    Place {
        path: path.to_owned(),
        content: format!("{path}.parts"),
        first: Some(0),
        apart: None,
    }
}

fn system(content: wire::Content) -> Message {
    Message {
        role: Role::System,
        parts: content.parts.into_iter().filter_map(part_from_wire).collect(),
        place: place("systemInstruction"),
        ..Message::default()
    }
}

/// Converts a turn to one message of the common form, or to several if it has tool results. The
/// messages with tool results come first.
fn turn(content: wire::Content, index: usize, open: &mut PendingCalls, into: &mut Vec<Message>) {
    let path = format!("contents[{index}]");
    if content.role.as_deref() == Some("model") {
        let (parts, tool_calls) = parts_and_calls(content.parts, |number, id, name| {
            open.call(index, number, id, name)
        });
        into.push(Message {
            role: Role::Assistant,
            parts,
            tool_calls,
            place: place(&path),
            ..Message::default()
        });
        return;
    }
    let mut turn = Message {
        role: Role::User,
        place: place(&path),
        ..Message::default()
    };
    for (number, mut part) in content.parts.into_iter().enumerate() {
        match part.function_response.take() {
            Some(response) => {
                let path = format!("{path}.parts[{number}].functionResponse");
                into.push(result(response, open, &path));
            }
            None => turn.parts.extend(part_from_wire(part)),
        }
    }
    if !turn.parts.is_empty() {
        into.push(turn);
    }
}

/// Returns the parts and the calls of a model turn; `id_of` returns the ids of the calls. A
/// signature on a part that is not a thought becomes hidden reasoning before this part.
pub(super) fn parts_and_calls(
    parts: Vec<wire::Part>,
    mut id_of: impl FnMut(usize, Option<String>, &str) -> String,
) -> (Vec<Part>, Vec<ToolCall>) {
    let (mut out, mut calls) = (Vec::with_capacity(parts.len()), Vec::new());
    for mut part in parts {
        if part.thought != Some(true)
            && let Some(seal) = part
                .thought_signature
                .take()
                .and_then(|text| seals::unwrap(&text))
        {
            out.push(hidden(seal));
        }
        match part.function_call.take() {
            Some(call) => calls.push(ToolCall {
                id: id_of(calls.len(), call.id, &call.name),
                name: call.name,
                arguments: call
                    .args
                    .map_or_else(|| "{}".to_owned(), |args| args.get().to_owned()),
                custom: false,
            }),
            None => out.extend(part_from_wire(part)),
        }
    }
    // A signature at the end of a stream is in a part with an empty text, which is not needed.
    out.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    (out, calls)
}

fn hidden(seal: Seal) -> Part {
    Part::Reasoning(Reasoning {
        text: None,
        seal: Some(seal),
    })
}

fn part_from_wire(part: wire::Part) -> Option<Part> {
    if let Some(text) = part.text {
        return Some(match part.thought {
            Some(true) => Part::Reasoning(Reasoning {
                text: Some(text),
                seal: part.thought_signature.and_then(|text| seals::unwrap(&text)),
            }),
            _ => Part::Text(text),
        });
    }
    if let Some(file) = part.file_data {
        return Some(match stored_id(&file.file_uri) {
            None => Part::Image {
                url: file.file_uri,
                detail: None,
            },
            Some(id) => Part::Stored(Stored {
                id: id.to_owned(),
                is_image: file.mime_type.as_deref().is_some_and(is_image),
                detail: None,
                filename: None,
                field: "fileData.fileUri",
            }),
        });
    }
    part.inline_data.map(media)
}

/// Returns the id of an uploaded file, from `files/{id}` or from a URL whose path is `files/{id}`
/// after the API version. The host is ignored: an id of another service does not exist in the
/// caller's account.
pub(crate) fn stored_id(uri: &str) -> Option<&str> {
    let name = match uri.split_once("://") {
        None => uri,
        Some((_, rest)) => {
            let (_, path) = rest.split_once('/')?;
            path.strip_prefix("v1beta/")
                .or_else(|| path.strip_prefix("v1/"))?
        }
    };
    let id = name.strip_prefix("files/").filter(|id| !id.is_empty())?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    id.bytes().all(is_plain).then_some(id)
}

/// Whether a media type is `image/…`, ignoring case.
fn is_image(mime_type: &str) -> bool {
    mime_type.to_ascii_lowercase().starts_with("image/")
}

fn media(blob: wire::Blob) -> Part {
    let mime_type = blob.mime_type.to_ascii_lowercase();
    let data = standard(blob.data);
    let url = || format!("data:{mime_type};base64,{data}");
    match &*mime_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Part::Audio {
            format: "wav".to_owned(),
            data,
        },
        "audio/mp3" | "audio/mpeg" => Part::Audio {
            format: "mp3".to_owned(),
            data,
        },
        "text/plain" => match seals::decode(&data).and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(text) => Part::File(File {
                text: Some(text),
                filename: blob.display_name,
                ..File::default()
            }),
            None => foreign(&mime_type, &data),
        },
        _ if mime_type.starts_with("image/") => Part::Image {
            url: url(),
            detail: None,
        },
        _ if mime_type.starts_with("audio/") || mime_type.starts_with("video/") => foreign(&mime_type, &data),
        _ => Part::File(File {
            data: Some(url()),
            filename: blob.display_name,
            ..File::default()
        }),
    }
}

/// Returns a part for media that other formats cannot express.
fn foreign(mime_type: &str, data: &str) -> Part {
    Part::Foreign {
        kind: "inlineData".to_owned(),
        value: json!({"inlineData": {"mimeType": mime_type, "data": data}}),
    }
}

/// Converts base64 to the standard alphabet with padding: the official clients use the URL-safe
/// alphabet.
fn standard(data: String) -> String {
    if !data.bytes().any(|byte| matches!(byte, b'-' | b'_')) {
        return data;
    }
    let mut data = data.replace('-', "+").replace('_', "/");
    while !data.len().is_multiple_of(4) {
        data.push('=');
    }
    data
}

fn result(response: wire::FunctionResponse, open: &mut PendingCalls, path: &str) -> Message {
    let id = open.answer(response.id.as_deref(), &response.name);
    let (text, is_error) = result_text(response.response.get());
    let mut parts = vec![Part::Text(text)];
    let media = response.parts.unwrap_or_default();
    parts.extend(media.into_iter().filter_map(part_from_wire));
    Message {
        role: Role::Tool,
        parts,
        // A validated result always belongs to a call.
        tool_call_id: Some(id.unwrap_or_else(|| response.name.clone())),
        is_error,
        place: Place {
            path: path.to_owned(),
            content: format!("{path}.parts"),
            first: Some(0),
            apart: Some(format!("{path}.response")),
        },
        ..Message::default()
    }
}

/// Returns the text of a result, and whether the tool failed. This format encodes a text as
/// `{"result": text}` or `{"error": text}`.
fn result_text(response: &str) -> (String, bool) {
    if let Some((name, text)) = wrapped_text(response) {
        return (text, name == "error");
    }
    (response.to_owned(), false)
}

/// Returns the only member of an object, if its name is `result` or `error` and its value is a
/// text.
pub(super) fn wrapped_text(response: &str) -> Option<(String, String)> {
    let object: Map<String, Value> = serde_json::from_str(response).ok()?;
    let mut fields = object.into_iter();
    match (fields.next(), fields.next()) {
        (Some((name, Value::String(text))), None) if matches!(&*name, "result" | "error") => {
            Some((name, text))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::stored_id;

    #[test]
    fn file_names_are_distinguished_from_urls() {
        let ours = [
            "files/file-1",
            "https://gateway.example/v1beta/files/file-1",
            "http://127.0.0.1:8080/v1/files/file-1",
            "https://other.example/v1beta/files/file-1",
        ];
        for uri in ours {
            assert_eq!(stored_id(uri), Some("file-1"), "{uri}");
        }
        let addresses = [
            "https://example.com/a.png",
            "https://example.com/v1/files/a.png",
            "https://example.com/files/file-1",
            "https://example.com/v1/files/",
            "https://example.com/v1/files/a/b",
            "https://example.com",
            "files/",
            "gs://bucket/file-1",
        ];
        for uri in addresses {
            assert_eq!(stored_id(uri), None, "{uri}");
        }
    }
}
