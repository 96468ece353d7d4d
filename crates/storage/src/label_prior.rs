//! What models prefer whatever typed decisions ask of them, so that it is learned once and not by each process.

use async_trait::async_trait;

use crate::Result;

/// What was learned of a model. It says nothing of who asked or what was asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLabelPrior {
    /// The provider's name in the settings.
    pub provider: String,
    /// The model's name there.
    pub model: String,
    /// The preferences, as JSON; opaque here.
    pub prior: String,
}

/// Stores preferences. What is written last counts: nodes learn the same of the same model.
#[async_trait]
pub trait LabelPriorStore: Send + Sync {
    /// Of every model, by provider and model.
    async fn all(&self) -> Result<Vec<StoredLabelPrior>>;

    /// Replaces what is known of a model.
    async fn save(&self, prior: StoredLabelPrior) -> Result<()>;
}
