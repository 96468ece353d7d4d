//! What a film that goes on with another is asked for in: that one's size and ratio, as near as the model has them.

use tollgate_catalog::MediaEntry;
use tollgate_catalog::media::{Resolution, parse_ratio, pixels, resolution, size_of};
use tollgate_types::{Error, ErrorCode};

use super::craft::Wish;
use super::service::{even, ratio_of};
use crate::sizes::{Said, nearest_ratio};

/// A film of about the size of another has at most a tenth more or less pixels: makers round sides, each to its own multiple.
const TENTHS: u64 = 10;
/// How much the shapes of two ratios differ at most that are one ratio, by the logarithm.
const SAME_SHAPE: f64 = 0.03;
/// Films have even sides.
const GRAIN: u32 = 2;

/// Makes the wish one for a film like this one. What the caller asks for must be what that film has.
pub(super) fn alike(wish: &mut Wish, entry: &MediaEntry, said: &Said, film: (u32, u32)) -> Result<(), Error> {
    let [size, ratio, step] = [&said.size, &said.aspect_ratio, &said.resolution]
        .map(|said| said.as_deref().filter(|said| *said != "auto"));
    let own_ratio = nearest_ratio(&entry.aspect_ratios, film).map_or_else(|| ratio_of(film), String::clone);
    let ratio = match ratio {
        Some(asked) if asked != own_ratio && !has_shape(asked, film) => {
            return Err(another("aspect_ratio", asked, film, &own_ratio));
        }
        Some(asked) => asked.to_owned(),
        None => own_ratio,
    };
    let own_step = step_of(entry, film);
    let step = match step {
        Some(asked) if asked != own_step && !is_about(asked, film) => {
            return Err(another("resolution", asked, film, &own_step));
        }
        Some(asked) => asked.to_owned(),
        None => own_step,
    };
    let own_size = size_for(entry, film, &ratio, &step);
    match size.map(|asked| (asked, pixels(asked))) {
        None => {
            wish.size = own_size;
            wish.resolution = step;
        }
        // It costs what this size costs without a film before it.
        Some((_, asked)) if asked == Some(film) || asked == Some(own_size) => {}
        Some((asked, _)) => return Err(another("size", asked, film, &step)),
    }
    wish.aspect_ratio = ratio;
    wish.before_size = Some(film);
    Ok(())
}

fn another(name: &str, asked: &str, (width, height): (u32, u32), own: &str) -> Error {
    let message = format!(
        "'{name}' is '{asked}', and a film that goes on with another keeps that one's size, which is {width}x{height} \
         ({own}). Leave '{name}' out."
    );
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param(name)
}

fn has_shape(ratio: &str, film: (u32, u32)) -> bool {
    let log = |(width, height): (u32, u32)| (f64::from(width) / f64::from(height.max(1))).ln();
    parse_ratio(ratio).is_some_and(|ratio| (log(ratio) - log(film)).abs() <= SAME_SHAPE)
}

fn is_about(step: &str, film: (u32, u32)) -> bool {
    let (asked, own) = (pixels_of(step, film).unwrap_or_default(), area(film));
    asked <= own + own / TENTHS && own <= asked + asked / TENTHS
}

/// The first step of size that is not smaller than the film, or else the largest; what a film of this size is called where the
/// model lists none.
fn step_of(entry: &MediaEntry, film: (u32, u32)) -> String {
    let of_step = |name: &String| Some((pixels_of(name, film)?, name.clone()));
    let mut steps: Vec<(u64, String)> = entry.resolutions.iter().filter_map(of_step).collect();
    steps.sort();
    let is_enough = |(pixels, _): &(u64, String)| area(film) <= pixels + pixels / TENTHS;
    let fitting = steps.iter().position(is_enough);
    match fitting.or(steps.len().checked_sub(1)) {
        Some(place) => steps.swap_remove(place).1,
        None => format!("{}p", film.0.min(film.1)),
    }
}

/// What the new part is asked for in: one of the model's sizes, else its step in its ratio, else the size of the film.
fn size_for(entry: &MediaEntry, film: (u32, u32), ratio: &str, step: &str) -> (u32, u32) {
    let shape = |(width, height): (u32, u32)| (f64::from(width) / f64::from(height.max(1))).ln();
    let far = |size: &(u32, u32)| (shape(*size) - shape(film)).abs();
    let mut sizes: Vec<(u32, u32)> = entry.sizes.iter().filter_map(|text| pixels(text)).collect();
    if let Some(least) = sizes.iter().map(far).min_by(f64::total_cmp) {
        sizes.retain(|size| far(size) <= least);
        sizes.sort_by_key(|size| area(*size));
        let fitting = sizes.iter().find(|size| area(**size) >= area(film));
        return *fitting.or(sizes.last()).unwrap_or(&film);
    }
    let of_model = entry.resolutions.iter().any(|known| known == step);
    let listed = resolution(step).filter(|_| of_model).zip(parse_ratio(ratio));
    even(listed.map_or(film, |(step, ratio)| size_of(step, ratio, GRAIN)))
}

