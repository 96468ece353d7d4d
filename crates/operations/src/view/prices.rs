//! Replies about prices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_storage::{PriceChange, PriceRecord};
use tollgate_types::Credits;
use utoipa::ToSchema;

/// The current prices of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceView {
    /// Canonical id of the model.
    pub model: String,
    /// Permanent id of these prices: `pv_…`.
    pub version: String,
    /// Credits per million units, by unit, such as `input`, `output` or `input>272000` for long
    /// prompts.
    #[schema(value_type = BTreeMap<String, String>)]
    pub prices: BTreeMap<String, Credits>,
}

impl PriceView {
    /// Returns the view of recorded prices.
    pub fn of(record: &PriceRecord) -> Self {
        Self {
            model: record.model.clone(),
            version: record.version.to_string(),
            prices: record.prices.entries().collect(),
        }
    }
}

/// A change of a model's prices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceChangeView {
    /// Time when the prices took effect, RFC 3339.
    pub at: String,
    /// Origin of the change: `settings` for a start or reload of the server; `cli` or the name of
    /// the administrator for a forced change.
    pub actor: String,
    /// Permanent id of the new prices: `pv_…`.
    pub version: String,
    /// New prices, in credits per million units, by unit.
    #[schema(value_type = BTreeMap<String, String>)]
    pub prices: BTreeMap<String, Credits>,
}

impl PriceChangeView {
    /// Returns the view of a change to the prices of `record`.
    pub fn of(change: &PriceChange, record: &PriceRecord) -> Self {
        Self {
            at: change.at.to_rfc3339(),
            actor: change.actor.clone(),
            version: change.version.to_string(),
            prices: record.prices.entries().collect(),
        }
    }
}

/// A model whose proposed prices differ from the current ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovedView {
    /// Canonical id of the model.
    pub model: String,
    /// Permanent id of the proposed prices: `pv_…`.
    pub version: String,
    /// Current prices, in credits per million units, by unit; null if the model has never had
    /// prices.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub before: Option<BTreeMap<String, Credits>>,
    /// Proposed prices, in credits per million units, by unit.
    #[schema(value_type = BTreeMap<String, String>)]
    pub after: BTreeMap<String, Credits>,
    /// Prices that change by more than a factor of ten, or to or from zero, such as `input: 1 to
    /// 20`.
    pub jumps: Vec<String>,
}

/// Differences between the prices in the settings and the current ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceCheckView {
    /// Whether no price changes by more than a factor of ten, or to or from zero.
    pub clean: bool,
    /// Whether the new prices were applied, regardless of the size of the changes.
    pub forced: bool,
    /// Models whose proposed prices differ from the current prices.
    pub changes: Vec<MovedView>,
}
