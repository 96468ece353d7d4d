//! Models of the catalog and their abilities.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_types::{Abilities, PriceVersion, Prices, Tokenizer};

use crate::media::Media;
use crate::research::{ReportLimits, ResearchRoles};
use crate::voice::VoiceStages;

/// A model that requests can use.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Public id in the format `maker/name`.
    pub id: Arc<str>,
    /// Name for display; not unique.
    pub display_name: String,
    /// Kind of the model.
    pub kind: ModelKind,
    /// Release date (ISO 8601); `None` if it is not verified.
    pub release_date: Option<String>,
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
    /// Abilities that no source states.
    pub unknown: Unknown,
    /// Whether the model calls tools.
    pub tools: bool,
    /// Whether the model reasons before it answers.
    pub reasoning: bool,
    /// Tokenizer of the model; `None` if it is not published.
    pub tokenizer: Option<Tokenizer>,
    /// Tokens that the provider adds around the messages; `None` if they are not documented.
    pub framing: Option<Framing>,
    /// Whether the model's responses are simulated.
    pub simulated: bool,
    /// Prices by class, in credits per 1,000,000 units.
    pub prices: Prices,
    /// Permanent identifier of `prices`, to which usage rows refer.
    pub price_version: PriceVersion,
    /// Plans whose allowance does not pay for this model.
    pub not_covered_by: Arc<[Arc<str>]>,
    /// Media parameters of an image or video model.
    pub media: Arc<Media>,
    /// Models and sources of a research model that the gateway's engine executes with models of the
    /// catalog; `None` for other models.
    pub research: Option<Arc<ResearchRoles>>,
    /// Maximum consumption of a report of a provider's own research model; `None` for other models.
    pub report: Option<ReportLimits>,
    /// Models of the stages of a voice model that the gateway executes; `None` for other models.
    pub voice: Option<Arc<VoiceStages>>,
    /// Whether the provider transcribes audio while it arrives, over one connection.
    pub live: bool,
    /// Routes to the model: the targets of its block, or all providers that offer it. Never empty.
    pub candidates: Vec<Candidate>,
}

impl Model {
    /// Returns the maximum number of output tokens of a response: the smaller of
    /// `max_output_tokens` and `context_window`. `None` if both are unknown.
    pub fn output_ceiling(&self) -> Option<u64> {
        match (self.max_output_tokens, self.context_window) {
            (Some(max), Some(window)) => Some(max.min(window)),
            (max, window) => max.or(window),
        }
    }

    /// Returns the input kinds that the model's public record lists: only text if the input is
    /// unknown.
    pub fn claimed_input(&self) -> &[Modality] {
        match self.unknown.input {
            true => &[Modality::Text],
            false => &self.input,
        }
    }

    /// Returns the structured output that the model's public record lists;
    /// [`StructuredOutput::None`] if unknown.
    pub fn claimed_structured_output(&self) -> StructuredOutput {
        match self.unknown.structured_output {
            true => StructuredOutput::None,
            false => self.structured_output,
        }
    }

    /// Whether this is a transcription model whose names at all providers say that it transcribes
    /// audio while it arrives.
    pub(crate) fn has_live_names(&self) -> bool {
        let mut candidates = self.candidates.iter();
        self.kind == ModelKind::Transcription
            && !self.candidates.is_empty()
            && candidates.all(|candidate| has_word(&candidate.upstream_model, LIVE_WORDS))
    }

    /// Whether the model accepts this kind of input. All kinds are accepted if the input is
    /// unknown.
    pub fn takes(&self, modality: Modality) -> bool {
        self.input.contains(&modality)
    }
}

/// Abilities of a text model that no source states. The public record does not list them, but
/// requests may use them: they reach the provider, which rejects unsupported ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Whether input besides text is unknown.
    pub input: bool,
    /// Whether support of structured output is unknown.
    pub structured_output: bool,
}

/// A route to a model: a provider and the model's name there.
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
    /// The candidate's name in settings and usage rows: `provider/upstream_model`. Stored, because
    /// every completed call records it.
    pub target: Arc<str>,
}

impl Candidate {
    /// Creates a candidate without known abilities.
    pub fn new(provider: &str, upstream_model: &str, weight: Option<u32>) -> Self {
        Self {
            provider: provider.into(),
            upstream_model: upstream_model.into(),
            weight,
            abilities: Arc::default(),
            target: format!("{provider}/{upstream_model}").into(),
        }
    }

    /// Returns a route to the same model, with the same name, at another provider.
    pub fn at(&self, provider: &str) -> Self {
        Self {
            abilities: self.abilities.clone(),
            ..Self::new(provider, &self.upstream_model, self.weight)
        }
    }
}

/// Kind of a model, which determines the endpoint that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Generates text in a conversation.
    Chat,
    /// Converts text to vectors.
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
    /// Writes reports with citations from the documents that it finds.
    Research,
    /// Converses in speech over a session.
    Realtime,
}

