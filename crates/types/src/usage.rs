//! Usage of a call, by class. Token classes are disjoint: their sum equals the provider's total.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A class of usage. Token classes are disjoint: cached input is not also input, and reasoning is
/// not also output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Unit {
    /// Input tokens, except audio and image tokens, that were neither read from a cache nor written
    /// to one.
    Input,
    /// Input tokens that the provider read from its cache, except those of
    /// [`Unit::CacheReadAudio`].
    CacheRead,
    /// Input tokens that the provider wrote into its cache.
    CacheWrite,
    /// Audio tokens of the input that the provider did not read from its cache.
    InputAudio,
    /// Output tokens of the visible response, except audio tokens.
    Output,
    /// Output tokens of the reasoning.
    Reasoning,
    /// Audio tokens of the output.
    OutputAudio,
    /// Input tokens that the provider wrote into its one-hour cache. `CacheWrite` counts the other
    /// cache writes.
    CacheWriteHour,
    /// Generated images, in millionths of a standard image, so that a price per million is the
    /// price of one image. Larger or better images count as several standard images, by the model's
    /// factors.
    Image,
    /// Generated video, in microseconds of standard video, so that a price per million is the price
    /// of one second.
    Video,
    /// Generated or transcribed audio, in microseconds.
    Audio,
    /// Characters of synthesized speech.
    Character,
    /// Queries to search backends, in millionths of a query, so that a price per million is the
    /// price of one query.
    Search,
    /// Image tokens of the input, of providers that count them separately.
    InputImage,
    /// Audio tokens of the input that the provider read from its cache, of providers that count
    /// them separately.
    CacheReadAudio,
}

impl Unit {
    /// All classes, in storage order.
    pub const ALL: [Unit; 15] = [
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
        Unit::Search,
        Unit::InputImage,
        Unit::CacheReadAudio,
    ];

    /// Token classes, in storage order. They are not adjacent in [`Unit::ALL`].
    pub const TOKENS: [Unit; 10] = [
        Unit::Input,
        Unit::CacheRead,
        Unit::CacheWrite,
        Unit::InputAudio,
        Unit::Output,
        Unit::Reasoning,
        Unit::OutputAudio,
        Unit::CacheWriteHour,
        Unit::InputImage,
        Unit::CacheReadAudio,
    ];

    /// Classes that do not count tokens, in storage order.
    pub const NON_TOKENS: [Unit; 5] = [
        Unit::Image,
        Unit::Video,
        Unit::Audio,
        Unit::Character,
        Unit::Search,
    ];

    /// Returns the name used in configuration, in storage and on the wire.
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
            Unit::Search => "search",
            Unit::InputImage => "input_image",
            Unit::CacheReadAudio => "cache_read_audio",
        }
    }

    /// Parses a name used in configuration, in storage and on the wire.
    pub fn parse(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.as_str() == name)
    }

    /// Whether the class counts tokens.
    pub const fn is_token(self) -> bool {
        !matches!(
            self,
            Unit::Image | Unit::Video | Unit::Audio | Unit::Character | Unit::Search
        )
    }

    /// Whether quantities are millionths of an image, of a second or of a query. Prices are per
    /// image, second or query then, and otherwise per million tokens or characters.
    pub const fn is_in_millionths(self) -> bool {
        matches!(self, Unit::Image | Unit::Video | Unit::Audio | Unit::Search)
    }

    /// Whether the class counts input tokens.
    pub const fn is_input(self) -> bool {
        matches!(
            self,
            Unit::Input
                | Unit::CacheRead
                | Unit::CacheWrite
                | Unit::CacheWriteHour
                | Unit::InputAudio
                | Unit::InputImage
                | Unit::CacheReadAudio
        )
    }
}

/// Maximum plausible number of tokens of one class. A larger number from a provider is an error.
pub const MAX_QUANTITY: u64 = 1_000_000_000;

/// Consumed quantity of each class. Stored as the list of the quantities in storage order; a list
/// of an older version lacks the classes that were added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    #[serde(deserialize_with = "listed")]
    quantities: [u64; Unit::ALL.len()],
}

fn listed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u64; Unit::ALL.len()], D::Error> {
    let listed = Vec::<u64>::deserialize(deserializer)?;
    let mut quantities = [0; Unit::ALL.len()];
    match quantities.get_mut(..listed.len()) {
        Some(known) => known.copy_from_slice(&listed),
        None => {
            return Err(D::Error::invalid_length(
                listed.len(),
                &"a quantity for each known class",
            ));
        }
    }
    Ok(quantities)
}

impl Usage {
    /// Usage of zero units.
    pub const ZERO: Usage = Usage {
        quantities: [0; Unit::ALL.len()],
    };

    /// Creates a usage of plain input and output tokens.
    pub fn tokens(input: u64, output: u64) -> Usage {
        Usage::ZERO.with(Unit::Input, input).with(Unit::Output, output)
    }

    /// Sets the quantity of a class.
    #[must_use]
    pub fn with(mut self, unit: Unit, quantity: u64) -> Usage {
        self.quantities[unit as usize] = quantity;
        self
    }

    /// Returns the sum of two usages, by class.
    #[must_use]
    pub fn plus(mut self, other: &Usage) -> Usage {
        for (sum, more) in self.quantities.iter_mut().zip(other.quantities) {
            *sum = sum.saturating_add(more);
        }
        self
    }

