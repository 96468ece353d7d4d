//! The layers of a scene. They are painted over each other row by row, so that large images need
//! little memory.

use super::colour::{Colour, Palette};
use super::noise::{Rng, along, rough_plane, smooth};

/// A layer of a scene.
pub(super) trait Layer {
    /// Paints the layer's part of a row over the layers below. `y` is the vertical position of the
    /// row, in pixels.
    fn paint(&self, y: f32, row: &mut [Colour]);
}

/// The sky, as a color gradient from the top to the horizon. Rows below the horizon have the color
/// of the horizon.
pub(super) struct Sky {
    pub(super) palette: Palette,
    pub(super) horizon: f32,
}

impl Layer for Sky {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        row.fill(self.palette.sky_at(y / self.horizon));
    }
}

/// Stars: bright points with an `x`, a `y` and a brightness from 0 to 1.
pub(super) struct Stars {
    pub(super) stars: Vec<(f32, f32, f32)>,
    pub(super) size: f32,
}

impl Stars {
    pub(super) fn scatter(rng: &mut Rng, width: f32, horizon: f32, unit: f32) -> Self {
        let count = (90.0 * width / horizon.max(1.0)).clamp(40.0, 400.0) as usize;
        let stars = (0..count).map(|_| {
            let height = rng.between(0.0, 1.0);
            (
                rng.between(0.0, width),
                height * height * horizon * 0.9,
                rng.between(0.15, 1.0),
            )
        });
        Self {
            stars: stars.collect(),
            size: (unit * 0.0022).max(0.7),
        }
    }
}

impl Layer for Stars {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        for (x, star_y, shine) in &self.stars {
            let reach = self.size * (0.6 + shine);
            if (star_y - y).abs() > reach + 1.0 {
                continue;
            }
            let first = (x - reach - 1.0).max(0.0) as usize;
            let pixels = row
                .iter_mut()
                .enumerate()
                .skip(first)
                .take((reach * 2.0) as usize + 3);
            for (column, pixel) in pixels {
                let distance = (column as f32 + 0.5 - x).hypot(y - star_y);
                let cover = (reach + 0.5 - distance).clamp(0.0, 1.0);
                *pixel = pixel.lit(Colour::WHITE, cover * shine);
            }
        }
    }
}

/// A sun or a moon with a glow.
pub(super) struct Disc {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) radius: f32,
    pub(super) colour: Colour,
    /// Strength of the glow, 0 to 1.
    pub(super) glow: f32,
    /// Share of the diameter that is in the shade, for a crescent; 0 for a full disc.
    pub(super) shade: f32,
}

impl Layer for Disc {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        let below = y - self.y;
        for (column, pixel) in row.iter_mut().enumerate() {
            let beside = column as f32 + 0.5 - self.x;
            let distance = beside.hypot(below);
            let away = distance / self.radius;
            let halo = (-(away - 1.0).max(0.0) * 0.55).exp() * 0.55 + (-away * 0.16).exp() * 0.35;
            *pixel = pixel.lit(self.colour, halo * self.glow);
            let mut cover = (self.radius + 0.5 - distance).clamp(0.0, 1.0);
            if self.shade > 0.0 {
                let shift = self.radius * (2.0 - 2.0 * self.shade);
                let shaded = (beside - shift * 0.9).hypot(below + shift * 0.45);
                cover *= (shaded - self.radius * 0.92 + 0.5).clamp(0.0, 1.0);
            }
            *pixel = pixel.towards(self.colour, cover);
        }
    }
}

/// Layer of clouds above `horizon`; `seed` determines their shape.
pub(super) struct Clouds {
    pub(super) seed: u64,
    pub(super) colour: Colour,
    pub(super) horizon: f32,
    /// Length of the shorter side of the image, in pixels.
    pub(super) unit: f32,
    /// Share of the sky that the clouds cover, 0 to 1.
    pub(super) amount: f32,
}

impl Layer for Clouds {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        let depth = y / self.horizon;
        if depth >= 1.0 {
            return;
        }
        // Clouds are flatter near the horizon.
        let down = y / self.unit * (7.0 + 12.0 * depth);
        let veil = smooth(depth * 4.0) * (1.0 - smooth((depth - 0.72) / 0.28));
        let threshold = 0.72 - 0.30 * self.amount;
        for (column, pixel) in row.iter_mut().enumerate() {
            let across = column as f32 / self.unit * 2.6;
            let density = rough_plane(self.seed, across, down, 4);
            let cover = smooth((density - threshold) / 0.24);
            *pixel = pixel.towards(self.colour, cover * veil * 0.75);
        }
    }
}

/// The area below a line, such as hills, woods, roofs or dunes.
pub(super) struct Ridge {
    /// Vertical position of the upper edge in each column.
    pub(super) tops: Vec<f32>,
    pub(super) top: Colour,
    pub(super) foot: Colour,
    /// Height of the color gradient, in pixels.
    pub(super) depth: f32,
    /// Vertical position at which the gradient starts. `None` starts it at each column's top, which
    /// would repeat the shape of a jagged line.
    pub(super) level: Option<f32>,
    /// Strength of the light on the upper edge, 0 to 1.
    pub(super) rim: f32,
    pub(super) light: Colour,
    /// Height of the lit edge, in pixels.
    pub(super) edge: f32,
}

