//! Counting of tokens by an upstream.

use async_trait::async_trait;

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::text::TextCall;

/// Port for token counts. Upstreams count tokens free of charge.
#[async_trait]
pub trait CountProvider: Send + Sync {
    /// Returns the number of input tokens of the call, including those of the chat template, tools
    /// and media. The adapter encodes the call as for text generation. An implausible count is a
    /// protocol error.
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError>;
}
