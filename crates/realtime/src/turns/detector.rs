//! Server VAD: turns from the speech scores of earshot. Times are positions in the audio, never
//! readings of a clock, so the same audio has the same turns however it is delivered.

#[cfg(test)]
mod tests;

use std::fmt;

use earshot::Detector;

/// Samples of a frame of earshot at 16 kHz.
const FRAME_SAMPLES: usize = 256;
/// Duration of a frame.
const FRAME_MS: u64 = 16;
/// Delay of earshot's scores, measured at both ends of spoken sentences.
const SCORE_DELAY_MS: u64 = 64;
/// Silence after which a transcription may start.
const QUIET_MS: u64 = 200;
/// Duration at which a turn ends even if speech continues.
const MAX_TURN_MS: u64 = 60_000;
/// Consecutive speech frames that start a turn.
const START_FRAMES: u64 = 4;
/// Consecutive speech frames that start a turn while a reply is played, whose echo may come back.
const START_FRAMES_WHILE_PLAYING: u64 = 12;
/// Allowance below the threshold for the score of continuing speech.
const HYSTERESIS: f32 = 0.05;

/// Settings of a session's `server_vad`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VadSettings {
    /// Threshold from 0 to 1, on the scale of OpenAI's sessions. 0.5 is the default.
    pub threshold: f32,
    /// Audio before the first speech that belongs to the turn.
    pub prefix_padding_ms: u64,
    /// Silence that ends a turn.
    pub silence_duration_ms: u64,
    /// Silence after a reply that is reported. `None`: never.
    pub idle_timeout_ms: Option<u64>,
}

impl Default for VadSettings {
    fn default() -> Self {
        Self {
            threshold: 0.5,
            prefix_padding_ms: 300,
            silence_duration_ms: 500,
            idle_timeout_ms: None,
        }
    }
}

impl VadSettings {
    /// Returns the score of earshot that counts as speech: 0.7 at the default threshold, 0.99 at 1.
    fn min_score(&self) -> f32 {
        let threshold = self.threshold.clamp(0.0, 1.0);
        if threshold <= 0.5 {
            1.4 * threshold
        } else {
            0.7 + 0.58 * (threshold - 0.5)
        }
    }
}

/// A change of the speaker's state. Times are milliseconds of audio since the session's first
/// sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VadEvent {
    /// A turn began.
    Started {
        /// Start of the turn's audio: the first speech less the prefix padding.
        at_ms: u64,
    },
    /// The speaker has been silent for 200 ms, or for the whole silence that ends the turn if that
    /// is shorter. Reported once per silence.
    Quiet {
        /// Position of the decision.
        at_ms: u64,
    },
    /// Speech continues after [`VadEvent::Quiet`].
    Resumed {
        /// Position of the decision.
        at_ms: u64,
    },
    /// The turn ended by silence, or at 60 s of duration.
    Stopped {
        /// End of the turn's audio, with the silence.
        at_ms: u64,
        /// End of the last speech.
        speech_end_ms: u64,
    },
    /// No speech began within the idle timeout.
    TimedOut {
        /// Position of [`ServerVad::arm_idle`].
        armed_ms: u64,
        /// Position of the decision.
        at_ms: u64,
    },
}

/// Detects the turns of one audio stream at 16 kHz. About 12 KiB.
pub struct ServerVad {
    detector: Box<Detector>,
    /// Samples that fill no frame yet.
    pending: Vec<i16>,
    turns: Turns,
}

impl ServerVad {
    /// Creates a detector. `start_ms` is the position in the session's audio of the first sample
    /// that [`push`](Self::push) will receive.
    pub fn new(settings: VadSettings, start_ms: u64) -> Self {
        Self {
            detector: Detector::default_boxed(),
            pending: Vec::with_capacity(FRAME_SAMPLES),
            turns: Turns::new(settings, start_ms),
        }
    }

    /// Returns the events of the frames that the samples complete, in order.
    pub fn push(&mut self, samples: &[i16]) -> Vec<VadEvent> {
        let mut events = Vec::new();
        self.pending.extend_from_slice(samples);
        let mut frames = self.pending.chunks_exact(FRAME_SAMPLES);
        for frame in &mut frames {
            self.turns.advance(self.detector.predict_i16(frame), &mut events);
        }
        let rest = frames.remainder().len();
        self.pending.drain(..self.pending.len() - rest);
        events
    }

    /// Replaces the settings. A running turn continues under the new ones.
    pub fn set_settings(&mut self, settings: VadSettings) {
        self.turns.settings = settings;
    }

    /// Sets whether a reply is being played: then 12 instead of 4 speech frames start a turn.
    pub fn set_output_playing(&mut self, is_playing: bool) {
        self.turns.is_output_playing = is_playing;
    }

    /// Replaces the silence that ends the turn, until speech resumes. Without a turn, it has no
    /// effect.
    pub fn set_silence_duration_ms(&mut self, silence_ms: u64) {
        if let Some(speech) = &mut self.turns.speech {
            speech.silence_ms = Some(silence_ms);
        }
    }

    /// Starts the idle timeout. It ends with the next turn or by [`VadEvent::TimedOut`].
    pub fn arm_idle(&mut self) {
        if self.turns.speech.is_none() {
            self.turns.armed_ms = Some(self.turns.now_ms);
        }
    }

