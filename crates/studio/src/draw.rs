//! Pictures out of nothing: a landscape or a pattern that a number and a prompt decide, with a banner that says that it is
//! simulated. The same sketch is the same picture on every machine of one kind.

mod banner;
mod colour;
mod layers;
mod letters;
pub(crate) mod noise;
mod scenes;

use crate::error::{Error, Result};
use crate::picture::{Dimensions, LONGEST_SIDE, MOST_PIXELS, Picture};

use colour::Colour;
use scenes::{Motif, Stage};

pub use colour::Palette;

/// What is to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// How large.
    pub size: Dimensions,
    /// Another number, another picture.
    pub seed: u64,
    /// What was asked for: some of its words choose the motif and the hour, the first ones stand on the banner.
    pub prompt: String,
    /// The colours; those that fit to the prompt when it is nothing.
    pub palette: Option<Palette>,
    /// Which of how many, where they belong together: the same place, later.
    pub number: Option<(u32, u32)>,
}

impl Sketch {
    /// A sketch of a prompt.
    pub fn new(size: Dimensions, seed: u64, prompt: impl Into<String>) -> Self {
        Self {
            size,
            seed,
            prompt: prompt.into(),
            palette: None,
            number: None,
        }
    }

    /// Draws it. `TooLarge` beyond what is read as a picture.
    pub fn draw(&self) -> Result<Picture> {
        let mut picture = self.scene()?;
        self.sign(&mut picture);
        Ok(picture)
    }

    /// Draws it without the banner.
    pub fn scene(&self) -> Result<Picture> {
        let Dimensions { width, height } = self.size;
        let longest = width.max(height);
        if width == 0 || height == 0 || longest > LONGEST_SIDE || self.size.pixels() > MOST_PIXELS {
            return Err(Error::TooLarge(format!("cannot be {width} by {height} pixels")));
        }
        let words = self.words();
        let palette = self.palette.unwrap_or_else(|| Palette::choose(&words, self.seed));
        let stage = Stage {
            width: width as f32,
            height: height as f32,
            palette,
            seed: self.seed,
            progress: self.progress(),
        };
        let layers = stage.set_up(Motif::choose(&words, self.seed));
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
        Picture::from_rgba(self.size, pixels).ok_or_else(|| Error::Unfit("pixels are missing".to_owned()))
    }

    /// The banner alone; the rest is see-through.
    pub fn banner(&self) -> Result<Picture> {
        let Dimensions { width, height } = self.size;
        let clear = vec![0; width as usize * height as usize * 4];
        let mut picture = Picture::from_rgba(self.size, clear)
            .ok_or_else(|| Error::Unfit("pixels are missing".to_owned()))?;
        self.sign(&mut picture);
        Ok(picture)
    }

    /// Writes the banner on a picture.
    pub fn sign(&self, picture: &mut Picture) {
        banner::write(picture, &self.prompt, self.number);
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
