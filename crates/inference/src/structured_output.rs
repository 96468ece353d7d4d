//! Shapes of answers that a provider cannot be made to keep: the model is told in words, and the pipeline looks.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_formats::anthropic_messages::MessagesHead;
use tollgate_formats::gemini::GenerateHead;
use tollgate_formats::openai_chat::ChatHead;
use tollgate_formats::openai_completions::CompletionHead;
use tollgate_formats::openai_responses::ResponsesHead;
use tollgate_formats::{ResponseFormatKind, hub};
use tollgate_pipeline::{DecideCall, Routed};
use tollgate_types::Error;
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
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

impl Shaped for DecideCall {}

impl Shaped for TextCall {
    fn shape(&mut self, routed: &mut Routed) -> Result<(), Error> {
        if !asks_for_json(self) {
            return Ok(());
        }
        let mut request = match &self.common {
            Some(request) => GenerateRequest::clone(request),
            None => hub::decode_request(self.format, &self.body)?,
        };
        let is_told = routed.shape(&mut request);
        if !is_told.map_err(|error| in_words_of(self.format, error))? {
            return Ok(());
        }
        self.common = Some(Arc::new(request));
        self.body = Bytes::new();
        self.outline = None;
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
