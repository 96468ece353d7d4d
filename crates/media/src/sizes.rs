//! From what a caller says of size to pixels, within what the model can do.

use std::sync::Arc;

use tollgate_catalog::media::{MediaEntry, Resolution, parse_ratio, pixels, resolution, size_of};
use tollgate_types::Error;
use tollgate_upstream::Size;

use crate::read::{beyond, invalid};

/// What a caller says of size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) size: Option<String>,
    pub(crate) aspect_ratio: Option<String>,
    pub(crate) resolution: Option<String>,
}

/// What that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Pixels; nothing where the model chooses.
    pub(crate) size: Option<Size>,
    /// The ratio, where it was said or the model has a usual one.
    pub(crate) aspect_ratio: Option<Arc<str>>,
    /// The step of size, which says by how much it is dearer.
    pub(crate) resolution: Option<Arc<str>>,
}

/// What sides are multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usual {
    /// Pixels.
    pub(crate) grain: u32,
    /// The step of size where neither caller nor model says one.
    pub(crate) resolution: Option<&'static str>,
    /// The ratio.
    pub(crate) ratio: Option<&'static str>,
}

impl Said {
    /// Refuses what is no size at all, whatever the model.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(size) = self.size.as_deref().filter(|size| *size != "auto") {
            pixels(size).ok_or_else(|| {
                invalid(
                    "size",
                    "is \"auto\" or written like \"1024x1536\", each side 16 to 16384",
                )
            })?;
            for (name, said) in [
                ("aspect_ratio", &self.aspect_ratio),
                ("resolution", &self.resolution),
            ] {
                if said.is_some() {
                    return Err(invalid(name, "cannot stand beside 'size', which says it already"));
                }
            }
        }
        if let Some(ratio) = self.aspect_ratio.as_deref().filter(|ratio| *ratio != "auto") {
            parse_ratio(ratio)
                .ok_or_else(|| invalid("aspect_ratio", "is \"auto\" or written like \"16:9\""))?;
        }
        if let Some(step) = self.resolution.as_deref().filter(|step| *step != "auto") {
            let message = "is \"auto\" or a step of size such as \"1k\", \"2k\", \"720p\" or \"1080p\"";
            resolution(step).ok_or_else(|| invalid("resolution", message))?;
        }
        Ok(())
    }

    /// Pixels for this model.
    pub(crate) fn resolve(&self, model: &MediaEntry, usual: Usual) -> Result<Resolved, Error> {
        let said = |text: &Option<String>| text.clone().filter(|text| text != "auto");
        if let Some(size) = said(&self.size) {
            return exact(&size, model);
        }
        let first = |list: &[String]| list.first().cloned();
        let ratio = said(&self.aspect_ratio).or_else(|| first(&model.aspect_ratios));
        let ratio = match model.sizes.is_empty() {
            true => ratio.or_else(|| usual.ratio.map(str::to_owned)),
            false => ratio,
        };
        let step = said(&self.resolution).or_else(|| first(&model.resolutions));
        let step = step.or_else(|| usual.resolution.map(str::to_owned));
        for (name, said, known) in [
            ("aspect_ratio", &ratio, &model.aspect_ratios),
            ("resolution", &step, &model.resolutions),
        ] {
            if said
                .as_ref()
                .is_some_and(|said| !known.is_empty() && !known.contains(said))
            {
                return Err(beyond(
                    name,
                    &format!("is not one of the model's: {}", known.join(", ")),
                ));
            }
        }
        let shape = ratio.as_deref().and_then(parse_ratio);
        let size = match (step.as_deref().and_then(resolution), shape) {
            (Some(Resolution::Exact(width, height)), _) => Some(Size { width, height }),
            (Some(step), shape) if model.sizes.is_empty() => {
                let (width, height) = size_of(step, shape.unwrap_or((1, 1)), usual.grain);
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

/// A size that the caller has written down. Its price is that of the first step of size that is not smaller.
fn exact(text: &str, model: &MediaEntry) -> Result<Resolved, Error> {
    if !model.sizes.is_empty() && !model.sizes.iter().any(|known| known == text) {
        return Err(beyond(
            "size",
            &format!("is not one of the model's: {}", model.sizes.join(", ")),
        ));
    }
    let wanted = size(text);
    let asked = wanted.map_or(0, Size::pixels);
    let of_step = |name: &String| {
        let (width, height) = size_of(resolution(name)?, (16, 9), 1);
        Some((Size { width, height }.pixels(), name.clone()))
    };
    let mut steps: Vec<(u64, String)> = model.resolutions.iter().filter_map(of_step).collect();
    steps.sort();
    // A step's own sizes differ by a few rows from one ratio to another.
    let fits = |(pixels, _): &&(u64, String)| asked <= pixels + pixels / 10;
    let step = match (steps.iter().find(fits), steps.is_empty()) {
        (Some((_, name)), _) => Some(Arc::from(name.as_str())),
        (None, true) => None,
        (None, false) => {
            let what = format!("is larger than the model makes: {}", model.resolutions.join(", "));
            return Err(beyond("size", &what));
        }
    };
    Ok(Resolved {
        size: wanted,
        aspect_ratio: None,
        resolution: step,
    })
}

/// The size whose shape is most like this one.
fn nearest(shape: (u32, u32), sizes: &[String]) -> Option<Size> {
    let sizes = sizes.iter().filter_map(|text| size(text));
    nearest_of(shape, sizes, |size| (size.width, size.height))
}

/// The ratio that is most like this shape.
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

    const PICTURE: Usual = Usual {
        grain: 16,
        resolution: None,
        ratio: None,
    };

    fn said(size: &str, aspect_ratio: &str, resolution: &str) -> Said {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Said {
            size: some(size),
            aspect_ratio: some(aspect_ratio),
            resolution: some(resolution),
        }
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn sizes_follow_from_what_is_said_and_what_the_model_makes() {
        let stepped = MediaEntry {
            resolutions: texts(&["1k", "2k"]),
            aspect_ratios: texts(&["1:1", "16:9"]),
            ..MediaEntry::default()
        };
        let listed = MediaEntry {
            sizes: texts(&["1024x1024", "1536x1024", "1024x1536"]),
            ..MediaEntry::default()
        };
        let unknown = MediaEntry::default();
        for (model, said, size, step) in [
            (&stepped, said("", "", ""), Some((1_024, 1_024)), Some("1k")),
            (
                &stepped,
                said("auto", "auto", "auto"),
                Some((1_024, 1_024)),
                Some("1k"),
            ),
            (&stepped, said("", "16:9", "2k"), Some((2_736, 1_536)), Some("2k")),
            (
                &stepped,
                said("1000x1000", "", ""),
                Some((1_000, 1_000)),
                Some("1k"),
            ),
            (
                &stepped,
                said("1500x1000", "", ""),
                Some((1_500, 1_000)),
                Some("2k"),
            ),
            (&listed, said("", "", ""), Some((1_024, 1_024)), None),
            (&listed, said("", "16:9", ""), Some((1_536, 1_024)), None),
            (&listed, said("", "9:16", ""), Some((1_024, 1_536)), None),
            (&listed, said("1024x1536", "", ""), Some((1_024, 1_536)), None),
            (&unknown, said("", "", ""), None, None),
            (&unknown, said("", "16:9", ""), None, None),
            (&unknown, said("", "16:9", "1k"), Some((1_360, 768)), Some("1k")),
            (&unknown, said("640x480", "", ""), Some((640, 480)), None),
        ] {
            let resolved = said.resolve(model, PICTURE).unwrap();
            let found = resolved.size.map(|size| (size.width, size.height));
            assert_eq!((found, resolved.resolution.as_deref()), (size, step), "{said:?}");
        }
        for (model, said, param) in [
            (&stepped, said("", "4:3", ""), "aspect_ratio"),
            (&stepped, said("", "", "4k"), "resolution"),
            (&stepped, said("4096x4096", "", ""), "size"),
            (&listed, said("512x512", "", ""), "size"),
        ] {
            let error = said.resolve(model, PICTURE).unwrap_err();
            assert_eq!(error.code, ErrorCode::ParameterOutOfRange, "{said:?}");
            assert_eq!(error.param.as_deref(), Some(param), "{said:?}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_whatever_the_model() {
        for (said, param) in [
            (said("big", "", ""), "size"),
            (said("15x1024", "", ""), "size"),
            (said("1024x1024", "1:1", ""), "aspect_ratio"),
            (said("1024x1024", "", "1k"), "resolution"),
            (said("", "wide", ""), "aspect_ratio"),
            (said("", "", "huge"), "resolution"),
        ] {
            let error = said.check().unwrap_err();
            assert_eq!(
                (error.code, error.param.as_deref()),
                (ErrorCode::InvalidParameter, Some(param)),
                "{said:?}"
            );
        }
        said("auto", "16:9", "2k").check().unwrap();
    }
}
