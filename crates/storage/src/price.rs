//! Price versions: written once, never changed.

use async_trait::async_trait;
use tollgate_types::{PriceVersion, Prices, Timestamp};

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

/// Stores price versions.
#[async_trait]
pub trait PriceStore: Send + Sync {
    /// Records versions that are not recorded yet, durably when it returns. A version that is recorded stays as it is.
    async fn record(&self, records: Vec<PriceRecord>) -> Result<()>;

    /// The version; `None` when it was never recorded.
    async fn get(&self, version: PriceVersion) -> Result<Option<PriceRecord>>;
}
