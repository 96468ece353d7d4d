//! What is sent and what comes back. Each model has a schema of its own and refuses what is not in it, so only what was
//! asked for is said, under the names that its family has.

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_types::Retry;
use tollgate_upstream::{
    ImageCall, Made, Piece, State, UpstreamCause, UpstreamError, UpstreamErrorKind, VideoCall,
};

use crate::http::{BaseUrl, escape};
use crate::media;
use crate::refusal;

/// Under which name a family of models takes pictures, and whether as a list. The first one counts whose name is in the
/// model's.
const PICTURES: &[(&str, &str, bool)] = &[
    ("nano-banana", "image_input", true),
    ("seedream", "image_input", true),
    ("flux-2", "input_images", true),
    ("gpt-image", "input_images", true),
    ("kontext", "input_image", false),
    ("", "image", false),
];
/// The same for the first frame of a film.
const FIRST_FRAMES: &[(&str, &str)] = &[
    ("kling", "start_image"),
    ("luma", "start_image"),
    ("minimax", "first_frame_image"),
    ("", "image"),
];

/// Where a prediction of a model is made, and the version that is to be named.
pub(super) fn place_of(model: &str) -> (String, Option<&str>) {
    match model.split_once(':') {
        Some((_, version)) => ("/predictions".to_owned(), Some(version)),
        None => (format!("/models/{}/predictions", escape(model, "/")), None),
    }
}

/// A request for pictures.
pub(super) fn of_pictures(call: &ImageCall) -> Value {
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
    if let Some((name, is_list)) = pictures_of(call) {
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

/// Under which name its pictures are sent, when it has any.
fn pictures_of(call: &ImageCall) -> Option<(&'static str, bool)> {
    let known = PICTURES
        .iter()
        .find(|(family, ..)| call.upstream_model.contains(family));
    let (_, name, is_list) = known.filter(|_| !call.images.is_empty())?;
    Some((name, *is_list))
}

/// Whether all its pictures have a place.
pub(super) fn takes_pictures(call: &ImageCall) -> bool {
    call.images.len() < 2 || pictures_of(call).is_some_and(|(_, is_list)| is_list)
}

/// A request for a film.
pub(super) fn of_film(call: &VideoCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("duration", json!(call.duration.as_secs()));
    add("aspect_ratio", json!(&*call.aspect_ratio));
    add("resolution", json!(&*call.resolution));
    let model = &call.upstream_model;
    let known = FIRST_FRAMES.iter().find(|(family, _)| model.contains(family));
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

/// A prediction.
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
    /// How it goes with it.
    pub(super) fn state(&self, base: &BaseUrl) -> Result<State, UpstreamError> {
        Ok(match self.status.as_str() {
            "starting" => State::Waiting { ahead: None },
            "processing" => State::Running { percent: None },
            // Results are kept for an hour.
            "succeeded" if self.data_removed => State::Lost,
            "succeeded" => State::Made(self.made(base)?),
            "failed" => State::Failed(refusal::from_failure(&json!({"error": {"code": self.code()}}))),
            "canceled" => State::Cancelled,
            "aborted" => State::Failed(UpstreamError {
                retry: Retry::Safe,
                ..UpstreamError::new(
                    UpstreamErrorKind::Unavailable,
                    UpstreamCause::Status,
                    "it was not begun in time",
                )
            }),
            _ => {
                return Err(UpstreamError::protocol(
                    "a prediction in a state that nobody knows",
                ));
            }
        })
    }

    /// The code at the end of what is said, such as `(E005)`.
    fn code(&self) -> Option<&str> {
        let said = self.error.as_str()?.trim_end();
        let (_, code) = said.strip_suffix(')')?.rsplit_once('(')?;
        let number = code.strip_prefix('E')?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(code)
    }

    /// One output, or a list of them.
    fn made(&self, base: &BaseUrl) -> Result<Made, UpstreamError> {
        let urls = match &self.output {
            Value::Array(urls) => urls.as_slice(),
            url => std::slice::from_ref(url),
        };
        let pieces = urls.iter().map(|url| {
            let no_url = || UpstreamError::protocol("an output that is no address");
            Ok(Piece {
                content: media::place(base, url.as_str().ok_or_else(no_url)?)?,
                revised_prompt: None,
            })
        });
        let pieces: Vec<Piece> = pieces.collect::<Result<_, UpstreamError>>()?;
        match pieces.is_empty() {
            true => Err(UpstreamError::protocol(
                "a prediction that is done and has made nothing",
            )),
            false => Ok(Made { pieces, usage: None }),
        }
    }
}