impl Layer for Ridge {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        for (pixel, top) in row.iter_mut().zip(&self.tops) {
            let below = y - top;
            let cover = (below + 0.5).clamp(0.0, 1.0);
            if cover > 0.0 {
                let colour = self
                    .top
                    .towards(self.foot, smooth((y - self.level.unwrap_or(*top)) / self.depth));
                let rim = (1.0 - below / self.edge).clamp(0.0, 1.0) * self.rim;
                *pixel = pixel.towards(colour.lit(self.light, rim), cover);
            }
        }
    }
}

/// Snow on the high parts of a ridge.
pub(super) struct Snow {
    pub(super) seed: u64,
    pub(super) tops: Vec<f32>,
    pub(super) colour: Colour,
    /// Vertical position of the lower limit of the snow.
    pub(super) line: f32,
    pub(super) unit: f32,
}

impl Layer for Snow {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        for (column, (pixel, top)) in row.iter_mut().zip(&self.tops).enumerate() {
            let (below, snow_height) = (y - top, self.line - top);
            if below < 0.0 || snow_height <= 0.0 {
                continue;
            }
            let across = column as f32 / self.unit;
            let ragged = along(self.seed, across * 60.0) * 0.6 + along(self.seed ^ 7, across * 170.0) * 0.4;
            let reach = snow_height * (0.30 + 0.75 * ragged);
            let cover = smooth((reach - below) / (self.unit * 0.006) + 0.5) * (below + 0.5).clamp(0.0, 1.0);
            *pixel = pixel.towards(self.colour, cover * 0.92);
        }
    }
}

/// Water below the horizon. The water reflects the sky and the light.
pub(super) struct Water {
    pub(super) seed: u64,
    pub(super) palette: Palette,
    pub(super) horizon: f32,
    pub(super) height: f32,
    pub(super) unit: f32,
    /// Horizontal position of the light.
    pub(super) light_x: f32,
    pub(super) deep: Colour,
}

impl Layer for Water {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        let below = y - self.horizon;
        if below < -0.5 {
            return;
        }
        let depth = (below / (self.height - self.horizon).max(1.0)).clamp(0.0, 1.0);
        let mirrored = self.palette.sky_at(1.0 - depth * 0.9);
        let water = mirrored.towards(self.deep, 0.30 + 0.45 * depth);
        // Distant waves are small and flat.
        let far = 0.012 + 0.16 * depth;
        let down = (below / self.unit + 0.02).ln() * 26.0;
        let way = self.unit * (0.035 + 0.16 * depth);
        for (column, pixel) in row.iter_mut().enumerate() {
            let across = (column as f32 - self.light_x) / self.unit;
            let wave = rough_plane(self.seed, across / far * 0.55, down, 2);
            let ripple = water.towards(mirrored, smooth((wave - 0.35) / 0.4) * 0.5);
            let beside = (column as f32 + 0.5 - self.light_x).abs() / way;
            let glitter = smooth((wave - 0.46) / 0.14) * (-beside * beside).exp();
            let colour = ripple.lit(self.palette.light(), glitter * (0.95 - 0.35 * depth));
            *pixel = pixel.towards(colour, (below + 0.5).clamp(0.0, 1.0));
        }
    }
}

/// Lit windows, all with the same size and color.
pub(super) struct Windows {
    /// Left and top position and brightness of each window.
    pub(super) windows: Vec<(f32, f32, f32)>,
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) colour: Colour,
}

impl Layer for Windows {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        for (left, top, shine) in &self.windows {
            if y < *top || y >= top + self.height {
                continue;
            }
            let pixels = row
                .iter_mut()
                .skip(left.max(0.0) as usize)
                .take(self.width.ceil() as usize);
            for pixel in pixels {
                *pixel = pixel.towards(self.colour, *shine);
            }
        }
    }
}

/// A translucent ring or disc.
pub(super) struct Circle {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) radius: f32,
    /// Width of the ring; equal to the radius for a disc.
    pub(super) ring: f32,
    pub(super) colour: Colour,
    pub(super) opacity: f32,
}

impl Layer for Circle {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        let below = y - self.y;
        if below.abs() > self.radius + 1.0 {
            return;
        }
        for (column, pixel) in row.iter_mut().enumerate() {
            let distance = (column as f32 + 0.5 - self.x).hypot(below);
            let outside = (self.radius + 0.5 - distance).clamp(0.0, 1.0);
            let inside = (distance - (self.radius - self.ring) + 0.5).clamp(0.0, 1.0);
            *pixel = pixel.towards(self.colour, outside * inside * self.opacity);
        }
    }
}

/// Darkening of the corners of the image.
pub(super) struct Vignette {
    pub(super) width: f32,
    pub(super) height: f32,
}

impl Layer for Vignette {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        let down = y / self.height * 2.0 - 1.0;
        for (column, pixel) in row.iter_mut().enumerate() {
            let across = column as f32 / self.width * 2.0 - 1.0;
            let away = (across * across + down * down) / 2.0;
            *pixel = pixel.towards(Colour::BLACK, away * away * 0.28);
        }
    }
}
