//! Motifs of images: landscapes and patterns, each a stack of layers.

use std::f32::consts::{PI, TAU};

use super::colour::{Colour, Palette};
use super::layers::{Circle, Clouds, Disc, Layer, Ridge, Sky, Snow, Stars, Vignette, Water, Windows};
use super::noise::{Rng, along, mix, rough_line};
use super::things::SceneObject;

/// A kind of scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motif {
    Hills,
    Mountains,
    Forest,
    Sea,
    Dunes,
    City,
    Waves,
    Circles,
}

/// Words of a prompt that select a motif.
const WORDS: &[(Motif, &[&str])] = &[
    (
        Motif::City,
        &[
            "city",
            "town",
            "street",
            "skyline",
            "building",
            "buildings",
            "office",
            "urban",
            "tower",
        ],
    ),
    (
        Motif::Sea,
        &[
            "sea", "ocean", "lake", "river", "harbour", "harbor", "beach", "coast", "shore", "water", "fish",
            "wave", "waves", "surf",
        ],
    ),
    (
        Motif::Forest,
        &[
            "forest", "trees", "wood", "woods", "jungle", "fox", "deer", "bear", "owl",
        ],
    ),
    (
        Motif::Mountains,
        &[
            "mountain",
            "mountains",
            "alps",
            "snow",
            "peak",
            "winter",
            "ice",
            "valley",
        ],
    ),
    (
        Motif::Dunes,
        &["desert", "dune", "dunes", "sand", "mars", "camel"],
    ),
    (
        Motif::Hills,
        &[
            "hill",
            "hills",
            "meadow",
            "field",
            "garden",
            "farm",
            "landscape",
            "flower",
            "horse",
        ],
    ),
    (
        Motif::Circles,
        &[
            "logo",
            "icon",
            "abstract",
            "pattern",
            "geometric",
            "poster",
            "planet",
            "space",
            "galaxy",
        ],
    ),
    (
        Motif::Waves,
        &["music", "background", "gradient", "wallpaper", "flow"],
    ),
];

impl Motif {
    /// Selects the motif by the words of a prompt, or by the seed if no word matches.
    pub(super) fn choose(words: &[String], seed: u64) -> Self {
        let requested = words.iter().find_map(|word| {
            let row = WORDS.iter().find(|(_, asking)| asking.contains(&word.as_str()))?;
            Some(row.0)
        });
        let requested = requested.or_else(|| SceneObject::choose(words).map(|(thing, _)| thing.motif()));
        let place = mix(seed ^ 0x3017) as usize % WORDS.len();
        let any = WORDS.get(place).map_or(Motif::Hills, |(motif, _)| *motif);
        requested.unwrap_or(any)
    }
}

/// Builds the layers of a scene.
pub(super) struct SceneBuilder {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) palette: Palette,
    pub(super) seed: u64,
    /// Progress within an image set, 0 to 1. The scenes of a set differ only in the progress.
    pub(super) progress: f32,
}

type Layers = Vec<Box<dyn Layer>>;

impl SceneBuilder {
    /// Returns all layers of a motif and of an optional object, the farthest first.
    pub(super) fn build(&self, motif: Motif, thing: Option<(SceneObject, Option<Colour>)>) -> Layers {
        let mut layers = match motif {
            Motif::Hills => self.hills(),
            Motif::Mountains => self.mountains(),
            Motif::Forest => self.forest(),
            Motif::Sea => self.sea(),
            Motif::Dunes => self.dunes(),
            Motif::City => self.city(),
            Motif::Waves => self.waves(),
            Motif::Circles => self.circles(),
        };
        if let Some((thing, colour)) = thing {
            layers.extend(self.place(thing, colour));
        }
        layers.push(Box::new(Vignette {
            width: self.width,
            height: self.height,
        }));
        layers
    }

