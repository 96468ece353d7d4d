//! The default catalog in the binary: well-known models of the main providers, the simulator's
//! models, and those of the gateway itself.

use std::collections::BTreeMap;

use serde::Deserialize;
use tollgate_types::{Effort, ReasoningControl, Tokenizer};

use crate::load::PricesEntry;
use crate::media::MediaEntry;
use crate::model::{Framing, Modality, ModelKind, StructuredOutput};
use crate::research::ReportLimits;
use crate::voice::VoiceStages;

const MODELS: &str = include_str!("../data/models.toml");
const SIMULATOR: &str = include_str!("../data/simulator.toml");
const GATEWAY: &str = include_str!("../data/gateway.toml");

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
    /// Release date (ISO 8601), or `-` if it is not verified.
    pub release_date: String,
    /// Maximum number of input and output tokens together.
    pub context_window: Option<u64>,
    /// Maximum number of output tokens of a response.
    pub max_output_tokens: Option<u64>,
    /// Maximum length of the vectors of an embedding model.
    pub dimensions: Option<u64>,
    /// Kinds of content that the model accepts.
    pub input: Vec<Modality>,
    /// Kinds of content that the model generates.
    pub output: Vec<Modality>,
    /// Strictest structured output that the model supports.
    pub structured_output: StructuredOutput,
    /// Whether the model calls tools.
    pub tools: bool,
    /// Whether the model reasons before it answers.
    pub reasoning: bool,
    /// Control of reasoning in requests; absent if not verified.
    pub reasoning_control: Option<ReasoningControl>,
    /// Reasoning efforts that the model accepts; absent if not verified.
    #[serde(default)]
    pub reasoning_efforts: Vec<Effort>,
    /// Whether the model accepts system messages within the conversation in its provider's format;
    /// absent if not verified.
    pub system_turns: Option<bool>,
    /// Whether the model accepts `temperature`, `top_p` and `top_k`; absent if not verified.
    pub sampling: Option<bool>,
    /// Tokenizer of the model; absent if not published.
    pub tokenizer: Option<Tokenizer>,
    /// Tokens that the provider adds around the messages; absent if not documented.
    pub framing: Option<Framing>,
    /// Source of the row's values, such as the provider's documentation.
    pub source: String,
    /// Date on which the values were compared with the source, or `-`.
    pub checked: String,
    /// Other ids of the same model.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// List prices; absent for open weights, whose price the operator sets.
    pub prices: Option<PricesEntry>,
    /// Media parameters of an image or video model.
    pub media: Option<MediaEntry>,
    /// Maximum consumption of a report of a provider's own research model.
    pub report: Option<ReportLimits>,
    /// Models of the stages of a voice model that the gateway executes.
    pub voice: Option<VoiceStages>,
    /// For each provider preset, the model's name at that provider. The vendor's own preset is
    /// first.
    #[serde(default)]
    pub upstream: BTreeMap<String, String>,
}

/// Parses all rows of the data files.
pub fn models() -> Result<Vec<BuiltinModel>, toml::de::Error> {
    let mut rows = toml::from_str::<File>(MODELS)?.model;
    rows.extend(toml::from_str::<File>(SIMULATOR)?.model);
    rows.extend(toml::from_str::<File>(GATEWAY)?.model);
    Ok(rows)
}
