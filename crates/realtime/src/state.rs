//! State that the sessions of a process share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tollgate_catalog::VoiceStages;
use tollgate_pipeline::Pipeline;
use tollgate_types::Credits;

use crate::meters;
use crate::session::memory::AudioMemory;

/// Maximum size of buffered audio of all sessions, in bytes.
const MAX_AUDIO_BYTES: usize = 512 << 20;

/// Settings of new sessions.
#[derive(Clone, Debug)]
pub struct RealtimeSettings {
    /// Whether sessions detect turns if they do not set it.
    pub detects_turns: bool,
    /// Transcription model of sessions that name none.
    pub transcribe: Option<Arc<str>>,
    /// Interval of interim transcripts; zero for none.
    pub interim: Duration,
    /// Maximum lead of sent audio over its playback, in milliseconds; 0 for no limit.
    pub lead_ms: u64,
    /// Time without any event after which a session is closed.
    pub idle: Duration,
    /// Maximum duration of a session.
    pub max_duration: Duration,
    /// Voice of chat models; `None` if sessions need a voice model.
    pub chat_voice: Option<Arc<ChatVoice>>,
}

/// Models with which chat models hear and speak, and their prices.
#[derive(Clone, Debug)]
pub struct ChatVoice {
    /// Transcription model that converts the caller's speech to text.
    pub hear: String,
    /// Speech model that speaks the answers.
    pub speak: String,
    /// Voice of the speech model, unless a session selects another one.
    pub voice: String,
    /// Price of a million tokens of heard audio, in credits.
    pub input_audio: Credits,
    /// Price of a million tokens of spoken audio, in credits.
    pub output_audio: Credits,
}

impl ChatVoice {
    /// Returns the stages of a session with this chat model.
    pub(crate) fn stages(&self, think: &str) -> VoiceStages {
        VoiceStages {
            hear: self.hear.clone(),
            think: think.to_owned(),
            speak: self.speak.clone(),
            voice: self.voice.clone(),
        }
    }
}

/// Shared state of the sessions.
pub struct Shared {
    /// Routes, meters and settles the calls of sessions.
    pub pipeline: Arc<Pipeline>,
    /// Memory of buffered audio.
    pub audio_memory: Arc<AudioMemory>,
    settings: ArcSwap<RealtimeSettings>,
}

impl Shared {
    /// Creates the state of a process.
    pub fn new(pipeline: Arc<Pipeline>, settings: RealtimeSettings) -> Self {
        meters::describe();
        Self {
            pipeline,
            audio_memory: Arc::new(AudioMemory::new(MAX_AUDIO_BYTES)),
            settings: ArcSwap::from_pointee(settings),
        }
    }

    /// Returns the settings of new sessions.
    pub fn settings(&self) -> Arc<RealtimeSettings> {
        self.settings.load_full()
    }

    /// Replaces the settings. Open sessions continue with the previous ones.
    pub fn set_settings(&self, settings: RealtimeSettings) {
        self.settings.store(Arc::new(settings));
    }
}
