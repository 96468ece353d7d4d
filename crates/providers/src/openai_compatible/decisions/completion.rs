//! Labels by llama.cpp's `/completion`, which returns many more top tokens than chat completions.
//! The prompt is formatted with the model's chat template first.

use serde_json::{Value, json};
use tollgate_types::Usage;
use tollgate_upstream::{CallContext, LabelCall, LabelReading, UpstreamError};

use super::chat::messages;
use super::{COMPLETION_TOKENS, ServerEndpoints};
use crate::decisions::{reading, token_logprobs};
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
        // With a negative temperature, llama.cpp reports the model's unmodified probabilities.
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
        let token_logprobs = list.map_or(Ok(Vec::new()), |list| token_logprobs(list))?;
        let tokens = |name: &str| answer.get(name)?.as_u64();
        let usage = tokens("tokens_evaluated").zip(tokens("tokens_predicted"));
        let usage = usage.map(|(input, output)| Usage::tokens(input, output));
        let read = reading(&token_logprobs, &call.labels, COMPLETION_TOKENS)?;
        Ok(read.map(|read| LabelReading { usage, ..read }))
    }
}
