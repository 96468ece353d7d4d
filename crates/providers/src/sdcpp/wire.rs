//! What is sent and what comes back.

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_upstream::{Content, ImageCall, ImageTask, Made, Piece, State, UpstreamError, VideoCall};

use crate::media;
use crate::refusal;

/// Frames of a second of film. Models of this server are made for it.
const FRAMES_PER_SECOND: u64 = 16;
/// Films are a multiple of this, and one frame.
const FRAME_STEP: u64 = 4;

/// A request for pictures.
pub(super) fn of_pictures(call: &ImageCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("batch_count", json!(call.count));
    if let Some(size) = call.size {
        add("width", json!(size.width));
        add("height", json!(size.height));
    }
    if let Some(format) = call.format {
        add("output_format", json!(format.as_str()));
    }
    match (call.task, &call.images[..]) {
        (_, []) => {}
        // It begins with the picture itself instead of noise.
        (ImageTask::Vary, [image, ..]) => drop(add("init_image", media::data_url(image))),
        (_, images) => drop(add("ref_images", images.iter().map(media::data_url).collect())),
    }
    Value::Object(fields)
}

/// A request for a film.
pub(super) fn of_film(call: &VideoCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("width", json!(call.size.width));
    add("height", json!(call.size.height));
    let frames = call.duration.as_secs().saturating_mul(FRAMES_PER_SECOND);
    // The server takes the largest number of its kind that is not larger.
    add(
        "video_frames",
        json!(frames.next_multiple_of(FRAME_STEP).saturating_add(1)),
    );
    add("fps", json!(FRAMES_PER_SECOND));
    if let Some(image) = &call.image {
        add("init_image", media::data_url(image));
    }
    Value::Object(fields)
}

/// A job that was accepted.
#[derive(Deserialize)]
pub(super) struct Accepted {
    pub(super) id: String,
}

/// How it goes with a job.
#[derive(Deserialize)]
pub(super) struct News {
    status: String,
    queue_position: Option<u32>,
    result: Option<Outcome>,
    #[serde(default)]
    error: Value,
}

/// Pictures are a list, a film is one file.
#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    images: Vec<Encoded>,
    b64_json: Option<String>,
}

#[derive(Deserialize)]
struct Encoded {
    b64_json: String,
}

impl News {
    /// What that means.
    pub(super) fn state(self) -> Result<State, UpstreamError> {
        Ok(match self.status.as_str() {
            "queued" => State::Waiting {
                ahead: self.queue_position,
            },
            "generating" => State::Running { percent: None },
            "completed" => State::Made(self.made()?),
            "failed" => State::Failed(refusal::from_failure(&json!({"error": self.error}))),
            "cancelled" => State::Cancelled,
            _ => return Err(UpstreamError::protocol("a job in a state that nobody knows")),
        })
    }

    fn made(self) -> Result<Made, UpstreamError> {
        let Outcome { images, b64_json } = self
            .result
            .ok_or_else(|| UpstreamError::protocol("a job that is done without a result"))?;
        let texts = images.into_iter().map(|image| image.b64_json).chain(b64_json);
        let pieces = texts.map(|text| {
            Ok(Piece {
                content: Content::Bytes(media::decoded(&text)?),
                revised_prompt: None,
            })
        });
        let pieces: Vec<Piece> = pieces.collect::<Result<_, UpstreamError>>()?;
        match pieces.is_empty() {
            true => Err(UpstreamError::protocol("a job that is done and has made nothing")),
            false => Ok(Made { pieces, usage: None }),
        }
    }
}
