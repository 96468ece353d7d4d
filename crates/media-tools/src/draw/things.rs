//! Objects that a prompt can name and that are drawn into the scene: a lighthouse, a boat, a house,
//! a tree, a cat, the sun.

use std::f32::consts::TAU;

use super::colour::Colour;
use super::layers::Layer;
use super::scenes::Motif;

/// A drawable object that a prompt can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SceneObject {
    Lighthouse,
    Boat,
    House,
    Tree,
    Cat,
    Sun,
}

/// Words of a prompt that select an object.
const WORDS: &[(SceneObject, &[&str])] = &[
    (SceneObject::Lighthouse, &["lighthouse", "lighthouses", "beacon"]),
    (
        SceneObject::Boat,
        &["boat", "boats", "ship", "ships", "sailboat", "sail", "yacht"],
    ),
    (
        SceneObject::House,
        &[
            "house", "houses", "home", "cottage", "cabin", "hut", "barn", "farm",
        ],
    ),
    (SceneObject::Tree, &["tree", "oak", "apple"]),
    (SceneObject::Cat, &["cat", "cats", "kitten"]),
    (SceneObject::Sun, &["sun", "sunny", "sunshine"]),
];

/// Names of colors and their RGB values.
const COLOURS: &[(&str, u32)] = &[
    ("red", 0xD6_2B_2B),
    ("orange", 0xF0_86_2A),
    ("yellow", 0xF6_CF_3C),
    ("gold", 0xD9_A4_2E),
    ("golden", 0xD9_A4_2E),
    ("green", 0x3E_9B_4A),
    ("blue", 0x2F_6F_D0),
    ("turquoise", 0x2F_B9_B0),
    ("purple", 0x7E_46_B8),
    ("violet", 0x7E_46_B8),
    ("pink", 0xEE_7F_AC),
    ("brown", 0x7A_4F_2E),
    ("black", 0x20_20_24),
    ("white", 0xF4_F2_EC),
    ("grey", 0x8A_8D_93),
    ("gray", 0x8A_8D_93),
];

/// Returns the color with this name; `None` for other words.
fn colour_of(word: &str) -> Option<Colour> {
    let row = COLOURS.iter().find(|(name, _)| *name == word)?;
    Some(Colour::of(row.1))
}

impl SceneObject {
    fn of(word: &str) -> Option<Self> {
        let row = WORDS.iter().find(|(_, asking)| asking.contains(&word))?;
        Some(row.0)
    }

    /// Returns the first object that the words name, and the color if the preceding word names one.
    pub(super) fn choose(words: &[String]) -> Option<(Self, Option<Colour>)> {
        let place = words.iter().position(|word| Self::of(word).is_some())?;
        let thing = Self::of(words.get(place)?)?;
        let before = place.checked_sub(1).and_then(|before| words.get(before));
        Some((thing, before.and_then(|word| colour_of(word))))
    }

    /// Returns the default motif for the object.
    pub(super) fn motif(self) -> Motif {
        match self {
            Self::Lighthouse | Self::Boat => Motif::Sea,
            Self::House | Self::Tree | Self::Cat | Self::Sun => Motif::Hills,
        }
    }

    fn default_colour(self) -> Colour {
        Colour::of(match self {
            Self::Lighthouse | Self::Boat => 0xC8_3A_2E,
            Self::House => 0xE8_D8_B8,
            Self::Tree => 0x3F_7A_3A,
            Self::Cat => 0x2E_29_2B,
            Self::Sun => 0xFF_D0_4A,
        })
    }

    /// Returns the shapes of the object. `(x, y)` is the center of its bottom edge and `high` is
    /// its height, in pixels.
    pub(super) fn shapes(self, colour: Option<Colour>, (x, y): (f32, f32), high: f32) -> Vec<Box<dyn Layer>> {
        let main = colour.unwrap_or(self.default_colour());
        let dark = main.towards(Colour::BLACK, 0.45);
        let (white, ink) = (Colour::of(0xF6_F3_EA), Colour::of(0x24_22_2A));
        let (glass, wood) = (Colour::of(0xFF_E6_8A), Colour::of(0x5B_3D_28));
        let outlines = match self {
            Self::Lighthouse => vec![
                (oval(0.0, -0.02, 0.36, 0.09), ink.towards(wood, 0.4)),
                (quad(0.13, 0.0, 0.085, 0.74), white),
                (quad(0.121, 0.14, 0.112, 0.28), main),
                (quad(0.104, 0.42, 0.095, 0.56), main),
                (quad(0.125, 0.73, 0.125, 0.765), ink),
                (quad(0.068, 0.765, 0.068, 0.87), glass),
                (vec![(-0.095, 0.87), (0.095, 0.87), (0.0, 1.0)], dark),
                (quad(0.03, 0.0, 0.03, 0.09), ink),
            ],
            Self::Boat => vec![
                (vec![(-0.48, 0.24), (0.48, 0.24), (0.34, 0.0), (-0.36, 0.0)], main),
                (
                    vec![(-0.48, 0.24), (0.48, 0.24), (0.465, 0.20), (-0.465, 0.20)],
                    white,
                ),
                (quad(0.014, 0.24, 0.014, 1.0), wood),
                (vec![(0.03, 0.29), (0.03, 0.95), (0.40, 0.29)], white),
                (
                    vec![(-0.03, 0.31), (-0.03, 0.86), (-0.33, 0.31)],
                    white.towards(ink, 0.14),
                ),
            ],
            Self::House => vec![
                (vec![(0.18, 0.66), (0.18, 0.98), (0.27, 0.98), (0.27, 0.60)], dark),
                (quad(0.38, 0.0, 0.38, 0.52), main),
                (
                    vec![(-0.46, 0.52), (0.46, 0.52), (0.0, 0.95)],
                    Colour::of(0x9C_3F_2C),
                ),
                (quad(0.075, 0.0, 0.075, 0.30), wood),
                (at(quad(0.07, 0.22, 0.07, 0.38), -0.23), glass),
                (at(quad(0.07, 0.22, 0.07, 0.38), 0.23), glass),
            ],
            Self::Tree => vec![
                (quad(0.055, 0.0, 0.04, 0.45), wood),
                (oval(-0.20, 0.52, 0.21, 0.18), dark),
                (oval(0.20, 0.54, 0.21, 0.18), dark.towards(main, 0.5)),
                (oval(0.0, 0.72, 0.29, 0.27), main),
            ],
            Self::Cat => vec![
                (oval(0.24, 0.10, 0.20, 0.07), main),
                (oval(0.0, 0.28, 0.21, 0.30), main),
                (oval(0.0, 0.67, 0.18, 0.165), main),
                (vec![(-0.17, 0.72), (-0.05, 0.80), (-0.15, 0.97)], main),
                (vec![(0.17, 0.72), (0.05, 0.80), (0.15, 0.97)], main),
                (oval(-0.07, 0.69, 0.035, 0.04), glass),
                (oval(0.07, 0.69, 0.035, 0.04), glass),
                (oval(0.0, 0.61, 0.022, 0.016), Colour::of(0xE7_8A_97)),
            ],
            Self::Sun => (0..12)
                .map(|ray| (ray_of(ray as f32 / 12.0), main.towards(white, 0.25)))
                .chain([(oval(0.0, 0.5, 0.30, 0.30), main)])
                .collect(),
        };
        let placed = outlines.into_iter().map(|(outline, colour)| {
            let points = outline.into_iter();
            let points = points.map(|(across, up)| (x + across * high, y - up * high));
            Box::new(Shape {
                points: points.collect(),
                colour,
            }) as Box<dyn Layer>
        });
        placed.collect()
    }
}

