//! Media parameters of image and video models: sizes, durations, reference inputs, and price
//! factors relative to the base price.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_types::Credits;

/// The `[media]` table of a model. A missing setting is unknown and not checked: the provider
/// rejects unsupported values. Only `modes` and references must be listed to be usable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaEntry {
    /// Supported resolutions, such as `1k` or `720p`, default first.
    pub resolutions: Vec<String>,
    /// Supported ratios of width to height, such as `16:9`, default first.
    pub aspect_ratios: Vec<String>,
    /// Supported sizes in pixels, such as `1024x1536`, default first. If listed, no others are
    /// supported.
    pub sizes: Vec<String>,
    /// Supported quality levels, default first.
    pub qualities: Vec<String>,
    /// Maximum number of images per request, 1 to 4.
    pub max_images: Option<u32>,
    /// Maximum number of input images of an edit.
    pub max_input_images: Option<u32>,
    /// Maximum number of reference images of a video's subjects.
    pub max_references: Option<u32>,
    /// Maximum resolution of a request with reference images.
    pub max_reference_resolution: Option<String>,
    /// Whether edits accept a mask.
    pub masks: Option<bool>,
    /// Whether the model generates variations of an image without a prompt.
    pub variations: Option<bool>,
    /// Whether the model generates sets of related images.
    pub image_sets: Option<bool>,
    /// Whether the model accepts a negative prompt.
    pub negative_prompts: Option<bool>,
    /// Supported video durations in seconds, default first.
    pub durations: Vec<u32>,
    /// Video modes: `t2v`, `i2v`, `r2v`, or the provider's own names.
    pub modes: Vec<String>,
    /// Whether the model's videos have audio.
    pub audio: Option<bool>,
    /// Maximum length of a prompt that the provider accepts, in characters.
    pub max_prompt_characters: Option<u32>,
    /// Price factors by resolution, quality or `audio`, relative to one image or second at the base
    /// price. The factor of a value that is not listed is 1.
    pub factors: BTreeMap<String, Credits>,
}

impl MediaEntry {
    /// Returns this table with missing settings from `base`. Drops inherited factors of resolutions
    /// and qualities that the result does not list.
    pub(crate) fn or(&self, base: &MediaEntry) -> MediaEntry {
        let list = |own: &Vec<String>, base: &Vec<String>| if own.is_empty() { base } else { own }.clone();
        let mut merged = MediaEntry {
            resolutions: list(&self.resolutions, &base.resolutions),
            aspect_ratios: list(&self.aspect_ratios, &base.aspect_ratios),
            sizes: list(&self.sizes, &base.sizes),
            qualities: list(&self.qualities, &base.qualities),
            max_images: self.max_images.or(base.max_images),
            max_input_images: self.max_input_images.or(base.max_input_images),
            max_references: self.max_references.or(base.max_references),
            max_reference_resolution: self
                .max_reference_resolution
                .clone()
                .or_else(|| base.max_reference_resolution.clone()),
            masks: self.masks.or(base.masks),
            variations: self.variations.or(base.variations),
            image_sets: self.image_sets.or(base.image_sets),
            negative_prompts: self.negative_prompts.or(base.negative_prompts),
            durations: if self.durations.is_empty() {
                &base.durations
            } else {
                &self.durations
            }
            .clone(),
            modes: list(&self.modes, &base.modes),
            audio: self.audio.or(base.audio),
            max_prompt_characters: self.max_prompt_characters.or(base.max_prompt_characters),
            factors: self.factors.clone(),
        };
        if self.factors.is_empty() {
            merged.factors = base.factors.clone();
            merged.factors.retain(|name, _| {
                name == AUDIO || merged.resolutions.contains(name) || merged.qualities.contains(name)
            });
        }
        merged
    }

    /// Returns the intersection of two tables: the values in both lists, the smaller limits, and
    /// the abilities of both. For a list or limit that one table lacks, the value of the other
    /// table applies. The result has no factors, because factors are prices.
    pub(crate) fn shared(&self, other: &MediaEntry) -> MediaEntry {
        fn list<T: Clone + PartialEq>(one: &[T], other: &[T]) -> Vec<T> {
            let (first, second) = if one.is_empty() {
                (other, one)
            } else {
                (one, other)
            };
            let is_in_both = |value: &&T| second.is_empty() || second.contains(value);
            first.iter().filter(is_in_both).cloned().collect()
        }
        fn bound(one: Option<u32>, other: Option<u32>) -> Option<u32> {
            one.into_iter().chain(other).min()
        }
        fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
            match (one, other) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }
        }
        let steps = [&self.max_reference_resolution, &other.max_reference_resolution];
        let smallest = steps.into_iter().flatten().min_by_key(|step| area(step));
        MediaEntry {
            resolutions: list(&self.resolutions, &other.resolutions),
            aspect_ratios: list(&self.aspect_ratios, &other.aspect_ratios),
            sizes: list(&self.sizes, &other.sizes),
            qualities: list(&self.qualities, &other.qualities),
            max_images: bound(self.max_images, other.max_images),
            max_input_images: bound(self.max_input_images, other.max_input_images),
            max_references: bound(self.max_references, other.max_references),
            max_reference_resolution: smallest.cloned(),
            masks: both(self.masks, other.masks),
            variations: both(self.variations, other.variations),
            image_sets: both(self.image_sets, other.image_sets),
            negative_prompts: both(self.negative_prompts, other.negative_prompts),
            durations: list(&self.durations, &other.durations),
            modes: list(&self.modes, &other.modes),
            audio: both(self.audio, other.audio),
            max_prompt_characters: bound(self.max_prompt_characters, other.max_prompt_characters),
            factors: BTreeMap::new(),
        }
    }
}

