//! Usage and limit of one response.

use bytes::Bytes;
use tollgate_types::{Unit, Usage};
use tollgate_upstream::{REALTIME_RATE, RealtimeEvent};

/// Audio tokens of a second of a recording, and of a second of a spoken answer.
const HEARD_TOKENS_PER_SECOND: u64 = 10;
const SPOKEN_TOKENS_PER_SECOND: u64 = 20;
/// Bytes of a second of audio.
const BYTES_PER_SECOND: u64 = 2 * REALTIME_RATE as u64;
/// Bytes of one token of a spoken answer.
const BYTES_PER_SPOKEN_TOKEN: u64 = BYTES_PER_SECOND / SPOKEN_TOKENS_PER_SECOND;

/// Returns the audio tokens of a recording of so many bytes. A started token counts.
pub(super) fn heard_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_SECOND / HEARD_TOKENS_PER_SECOND)
}

/// Returns the audio tokens of a spoken answer of so many bytes. A started token counts.
pub(super) fn spoken_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_SPOKEN_TOKEN)
}

/// Returns the size of audio of this duration, in bytes.
pub(super) fn audio_bytes(ms: u64) -> u64 {
    ms.saturating_mul(BYTES_PER_SECOND / 1_000)
}

/// Counts the tokens of a response up to its limit.
#[derive(Debug)]
pub(super) struct Meter {
    input: Usage,
    text_tokens: u64,
    spoken_bytes: u64,
    max_tokens: u64,
}

impl Meter {
    /// Creates the meter of a response that reads `input` and has at most `max_tokens` tokens of
    /// text and audio together.
    pub(super) fn new(input: Usage, max_tokens: u64) -> Self {
        Self {
            input,
            text_tokens: 0,
            spoken_bytes: 0,
            max_tokens,
        }
    }

    /// Returns the part of an event with `tokens` tokens of text that is within the limit, if any,
    /// and whether the limit ends the response.
    pub(super) fn admit(&mut self, event: RealtimeEvent, tokens: u64) -> (Option<RealtimeEvent>, bool) {
        let RealtimeEvent::Audio(audio) = event else {
            let sum = self.text_tokens.saturating_add(tokens);
            if sum.saturating_add(spoken_tokens(self.spoken_bytes)) > self.max_tokens {
                return (None, true);
            }
            self.text_tokens = sum;
            return (Some(event), false);
        };
        let max_bytes = self.max_tokens.saturating_sub(self.text_tokens);
        let left = max_bytes
            .saturating_mul(BYTES_PER_SPOKEN_TOKEN)
            .saturating_sub(self.spoken_bytes);
        let is_full = audio.len() as u64 > left;
        let admitted: Bytes = match usize::try_from(left) {
            Ok(left) if is_full => audio.slice(..left),
            _ => audio,
        };
        self.spoken_bytes += admitted.len() as u64;
        let event = (!admitted.is_empty()).then_some(RealtimeEvent::Audio(admitted));
        (event, is_full)
    }

    /// Returns the usage so far.
    pub(super) fn usage(&self) -> Usage {
        self.input
            .with(Unit::Output, self.text_tokens)
            .with(Unit::OutputAudio, spoken_tokens(self.spoken_bytes))
    }
}
