//! Labels in chat completions: by the probabilities beside an answer of one token, or by answers that are counted.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tollgate_formats::decisions::{Piece, pieces};
use tollgate_formats::openai_chat::{CapName, decode_response, inspect_response};
use tollgate_types::decide::{StateMedia, StateMediaKind};
use tollgate_types::generate::{Choice, GenerateResponse, Part};
use tollgate_upstream::{CallContext, LabelCall, LabelDraws, LabelReading, UpstreamError};

use crate::deciding::{DRAWN_TOKENS, answered, base64_of, draw, reading, schema, told_by_chat};
use crate::http::{RequestBody, Timeouts};
use crate::openai_compatible::OpenAiCompatible;
use crate::refusal;

/// The turn that asks, for every endpoint that takes messages.
pub(super) fn messages(call: &LabelCall) -> Value {
    if call.state.media.is_empty() {
        let text = format!("{}\n\n{}", call.state.text, call.question);
        return json!([{"role": "user", "content": text}]);
    }
    let text = |text: &str| json!({"type": "text", "text": text});
    let state = pieces(&call.state).into_iter().map(|piece| match piece {
        Piece::Text(said) => text(said),
        Piece::Medium(medium) => part_of(medium),
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
    /// The members that every request has: the turn, so many tokens, and what keeps the model from thinking aloud.
    pub(super) fn asking(&self, call: &LabelCall, tokens: u64) -> Map<String, Value> {
        let cap = match self.preset.cap_name {
            CapName::MaxCompletionTokens => "max_completion_tokens",
            CapName::AsSent | CapName::MaxTokens => "max_tokens",
        };
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(call.upstream_model));
        body.insert("messages".to_owned(), messages(call));
        body.insert(cap.to_owned(), json!(tokens));
        body.insert("temperature".to_owned(), json!(1));
        let quiet = self.decisions.row.quiet.iter();
        body.extend(
            quiet.filter_map(|(name, value)| Some((name.to_string(), serde_json::from_str(value).ok()?))),
        );
        body
    }

    /// Sends a request to the endpoint of chat completions.
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
            |_| UpstreamError::protocol(format!("the answer cannot be read ({} bytes)", body.len()));
        if inspect_response(&body).map_err(unreadable)?.is_error {
            return Err(refusal::from_object(&body));
        }
        let answer = decode_response(&body).map_err(unreadable)?;
        match answer.choices.is_empty() {
            true => Err(UpstreamError::protocol("the answer has no choices")),
            false => Ok(answer),
        }
    }

    pub(super) async fn read_chat(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let (row, memory) = (self.decisions.row, &self.decisions.memory);
        let most = memory.most(&call.upstream_model, row.top_logprobs);
        let mut body = self.asking(call, 1);
        body.insert("logprobs".to_owned(), json!(true));
        body.insert("top_logprobs".to_owned(), json!(most));
        let answer = self.ask_chat(ctx, &call.upstream_model, body).await?;
        let told = told_by_chat(answer.choices.first().and_then(|choice| choice.logprobs.as_ref()))?;
        let read = reading(&told, &call.labels, most)?;
        if read.is_some() && told.len() < most {
            memory.told_fewer(&call.upstream_model, told.len());
        }
        Ok(read)
    }

    pub(super) async fn draw_chat(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        number: u32,
    ) -> Result<LabelDraws, UpstreamError> {
        let row = self.decisions.row;
        draw(call, number, row.at_once, |answers, seed| async move {
            let mut body = self.asking(call, DRAWN_TOKENS);
            if answers > 1 {
                body.insert("n".to_owned(), json!(answers));
            }
            if let Some(name) = row.seed {
                // Some read it as a signed number of 32 bits.
                body.insert(name.to_owned(), json!(seed & 0x7FFF_FFFF));
            }
            if self.preset.forces_schema {
                let shape = json!({"name": "answer", "strict": true, "schema": schema(&call.labels)});
                let shape = json!({"type": "json_schema", "json_schema": shape});
                body.insert("response_format".to_owned(), shape);
            }
            let answer = self.ask_chat(ctx, &call.upstream_model, body).await?;
            let choices = answer.choices.iter();
            Ok(choices
                .map(|choice| answered(&text_of(choice), &call.labels))
                .collect())
        })
        .await
    }
}

fn text_of(choice: &Choice) -> String {
    let texts = choice.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
