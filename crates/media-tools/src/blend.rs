//! Operations that blend or mirror images.

use crate::image::Image;

impl Image {
    /// Returns this image, blended with another of the same size. `share` (0 to 1) is the share of
    /// the other image. If the sizes differ, the method returns this image unchanged.
    #[must_use]
    pub fn blended(&self, other: &Image, share: f32) -> Self {
        let share = (share.clamp(0.0, 1.0) * 255.0) as u32;
        self.mixed(other, |_| share)
    }

    /// Returns this image with the pixels of the other one where the mask is transparent. Where the
    /// mask is partly transparent, the pixels are blended. Unless all three images have the same
    /// size, the method returns this image unchanged.
    #[must_use]
    pub fn redrawn(&self, other: &Image, mask: &Image) -> Self {
        if mask.size() != self.size() {
            return self.clone();
        }
        let opacities: Vec<u32> = mask.rgba().chunks_exact(4).map(opacity).collect();
        self.mixed(other, |pixel| 255 - opacities.get(pixel).copied().unwrap_or(255))
    }

    /// Returns the image mirrored left to right.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        let mut mirrored = self.clone();
        let width = self.size().width as usize * 4;
        let rows = self.rgba().chunks_exact(width);
        for (to, from) in mirrored.rgba_mut().chunks_exact_mut(width).zip(rows) {
            for (to, from) in to.chunks_exact_mut(4).zip(from.chunks_exact(4).rev()) {
                to.copy_from_slice(from);
            }
        }
        mirrored
    }

    /// Mixes two images. `share` returns the share of the other image in a pixel, from 0 to 255.
    fn mixed(&self, other: &Image, share: impl Fn(usize) -> u32) -> Self {
        let mut mixed = self.clone();
        if other.size() != self.size() {
            return mixed;
        }
        let pixels = mixed
            .rgba_mut()
            .chunks_exact_mut(4)
            .zip(other.rgba().chunks_exact(4));
        for (place, (to, from)) in pixels.enumerate() {
            let share = share(place);
            for (to, from) in to.iter_mut().zip(from) {
                let sum = u32::from(*to) * (255 - share) + u32::from(*from) * share;
                *to = ((sum + 127) / 255) as u8;
            }
        }
        mixed
    }
}

fn opacity(pixel: &[u8]) -> u32 {
    pixel.last().copied().map_or(255, u32::from)
}

#[cfg(test)]
mod tests {
    use crate::image::{Dimensions, Image};

    fn image(pixels: &[[u8; 4]]) -> Image {
        Image::from_rgba(Dimensions::new(pixels.len() as u32, 1), pixels.concat()).unwrap()
    }

    const RED: [u8; 4] = [200, 0, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 200, 255];

    #[test]
    fn images_are_blended() {
        let (red, blue) = (image(&[RED, RED]), image(&[BLUE, BLUE]));
        assert_eq!(red.blended(&blue, 0.0), red);
        assert_eq!(red.blended(&blue, 1.0), blue);
        assert_eq!(red.blended(&blue, 0.5).rgba()[..4], [100, 0, 100, 255]);
        assert_eq!(red.blended(&image(&[BLUE]), 1.0), red);
    }

    #[test]
    fn only_transparent_pixels_are_redrawn() {
        let (red, blue) = (image(&[RED, RED]), image(&[BLUE, BLUE]));
        let mask = image(&[[9, 9, 9, 255], [0, 0, 0, 0]]);
        assert_eq!(red.redrawn(&blue, &mask), image(&[RED, BLUE]));
        assert_eq!(red.redrawn(&blue, &image(&[[0; 4]])), red);
    }

    #[test]
    fn mirroring_swaps_left_and_right() {
        assert_eq!(image(&[RED, BLUE]).mirrored(), image(&[BLUE, RED]));
    }
}
