//! Colors of drawings, and palettes for the times of day.

use serde::{Deserialize, Serialize};

use crate::image::Image;

use super::noise::mix;

/// A color: red, green and blue from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Colour {
    pub(super) red: f32,
    pub(super) green: f32,
    pub(super) blue: f32,
}

impl Colour {
    pub(super) const WHITE: Colour = Colour::of(0xFF_FF_FF);
    pub(super) const BLACK: Colour = Colour::of(0x00_00_00);

    /// Returns the color of an RGB value `0xRRGGBB`, as in CSS.
    pub(super) const fn of(hex: u32) -> Self {
        Self {
            red: (hex >> 16 & 0xFF) as f32 / 255.0,
            green: (hex >> 8 & 0xFF) as f32 / 255.0,
            blue: (hex & 0xFF) as f32 / 255.0,
        }
    }

    pub(super) fn of_bytes(bytes: [u8; 3]) -> Self {
        let [red, green, blue] = bytes.map(|part| f32::from(part) / 255.0);
        Self { red, green, blue }
    }

    /// Returns a tint of `tone` whose brightness follows that of this color.
    pub(super) fn toned(self, tone: Colour) -> Self {
        let share = self.brightness();
        let toned = match share < 0.5 {
            true => Colour::BLACK.towards(tone, share * 2.0),
            false => tone.towards(Colour::WHITE, (share - 0.5) * 1.6),
        };
        self.towards(toned, 0.82)
    }

    /// Returns this color, mixed with `share` (0 to 1) of another.
    pub(super) fn towards(self, other: Colour, share: f32) -> Self {
        let between = |from: f32, to: f32| from + (to - from) * share;
        Self {
            red: between(self.red, other.red),
            green: between(self.green, other.green),
            blue: between(self.blue, other.blue),
        }
    }

    /// Returns this color, lit by `share` (0 to 1) of another color (screen blending).
    pub(super) fn lit(self, light: Colour, share: f32) -> Self {
        let screen = |under: f32, over: f32| 1.0 - (1.0 - under) * (1.0 - over * share);
        Self {
            red: screen(self.red, light.red),
            green: screen(self.green, light.green),
            blue: screen(self.blue, light.blue),
        }
    }

    /// Returns the perceived brightness, 0 to 1.
    pub(super) fn brightness(self) -> f32 {
        0.30 * self.red + 0.59 * self.green + 0.11 * self.blue
    }

    pub(super) fn bytes(self) -> [u8; 3] {
        [self.red, self.green, self.blue].map(|part| (part.clamp(0.0, 1.0) * 255.0 + 0.5) as u8)
    }

    fn hex(self) -> u32 {
        let [red, green, blue] = self.bytes().map(u32::from);
        red << 16 | green << 8 | blue
    }
}

/// Colors of a scene, each as `0xRRGGBB`. The palette of an existing image is a compact summary of
/// its colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Palette {
    /// Colors of the sky, from the top to the horizon.
    pub sky: [u32; 3],
    /// Color of the sun, the moon and other lights.
    pub light: u32,
    /// Color of distant land.
    pub far: u32,
    /// Color of near land.
    pub near: u32,
}

const fn palette(sky: [u32; 3], light: u32, far: u32, near: u32) -> Palette {
    Palette {
        sky,
        light,
        far,
        near,
    }
}

/// Palettes of a time of day, and the words of a prompt that select them.
struct TimeOfDay {
    words: &'static [&'static str],
    palettes: &'static [Palette],
}

const TIMES_OF_DAY: &[TimeOfDay] = &[
    TimeOfDay {
        words: &[
            "night", "moon", "star", "stars", "midnight", "dark", "space", "galaxy",
        ],
        palettes: &[
            palette([0x0B1026, 0x1B2A5A, 0x4B5D94], 0xF4EFD8, 0x3A4A7A, 0x0A0E1E),
            palette([0x120B2E, 0x34206B, 0x8A4F8E], 0xFBE9D0, 0x5A3D7E, 0x140A26),
        ],
    },
    TimeOfDay {
        words: &[
            "sunset", "dusk", "evening", "autumn", "fall", "desert", "fire", "warm",
        ],
        palettes: &[
            palette([0x2E2A5B, 0xC2506B, 0xFDB36A], 0xFFE7A8, 0xB0607A, 0x2A1633),
            palette([0x44355B, 0xE06C5A, 0xFFD08A], 0xFFF1C2, 0xC77B62, 0x31182A),
        ],
    },
    TimeOfDay {
        words: &["sunrise", "dawn", "morning", "spring", "flower", "pink", "cherry"],
        palettes: &[
            palette([0x6E8FC7, 0xE8A9B8, 0xFFE3C2], 0xFFF6DC, 0xB698B8, 0x3B3159),
            palette([0x7FB2D9, 0xF2C3C0, 0xFFF0D6], 0xFFFBEB, 0xA9B4C8, 0x34405F),
        ],
    },
    TimeOfDay {
        words: &[
            "day", "noon", "summer", "sea", "ocean", "sky", "blue", "winter", "snow", "ice",
        ],
        palettes: &[
            palette([0x2F7FC1, 0x7DBBE3, 0xDDF1F5], 0xFFFDF0, 0x86AFC4, 0x1D4A52),
            palette([0x3A6EA5, 0x8FC1DE, 0xF3EFE0], 0xFFFBE6, 0x8CA9B5, 0x233F4C),
        ],
    },
    TimeOfDay {
        words: &[
            "forest", "green", "jungle", "meadow", "garden", "leaf", "tree", "trees",
        ],
        palettes: &[
            palette([0x3E8E8C, 0x9CCBB0, 0xF4F0CB], 0xFFFBDD, 0x7FA98F, 0x12302B),
            palette([0x5A8F7B, 0xB9CDA0, 0xFBEFC9], 0xFFF8DA, 0x8DA889, 0x1C3324),
        ],
    },
];

