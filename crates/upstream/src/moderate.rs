//! Moderation by an upstream: what a text or picture is about that a content policy may forbid.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::moderate::{ModerationAnswer, ModerationInput};

use crate::context::CallContext;
use crate::error::UpstreamError;

/// What is looked at, and by whom.
#[derive(Clone, Debug)]
pub struct ModerationCall {
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// What is looked at; never empty.
    pub input: ModerationInput,
}

/// Looks at content.
#[async_trait]
pub trait ModerationProvider: Send + Sync {
    /// Sends the call and answers when everything was looked at. An answer has a result for each input.
    async fn moderate(
        &self,
        ctx: &CallContext,
        call: &ModerationCall,
    ) -> Result<ModerationAnswer, UpstreamError>;
}
