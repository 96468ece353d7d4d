//! Calls for image generation.

use std::sync::Arc;

use crate::generation::{GenerationOutput, JobCall, JobProvider, Size, Source};
use crate::provider::Provider;

/// Task of an image call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageTask {
    /// Generate from the prompt alone.
    Generate,
    /// Edit images according to the prompt.
    Edit,
    /// Regenerate the transparent areas of the mask.
    Inpaint,
    /// Generate a variation of an image.
    Vary,
}

/// Encoding of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// PNG: lossless, media type `image/png`.
    Png,
    /// JPEG: lossy, media type `image/jpeg`.
    Jpeg,
    /// WebP: media type `image/webp`.
    Webp,
}

impl ImageFormat {
    /// All image formats.
    pub const ALL: [ImageFormat; 3] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Webp];

    /// Returns the name in the API, such as `png`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ImageFormat::Png => "png",
            ImageFormat::Jpeg => "jpeg",
            ImageFormat::Webp => "webp",
        }
    }

    /// Returns the format with this API name; `None` if unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// Returns the media type, such as `image/png`.
    pub const fn mime_type(self) -> &'static str {
        match self {
            ImageFormat::Png => "image/png",
            ImageFormat::Jpeg => "image/jpeg",
            ImageFormat::Webp => "image/webp",
        }
    }
}

/// A request for images, with model limits and template defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Task of the call.
    pub task: ImageTask,
    /// Prompt of the call; empty only if the task needs none.
    pub prompt: String,
    /// Content to avoid.
    pub negative_prompt: Option<String>,
    /// Input images, in the caller's order: none for generation, exactly one for a variation or for
    /// inpainting.
    pub images: Vec<Source>,
    /// Mask for inpainting; its transparent areas are regenerated.
    pub mask: Option<Source>,
    /// Number of images, within the upstream's maximum per request.
    pub count: u32,
    /// Whether the images form a series with the same subjects.
    pub set: bool,
    /// Size in pixels; `None` if the model chooses.
    pub size: Option<Size>,
    /// Aspect ratio (width to height) as the caller wrote it, such as `16:9`.
    pub aspect_ratio: Option<Arc<str>>,
    /// The model's name of the resolution, such as `2k`.
    pub resolution: Option<Arc<str>>,
    /// The model's name of the quality level.
    pub quality: Option<Arc<str>>,
    /// Requested encoding. If the upstream does not support it, the gateway converts the images.
    pub format: Option<ImageFormat>,
    /// Seed for reproducible output.
    pub seed: Option<u64>,
}

impl JobCall for ImageCall {
    type Output = GenerationOutput;

    fn provider(provider: &dyn Provider) -> Option<&dyn JobProvider<Self>> {
        provider.images()
    }

    fn at(&self, upstream_model: Arc<str>) -> Self {
        Self {
            upstream_model,
            ..self.clone()
        }
    }
}
