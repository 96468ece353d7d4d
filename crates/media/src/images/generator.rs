//! The [`MediaGenerator`] of image jobs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tollgate_media_tools::image::{self, Encoding, Image};
use tollgate_media_tools::memory::{pixels_of, with_pixels};
use tollgate_pipeline::provider_job::OutputError;
use tollgate_storage::{Job, blob};
use tollgate_types::{Error, MediaId, Unit, Usage};
use tollgate_upstream::{ImageCall, ImageFormat, ImageTask, Size, UpstreamError};

use crate::generation::{MediaGenerator, MediaJobs, OutputContent};
use crate::input;
use crate::job_payload::{JobPayload, StoredMedia};
use crate::storage::{Facts, RETENTION};

/// Job kind of image generations.
pub(crate) const KIND: &str = "image.generation";

/// Maximum size of an image that is streamed from a provider, in bytes: 64 MiB.
const MAX_IMAGE_BYTES: usize = 64 << 20;

/// Generates images with image models.
pub(crate) struct ImageGenerator;

/// Parameters of an image generation, as stored in the job payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Params {
    pub(crate) task: Task,
    pub(crate) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) negative_prompt: Option<String>,
    #[serde(default)]
    pub(crate) images: Vec<MediaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mask: Option<MediaId>,
    pub(crate) set: bool,
    pub(crate) size: Option<(u32, u32)>,
    pub(crate) aspect_ratio: Option<String>,
    pub(crate) resolution: Option<String>,
    pub(crate) quality: Option<String>,
    pub(crate) format: Option<Format>,
    pub(crate) seed: Option<u64>,
    pub(crate) inline: bool,
    /// Billable quantity of one image, in millionths of an image at the base price.
    pub(crate) each: u64,
}

/// Serialized form of [`ImageTask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    Generate,
    Edit,
    Inpaint,
    Vary,
}

/// Serialized form of [`ImageFormat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    Png,
    Jpeg,
    Webp,
}

impl From<ImageFormat> for Format {
    fn from(format: ImageFormat) -> Self {
        match format {
            ImageFormat::Png => Format::Png,
            ImageFormat::Jpeg => Format::Jpeg,
            ImageFormat::Webp => Format::Webp,
        }
    }
}

impl Format {
    fn requested(self) -> ImageFormat {
        match self {
            Format::Png => ImageFormat::Png,
            Format::Jpeg => ImageFormat::Jpeg,
            Format::Webp => ImageFormat::Webp,
        }
    }

    fn encoding(self) -> Encoding {
        match self {
            Format::Png => Encoding::Png,
            Format::Jpeg => Encoding::Jpeg(image::DEFAULT_QUALITY),
            Format::Webp => Encoding::Webp,
        }
    }
}

impl Params {
    /// Builds the provider call, without the input images.
    pub(crate) fn call(&self, count: u32) -> ImageCall {
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        ImageCall {
            upstream_model: Arc::from(""),
            task: match self.task {
                Task::Generate => ImageTask::Generate,
                Task::Edit => ImageTask::Edit,
                Task::Inpaint => ImageTask::Inpaint,
                Task::Vary => ImageTask::Vary,
            },
            prompt: self.prompt.clone(),
            negative_prompt: self.negative_prompt.clone(),
            images: Vec::new(),
            mask: None,
            count,
            set: self.set,
            size: self.size.map(|(width, height)| Size { width, height }),
            aspect_ratio: text(&self.aspect_ratio),
            resolution: text(&self.resolution),
            quality: text(&self.quality),
            format: self.format.map(Format::requested),
            seed: self.seed,
        }
    }
}

#[async_trait]
impl MediaGenerator for ImageGenerator {
    type Params = Params;
    type Call = ImageCall;
    const KIND: &'static str = KIND;
    const SUBMIT_TIMEOUT: Duration = Duration::from_secs(600);
    const MAX_DURATION: Duration = Duration::from_secs(1_800);

