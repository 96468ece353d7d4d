//! Answers about prices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_storage::{PriceChange, PriceRecord};
use tollgate_types::Credits;
use utoipa::ToSchema;

/// The prices of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceView {
    /// The model.
    pub model: String,
    /// Names these prices for ever.
    pub version: String,
    /// Credits per million, by class, such as `input`, `output`, `input>272000`.
    #[schema(value_type = BTreeMap<String, String>)]
    pub prices: BTreeMap<String, Credits>,
}

impl PriceView {
    /// Prices that are in force.
    pub fn of(record: &PriceRecord) -> Self {
        Self {
            model: record.model.clone(),
            version: record.version.to_string(),
            prices: record.prices.entries().collect(),
        }
    }
}

/// Since when a model had which prices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceChangeView {
    /// Since when, RFC 3339.
    pub at: String,
    /// Who put them in force: `settings` for a start or a reload, `cli` or an administrator for what was forced.
    pub actor: String,
    /// Names these prices for ever.
    pub version: String,
    /// Credits per million, by class.
    #[schema(value_type = BTreeMap<String, String>)]
    pub prices: BTreeMap<String, Credits>,
}

impl PriceChangeView {
    /// A change.
    pub fn of(change: &PriceChange, record: &PriceRecord) -> Self {
        Self {
            at: change.at.to_rfc3339(),
            actor: change.actor.clone(),
            version: change.version.to_string(),
            prices: record.prices.entries().collect(),
        }
    }
}

/// Prices that would be others than those in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovedView {
    /// The model.
    pub model: String,
    /// Names the new prices for ever.
    pub version: String,
    /// Those in force; null for a model that never had any.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub before: Option<BTreeMap<String, Credits>>,
    /// The new ones.
    #[schema(value_type = BTreeMap<String, String>)]
    pub after: BTreeMap<String, Credits>,
    /// What moves more than tenfold.
    pub jumps: Vec<String>,
}

/// How the prices of the settings differ from those in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceCheckView {
    /// Whether nothing moves more than tenfold.
    pub clean: bool,
    /// Whether the new prices were put in force, however far they are.
    pub forced: bool,
    /// Every model whose prices are others.
    pub changes: Vec<MovedView>,
}
