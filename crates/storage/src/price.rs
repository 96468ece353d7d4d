//! Price versions: written once, never changed.

use async_trait::async_trait;
use tollgate_types::{AuditId, PriceVersion, Prices, Timestamp};

use crate::Result;

/// A price version of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRecord {
    /// Its name.
    pub version: PriceVersion,
    /// The model's public id.
    pub model: String,
    /// The prices.
    pub prices: Prices,
    /// When it was first recorded.
    pub created_at: Timestamp,
}

/// A model's prices became those of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceChange {
    /// Orders the changes.
    pub id: AuditId,
    /// The model's public id.
    pub model: String,
    /// The version.
    pub version: PriceVersion,
    /// Since when.
    pub at: Timestamp,
    /// Who did it.
    pub actor: String,
}

/// Stores price versions.
#[async_trait]
pub trait PriceStore: Send + Sync {
    /// Records versions that are not recorded yet, durably when it returns. A version that is recorded stays as it is.
    async fn record(&self, records: Vec<PriceRecord>) -> Result<()>;

    /// The version; `None` when it was never recorded.
    async fn get(&self, version: PriceVersion) -> Result<Option<PriceRecord>>;

    /// Records versions that are not recorded yet, and that they are in force from now on, in one step. A model whose
    /// version in force is that of its change already gets no other change.
    async fn put_in_force(&self, records: Vec<PriceRecord>, changes: Vec<PriceChange>) -> Result<()>;

    /// The prices in force of every model that ever had any, in order of model.
    async fn in_force(&self) -> Result<Vec<PriceRecord>>;

    /// The changes of a model's prices with what they became, newest first, at most `limit`.
    async fn history(&self, model: &str, limit: u32) -> Result<Vec<(PriceChange, PriceRecord)>>;
}
