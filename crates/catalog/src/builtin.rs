//! The catalog that comes with the binary: well-known models of the main makers, and the simulator's.

use std::collections::BTreeMap;

use serde::Deserialize;
use tollgate_types::Tokenizer;

use crate::load::PricesEntry;
use crate::media::MediaEntry;
use crate::model::{Framing, Modality, ModelKind, StructuredOutput};

const MODELS: &str = include_str!("../data/models.toml");
const SIMULATOR: &str = include_str!("../data/simulator.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Vec<BuiltinModel>,
}

/// A row of the data files. What each field means: `data/README.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltinModel {
    /// Public id, `maker/name`.
    pub id: String,
    /// Name for people.
    pub display_name: String,
    /// What it does.
    #[serde(rename = "type")]
    pub kind: ModelKind,
    /// ISO date or `-`.
    pub release_date: String,
    /// Tokens.
    pub context_window: Option<u64>,
    /// Tokens.
    pub max_output_tokens: Option<u64>,
    /// Length of the longest vectors of an embedding model.
    pub dimensions: Option<u64>,
    /// What it takes.
    pub input: Vec<Modality>,
    /// What it gives.
    pub output: Vec<Modality>,
    /// How far the shape of its answers can be forced.
    pub structured_output: StructuredOutput,
    /// Whether it calls tools.
    pub tools: bool,
    /// Whether it reasons.
    pub reasoning: bool,
    /// What makes its tokens of text; absent where not published.
    pub tokenizer: Option<Tokenizer>,
    /// What stands around the turns of a conversation; absent where not documented.
    pub framing: Option<Framing>,
    /// Where the figures were read.
    pub source: String,
    /// When they were true, or `-`.
    pub checked: String,
    /// Other ids of the same model.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// List prices; absent for open weights, where the operator sets one.
    pub prices: Option<PricesEntry>,
    /// What it can be asked for, if it makes pictures or films.
    pub media: Option<MediaEntry>,
    /// Provider preset → the model's name there, the maker's own first.
    #[serde(default)]
    pub upstream: BTreeMap<String, String>,
}

/// Every row of the data files.
pub fn models() -> Result<Vec<BuiltinModel>, toml::de::Error> {
    let mut rows = toml::from_str::<File>(MODELS)?.model;
    rows.extend(toml::from_str::<File>(SIMULATOR)?.model);
    Ok(rows)
}
