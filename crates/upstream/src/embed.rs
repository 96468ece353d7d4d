//! Embeddings by an upstream: texts in, vectors out.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::Usage;
use tollgate_types::embed::EmbedResponse;

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::text::Outline;

/// A request as the caller sent it, validated, with what the gateway changes about it.
#[derive(Clone, Debug)]
pub struct EmbedCall {
    /// The caller's bytes, in OpenAI's format. An adapter whose upstream speaks it splices and forwards them; another
    /// one decodes them.
    pub body: Bytes,
    /// What the format knows of `body` already.
    pub outline: Option<Outline>,
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
}

/// The vectors, ready to be sent once the cost is known, or in the common form.
#[derive(Clone, Debug)]
pub enum EmbedPayload {
    /// A body of OpenAI's format, its vectors in the encoding that the caller wants.
    Raw {
        /// As the upstream sent it.
        body: Bytes,
        /// What the format knows of it.
        outline: Outline,
    },
    /// The common form.
    Common(Box<EmbedResponse>),
}

/// An answer. It has a vector for each input.
#[derive(Clone, Debug)]
pub struct EmbedAnswer {
    /// The vectors.
    pub payload: EmbedPayload,
    /// What the upstream says it consumed; `None` when it says nothing, which is not the same as zero.
    pub usage: Option<Usage>,
    /// Bytes of the vectors: they show that there was an answer.
    pub output_bytes: u64,
}

/// Turns texts into vectors.
#[async_trait]
pub trait EmbedProvider: Send + Sync {
    /// Sends the call and answers when all vectors are there. The upstream must not be called twice. Errors say whether
    /// any byte was sent.
    async fn embed(&self, ctx: &CallContext, call: &EmbedCall) -> Result<EmbedAnswer, UpstreamError>;

    /// Top-level fields outside the format that it lets through to the upstream. Others are refused at the door.
    fn allowed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Top-level fields of the format that it leaves out because its upstream refuses them and the vectors are the same
    /// without them. The caller is told which of its fields were ignored.
    fn dropped_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a caller can choose the length of the vectors.
    fn takes_dimensions(&self) -> bool {
        true
    }
}