    /// Returns the layers of an object near the center of the scene.
    fn place(&self, thing: SceneObject, colour: Option<Colour>) -> Layers {
        let mut rng = self.rng(121);
        let aside = rng.between(0.36, 0.64) + 0.06 * self.progress;
        let (foot, high): (f32, f32) = match thing {
            SceneObject::Lighthouse => (0.80, 0.60),
            SceneObject::Boat => (0.80, 0.46),
            SceneObject::House | SceneObject::Tree => (0.86, 0.50),
            SceneObject::Cat => (0.88, 0.46),
            SceneObject::Sun => (0.50, 0.40),
        };
        let high = high.min(self.height / self.unit() * foot) * self.unit();
        thing.shapes(colour, (self.width * aside, self.height * foot), high)
    }

    fn rng(&self, purpose: u64) -> Rng {
        Rng::new(self.seed ^ mix(purpose))
    }

    /// Returns the length of the shorter side. The sizes of objects are relative to it.
    fn unit(&self) -> f32 {
        self.width.min(self.height)
    }

    /// Returns the layers of sky, lights and clouds, and the horizontal position of the light.
    fn sky_layers(&self, horizon: f32, clouds: f32) -> (Layers, f32) {
        let (unit, palette) = (self.unit(), self.palette);
        let mut rng = self.rng(1);
        let (start, way) = (rng.between(0.18, 0.45), rng.between(0.25, 0.4));
        let x = self.width * (start + way * self.progress);
        let arc = (self.progress * PI).sin() * 0.1;
        let y = horizon * (rng.between(0.30, 0.62) - arc);
        let mut layers: Layers = vec![Box::new(Sky { palette, horizon })];
        if palette.is_dark() {
            layers.push(Box::new(Stars::scatter(&mut rng, self.width, horizon, unit)));
        }
        layers.push(Box::new(Disc {
            x,
            y,
            radius: unit * rng.between(0.05, 0.085),
            colour: palette.light(),
            glow: if palette.is_dark() { 0.45 } else { 0.8 },
            shade: if palette.is_dark() && rng.hits(0.6) {
                0.62
            } else {
                0.0
            },
        }));
        if clouds > 0.0 {
            layers.push(Box::new(Clouds {
                seed: self.seed ^ mix(self.drift() as u64),
                colour: palette
                    .sky_at(1.0)
                    .towards(Colour::WHITE, if palette.is_dark() { 0.05 } else { 0.55 }),
                horizon,
                unit,
                amount: clouds,
            }));
        }
        (layers, x)
    }

    /// Returns a number that selects the shape of the clouds. The number changes in twelve steps
    /// over an image set.
    fn drift(&self) -> f32 {
        (self.progress * 12.0).floor()
    }

    /// Returns the line of a ridge. `middle` is a share of the height; `high` and `bends` are
    /// shares of the shorter side.
    fn line(&self, purpose: u64, middle: f32, high: f32, bends: f32, octaves: u32) -> Vec<f32> {
        let seed = self.seed ^ mix(purpose);
        let scroll = self.progress * 0.12 * (purpose % 10) as f32;
        (0..self.width as usize)
            .map(|column| {
                let x = column as f32 / self.unit() / bends + scroll + (seed % 97) as f32;
                let rise = rough_line(seed, x, octaves) - 0.5;
                self.height * middle - self.unit() * high * rise * 2.0
            })
            .collect()
    }

    /// Returns a ridge in the color of land. `nearness` is 0 for distant land and 1 for near land;
    /// `mist` (0 to 1) is the share of haze at the foot.
    fn ridge(&self, tops: Vec<f32>, nearness: f32, mist: f32) -> Ridge {
        let haze = self.palette.sky_at(1.0);
        let top = self.palette.land(nearness).towards(haze, 0.30 * (1.0 - nearness));
        Ridge {
            tops,
            top,
            foot: top.towards(haze, mist),
            depth: self.height * 0.22,
            level: None,
            rim: 0.22 * (1.0 - nearness),
            light: self.palette.light(),
            edge: self.unit() * 0.012,
        }
    }

