//! The banner of an image: the simulation mark, the prompt, and the position in an image set.

use crate::image::{Dimensions, Image};

use super::letters::{HIGH, WIDE, rows};

/// Text of the mark on every image.
const MARK: &str = "SIMULATED";
/// Background color of the mark, which also identifies a banner.
const CHIP: [u8; 3] = [0xFF, 0xB8, 0x2E];
/// Bound (exclusive) of the deviation of a color channel in a detected mark. Lossy encoding changes
/// colors.
const LOSS: u8 = 40;
const INK: [u8; 3] = [0x1A, 0x14, 0x10];
const PAPER: [u8; 3] = [0xFF, 0xFF, 0xFF];
/// Background color of the banner.
const SHADE: [u8; 3] = [0x08, 0x0A, 0x12];
/// Default opacity of the banner's background.
pub(super) const OPACITY: f32 = 0.62;

/// A rectangle in pixels.
#[derive(Clone, Copy)]
struct Area {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

/// Returns the areas of the banner and of the mark in it.
fn layout(size: Dimensions) -> (Area, Area) {
    let scale = scale_of(size.width, size.height);
    let pad = scale * 3;
    let bar = (HIGH * scale + 4 * pad).min(size.height);
    let foot = Area {
        left: 0,
        top: size.height - bar,
        width: size.width,
        height: bar,
    };
    let chip = Area {
        left: pad.min(size.width / 20),
        top: foot.top + pad,
        width: (width_of(MARK.chars().count(), scale) + 2 * pad).min(size.width),
        height: bar.saturating_sub(2 * pad),
    };
    (foot, chip)
}

/// Returns the size of an image above its banner; `None` without a banner. A banner is detected by
/// the color of its mark, even after lossy encoding.
pub(super) fn above(image: &Image) -> Option<Dimensions> {
    let size = image.size();
    let (foot, chip) = layout(size);
    if foot.top == 0 || chip.width < 4 || chip.height < 4 {
        return None;
    }
    let is_chip = |x: u32, y: u32| {
        let place = (y as usize * size.width as usize + x as usize) * 4;
        let pixel = image.rgba().get(place..place + 3);
        pixel.is_some_and(|pixel| {
            pixel
                .iter()
                .zip(CHIP)
                .all(|(is, wanted)| is.abs_diff(wanted) < LOSS)
        })
    };
    let (right, low) = (chip.left + chip.width - 2, chip.top + chip.height - 2);
    let corners = [
        (chip.left + 1, chip.top + 1),
        (right, chip.top + 1),
        (chip.left + 1, low),
        (right, low),
    ];
    let has_one = corners.into_iter().all(|(x, y)| is_chip(x, y));
    has_one.then(|| Dimensions::new(size.width, foot.top))
}

/// Draws the banner along the bottom of an image.
pub(super) fn write(image: &mut Image, words: &str, number: Option<(u32, u32)>, opacity: f32) {
    let size = image.size();
    let scale = scale_of(size.width, size.height);
    let pad = scale * 3;
    let (foot, chip) = layout(size);
    let bar = foot.height;
    fill(image, foot, SHADE, opacity);
    fill(image, chip, CHIP, 1.0);
    letter_by_letter(image, MARK, chip.left + pad, chip.top + pad, scale, INK);
    let small = (scale * 2 / 3).max(1);
    let left = chip.left + chip.width + 2 * pad;
    let available_width = size.width.saturating_sub(left + pad);
    let top = foot.top + (bar.saturating_sub(HIGH * small)) / 2;
    letter_by_letter(
        image,
        &fitting(words, available_width, small),
        left,
        top,
        small,
        PAPER,
    );
    if let Some((number, count)) = number {
        badge(image, &format!("{number}/{count}"), scale);
    }
}

/// Draws the position in an image set in the upper right corner.
fn badge(image: &mut Image, text: &str, scale: u32) {
    let (size, pad) = (image.size(), scale * 3);
    let width = width_of(text.chars().count(), scale) + 2 * pad;
    let area = Area {
        left: size.width.saturating_sub(width + pad),
        top: pad,
        width,
        height: HIGH * scale + 2 * pad,
    };
    fill(image, area, SHADE, OPACITY);
    letter_by_letter(image, text, area.left + pad, area.top + pad, scale, PAPER);
}

/// Returns the side of a letter's dot, in pixels: about 1/300 of the image's shorter side, limited
/// so that the mark fits into the width, and at least 1.
fn scale_of(width: u32, height: u32) -> u32 {
    let by_side = (width.min(height) as f32 / 300.0).round() as u32;
    let fits = width / (width_of(MARK.chars().count(), 1) + 12);
    by_side.min(fits).max(1)
}

fn width_of(letters: usize, scale: u32) -> u32 {
    let letters = u32::try_from(letters).unwrap_or(u32::MAX);
    letters.saturating_mul((WIDE + 1) * scale).saturating_sub(scale)
}

/// Returns the first words that fit into the width, with drawable characters only. An ellipsis
/// marks omitted words if it fits into the width.
fn fitting(words: &str, available_width: u32, scale: u32) -> String {
    let legible: String = words
        .chars()
        .filter(|c| c.is_whitespace() || rows(*c).is_some())
        .collect();
    let max_letters = ((available_width + scale) / ((WIDE + 1) * scale)) as usize;
    let mut line = String::new();
    for word in legible.split_whitespace() {
        let longer = match line.is_empty() {
            true => word.to_owned(),
            false => format!("{line} {word}"),
        };
        if longer.chars().count() > max_letters {
            let has_space = !line.is_empty() && line.chars().count() < max_letters;
            return if has_space { line + "…" } else { line };
        }
        line = longer;
    }
    line
}

fn letter_by_letter(image: &mut Image, text: &str, left: u32, top: u32, scale: u32, colour: [u8; 3]) {
    for (place, character) in (0_u32..).zip(text.chars()) {
        let at = left + place * (WIDE + 1) * scale;
        for (row, bits) in (0_u32..).zip(rows(character).into_iter().flatten()) {
            for column in (0..WIDE).filter(|column| bits >> (WIDE - 1 - column) & 1 == 1) {
                let dot = Area {
                    left: at + column * scale,
                    top: top + row * scale,
                    width: scale,
                    height: scale,
                };
                fill(image, dot, colour, 1.0);
            }
        }
    }
}

/// Fills a rectangle, clipped to the image.
fn fill(image: &mut Image, area: Area, colour: [u8; 3], opacity: f32) {
    let width = image.size().width as usize;
    let rows = image.rgba_mut().chunks_exact_mut(width * 4);
    for row in rows.skip(area.top as usize).take(area.height as usize) {
        let pixels = row.chunks_exact_mut(4);
        for pixel in pixels.skip(area.left as usize).take(area.width as usize) {
            let [red, green, blue, cover] = pixel else {
                continue;
            };
            let behind = f32::from(*cover) / 255.0 * (1.0 - opacity);
            let whole = (opacity + behind).max(f32::EPSILON);
            for (under, over) in [red, green, blue].into_iter().zip(colour) {
                let mixed = (f32::from(over) * opacity + f32::from(*under) * behind) / whole;
                *under = (mixed + 0.5) as u8;
            }
            *cover = (whole.min(1.0) * 255.0 + 0.5) as u8;
        }
    }
}
