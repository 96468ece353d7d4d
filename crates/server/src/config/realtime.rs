//! `[realtime]`: voice sessions and live transcription.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_realtime::{ChatVoice, RealtimeSettings};
use tollgate_types::Credits;

use super::ConfigError;

/// `[realtime]`: defaults and limits of voice sessions and live transcription. A change applies to
/// new sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RealtimeSection {
    /// Detection of turns in sessions that do not set it: `off`, or `server_vad` as at OpenAI.
    pub default_turn_detection: DefaultTurnDetection,
    /// Transcription model of sessions with `intent=transcription` and no model; the first one of
    /// the catalog if omitted.
    pub transcribe: Option<String>,
    /// Interval of interim transcripts while a person speaks, in milliseconds; 0 for none.
    pub interim_ms: u64,
    /// Maximum lead of sent audio over its playback, in milliseconds; 0 for no limit.
    pub lead_ms: u64,
    /// Time without any event after which a session is closed, in milliseconds.
    pub idle_ms: u64,
    /// Maximum duration of a session, in minutes: 1 to 100.
    pub max_minutes: u64,
    /// Transcription model with which chat models hear. With `speak`, `voice` and `prices`,
    /// sessions can have chat models.
    pub hear: Option<String>,
    /// Speech model with which chat models speak.
    pub speak: Option<String>,
    /// Voice of `speak`, unless a session selects another one.
    pub voice: Option<String>,
    /// Prices of heard and spoken audio of chat models.
    pub prices: Option<AudioPrices>,
}

/// `[realtime] prices`: prices of a million audio tokens, in credits, beside the prices of the chat
/// model. A second has 10 tokens of heard and 20 of spoken audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioPrices {
    /// Price of heard audio.
    pub input_audio: Credits,
    /// Price of spoken audio.
    pub output_audio: Credits,
}

/// Detection of turns in sessions that do not set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultTurnDetection {
    /// The client commits its audio and requests responses.
    Off,
    /// The gateway detects the end of a turn and responds.
    ServerVad,
}

impl Default for RealtimeSection {
    fn default() -> Self {
        Self {
            default_turn_detection: DefaultTurnDetection::Off,
            transcribe: None,
            interim_ms: 2_000,
            lead_ms: 2_000,
            idle_ms: 300_000,
            max_minutes: 60,
            hear: None,
            speak: None,
            voice: None,
            prices: None,
        }
    }
}

impl RealtimeSection {
    /// Refuses limits with which no session could be used.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let is_wrong = |name: &str, message: &str| Err(ConfigError::new(format!("realtime.{name}"), message));
        // Client secrets are stored for two hours after their expiry, longer than any session.
        if !(1..=100).contains(&self.max_minutes) {
            return is_wrong("max_minutes", "must be 1 to 100");
        }
        if self.idle_ms < 1_000 {
            return is_wrong("idle_ms", "must be at least 1000");
        }
        if self.interim_ms != 0 && self.interim_ms < 500 {
            return is_wrong("interim_ms", "must be 0 or at least 500");
        }
        let given = [
            ("hear", self.hear.is_some()),
            ("speak", self.speak.is_some()),
            ("voice", self.voice.is_some()),
            ("prices", self.prices.is_some()),
        ];
        let missing = given.into_iter().find(|(_, is_given)| !is_given);
        if let Some((name, _)) = missing.filter(|_| given.iter().any(|(_, is_given)| *is_given)) {
            let message = "is missing: hear, speak, voice and prices together let chat models talk";
            return is_wrong(name, message);
        }
        Ok(())
    }

    /// Returns the settings of new sessions.
    pub(crate) fn settings(&self) -> RealtimeSettings {
        RealtimeSettings {
            detects_turns: self.default_turn_detection == DefaultTurnDetection::ServerVad,
            transcribe: self.transcribe.as_deref().map(Into::into),
            interim: Duration::from_millis(self.interim_ms),
            lead_ms: self.lead_ms,
            idle: Duration::from_millis(self.idle_ms),
            max_duration: Duration::from_secs(self.max_minutes.saturating_mul(60)),
            chat_voice: self.chat_voice().map(Arc::new),
        }
    }

    fn chat_voice(&self) -> Option<ChatVoice> {
        let prices = self.prices?;
        Some(ChatVoice {
            hear: self.hear.clone()?,
            speak: self.speak.clone()?,
            voice: self.voice.clone()?,
            input_audio: prices.input_audio,
            output_audio: prices.output_audio,
        })
    }
}
