//! Token counts of model servers with a tokenizer endpoint: vLLM's `/tokenize`, which applies the
//! chat template, and llama.cpp's `/apply-template` and `/tokenize`.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tollgate_upstream::{CallContext, CountProvider, TextCall, UpstreamError};

use super::adapter::OpenAiCompatible;
use super::presets::LabelServer;

/// Members of a chat request that the chat template uses.
const TEMPLATE_MEMBERS: [&str; 3] = ["messages", "tools", "chat_template_kwargs"];

/// Whether the server can apply the chat template to a chat request and count the tokens of the
/// result.
pub(super) fn has_counts(server: Option<LabelServer>) -> bool {
    matches!(server, Some(LabelServer::Vllm | LabelServer::LlamaCpp))
}

#[async_trait]
impl CountProvider for OpenAiCompatible {
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        let unknown = |what: &str| UpstreamError::protocol(format!("cannot count tokens: {what}"));
        let server = self.decisions.server();
        let server = server.ok_or_else(|| unknown("the server has no tokenize endpoint"))?;
        let body = self.prepare(call, &self.removed())?.body.joined();
        let chat: Map<String, Value> = serde_json::from_slice(&body)
            .map_err(|error| unknown(&format!("the request is not a JSON object ({error})")))?;
        let messages = chat
            .get("messages")
            .ok_or_else(|| unknown("the request has no messages"))?;
        // A tokenizer does not count the tokens of images and audio.
        if has_media(messages) {
            return Err(unknown("the request contains media"));
        }
        let shown = TEMPLATE_MEMBERS.iter();
        let mut asked: Map<String, Value> = shown
            .filter_map(|name| Some(((*name).to_owned(), chat.get(*name)?.clone())))
            .collect();
        let answer = match (server.kind, &server.template) {
            (LabelServer::LlamaCpp, Some(template)) => {
                let written = self.ask_json(ctx, template, &Value::Object(asked)).await?;
                let prompt = written.get("prompt").and_then(Value::as_str);
                let prompt = prompt.ok_or_else(|| unknown("the chat template returned no prompt"))?;
                let asked = json!({"content": prompt, "add_special": true, "parse_special": true});
                self.ask_json(ctx, &server.tokenize, &asked).await?
            }
            _ => {
                asked.insert("model".to_owned(), json!(call.upstream_model));
                asked.insert("add_generation_prompt".to_owned(), json!(true));
                self.ask_json(ctx, &server.tokenize, &Value::Object(asked))
                    .await?
            }
        };
        let tokens = answer.get("tokens").and_then(Value::as_array);
        let count = tokens.and_then(|tokens| u64::try_from(tokens.len()).ok());
        count
            .filter(|count| *count > 0)
            .ok_or_else(|| unknown("the response has no tokens"))
    }
}

fn has_media(messages: &Value) -> bool {
    let messages = messages.as_array().into_iter().flatten();
    let mut parts = messages.flat_map(|message| {
        message
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    });
    parts.any(|part| part.get("type").and_then(Value::as_str) != Some("text"))
}
