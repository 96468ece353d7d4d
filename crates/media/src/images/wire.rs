//! The shapes of request and answer, for the API document. The rules are in `read`.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::jobs::JobReference;

/// A request for pictures.
#[derive(Serialize, ToSchema)]
pub struct GenerateImages {
    /// Id or alias of an image model; GET /v1/models lists them. Without one the template's or the service's usual model
    /// serves.
    model: Option<String>,
    /// Slug of a template, one of GET /v1/images/templates: its prompt goes around yours, its model serves where you name
    /// none, and its parameters stand where you say nothing.
    template: Option<String>,
    /// What is to be seen. Needed unless there is a picture, a variation or a template.
    prompt: Option<String>,
    /// What is not to be seen.
    negative_prompt: Option<String>,
    /// Ratio of width to height, such as `16:9`.
    aspect_ratio: Option<String>,
    /// Step of size as the model's `limits.resolutions` has it, such as `1k`.
    resolution: Option<String>,
    /// Instead of both: pixels, such as `1024x1536`.
    size: Option<String>,
    /// How many; `n` is another name of it.
    #[schema(minimum = 1, maximum = 4, default = 1)]
    num_images: Option<u32>,
    /// Pictures to edit: http(s) or data URLs, as many as the model's `limits.max_input_images`.
    image: Option<Vec<String>>,
    /// A PNG as large as the one picture in `image`: it is made again where this is transparent.
    mask: Option<String>,
    /// A picture to vary.
    variation_of: Option<String>,
    /// Whether the pictures belong together: the same subjects, told on.
    #[schema(default = false)]
    image_set: Option<bool>,
    /// Step of quality as the model's `limits.qualities` has it.
    quality: Option<String>,
    /// `png`, `jpeg` or `webp`; as the model gives it when it is not said.
    output_format: Option<String>,
    /// Makes the same again, where the model can.
    seed: Option<u64>,
    /// `url`, an address that can be opened for seven days, or `b64_json`.
    #[schema(default = "url")]
    response_format: Option<String>,
    /// Whether to answer with the pictures; after four minutes with the job in any case. `wait` is another name of it. Without it
    /// the key says so, usually false.
    sync: Option<bool>,
    /// Up to 16 texts under names of your own; the job's record repeats them.
    metadata: Option<BTreeMap<String, String>>,
    /// Where to post that the job has ended: an https URL. docs/webhooks.md says how the post is signed.
    webhook_url: Option<String>,
}

/// A job, or with `sync` the pictures.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum ImagesOrJob {
    /// Poll it.
    Job(JobReference),
    /// They are made.
    Images(Images),
}

/// Pictures.
#[derive(Serialize, ToSchema)]
pub struct Images {
    /// When they were made, in seconds since the epoch.
    created: i64,
    /// Each of them.
    data: Vec<Image>,
    /// What they consumed and cost.
    usage: ImageUsage,
    /// The job that made them.
    job_id: String,
}

/// A picture.
#[derive(Serialize, ToSchema)]
pub struct Image {
    /// Where it is, with `url`.
    url: Option<String>,
    /// When the address ends.
    expires_at: Option<String>,
    /// Its bytes, with `b64_json`.
    b64_json: Option<String>,
    /// In pixels.
    width: u32,
    /// In pixels.
    height: u32,
    /// Such as `image/png`.
    mime_type: String,
    /// The prompt that was used, when the model has changed it.
    revised_prompt: Option<String>,
}

/// What pictures consumed and cost.
#[derive(Serialize, ToSchema)]
pub struct ImageUsage {
    /// Tokens that went in, for models that are priced by tokens.
    input_tokens: u64,
    /// Tokens of the pictures.
    output_tokens: u64,
    /// Both.
    total_tokens: u64,
    /// What the pictures cost, in credits as a decimal string.
    cost: String,
}
