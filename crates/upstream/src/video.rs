//! What is asked of models that make films.

use std::sync::Arc;
use std::time::Duration;

use crate::make::{Size, Source};

/// What a film is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VideoTask {
    /// The prompt alone (t2v).
    FromText,
    /// A picture that is its first frame (i2v).
    FromImage,
    /// Pictures of subjects that are to appear (r2v).
    FromReferences,
    /// A film that it goes on with.
    Extend,
}

/// A request for a film, with everything resolved that the model's limits and the template say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoCall {
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// What it is made from.
    pub task: VideoTask,
    /// The model's own name for that, where it has one.
    pub mode: Option<Arc<str>>,
    /// What is to be seen and heard.
    pub prompt: String,
    /// What is not.
    pub negative_prompt: Option<String>,
    /// The first frame.
    pub image: Option<Source>,
    /// Subjects that are to appear.
    pub references: Vec<Source>,
    /// The film that it goes on with.
    pub video: Option<Source>,
    /// How long the new part is.
    pub duration: Duration,
    /// How large.
    pub size: Size,
    /// The ratio of width to height, such as `16:9`.
    pub aspect_ratio: Arc<str>,
    /// The step of size as the model names it, such as `720p`.
    pub resolution: Arc<str>,
    /// Whether it has sound.
    pub audio: bool,
    /// Makes the same again.
    pub seed: Option<u64>,
}
