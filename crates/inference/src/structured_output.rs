//! Shapes of answers that a provider cannot be made to keep: the model is told in words, and the pipeline looks.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_formats::anthropic_messages::MessagesHead;
use tollgate_formats::gemini::GenerateHead;
use tollgate_formats::openai_chat::ChatHead;
use tollgate_formats::openai_completions::CompletionHead;
use tollgate_formats::openai_responses::ResponsesHead;
use tollgate_formats::{ResponseFormatKind, hub};
use tollgate_pipeline::{Routed, Structured};
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{EmbedCall, ModerationCall, TextCall};

use crate::crossing::in_words_of;

/// A call whose answer may have to have a shape.
pub(crate) trait Shaped {
    /// Keeps the candidates that force the shape. When there is none, changes the call so that its model is told, and has
    /// the pipeline look at the answer.
    fn shape(&mut self, routed: &mut Routed) -> Result<(), Error> {
        let _ = routed;
        Ok(())
    }
}

impl Shaped for EmbedCall {}

impl Shaped for ModerationCall {}

impl Shaped for TextCall {
    fn shape(&mut self, routed: &mut Routed) -> Result<(), Error> {
        if !asks_for_json(self) {
            return Ok(());
        }
        let mut request = match &self.common {
            Some(request) => GenerateRequest::clone(request),
            None => hub::decode_request(self.format, &self.body)?,
        };
        let forces = |text: &dyn tollgate_upstream::TextProvider| text.forces(&request.response_format);
        if routed.retain(|provider| provider.text().is_some_and(forces)) {
            return Ok(());
        }
        let refusal = |code, message: String, param| {
            in_words_of(self.format, Error::new(code, message).with_param(param))
        };
        if request.n > 1 {
            let message = "'n' must be 1 for this model when the answer must have a shape.".to_owned();
            return Err(refusal(ErrorCode::UnsupportedParameter, message, "n"));
        }
        let structured = Structured::new(&request.response_format).map_err(|why| {
            let message = format!("'response_format' has a schema that cannot be used: {why}.");
            refusal(ErrorCode::InvalidParameter, message, "response_format")
        })?;
        let Some(structured) = structured else {
            return Ok(());
        };
        structured.tell(&mut request);
        request.response_format = nearest(&request.response_format, routed);
        carry(routed, &request).map_err(|error| in_words_of(self.format, error))?;
        self.common = Some(Arc::new(request));
        self.body = Bytes::new();
        self.outline = None;
        routed.structured = Some(Arc::new(structured));
        Ok(())
    }
}

/// Whether the caller asks for JSON; what the format knows already says so without another look.
fn asks_for_json(call: &TextCall) -> bool {
    if let Some(request) = &call.common {
        return request.response_format != ResponseFormat::Text;
    }
    let Some(outline) = &call.outline else {
        return false;
    };
    let chat = outline
        .get::<ChatHead<'static>>()
        .map(|head| head.response_format);
    let messages = || {
        outline
            .get::<MessagesHead<'static>>()
            .map(|head| head.response_format)
    };
    let completions = || {
        outline
            .get::<CompletionHead<'static>>()
            .map(|head| head.response_format)
    };
    let responses = || {
        outline
            .get::<ResponsesHead<'static>>()
            .map(|head| head.response_format)
    };
    let contents = || outline.get::<GenerateHead>().map(|head| head.response_format);
    chat.or_else(messages)
        .or_else(completions)
        .or_else(responses)
        .or_else(contents)
        .is_some_and(|kind| kind != ResponseFormatKind::Text)
}

/// What can be forced of a shape: that an object is JSON at all.
fn nearest(format: &ResponseFormat, routed: &Routed) -> ResponseFormat {
    let is_object = match format {
        ResponseFormat::JsonSchema { schema, .. } => schema.get("type").is_some_and(|kind| kind == "object"),
        ResponseFormat::JsonObject | ResponseFormat::Text => true,
    };
    match is_object && routed.all_force(&ResponseFormat::JsonObject) {
        true => ResponseFormat::JsonObject,
        false => ResponseFormat::Text,
    }
}

/// Keeps the candidates that the changed request can be told, whichever format they take.
fn carry(routed: &mut Routed, request: &GenerateRequest) -> Result<(), Error> {
    let carries =
        |provider: &dyn tollgate_upstream::Provider| provider.text().map(|text| text.carry(request));
    if routed.retain(|provider| matches!(carries(provider), Some(Ok(_)))) {
        return Ok(());
    }
    match routed.first_provider().and_then(carries) {
        Some(Err(error)) => Err(error),
        _ => Ok(()),
    }
}
