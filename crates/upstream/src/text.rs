//! Text generation by an upstream.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tollgate_types::generate::{GenerateRequest, GenerateResponse, ResponseFormat};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Abilities, Error, Format, Usage};

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::fetch::MediaKind;

/// Result of a format's scan of a body, passed on so that an adapter of the same format does not
/// scan it again. The type is opaque, since ports do not depend on formats.
#[derive(Clone)]
pub struct Outline(Arc<dyn Any + Send + Sync>);

impl Outline {
    /// Wraps the result of a scan.
    pub fn new<T: Any + Send + Sync>(known: T) -> Self {
        Self(Arc::new(known))
    }

    /// Returns the result, if it is of type `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outline(…)")
    }
}

/// A validated request as the caller sent it, with the gateway's changes.
#[derive(Clone, Debug)]
pub struct TextCall {
    /// Format of `body`.
    pub format: Format,
    /// The caller's bytes. An adapter of the same format edits and forwards them; others decode
    /// them. Empty if the gateway changed the request, such as by inlining media: then `common`
    /// alone describes the request.
    pub body: Bytes,
    /// Result of the format's scan of `body`.
    pub outline: Option<Outline>,
    /// The request in the common form. Present if `body` is empty or a candidate does not accept
    /// `format`.
    pub common: Option<Arc<GenerateRequest>>,
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Model name as the caller wrote it; responses contain it.
    pub public_model: Arc<str>,
    /// Whether the caller requested a stream.
    pub stream: bool,
    /// Whether the gateway itself reads the stream, whose events must be in the common form.
    pub is_read: bool,
    /// Whether the caller requested usage at the end of the stream. The gateway always requests it
    /// from the upstream.
    pub include_usage: bool,
    /// Output cap required by the balance or by the caller's cost limit. It replaces a larger cap
    /// of the caller; `None` if neither is limiting.
    pub clamp_output: Option<u64>,
    /// Beta features of `format` that the caller requested and that may be passed on.
    pub previews: Vec<&'static str>,
    /// Whether the catalog marks the model as reasoning.
    pub reasons: bool,
    /// Whether to request a single choice, regardless of the request's `n`.
    pub is_single: bool,
    /// Abilities of the model according to the catalog.
    pub abilities: Arc<Abilities>,
    /// Number of output tokens that the hold covers. Adapters of formats that require a cap send it
    /// if the caller set none.
    pub output_cap: u64,
}

impl TextCall {
    /// Creates a call with this body that requests a complete response with usage. Other fields
    /// have defaults.
    pub fn new(format: Format, public_model: Arc<str>, body: Bytes) -> Self {
        Self {
            format,
            body,
            outline: None,
            common: None,
            upstream_model: public_model.clone(),
            public_model,
            stream: false,
            is_read: false,
            include_usage: true,
            clamp_output: None,
            previews: Vec::new(),
            reasons: false,
            is_single: false,
            abilities: Arc::default(),
            output_cap: 0,
        }
    }

    /// Whether an upstream of this format receives the caller's bytes; otherwise, it receives
    /// `common`.
    pub fn is_in(&self, format: Format) -> bool {
        self.format == format && !self.body.is_empty()
    }

    /// Releases the caller's bytes and their outline after the call was sent.
    pub fn release(&mut self) {
        self.body = Bytes::new();
        self.outline = None;
    }
}

/// A value in the caller's format, ready to be sent, or in the common form, to be encoded.
#[derive(Clone, Debug)]
pub enum Payload<T> {
    /// Bytes of this format: a whole JSON body, or one whole server-sent event with its blank line.
    Raw(Format, Bytes),
    /// Value in the common form.
    Common(Box<T>),
}

