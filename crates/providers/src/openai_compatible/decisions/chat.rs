//! Labels by chat completions: from the log probabilities of a one-token response, or from sampled
//! answers.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tollgate_formats::decisions::{StatePart, state_parts};
use tollgate_formats::openai_chat::{CapName, decode_response, inspect_response};
use tollgate_types::decide::{StateMedia, StateMediaKind};
use tollgate_types::generate::GenerateResponse;
use tollgate_upstream::{CallContext, Draw, LabelCall, LabelDraws, LabelReading, UpstreamError};

use crate::decisions::{base64_of, chat_logprobs, count_answers, reading, schema};
use crate::http::{RequestBody, Timeouts};
use crate::openai_compatible::OpenAiCompatible;
use crate::refusal;

/// Returns the state and the question as one user message.
pub(super) fn messages(call: &LabelCall) -> Value {
    if call.state.media.is_empty() {
        let text = format!("{}\n\n{}", call.state.text, call.question);
        return json!([{"role": "user", "content": text}]);
    }
    let text = |text: &str| json!({"type": "text", "text": text});
    let state = state_parts(&call.state).into_iter().map(|part| match part {
        StatePart::Text(part_text) => text(part_text),
        StatePart::Medium(medium) => part_of(medium),
    });
    let parts: Vec<Value> = state.chain([text(&call.question)]).collect();
    json!([{"role": "user", "content": parts}])
}

fn part_of(medium: &StateMedia) -> Value {
    let url = &medium.url;
    match medium.kind {
        StateMediaKind::Image => json!({"type": "image_url", "image_url": {"url": url}}),
        StateMediaKind::Video => json!({"type": "video_url", "video_url": {"url": url}}),
        StateMediaKind::Audio => {
            let (format, data) = base64_of(url);
            json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
        }
    }
}

impl OpenAiCompatible {
    /// Returns the members that all chat requests share: model, messages, output cap, temperature,
    /// and the fields that disable thinking.
    pub(super) fn base_body(&self, call: &LabelCall, tokens: u64) -> Map<String, Value> {
        let cap = match self.preset.cap_name {
            CapName::MaxCompletionTokens => "max_completion_tokens",
            CapName::AsSent | CapName::MaxTokens => "max_tokens",
        };
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(call.upstream_model));
        body.insert("messages".to_owned(), messages(call));
        body.insert(cap.to_owned(), json!(tokens));
        body.insert("temperature".to_owned(), json!(1));
        let no_thinking_fields = self.decisions.row.no_thinking_fields.iter();
        body.extend(
            no_thinking_fields
                .filter_map(|(name, value)| Some((name.to_string(), serde_json::from_str(value).ok()?))),
        );
        body
    }

    /// Posts to the chat completions endpoint. Returns an error for a response without choices.
    pub(super) async fn ask_chat(
        &self,
        ctx: &CallContext,
        model: &str,
        body: Map<String, Value>,
    ) -> Result<GenerateResponse, UpstreamError> {
        let body = RequestBody::from(Bytes::from(Value::Object(body).to_string()));
        let path = self.preset.chat_path;
        let response = self
            .post(&self.chat, path, model, body, Timeouts::of(ctx))
            .await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        let body = response.whole(self.http.settings().body_limit).await?;
        let unreadable =
            |_| UpstreamError::protocol(format!("the response cannot be parsed ({} bytes)", body.len()));
        if inspect_response(&body).map_err(unreadable)?.is_error {
            return Err(refusal::from_object(&body));
        }
        let answer = decode_response(&body).map_err(unreadable)?;
        match answer.choices.is_empty() {
            true => Err(UpstreamError::protocol("the response has no choices")),
            false => Ok(answer),
        }
    }

    pub(super) async fn read_chat(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let (row, memory) = (self.decisions.row, &self.decisions.memory);
        let max = memory.max(&call.upstream_model, row.top_logprobs);
        let mut body = self.base_body(call, 1);
        body.insert("logprobs".to_owned(), json!(true));
        body.insert("top_logprobs".to_owned(), json!(max));
        let answer = self.ask_chat(ctx, &call.upstream_model, body).await?;
        let token_logprobs =
            chat_logprobs(answer.choices.first().and_then(|choice| choice.logprobs.as_ref()))?;
        let read = reading(&token_logprobs, &call.labels, max)?;
        if read.is_some() && token_logprobs.len() < max {
            memory.set_max_logprobs(&call.upstream_model, token_logprobs.len());
        }
        let usage = answer.usage;
        Ok(read.map(|read| LabelReading { usage, ..read }))
    }

    pub(super) async fn draw_chat(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        draw: Draw,
    ) -> Result<LabelDraws, UpstreamError> {
        let mut body = self.base_body(call, draw.max_tokens);
        if draw.answers > 1 {
            body.insert("n".to_owned(), json!(draw.answers));
        }
        if let Some(name) = self.decisions.row.seed {
            // Certain servers read the seed as a signed 32-bit number.
            body.insert(name.to_owned(), json!(call.seed & 0x7FFF_FFFF));
        }
        if self.preset.forces_schema {
            let shape = json!({"name": "answer", "strict": true, "schema": schema(&call.labels)});
            let shape = json!({"type": "json_schema", "json_schema": shape});
            body.insert("response_format".to_owned(), shape);
        }
        let answer = self.ask_chat(ctx, &call.upstream_model, body).await?;
        count_answers(&answer, call, draw.answers)
    }
}
