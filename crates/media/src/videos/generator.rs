//! The [`MediaGenerator`] of video jobs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_catalog::Factor;
use tollgate_media_tools::{Probe, Scratch};
use tollgate_pipeline::provider_job::OutputError;
use tollgate_storage::blob::BlobContent;
use tollgate_storage::{Job, StorageError, StorageErrorKind};
use tollgate_types::{Error, MediaId, Unit, Usage};
use tollgate_upstream::{Size, UpstreamError, VideoCall, VideoTask};

use super::extend::area;
use crate::generation::{MediaGenerator, MediaJobs, OutputContent};
use crate::input;
use crate::job_payload::{JobPayload, StoredMedia};
use crate::storage::{Facts, MAX_OBJECT_BYTES, RETENTION};

/// Job kind of video generations.
pub(crate) const KIND: &str = "video.generation";

/// Maximum size of the chunks in which a file is read, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// Generates videos with video models.
pub(crate) struct VideoGenerator;

/// Parameters of a video generation, as stored in the job payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Params {
    pub(crate) task: Task,
    pub(crate) mode: Option<String>,
    pub(crate) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) negative_prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<MediaId>,
    #[serde(default)]
    pub(crate) references: Vec<MediaId>,
    /// Source video that the job extends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<MediaId>,
    /// Size of the source video, in pixels. The complete video has this size if the gateway joins
    /// both parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before_size: Option<(u32, u32)>,
    /// Whether the gateway appends the generated part to the source, because no provider can extend
    /// the video.
    #[serde(default)]
    pub(crate) is_joined: bool,
    pub(crate) duration: Duration,
    pub(crate) size: (u32, u32),
    pub(crate) aspect_ratio: String,
    pub(crate) resolution: String,
    pub(crate) audio: bool,
    pub(crate) seed: Option<u64>,
    /// Billable quantity of one second, in millionths of a second at the base price.
    pub(crate) each: u64,
    /// Id of the original video, if this is a remix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remixed_from: Option<String>,
}

/// Serialized form of [`VideoTask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    FromText,
    FromImage,
    FromReferences,
    Extend,
}

impl Task {
    /// Returns the standard mode of the task. `Extend` counts as image to video.
    pub(super) fn mode(self) -> &'static str {
        match self {
            Task::FromText => "t2v",
            Task::FromImage | Task::Extend => "i2v",
            Task::FromReferences => "r2v",
        }
    }

    fn requested(self) -> VideoTask {
        match self {
            Task::FromText => VideoTask::FromText,
            Task::FromImage => VideoTask::FromImage,
            Task::FromReferences => VideoTask::FromReferences,
            Task::Extend => VideoTask::Extend,
        }
    }
}

impl Params {
    /// Builds the provider call, without the input media.
    pub(crate) fn call(&self) -> VideoCall {
        VideoCall {
            upstream_model: Arc::from(""),
            task: self.task.requested(),
            mode: self.mode.as_deref().map(Arc::from),
            prompt: self.prompt.clone(),
            negative_prompt: self.negative_prompt.clone(),
            image: None,
            references: Vec::new(),
            video: None,
            duration: self.duration,
            size: Size {
                width: self.size.0,
                height: self.size.1,
            },
            aspect_ratio: Arc::from(self.aspect_ratio.as_str()),
            resolution: Arc::from(self.resolution.as_str()),
            audio: self.audio,
            seed: self.seed,
        }
    }

    /// Returns the minimum number of pixels of the output: 80 % of the requested size, or of the
    /// source's size if the provider extends the source itself and the source is smaller.
    fn min_area(&self) -> u64 {
        let whole = self.before_size.filter(|_| !self.is_joined).map(area);
        area(self.size).min(whole.unwrap_or(u64::MAX)) * 4 / 5
    }

    /// Returns the maximum usage of the job.
    pub(super) fn max_usage(&self) -> Usage {
        Usage::ZERO.with(Unit::Video, self.counts(self.duration))
    }

