//! Request and response bodies. Each model has its own schema and rejects unknown fields. Requests
//! therefore contain only the given parameters, under the names of the model's family.

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_types::Retry;
use tollgate_upstream::{
    GenerationOutput, GenerationState, ImageCall, OutputItem, UpstreamCause, UpstreamError,
    UpstreamErrorKind, VideoCall,
};

use crate::http::{BaseUrl, escape};
use crate::media;
use crate::refusal;

/// Name of the image field of each model family, and whether it is a list. The first family whose
/// name is a part of the model's name applies.
const IMAGE_FIELDS: &[(&str, &str, bool)] = &[
    ("nano-banana", "image_input", true),
    ("seedream", "image_input", true),
    ("flux-2", "input_images", true),
    ("gpt-image", "input_images", true),
    ("kontext", "input_image", false),
    ("", "image", false),
];
/// Name of the field of a video's first frame, by model family. The first family whose name is a
/// part of the model's name applies.
const FIRST_FRAME_FIELDS: &[(&str, &str)] = &[
    ("kling", "start_image"),
    ("luma", "start_image"),
    ("minimax", "first_frame_image"),
    ("", "image"),
];

/// Returns the path for new predictions of a model, and the version for the request body if the
/// model's name contains one.
pub(super) fn prediction_path(model: &str) -> (String, Option<&str>) {
    match model.split_once(':') {
        Some((_, version)) => ("/predictions".to_owned(), Some(version)),
        None => (format!("/models/{}/predictions", escape(model, "/")), None),
    }
}

/// Encodes an image request.
pub(super) fn image_request(call: &ImageCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    match (&call.aspect_ratio, call.size) {
        (Some(ratio), _) => drop(add("aspect_ratio", json!(**ratio))),
        (None, Some(size)) => {
            add("width", json!(size.width));
            add("height", json!(size.height));
        }
        (None, None) => {}
    }
    let words = [("resolution", &call.resolution), ("quality", &call.quality)];
    for (name, word) in words {
        if let Some(word) = word {
            add(name, json!(**word));
        }
    }
    if let Some((name, is_list)) = image_field(call) {
        add(
            name,
            match (is_list, &call.images[..]) {
                (false, [image, ..]) => media::data_url(image),
                (_, images) => images.iter().map(media::data_url).collect(),
            },
        );
    }
    Value::Object(fields)
}

/// Returns the field of the input images and whether it is a list; `None` without input images.
fn image_field(call: &ImageCall) -> Option<(&'static str, bool)> {
    let known = IMAGE_FIELDS
        .iter()
        .find(|(family, ..)| call.upstream_model.contains(family));
    let (_, name, is_list) = known.filter(|_| !call.images.is_empty())?;
    Some((name, *is_list))
}

/// Whether the model has a field for all images of the call.
pub(super) fn accepts_images(call: &ImageCall) -> bool {
    call.images.len() < 2 || image_field(call).is_some_and(|(_, is_list)| is_list)
}

/// Encodes a video request.
pub(super) fn video_request(call: &VideoCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("duration", json!(call.duration.as_secs()));
    add("aspect_ratio", json!(&*call.aspect_ratio));
    add("resolution", json!(&*call.resolution));
    let model = &call.upstream_model;
    let known = FIRST_FRAME_FIELDS
        .iter()
        .find(|(family, _)| model.contains(family));
    if let (Some(image), Some((_, name))) = (&call.image, known) {
        add(name, media::data_url(image));
    }
    if !call.references.is_empty() {
        add(
            "reference_images",
            call.references.iter().map(media::data_url).collect(),
        );
    }
    Value::Object(fields)
}

/// A prediction object of the API.
#[derive(Deserialize)]
pub(super) struct Prediction {
    pub(super) id: String,
    status: String,
    #[serde(default)]
    output: Value,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    data_removed: bool,
}

impl Prediction {
    /// Converts the status of a prediction. An unknown status is an error.
    pub(super) fn state(&self, base: &BaseUrl) -> Result<GenerationState, UpstreamError> {
        Ok(match self.status.as_str() {
            "starting" => GenerationState::Waiting { ahead: None },
            "processing" => GenerationState::Running { percent: None },
            // Replicate deletes results after an hour.
            "succeeded" if self.data_removed => GenerationState::Lost,
            "succeeded" => GenerationState::Completed(self.made(base)?),
            "failed" => {
                GenerationState::Failed(refusal::from_failure(&json!({"error": {"code": self.code()}})))
            }
            "canceled" => GenerationState::Cancelled,
            "aborted" => GenerationState::Failed(UpstreamError {
                retry: Retry::Safe,
                ..UpstreamError::new(
                    UpstreamErrorKind::Unavailable,
                    UpstreamCause::Status,
                    "the prediction did not start in time",
                )
            }),
            _ => {
                return Err(UpstreamError::protocol("the prediction has an unknown status"));
            }
        })
    }

    /// Returns the code at the end of an error message, such as `E005` in `(E005)`.
    fn code(&self) -> Option<&str> {
        let message = self.error.as_str()?.trim_end();
        let (_, code) = message.strip_suffix(')')?.rsplit_once('(')?;
        let number = code.strip_prefix('E')?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(code)
    }

    /// Parses the output, which is a URL or a list of URLs. An empty list is an error.
    fn made(&self, base: &BaseUrl) -> Result<GenerationOutput, UpstreamError> {
        let urls = match &self.output {
            Value::Array(urls) => urls.as_slice(),
            url => std::slice::from_ref(url),
        };
        let items = urls.iter().map(|url| {
            let invalid_url = || UpstreamError::protocol("an output is not a URL");
            Ok(OutputItem {
                content: media::content_at(base, url.as_str().ok_or_else(invalid_url)?)?,
                revised_prompt: None,
            })
        });
        let items: Vec<OutputItem> = items.collect::<Result<_, UpstreamError>>()?;
        match items.is_empty() {
            true => Err(UpstreamError::protocol("the prediction completed without output")),
            false => Ok(GenerationOutput { items, usage: None }),
        }
    }
}
