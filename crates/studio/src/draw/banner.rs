//! Writing on a picture: that it is simulated, what was asked for, and which of a set it is.

use crate::picture::Picture;

use super::letters::{HIGH, WIDE, rows};

/// What stands on every picture.
const MARK: &str = "SIMULATED";
/// Behind the mark, and the mark.
const CHIP: [u8; 3] = [0xFF, 0xB8, 0x2E];
const INK: [u8; 3] = [0x1A, 0x14, 0x10];
const PAPER: [u8; 3] = [0xFF, 0xFF, 0xFF];
/// Behind what is written.
const SHADE: [u8; 3] = [0x08, 0x0A, 0x12];

/// A rectangle in pixels.
#[derive(Clone, Copy)]
struct Area {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

/// Writes the banner along the foot of a picture.
pub(super) fn write(picture: &mut Picture, words: &str, number: Option<(u32, u32)>) {
    let size = picture.size();
    let scale = scale_of(size.width, size.height);
    let pad = scale * 3;
    let bar = (HIGH * scale + 4 * pad).min(size.height);
    let foot = Area {
        left: 0,
        top: size.height - bar,
        width: size.width,
        height: bar,
    };
    fill(picture, foot, SHADE, 0.62);
    let chip = Area {
        left: pad.min(size.width / 20),
        top: foot.top + pad,
        width: (width_of(MARK.chars().count(), scale) + 2 * pad).min(size.width),
        height: bar.saturating_sub(2 * pad),
    };
    fill(picture, chip, CHIP, 1.0);
    letter_by_letter(picture, MARK, chip.left + pad, chip.top + pad, scale, INK);
    let small = (scale * 2 / 3).max(1);
    let left = chip.left + chip.width + 2 * pad;
    let room = size.width.saturating_sub(left + pad);
    let top = foot.top + (bar.saturating_sub(HIGH * small)) / 2;
    letter_by_letter(picture, &fitting(words, room, small), left, top, small, PAPER);
    if let Some((number, count)) = number {
        badge(picture, &format!("{number}/{count}"), scale);
    }
}

/// Which of a set it is, in the upper right corner.
fn badge(picture: &mut Picture, text: &str, scale: u32) {
    let (size, pad) = (picture.size(), scale * 3);
    let width = width_of(text.chars().count(), scale) + 2 * pad;
    let area = Area {
        left: size.width.saturating_sub(width + pad),
        top: pad,
        width,
        height: HIGH * scale + 2 * pad,
    };
    fill(picture, area, SHADE, 0.62);
    letter_by_letter(picture, text, area.left + pad, area.top + pad, scale, PAPER);
}

/// How large a letter's dots are: the mark is legible, and fits.
fn scale_of(width: u32, height: u32) -> u32 {
    let by_side = (width.min(height) as f32 / 300.0).round() as u32;
    let fits = width / (width_of(MARK.chars().count(), 1) + 12);
    by_side.min(fits).max(1)
}

fn width_of(letters: usize, scale: u32) -> u32 {
    let letters = u32::try_from(letters).unwrap_or(u32::MAX);
    letters.saturating_mul((WIDE + 1) * scale).saturating_sub(scale)
}

/// The first words that fit, of the letters there are.
fn fitting(words: &str, room: u32, scale: u32) -> String {
    let legible: String = words
        .chars()
        .filter(|c| c.is_whitespace() || rows(*c).is_some())
        .collect();
    let most = ((room + scale) / ((WIDE + 1) * scale)) as usize;
    let mut line = String::new();
    for word in legible.split_whitespace() {
        let longer = match line.is_empty() {
            true => word.to_owned(),
            false => format!("{line} {word}"),
        };
        if longer.chars().count() > most {
            let can_say_so = !line.is_empty() && line.chars().count() < most;
            return if can_say_so { line + "…" } else { line };
        }
        line = longer;
    }
    line
}

fn letter_by_letter(picture: &mut Picture, text: &str, left: u32, top: u32, scale: u32, colour: [u8; 3]) {
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
                fill(picture, dot, colour, 1.0);
            }
        }
    }
}

/// Lays a colour over a rectangle; what is outside of the picture is left out.
fn fill(picture: &mut Picture, area: Area, colour: [u8; 3], opacity: f32) {
    let width = picture.size().width as usize;
    let rows = picture.rgba_mut().chunks_exact_mut(width * 4);
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
