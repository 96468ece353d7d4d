//! Request and response bodies.

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_upstream::{
    Content, GenerationOutput, GenerationState, ImageCall, ImageTask, OutputItem, UpstreamError, VideoCall,
};

use crate::media;
use crate::refusal;

/// Frame rate of the generated videos. The server's video models are trained for this rate.
const FRAMES_PER_SECOND: u64 = 16;
/// The number of frames of a video is a multiple of this number, plus one.
const FRAME_STEP: u64 = 4;

/// Encodes an image request.
pub(super) fn image_request(call: &ImageCall) -> Value {
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
        // The image replaces the noise from which the generation starts.
        (ImageTask::Vary, [image, ..]) => drop(add("init_image", media::data_url(image))),
        (_, images) => drop(add("ref_images", images.iter().map(media::data_url).collect())),
    }
    Value::Object(fields)
}

/// Encodes a video request.
pub(super) fn video_request(call: &VideoCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("width", json!(call.size.width));
    add("height", json!(call.size.height));
    let frames = call.duration.as_secs().saturating_mul(FRAMES_PER_SECOND);
    // The server rounds an invalid number of frames down, so the number is rounded up here.
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

/// Response to the submission of a job.
#[derive(Deserialize)]
pub(super) struct Accepted {
    pub(super) id: String,
}

/// Response to a status request.
#[derive(Deserialize)]
pub(super) struct JobStatus {
    status: String,
    queue_position: Option<u32>,
    result: Option<Outcome>,
    #[serde(default)]
    error: Value,
}

/// Result of a job, in base64: a list of images, or one video in `b64_json`.
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

impl JobStatus {
    /// Converts the status of a job. An unknown status is an error.
    pub(super) fn state(self) -> Result<GenerationState, UpstreamError> {
        Ok(match self.status.as_str() {
            "queued" => GenerationState::Waiting {
                ahead: self.queue_position,
            },
            "generating" => GenerationState::Running { percent: None },
            "completed" => GenerationState::Completed(self.made()?),
            "failed" => GenerationState::Failed(refusal::from_failure(&json!({"error": self.error}))),
            "cancelled" => GenerationState::Cancelled,
            _ => return Err(UpstreamError::protocol("the job has an unknown status")),
        })
    }

    fn made(self) -> Result<GenerationOutput, UpstreamError> {
        let Outcome { images, b64_json } = self
            .result
            .ok_or_else(|| UpstreamError::protocol("the job completed without a result"))?;
        let texts = images.into_iter().map(|image| image.b64_json).chain(b64_json);
        let items = texts.map(|text| {
            Ok(OutputItem {
                content: Content::Bytes(media::decoded(&text)?),
                revised_prompt: None,
            })
        });
        let items: Vec<OutputItem> = items.collect::<Result<_, UpstreamError>>()?;
        match items.is_empty() {
            true => Err(UpstreamError::protocol("the job completed without output")),
            false => Ok(GenerationOutput { items, usage: None }),
        }
    }
}
