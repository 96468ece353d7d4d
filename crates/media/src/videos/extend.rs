//! Size of extended videos: the size and aspect ratio of the source, or the nearest values that the
//! model supports.

use tollgate_catalog::MediaEntry;
use tollgate_catalog::media::{Resolution, parse_ratio, pixels, resolution, size_of};
use tollgate_types::{Error, ErrorCode};

use super::generator::Params;
use super::service::{even, ratio_of};
use crate::sizes::{SizeParams, nearest_ratio};

/// Divisor of the tolerance between sizes: two sizes match if their pixel counts differ by at most
/// a tenth, because providers round sides to different multiples.
const SIZE_TOLERANCE_DIVISOR: u64 = 10;
/// Maximum difference between the natural logarithms of two aspect ratios that match.
const MAX_SHAPE_DIFFERENCE: f64 = 0.03;
/// Both sides of a video are multiples of this number of pixels.
const SIDE_MULTIPLE: u32 = 2;

/// Sets the size, aspect ratio and resolution of the params to those of the source video, or to the
/// nearest values that the model supports. If the request has an explicit size, the params keep
/// their size and resolution. Returns an error if the request has conflicting size parameters.
pub(super) fn apply_source_size(
    params: &mut Params,
    entry: &MediaEntry,
    requested: &SizeParams,
    source_size: (u32, u32),
) -> Result<(), Error> {
    let [size, ratio, step] = [&requested.size, &requested.aspect_ratio, &requested.resolution]
        .map(|requested| requested.as_deref().filter(|requested| *requested != "auto"));
    let own_ratio =
        nearest_ratio(&entry.aspect_ratios, source_size).map_or_else(|| ratio_of(source_size), String::clone);
    let ratio = match ratio {
        Some(requested_value) if requested_value != own_ratio && !has_shape(requested_value, source_size) => {
            return Err(size_conflict(
                "aspect_ratio",
                requested_value,
                source_size,
                &own_ratio,
            ));
        }
        Some(requested_value) => requested_value.to_owned(),
        None => own_ratio,
    };
    let own_step = step_of(entry, source_size);
    let step = match step {
        Some(requested_value) if requested_value != own_step && !is_about(requested_value, source_size) => {
            return Err(size_conflict(
                "resolution",
                requested_value,
                source_size,
                &own_step,
            ));
        }
        Some(requested_value) => requested_value.to_owned(),
        None => own_step,
    };
    let own_size = size_for(entry, source_size, &ratio, &step);
    match size.map(|requested_value| (requested_value, pixels(requested_value))) {
        None => {
            params.size = own_size;
            params.resolution = step;
        }
        // `params` already have this size and its resolution, which determines the price.
        Some((_, requested_value))
            if requested_value == Some(source_size) || requested_value == Some(own_size) => {}
        Some((requested_value, _)) => return Err(size_conflict("size", requested_value, source_size, &step)),
    }
    params.aspect_ratio = ratio;
    params.before_size = Some(source_size);
    Ok(())
}

fn size_conflict(name: &str, requested_value: &str, (width, height): (u32, u32), own: &str) -> Error {
    let message = format!(
        "'{name}' is '{requested_value}', but an extended video keeps the size of its source, which is {width}x{height} \
         ({own}). Remove '{name}'."
    );
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param(name)
}

fn has_shape(ratio: &str, source_size: (u32, u32)) -> bool {
    let log = |(width, height): (u32, u32)| (f64::from(width) / f64::from(height.max(1))).ln();
    parse_ratio(ratio).is_some_and(|ratio| (log(ratio) - log(source_size)).abs() <= MAX_SHAPE_DIFFERENCE)
}

fn is_about(step: &str, source_size: (u32, u32)) -> bool {
    let (requested_value, own) = (
        pixels_of(step, source_size).unwrap_or_default(),
        area(source_size),
    );
    requested_value <= own + own / SIZE_TOLERANCE_DIVISOR
        && own <= requested_value + requested_value / SIZE_TOLERANCE_DIVISOR
}

/// Returns the smallest resolution that is not smaller than the source, with a tolerance of 10 %,
/// or else the largest resolution. For models that list no resolutions, returns the shorter side of
/// the source, such as `704p`.
fn step_of(entry: &MediaEntry, source_size: (u32, u32)) -> String {
    let of_step = |name: &String| Some((pixels_of(name, source_size)?, name.clone()));
    let mut steps: Vec<(u64, String)> = entry.resolutions.iter().filter_map(of_step).collect();
    steps.sort();
    let is_enough =
        |(pixels, _): &(u64, String)| area(source_size) <= pixels + pixels / SIZE_TOLERANCE_DIVISOR;
    let fitting = steps.iter().position(is_enough);
    match fitting.or(steps.len().checked_sub(1)) {
        Some(place) => steps.swap_remove(place).1,
        None => format!("{}p", source_size.0.min(source_size.1)),
    }
}

