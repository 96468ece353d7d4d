//! Parses video requests and checks the limits that apply to all models. The limits of a model are
//! checked after routing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tollgate_edge::members::{Members, invalid, text};
use tollgate_types::{Error, ErrorCode};

use crate::sizes::SizeParams;

/// Maximum number of input images of one request.
const MAX_INPUTS: usize = 16;
/// Maximum value of `duration`, in seconds.
const MAX_DURATION_SECONDS: u64 = 600;

/// A parsed video request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    pub(super) model: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) negative_prompt: Option<String>,
    pub(super) template: Option<String>,
    pub(super) requested_size: SizeParams,
    pub(super) duration: Option<Duration>,
    pub(super) audio: Option<bool>,
    /// Images from `image`, `image_url` or `images`, as pairs of parameter path and URL.
    pub(super) images: Vec<(String, String)>,
    /// Images from `reference_images`, as pairs of parameter path and URL.
    pub(super) references: Vec<(String, String)>,
    pub(super) extend_from: Option<ExtendRef>,
    pub(super) mode: Option<String>,
    pub(super) seed: Option<u64>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) webhook_url: Option<String>,
}

/// The video or image that a request extends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExtendRef {
    /// The output of the job with this id.
    Job(String),
    /// The video at this URL.
    Address(String),
}

/// Parses the JSON body of a video request.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    request_of(Members::read(body)?)
}

/// Parses the members of a video request.
pub(super) fn request_of(mut members: Members) -> Result<Request, Error> {
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
        duration: duration(&mut members)?,
        audio: members.flag("generate_audio")?,
        images: images(&mut members)?,
        references: members.texts("reference_images", MAX_INPUTS)?,
        extend_from: extend_from(&mut members)?,
        mode: members.text("mode")?.filter(|mode| mode != "auto"),
        seed: members.seed()?,
        metadata: members.metadata()?,
        webhook_url: members.text("webhook_url")?,
    };
    members.take("user");
    members.end()?;
    request.check()?;
    Ok(request)
}

impl Request {
    fn check(&self) -> Result<(), Error> {
        if !self.references.is_empty() && !self.images.is_empty() {
            let message = "cannot be combined with 'image' or 'images'";
            return Err(invalid("reference_images", message));
        }
        if self.extend_from.is_some() {
            for (name, inputs) in [("image", &self.images), ("reference_images", &self.references)] {
                if !inputs.is_empty() {
                    return Err(invalid(
                        name,
                        "cannot be combined with 'extend_from', which sets the first frame",
                    ));
                }
            }
        }
        let says_something = self.template.is_some() || self.extend_from.is_some() || !self.images.is_empty();
        if self.prompt.is_none() && !says_something {
            let message =
                "'prompt' is required unless you send 'image', 'images', 'extend_from' or 'template'.";
            return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("prompt"));
        }
        Ok(())
    }
}

/// Parses `duration` or its alias `seconds`, which some clients send as a string.
fn duration(members: &mut Members) -> Result<Option<Duration>, Error> {
    let Some((name, value)) = members.either("duration", "seconds")? else {
        return Ok(None);
    };
    let number = match &value {
        Value::String(text) => text
            .trim()
            .trim_end_matches('s')
            .parse::<u64>()
            .map_or(value.clone(), Value::from),
        _ => value,
    };
    let seconds = tollgate_edge::members::number(name, &number, 1, MAX_DURATION_SECONDS)?;
    Ok(Some(Duration::from_secs(seconds)))
}

/// Parses `image`, its alias `image_url`, or `images`. Only one of these parameters is allowed.
fn images(members: &mut Members) -> Result<Vec<(String, String)>, Error> {
    let one = members.either("image", "image_url")?;
    let several = members.texts("images", MAX_INPUTS)?;
    match (one, several.is_empty()) {
        (Some(_), false) => Err(invalid("images", "cannot be combined with 'image'")),
        (Some((name, value)), true) => Ok(vec![(name.to_owned(), text(name, value)?)]),
        (None, _) => Ok(several),
    }
}

