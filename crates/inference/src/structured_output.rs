//! Structured output for providers that cannot enforce a JSON shape: the gateway adds the shape to
//! the instructions, and the pipeline validates the response.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_formats::anthropic_messages::MessagesHead;
use tollgate_formats::gemini::GenerateHead;
use tollgate_formats::openai_chat::ChatHead;
use tollgate_formats::openai_completions::CompletionHead;
use tollgate_formats::openai_responses::ResponsesHead;
use tollgate_formats::{ResponseFormatKind, to_common};
use tollgate_pipeline::{DecideCall, Routed};
use tollgate_types::Error;
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_upstream::{EmbedCall, ModerationCall, TextCall};

use crate::conversion::in_format_terms;

/// A call whose response may have to match a JSON shape.
pub(crate) trait Shaped {
    /// Retains the candidates that enforce the shape. If no candidate does, adds the shape to the
    /// instructions of the call and lets the pipeline validate the response.
    fn shape(&mut self, routed: &mut Routed) -> Result<(), Error> {
        let _ = routed;
        Ok(())
    }
}

impl Shaped for EmbedCall {}

impl Shaped for ModerationCall {}

impl Shaped for DecideCall {}

impl Shaped for TextCall {
    fn shape(&mut self, routed: &mut Routed) -> Result<(), Error> {
        if !asks_for_json(self) {
            return Ok(());
        }
        let mut request = match &self.common {
            Some(request) => GenerateRequest::clone(request),
            None => to_common::decode_request(self.format, &self.body)?,
        };
        let shaped = routed.shape(&mut request);
        if !shaped.map_err(|error| in_format_terms(self.format, error))? {
            return Ok(());
        }
        self.common = Some(Arc::new(request));
        self.body = Bytes::new();
        self.outline = None;
        Ok(())
    }
}

/// Whether the caller requests JSON. Reads the parsed head of the format, so the body is not
/// decoded again.
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
