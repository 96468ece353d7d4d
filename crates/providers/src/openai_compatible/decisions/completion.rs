//! Labels by llama.cpp's own `/completion`, which tells many more of the likeliest tokens than chat completions do. The turn is
//! written by the model's own template before.

use serde_json::{Value, json};
use tollgate_upstream::{CallContext, LabelCall, LabelReading, UpstreamError};

use super::chat::messages;
use super::{COMPLETION_TOKENS, ServerEndpoints};
use crate::deciding::{reading, told};
use crate::openai_compatible::OpenAiCompatible;

impl OpenAiCompatible {
    pub(super) async fn read_completion(
        &self,
        ctx: &CallContext,
        server: &ServerEndpoints,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let (Some(complete), Some(template)) = (&server.complete, &server.template) else {
            return Ok(None);
        };
        let turn = json!({
            "messages": messages(call),
            "chat_template_kwargs": {"enable_thinking": false},
        });
        let written = self.ask_json(ctx, template, &turn).await?;
        let Some(prompt) = written.get("prompt").and_then(Value::as_str) else {
            return Ok(None);
        };
        // Below zero nothing but the model's own numbers counts.
        let body = json!({
            "prompt": prompt,
            "n_predict": 1,
            "n_probs": COMPLETION_TOKENS,
            "temperature": -1,
            "cache_prompt": true,
            "stream": false,
        });
        let answer = self.ask_json(ctx, complete, &body).await?;
        let first = [
            "/completion_probabilities/0/top_logprobs",
            "/probs/0/top_logprobs",
        ];
        let list = first
            .into_iter()
            .find_map(|place| answer.pointer(place)?.as_array());
        let told = list.map_or(Ok(Vec::new()), |list| told(list))?;
        reading(&told, &call.labels, COMPLETION_TOKENS)
    }
}