    /// Returns a ridge with horizontal mist, for steep lines.
    fn jagged(&self, tops: Vec<f32>, nearness: f32, mist: f32) -> Ridge {
        let highest = tops.iter().copied().fold(self.height, f32::min);
        let ridge = self.ridge(tops, nearness, mist);
        Ridge {
            level: Some(highest),
            depth: self.height * 0.34,
            rim: ridge.rim * 0.5,
            ..ridge
        }
    }

    fn hills(&self) -> Layers {
        let (mut layers, _) = self.sky_layers(self.height * 0.68, 0.55);
        for (step, nearness) in [0.0, 0.25, 0.5, 0.75, 1.0].into_iter().enumerate() {
            let place = step as f32;
            let (middle, high) = (0.52 + 0.095 * place, 0.13 - 0.012 * place);
            let tops = self.line(21 + step as u64, middle, high, 0.55 + 0.1 * place, 3);
            layers.push(Box::new(self.ridge(tops, nearness, 0.42 * (1.0 - nearness))));
        }
        layers
    }

    fn mountains(&self) -> Layers {
        let (mut layers, _) = self.sky_layers(self.height * 0.72, 0.4);
        for (step, nearness) in [0.05, 0.35].into_iter().enumerate() {
            let place = step as f32;
            let tops = self.peaks(31 + step as u64, 0.70 + 0.05 * place, 0.62 - 0.22 * place);
            layers.push(Box::new(self.jagged(tops.clone(), nearness, 0.42)));
            let bright = self.palette.sky_at(1.0).towards(Colour::WHITE, 0.45);
            layers.push(Box::new(Snow {
                seed: self.seed ^ mix(35 + step as u64),
                line: self.height * 0.66 - self.unit() * (0.12 - 0.05 * place),
                tops,
                colour: bright.towards(self.palette.land(nearness), 0.18),
                unit: self.unit(),
            }));
        }
        for (step, nearness) in [0.62, 0.85, 1.0].into_iter().enumerate() {
            let tops = self.line(41 + step as u64, 0.76 + 0.085 * step as f32, 0.05, 0.35, 4);
            layers.push(Box::new(self.ridge(tops, nearness, 0.25 * (1.0 - nearness))));
        }
        layers
    }

    /// Returns a line with sharp peaks.
    fn peaks(&self, purpose: u64, foot: f32, high: f32) -> Vec<f32> {
        let seed = self.seed ^ mix(purpose);
        let scroll = self.progress * 0.05 * (purpose % 10) as f32;
        (0..self.width as usize)
            .map(|column| {
                let x = column as f32 / self.unit() * 1.5 + scroll + (seed % 89) as f32;
                let (mut sum, mut weight) = (0.0, 0.5);
                for octave in 0..6_u64 {
                    let scale = 1.9_f32.powi(octave as i32);
                    // Folded noise has sharp maxima.
                    let fold = 1.0 - (along(seed ^ mix(octave), x * scale) * 2.0 - 1.0).abs();
                    sum += weight * fold;
                    weight *= 0.47;
                }
                self.height * foot - self.unit() * high * (sum * 1.12).powi(2)
            })
            .collect()
    }

    fn forest(&self) -> Layers {
        let (mut layers, _) = self.sky_layers(self.height * 0.75, 0.3);
        let tops = self.line(51, 0.55, 0.10, 0.7, 3);
        layers.push(Box::new(self.ridge(tops, 0.0, 0.5)));
        for (step, nearness) in [0.22, 0.48, 0.74, 1.0].into_iter().enumerate() {
            let place = step as f32;
            let mut tops = self.line(52 + step as u64, 0.64 + 0.10 * place, 0.05, 0.6, 2);
            self.plant(&mut tops, 61 + step as u64, 0.10 + 0.055 * place);
            layers.push(Box::new(self.jagged(tops, nearness, 0.6 * (1.0 - nearness))));
        }
        layers
    }

