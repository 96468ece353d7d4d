//! Request and response schemas of the OpenAPI document. `read` parses and validates the requests.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_edge::JobReference;
use utoipa::ToSchema;

/// A request to generate, edit, inpaint or vary images.
#[derive(Serialize, ToSchema)]
pub struct GenerateImages {
    /// Id or alias of an image model. GET /v1/models lists the models. If omitted, the template's
    /// model or the default image model is used.
    model: Option<String>,
    /// Slug of a template. GET /v1/images/templates lists the templates. The template's prompt
    /// wraps yours. Its model and parameters apply where your request has none.
    template: Option<String>,
    /// Description of the image. Required unless `image`, `variation_of` or `template` is set.
    prompt: Option<String>,
    /// Description of content to avoid in the image.
    negative_prompt: Option<String>,
    /// Aspect ratio, width to height, such as `16:9`.
    aspect_ratio: Option<String>,
    /// Resolution, one of the model's `limits.resolutions`, such as `1k`.
    resolution: Option<String>,
    /// Dimensions in pixels, such as `1024x1536`. Cannot be combined with `aspect_ratio` or
    /// `resolution`.
    size: Option<String>,
    /// Number of images to generate. `n` is an alias.
    #[schema(minimum = 1, maximum = 4, default = 1)]
    num_images: Option<u32>,
    /// Images to edit, as http(s) or data URLs. The model's `limits.max_input_images` is the
    /// maximum number.
    image: Option<Vec<String>>,
    /// A PNG mask, as an http(s) or data URL, with the dimensions of the single image in `image`.
    /// The transparent areas are repainted.
    mask: Option<String>,
    /// An image to vary, as an http(s) or data URL.
    variation_of: Option<String>,
    /// Whether the images form a consistent set with the same subjects.
    #[schema(default = false)]
    image_set: Option<bool>,
    /// Quality, one of the model's `limits.qualities`.
    quality: Option<String>,
    /// File format: `png`, `jpeg` or `webp`. If omitted, the images have the format of the model's
    /// output.
    output_format: Option<String>,
    /// Seed for reproducible results, if the model supports it.
    seed: Option<u64>,
    /// Format of the images: `url` for signed URLs that are valid for seven days, `b64_json` for
    /// the image bytes in base64.
    #[schema(default = "url")]
    response_format: Option<String>,
    /// Whether the response contains the images instead of a job to poll. After four minutes, the
    /// response is the job in any case. `wait` is an alias. Defaults to the key's setting, which is
    /// false unless the operator enables it.
    sync: Option<bool>,
    /// Up to 16 custom key-value pairs. The job record returns them.
    metadata: Option<BTreeMap<String, String>>,
    /// An https URL that receives a webhook when the job has ended. docs/webhooks.md describes the
    /// signature.
    webhook_url: Option<String>,
}

/// The form fields of an image edit.
#[derive(Serialize, ToSchema)]
pub struct EditImages {
    /// The images to edit, as PNG, JPEG or WebP files. The model's `limits.max_input_images` is the
    /// maximum number. `image[]` is an alias.
    #[schema(value_type = Vec<String>, format = Binary)]
    image: Vec<Vec<u8>>,
    /// A PNG mask with the dimensions of the single image in `image`. The transparent areas are
    /// repainted.
    #[schema(value_type = Option<String>, format = Binary)]
    mask: Option<Vec<u8>>,
    /// Description of the edited image.
    prompt: Option<String>,
    /// Id or alias of an image model. If omitted, the default image model is used.
    model: Option<String>,
    /// Number of images to generate.
    #[schema(minimum = 1, maximum = 4, default = 1)]
    n: Option<u32>,
    /// Dimensions in pixels, such as `1024x1536`.
    size: Option<String>,
    /// Quality, one of the model's `limits.qualities`.
    quality: Option<String>,
    /// File format: `png`, `jpeg` or `webp`. If omitted, the images have the format of the model's
    /// output.
    output_format: Option<String>,
    /// Format of the images: `url` for signed URLs that are valid for seven days, `b64_json` for
    /// the image bytes in base64.
    #[schema(default = "url")]
    response_format: Option<String>,
    /// Whether the response contains the images instead of a job to poll. Defaults to true.
    #[schema(default = true)]
    sync: Option<bool>,
}

/// The form fields of an image variation.
#[derive(Serialize, ToSchema)]
pub struct VaryImage {
    /// The image to vary, as a PNG, JPEG or WebP file.
    #[schema(value_type = String, format = Binary)]
    image: Vec<u8>,
    /// Id or alias of an image model. If omitted, the default image model is used.
    model: Option<String>,
    /// Number of images to generate.
    #[schema(minimum = 1, maximum = 4, default = 1)]
    n: Option<u32>,
    /// Dimensions in pixels, such as `1024x1536`.
    size: Option<String>,
    /// Format of the images: `url` for signed URLs that are valid for seven days, `b64_json` for
    /// the image bytes in base64.
    #[schema(default = "url")]
    response_format: Option<String>,
    /// Whether the response contains the images instead of a job to poll. Defaults to true.
    #[schema(default = true)]
    sync: Option<bool>,
}

/// A job to poll, or the images of a synchronous request.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum ImagesOrJob {
    /// The accepted job.
    Job(JobReference),
    /// The generated images.
    Images(Images),
}

/// The response to a synchronous image request.
#[derive(Serialize, ToSchema)]
pub struct Images {
    /// Creation time of the images, in seconds since the Unix epoch.
    created: i64,
    /// The generated images.
    data: Vec<Image>,
    /// Usage and cost of the request.
    usage: ImageUsage,
    /// Id of the job that generated the images.
    job_id: String,
}

/// A generated image.
#[derive(Serialize, ToSchema)]
pub struct Image {
    /// Signed URL of the image. Only with response format `url`.
    url: Option<String>,
    /// Time at which the URL expires, RFC 3339 in UTC. Only with response format `url`.
    expires_at: Option<String>,
    /// Bytes of the image in base64. Only with response format `b64_json`.
    b64_json: Option<String>,
    /// Width in pixels.
    width: u32,
    /// Height in pixels.
    height: u32,
    /// Media type, such as `image/png`.
    mime_type: String,
    /// Prompt that the model used, if it differs from yours.
    revised_prompt: Option<String>,
}

/// Usage and cost of an image request.
#[derive(Serialize, ToSchema)]
pub struct ImageUsage {
    /// Input tokens; 0 if the provider reports no tokens.
    input_tokens: u64,
    /// Output tokens of the images; 0 if the provider reports no tokens.
    output_tokens: u64,
    /// Sum of input and output tokens.
    total_tokens: u64,
    /// Cost of the images in credits, as a decimal string.
    cost: String,
}