/// Returns the number of pixels of a resolution at the ratio 1:1; `u64::MAX` for a text that is not
/// a resolution.
fn area(step: &str) -> u64 {
    let size = resolution(step).map(|step| size_of(step, (1, 1), 1));
    size.map_or(u64::MAX, |(width, height)| u64::from(width) * u64::from(height))
}

/// A parsed [`MediaEntry`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// The `[media]` table as configured.
    pub entry: MediaEntry,
    factors: BTreeMap<String, Factor>,
}

/// A price factor relative to the base price, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u64);

impl Factor {
    /// The factor 1, for the base price.
    pub const ONE: Factor = Factor(1_000_000);
    /// Maximum configured factor, 1,000, in millionths.
    const MAX_MILLIONTHS: u64 = 1_000_000_000;

    /// Creates a factor from millionths.
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// Returns the product of both factors, rounded up to a millionth.
    #[must_use]
    pub fn times(self, other: Factor) -> Factor {
        let product = u128::from(self.0) * u128::from(other.0);
        Factor(u64::try_from(product.div_ceil(u128::from(Self::ONE.0))).unwrap_or(u64::MAX))
    }

    /// Returns the product of a quantity and this factor, rounded up.
    pub fn of(self, quantity: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(quantity);
        u64::try_from(product.div_ceil(u128::from(Self::ONE.0))).unwrap_or(u64::MAX)
    }
}

/// An invalid media table. The path is relative to the table.
#[derive(Debug, PartialEq, Eq)]
pub struct MediaError {
    /// Path of the setting, such as `sizes[1]`.
    pub path: String,
    /// Description of the values that the setting accepts.
    pub message: &'static str,
}

impl fmt::Display for MediaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Name of the audio factor in [`MediaEntry::factors`].
pub const AUDIO: &str = "audio";

impl Media {
    /// Validates a table and parses its factors. The error names the first invalid setting.
    pub fn read(entry: &MediaEntry) -> Result<Media, MediaError> {
        let fault = |path: String, message| Err(MediaError { path, message });
        for (place, size) in entry.sizes.iter().enumerate() {
            if pixels(size).is_none() {
                return fault(
                    format!("sizes[{place}]"),
                    "expected a size such as \"1024x1536\", with sides of 16 to 16384 pixels",
                );
            }
        }
        for (place, ratio) in entry.aspect_ratios.iter().enumerate() {
            if parse_ratio(ratio).is_none() {
                return fault(
                    format!("aspect_ratios[{place}]"),
                    "expected a ratio such as \"16:9\", with numbers from 1 to 100",
                );
            }
        }
        for (place, step) in entry.resolutions.iter().enumerate() {
            if resolution(step).is_none() {
                let message = "expected a resolution such as \"1k\", \"720p\" or \"1024x1024\"";
                return fault(format!("resolutions[{place}]"), message);
            }
        }
        if entry.max_images.is_some_and(|max| !(1..=4).contains(&max)) {
            return fault("max_images".to_owned(), "must be 1 to 4");
        }
        if entry.durations.iter().any(|seconds| !(1..=600).contains(seconds)) {
            return fault("durations".to_owned(), "must be integers from 1 to 600");
        }
        let mut factors = BTreeMap::new();
        for (name, factor) in &entry.factors {
            let known = name == AUDIO || entry.resolutions.contains(name) || entry.qualities.contains(name);
            if !known {
                let message = "expected a listed resolution, a listed quality or \"audio\"";
                return fault(format!("factors.{name}"), message);
            }
            match u64::try_from(factor.nanos() / 1_000) {
                Ok(millionths @ 1..=Factor::MAX_MILLIONTHS) if factor.nanos() % 1_000 == 0 => {
                    factors.insert(name.clone(), Factor(millionths));
                }
                _ => {
                    let message = "a factor must be 0.000001 to 1000 with at most six decimals";
                    return fault(format!("factors.{name}"), message);
                }
            }
        }
        Ok(Media {
            entry: entry.clone(),
            factors,
        })
    }

    /// Converts a table that is already validated and removes its factors, so that all values have
    /// the base price.
    pub(crate) fn without_factors(entry: MediaEntry) -> Media {
        Media {
            entry: MediaEntry {
                factors: BTreeMap::new(),
                ..entry
            },
            factors: BTreeMap::new(),
        }
    }

    /// Returns the factor of a resolution, a quality or [`AUDIO`]; 1 if none is configured.
    pub fn factor(&self, name: &str) -> Factor {
        self.factors.get(name).copied().unwrap_or(Factor::ONE)
    }
}

/// Parses a size such as `1024x1536` into width and height; each side must be 16 to 16,384 pixels.
pub fn pixels(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    let side = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let side = text.parse::<u32>().ok().filter(|_| plain)?;
        (16..=16_384).contains(&side).then_some(side)
    };
    Some((side(width)?, side(height)?))
}

/// Parses a ratio such as `16:9`; each number must be 1 to 100.
pub fn parse_ratio(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once(':')?;
    let side = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let side = text.parse::<u32>().ok().filter(|_| plain)?;
        (1..=100).contains(&side).then_some(side)
    };
    Some((side(width)?, side(height)?))
}

/// An image or video resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Side in pixels of a square with the same number of pixels: `1k` is 1,024.
    Square(u32),
    /// Shorter side in pixels: `720p` is 720.
    Lines(u32),
    /// Exact width and height in pixels: `1024x1536`.
    Exact(u32, u32),
}

/// Parses a resolution; `None` if the text is not a resolution.
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

/// Returns width and height in pixels for a resolution and a ratio. An exact resolution is returned
/// unchanged. Otherwise the sides are multiples of `grain`, so the ratio is approximate.
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

/// Returns an empty table: the media parameters of a model without a `[media]` table.
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
    fn invalid_media_tables_name_the_path() {
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
