//! Pictures laid over each other.

use crate::picture::Picture;

impl Picture {
    /// This picture and so much of 1 of another of the same size. Where sizes differ it stays as it is.
    #[must_use]
    pub fn blended(&self, other: &Picture, share: f32) -> Self {
        let share = (share.clamp(0.0, 1.0) * 255.0) as u32;
        self.mixed(other, |_| share)
    }

    /// This picture, and another where a mask is see-through; all three are of the same size, or it stays as it is.
    #[must_use]
    pub fn redrawn(&self, other: &Picture, mask: &Picture) -> Self {
        if mask.size() != self.size() {
            return self.clone();
        }
        let opacities: Vec<u32> = mask.rgba().chunks_exact(4).map(opacity).collect();
        self.mixed(other, |pixel| 255 - opacities.get(pixel).copied().unwrap_or(255))
    }

    /// Left is right.
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

    /// For each pixel, so many parts of 255 are the other picture's.
    fn mixed(&self, other: &Picture, share: impl Fn(usize) -> u32) -> Self {
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
    use crate::picture::{Dimensions, Picture};

    fn picture(pixels: &[[u8; 4]]) -> Picture {
        Picture::from_rgba(Dimensions::new(pixels.len() as u32, 1), pixels.concat()).unwrap()
    }

    const RED: [u8; 4] = [200, 0, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 200, 255];

    #[test]
    fn pictures_are_mixed() {
        let (red, blue) = (picture(&[RED, RED]), picture(&[BLUE, BLUE]));
        assert_eq!(red.blended(&blue, 0.0), red);
        assert_eq!(red.blended(&blue, 1.0), blue);
        assert_eq!(red.blended(&blue, 0.5).rgba()[..4], [100, 0, 100, 255]);
        assert_eq!(red.blended(&picture(&[BLUE]), 1.0), red);
    }

    #[test]
    fn only_what_is_see_through_is_redrawn() {
        let (red, blue) = (picture(&[RED, RED]), picture(&[BLUE, BLUE]));
        let mask = picture(&[[9, 9, 9, 255], [0, 0, 0, 0]]);
        assert_eq!(red.redrawn(&blue, &mask), picture(&[RED, BLUE]));
        assert_eq!(red.redrawn(&blue, &picture(&[[0; 4]])), red);
    }

    #[test]
    fn left_becomes_right() {
        assert_eq!(picture(&[RED, BLUE]).mirrored(), picture(&[BLUE, RED]));
    }
}