    /// Cancels the idle timeout.
    pub fn disarm_idle(&mut self) {
        self.turns.armed_ms = None;
    }

    /// Ends a running turn without an event, since the client committed or cleared its audio.
    pub fn end_turn(&mut self) {
        self.turns.end_turn();
    }

    /// Returns whether a turn has started and not ended.
    pub const fn is_speaking(&self) -> bool {
        self.turns.speech.is_some()
    }
}

impl fmt::Debug for ServerVad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerVad")
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}

/// Turns from the scores of frames.
#[derive(Debug)]
struct Turns {
    settings: VadSettings,
    is_output_playing: bool,
    /// Position after the last frame.
    now_ms: u64,
    /// End of the previous turn, or of the audio that the detector did not receive.
    free_ms: u64,
    /// Consecutive speech frames outside a turn.
    run: u64,
    /// Position of the idle timeout's start.
    armed_ms: Option<u64>,
    speech: Option<Speech>,
}

/// The running turn.
#[derive(Debug)]
struct Speech {
    started_ms: u64,
    /// End of the last speech.
    end_ms: u64,
    /// Whether the last frame was silence.
    is_silent: bool,
    /// Whether [`VadEvent::Quiet`] was reported for the running silence.
    is_quiet: bool,
    /// Silence that ends the turn, instead of the settings' value.
    silence_ms: Option<u64>,
}

impl Turns {
    const fn new(settings: VadSettings, start_ms: u64) -> Self {
        Self {
            settings,
            is_output_playing: false,
            now_ms: start_ms,
            free_ms: start_ms,
            run: 0,
            armed_ms: None,
            speech: None,
        }
    }

    /// Takes the score of the next frame.
    fn advance(&mut self, score: f32, events: &mut Vec<VadEvent>) {
        self.now_ms += FRAME_MS;
        match self.speech.take() {
            Some(speech) => self.continue_turn(speech, score, events),
            None => self.wait_for_turn(score, events),
        }
    }

    fn wait_for_turn(&mut self, score: f32, events: &mut Vec<VadEvent>) {
        let hysteresis = if self.run > 0 { HYSTERESIS } else { 0.0 };
        self.run = if score >= self.settings.min_score() - hysteresis {
            self.run + 1
        } else {
            0
        };
        let start_frames = if self.is_output_playing {
            START_FRAMES_WHILE_PLAYING
        } else {
            START_FRAMES
        };
        if self.run >= start_frames {
            let at_ms = self.start_turn();
            events.push(VadEvent::Started { at_ms });
        } else if self.run == 0 {
            events.extend(self.time_out());
        }
    }

    /// Starts a turn with the running speech frames. Returns the start of its audio.
    fn start_turn(&mut self) -> u64 {
        let speech_ms = self.now_ms.saturating_sub(self.run * FRAME_MS + SCORE_DELAY_MS);
        let padded_ms = speech_ms.saturating_sub(self.settings.prefix_padding_ms);
        let started_ms = padded_ms.max(self.free_ms);
        self.run = 0;
        self.armed_ms = None;
        self.speech = Some(Speech {
            started_ms,
            end_ms: self.now_ms.saturating_sub(SCORE_DELAY_MS),
            is_silent: false,
            is_quiet: false,
            silence_ms: None,
        });
        started_ms
    }

    fn time_out(&mut self) -> Option<VadEvent> {
        let (armed_ms, timeout_ms) = (self.armed_ms?, self.settings.idle_timeout_ms?);
        if self.now_ms - armed_ms < timeout_ms {
            return None;
        }
        self.armed_ms = None;
        let at_ms = self.now_ms;
        Some(VadEvent::TimedOut { armed_ms, at_ms })
    }

    fn continue_turn(&mut self, mut speech: Speech, score: f32, events: &mut Vec<VadEvent>) {
        let at_ms = self.now_ms;
        let hysteresis = if speech.is_silent { 0.0 } else { HYSTERESIS };
        let mut has_ended = at_ms - speech.started_ms >= MAX_TURN_MS;
        speech.is_silent = score < self.settings.min_score() - hysteresis;
        if speech.is_silent {
            let silence_ms = at_ms - speech.end_ms;
            let max_ms = speech.silence_ms.unwrap_or(self.settings.silence_duration_ms);
            if !speech.is_quiet && silence_ms >= max_ms.min(QUIET_MS) {
                speech.is_quiet = true;
                events.push(VadEvent::Quiet { at_ms });
            }
            has_ended |= silence_ms >= max_ms;
        } else {
            if speech.is_quiet {
                events.push(VadEvent::Resumed { at_ms });
            }
            speech.end_ms = at_ms.saturating_sub(SCORE_DELAY_MS);
            (speech.is_quiet, speech.silence_ms) = (false, None);
        }
        let speech_end_ms = speech.end_ms;
        self.speech = Some(speech);
        if has_ended {
            self.end_turn();
            events.push(VadEvent::Stopped { at_ms, speech_end_ms });
        }
    }

    fn end_turn(&mut self) {
        self.run = 0;
        self.free_ms = self.now_ms;
        self.speech = None;
    }
}
