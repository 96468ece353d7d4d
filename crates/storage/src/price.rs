//! Price versions: immutable once written.

use async_trait::async_trait;
use tollgate_types::{AuditId, PriceVersion, Prices, Timestamp};

use crate::Result;

/// A recorded price version of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRecord {
    /// Content hash that names the version.
    pub version: PriceVersion,
    /// The model's public id.
    pub model: String,
    /// Prices of the version.
    pub prices: Prices,
    /// Time of the first recording.
    pub created_at: Timestamp,
}

/// Activation of a price version for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceChange {
    /// Unique id; later changes have greater ids.
    pub id: AuditId,
    /// The model's public id.
    pub model: String,
    /// Version that became active.
    pub version: PriceVersion,
    /// Time of the activation.
    pub at: Timestamp,
    /// Name of the actor, as in the audit log.
    pub actor: String,
}

/// Stores price versions and their activations.
#[async_trait]
pub trait PriceStore: Send + Sync {
    /// Records new versions, durably when it returns. Existing versions stay unchanged.
    async fn record(&self, records: Vec<PriceRecord>) -> Result<()>;

    /// Returns the version; `None` if it was never recorded.
    async fn get(&self, version: PriceVersion) -> Result<Option<PriceRecord>>;

    /// Records new versions and activates them by `changes`, in one step. A change to the already
    /// active version of its model is skipped.
    async fn activate(&self, records: Vec<PriceRecord>, changes: Vec<PriceChange>) -> Result<()>;

    /// Returns the active price version of every model that ever had one, in order of model.
    async fn active(&self) -> Result<Vec<PriceRecord>>;

    /// Lists the activations for a model with their prices, newest first, at most `limit`.
    async fn history(&self, model: &str, limit: u32) -> Result<Vec<(PriceChange, PriceRecord)>>;
}