fn extend_from(members: &mut Members) -> Result<Option<ExtendRef>, Error> {
    let Some(value) = members.take("extend_from") else {
        return Ok(None);
    };
    let Value::Object(mut before) = value else {
        return Err(invalid(
            "extend_from",
            "must be an object with 'job_id' or 'video_url'",
        ));
    };
    let mut take = |name: &str| before.remove(name).filter(|value| !value.is_null());
    let (job, address) = (take("job_id"), take("video_url"));
    if let Some(unknown) = before.keys().next() {
        let path = format!("extend_from.{}", unknown.chars().take(60).collect::<String>());
        let message = format!("Unknown parameter '{path}'. 'extend_from' accepts 'job_id' or 'video_url'.");
        return Err(Error::new(ErrorCode::UnknownParameter, message).with_param(path));
    }
    match (job, address) {
        (Some(job), None) => Ok(Some(ExtendRef::Job(text("extend_from.job_id", job)?))),
        (None, Some(address)) => Ok(Some(ExtendRef::Address(text("extend_from.video_url", address)?))),
        _ => Err(invalid(
            "extend_from",
            "must have exactly one of 'job_id' and 'video_url'",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<Request, Error> {
        request(body.to_string().as_bytes())
    }

    #[test]
    fn limits_are_checked_at_both_ends() {
        let images = |count: usize| vec!["https://a.example/p.png"; count];
        for (mut body, is_good, param) in [
            (json!({"duration": 1}), true, ""),
            (json!({"duration": 600}), true, ""),
            (json!({"duration": 0}), false, "duration"),
            (json!({"duration": 601}), false, "duration"),
            (json!({"duration": 2.5}), false, "duration"),
            (json!({"seconds": "8"}), true, ""),
            (json!({"seconds": "8s"}), true, ""),
            (json!({"seconds": "long"}), false, "seconds"),
            (json!({"seconds": 4, "duration": 4}), false, "seconds"),
            (json!({"image": "i", "image_url": "i"}), false, "image_url"),
            (json!({"image": "i", "images": ["i"]}), false, "images"),
            (
                json!({"image": "i", "reference_images": ["r"]}),
                false,
                "reference_images",
            ),
            (json!({"images": images(16)}), true, ""),
            (json!({"images": images(17)}), false, "images"),
            (json!({"extend_from": {"job_id": "j"}}), true, ""),
            (json!({"extend_from": {"video_url": "v"}}), true, ""),
            (json!({"extend_from": {}}), false, "extend_from"),
            (json!({"extend_from": "j"}), false, "extend_from"),
            (
                json!({"extend_from": {"job_id": "j", "video_url": "v"}}),
                false,
                "extend_from",
            ),
            (json!({"extend_from": {"job_id": 5}}), false, "extend_from.job_id"),
            (json!({"extend_from": {"job": "j"}}), false, "extend_from.job"),
            (
                json!({"extend_from": {"job_id": "j"}, "image": "i"}),
                false,
                "image",
            ),
            (
                json!({"extend_from": {"job_id": "j"}, "reference_images": ["r"]}),
                false,
                "reference_images",
            ),
            (json!({"generate_audio": "no"}), false, "generate_audio"),
            (json!({"mode": "auto"}), true, ""),
            (json!({"fps": 24}), false, "fps"),
        ] {
            body["prompt"] = json!("a cat");
            let found = read(&body);
            assert_eq!(found.is_ok(), is_good, "{body} {found:?}");
            if let Err(error) = found {
                assert_eq!(error.param.as_deref(), Some(param), "{body}");
            }
        }
        assert_eq!(
            read(&json!({})).unwrap_err().code,
            ErrorCode::MissingRequiredParameter
        );
        assert!(read(&json!({"extend_from": {"job_id": "j"}})).is_ok());
    }
}