/// How many pixels a step of size has in the shape of the film.
fn pixels_of(step: &str, film: (u32, u32)) -> Option<u64> {
    Some(area(match resolution(step)? {
        Resolution::Exact(width, height) => (width, height),
        step => size_of(step, film, GRAIN),
    }))
}

pub(super) fn area((width, height): (u32, u32)) -> u64 {
    u64::from(width) * u64::from(height)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const STEPS: &str =
        "resolutions = [\"480p\", \"360p\", \"720p\"]\naspect_ratios = [\"16:9\", \"9:16\", \"1:1\"]";
    const SIZES: &str = "sizes = [\"1280x720\", \"720x1280\", \"1920x1080\"]";

    /// The size, the ratio and the step that are asked for; the parameter where it is refused.
    fn asked(limits: &str, said: &Value, film: (u32, u32)) -> Result<Value, String> {
        let entry: MediaEntry = toml::from_str(limits).unwrap();
        let mut wish: Wish = serde_json::from_value(json!({"task": "extend", "mode": null, "prompt": "", "audio": false,
            "duration": {"secs": 1, "nanos": 0}, "size": [2, 2], "aspect_ratio": "2:1", "resolution": "said", "seed": null,
            "each": 1}))
        .unwrap();
        let text = |name: &str| said[name].as_str().map(str::to_owned);
        let said = Said {
            size: text("size"),
            aspect_ratio: text("aspect_ratio"),
            resolution: text("resolution"),
        };
        alike(&mut wish, &entry, &said, film).map_err(|error| {
            assert_eq!(error.code, ErrorCode::ParameterOutOfRange);
            error.param.unwrap_or_default().to_string()
        })?;
        assert_eq!(wish.before_size, Some(film));
        Ok(json!([wish.size, wish.aspect_ratio, wish.resolution]))
    }

    #[test]
    fn it_has_the_size_of_the_film_before_it() {
        for (limits, said, film, expected) in [
            (STEPS, json!({}), (640, 360), json!([[640, 360], "16:9", "360p"])),
            (STEPS, json!({}), (360, 640), json!([[360, 640], "9:16", "360p"])),
            (STEPS, json!({}), (480, 480), json!([[480, 480], "1:1", "480p"])),
            (
                STEPS,
                json!({}),
                (1_280, 704),
                json!([[1_280, 720], "16:9", "720p"]),
            ),
            // Between two steps, below all, above all.
            (
                STEPS,
                json!({}),
                (1_000, 600),
                json!([[1_280, 720], "16:9", "720p"]),
            ),
            (STEPS, json!({}), (320, 180), json!([[640, 360], "16:9", "360p"])),
            (
                STEPS,
                json!({}),
                (1_920, 1_080),
                json!([[1_280, 720], "16:9", "720p"]),
            ),
            (
                STEPS,
                json!({"resolution": "360p", "aspect_ratio": "16:9"}),
                (640, 360),
                json!([[640, 360], "16:9", "360p"]),
            ),
            (
                STEPS,
                json!({"resolution": "auto", "aspect_ratio": "auto"}),
                (640, 360),
                json!([[640, 360], "16:9", "360p"]),
            ),
            // What a size costs is known already.
            (
                STEPS,
                json!({"size": "640x360"}),
                (640, 360),
                json!([[2, 2], "16:9", "said"]),
            ),
            (
                SIZES,
                json!({}),
                (1_280, 704),
                json!([[1_280, 720], "20:11", "704p"]),
            ),
            (
                SIZES,
                json!({}),
                (1_920, 1_080),
                json!([[1_920, 1_080], "16:9", "1080p"]),
            ),
            (
                SIZES,
                json!({}),
                (360, 640),
                json!([[720, 1_280], "9:16", "360p"]),
            ),
            (
                SIZES,
                json!({"size": "1280x720"}),
                (1_280, 704),
                json!([[2, 2], "20:11", "said"]),
            ),
            ("", json!({}), (640, 360), json!([[640, 360], "16:9", "360p"])),
            (
                "",
                json!({"resolution": "720p"}),
                (1_280, 704),
                json!([[1_280, 704], "20:11", "720p"]),
            ),
        ] {
            assert_eq!(
                asked(limits, &said, film),
                Ok(expected),
                "{limits} {said} {film:?}"
            );
        }
    }

    #[test]
    fn nothing_else_can_be_asked_for() {
        for (limits, said, film) in [
            (STEPS, json!({"resolution": "720p"}), (640, 360)),
            (STEPS, json!({"resolution": "360p"}), (1_280, 720)),
            (STEPS, json!({"aspect_ratio": "9:16"}), (640, 360)),
            (STEPS, json!({"aspect_ratio": "1:1"}), (640, 360)),
            (STEPS, json!({"size": "1280x720"}), (640, 360)),
            (SIZES, json!({"size": "1920x1080"}), (1_280, 720)),
            ("", json!({"resolution": "720p"}), (640, 360)),
            ("", json!({"aspect_ratio": "4:3"}), (640, 360)),
        ] {
            let name = said.as_object().unwrap().keys().next().unwrap().clone();
            assert_eq!(asked(limits, &said, film), Err(name), "{limits} {said} {film:?}");
        }
    }
}
