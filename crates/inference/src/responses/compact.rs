//! Compacts a long conversation: the messages of the user remain, and a model summarizes the rest.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::openai_responses::{input_items, listed_item};
use tollgate_types::{AccountId, Error, ErrorCode};

use super::conversation::resolve;
use super::service::{self, Answer, Request, validate};
use super::store::Responses;
use crate::Inference;

/// Instructions for the model that writes the summary.
const SUMMARY_INSTRUCTIONS: &str = "You are given the record of a conversation between a user and an assistant that may call tools. \
    Write down what the assistant needs to know to go on without the record: what was asked for, what was found and \
    decided, what was done and with which result, what is still to be done, and names, paths, numbers and quotes that \
    will be needed again. Write it as notes, without an introduction, and do not answer the user.";

/// Text before the summary when the conversation continues.
const SUMMARY_INTRODUCTION: &str =
    "The conversation before this point was compacted. These are the notes of it:\n\n";

/// Returns the compacted conversation: the user's messages and a `compaction` item.
pub(super) async fn compact(
    inference: &Inference,
    ctx: &Arc<RequestContext>,
    caller: Caller,
    body: Bytes,
) -> Result<Value, Error> {
    let account = caller.account_id();
    let resolved = resolve(&inference.responses, None, account, body).await?;
    let head = validate(&resolved.body).map_err(|error| resolved.with_request_paths(error))?;
    let items = input_items(&resolved.body)?;
    let request = json!({
        "model": head.model,
        "instructions": SUMMARY_INSTRUCTIONS,
        "input": transcript(&items),
        "store": false,
    });
    let answer = service::create(Request {
        inference,
        ctx,
        caller,
        origin: None,
        body: Bytes::from(request.to_string()),
        latest: None,
    });
    let Answer::Whole(response) = answer.await? else {
        return Err(Error::internal("unexpected stream for a non-streaming request"));
    };
    let response: Value =
        serde_json::from_slice(&response).map_err(|error| Error::internal(error.to_string()))?;
    let notes = text_of(&response["output"]);
    if notes.trim().is_empty() {
        let message = "The model returned an empty summary. Retry, or choose another model.";
        return Err(Error::new(ErrorCode::UpstreamError, message));
    }
    let id = ctx.id.as_u128();
    let messages = items.into_iter().filter(is_of_user).enumerate();
    let mut output: Vec<Value> = messages
        .map(|(index, item)| completed(listed_item(item, id, index)))
        .collect();
    output.push(json!({
        "type": "compaction",
        "id": format!("cmp_{id:032x}"),
        "encrypted_content": inference.responses.seal_text(account, &notes)?,
    }));
    Ok(json!({
        "id": response["id"],
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": output,
        "usage": response["usage"],
    }))
}

/// Decrypts the summary of a `compaction` item; `None` for other items.
pub(super) fn summary(responses: &Responses, account: AccountId, item: &Value) -> Option<String> {
    if item["type"] != "compaction" {
        return None;
    }
    let notes = responses.open_text(account, item["encrypted_content"].as_str()?)?;
    Some(format!("{SUMMARY_INTRODUCTION}{notes}"))
}

/// Adds the status that the format requires for output items.
fn completed(mut item: Value) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.entry("status").or_insert_with(|| "completed".into());
    }
    item
}

fn is_of_user(item: &Value) -> bool {
    item["role"] == "user"
}

/// Writes the conversation as one text, because the summarizing model may not support the tools
/// that were called.
fn transcript(items: &[Value]) -> String {
    let mut transcript = String::new();
    for item in items {
        let (who, what) = match item["type"].as_str().unwrap_or("message") {
            "message" => (item["role"].as_str().unwrap_or("user"), text_of(&item["content"])),
            "function_call" => (
                "assistant calls",
                format!("{}({})", plain(&item["name"]), plain(&item["arguments"])),
            ),
            "custom_tool_call" => (
                "assistant calls",
                format!("{}({})", plain(&item["name"]), plain(&item["input"])),
            ),
            "function_call_output" | "custom_tool_call_output" => ("tool answers", text_of(&item["output"])),
            _ => continue,
        };
        transcript.push_str(&format!("[{who}]\n{what}\n\n"));
    }
    transcript
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the text of a message's content, a tool call's output, or a response's output.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => match (part.get("text"), part.get("content"), part.get("type")) {
            (Some(text), ..) => plain(text).to_owned(),
            (_, Some(content), _) => text_of(content),
            (.., Some(kind)) => match plain(kind) {
                "refusal" => plain(&part["refusal"]).to_owned(),
                "reasoning" | "function_call" => String::new(),
                other => format!("({})", other.trim_start_matches("input_")),
            },
            _ => String::new(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcript_labels_every_speaker() {
        let items = json!([
            {"role": "user", "content": "Look at"},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "this:"}, {"type": "input_image", "image_url": "data:…"}
            ]},
            {"type": "function_call", "name": "look", "arguments": "{\"at\":1}", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": "a cat"},
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A cat."}]},
        ]);
        let transcript = transcript(items.as_array().unwrap());
        assert_eq!(
            transcript,
            "[user]\nLook at\n\n[user]\nthis:\n(image)\n\n[assistant calls]\nlook({\"at\":1})\n\n\
             [tool answers]\na cat\n\n[assistant]\nA cat.\n\n"
        );
    }
}
