//! The catalog in the binary: well-known models of the main providers, and the simulator's models.

use std::collections::BTreeMap;

use serde::Deserialize;
use tollgate_types::{Effort, ReasoningControl, Tokenizer};

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

/// A row of the data files. `data/README.md` documents the fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltinModel {
    /// Public id, `maker/name`.
    pub id: String,
    /// Name for display; not unique.
    pub display_name: String,
    /// Kind of the model; `type` in the file.
    #[serde(rename = "type")]
    pub kind: ModelKind,
    /// ISO 8601 date, or `-` where it is not verified.
    pub release_date: String,
    /// Input and output together, in tokens.
    pub context_window: Option<u64>,
    /// Max tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Max length of the vectors of an embedding model.
    pub dimensions: Option<u64>,
    /// Kinds of input.
    pub input: Vec<Modality>,
    /// Kinds of output.
    pub output: Vec<Modality>,
    /// Strictest structured output that the model supports.
    pub structured_output: StructuredOutput,
    /// Whether the model calls tools.
    pub tools: bool,
    /// Whether the model reasons before it answers.
    pub reasoning: bool,
    /// How a request controls reasoning; absent where not verified.
    pub reasoning_control: Option<ReasoningControl>,
    /// Reasoning efforts that the model accepts; absent where not verified.
    #[serde(default)]
    pub reasoning_efforts: Vec<Effort>,
    /// Whether the model accepts system messages within the conversation in its provider's format;
    /// absent where not verified.
    pub system_turns: Option<bool>,
    /// Whether the model accepts `temperature`, `top_p` and `top_k`; absent where not verified.
    pub sampling: Option<bool>,
    /// Tokenizer of its text; absent where not published.
    pub tokenizer: Option<Tokenizer>,
    /// Tokens that the provider adds around the messages; absent where not documented.
    pub framing: Option<Framing>,
    /// Source of the figures.
    pub source: String,
    /// Date on which the figures were checked, or `-`.
    pub checked: String,
    /// Other ids of the same model.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// List prices; absent for open weights, whose price the operator sets.
    pub prices: Option<PricesEntry>,
    /// Media parameters of an image or video model.
    pub media: Option<MediaEntry>,
    /// Provider preset → the model's name there, the vendor's own preset first.
    #[serde(default)]
    pub upstream: BTreeMap<String, String>,
}

/// Every row of the data files.
pub fn models() -> Result<Vec<BuiltinModel>, toml::de::Error> {
    let mut rows = toml::from_str::<File>(MODELS)?.model;
    rows.extend(toml::from_str::<File>(SIMULATOR)?.model);
    Ok(rows)
}
