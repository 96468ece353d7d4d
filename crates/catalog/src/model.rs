//! A model as the gateway offers it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_types::{PriceVersion, Prices, Tokenizer};

use crate::media::Media;

/// A model that can be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Public id, `maker/name`.
    pub id: Arc<str>,
    /// Name for people.
    pub display_name: String,
    /// What it does.
    pub kind: ModelKind,
    /// ISO date, or `None` where it is not verified.
    pub release_date: Option<String>,
    /// Input and output together, in tokens.
    pub context_window: Option<u64>,
    /// Most tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Length of the longest vectors that it makes.
    pub dimensions: Option<u64>,
    /// What it takes.
    pub input: Vec<Modality>,
    /// What it gives.
    pub output: Vec<Modality>,
    /// How far the shape of its answers can be forced.
    pub structured_output: StructuredOutput,
    /// Whether it calls tools.
    pub tools: bool,
    /// Whether it reasons before it answers.
    pub reasoning: bool,
    /// What makes its tokens of text, where that is published.
    pub tokenizer: Option<Tokenizer>,
    /// What stands around the turns of a conversation, where that is documented.
    pub framing: Option<Framing>,
    /// Whether its answers are simulated.
    pub simulated: bool,
    /// What it costs.
    pub prices: Prices,
    /// Names `prices` for ever.
    pub price_version: PriceVersion,
    /// Plans whose allowance does not pay for it; mostly none.
    pub not_covered_by: Arc<[Arc<str>]>,
    /// What it can be asked for, if it makes pictures or films.
    pub media: Arc<Media>,
    /// Where it can be reached; never empty.
    pub candidates: Vec<Candidate>,
}

impl Model {
    /// Most output tokens that an answer can have, as far as is known.
    pub fn output_ceiling(&self) -> Option<u64> {
        match (self.max_output_tokens, self.context_window) {
            (Some(most), Some(window)) => Some(most.min(window)),
            (most, window) => most.or(window),
        }
    }

    /// Whether the model takes this kind of input.
    pub fn takes(&self, modality: Modality) -> bool {
        self.input.contains(&modality)
    }
}

/// One way to reach a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the provider's configuration block.
    pub provider: Arc<str>,
    /// The model's name there.
    pub upstream_model: Arc<str>,
    /// Share of the traffic among the candidates that have a weight. Those without one stand behind, in order.
    pub weight: Option<u32>,
}

/// What a model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Generates text.
    Chat,
    /// Turns text into vectors.
    Embedding,
    /// Says what content is about that a policy may forbid.
    Moderation,
    /// Makes pictures.
    Image,
    /// Makes films.
    Video,
    /// Speaks.
    Speech,
    /// Writes down what is spoken.
    Transcription,
    /// Answers typed questions with probabilities.
    Decision,
}

/// What the names of models that make pictures or films begin with, at the makers that say no more of them.
const IMAGE_FAMILIES: &[&str] = &[
    "dall-e",
    "flux",
    "gpt-image",
    "imagen",
    "qwen-image",
    "sd3",
    "sdxl",
    "stable-diffusion",
    "z-image",
];
const VIDEO_FAMILIES: &[&str] = &["cogvideo", "hunyuanvideo", "ltx", "mochi", "sora", "veo", "wan2"];

/// What stands in the names of models that speak, and of those that write down what is said.
const SPEECH_FAMILIES: &[&str] = &["tts", "kokoro", "chatterbox", "orpheus", "bark"];
const TRANSCRIPTION_FAMILIES: &[&str] = &["whisper", "transcribe", "parakeet", "canary"];

/// What stands in the names of models that decide.
const DECISION_FAMILIES: &[&str] = &["decide", "decider", "decision", "decisions", "systemone"];

/// What stands in the names of open embedding models, besides `embed`.
const EMBEDDING_FAMILIES: &[&str] = &["all-minilm", "bge-", "e5-", "gte-", "paraphrase-"];

impl ModelKind {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ModelKind::Chat => "chat",
            ModelKind::Embedding => "embedding",
            ModelKind::Moderation => "moderation",
            ModelKind::Image => "image",
            ModelKind::Video => "video",
            ModelKind::Speech => "speech",
            ModelKind::Transcription => "transcription",
            ModelKind::Decision => "decision",
        }
    }

    /// What such a model gives, as far as nothing else is said.
    pub(crate) fn gives(self) -> Vec<Modality> {
        match self {
            ModelKind::Chat | ModelKind::Transcription => vec![Modality::Text],
            ModelKind::Embedding | ModelKind::Moderation | ModelKind::Decision => Vec::new(),
            ModelKind::Image => vec![Modality::Image],
            ModelKind::Video => vec![Modality::Video],
            ModelKind::Speech => vec![Modality::Audio],
        }
    }

    /// What it takes.
    pub(crate) fn takes(self) -> Vec<Modality> {
        match self {
            ModelKind::Chat => vec![Modality::Text, Modality::Image, Modality::Audio, Modality::File],
            ModelKind::Image | ModelKind::Video => vec![Modality::Text, Modality::Image],
            ModelKind::Transcription => vec![Modality::Audio],
            ModelKind::Decision => vec![Modality::Text, Modality::Image, Modality::Audio, Modality::Video],
            ModelKind::Embedding | ModelKind::Moderation | ModelKind::Speech => vec![Modality::Text],
        }
    }

    /// What a model is likely to do of which only the name is known. Servers list embedding models among the others and
    /// do not say which they are, but their makers' names do.
    pub fn of_name(name: &str) -> ModelKind {
        let name = name.to_ascii_lowercase();
        let last = name.rsplit('/').next().unwrap_or_default();
        let begins = |families: &[&str]| families.iter().any(|family| last.starts_with(family));
        let is_family = |family: &&str| last.starts_with(*family) || last.contains(&format!("-{family}"));
        let has_word = |families: &[&str]| {
            last.split(['-', '_', '.', ':'])
                .any(|word| families.contains(&word))
        };
        if last.contains("moderation") {
            ModelKind::Moderation
        } else if last.contains("embed") || EMBEDDING_FAMILIES.iter().any(is_family) {
            ModelKind::Embedding
        } else if has_word(TRANSCRIPTION_FAMILIES) {
            ModelKind::Transcription
        } else if has_word(SPEECH_FAMILIES) {
            ModelKind::Speech
        } else if has_word(DECISION_FAMILIES) {
            ModelKind::Decision
        } else if begins(VIDEO_FAMILIES) {
            ModelKind::Video
        } else if begins(IMAGE_FAMILIES) {
            ModelKind::Image
        } else {
            ModelKind::Chat
        }
    }
}

/// A kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Modality {
    /// Text.
    Text,
    /// Pictures.
    Image,
    /// Sound.
    Audio,
    /// Documents.
    File,
    /// Moving pictures.
    Video,
}

/// What stands around the turns of a conversation when a model reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Three tokens and the role for each turn, one more and the name where the speaker has a name, and three ahead of
    /// the answer.
    Chatml,
}

/// How far the shape of a model's answers can be forced (contract, Model record).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// A schema is enforced.
    JsonSchema,
    /// Valid JSON.
    JsonMode,
    /// Not at all.
    #[default]
    None,
}