impl Palette {
    /// Selects a palette by the words of a prompt, or by the seed if no word matches.
    pub(super) fn choose(words: &[String], seed: u64) -> Self {
        let named = TIMES_OF_DAY
            .iter()
            .find(|mood| words.iter().any(|word| mood.words.contains(&word.as_str())));
        let among: Vec<&Palette> = match named {
            Some(mood) => mood.palettes.iter().collect(),
            None => TIMES_OF_DAY.iter().flat_map(|mood| mood.palettes).collect(),
        };
        let place = mix(seed ^ 0x70A1) as usize % among.len().max(1);
        let chosen = among.get(place).copied().copied();
        chosen.unwrap_or(palette(
            [0x2F7FC1, 0x7DBBE3, 0xDDF1F5],
            0xFFFDF0,
            0x86AFC4,
            0x1D4A52,
        ))
    }

    /// Extracts the palette of an image: the mean colors of four rows from top to bottom, the
    /// lightened brightest color and the darkened darkest color.
    pub fn of(image: &Image) -> Self {
        let small = image.resized(crate::image::Dimensions::new(8, 8));
        let colours: Vec<Colour> = small
            .rgba()
            .chunks_exact(4)
            .map(|pixel| {
                let part = |place: usize| f32::from(pixel.get(place).copied().unwrap_or_default()) / 255.0;
                Colour {
                    red: part(0),
                    green: part(1),
                    blue: part(2),
                }
            })
            .collect();
        let mut bands = colours.chunks(8).map(mean);
        let mut band = |skipped: usize| bands.nth(skipped).unwrap_or(Colour::BLACK).hex();
        let (sky, far) = ([band(0), band(1), band(1)], band(1));
        let brighter = |a: &&Colour, b: &&Colour| a.brightness().total_cmp(&b.brightness());
        let brightest = *colours.iter().max_by(brighter).unwrap_or(&Colour::WHITE);
        let darkest = *colours.iter().min_by(brighter).unwrap_or(&Colour::BLACK);
        Palette {
            sky,
            light: brightest.towards(Colour::WHITE, 0.35).hex(),
            far,
            near: darkest.towards(Colour::BLACK, 0.35).hex(),
        }
    }

    /// Returns the palette, tinted with one color.
    pub(super) fn toned(self, tone: Colour) -> Self {
        let toned = |hex: u32| Colour::of(hex).toned(tone).hex();
        Self {
            sky: self.sky.map(toned),
            light: toned(self.light),
            far: toned(self.far),
            near: toned(self.near),
        }
    }

    pub(super) fn light(&self) -> Colour {
        Colour::of(self.light)
    }

    /// Returns the color of land: 0 is distant, 1 is near.
    pub(super) fn land(&self, nearness: f32) -> Colour {
        Colour::of(self.far).towards(Colour::of(self.near), nearness)
    }

    /// Returns the color of the sky: 0 is the top, 1 is the horizon.
    pub(super) fn sky_at(&self, depth: f32) -> Colour {
        let [top, middle, low] = self.sky.map(Colour::of);
        let depth = depth.clamp(0.0, 1.0);
        match depth < 0.55 {
            true => top.towards(middle, super::noise::smooth(depth / 0.55)),
            false => middle.towards(low, super::noise::smooth((depth - 0.55) / 0.45)),
        }
    }

    /// Whether the sky is dark, as at night.
    pub(super) fn is_dark(&self) -> bool {
        let [top, middle, _] = self.sky.map(Colour::of);
        top.brightness() + middle.brightness() < 0.5
    }
}

fn mean(colours: &[Colour]) -> Colour {
    let mut mean = Colour::BLACK;
    for (count, colour) in colours.iter().enumerate() {
        mean = mean.towards(*colour, 1.0 / (count as f32 + 1.0));
    }
    mean
}
