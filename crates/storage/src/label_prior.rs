//! Label priors: the bias of each model towards certain labels in typed decisions. Stored so that
//! they are measured once and not by each process.

use async_trait::async_trait;

use crate::Result;

/// Measured prior of a model. It contains no data of callers or requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLabelPrior {
    /// Provider name in the settings.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
    /// The prior as JSON; opaque to storage.
    pub prior: String,
}

/// Stores label priors. The last write wins: all nodes measure the same value for a model.
#[async_trait]
pub trait LabelPriorStore: Send + Sync {
    /// Returns the priors of all models, in order of provider and model.
    async fn all(&self) -> Result<Vec<StoredLabelPrior>>;

    /// Stores the prior of a model, replacing an earlier one.
    async fn save(&self, prior: StoredLabelPrior) -> Result<()>;
}
