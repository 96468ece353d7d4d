//! Label priors: the bias of each model towards certain labels in typed decisions. They are stored
//! so that a restarted or additional process need not measure them again.

use async_trait::async_trait;

use crate::Result;

/// Measured label prior of a model. It contains no data of callers or requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLabelPrior {
    /// Provider name in the settings.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
    /// The prior as JSON, which storage does not interpret.
    pub prior: String,
}

/// Stores label priors. The last write wins: all nodes measure the same value for a model.
#[async_trait]
pub trait LabelPriorStore: Send + Sync {
    /// Returns the priors of all models, sorted by provider and model.
    async fn all(&self) -> Result<Vec<StoredLabelPrior>>;

    /// Stores the prior of a model, replacing an earlier one.
    async fn save(&self, prior: StoredLabelPrior) -> Result<()>;
}