    /// Adds firs to a ridge. `high` is their maximum height, as a share of the shorter side.
    fn plant(&self, tops: &mut [f32], purpose: u64, high: f32) {
        let mut rng = self.rng(purpose);
        let ground = tops.to_vec();
        let mut x = -self.unit() * 0.05;
        while x < self.width + self.unit() * 0.05 {
            let tall = self.unit() * high * rng.between(0.55, 1.0);
            let wide = tall * rng.between(0.20, 0.26);
            let foot = ground.get(x.max(0.0) as usize).copied();
            let foot = foot.or(ground.last().copied()).unwrap_or(self.height) + tall * 0.12;
            for (column, top) in tops.iter_mut().enumerate() {
                let beside = (column as f32 + 0.5 - x).abs() / wide;
                if beside < 1.0 {
                    // Each tier of branches is wider at its bottom.
                    let (share, tiers) = (1.0 - beside, 6.0);
                    let tier = (share * tiers).fract();
                    let reach = share - (0.5 - tier) * 0.5 / tiers;
                    *top = top.min(foot - tall * reach.clamp(0.0, 1.0));
                }
            }
            x += wide * rng.between(0.55, 1.5);
        }
    }

    fn sea(&self) -> Layers {
        let horizon = self.height * 0.56;
        let (mut layers, light_x) = self.sky_layers(horizon, 0.6);
        let tops = self.line(71, 0.545, 0.05, 0.5, 4);
        let mut isles = self.ridge(tops, 0.15, 0.35);
        for top in &mut isles.tops {
            *top = top.min(horizon + 2.0);
        }
        layers.push(Box::new(isles));
        layers.push(Box::new(Water {
            seed: self.seed ^ mix(72 + (self.progress * 50.0) as u64),
            palette: self.palette,
            horizon,
            height: self.height,
            unit: self.unit(),
            light_x,
            deep: self.palette.land(0.8),
        }));
        let shore = self.line(73, 1.0, 0.10, 0.8, 3);
        layers.push(Box::new(self.ridge(shore, 1.0, 0.0)));
        layers
    }

    fn dunes(&self) -> Layers {
        let (mut layers, _) = self.sky_layers(self.height * 0.6, 0.25);
        let (far, near) = (self.palette.sky_at(1.0), self.palette.land(0.75));
        for step in 0..6_u64 {
            let nearness = step as f32 / 5.0;
            let tops = self.line(
                81 + step,
                0.52 + 0.085 * step as f32,
                0.07 + 0.02 * nearness,
                0.9,
                1,
            );
            let top = far.towards(near, 0.18 + 0.72 * nearness);
            layers.push(Box::new(Ridge {
                tops,
                top: top.lit(self.palette.light(), 0.22),
                foot: top.towards(near, 0.65),
                depth: self.height * (0.10 + 0.06 * nearness),
                level: None,
                rim: 0.35,
                light: self.palette.light(),
                edge: self.unit() * 0.010,
            }));
        }
        layers
    }

    fn city(&self) -> Layers {
        let (mut layers, _) = self.sky_layers(self.height * 0.86, 0.35);
        for (step, nearness) in [0.10, 0.45, 0.95].into_iter().enumerate() {
            let place = step as f32;
            let (tops, windows) = self.houses(91 + step as u64, 0.60 - 0.08 * place, 0.50 + 0.13 * place);
            layers.push(Box::new(self.ridge(tops, nearness, 0.5 * (1.0 - nearness))));
            if step > 0 {
                layers.push(Box::new(windows));
            }
        }
        layers
    }

