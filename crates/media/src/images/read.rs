//! Parses image requests and checks the limits that apply to all models. The limits of a model are
//! checked after routing.

use std::collections::BTreeMap;

use tollgate_edge::members::{Members, invalid, text};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::ImageFormat;

use crate::sizes::SizeParams;

/// Maximum number of images that one request generates (contract, Limits).
pub(super) const MAX_IMAGES: u64 = 4;
/// Maximum number of input images of one request.
pub(super) const MAX_INPUTS: usize = 16;

/// A parsed image request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    pub(super) model: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) negative_prompt: Option<String>,
    pub(super) template: Option<String>,
    pub(super) requested_size: SizeParams,
    pub(super) num_images: Option<u32>,
    /// Input images, as pairs of parameter path and URL.
    pub(super) images: Vec<(String, String)>,
    pub(super) mask: Option<(String, String)>,
    pub(super) variation_of: Option<(String, String)>,
    pub(super) image_set: bool,
    pub(super) quality: Option<String>,
    pub(super) output_format: Option<ImageFormat>,
    pub(super) seed: Option<u64>,
    pub(super) inline: bool,
    pub(super) sync: Option<bool>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) webhook_url: Option<String>,
    /// Names of the parameters that were accepted and have no effect.
    pub(super) ignored: Vec<&'static str>,
}

/// Parses the JSON body of an image request.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    members(Members::read(body)?)
}

/// Parses the members of an image request.
pub(super) fn members(mut members: Members) -> Result<Request, Error> {
    let requested_size = SizeParams {
        size: members.text("size")?,
        aspect_ratio: members.text("aspect_ratio")?,
        resolution: members.text("resolution")?,
    };
    requested_size.check()?;
    let request = Request {
        model: members.text("model")?,
        prompt: members.prompt("prompt")?,
        negative_prompt: members.prompt("negative_prompt")?,
        template: members.text("template")?,
        requested_size,
        num_images: num_images(&mut members)?,
        images: members.texts("image", MAX_INPUTS)?,
        mask: one(&mut members, "mask")?,
        variation_of: one(&mut members, "variation_of")?,
        image_set: members.flag("image_set")?.unwrap_or(false),
        quality: members.text("quality")?,
        output_format: output_format(&mut members)?,
        seed: members.seed()?,
        inline: is_inline(&mut members)?,
        sync: sync(&mut members)?,
        metadata: members.metadata()?,
        webhook_url: members.text("webhook_url")?,
        ignored: ignored(&mut members)?,
    };
    members.end()?;
    request.check()?;
    Ok(request)
}

impl Request {
    /// Returns the requested quality; `None` for `auto`.
    pub(super) fn quality(&self) -> Option<&String> {
        self.quality.as_ref().filter(|quality| *quality != "auto")
    }

    /// Returns an error if parameters exclude or require each other.
    fn check(&self) -> Result<(), Error> {
        if self.variation_of.is_some() {
            for (name, is_there) in [("image", !self.images.is_empty()), ("mask", self.mask.is_some())] {
                if is_there {
                    return Err(invalid(name, "cannot be combined with 'variation_of'"));
                }
            }
        }
        if self.mask.is_some() && self.images.len() != 1 {
            return Err(invalid("mask", "requires exactly one image in 'image'"));
        }
        let says_something =
            self.template.is_some() || self.variation_of.is_some() || !self.images.is_empty();
        if self.prompt.is_none() && !says_something {
            let message = "'prompt' is required unless you send 'image', 'variation_of' or 'template'.";
            return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("prompt"));
        }
        Ok(())
    }
}

fn num_images(members: &mut Members) -> Result<Option<u32>, Error> {
    let Some((name, value)) = members.either("num_images", "n")? else {
        return Ok(None);
    };
    let number = tollgate_edge::members::number(name, &value, 1, MAX_IMAGES)?;
    Ok(u32::try_from(number).ok())
}

fn one(members: &mut Members, name: &'static str) -> Result<Option<(String, String)>, Error> {
    Ok(members.text(name)?.map(|address| (name.to_owned(), address)))
}

fn output_format(members: &mut Members) -> Result<Option<ImageFormat>, Error> {
    let Some(name) = members.text("output_format")? else {
        return Ok(None);
    };
    let known = ImageFormat::parse(if name == "jpg" { "jpeg" } else { &name });
    known
        .map(Some)
        .ok_or_else(|| invalid("output_format", "must be \"png\", \"jpeg\" or \"webp\""))
}

fn is_inline(members: &mut Members) -> Result<bool, Error> {
    match members.text("response_format")?.as_deref() {
        None | Some("url") => Ok(false),
        Some("b64_json") => Ok(true),
        Some(_) => Err(invalid("response_format", "must be \"url\" or \"b64_json\"")),
    }
}

