//! Turns and their blocks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::generate::{CacheLife, File, Message, Part, Reasoning, Role};

use crate::anthropic_messages::encode::{inline, input_of};

/// A block of content: one of these is there.
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
    /// The caller's own text.
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

/// The mark. Five minutes are what is meant when nothing is said.
pub(super) fn cache_point(life: CacheLife) -> Value {
    match life {
        CacheLife::FiveMinutes => json!({"type": "default"}),
        CacheLife::OneHour => json!({"type": "default", "ttl": "1h"}),
    }
}

/// A turn.
#[derive(Debug, Serialize)]
pub(super) struct Turn {
    role: &'static str,
    content: Vec<Block>,
}

/// Turns of one side follow each other as one, and the results of tools come first in the user's.
pub(super) fn turns(messages: &[Message]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut documents = 0;
    for message in messages {
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

/// The blocks of a turn. `documents` counts those of the whole request: each has a name of its own.
pub(super) fn blocks_of(message: &Message, documents: &mut usize) -> Vec<Block> {
    let parts = message.parts.iter();
    parts.filter_map(|part| block_of(part, documents)).collect()
}

fn result_of(message: &Message, documents: &mut usize) -> Block {
    // Marks stand behind a result and not within it.
    let said = message.parts.iter().filter(|part| mark_of(part).is_none());
    let content: Vec<Block> = said.filter_map(|part| block_of(part, documents)).collect();
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

/// The block of a part. Empty texts are refused by the format and say nothing.
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
            let (format, bytes) = picture(url)?;
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

/// Reasoning goes back only with what its provider sealed it with.
fn reasoning_of(reasoning: &Reasoning) -> Option<Value> {
    let seal = reasoning.seal.as_ref().filter(|seal| !seal.data.is_empty())?;
    Some(match &reasoning.text {
        Some(text) => json!({"reasoningText": {"text": text, "signature": seal.data}}),
        None => json!({"redactedContent": seal.data}),
    })
}

/// Format and base64 of a picture that is in the request itself.
pub(super) fn picture(url: &str) -> Option<(&'static str, &str)> {
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

/// Format and base64 of a document that is in the request itself.
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

/// Letters, digits, hyphens, brackets and single spaces are allowed, and no name may come twice.
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