    async fn call(
        &self,
        media_jobs: &MediaJobs,
        job: &Job,
        payload: &JobPayload<Params>,
        count: u32,
    ) -> Result<ImageCall, Error> {
        let params = &payload.params;
        let mut call = params.call(count);
        for id in &params.images {
            call.images
                .push(input::stored(&media_jobs.storage, job.account, *id).await?);
        }
        if let Some(id) = params.mask {
            call.mask = Some(input::stored(&media_jobs.storage, job.account, id).await?);
        }
        Ok(call)
    }

    async fn store(
        &self,
        media_jobs: &MediaJobs,
        job: &Job,
        payload: &JobPayload<Params>,
        content: OutputContent,
    ) -> Result<StoredMedia, OutputError> {
        let bytes = collect(content).await?;
        let (format, requested) = (payload.params.format, payload.params.size);
        // An output that is not converted needs no memory for its pixels.
        let pixels = match format.map(Format::encoding) {
            Some(wanted) if Encoding::of(&bytes).map(Encoding::mime_type) != Some(wanted.mime_type()) => {
                pixels_of(&bytes)
            }
            _ => 0,
        };
        let finished = with_pixels(pixels, move || finish(bytes, format, requested)).await;
        let (bytes, facts) = finished.map_err(|error| OutputError::Wrong(error.to_string()))??;
        let source = job.terms.id.as_u128();
        let stored =
            media_jobs
                .storage
                .store(job.account, blob::whole(bytes), facts.clone(), source, RETENTION);
        let media = stored.await.map_err(OutputError::Storage)?;
        Ok(StoredMedia {
            media: media.id,
            mime_type: facts.mime_type,
            width: facts.width.unwrap_or_default(),
            height: facts.height.unwrap_or_default(),
            duration: None,
            generated: None,
            revised_prompt: None,
        })
    }

    fn generated(&self, params: &Params, stored: &[StoredMedia], withheld: u32) -> Usage {
        let count = stored.len() as u64 + u64::from(withheld);
        Usage::ZERO.with(Unit::Image, count.saturating_mul(params.each))
    }

    fn is_inline(&self, params: &Params) -> bool {
        params.inline
    }
}

async fn collect(content: OutputContent) -> Result<Bytes, OutputError> {
    let mut stream = match content {
        OutputContent::Whole(bytes) => return Ok(bytes),
        OutputContent::Stream(stream) => stream,
    };
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await {
        let part = part.map_err(OutputError::Missing)?;
        if bytes.len() + part.len() > MAX_IMAGE_BYTES {
            return Err(OutputError::Missing(UpstreamError::protocol(
                "the image is too large",
            )));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.into())
}

/// Checks the size of an output and converts the output to the requested format, if necessary.
fn finish(
    bytes: Bytes,
    format: Option<Format>,
    requested: Option<(u32, u32)>,
) -> Result<(Bytes, Facts), OutputError> {
    let wrong = |error: tollgate_media_tools::Error| OutputError::Wrong(error.to_string());
    let size = image::dimensions(&bytes).map_err(wrong)?;
    // A model may round the aspect ratio and lose some rows of pixels. An image with less than 80 %
    // of the requested pixels is rejected, because it is smaller than billed.
    let min_pixels = requested.map_or(0, |(width, height)| u64::from(width) * u64::from(height) * 4 / 5);
    if size.pixels() < min_pixels {
        return Err(OutputError::Wrong(format!(
            "{}x{} pixels, which is too small",
            size.width, size.height
        )));
    }
    let known = Encoding::of(&bytes).ok_or_else(|| OutputError::Wrong("not an image".to_owned()))?;
    let (bytes, mime_type) = match format.map(Format::encoding) {
        Some(wanted) if wanted.mime_type() != known.mime_type() => {
            let image = Image::decode(&bytes).map_err(wrong)?;
            (
                Bytes::from(image.encode(wanted).map_err(wrong)?),
                wanted.mime_type(),
            )
        }
        _ => (bytes, known.mime_type()),
    };
    let facts = Facts {
        mime_type: mime_type.to_owned(),
        width: Some(size.width),
        height: Some(size.height),
        duration: None,
    };
    Ok((bytes, facts))
}
