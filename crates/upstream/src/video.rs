//! Calls for video generation.

use std::sync::Arc;
use std::time::Duration;

use crate::generation::{GenerationOutput, JobCall, JobProvider, Size, Source};
use crate::provider::Provider;

/// Task of a video call, by its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VideoTask {
    /// Prompt only (t2v).
    FromText,
    /// An image as the first frame (i2v).
    FromImage,
    /// Reference images of subjects to show (r2v).
    FromReferences,
    /// A video to extend.
    Extend,
}

/// A request for a video, with model limits and template defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Task of the call.
    pub task: VideoTask,
    /// The model's name of the task, if the model names it.
    pub mode: Option<Arc<str>>,
    /// Prompt that describes the video and its audio.
    pub prompt: String,
    /// Content to avoid.
    pub negative_prompt: Option<String>,
    /// First frame, for image-to-video.
    pub image: Option<Source>,
    /// Images of subjects to show.
    pub references: Vec<Source>,
    /// The video to extend.
    pub video: Option<Source>,
    /// Duration of the generated video; for an extension, of the new part only.
    pub duration: Duration,
    /// Size in pixels.
    pub size: Size,
    /// Aspect ratio (width to height), such as `16:9`.
    pub aspect_ratio: Arc<str>,
    /// The model's name of the resolution, such as `720p`.
    pub resolution: Arc<str>,
    /// Whether to generate an audio track.
    pub audio: bool,
    /// Seed for reproducible output.
    pub seed: Option<u64>,
}

impl JobCall for VideoCall {
    type Output = GenerationOutput;

    fn provider(provider: &dyn Provider) -> Option<&dyn JobProvider<Self>> {
        provider.videos()
    }

    fn at(&self, upstream_model: Arc<str>) -> Self {
        Self {
            upstream_model,
            ..self.clone()
        }
    }
}
