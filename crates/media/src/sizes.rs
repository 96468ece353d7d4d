//! Resolves the size parameters of a request to pixels, within the limits of the model.

use std::sync::Arc;

use tollgate_catalog::media::{MediaEntry, Resolution, parse_ratio, pixels, resolution, size_of};
use tollgate_edge::members::{beyond, invalid};
use tollgate_types::Error;
use tollgate_upstream::Size;

/// Size parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SizeParams {
    pub(crate) size: Option<String>,
    pub(crate) aspect_ratio: Option<String>,
    pub(crate) resolution: Option<String>,
}

/// Size parameters, resolved for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Dimensions in pixels; `None` if the model chooses them.
    pub(crate) size: Option<Size>,
    /// Aspect ratio from the request, the model or the [`SizeDefaults`]. `None` for an explicit
    /// size, or if none of them sets one.
    pub(crate) aspect_ratio: Option<Arc<str>>,
    /// Resolution, which determines the price factor. For an explicit size, the resolution at whose
    /// price the size is billed; `None` if the model lists no resolutions.
    pub(crate) resolution: Option<Arc<str>>,
}

/// Values for parameters that neither the request nor the model sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeDefaults {
    /// Both sides of a computed size are multiples of this number of pixels.
    pub(crate) grain: u32,
    /// Resolution if neither the request nor the model sets one.
    pub(crate) resolution: Option<&'static str>,
    /// Aspect ratio if the request sets none and the model lists neither aspect ratios nor sizes.
    pub(crate) ratio: Option<&'static str>,
}

impl SizeParams {
    /// Checks the format of the size parameters, independently of the model.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(size) = self.size.as_deref().filter(|size| *size != "auto") {
            pixels(size).ok_or_else(|| {
                invalid(
                    "size",
                    "must be \"auto\" or pixels such as \"1024x1536\", each side 16 to 16384",
                )
            })?;
            for (name, requested) in [
                ("aspect_ratio", &self.aspect_ratio),
                ("resolution", &self.resolution),
            ] {
                if requested.is_some() {
                    return Err(invalid(name, "cannot be combined with 'size'"));
                }
            }
        }
        if let Some(ratio) = self.aspect_ratio.as_deref().filter(|ratio| *ratio != "auto") {
            parse_ratio(ratio)
                .ok_or_else(|| invalid("aspect_ratio", "must be \"auto\" or a ratio such as \"16:9\""))?;
        }
        if let Some(step) = self.resolution.as_deref().filter(|step| *step != "auto") {
            let message = "must be \"auto\" or a resolution such as \"1k\", \"2k\", \"720p\" or \"1080p\"";
            resolution(step).ok_or_else(|| invalid("resolution", message))?;
        }
        Ok(())
    }

    /// Resolves the parameters for a model. Returns an error if the model does not support them.
    pub(crate) fn resolve(&self, model: &MediaEntry, defaults: SizeDefaults) -> Result<Resolved, Error> {
        let requested = |text: &Option<String>| text.clone().filter(|text| text != "auto");
        if let Some(size) = requested(&self.size) {
            return exact(&size, model);
        }
        let first = |list: &[String]| list.first().cloned();
        let ratio = requested(&self.aspect_ratio).or_else(|| first(&model.aspect_ratios));
        let ratio = match model.sizes.is_empty() {
            true => ratio.or_else(|| defaults.ratio.map(str::to_owned)),
            false => ratio,
        };
        let step = requested(&self.resolution).or_else(|| first(&model.resolutions));
        let step = step.or_else(|| defaults.resolution.map(str::to_owned));
        for (name, requested, known) in [
            ("aspect_ratio", &ratio, &model.aspect_ratios),
            ("resolution", &step, &model.resolutions),
        ] {
            if requested
                .as_ref()
                .is_some_and(|requested| !known.is_empty() && !known.contains(requested))
            {
                return Err(beyond(
                    name,
                    &format!("must be one of the model's values: {}", known.join(", ")),
                ));
            }
        }
        let shape = ratio.as_deref().and_then(parse_ratio);
        let size = match (step.as_deref().and_then(resolution), shape) {
            (Some(Resolution::Exact(width, height)), _) => Some(Size { width, height }),
            (Some(step), shape) if model.sizes.is_empty() => {
                let (width, height) = size_of(step, shape.unwrap_or((1, 1)), defaults.grain);
                Some(Size { width, height })
            }
            (_, Some(shape)) if !model.sizes.is_empty() => nearest(shape, &model.sizes),
            (_, None) if self.aspect_ratio.is_none() => first(&model.sizes).as_deref().and_then(size),
            _ => None,
        };
        Ok(Resolved {
            size,
            aspect_ratio: ratio.map(Arc::from),
            resolution: step.map(Arc::from),
        })
    }
}

