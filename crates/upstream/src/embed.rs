//! Embeddings by an upstream: texts in, vectors out.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::Usage;
use tollgate_types::embed::EmbedResponse;

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::text::Outline;

/// A validated request as the caller sent it, with the gateway's changes.
#[derive(Clone, Debug)]
pub struct EmbedCall {
    /// The caller's bytes in OpenAI's format. An adapter for that format edits and forwards them;
    /// others decode them.
    pub body: Bytes,
    /// Result of the format's scan of `body`.
    pub outline: Option<Outline>,
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
}

/// Vectors in OpenAI's format, ready to be sent once the cost is calculated, or in the common form.
#[derive(Clone, Debug)]
pub enum EmbedPayload {
    /// A body in OpenAI's format, with the vectors in the requested encoding.
    Raw {
        /// Body as the upstream sent it.
        body: Bytes,
        /// Result of the format's scan of `body`.
        outline: Outline,
    },
    /// Vectors in the common form.
    Common(Box<EmbedResponse>),
}

/// Embeddings, one vector for each input.
#[derive(Clone, Debug)]
pub struct EmbedAnswer {
    /// Vectors in OpenAI's format or in the common form.
    pub payload: EmbedPayload,
    /// Usage reported by the upstream; `None` if it reported none, which differs from zero.
    pub usage: Option<Usage>,
    /// Size of the vectors in bytes, as evidence that the upstream responded.
    pub output_bytes: u64,
}

/// Port for embeddings.
#[async_trait]
pub trait EmbedProvider: Send + Sync {
    /// Sends the call once and returns all vectors. Errors state whether any byte was sent.
    async fn embed(&self, ctx: &CallContext, call: &EmbedCall) -> Result<EmbedAnswer, UpstreamError>;

    /// Returns the non-standard top-level fields that are passed through to the upstream. The
    /// gateway rejects all other non-standard fields on receipt.
    fn allowed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the standard top-level fields that are dropped because the upstream rejects them and
    /// the vectors do not depend on them. The caller receives the list of ignored fields.
    fn dropped_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the caller can choose the dimensions of the vectors.
    fn takes_dimensions(&self) -> bool {
        true
    }
}
