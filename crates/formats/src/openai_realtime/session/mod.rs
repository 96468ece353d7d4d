//! Configuration of a session, and changes to it.

mod apply;
mod output;
mod tools;
mod transcription;
mod turns;
mod update;
mod write;

use std::sync::Arc;

pub use output::{OutputModality, ReasoningEffort, Truncation};
pub use tools::{MAX_TOOLS, Tool, ToolChoice};
pub use transcription::{Transcription, TranscriptionDelay};
pub use turns::{DEFAULT_SERVER_VAD, Eagerness, TurnDetection};
pub use update::{Placed, SessionUpdate};

pub(super) use output::{
    read_instructions, read_max_output_tokens, read_modality, read_parallel_tool_calls, read_reasoning,
    read_temperature, read_voice, write_max_output_tokens,
};
pub(super) use tools::{read_tool_choice, read_tools};
pub(super) use update::set;

use super::{AudioFormat, SessionKind};

/// Maximum size of `instructions`, in bytes of UTF-8.
pub const MAX_INSTRUCTIONS_BYTES: usize = 64 << 10;

/// Maximum of `max_output_tokens`. A model can have a lower one.
pub const MAX_OUTPUT_TOKENS: u32 = 4096;

/// Effective configuration of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub id: Arc<str>,
    pub kind: SessionKind,
    /// Catalog id of the model: of the voice model, or of the transcription model.
    pub model: Arc<str>,
    pub modality: OutputModality,
    /// System instructions; empty if there are none.
    pub instructions: Arc<str>,
    pub input_format: AudioFormat,
    /// Transcription of the input audio; `None` is off.
    pub transcription: Option<Transcription>,
    /// Automatic turns; `None` is off.
    pub turn_detection: Option<TurnDetection>,
    pub output_format: AudioFormat,
    /// Name of the voice; `None` if the model has no named voices, and in transcription sessions.
    pub voice: Option<Arc<str>>,
    /// Speech rate from 0.25 to 1.5.
    pub speed: f64,
    pub tools: Arc<[Tool]>,
    pub tool_choice: ToolChoice,
    /// Maximum tokens of a response; `None` is `"inf"`.
    pub max_output_tokens: Option<u32>,
    pub truncation: Truncation,
    /// Whether transcriptions contain log probabilities
    /// (`include: ["item.input_audio_transcription.logprobs"]`).
    pub include_logprobs: bool,
    pub parallel_tool_calls: Option<bool>,
    pub reasoning: Option<ReasoningEffort>,
    /// Sampling temperature, from 0.6 to 1.2. Only the beta dialect has it.
    pub temperature: Option<f64>,
    /// End of the session in seconds since the Unix epoch.
    pub expires_at: Option<i64>,
}

impl Session {
    /// Creates a session with the defaults of the protocol: audio output, PCM, speed 1, no tools,
    /// and no token limit. Turn detection, transcription and the voice are off or unset.
    pub fn new(id: impl Into<Arc<str>>, kind: SessionKind, model: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            kind,
            model: model.into(),
            modality: OutputModality::Audio,
            instructions: Arc::from(""),
            input_format: AudioFormat::Pcm,
            transcription: None,
            turn_detection: None,
            output_format: AudioFormat::Pcm,
            voice: None,
            speed: 1.0,
            tools: Arc::from([]),
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            truncation: Truncation::Auto,
            include_logprobs: false,
            parallel_tool_calls: None,
            reasoning: None,
            temperature: None,
            expires_at: None,
        }
    }
}

/// Limits of an update that depend on the model and on the state of the session. The caller checks
/// the name of a transcription model itself.
#[derive(Clone, Debug, Default)]
pub struct SessionLimits {
    /// Names of the model's voices; `None` accepts every name.
    pub voices: Option<Vec<Arc<str>>>,
    /// Whether audio was delivered, so that the voice can no longer change.
    pub is_voice_fixed: bool,
    /// Maximum output tokens of the model; `None` applies [`MAX_OUTPUT_TOKENS`] alone.
    pub max_output_tokens: Option<u32>,
}
