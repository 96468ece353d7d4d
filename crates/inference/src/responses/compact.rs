//! Makes a long conversation short: what users said stays, and a model writes down what came of it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::openai_responses::input_items;
use tollgate_types::{AccountId, Error, ErrorCode};

use super::kept::Kept;
use super::recall::recall;
use super::service::{self, Answer, Request, validate};
use crate::Inference;

/// What the model is told to do.
const TASK: &str = "You are given the record of a conversation between a user and an assistant that may call tools. \
    Write down what the assistant needs to know to go on without the record: what was asked for, what was found and \
    decided, what was done and with which result, what is still to be done, and names, paths, numbers and quotes that \
    will be needed again. Write it as notes, without an introduction, and do not answer the user.";

/// What a model is told of the notes when the conversation goes on.
const INTRODUCTION: &str = "The conversation before this point was compacted. These are the notes of it:\n\n";

/// The items that stand for a conversation.
pub(super) async fn compact(
    inference: &Inference,
    ctx: &Arc<RequestContext>,
    caller: Caller,
    body: Bytes,
) -> Result<Value, Error> {
    let account = caller.account_id();
    let recalled = recall(&inference.kept, None, account, body).await?;
    let head = validate(&recalled.body).map_err(|error| recalled.in_callers_places(error))?;
    let items = input_items(&recalled.body)?;
    let request = json!({
        "model": head.model,
        "instructions": TASK,
        "input": record(&items),
        "store": false,
    });
    let answer = service::create(Request {
        inference,
        ctx,
        caller,
        body: Bytes::from(request.to_string()),
        latest: None,
    });
    let Answer::Whole(response) = answer.await? else {
        return Err(Error::internal(
            "a response that was asked for as a whole came in pieces",
        ));
    };
    let response: Value =
        serde_json::from_slice(&response).map_err(|error| Error::internal(error.to_string()))?;
    let notes = text_of(&response["output"]);
    if notes.trim().is_empty() {
        let message = "The model wrote no notes of the conversation. Try again, or choose another model.";
        return Err(Error::new(ErrorCode::UpstreamError, message));
    }
    let id = ctx.id.as_u128();
    let mut output: Vec<Value> = items.into_iter().filter(is_of_user).collect();
    output.push(json!({
        "type": "compaction",
        "id": format!("cmp_{id:032x}"),
        "encrypted_content": inference.kept.seal_text(account, &notes)?,
    }));
    Ok(json!({
        "id": response["id"],
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": output,
        "usage": response["usage"],
    }))
}

/// What a model is told in place of an item that stands for a conversation; nothing for other items.
pub(super) fn summary(kept: &Kept, account: AccountId, item: &Value) -> Option<String> {
    if item["type"] != "compaction" {
        return None;
    }
    let notes = kept.open_text(account, item["encrypted_content"].as_str()?)?;
    Some(format!("{INTRODUCTION}{notes}"))
}

fn is_of_user(item: &Value) -> bool {
    item["role"] == "user"
}

/// The conversation as one text: a model may lack the tools that were called in it.
fn record(items: &[Value]) -> String {
    let mut record = String::new();
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
        record.push_str(&format!("[{who}]\n{what}\n\n"));
    }
    record
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text in a content, in parts, or in the messages of an output.
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
    fn the_record_says_who_said_what() {
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
        let record = record(items.as_array().unwrap());
        assert_eq!(
            record,
            "[user]\nLook at\n\n[user]\nthis:\n(image)\n\n[assistant calls]\nlook({\"at\":1})\n\n\
             [tool answers]\na cat\n\n[assistant]\nA cat.\n\n"
        );
    }
}
