//! The models of the catalog.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_types::{Abilities, PriceVersion, Prices, Tokenizer};

use crate::media::Media;

/// A model that can be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Public id, `maker/name`.
    pub id: Arc<str>,
    /// Name for display; not unique.
    pub display_name: String,
    /// Kind of the model.
    pub kind: ModelKind,
    /// ISO 8601 date, or `None` where it is not verified.
    pub release_date: Option<String>,
    /// Input and output together, in tokens.
    pub context_window: Option<u64>,
    /// Max tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// Max length of its vectors, for embedding models.
    pub dimensions: Option<u64>,
    /// Kinds of input.
    pub input: Vec<Modality>,
    /// Kinds of output.
    pub output: Vec<Modality>,
    /// Strictest structured output that the model supports.
    pub structured_output: StructuredOutput,
    /// Abilities without a source.
    pub unknown: Unknown,
    /// Whether the model calls tools.
    pub tools: bool,
    /// Whether the model reasons before it answers.
    pub reasoning: bool,
    /// Tokenizer of its text; `None` if not published.
    pub tokenizer: Option<Tokenizer>,
    /// Tokens that the provider adds around the messages; `None` if not documented.
    pub framing: Option<Framing>,
    /// Whether its answers are simulated.
    pub simulated: bool,
    /// Prices by class, per 1,000,000 units.
    pub prices: Prices,
    /// Permanent identifier of `prices`: usage rows refer to it.
    pub price_version: PriceVersion,
    /// Plans whose allowance does not pay for this model; usually empty.
    pub not_covered_by: Arc<[Arc<str>]>,
    /// Media parameters of an image or video model.
    pub media: Arc<Media>,
    /// Routes to the model; never empty.
    pub candidates: Vec<Candidate>,
}

impl Model {
    /// Max output tokens of an answer: the smaller of max output and context window, if known.
    pub fn output_ceiling(&self) -> Option<u64> {
        match (self.max_output_tokens, self.context_window) {
            (Some(max), Some(window)) => Some(max.min(window)),
            (max, window) => max.or(window),
        }
    }

    /// Input kinds that the record claims; only text if the input is unknown.
    pub fn claimed_input(&self) -> &[Modality] {
        match self.unknown.input {
            true => &[Modality::Text],
            false => &self.input,
        }
    }

    /// Structured output that the record claims; `None` if unknown.
    pub fn claimed_structured_output(&self) -> StructuredOutput {
        match self.unknown.structured_output {
            true => StructuredOutput::None,
            false => self.structured_output,
        }
    }

    /// Whether the model takes this kind of input.
    pub fn takes(&self, modality: Modality) -> bool {
        self.input.contains(&modality)
    }
}

/// Abilities of a text model that no source states. The record does not claim them, but its fields
/// allow them all: requests reach the provider, which rejects unsupported ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Whether its inputs besides text are unknown.
    pub input: bool,
    /// Whether its support of structured output is unknown.
    pub structured_output: bool,
}

/// One route to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the provider's configuration block.
    pub provider: Arc<str>,
    /// The model's name at the provider.
    pub upstream_model: Arc<str>,
    /// Relative share of the traffic among the candidates with a weight. Candidates without one are
    /// fallbacks, in order.
    pub weight: Option<u32>,
    /// Reasoning controls and message formats that the model supports at this provider.
    pub abilities: Arc<Abilities>,
    /// `provider/upstream_model`, the candidate's name in settings and usage rows. Precomputed,
    /// because every answered call stores it.
    pub target: Arc<str>,
}

impl Candidate {
    /// A candidate without known abilities.
    pub fn new(provider: &str, upstream_model: &str, weight: Option<u32>) -> Self {
        Self {
            provider: provider.into(),
            upstream_model: upstream_model.into(),
            weight,
            abilities: Arc::default(),
            target: format!("{provider}/{upstream_model}").into(),
        }
    }

    /// The same model at another provider.
    pub fn at(&self, provider: &str) -> Self {
        Self {
            abilities: self.abilities.clone(),
            ..Self::new(provider, &self.upstream_model, self.weight)
        }
    }
}

/// Kind of a model, by its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Generates text in a conversation.
    Chat,
    /// Turns text into vectors.
    Embedding,
    /// Rates content by the categories of a moderation policy.
    Moderation,
    /// Generates or edits images.
    Image,
    /// Generates videos from text or images.
    Video,
    /// Converts text to speech.
    Speech,
    /// Converts speech to text.
    Transcription,
    /// Answers typed questions with probabilities.
    Decision,
}

/// Name prefixes of image and video models of providers that report no kind.
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

/// Words in the names of speech and transcription models.
const SPEECH_FAMILIES: &[&str] = &["tts", "kokoro", "chatterbox", "orpheus", "bark"];
const TRANSCRIPTION_FAMILIES: &[&str] = &["whisper", "transcribe", "parakeet", "canary"];

/// Words in the names of decision models.
const DECISION_FAMILIES: &[&str] = &["decide", "decider", "decision", "decisions", "systemone"];

/// Prefixes in the names of open embedding models whose name lacks `embed`.
const EMBEDDING_FAMILIES: &[&str] = &["all-minilm", "bge-", "e5-", "gte-", "paraphrase-"];

impl ModelKind {
    /// The value of `type` on the wire.
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

    /// Default output of a model of this kind.
    pub(crate) fn gives(self) -> Vec<Modality> {
        match self {
            ModelKind::Chat | ModelKind::Transcription => vec![Modality::Text],
            ModelKind::Embedding | ModelKind::Moderation | ModelKind::Decision => Vec::new(),
            ModelKind::Image => vec![Modality::Image],
            ModelKind::Video => vec![Modality::Video],
            ModelKind::Speech => vec![Modality::Audio],
        }
    }

    /// Default input of a model of this kind.
    pub(crate) fn takes(self) -> Vec<Modality> {
        match self {
            ModelKind::Chat => vec![Modality::Text, Modality::Image, Modality::Audio, Modality::File],
            ModelKind::Image | ModelKind::Video => vec![Modality::Text, Modality::Image],
            ModelKind::Transcription => vec![Modality::Audio],
            ModelKind::Decision => vec![Modality::Text, Modality::Image, Modality::Audio, Modality::Video],
            ModelKind::Embedding | ModelKind::Moderation | ModelKind::Speech => vec![Modality::Text],
        }
    }

    /// Guesses the kind of a model from its name. Servers list embedding models among the others
    /// without a kind, but the names show it.
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
    /// Text in a message.
    Text,
    /// Still images, such as PNG or JPEG.
    Image,
    /// Recorded speech and other audio.
    Audio,
    /// Documents, such as PDF.
    File,
    /// Videos, with or without audio.
    Video,
}

/// Tokens that a provider adds around the messages of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Three tokens and the role for each message, plus one and the name for a named speaker, plus
    /// three ahead of the answer.
    Chatml,
}

/// Strictest structured output of a model (contract, Model record).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The provider enforces a JSON schema.
    JsonSchema,
    /// The provider enforces valid JSON of any shape.
    JsonMode,
    /// The provider enforces no structure.
    #[default]
    None,
}
