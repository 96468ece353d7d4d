//! A provider: a company or server whose models are called.

use std::time::Duration;

use async_trait::async_trait;

use crate::batch::BatchProvider;
use crate::count::CountProvider;
use crate::decide::DecideProvider;
use crate::embed::EmbedProvider;
use crate::error::UpstreamError;
use crate::image::ImageCall;
use crate::make::Maker;
use crate::moderate::ModerationProvider;
use crate::speech::{SpeechProvider, TranscribeProvider};
use crate::text::TextProvider;
use crate::video::VideoCall;

/// A model that a provider says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name there.
    pub name: String,
    /// Its context window in tokens, when the provider tells.
    pub context_window: Option<u64>,
}

/// A provider. Each capability it lacks answers `None`.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name of its configuration block.
    fn id(&self) -> &str;

    /// Whether its answers are simulated.
    fn is_simulated(&self) -> bool {
        false
    }

    /// Text generation.
    fn text(&self) -> Option<&dyn TextProvider> {
        None
    }

    /// Counting of the tokens that text generation would read.
    fn counts(&self) -> Option<&dyn CountProvider> {
        None
    }

    /// Embeddings.
    fn embeddings(&self) -> Option<&dyn EmbedProvider> {
        None
    }

    /// Typed decisions.
    fn decisions(&self) -> Option<&dyn DecideProvider> {
        None
    }

    /// Moderation.
    fn moderations(&self) -> Option<&dyn ModerationProvider> {
        None
    }

    /// Pictures.
    fn images(&self) -> Option<&dyn Maker<ImageCall>> {
        None
    }

    /// Films.
    fn videos(&self) -> Option<&dyn Maker<VideoCall>> {
        None
    }

    /// Speech.
    fn speech(&self) -> Option<&dyn SpeechProvider> {
        None
    }

    /// Transcripts.
    fn transcriptions(&self) -> Option<&dyn TranscribeProvider> {
        None
    }

    /// Many requests at once.
    fn batches(&self) -> Option<&dyn BatchProvider> {
        None
    }

    /// The models it has now. Costs nothing; used at start, by discovery and by the doctor.
    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError>;
}
