//! `[realtime]`: voice sessions and live transcription.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_realtime::RealtimeSettings;

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
        }
    }
}
