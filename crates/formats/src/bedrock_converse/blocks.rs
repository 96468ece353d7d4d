//! Encoding of turns and their blocks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::generate::{CacheLife, File, Message, Part, Reasoning, Role};

use crate::anthropic_messages::encode::{inline, input_of};

/// Content block. Exactly one field is set.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Block {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use: Option<ToolUse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_point: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse {
    tool_use_id: String,
    name: String,
    /// Arguments of the call, verbatim.
    input: Box<RawValue>,
}

impl Block {
    fn cache_point(life: CacheLife) -> Self {
        Self {
            cache_point: Some(cache_point(life)),
            ..Self::default()
        }
    }
}

/// Returns the cache point object. Without `ttl`, the lifetime is five minutes.
pub(super) fn cache_point(life: CacheLife) -> Value {
    match life {
        CacheLife::FiveMinutes => json!({"type": "default"}),
        CacheLife::OneHour => json!({"type": "default", "ttl": "1h"}),
    }
}

/// Turn of the conversation: consecutive messages that have the same role in this format.
#[derive(Debug, Serialize)]
pub(super) struct Turn {
    role: &'static str,
    content: Vec<Block>,
}

/// Joins consecutive messages into turns. System and tool messages belong to the user's turns, in
/// which tool results come first.
pub(super) fn turns(messages: &[Message]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut documents = 0;
    let is_assistant = |message: &Message| message.role == Role::Assistant;
    let groups = messages.chunk_by(|one, next| is_assistant(one) == is_assistant(next));
    let in_order = groups.flat_map(|group| {
        let (results, others): (Vec<&Message>, Vec<&Message>) =
            group.iter().partition(|message| message.role == Role::Tool);
        results.into_iter().chain(others)
    });
    for message in in_order {
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::System | Role::User | Role::Tool => "user",
        };
        let mut content = match message.role {
            Role::Tool => {
                let mark = message.parts.iter().rev().find_map(mark_of);
                let mut blocks = vec![result_of(message, &mut documents)];
                blocks.extend(mark.map(Block::cache_point));
                blocks
            }
            _ => blocks_of(message, &mut documents),
        };
        content.extend(message.tool_calls.iter().map(|call| Block {
            tool_use: Some(ToolUse {
                tool_use_id: call.id.clone(),
                name: call.name.clone(),
                input: input_of(&call.arguments),
            }),
            ..Block::default()
        }));
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.append(&mut content),
            _ if content.is_empty() => {}
            _ => turns.push(Turn { role, content }),
        }
    }
    turns
}

/// Returns the blocks of a turn. `documents` counts the documents of the whole request, for unique
/// names.
pub(super) fn blocks_of(message: &Message, documents: &mut usize) -> Vec<Block> {
    let parts = message.parts.iter();
    parts.filter_map(|part| block_of(part, documents)).collect()
}

fn result_of(message: &Message, documents: &mut usize) -> Block {
    // Cache points are added after the result, not inside it.
    let parts = message.parts.iter().filter(|part| mark_of(part).is_none());
    let content: Vec<Block> = parts.filter_map(|part| block_of(part, documents)).collect();
    let mut result = json!({"toolUseId": message.tool_call_id, "content": content});
    if message.is_error {
        result["status"] = json!("error");
    }
    Block {
        tool_result: Some(result),
        ..Block::default()
    }
}

fn mark_of(part: &Part) -> Option<CacheLife> {
    match part {
        Part::CacheBreakpoint(life) => Some(*life),
        _ => None,
    }
}

/// Returns the block of a part; `None` for an empty text, which the format refuses, for reasoning
/// without a signature, and for parts that the format cannot represent.
fn block_of(part: &Part, documents: &mut usize) -> Option<Block> {
    let block = Block::default();
    Some(match part {
        Part::Text(text) | Part::Refusal(text) => Block {
            text: Some(text.clone()).filter(|text| !text.is_empty())?.into(),
            ..block
        },
        Part::Reasoning(reasoning) => Block {
            reasoning_content: Some(reasoning_of(reasoning)?),
            ..block
        },
        Part::Image { url, .. } => {
            let (format, bytes) = inline_image(url)?;
            Block {
                image: Some(json!({"format": format, "source": {"bytes": bytes}})),
                ..block
            }
        }
        Part::File(file) => {
            let (format, bytes) = document(file)?;
            *documents += 1;
            let name = document_name(file.filename.as_deref(), *documents);
            Block {
                document: Some(json!({"format": format, "name": name, "source": {"bytes": bytes}})),
                ..block
            }
        }
        Part::CacheBreakpoint(life) => Block::cache_point(*life),
        Part::Audio { .. } | Part::Stored(_) | Part::Foreign { .. } => return None,
    })
}

/// Returns the block of reasoning; `None` without a signature or redacted content, because
/// reasoning is sent back only with either of them.
fn reasoning_of(reasoning: &Reasoning) -> Option<Value> {
    let seal = reasoning.seal.as_ref().filter(|seal| !seal.data.is_empty())?;
    Some(match &reasoning.text {
        Some(text) => json!({"reasoningText": {"text": text, "signature": seal.data}}),
        None => json!({"redactedContent": seal.data}),
    })
}

/// Returns the format and the base64 data of an image in a data URL; `None` for other URLs and for
/// types other than PNG, JPEG, GIF and WebP.
pub(super) fn inline_image(url: &str) -> Option<(&'static str, &str)> {
    let (media_type, bytes) = inline(url)?;
    let format = match media_type {
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    };
    Some((format, bytes))
}

/// Returns the format and the base64 data of a document that is sent as text or as a data URL;
/// `None` for other documents and for unsupported types.
pub(super) fn document(file: &File) -> Option<(&'static str, String)> {
    if let Some(text) = &file.text {
        return Some(("txt", STANDARD.encode(text)));
    }
    let (media_type, bytes) = inline(file.data.as_deref()?)?;
    let format = match media_type {
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "text/csv" => "csv",
        "text/html" => "html",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        _ => return None,
    };
    Some((format, bytes.to_owned()))
}

/// Returns a document name that ends with `number`, and so is unique. The format allows letters,
/// digits, hyphens, parentheses, square brackets and single spaces; other characters become spaces.
fn document_name(filename: Option<&str>, number: usize) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-()[]".contains(c);
    let plain: String = filename
        .unwrap_or("document")
        .chars()
        .take(150)
        .map(|c| if allowed(c) { c } else { ' ' })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    format!("{} {number}", words.join(" ")).trim().to_owned()
}
