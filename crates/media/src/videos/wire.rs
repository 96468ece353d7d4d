//! The shape of the request, for the API document. The rules are in `read`.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A request for a film.
#[derive(Serialize, ToSchema)]
pub struct GenerateVideo {
    /// Id or alias of a video model; GET /v1/models lists them. Without one the template's or the service's usual model
    /// serves.
    model: Option<String>,
    /// Slug of a template, one of GET /v1/videos/templates: its prompt goes around yours, its model serves where you name
    /// none, and its parameters stand where you say nothing.
    template: Option<String>,
    /// What is to be seen and heard. Needed unless there is a picture, a film to go on with or a template.
    prompt: Option<String>,
    /// What is not to be seen.
    negative_prompt: Option<String>,
    /// Seconds, one of the model's `limits.durations`. `seconds` is another name of it.
    #[schema(minimum = 1, maximum = 600)]
    duration: Option<u32>,
    /// Ratio of width to height, such as `16:9`.
    aspect_ratio: Option<String>,
    /// Step of size as the model's `limits.resolutions` has it, such as `720p`.
    resolution: Option<String>,
    /// Instead of both: pixels, such as `1280x720`.
    size: Option<String>,
    /// Whether it has sound, where the model makes any.
    #[schema(default = true)]
    generate_audio: Option<bool>,
    /// The picture that is the first frame: an http(s) or data URL. `image_url` is another name of it.
    image: Option<String>,
    /// Pictures: a single one is as `image`; several are subjects, on a model that knows those.
    images: Option<Vec<String>>,
    /// Pictures of subjects that are to appear, at most the model's `limits.max_references`. Not beside `image`.
    reference_images: Option<Vec<String>>,
    /// A film to go on with. What is made is put behind it.
    extend_from: Option<ExtendFrom>,
    /// What it is made from, as the model's `modes` have it; `auto` follows from what is sent.
    #[schema(default = "auto")]
    mode: Option<String>,
    /// Makes the same again, where the model can.
    seed: Option<u64>,
    /// Up to 16 texts under names of your own; the job's record repeats them.
    metadata: Option<BTreeMap<String, String>>,
    /// Where to post that the job has ended: an https URL. docs/webhooks.md says how the post is signed.
    webhook_url: Option<String>,
}

/// What a film goes on with: exactly one of them.
#[derive(Serialize, ToSchema)]
pub struct ExtendFrom {
    /// A finished job of the account that has made a picture or a film.
    job_id: Option<String>,
    /// An http(s) URL of a film.
    video_url: Option<String>,
}