/// Returns the size of the generated part. If the model lists sizes, considers those with the
/// aspect ratio nearest to the source: the smallest that has at least the source's pixels, or else
/// the largest. If the model lists only `step`, returns the size of `step` in `ratio`. Otherwise,
/// returns the size of the source.
fn size_for(entry: &MediaEntry, source_size: (u32, u32), ratio: &str, step: &str) -> (u32, u32) {
    let shape = |(width, height): (u32, u32)| (f64::from(width) / f64::from(height.max(1))).ln();
    let far = |size: &(u32, u32)| (shape(*size) - shape(source_size)).abs();
    let mut sizes: Vec<(u32, u32)> = entry.sizes.iter().filter_map(|text| pixels(text)).collect();
    if let Some(min_difference) = sizes.iter().map(far).min_by(f64::total_cmp) {
        sizes.retain(|size| far(size) <= min_difference);
        sizes.sort_by_key(|size| area(*size));
        let fitting = sizes.iter().find(|size| area(**size) >= area(source_size));
        return *fitting.or(sizes.last()).unwrap_or(&source_size);
    }
    let of_model = entry.resolutions.iter().any(|known| known == step);
    let listed = resolution(step).filter(|_| of_model).zip(parse_ratio(ratio));
    even(listed.map_or(source_size, |(step, ratio)| size_of(step, ratio, SIDE_MULTIPLE)))
}

/// Returns the number of pixels of a resolution in the aspect ratio of the source.
fn pixels_of(step: &str, source_size: (u32, u32)) -> Option<u64> {
    Some(area(match resolution(step)? {
        Resolution::Exact(width, height) => (width, height),
        step => size_of(step, source_size, SIDE_MULTIPLE),
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

    /// Returns size, aspect ratio and resolution of the params, or the parameter of the error.
    fn requested_value(limits: &str, requested: &Value, source_size: (u32, u32)) -> Result<Value, String> {
        let entry: MediaEntry = toml::from_str(limits).unwrap();
        let mut params: Params = serde_json::from_value(json!({"task": "extend", "mode": null, "prompt": "", "audio": false,
            "duration": {"secs": 1, "nanos": 0}, "size": [2, 2], "aspect_ratio": "2:1", "resolution": "said", "seed": null,
            "each": 1}))
        .unwrap();
        let text = |name: &str| requested[name].as_str().map(str::to_owned);
        let requested = SizeParams {
            size: text("size"),
            aspect_ratio: text("aspect_ratio"),
            resolution: text("resolution"),
        };
        apply_source_size(&mut params, &entry, &requested, source_size).map_err(|error| {
            assert_eq!(error.code, ErrorCode::ParameterOutOfRange);
            error.param.unwrap_or_default().to_string()
        })?;
        assert_eq!(params.before_size, Some(source_size));
        Ok(json!([params.size, params.aspect_ratio, params.resolution]))
    }

    #[test]
    fn extended_videos_have_the_size_of_their_source() {
        for (limits, requested, source_size, expected) in [
            (STEPS, json!({}), (640, 360), json!([[640, 360], "16:9", "360p"])),
            (STEPS, json!({}), (360, 640), json!([[360, 640], "9:16", "360p"])),
            (STEPS, json!({}), (480, 480), json!([[480, 480], "1:1", "480p"])),
            (
                STEPS,
                json!({}),
                (1_280, 704),
                json!([[1_280, 720], "16:9", "720p"]),
            ),
            // The size is between two resolutions, below all, or above all.
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
            // An explicit size keeps the resolution and the price of the params.
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
                requested_value(limits, &requested, source_size),
                Ok(expected),
                "{limits} {requested} {source_size:?}"
            );
        }
    }

    #[test]
    fn conflicting_sizes_are_rejected() {
        for (limits, requested, source_size) in [
            (STEPS, json!({"resolution": "720p"}), (640, 360)),
            (STEPS, json!({"resolution": "360p"}), (1_280, 720)),
            (STEPS, json!({"aspect_ratio": "9:16"}), (640, 360)),
            (STEPS, json!({"aspect_ratio": "1:1"}), (640, 360)),
            (STEPS, json!({"size": "1280x720"}), (640, 360)),
            (SIZES, json!({"size": "1920x1080"}), (1_280, 720)),
            ("", json!({"resolution": "720p"}), (640, 360)),
            ("", json!({"aspect_ratio": "4:3"}), (640, 360)),
        ] {
            let name = requested.as_object().unwrap().keys().next().unwrap().clone();
            assert_eq!(
                requested_value(limits, &requested, source_size),
                Err(name),
                "{limits} {requested} {source_size:?}"
            );
        }
    }
}