fn size(text: &str) -> Option<Size> {
    pixels(text).map(|(width, height)| Size { width, height })
}

/// Resolves an explicit size. The price is that of the smallest resolution whose 16:9 pixel count
/// the size exceeds by at most 10 %. Returns an error if the size exceeds all resolutions of the
/// model by more than 10 %, or is not one of the sizes that the model lists.
fn exact(text: &str, model: &MediaEntry) -> Result<Resolved, Error> {
    if !model.sizes.is_empty() && !model.sizes.iter().any(|known| known == text) {
        return Err(beyond(
            "size",
            &format!("must be one of the model's values: {}", model.sizes.join(", ")),
        ));
    }
    let wanted = size(text);
    let requested_pixels = wanted.map_or(0, Size::pixels);
    let of_step = |name: &String| {
        let (width, height) = size_of(resolution(name)?, (16, 9), 1);
        Some((Size { width, height }.pixels(), name.clone()))
    };
    let mut steps: Vec<(u64, String)> = model.resolutions.iter().filter_map(of_step).collect();
    steps.sort();
    // The pixel counts of one resolution differ slightly between aspect ratios, so the comparison
    // has a tolerance.
    let fits = |(pixels, _): &&(u64, String)| requested_pixels <= pixels + pixels / 10;
    let step = match (steps.iter().find(fits), steps.is_empty()) {
        (Some((_, name)), _) => Some(Arc::from(name.as_str())),
        (None, true) => None,
        (None, false) => {
            let what = format!(
                "exceeds all resolutions of the model: {}",
                model.resolutions.join(", ")
            );
            return Err(beyond("size", &what));
        }
    };
    Ok(Resolved {
        size: wanted,
        aspect_ratio: None,
        resolution: step,
    })
}

/// Returns the size whose aspect ratio is nearest to that of `shape`, which is width and height.
fn nearest(shape: (u32, u32), sizes: &[String]) -> Option<Size> {
    let sizes = sizes.iter().filter_map(|text| size(text));
    nearest_of(shape, sizes, |size| (size.width, size.height))
}

/// Returns the aspect ratio nearest to that of `shape`, which is width and height.
pub(crate) fn nearest_ratio(ratios: &[String], shape: (u32, u32)) -> Option<&String> {
    let shapes = ratios.iter().filter_map(|text| Some((text, parse_ratio(text)?)));
    nearest_of(shape, shapes, |(_, ratio)| *ratio).map(|(text, _)| text)
}

fn nearest_of<T>(
    shape: (u32, u32),
    among: impl Iterator<Item = T>,
    shape_of: impl Fn(&T) -> (u32, u32),
) -> Option<T> {
    let log = |(width, height): (u32, u32)| (f64::from(width) / f64::from(height.max(1))).ln();
    let wanted = log(shape);
    let far = |one: &T| (log(shape_of(one)) - wanted).abs();
    among.min_by(|one, other| far(one).total_cmp(&far(other)))
}