/// Response of an upstream to a text call.
pub enum TextReply {
    /// The complete response in one body.
    Whole(TextAnswer),
    /// The response as a stream of events.
    Stream(TextStream),
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct TextAnswer {
    /// The response. Raw bytes are as the upstream sent them: the sender inserts the public model
    /// name and the cost.
    pub payload: Payload<GenerateResponse>,
    /// Result of the format's scan of raw bytes.
    pub outline: Option<Outline>,
    /// Usage reported by the upstream; `None` if it reported none, which differs from zero.
    pub usage: Option<Usage>,
    /// Size of the generated text, reasoning and tool arguments in bytes: the basis of an estimate
    /// if the upstream reports no usage.
    pub output_bytes: u64,
    /// Number of choices, if the upstream reports that all of them ended at the output cap;
    /// otherwise 0.
    pub capped_answers: u32,
}

/// A streamed response. Dropping it cancels the upstream call. The stream ends after a chunk of
/// kind [`ChunkKind::End`] or after an error; if it ends without either, the connection was cut.
pub type TextStream = BoxStream<'static, Result<TextChunk, UpstreamError>>;

/// One event of a streamed response.
#[derive(Clone, Debug)]
pub struct TextChunk {
    /// Kind of the event.
    pub kind: ChunkKind,
    /// The event; `None` if the caller must not receive it, such as usage that it did not request.
    pub payload: Option<Payload<StreamEvent>>,
    /// Cumulative usage reported in the event. Later reports replace earlier ones.
    pub usage: Option<Usage>,
    /// Size of the generated text, reasoning and tool arguments in the event, in bytes.
    pub output_bytes: u64,
}

/// Kind of a stream event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// Framing before the first content: another candidate can still be tried.
    Preamble,
    /// Content, or the finish reason of a choice while others are open.
    Content,
    /// The finish reason of the last choice: the response is complete.
    Finish,
    /// The usage report.
    Usage,
    /// The regular end of the stream, such as `[DONE]`.
    End,
}

/// Port for text generation.
#[async_trait]
pub trait TextProvider: Send + Sync {
    /// Sends the call once and returns when the response headers have arrived. Errors state whether
    /// any byte was sent.
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError>;

    /// Whether the provider accepts bodies of this format unchanged and responds in it. Calls in
    /// other formats are converted through the common form, as are their responses.
    fn takes(&self, format: Format) -> bool;

    /// Whether a model with these abilities accepts system messages within the conversation, in a
    /// format that the provider accepts unchanged.
    fn takes_system_turns(&self, abilities: &Abilities) -> bool {
        let _ = abilities;
        true
    }

    /// Whether the upstream enforces this response format. If not, the gateway validates the
    /// response.
    fn enforces_schema(&self, format: &ResponseFormat) -> bool {
        let _ = format;
        true
    }

    /// Returns an error if the upstream cannot represent a part of the request; otherwise the
    /// optional parameters that it ignores. Parameters have their common-form names.
    fn check_compatible(
        &self,
        request: &GenerateRequest,
        abilities: &Abilities,
    ) -> Result<Vec<String>, Error> {
        let _ = (request, abilities);
        Ok(Vec::new())
    }

    /// Whether the provider drops reasoning from a call in a format that it accepts unchanged,
    /// because the reasoning has another provider's signature.
    fn drops_reasoning(&self, call: &TextCall) -> bool {
        let _ = call;
        false
    }

    /// Returns the media types of this kind that the upstream accepts as bytes only; `None` if it
    /// accepts URLs, or no media of this kind. The gateway fetches referenced media before the
    /// call.
    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        let _ = kind;
        None
    }

    /// Whether each of several choices needs its own call, since the upstream may return fewer
    /// choices than requested, or report the output tokens of only one.
    fn needs_call_per_answer(&self) -> bool {
        false
    }

    /// Whether requests need an output cap. If the caller set none, the adapter sends the call's
    /// `output_cap`.
    fn requires_cap(&self) -> bool {
        false
    }

    /// Returns the top-level fields of this accepted format that the upstream does not support. A
    /// request that uses one is sent to another candidate, or is rejected.
    fn unsupported_fields(&self, format: Format) -> &'static [&'static str] {
        let _ = format;
        &[]
    }

    /// Returns the non-standard top-level fields that are passed through to the upstream. The
    /// gateway rejects all other non-standard fields on receipt.
    fn allowed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the standard top-level fields that are dropped because the upstream rejects them and
    /// the response does not depend on them. The caller receives the list of ignored fields.
    fn dropped_fields(&self) -> &'static [&'static str] {
        &[]
    }
}
