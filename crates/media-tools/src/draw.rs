//! Draws images for the simulator: a landscape or a pattern chosen by a seed and a prompt, with a
//! banner that marks the image as simulated. The same sketch produces the same image on all
//! machines of one architecture.

mod banner;
mod colour;
mod layers;
mod letters;
pub(crate) mod noise;
mod scenes;
mod things;

use crate::error::{Error, Result};
use crate::image::{Dimensions, Image, MAX_PIXELS, MAX_SIDE};

use colour::Colour;
use scenes::{Motif, SceneBuilder};
use things::SceneObject;

pub use colour::Palette;

/// Specification of a generated image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// Size in pixels.
    pub size: Dimensions,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Prompt. Some words select the motif and the time of day. The banner contains the start of
    /// the prompt.
    pub prompt: String,
    /// Palette of the image; `None` selects one by the prompt or the seed.
    pub palette: Option<Palette>,
    /// Position in an image set, from 1, and size of the set. The images of a set show the same
    /// scene at successive times.
    pub number: Option<(u32, u32)>,
    /// Whether the banner is opaque, so that it covers an existing banner.
    pub hides_banner: bool,
}

impl Sketch {
    /// Creates a sketch from a prompt, with default settings.
    pub fn new(size: Dimensions, seed: u64, prompt: impl Into<String>) -> Self {
        Self {
            size,
            seed,
            prompt: prompt.into(),
            palette: None,
            number: None,
            hides_banner: false,
        }
    }

    /// Draws the image with its banner. Returns [`Error::TooLarge`] for a size beyond the limits
    /// for decoded images.
    pub fn draw(&self) -> Result<Image> {
        let mut image = self.scene()?;
        self.sign(&mut image);
        Ok(image)
    }

    /// Draws the image without the banner. Returns the same errors as [`draw`](Self::draw).
    pub fn scene(&self) -> Result<Image> {
        let Dimensions { width, height } = self.size;
        let longest_side = width.max(height);
        if width == 0 || height == 0 || longest_side > MAX_SIDE || self.size.pixels() > MAX_PIXELS {
            return Err(Error::TooLarge(format!(
                "must have 1 to {MAX_SIDE} pixels per side and at most {MAX_PIXELS} pixels, \
                 not {width} × {height}"
            )));
        }
        let words = self.words();
        let palette = self.palette.unwrap_or_else(|| Palette::choose(&words, self.seed));
        let palette = things::tone(&words).map_or(palette, |tone| palette.toned(tone));
        let builder = SceneBuilder {
            width: width as f32,
            height: height as f32,
            palette,
            seed: self.seed,
            progress: self.progress(),
        };
        let layers = builder.build(Motif::choose(&words, self.seed), SceneObject::choose(&words));
        let mut pixels = Vec::with_capacity(width as usize * height as usize * 4);
        let mut row = vec![Colour::BLACK; width as usize];
        for y in 0..height {
            for layer in &layers {
                layer.paint(y as f32 + 0.5, &mut row);
            }
            for colour in &row {
                let [red, green, blue] = colour.bytes();
                pixels.extend([red, green, blue, u8::MAX]);
            }
        }
        Image::from_rgba(self.size, pixels)
            .ok_or_else(|| Error::UnexpectedOutput("pixels are missing".to_owned()))
    }

    /// Draws only the banner, on a transparent image.
    pub fn banner(&self) -> Result<Image> {
        let Dimensions { width, height } = self.size;
        let clear = vec![0; width as usize * height as usize * 4];
        let mut image = Image::from_rgba(self.size, clear)
            .ok_or_else(|| Error::UnexpectedOutput("pixels are missing".to_owned()))?;
        self.sign(&mut image);
        Ok(image)
    }

    /// Removes the banner of an image; `None` if the image has no banner.
    pub fn without_banner(image: &Image) -> Option<Image> {
        let size_above_banner = banner::above(image)?;
        image.cropped(size_above_banner)
    }

    /// Draws the banner on an image.
    pub fn sign(&self, image: &mut Image) {
        let opacity = if self.hides_banner { 1.0 } else { banner::OPACITY };
        banner::write(image, &self.prompt, self.number, opacity);
    }

    /// Tints an image with the color that the prompt names ("make it red"). `None` if the prompt
    /// names no color, or if the object that it names has its own color.
    pub fn toned(&self, image: &Image) -> Option<Image> {
        let tone = things::tone(&self.words())?;
        let mut toned = image.clone();
        for pixel in toned.rgba_mut().chunks_exact_mut(4) {
            let [red, green, blue, _] = pixel else { continue };
            let [r, g, b] = Colour::of_bytes([*red, *green, *blue]).toned(tone).bytes();
            (*red, *green, *blue) = (r, g, b);
        }
        Some(toned)
    }

    fn words(&self) -> Vec<String> {
        let words = self.prompt.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    }

    fn progress(&self) -> f32 {
        match self.number {
            Some((number, count)) if count > 1 => {
                (number.saturating_sub(1) as f32 / (count - 1) as f32).min(1.0)
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
