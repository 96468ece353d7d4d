//! Price versions, which are immutable once stored.

use async_trait::async_trait;
use tollgate_types::{AuditId, PriceVersion, Prices, Timestamp};

use crate::Result;

/// A recorded price version of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRecord {
    /// Content hash that names the version.
    pub version: PriceVersion,
    /// Public id of the model.
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
    /// Public id of the model.
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
    /// Records new versions; they are durable when the call returns. Existing versions stay
    /// unchanged.
    async fn record(&self, records: Vec<PriceRecord>) -> Result<()>;

    /// Returns the version; `None` if it is not recorded.
    async fn get(&self, version: PriceVersion) -> Result<Option<PriceRecord>>;

    /// Records new versions and activates them by `changes`, in one atomic step. A change to the
    /// version that is already active for its model is skipped.
    async fn activate(&self, records: Vec<PriceRecord>, changes: Vec<PriceChange>) -> Result<()>;

    /// Returns the active price version of every model that ever had one, sorted by model.
    async fn active(&self) -> Result<Vec<PriceRecord>>;

    /// Lists up to `limit` activations for a model with their prices, newest first.
    async fn history(&self, model: &str, limit: u32) -> Result<Vec<(PriceChange, PriceRecord)>>;
}
