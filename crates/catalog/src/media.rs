//! What models that make pictures and films can be asked for: sizes, lengths, what may go in, and by how much it costs more
//! than the plain thing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_types::Credits;

/// A `[media]` table of a model, as it is written down. What is not said is not known: nothing is claimed, and a provider
/// refuses what it cannot do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaEntry {
    /// Steps of size, the usual one first: `1k`, `720p`.
    pub resolutions: Vec<String>,
    /// Ratios of width to height, the usual one first: `16:9`.
    pub aspect_ratios: Vec<String>,
    /// The only sizes that it makes, the usual one first: `1024x1536`.
    pub sizes: Vec<String>,
    /// Steps of quality, the usual one first.
    pub qualities: Vec<String>,
    /// Most pictures of one request, 1 to 4.
    pub max_images: Option<u32>,
    /// Most pictures that it is given to edit.
    pub max_input_images: Option<u32>,
    /// Most pictures of subjects that are to appear in a film.
    pub max_references: Option<u32>,
    /// The largest step of size with such pictures.
    pub max_reference_resolution: Option<String>,
    /// Whether it makes a part of a picture again.
    pub masks: Option<bool>,
    /// Whether it makes variations of a picture without a prompt.
    pub variations: Option<bool>,
    /// Whether it makes pictures that belong together.
    pub image_sets: Option<bool>,
    /// Whether it is told what is not to be seen.
    pub negative_prompts: Option<bool>,
    /// Seconds that a film may have, the usual ones first.
    pub durations: Vec<u32>,
    /// What a film can be made from: `t2v`, `i2v`, `r2v`, or its own names.
    pub modes: Vec<String>,
    /// Whether its films have sound.
    pub audio: Option<bool>,
    /// Most characters of a prompt.
    pub max_prompt_characters: Option<u32>,
    /// How many plain pictures or seconds one is worth, by resolution, quality, or `audio`; one where nothing is said.
    pub factors: BTreeMap<String, Credits>,
}

/// The same, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// As it is written down.
    pub entry: MediaEntry,
    factors: BTreeMap<String, Factor>,
}

/// How many plain things something is worth, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u64);

impl Factor {
    /// The plain thing.
    pub const ONE: Factor = Factor(1_000_000);
    /// The most.
    const MOST: u64 = 1_000_000_000;

    /// So many millionths.
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// Both of them, rounded up.
    #[must_use]
    pub fn times(self, other: Factor) -> Factor {
        let product = u128::from(self.0) * u128::from(other.0);
        Factor(u64::try_from(product.div_ceil(u128::from(Self::ONE.0))).unwrap_or(u64::MAX))
    }

    /// So much of a quantity, rounded up.
    pub fn of(self, quantity: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(quantity);
        u64::try_from(product.div_ceil(u128::from(Self::ONE.0))).unwrap_or(u64::MAX)
    }
}

/// A table that cannot be read; the path is within it.
#[derive(Debug, PartialEq, Eq)]
pub struct MediaError {
    /// Which setting.
    pub path: String,
    /// What to write instead.
    pub message: &'static str,
}

impl fmt::Display for MediaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// What the factor of sound is called.
pub const AUDIO: &str = "audio";

impl Media {
    /// Reads a table.
    pub fn read(entry: &MediaEntry) -> Result<Media, MediaError> {
        let fault = |path: String, message| Err(MediaError { path, message });
        for (place, size) in entry.sizes.iter().enumerate() {
            if pixels(size).is_none() {
                return fault(format!("sizes[{place}]"), "a size is written like \"1024x1536\"");
            }
        }
        for (place, ratio) in entry.aspect_ratios.iter().enumerate() {
            if parse_ratio(ratio).is_none() {
                return fault(
                    format!("aspect_ratios[{place}]"),
                    "a ratio is written like \"16:9\"",
                );
            }
        }
        for (place, step) in entry.resolutions.iter().enumerate() {
            if resolution(step).is_none() {
                let message = "a resolution is written like \"1k\", \"720p\" or \"1024x1024\"";
                return fault(format!("resolutions[{place}]"), message);
            }
        }
        if entry.max_images.is_some_and(|most| !(1..=4).contains(&most)) {
            return fault("max_images".to_owned(), "is 1 to 4");
        }
        if entry.durations.iter().any(|seconds| !(1..=600).contains(seconds)) {
            return fault("durations".to_owned(), "are whole seconds from 1 to 600");
        }
        let mut factors = BTreeMap::new();
        for (name, factor) in &entry.factors {
            let known = name == AUDIO || entry.resolutions.contains(name) || entry.qualities.contains(name);
            if !known {
                let message = "there is no resolution or quality of this name, and it is not \"audio\"";
                return fault(format!("factors.{name}"), message);
            }
            match u64::try_from(factor.nanos() / 1_000) {
                Ok(millionths @ 1..=Factor::MOST) if factor.nanos() % 1_000 == 0 => {
                    factors.insert(name.clone(), Factor(millionths));
                }
                _ => {
                    let message = "a factor is 0.000001 to 1000 with at most six decimals";
                    return fault(format!("factors.{name}"), message);
                }
            }
        }
        Ok(Media {
            entry: entry.clone(),
            factors,
        })
    }

    /// The factor of a resolution, a quality or [`AUDIO`].
    pub fn factor(&self, name: &str) -> Factor {
        self.factors.get(name).copied().unwrap_or(Factor::ONE)
    }
}

/// The two numbers of `1024x1536`, each from 16 to 16,384.
pub fn pixels(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    let side = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let side = text.parse::<u32>().ok().filter(|_| plain)?;
        (16..=16_384).contains(&side).then_some(side)
    };
    Some((side(width)?, side(height)?))
}

