//! What is asked of models that make pictures.

use std::sync::Arc;

use crate::make::{Size, Source};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageTask {
    /// From the prompt alone.
    Generate,
    /// From pictures, as the prompt says.
    Edit,
    /// A picture again where the mask is transparent.
    Inpaint,
    /// A picture that is like another.
    Vary,
}

/// How a picture is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// Every format.
    pub const ALL: [ImageFormat; 3] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Webp];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ImageFormat::Png => "png",
            ImageFormat::Jpeg => "jpeg",
            ImageFormat::Webp => "webp",
        }
    }

    /// The format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// Its media type.
    pub const fn mime_type(self) -> &'static str {
        match self {
            ImageFormat::Png => "image/png",
            ImageFormat::Jpeg => "image/jpeg",
            ImageFormat::Webp => "image/webp",
        }
    }
}

/// A request for pictures, with everything resolved that the model's limits and the template say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCall {
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// What is to be done.
    pub task: ImageTask,
    /// What is to be seen. Empty only where pictures say it.
    pub prompt: String,
    /// What is not to be seen.
    pub negative_prompt: Option<String>,
    /// What it is made from, in the caller's order: none to generate, one to vary or inpaint.
    pub images: Vec<Source>,
    /// Where it is transparent the picture is made again.
    pub mask: Option<Source>,
    /// How many, at most as many as the upstream makes at once.
    pub count: u32,
    /// Whether they belong together: the same subjects, told on.
    pub set: bool,
    /// How large; `None` where the model chooses.
    pub size: Option<Size>,
    /// The ratio of width to height as the caller wrote it, such as `16:9`.
    pub aspect_ratio: Option<Arc<str>>,
    /// The step of size as the model names it, such as `2k`.
    pub resolution: Option<Arc<str>>,
    /// A step of quality as the model names it.
    pub quality: Option<Arc<str>>,
    /// How it is to be encoded, where the upstream can; else the gateway encodes it again.
    pub format: Option<ImageFormat>,
    /// Makes the same again.
    pub seed: Option<u64>,
}