fn sync(members: &mut Members) -> Result<Option<bool>, Error> {
    let sync = members.flag("sync")?;
    let wait = members.flag("wait")?;
    match (sync, wait) {
        (Some(sync), Some(wait)) if sync != wait => {
            Err(invalid("wait", "is an alias of 'sync' and must equal it"))
        }
        (sync, wait) => Ok(sync.or(wait)),
    }
}

/// Reads OpenAI parameters that have no effect here, and returns the names to report as ignored.
/// Values that would change the result are errors.
fn ignored(members: &mut Members) -> Result<Vec<&'static str>, Error> {
    let mut ignored = Vec::new();
    if members.any_text("user")?.is_some() {
        ignored.push("user");
    }
    for (name, accepted) in [("moderation", "auto"), ("background", "auto"), ("style", "vivid")] {
        match members.take(name) {
            None => {}
            Some(value) if text(name, value.clone()).is_ok_and(|text| text == accepted) => ignored.push(name),
            Some(_) => return Err(unsupported(name)),
        }
    }
    if members.flag("stream")? == Some(true) {
        return Err(unsupported("stream"));
    }
    for name in ["partial_images", "output_compression"] {
        if members.take(name).is_some_and(|value| value.as_u64() != Some(0)) {
            return Err(unsupported(name));
        }
    }
    Ok(ignored)
}

fn unsupported(name: &'static str) -> Error {
    let message = format!("This value of '{name}' is not supported. Remove the parameter.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(body: &Value) -> Result<Request, Error> {
        request(body.to_string().as_bytes())
    }

    #[test]
    fn limits_are_checked_at_both_ends() {
        let images = |count: usize| vec!["https://a.example/p.png"; count];
        for (mut body, is_good, param) in [
            (json!({"num_images": 1}), true, ""),
            (json!({"num_images": 4}), true, ""),
            (json!({"num_images": 0}), false, "num_images"),
            (json!({"num_images": 5}), false, "num_images"),
            (json!({"num_images": "2"}), false, "num_images"),
            (json!({"n": 4}), true, ""),
            (json!({"n": 5}), false, "n"),
            (json!({"n": 1, "num_images": 1}), false, "n"),
            (json!({"image": images(16)}), true, ""),
            (json!({"image": images(17)}), false, "image"),
            (json!({"image": []}), false, "image"),
            (json!({"image": ["x", 1]}), false, "image[1]"),
            (json!({"seed": 9_007_199_254_740_991_u64}), true, ""),
            (json!({"seed": 9_007_199_254_740_992_u64}), false, "seed"),
            (json!({"seed": -1}), false, "seed"),
            (json!({"prompt": "é".repeat(32_000)}), true, ""),
            (json!({"prompt": "é".repeat(32_001)}), false, "prompt"),
            (json!({"size": "16x16"}), true, ""),
            (json!({"size": "15x16"}), false, "size"),
            (json!({"mask": "m", "image": images(1)}), true, ""),
            (json!({"mask": "m", "image": images(2)}), false, "mask"),
            (json!({"mask": "m"}), false, "mask"),
            (json!({"variation_of": "v", "image": "i"}), false, "image"),
            (json!({"response_format": "b64_json"}), true, ""),
            (json!({"response_format": "png"}), false, "response_format"),
            (json!({"output_format": "gif"}), false, "output_format"),
            (json!({"sync": true, "wait": true}), true, ""),
            (json!({"sync": true, "wait": false}), false, "wait"),
            (json!({"stream": true}), false, "stream"),
            (json!({"partial_images": 0}), true, ""),
            (json!({"partial_images": 1}), false, "partial_images"),
            (json!({"background": "transparent"}), false, "background"),
            (json!({"steps": 5}), false, "steps"),
        ] {
            if body.get("prompt").is_none() {
                body["prompt"] = json!("a cat");
            }
            let found = read(&body);
            assert_eq!(found.is_ok(), is_good, "{param} {found:?}");
            if let Err(error) = found {
                assert_eq!(error.param.as_deref(), Some(param));
            }
        }
    }

    #[test]
    fn a_prompt_or_image_is_required() {
        for body in [json!({}), json!({"prompt": " "}), json!({"prompt": null})] {
            assert_eq!(
                read(&body).unwrap_err().code,
                ErrorCode::MissingRequiredParameter,
                "{body}"
            );
        }
        for body in [
            json!({"template": "poster"}),
            json!({"image": "i"}),
            json!({"variation_of": "v"}),
        ] {
            assert!(read(&body).is_ok(), "{body}");
        }
        let openai = json!({"model": "m", "prompt": "p", "n": 2, "size": "auto", "quality": "auto", "user": "u",
            "moderation": "auto", "background": "auto", "style": "vivid", "response_format": "url"});
        let request = read(&openai).unwrap();
        assert_eq!(request.ignored, ["user", "moderation", "background", "style"]);
        assert_eq!((request.num_images, request.quality()), (Some(2), None));
    }
}