#[cfg(test)]
mod tests {
    use tollgate_types::ErrorCode;

    use super::*;

    const IMAGE_DEFAULTS: SizeDefaults = SizeDefaults {
        grain: 16,
        resolution: None,
        ratio: None,
    };

    fn requested(size: &str, aspect_ratio: &str, resolution: &str) -> SizeParams {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        SizeParams {
            size: some(size),
            aspect_ratio: some(aspect_ratio),
            resolution: some(resolution),
        }
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn sizes_follow_from_request_and_model() {
        let with_steps = MediaEntry {
            resolutions: texts(&["1k", "2k"]),
            aspect_ratios: texts(&["1:1", "16:9"]),
            ..MediaEntry::default()
        };
        let listed = MediaEntry {
            sizes: texts(&["1024x1024", "1536x1024", "1024x1536"]),
            ..MediaEntry::default()
        };
        let unknown = MediaEntry::default();
        for (model, requested, size, step) in [
            (
                &with_steps,
                requested("", "", ""),
                Some((1_024, 1_024)),
                Some("1k"),
            ),
            (
                &with_steps,
                requested("auto", "auto", "auto"),
                Some((1_024, 1_024)),
                Some("1k"),
            ),
            (
                &with_steps,
                requested("", "16:9", "2k"),
                Some((2_736, 1_536)),
                Some("2k"),
            ),
            (
                &with_steps,
                requested("1000x1000", "", ""),
                Some((1_000, 1_000)),
                Some("1k"),
            ),
            (
                &with_steps,
                requested("1500x1000", "", ""),
                Some((1_500, 1_000)),
                Some("2k"),
            ),
            (&listed, requested("", "", ""), Some((1_024, 1_024)), None),
            (&listed, requested("", "16:9", ""), Some((1_536, 1_024)), None),
            (&listed, requested("", "9:16", ""), Some((1_024, 1_536)), None),
            (
                &listed,
                requested("1024x1536", "", ""),
                Some((1_024, 1_536)),
                None,
            ),
            (&unknown, requested("", "", ""), None, None),
            (&unknown, requested("", "16:9", ""), None, None),
            (
                &unknown,
                requested("", "16:9", "1k"),
                Some((1_360, 768)),
                Some("1k"),
            ),
            (&unknown, requested("640x480", "", ""), Some((640, 480)), None),
        ] {
            let resolved = requested.resolve(model, IMAGE_DEFAULTS).unwrap();
            let found = resolved.size.map(|size| (size.width, size.height));
            assert_eq!(
                (found, resolved.resolution.as_deref()),
                (size, step),
                "{requested:?}"
            );
        }
        for (model, requested, param) in [
            (&with_steps, requested("", "4:3", ""), "aspect_ratio"),
            (&with_steps, requested("", "", "4k"), "resolution"),
            (&with_steps, requested("4096x4096", "", ""), "size"),
            (&listed, requested("512x512", "", ""), "size"),
        ] {
            let error = requested.resolve(model, IMAGE_DEFAULTS).unwrap_err();
            assert_eq!(error.code, ErrorCode::ParameterOutOfRange, "{requested:?}");
            assert_eq!(error.param.as_deref(), Some(param), "{requested:?}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected_for_every_model() {
        for (requested, param) in [
            (requested("big", "", ""), "size"),
            (requested("15x1024", "", ""), "size"),
            (requested("1024x1024", "1:1", ""), "aspect_ratio"),
            (requested("1024x1024", "", "1k"), "resolution"),
            (requested("", "wide", ""), "aspect_ratio"),
            (requested("", "", "huge"), "resolution"),
        ] {
            let error = requested.check().unwrap_err();
            assert_eq!(
                (error.code, error.param.as_deref()),
                (ErrorCode::InvalidParameter, Some(param)),
                "{requested:?}"
            );
        }
        requested("auto", "16:9", "2k").check().unwrap();
    }
}