    /// Returns the billable quantity of a duration. At most the requested duration is billed.
    fn counts(&self, duration: Duration) -> u64 {
        let micros = u64::try_from(duration.min(self.duration).as_micros()).unwrap_or(u64::MAX);
        Factor::from_millionths(self.each).of(micros)
    }
}

#[async_trait]
impl MediaGenerator for VideoGenerator {
    type Params = Params;
    type Call = VideoCall;
    const KIND: &'static str = KIND;
    const SUBMIT_TIMEOUT: Duration = Duration::from_secs(300);
    const MAX_DURATION: Duration = Duration::from_secs(7_200);

    async fn call(
        &self,
        media_jobs: &MediaJobs,
        job: &Job,
        payload: &JobPayload<Params>,
        _: u32,
    ) -> Result<VideoCall, Error> {
        let params = &payload.params;
        let mut call = params.call();
        if let Some(id) = params.image {
            call.image = Some(input::stored(&media_jobs.storage, job.account, id).await?);
        }
        for id in &params.references {
            call.references
                .push(input::stored(&media_jobs.storage, job.account, *id).await?);
        }
        if let Some(id) = params.before.filter(|_| !params.is_joined) {
            call.video = Some(input::stored(&media_jobs.storage, job.account, id).await?);
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
        let params = &payload.params;
        let scratch = Scratch::make().map_err(file)?;
        let generated = scratch.file("made.mp4");
        write(content, &generated).await?;
        let mime_type = mime_of(&generated).await?;
        let probe = probe_output(media_jobs, &generated).await?;
        let (size, duration) = match &probe {
            Some(probe) => measured(probe)?,
            None => (params.size, params.duration),
        };
        if area(size) < params.min_area() {
            return Err(OutputError::Wrong(format!(
                "a video of {}x{}, which is too small",
                size.0, size.1
            )));
        }
        // Without ffprobe, a video that the provider extended is stored unchanged.
        let before = params.before.filter(|_| params.is_joined || probe.is_some());
        let (place, size, whole, new) = match before {
            None => (generated, size, duration, duration),
            Some(before) => {
                let first = scratch.file("before.mp4");
                let stored = media_jobs.storage.read(job.account, before).await;
                let (_, bytes) = stored.map_err(OutputError::Storage)?.ok_or_else(|| {
                    OutputError::Wrong(format!("the source video {before} no longer exists"))
                })?;
                write(OutputContent::Whole(bytes), &first).await?;
                let new = match params.is_joined {
                    true => None,
                    false => {
                        let (_, earlier) =
                            measured(&media_jobs.tools.probe(&first).await.map_err(probe_error)?)?;
                        new_duration(duration, earlier, params.duration)
                    }
                };
                if let Some(new) = new {
                    (generated, size, duration, new)
                } else {
                    let joined = scratch.file("joined.mp4");
                    media_jobs
                        .tools
                        .join(&first, &generated, &joined)
                        .await
                        .map_err(probe_error)?;
                    let probe = media_jobs.tools.probe(&joined).await.map_err(probe_error)?;
                    let (size, whole) = measured(&probe)?;
                    (joined, size, whole, duration)
                }
            }
        };
        let facts = Facts {
            mime_type: mime_type.to_owned(),
            width: Some(size.0),
            height: Some(size.1),
            duration: Some(whole),
        };
        let content = read(&place).await?;
        let source = job.terms.id.as_u128();
        let stored = media_jobs
            .storage
            .store(job.account, content, facts, source, RETENTION)
            .await;
        let media = stored.map_err(OutputError::Storage)?;
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).ok();
        Ok(StoredMedia {
            media: media.id,
            mime_type: media.mime_type,
            width: size.0,
            height: size.1,
            duration: micros(whole),
            generated: micros(new),
            revised_prompt: None,
        })
    }