/// Prefixes in the names of image models, for providers that report no kind.
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
/// Prefixes in the names of video models, for providers that report no kind.
const VIDEO_FAMILIES: &[&str] = &["cogvideo", "hunyuanvideo", "ltx", "mochi", "sora", "veo", "wan2"];

/// Words in the names of speech models.
const SPEECH_FAMILIES: &[&str] = &["tts", "kokoro", "chatterbox", "orpheus", "bark"];
/// Words in the names of transcription models.
const TRANSCRIPTION_FAMILIES: &[&str] = &["whisper", "transcribe", "parakeet", "canary"];

/// Words in the names of realtime models.
const REALTIME_FAMILIES: &[&str] = &["realtime"];
/// Prefixes in the names of realtime models without such a word.
const REALTIME_PREFIXES: &[&str] = &["grok-voice"];
/// Words in the names of models with a word of [`REALTIME_FAMILIES`] that only transcribe.
const LIVE_TRANSCRIPTION_FAMILIES: &[&str] = &["whisper", "transcribe", "voxtral"];

/// Words in the names of transcription models that transcribe audio while it arrives.
const LIVE_WORDS: &[&str] = &["live", "realtime"];

/// Words in the names of decision models.
const DECISION_FAMILIES: &[&str] = &["decide", "decider", "decision", "decisions", "systemone"];

/// Beginnings of the names, or of name parts after a hyphen, of embedding models without `embed` in
/// the name.
const EMBEDDING_FAMILIES: &[&str] = &["all-minilm", "bge-", "e5-", "gte-", "paraphrase-"];

impl ModelKind {
    /// Returns the value of `type` in the API.
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
            ModelKind::Research => "research",
            ModelKind::Realtime => "realtime",
        }
    }

    /// Returns the default output of a model of this kind.
    pub(crate) fn gives(self) -> Vec<Modality> {
        match self {
            ModelKind::Chat | ModelKind::Transcription | ModelKind::Research => vec![Modality::Text],
            ModelKind::Embedding | ModelKind::Moderation | ModelKind::Decision => Vec::new(),
            ModelKind::Image => vec![Modality::Image],
            ModelKind::Video => vec![Modality::Video],
            ModelKind::Speech => vec![Modality::Audio],
            ModelKind::Realtime => vec![Modality::Text, Modality::Audio],
        }
    }

    /// Returns the default input of a model of this kind.
    pub(crate) fn takes(self) -> Vec<Modality> {
        match self {
            ModelKind::Chat => vec![Modality::Text, Modality::Image, Modality::Audio, Modality::File],
            ModelKind::Image | ModelKind::Video => vec![Modality::Text, Modality::Image],
            ModelKind::Transcription => vec![Modality::Audio],
            ModelKind::Realtime => vec![Modality::Text, Modality::Audio],
            ModelKind::Decision => vec![Modality::Text, Modality::Image, Modality::Audio, Modality::Video],
            ModelKind::Embedding | ModelKind::Moderation | ModelKind::Speech | ModelKind::Research => {
                vec![Modality::Text]
            }
        }
    }

    /// Guesses the kind of a model from its name, for providers whose model lists contain no kinds.
    pub fn of_name(name: &str) -> ModelKind {
        let name = name.to_ascii_lowercase();
        let last = name.rsplit('/').next().unwrap_or_default();
        let begins = |families: &[&str]| families.iter().any(|family| last.starts_with(family));
        let is_family = |family: &&str| last.starts_with(*family) || last.contains(&format!("-{family}"));
        let has_word = |families: &[&str]| has_word(last, families);
        if last.contains("moderation") {
            ModelKind::Moderation
        } else if last.contains("embed") || EMBEDDING_FAMILIES.iter().any(is_family) {
            ModelKind::Embedding
        } else if has_word(REALTIME_FAMILIES) && !has_word(LIVE_TRANSCRIPTION_FAMILIES)
            || begins(REALTIME_PREFIXES)
            || begins(&["gemini"]) && has_word(&["live"])
        {
            ModelKind::Realtime
        } else if has_word(TRANSCRIPTION_FAMILIES) || has_word(REALTIME_FAMILIES) {
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

/// Whether a part of a name, without regard to case, is one of the words.
fn has_word(name: &str, words: &[&str]) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    last.split(['-', '_', '.', ':']).any(|part| words.contains(&part))
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
    /// Three tokens plus the role for each message, one token plus the name for a named author, and
    /// three tokens before the response.
    Chatml,
}

/// Strictest structured output of a model (contract, Model record).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The provider enforces a JSON schema.
    JsonSchema,
    /// The provider enforces valid JSON, but no schema.
    JsonMode,
    /// The provider enforces no structure.
    #[default]
    None,
}
