//! Counting of tokens by an upstream.

use async_trait::async_trait;

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::text::TextCall;

/// Port for token counts. Upstreams that support it do not charge for it.
#[async_trait]
pub trait CountProvider: Send + Sync {
    /// Returns the number of tokens of the call's input as its model reads it, templates, tools and
    /// media included. The call is encoded like one for text generation. An implausible count is a
    /// protocol error.
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError>;
}
