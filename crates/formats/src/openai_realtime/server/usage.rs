//! Usage of responses and transcriptions, and rate limits.

use std::fmt;

use super::super::Dialect;
use super::super::writer::Object;

/// Tokens of a response. `cached` is a part of `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseUsage<'a> {
    pub input: TokenCounts,
    pub cached: TokenCounts,
    /// Text and audio; images are never output.
    pub output: TokenCounts,
    /// Charged credits as decimal text; absent in the event if `None`.
    pub cost: Option<&'a str>,
}

/// Tokens by modality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    pub text: u64,
    pub audio: u64,
    pub image: u64,
}

impl TokenCounts {
    /// Returns the sum of all modalities.
    pub const fn total(self) -> u64 {
        self.text.saturating_add(self.audio).saturating_add(self.image)
    }
}

/// Quantity that a transcription consumed, with its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptionUsage<'a> {
    /// Billed by the length of the audio.
    Duration {
        /// Length of the audio in microseconds, written in seconds.
        micros: u64,
        /// Charged credits as decimal text; absent in the event if `None`.
        cost: Option<&'a str>,
    },
    /// Billed by tokens. The input consists of text and audio.
    Tokens {
        input: TokenCounts,
        output: u64,
        /// Charged credits as decimal text; absent in the event if `None`.
        cost: Option<&'a str>,
    },
}

/// State of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// `requests` or `tokens`.
    pub name: &'static str,
    pub limit: u64,
    pub remaining: u64,
    /// Time until the limit is full again, written in seconds.
    pub reset_ms: u64,
}

impl ResponseUsage<'_> {
    /// Writes the members of `usage`. The beta dialect has no images and no cached details.
    pub(super) fn write(&self, dialect: Dialect, object: &mut Object<'_>) {
        let (input, output) = (self.input.total(), self.output.total());
        object.number("total_tokens", input.saturating_add(output));
        object.number("input_tokens", input);
        object.number("output_tokens", output);
        object.object("input_token_details", |details| {
            let is_ga = dialect == Dialect::Ga;
            details.number("text_tokens", self.input.text);
            details.number("audio_tokens", self.input.audio);
            if is_ga {
                details.number("image_tokens", self.input.image);
            }
            details.number("cached_tokens", self.cached.total());
            if is_ga {
                details.object("cached_tokens_details", |cached| {
                    cached.number("text_tokens", self.cached.text);
                    cached.number("audio_tokens", self.cached.audio);
                    cached.number("image_tokens", self.cached.image);
                });
            }
        });
        object.object("output_token_details", |details| {
            details.number("text_tokens", self.output.text);
            details.number("audio_tokens", self.output.audio);
        });
        object.optional("cost", self.cost);
    }
}

impl TranscriptionUsage<'_> {
    /// Writes the members of `usage`.
    pub(super) fn write(&self, object: &mut Object<'_>) {
        match *self {
            TranscriptionUsage::Duration { micros, cost } => {
                object.text("type", "duration");
                object.number(
                    "seconds",
                    Decimal {
                        units: micros,
                        digits: 6,
                    },
                );
                object.optional("cost", cost);
            }
            TranscriptionUsage::Tokens { input, output, cost } => {
                object.text("type", "tokens");
                object.number("total_tokens", input.total().saturating_add(output));
                object.number("input_tokens", input.total());
                object.number("output_tokens", output);
                object.object("input_token_details", |details| {
                    details.number("text_tokens", input.text);
                    details.number("audio_tokens", input.audio);
                });
                object.optional("cost", cost);
            }
        }
    }
}

impl RateLimit {
    /// Writes the members of a limit.
    pub(super) fn write(&self, object: &mut Object<'_>) {
        object.text("name", self.name);
        object.number("limit", self.limit);
        object.number("remaining", self.remaining);
        let reset = Decimal {
            units: self.reset_ms,
            digits: 3,
        };
        object.number("reset_seconds", reset);
    }
}

/// Decimal number without trailing zeros: `units` × 10^−`digits`.
struct Decimal {
    units: u64,
    digits: u32,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10_u64.pow(self.digits);
        write!(f, "{}", self.units / scale)?;
        let (mut rest, mut scale) = (self.units % scale, scale);
        if rest > 0 {
            f.write_str(".")?;
        }
        while rest > 0 {
            scale /= 10;
            write!(f, "{}", rest / scale)?;
            rest %= scale;
        }
        Ok(())
    }
}