/// The two numbers of `16:9`, each from 1 to 100.
pub fn parse_ratio(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once(':')?;
    let side = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let side = text.parse::<u32>().ok().filter(|_| plain)?;
        (1..=100).contains(&side).then_some(side)
    };
    Some((side(width)?, side(height)?))
}

/// A step of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// As many pixels as a square of this side has: `1k` is 1,024.
    Square(u32),
    /// The shorter side: `720p` is 720.
    Lines(u32),
    /// Exactly so: `1024x1536`.
    Exact(u32, u32),
}

/// Reads a step of size.
pub fn resolution(text: &str) -> Option<Resolution> {
    if let Some((width, height)) = pixels(text) {
        return Some(Resolution::Exact(width, height));
    }
    let lower = text.to_ascii_lowercase();
    if let Some(lines) = lower.strip_suffix('p') {
        let lines = lines.parse().ok()?;
        return (144..=4_320).contains(&lines).then_some(Resolution::Lines(lines));
    }
    match lower.as_str() {
        "512" | "0.5k" => Some(Resolution::Square(512)),
        "1k" => Some(Resolution::Square(1_024)),
        "1.5k" => Some(Resolution::Square(1_536)),
        "2k" => Some(Resolution::Square(2_048)),
        "4k" => Some(Resolution::Square(4_096)),
        _ => None,
    }
}

/// Pixels of a step of size at a ratio: sides are multiples of `grain`, and the ratio is kept as well as that allows.
pub fn size_of(resolution: Resolution, ratio: (u32, u32), grain: u32) -> (u32, u32) {
    let (wide, high) = (f64::from(ratio.0), f64::from(ratio.1));
    let (width, height) = match resolution {
        Resolution::Exact(width, height) => return (width, height),
        Resolution::Square(side) => {
            let side = f64::from(side);
            (
                (side * side * wide / high).sqrt(),
                (side * side * high / wide).sqrt(),
            )
        }
        Resolution::Lines(lines) => {
            let lines = f64::from(lines);
            match wide < high {
                true => (lines, lines * high / wide),
                false => (lines * wide / high, lines),
            }
        }
    };
    let grain = f64::from(grain.max(1));
    let whole = |side: f64| ((side / grain).round().max(1.0) * grain).min(16_384.0) as u32;
    (whole(width), whole(height))
}

/// Where a media table is shared by everything that has none: what a model without one may be asked for.
pub fn unknown() -> Arc<Media> {
    Arc::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_size_become_pixels() {
        for (step, ratio, grain, expected) in [
            ("1k", (1, 1), 16, (1_024, 1_024)),
            ("1k", (16, 9), 16, (1_360, 768)),
            ("2k", (9, 16), 16, (1_536, 2_736)),
            ("4k", (1, 1), 16, (4_096, 4_096)),
            ("720p", (16, 9), 2, (1_280, 720)),
            ("720p", (9, 16), 2, (720, 1_280)),
            ("480p", (16, 9), 2, (854, 480)),
            ("1080p", (1, 1), 2, (1_080, 1_080)),
            ("640x360", (1, 1), 2, (640, 360)),
        ] {
            assert_eq!(
                size_of(resolution(step).unwrap(), ratio, grain),
                expected,
                "{step} {ratio:?}"
            );
        }
        for bad in [
            "", "p", "3k", "100p", "9999p", "1024", "15x100", "x", "1024x", "+20x20", "99999x20",
        ] {
            assert_eq!(resolution(bad), None, "{bad}");
        }
        for bad in ["16", "0:1", "1:101", "a:b", "16:9:1", "-1:1", ":"] {
            assert_eq!(parse_ratio(bad), None, "{bad}");
        }
    }

    #[test]
    fn factors_are_millionths_and_round_up() {
        let entry = MediaEntry {
            resolutions: vec!["1k".to_owned(), "2k".to_owned()],
            qualities: vec!["high".to_owned()],
            factors: BTreeMap::from([
                ("2k".to_owned(), "2.5".parse().unwrap()),
                ("high".to_owned(), "1.000001".parse().unwrap()),
            ]),
            ..MediaEntry::default()
        };
        let media = Media::read(&entry).unwrap();
        assert_eq!(media.factor("1k"), Factor::ONE);
        let both = media.factor("2k").times(media.factor("high"));
        assert_eq!(both, Factor::from_millionths(2_500_003), "rounded up");
        assert_eq!(both.of(3_000_000), 7_500_009);
        for (name, factor, place) in [
            ("8k", "1", "factors.8k"),
            ("2k", "0", "factors.2k"),
            ("2k", "-1", "factors.2k"),
            ("2k", "1000.000001", "factors.2k"),
            ("2k", "0.0000001", "factors.2k"),
        ] {
            let mut entry = entry.clone();
            entry.factors = BTreeMap::from([(name.to_owned(), factor.parse().unwrap())]);
            assert_eq!(Media::read(&entry).unwrap_err().path, place, "{name} {factor}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        for (text, place) in [
            ("sizes = [\"1024x1024\", \"big\"]", "sizes[1]"),
            ("aspect_ratios = [\"wide\"]", "aspect_ratios[0]"),
            ("resolutions = [\"huge\"]", "resolutions[0]"),
            ("max_images = 5", "max_images"),
            ("durations = [0]", "durations"),
        ] {
            let entry: MediaEntry = toml::from_str(text).unwrap();
            assert_eq!(Media::read(&entry).unwrap_err().path, place, "{text}");
        }
    }
}
