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

/// Result of a format's scan of a body, passed on so that an adapter of the same format need not
/// repeat it. Opaque, since ports do not depend on formats.
#[derive(Clone)]
pub struct Outline(Arc<dyn Any + Send + Sync>);

impl Outline {
    /// Wraps the result of a scan.
    pub fn new<T: Any + Send + Sync>(known: T) -> Self {
        Self(Arc::new(known))
    }

    /// The result, if it is of type `T`.
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
    /// The caller's bytes. An adapter of the same format splices and forwards them; others decode
    /// them. Empty if the gateway changed the request, such as by inlining media: then `common`
    /// alone describes it.
    pub body: Bytes,
    /// Result of the format's scan of `body`.
    pub outline: Option<Outline>,
    /// The request in the common form, if a candidate does not accept `format`.
    pub common: Option<Arc<GenerateRequest>>,
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Model name as the caller wrote it; answers carry it.
    pub public_model: Arc<str>,
    /// Whether the caller requested a stream.
    pub stream: bool,
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
    /// Whether to request one answer only, regardless of the request's `n`.
    pub is_single: bool,
    /// Abilities of the model according to the catalog.
    pub abilities: Arc<Abilities>,
    /// Output tokens that the hold covers: the cap for a format that requires one, if the caller
    /// set none.
    pub output_cap: u64,
}

impl TextCall {
    /// A call with this body, for a complete answer with usage. Other fields have defaults.
    pub fn new(format: Format, public_model: Arc<str>, body: Bytes) -> Self {
        Self {
            format,
            body,
            outline: None,
            common: None,
            upstream_model: public_model.clone(),
            public_model,
            stream: false,
            include_usage: true,
            clamp_output: None,
            previews: Vec::new(),
            reasons: false,
            is_single: false,
            abilities: Arc::default(),
            output_cap: 0,
        }
    }

    /// Whether an upstream of this format receives the caller's bytes; if not, it receives
    /// `common`.
    pub fn is_in(&self, format: Format) -> bool {
        self.format == format && !self.body.is_empty()
    }

    /// Frees the caller's bytes and their outline once the call was sent.
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

/// Reply of an upstream to a text call.
pub enum TextReply {
    /// The complete answer in one body.
    Whole(TextAnswer),
    /// The answer as a stream of events.
    Stream(TextStream),
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct TextAnswer {
    /// The answer. Raw bytes are the upstream's: the sender inserts the public model name and the
    /// cost.
    pub payload: Payload<GenerateResponse>,
    /// Result of the format's scan of raw bytes.
    pub outline: Option<Outline>,
    /// Usage reported by the upstream; `None` if it reported nothing, which differs from zero.
    pub usage: Option<Usage>,
    /// Bytes of generated text, reasoning and tool arguments: the basis of an estimate without a
    /// usage report.
    pub output_bytes: u64,
    /// Number of answers if the upstream reports that all of them ended at the cap; otherwise 0.
    pub capped_answers: u32,
}

/// A streamed answer. Dropping it cancels the upstream call. The stream ends after a chunk of kind
/// [`ChunkKind::End`] or after an error; if it ends without either, it was cut.
pub type TextStream = BoxStream<'static, Result<TextChunk, UpstreamError>>;

/// One event of a streamed answer.
#[derive(Clone, Debug)]
pub struct TextChunk {
    /// Kind of the event.
    pub kind: ChunkKind,
    /// The event; `None` if the caller must not receive it, such as usage that it did not request.
    pub payload: Option<Payload<StreamEvent>>,
    /// Cumulative usage reported in the event. Later reports replace earlier ones.
    pub usage: Option<Usage>,
    /// Bytes of generated text, reasoning and tool arguments in the event.
    pub output_bytes: u64,
}

/// Kind of a stream event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// Framing before the first content: another candidate can still be tried.
    Preamble,
    /// Content, or the finish reason of a choice while others are open.
    Content,
    /// The finish reason of the last choice: the answer is complete.
    Finish,
    /// The usage report.
    Usage,
    /// The regular end of the stream, such as `[DONE]`.
    End,
}

/// Port for text generation.
#[async_trait]
pub trait TextProvider: Send + Sync {
    /// Sends the call once and returns when the response headers have arrived. Errors tell whether
    /// any byte was sent.
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError>;

    /// Whether it accepts bodies of this format unchanged, and answers in it. Calls in other
    /// formats, and their answers, use the common form.
    fn takes(&self, format: Format) -> bool;

    /// Whether a model with these abilities accepts system turns within the conversation, in a
    /// format that the provider takes unchanged.
    fn takes_system_turns(&self, abilities: &Abilities) -> bool {
        let _ = abilities;
        true
    }

    /// Whether the upstream enforces this response format. If not, the gateway validates the
    /// answer.
    fn enforces_schema(&self, format: &ResponseFormat) -> bool {
        let _ = format;
        true
    }

    /// Returns an error if the upstream cannot represent something in the request; otherwise the
    /// hints that are ignored. Parameters have their common-form names.
    fn check_compatible(
        &self,
        request: &GenerateRequest,
        abilities: &Abilities,
    ) -> Result<Vec<String>, Error> {
        let _ = (request, abilities);
        Ok(Vec::new())
    }

    /// Whether reasoning in the call is dropped, in a format that it takes, because another
    /// provider sealed it.
    fn drops_reasoning(&self, call: &TextCall) -> bool {
        let _ = call;
        false
    }

    /// Media types of this kind that the upstream accepts as bytes only; `None` if it accepts URLs,
    /// or no media of this kind. The gateway fetches referenced media before the call.
    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        let _ = kind;
        None
    }

    /// Whether several answers need one call each, since the upstream may return fewer than
    /// requested, or report the output of one alone.
    fn needs_call_per_answer(&self) -> bool {
        false
    }

    /// Whether requests need an output cap: if the caller set none, the call's `output_cap` is
    /// sent.
    fn requires_cap(&self) -> bool {
        false
    }

    /// Top-level fields of this accepted format that the upstream does not support: a request that
    /// uses one goes to another candidate, or is rejected.
    fn unsupported_fields(&self, format: Format) -> &'static [&'static str] {
        let _ = format;
        &[]
    }

    /// Non-standard top-level fields that are passed through to the upstream. Others are rejected
    /// on receipt.
    fn allowed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Standard top-level fields that are dropped because the upstream rejects them and the answer
    /// does not depend on them. The caller receives the list of ignored fields.
    fn dropped_fields(&self) -> &'static [&'static str] {
        &[]
    }
}