    fn generated(&self, params: &Params, stored: &[StoredMedia], withheld: u32) -> Usage {
        let generated = stored
            .iter()
            .filter_map(|stored| stored.generated)
            .map(Duration::from_micros);
        let withheld = std::iter::repeat_n(params.duration, withheld as usize);
        let counted = generated.chain(withheld).map(|duration| params.counts(duration));
        Usage::ZERO.with(Unit::Video, counted.fold(0, u64::saturating_add))
    }

    fn is_inline(&self, _: &Params) -> bool {
        false
    }
}

/// Probes a video; returns `None` if ffprobe is not installed.
async fn probe_output(media_jobs: &MediaJobs, path: &Path) -> Result<Option<Probe>, OutputError> {
    match media_jobs.tools.probe(path).await {
        Ok(probe) => Ok(Some(probe)),
        Err(tollgate_media_tools::Error::Missing(_)) => Ok(None),
        Err(error) => Err(probe_error(error)),
    }
}

/// Returns the duration of the new part if the output contains the source and the new part; `None`
/// if the output is only the new part. The output is assumed to be the variant whose expected
/// duration is nearer to the output's duration.
fn new_duration(generated: Duration, earlier: Duration, requested: Duration) -> Option<Duration> {
    let has_both = generated.abs_diff(earlier + requested) < generated.abs_diff(requested);
    has_both.then(|| generated.saturating_sub(earlier))
}

fn measured(probe: &Probe) -> Result<((u32, u32), Duration), OutputError> {
    let video = probe.video().map_err(probe_error)?;
    Ok(((video.size.width, video.size.height), video.duration))
}

fn probe_error(error: tollgate_media_tools::Error) -> OutputError {
    match error {
        tollgate_media_tools::Error::File(error) => file(error),
        other => OutputError::Wrong(other.to_string()),
    }
}

fn file(error: impl std::fmt::Display) -> OutputError {
    OutputError::Storage(StorageError::new(
        StorageErrorKind::Unavailable,
        error.to_string(),
    ))
}

/// Writes an output to a file. Returns an error if the output exceeds [`MAX_OBJECT_BYTES`].
pub(crate) async fn write(content: OutputContent, path: &Path) -> Result<(), OutputError> {
    let mut stream = match content {
        OutputContent::Whole(bytes) => Box::pin(stream::once(async move { Ok(bytes) })),
        OutputContent::Stream(stream) => stream,
    };
    let mut place = File::create(path).await.map_err(file)?;
    let mut length = 0;
    while let Some(part) = stream.next().await {
        let part = part.map_err(OutputError::Missing)?;
        length += part.len() as u64;
        if length > MAX_OBJECT_BYTES {
            return Err(OutputError::Missing(UpstreamError::protocol(
                "the video is too large",
            )));
        }
        place.write_all(&part).await.map_err(file)?;
    }
    place.flush().await.map_err(file)
}

/// Detects the media type of a video from its first bytes. Returns an error for other files.
async fn mime_of(path: &Path) -> Result<&'static str, OutputError> {
    let mut head = [0; 12];
    let mut video = File::open(path).await.map_err(file)?;
    let is_long_enough = video.read_exact(&mut head).await.is_ok();
    match &head {
        [_, _, _, _, b'f', b't', b'y', b'p', ..] if is_long_enough => Ok("video/mp4"),
        [0x1a, 0x45, 0xdf, 0xa3, ..] if is_long_enough => Ok("video/webm"),
        _ => Err(OutputError::Wrong("not a video".to_owned())),
    }
}

/// Opens a file as a stream of chunks.
pub(crate) async fn read(path: &Path) -> Result<BlobContent, OutputError> {
    let video = File::open(path).await.map_err(file)?;
    Ok(Box::pin(stream::unfold(Some(video), async |video| {
        let mut video = video?;
        let mut chunk = vec![0; CHUNK_BYTES];
        match video.read(&mut chunk).await {
            Ok(0) => None,
            Ok(length) => {
                chunk.truncate(length);
                Some((Ok(chunk.into()), Some(video)))
            }
            Err(error) => {
                let error = StorageError::new(StorageErrorKind::Unavailable, error.to_string());
                Some((Err(error), None))
            }
        }
    })))
}