    /// Returns roofs between two heights of the image, and the windows below them.
    fn houses(&self, purpose: u64, high: f32, low: f32) -> (Vec<f32>, Windows) {
        let (mut rng, unit) = (self.rng(purpose), self.unit());
        let mut tops = vec![self.height; self.width as usize];
        let cell = unit * 0.017;
        let mut windows = Vec::new();
        let mut left = -unit * 0.03;
        while left < self.width {
            let wide = (unit * rng.between(0.06, 0.13) / cell).round() * cell;
            let shape = rng.between(0.0, 1.0);
            let roof = self.height * (low + (high.min(low) - 0.22 - low) * shape * shape + 0.12);
            let has_mast = rng.hits(0.22);
            let inside = tops.iter_mut().enumerate().skip(left.max(0.0) as usize);
            for (column, top) in inside.take_while(|(column, _)| (*column as f32) < left + wide) {
                let from_middle = (column as f32 - left - wide / 2.0).abs();
                let mast = if has_mast && from_middle < unit * 0.002 {
                    unit * 0.06
                } else {
                    0.0
                };
                *top = roof - mast;
            }
            let columns = (wide / cell).round() as u32;
            for floor in 1..40_u32 {
                for place in 1..columns.saturating_sub(1) {
                    let place_left = left + (place as f32 + 0.25) * cell;
                    if place_left >= 0.0 && rng.hits(0.34) {
                        let top = roof + floor as f32 * cell * 1.35;
                        windows.push((place_left, top, rng.between(0.25, 0.85)));
                    }
                }
            }
            left += wide + if rng.hits(0.3) { cell } else { 0.0 };
        }
        let windows = Windows {
            windows,
            width: (cell * 0.5).max(1.0),
            height: (cell * 0.7).max(1.0),
            colour: Colour::of(0xFF_DF_9E).towards(self.palette.light(), 0.3),
        };
        (tops, windows)
    }

    fn waves(&self) -> Layers {
        let mut layers: Layers = vec![Box::new(Sky {
            palette: self.palette,
            horizon: self.height,
        })];
        let mut rng = self.rng(101);
        let bands = 9;
        for step in 0..bands {
            let share = step as f32 / (bands - 1) as f32;
            let (slow, fast) = (rng.between(0.8, 1.5), rng.between(2.0, 3.4));
            let (turn, other) = (rng.between(0.0, TAU), rng.between(0.0, TAU));
            let turn = turn + self.progress * 2.2;
            let tops = (0..self.width as usize).map(|column| {
                let x = column as f32 / self.unit();
                let swing = (x * slow * 3.0 + turn).sin() * 0.075 + (x * fast * 2.0 + other).sin() * 0.028;
                self.height * (0.16 + 0.86 * share) + self.unit() * swing - self.unit() * 0.06
            });
            let colour = match share < 0.5 {
                true => self
                    .palette
                    .sky_at(1.0 - share * 0.6)
                    .towards(self.palette.land(0.0), share * 1.6),
                false => self.palette.land((share - 0.5) * 2.0),
            };
            layers.push(Box::new(Ridge {
                tops: tops.collect(),
                top: colour.lit(self.palette.light(), 0.16),
                foot: colour.towards(Colour::BLACK, 0.12),
                depth: self.height * 0.20,
                level: None,
                rim: 0.5,
                light: self.palette.light(),
                edge: self.unit() * 0.006,
            }));
        }
        layers
    }

    fn circles(&self) -> Layers {
        let (unit, palette) = (self.unit(), self.palette);
        let mut layers: Layers = vec![Box::new(Sky {
            palette,
            horizon: self.height * 1.1,
        })];
        let mut rng = self.rng(111);
        let colours = [
            palette.light(),
            palette.land(0.0),
            palette.sky_at(0.5),
            palette.land(0.7),
            palette.sky_at(1.0),
        ];
        for step in 0..16_usize {
            let colour = colours
                .get(step % colours.len())
                .copied()
                .unwrap_or(Colour::WHITE);
            let radius = unit * rng.between(0.05, 0.34) * (1.15 - step as f32 / 22.0);
            let is_ring = rng.hits(0.45);
            let drift = self.progress * rng.between(-0.16, 0.16);
            layers.push(Box::new(Circle {
                x: self.width * (rng.between(0.05, 0.95) + drift),
                y: self.height * rng.between(0.08, 0.86),
                radius,
                ring: if is_ring {
                    unit * rng.between(0.004, 0.022)
                } else {
                    radius
                },
                colour,
                opacity: if is_ring { 0.85 } else { rng.between(0.28, 0.62) },
            }));
        }
        layers
    }
}
