//! Text generation by an upstream.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tollgate_types::generate::{GenerateRequest, GenerateResponse, ResponseFormat};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Error, Format, Usage};

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::fetch::MediaKind;

/// What a format's own pass over a body has learned, kept so that an adapter of the same format need not look again. A
/// port knows no formats, so it is opaque here.
#[derive(Clone)]
pub struct Outline(Arc<dyn Any + Send + Sync>);

impl Outline {
    /// Keeps what a format knows.
    pub fn new<T: Any + Send + Sync>(known: T) -> Self {
        Self(Arc::new(known))
    }

    /// What is known, if it is of this kind.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outline(…)")
    }
}

/// A request as the caller sent it, validated, with what the gateway changes about it.
#[derive(Clone, Debug)]
pub struct TextCall {
    /// The shape of `body`.
    pub format: Format,
    /// The caller's bytes. An adapter whose upstream speaks the same format splices and forwards them; another one
    /// decodes them. Empty when the gateway has changed the request, such as by putting in media that the caller named by
    /// their addresses: then `common` alone says what is asked.
    pub body: Bytes,
    /// What the format knows of `body` already.
    pub outline: Option<Outline>,
    /// The same request in the common form, when a candidate does not take `format` as it is.
    pub common: Option<Arc<GenerateRequest>>,
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// The model as the caller named it; answers carry it.
    pub public_model: Arc<str>,
    /// Whether the caller wants a stream.
    pub stream: bool,
    /// Whether the caller asked for usage at the end of the stream. The upstream is always asked.
    pub include_usage: bool,
    /// The most output tokens that the upstream may be asked for: set because neither the balance nor what the caller
    /// allows the call to cost covers more. It takes the place of a larger cap of the caller's.
    pub clamp_output: Option<u64>,
    /// Names of previews of `format` that the caller asks for and an upstream of it may be told of.
    pub previews: Vec<&'static str>,
    /// Whether the model reasons, as far as the catalog knows.
    pub reasons: bool,
    /// Output tokens that the hold covers: the cap for a format that needs one, when the caller set none.
    pub output_cap: u64,
}

impl TextCall {
    /// A call of these bytes that asks for a whole answer with its usage; the rest is said field by field.
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
            output_cap: 0,
        }
    }

    /// Whether an upstream that speaks this format gets the caller's bytes; otherwise it gets what `common` says.
    pub fn is_in(&self, format: Format) -> bool {
        self.format == format && !self.body.is_empty()
    }

    /// Lets go of the caller's bytes and of what is known of them, once the call was sent.
    pub fn release(&mut self) {
        self.body = Bytes::new();
        self.outline = None;
    }
}

/// Something in the caller's own format, ready to be sent, or in the common form, to be encoded.
#[derive(Clone, Debug)]
pub enum Payload<T> {
    /// Bytes of this format: a whole JSON body, or one whole server-sent event with its blank line.
    Raw(Format, Bytes),
    /// The common form.
    Common(Box<T>),
}

/// What an upstream answers.
pub enum TextReply {
    /// All at once.
    Whole(TextAnswer),
    /// Piece by piece.
    Stream(TextStream),
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct TextAnswer {
    /// The answer. Raw bytes are the upstream's own: whoever sends them on puts the caller's name of the model and the
    /// cost into them.
    pub payload: Payload<GenerateResponse>,
    /// What the format knows of raw bytes already.
    pub outline: Option<Outline>,
    /// What the upstream says it consumed; `None` when it says nothing, which is not the same as zero.
    pub usage: Option<Usage>,
    /// Bytes of generated text, reasoning and tool arguments: what an estimate counts when there is no report.
    pub output_bytes: u64,
}

/// A streamed answer. Dropping it ends the call to the upstream. The stream ends after a chunk of kind
/// [`ChunkKind::End`], or after an error; one that ends without either was cut.
pub type TextStream = BoxStream<'static, Result<TextChunk, UpstreamError>>;

/// One event of a streamed answer.
#[derive(Clone, Debug)]
pub struct TextChunk {
    /// What the event is.
    pub kind: ChunkKind,
    /// The event; `None` for what the caller must not see, such as usage that it did not ask for.
    pub payload: Option<Payload<StreamEvent>>,
    /// What the upstream says was consumed so far, when the event says so. Later reports replace earlier ones.
    pub usage: Option<Usage>,
    /// Bytes of generated text, reasoning and tool arguments in it.
    pub output_bytes: u64,
}

/// What an event of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// Framing before the first content: nothing is lost if the call is tried elsewhere.
    Preamble,
    /// Content, or the reason why a choice ended.
    Content,
    /// The usage report.
    Usage,
    /// The proper end of the stream, such as `[DONE]`.
    End,
}

/// Generates text.
#[async_trait]
pub trait TextProvider: Send + Sync {
    /// Sends the call and answers when the response headers are there. The upstream must not be called twice.
    /// Errors say whether any byte was sent.
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError>;

    /// Whether it takes bodies of this format as they are, and answers in it. Calls in another format reach it in the
    /// common form, and so do its answers to them.
    fn takes(&self, format: Format) -> bool;

    /// Whether its upstream keeps this shape of answers by itself. Where it does not, the gateway sees to it.
    fn forces(&self, format: &ResponseFormat) -> bool {
        let _ = format;
        true
    }

    /// Refuses a request in another format when something of it would be lost on the way to the upstream; answers
    /// which hints are left out. Parameters are named as in the common form.
    fn carry(&self, request: &GenerateRequest) -> Result<Vec<String>, Error> {
        let _ = request;
        Ok(Vec::new())
    }

    /// Whether it leaves out reasoning of a call in a format that it takes, because another provider sealed it.
    fn leaves_out_reasoning(&self, call: &TextCall) -> bool {
        let _ = call;
        false
    }

    /// The media types of a kind that its upstream takes as bytes alone; `None` when it takes addresses, or nothing of the
    /// kind. What callers name by its address is fetched before a call reaches it.
    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        let _ = kind;
        None
    }

    /// Top-level fields of this format, which it takes, that its upstream does not have: a request that asks for one of
    /// them goes to another candidate, or is refused.
    fn lacking_fields(&self, format: Format) -> &'static [&'static str] {
        let _ = format;
        &[]
    }

    /// Top-level fields outside the caller's format that it lets through to the upstream. Others are refused at the
    /// door.
    fn allowed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Top-level fields of the caller's format that it leaves out because its upstream refuses them and an answer is
    /// the same without them. The caller is told which of its fields were ignored.
    fn dropped_fields(&self) -> &'static [&'static str] {
        &[]
    }
}
