//! What a call consumed, in classes that do not overlap: the sum of the classes is the provider's total.

use serde::{Deserialize, Serialize};

/// A class of consumption. Token classes are disjoint: cached input is not also input, reasoning is not also output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Unit {
    /// Input tokens that were read afresh.
    Input,
    /// Input tokens that the provider read from its cache.
    CacheRead,
    /// Input tokens that the provider wrote into its cache.
    CacheWrite,
    /// Audio tokens of the input.
    InputAudio,
    /// Visible output tokens.
    Output,
    /// Output tokens spent on reasoning.
    Reasoning,
    /// Audio tokens of the output.
    OutputAudio,
    /// Input tokens that the provider wrote into its cache for an hour; `CacheWrite` has the others.
    CacheWriteHour,
    /// Pictures that were made, in millionths of a plain one: a price for a million is that of a picture. Larger or better
    /// ones are several plain ones, as the model's factors say.
    Image,
    /// Film that was made, in microseconds of plain film: a price for a million is that of a second.
    Video,
    /// Sound that was made or heard, in microseconds.
    Audio,
    /// Characters that were spoken.
    Character,
}

impl Unit {
    /// Every class, in the order of storage.
    pub const ALL: [Unit; 12] = [
        Unit::Input,
        Unit::CacheRead,
        Unit::CacheWrite,
        Unit::InputAudio,
        Unit::Output,
        Unit::Reasoning,
        Unit::OutputAudio,
        Unit::CacheWriteHour,
        Unit::Image,
        Unit::Video,
        Unit::Audio,
        Unit::Character,
    ];

    /// Classes of tokens, which come first.
    pub const TOKENS: [Unit; 8] = [
        Unit::Input,
        Unit::CacheRead,
        Unit::CacheWrite,
        Unit::InputAudio,
        Unit::Output,
        Unit::Reasoning,
        Unit::OutputAudio,
        Unit::CacheWriteHour,
    ];

    /// Classes of what is no token, which come last.
    pub const MADE: [Unit; 4] = [Unit::Image, Unit::Video, Unit::Audio, Unit::Character];

    /// The name used in configuration, in storage and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Unit::Input => "input",
            Unit::CacheRead => "cache_read",
            Unit::CacheWrite => "cache_write",
            Unit::InputAudio => "input_audio",
            Unit::Output => "output",
            Unit::Reasoning => "reasoning",
            Unit::OutputAudio => "output_audio",
            Unit::CacheWriteHour => "cache_write_1h",
            Unit::Image => "image",
            Unit::Video => "video",
            Unit::Audio => "audio",
            Unit::Character => "character",
        }
    }

    /// The class with this name.
    pub fn parse(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.as_str() == name)
    }

    /// Whether it counts tokens.
    pub const fn is_token(self) -> bool {
        !matches!(self, Unit::Image | Unit::Video | Unit::Audio | Unit::Character)
    }

    /// Whether the class counts tokens that went in.
    pub const fn is_input(self) -> bool {
        matches!(
            self,
            Unit::Input | Unit::CacheRead | Unit::CacheWrite | Unit::CacheWriteHour | Unit::InputAudio
        )
    }
}

/// The largest number of tokens of one class that is believed. A provider that reports more is reporting nonsense.
pub const MAX_QUANTITY: u64 = 1_000_000_000;

/// Quantities by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    quantities: [u64; Unit::ALL.len()],
}

impl Usage {
    /// Nothing consumed.
    pub const ZERO: Usage = Usage {
        quantities: [0; Unit::ALL.len()],
    };

    /// Plain input and output tokens.
    pub fn tokens(input: u64, output: u64) -> Usage {
        Usage::ZERO.with(Unit::Input, input).with(Unit::Output, output)
    }

    /// The same usage with this quantity for one class.
    #[must_use]
    pub fn with(mut self, unit: Unit, quantity: u64) -> Usage {
        self.quantities[unit as usize] = quantity;
        self
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Usage) -> Usage {
        for (sum, more) in self.quantities.iter_mut().zip(other.quantities) {
            *sum = sum.saturating_add(more);
        }
        self
    }

    /// The quantity of a class.
    pub const fn get(&self, unit: Unit) -> u64 {
        self.quantities[unit as usize]
    }

    /// Tokens that the provider wrote into its cache, for however long.
    pub fn cache_written(&self) -> u64 {
        self.get(Unit::CacheWrite)
            .saturating_add(self.get(Unit::CacheWriteHour))
    }

    /// Classes with a quantity above zero.
    pub fn iter(&self) -> impl Iterator<Item = (Unit, u64)> + '_ {
        Unit::ALL
            .into_iter()
            .map(|unit| (unit, self.get(unit)))
            .filter(|(_, quantity)| *quantity > 0)
    }

    /// Tokens that went in, of every class.
    pub fn total_input(&self) -> u64 {
        Unit::TOKENS
            .into_iter()
            .filter(|unit| unit.is_input())
            .map(|unit| self.get(unit))
            .fold(0, u64::saturating_add)
    }

    /// Tokens that came out, of every class.
    pub fn total_output(&self) -> u64 {
        Unit::TOKENS
            .into_iter()
            .filter(|unit| !unit.is_input())
            .map(|unit| self.get(unit))
            .fold(0, u64::saturating_add)
    }

    /// All tokens; what a tokens-per-minute limit counts.
    pub fn total(&self) -> u64 {
        self.total_input().saturating_add(self.total_output())
    }

    /// Whether anything but tokens was consumed.
    pub fn has_made(&self) -> bool {
        Unit::MADE.into_iter().any(|unit| self.get(unit) > 0)
    }

    /// Whether nothing was consumed.
    pub fn is_zero(&self) -> bool {
        self.quantities.iter().all(|quantity| *quantity == 0)
    }
}

/// How a call ended, as its usage row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer was delivered.
    Ok,
    /// The caller left before the end.
    ClientGone,
    /// The upstream failed.
    UpstreamError,
    /// The upstream did not answer in time.
    Timeout,
    /// The prompt was blocked before generation.
    BlockedInput,
    /// The output was blocked after generation.
    BlockedOutput,
    /// The caller cancelled.
    Cancelled,
    /// The process died while the call ran.
    Crashed,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 8] = [
        Outcome::Ok,
        Outcome::ClientGone,
        Outcome::UpstreamError,
        Outcome::Timeout,
        Outcome::BlockedInput,
        Outcome::BlockedOutput,
        Outcome::Cancelled,
        Outcome::Crashed,
    ];

    /// The name used in storage and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::ClientGone => "client_gone",
            Outcome::UpstreamError => "upstream_error",
            Outcome::Timeout => "timeout",
            Outcome::BlockedInput => "blocked_input",
            Outcome::BlockedOutput => "blocked_output",
            Outcome::Cancelled => "cancelled",
            Outcome::Crashed => "crashed",
        }
    }

    /// The outcome with this name.
    pub fn parse(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }
}