/// Returns the first color that the words name, as in "make it red". `None` if they name no color,
/// or if the object that they name has its own color.
pub(super) fn tone(words: &[String]) -> Option<Colour> {
    let has_one = SceneObject::choose(words).is_some_and(|(_, colour)| colour.is_some());
    match has_one {
        true => None,
        false => words.iter().find_map(|word| colour_of(word)),
    }
}

type Outline = Vec<(f32, f32)>;

/// Returns a symmetric trapezoid with its bottom at `foot` and its top at `top`. `low` and `high`
/// are half of the width at the bottom and at the top.
fn quad(low: f32, foot: f32, high: f32, top: f32) -> Outline {
    vec![(-low, foot), (low, foot), (high, top), (-high, top)]
}

fn oval(x: f32, y: f32, wide: f32, high: f32) -> Outline {
    let turns = (0..48).map(|step| step as f32 / 48.0 * TAU);
    turns
        .map(|turn| (x + turn.cos() * wide, y + turn.sin() * high))
        .collect()
}

fn at(outline: Outline, right: f32) -> Outline {
    outline.into_iter().map(|(x, y)| (x + right, y)).collect()
}

fn ray_of(turn: f32) -> Outline {
    let point = |turn: f32, far: f32| {
        let (sin, cos) = (turn * TAU).sin_cos();
        (cos * far, 0.5 + sin * far)
    };
    vec![
        point(turn - 0.018, 0.34),
        point(turn + 0.018, 0.34),
        point(turn, 0.5),
    ]
}

/// A polygon with one color.
struct Shape {
    points: Vec<(f32, f32)>,
    colour: Colour,
}

/// Number of samples for each row of pixels, for smooth slanted edges.
const LINES: u32 = 4;

impl Layer for Shape {
    fn paint(&self, y: f32, row: &mut [Colour]) {
        let ys = self.points.iter().map(|(_, y)| *y);
        let (top, foot) = ys.fold((f32::MAX, f32::MIN), |(top, foot), y| (top.min(y), foot.max(y)));
        if y < top - 1.0 || y > foot + 1.0 {
            return;
        }
        let mut covers = vec![0.0_f32; row.len()];
        for line in 0..LINES {
            let at = y - 0.5 + (line as f32 + 0.5) / LINES as f32;
            for pair in self.crossings(at).chunks_exact(2) {
                let &[left, right] = pair else { continue };
                let columns = covers.iter_mut().enumerate().skip(left.max(0.0) as usize);
                for (column, cover) in columns.take((right - left) as usize + 2) {
                    let start = column as f32;
                    *cover += (right.min(start + 1.0) - left.max(start)).clamp(0.0, 1.0) / LINES as f32;
                }
            }
        }
        for (pixel, cover) in row.iter_mut().zip(covers).filter(|(_, cover)| *cover > 0.0) {
            *pixel = pixel.towards(self.colour, cover.min(1.0));
        }
    }
}

impl Shape {
    /// Returns the horizontal positions at which the outline crosses the horizontal line at `y`,
    /// from left to right.
    fn crossings(&self, y: f32) -> Vec<f32> {
        let next = self.points.iter().cycle().skip(1);
        let edges = self.points.iter().zip(next);
        let crossing = edges.filter(|((_, from), (_, to))| (*from <= y) != (*to <= y));
        let mut crossings: Vec<f32> = crossing
            .map(|((x, from), (to_x, to))| x + (y - from) / (to - from) * (to_x - x))
            .collect();
        crossings.sort_by(f32::total_cmp);
        crossings
    }
}