    /// Returns the quantity of a class.
    pub const fn get(&self, unit: Unit) -> u64 {
        self.quantities[unit as usize]
    }

    /// Returns the input tokens read from the provider's cache, of any modality.
    pub fn cache_read(&self) -> u64 {
        self.get(Unit::CacheRead)
            .saturating_add(self.get(Unit::CacheReadAudio))
    }

    /// Returns the audio tokens of the input, cached or not.
    pub fn input_audio(&self) -> u64 {
        self.get(Unit::InputAudio)
            .saturating_add(self.get(Unit::CacheReadAudio))
    }

    /// Returns the input tokens written to the provider's cache, for any cache lifetime.
    pub fn cache_written(&self) -> u64 {
        self.get(Unit::CacheWrite)
            .saturating_add(self.get(Unit::CacheWriteHour))
    }

    /// Returns the whole number of queries to search backends.
    pub const fn searches(&self) -> u64 {
        self.get(Unit::Search) / 1_000_000
    }

    /// Returns the classes with a quantity above zero.
    pub fn iter(&self) -> impl Iterator<Item = (Unit, u64)> + '_ {
        Unit::ALL
            .into_iter()
            .map(|unit| (unit, self.get(unit)))
            .filter(|(_, quantity)| *quantity > 0)
    }

    /// Returns the input tokens of all classes.
    pub fn total_input(&self) -> u64 {
        Unit::TOKENS
            .into_iter()
            .filter(|unit| unit.is_input())
            .map(|unit| self.get(unit))
            .fold(0, u64::saturating_add)
    }

    /// Returns the output tokens of all classes.
    pub fn total_output(&self) -> u64 {
        Unit::TOKENS
            .into_iter()
            .filter(|unit| !unit.is_input())
            .map(|unit| self.get(unit))
            .fold(0, u64::saturating_add)
    }

    /// Returns the tokens of all classes, which count toward a tokens-per-minute limit.
    pub fn total(&self) -> u64 {
        self.total_input().saturating_add(self.total_output())
    }

    /// Whether any class that does not count tokens has a quantity.
    pub fn has_non_tokens(&self) -> bool {
        Unit::NON_TOKENS.into_iter().any(|unit| self.get(unit) > 0)
    }

    /// Whether all quantities are zero.
    pub fn is_zero(&self) -> bool {
        self.quantities.iter().all(|quantity| *quantity == 0)
    }
}

/// Outcome of a call, as stored in its usage row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The response was delivered.
    Ok,
    /// The caller disconnected before the end.
    ClientGone,
    /// The upstream failed.
    UpstreamError,
    /// The upstream did not respond in time.
    Timeout,
    /// The prompt was blocked before generation.
    BlockedInput,
    /// The output was blocked after generation.
    BlockedOutput,
    /// The caller cancelled the call.
    Cancelled,
    /// The process died during the call.
    Crashed,
}

impl Outcome {
    /// All outcomes, in definition order.
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

    /// Returns the name used in storage and on the wire.
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

    /// Parses a name used in storage and on the wire.
    pub fn parse(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Unit, Usage};

    #[test]
    fn usage_of_fewer_classes_is_read() {
        let usage = Usage::tokens(3, 4).with(Unit::Search, 1_000_000);
        let stored = serde_json::to_string(&usage).unwrap();
        assert_eq!(serde_json::from_str::<Usage>(&stored).unwrap(), usage);
        let older = r#"{"quantities":[3,0,0,0,4,0,0,0,0,0,0,0]}"#;
        assert_eq!(serde_json::from_str::<Usage>(older).unwrap(), Usage::tokens(3, 4));
        let searched = r#"{"quantities":[3,0,0,0,4,0,0,0,0,0,0,0,1000000]}"#;
        assert_eq!(serde_json::from_str::<Usage>(searched).unwrap(), usage);
        let newer = format!(r#"{{"quantities":{:?}}}"#, [0; Unit::ALL.len() + 1]);
        assert!(serde_json::from_str::<Usage>(&newer).is_err());
    }

    #[test]
    fn token_classes_and_others_make_all_classes() {
        for (index, unit) in Unit::ALL.into_iter().enumerate() {
            assert_eq!((unit as usize, Unit::parse(unit.as_str())), (index, Some(unit)));
            assert_eq!(Unit::TOKENS.contains(&unit), unit.is_token(), "{unit:?}");
            assert_eq!(Unit::NON_TOKENS.contains(&unit), !unit.is_token(), "{unit:?}");
            assert!(unit.is_token() || !unit.is_input(), "{unit:?}");
        }
        assert_eq!(Unit::TOKENS.len() + Unit::NON_TOKENS.len(), Unit::ALL.len());
        assert!(Unit::TOKENS.is_sorted() && Unit::NON_TOKENS.is_sorted());
    }

    #[test]
    fn image_and_cached_audio_tokens_are_input() {
        let usage = Usage::tokens(1, 2)
            .with(Unit::CacheRead, 10)
            .with(Unit::InputAudio, 100)
            .with(Unit::InputImage, 1_000)
            .with(Unit::CacheReadAudio, 10_000);
        assert_eq!((usage.total_input(), usage.total_output()), (11_111, 2));
        assert_eq!((usage.cache_read(), usage.input_audio()), (10_010, 10_100));
        assert!(!usage.has_non_tokens());
    }
}
