//! Moderation by an upstream: classifies a text or image by the categories that a content policy
//! may forbid.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::moderate::{ModerationAnswer, ModerationInput};

use crate::context::CallContext;
use crate::error::UpstreamError;

/// A moderation request.
#[derive(Clone, Debug)]
pub struct ModerationCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Content to classify; never empty.
    pub input: ModerationInput,
}

/// Port for moderation.
#[async_trait]
pub trait ModerationProvider: Send + Sync {
    /// Classifies all inputs. The response has one result for each input.
    async fn moderate(
        &self,
        ctx: &CallContext,
        call: &ModerationCall,
    ) -> Result<ModerationAnswer, UpstreamError>;
}
