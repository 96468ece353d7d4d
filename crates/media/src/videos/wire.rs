//! Request schema of the OpenAPI document. `read` parses and validates the requests.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A request to generate a video.
#[derive(Serialize, ToSchema)]
pub struct GenerateVideo {
    /// Id or alias of a video model. GET /v1/models lists the models. If omitted, the template's
    /// model or the default video model is used.
    model: Option<String>,
    /// Slug of a template. GET /v1/videos/templates lists the templates. The template's prompt
    /// wraps yours. Its model and parameters apply where your request has none.
    template: Option<String>,
    /// Description of the video and its audio. Required unless `image`, `images`, `extend_from` or
    /// `template` is set.
    prompt: Option<String>,
    /// Description of content to avoid in the video.
    negative_prompt: Option<String>,
    /// Duration in seconds, one of the model's `limits.durations`. `seconds` is an alias.
    #[schema(minimum = 1, maximum = 600)]
    duration: Option<u32>,
    /// Aspect ratio, width to height, such as `16:9`.
    aspect_ratio: Option<String>,
    /// Resolution, one of the model's `limits.resolutions`, such as `720p`.
    resolution: Option<String>,
    /// Dimensions in pixels, such as `1280x720`. Cannot be combined with `aspect_ratio` or
    /// `resolution`.
    size: Option<String>,
    /// Whether the video has audio, if the model can generate it.
    #[schema(default = true)]
    generate_audio: Option<bool>,
    /// Image for the first frame, as an http(s) or data URL. `image_url` is an alias.
    image: Option<String>,
    /// Images as http(s) or data URLs. A single image is the first frame. Several images are
    /// references to subjects, if the model supports them.
    images: Option<Vec<String>>,
    /// Images of subjects that appear in the video, as http(s) or data URLs. The model's
    /// `limits.max_references` is the maximum number. Cannot be combined with `image` or `images`.
    reference_images: Option<Vec<String>>,
    /// Video or image to extend. The generated part is appended to a video; an image is the first
    /// frame.
    extend_from: Option<ExtendFrom>,
    /// Generation mode, one of the model's `modes`. `auto` selects the mode from the inputs of the
    /// request.
    #[schema(default = "auto")]
    mode: Option<String>,
    /// Seed for reproducible results, if the model supports it.
    seed: Option<u64>,
    /// Up to 16 custom key-value pairs. The job record returns them.
    metadata: Option<BTreeMap<String, String>>,
    /// An https URL that receives a webhook when the job has ended. docs/webhooks.md describes the
    /// signature.
    webhook_url: Option<String>,
}

/// The source of an extended video: exactly one of `job_id` and `video_url`.
#[derive(Serialize, ToSchema)]
pub struct ExtendFrom {
    /// Id of a completed job of the account that generated an image or a video.
    job_id: Option<String>,
    /// An http(s) URL of the video to extend.
    video_url: Option<String>,
}
