//! Counting of tokens by an upstream.

use async_trait::async_trait;

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::text::TextCall;

/// Says how many tokens the input of a call is. An upstream that does it asks nothing for it.
#[async_trait]
pub trait CountProvider: Send + Sync {
    /// The tokens of the call's input as its model reads it, templates, tools and media included. The call is the one that
    /// would generate text, and is written for the upstream in the same way. Errors are those of the upstream; an answer
    /// without a number that can be meant is one of protocol.
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError>;
}
