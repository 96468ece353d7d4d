//! Videos of the simulator: images that blend into each other, with a chord as audio. Equal calls
//! have equal videos. Jobs always end later. ffmpeg creates the file when it is fetched.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tollgate_media_tools::memory::pixels_of;
use tollgate_media_tools::{Dimensions, Image, Palette, Program, Scratch, Sketch, VideoSpec};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{
    CallContext, Content, ContentStream, GenerationOutput, GenerationState, JobProvider, OutputItem,
    Submitted, UpstreamError, VideoCall, VideoTask,
};

use super::Simulator;
use super::ticket::{
    self, StoredImage, Ticket, decode, decode_without_banner, draw_blocking, fault, hash, rejected,
};

/// Frames per second of a video.
const FRAME_RATE: u32 = 24;
/// Duration of an image before it blends into the next.
const STILL_DURATION: Duration = Duration::from_secs(4);
/// Maximum number of images of a video.
const MAX_STILLS: u128 = 6;
/// Maximum side in pixels and maximum file size in bytes of an image in a handle.
const IMAGE_COPY_LIMITS: (u32, usize) = (640, 40 << 10);
/// Size of a chunk of the file, in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Programs that video generation needs.
const PROGRAMS: [Program; 2] = [Program::Ffmpeg, Program::Ffprobe];
/// Comment in every video file.
const NOTE: &str = "Simulated by the built-in simulator of Tollgate";

/// A video job, as stored in its handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct VideoJob {
    title: String,
    seed: u64,
    width: u32,
    height: u32,
    duration_ms: u64,
    audio: bool,
    /// First frame of the video, if given.
    first: Option<StoredImage>,
    /// First reference image, if given and if the video has no first frame.
    reference: Option<StoredImage>,
    /// Whether to remove the banner of another video from the first frame.
    #[serde(default)]
    hides_banner: bool,
}

#[async_trait]
impl JobProvider<VideoCall> for Simulator {
    fn is_idempotent(&self) -> bool {
        true
    }

    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        if call.task == VideoTask::Extend {
            let message = "The model cannot extend videos.";
            return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("extend_from"));
        }
        self.tools.need(&PROGRAMS).map_err(|error| {
            let message = "The simulator cannot create videos: a required program is not installed.";
            Error::new(ErrorCode::ModelUnavailable, message).with_source(error.to_string())
        })
    }

    async fn submit(
        &self,
        _ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let (script, user_text) = ticket::script(&call.prompt)?;
        self.tools.need(&PROGRAMS).map_err(fault)?;
        let (image, reference) = (call.image.clone(), call.references.first().cloned());
        let work = VideoJob::of(call, &user_text, script.size);
        let spec = work.spec().map_err(fault)?;
        spec.check(work.count())
            .map_err(|error| rejected(error, "size"))?;
        let sources = image.iter().chain(&reference);
        let pixels = sources.map(|source| pixels_of(&source.bytes)).sum();
        let work = draw_blocking(pixels, move || {
            let (longest, max) = IMAGE_COPY_LIMITS;
            let stored = |image: &Image| StoredImage::shrunk(image, longest, max);
            let first = image.map(|image| decode(&image, "image")).transpose()?;
            let hides_banner = first.as_ref().and_then(Sketch::without_banner).is_some();
            let first = first.map(|first| stored(&first)).transpose()?;
            // A handle stores only one image, because its size is limited.
            let reference = reference.filter(|_| first.is_none());
            let reference = reference
                .map(|one| stored(&decode_without_banner(&one, "references")?))
                .transpose()?;
            Ok(VideoJob {
                first,
                reference,
                hides_banner,
                ..work
            })
        });
        let ticket = Ticket::new(&script, key, self.clock.now(), work.await?);
        Ok(Submitted::Accepted {
            handle: ticket.handle()?,
            poll_after: ticket.poll_after(&script),
        })
    }

    async fn poll(&self, _ctx: &CallContext, handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        let ticket: Ticket<VideoJob> = Ticket::read(handle)?;
        if self.cancelled.has(handle) {
            return Ok(GenerationState::Cancelled);
        }
        if let Some(state) = ticket.state(self.clock.now()) {
            return Ok(state);
        }
        let item = OutputItem {
            content: Content::Upstream(String::from_utf8_lossy(handle).into_owned()),
            revised_prompt: None,
        };
        Ok(GenerationState::Completed(GenerationOutput {
            items: vec![item],
            usage: None,
        }))
    }

    async fn cancel(&self, _ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let ticket: Ticket<VideoJob> = Ticket::read(handle)?;
        if let Some(GenerationState::Running { .. }) = ticket.state(self.clock.now()) {
            self.cancelled.add(handle);
        }
        Ok(())
    }

    async fn fetch(&self, _ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        let ticket: Ticket<VideoJob> = Ticket::read(own.as_bytes())?;
        let work = ticket.work;
        let still = Dimensions::new(work.width, work.height).pixels();
        let pixels = still.saturating_mul(work.count() as u64);
        let drawn = draw_blocking(pixels, move || Ok((work.spec().map_err(fault)?, work.stills()?)));
        let (spec, stills) = drawn.await?;
        let scratch = Scratch::make().map_err(fault)?;
        let path = scratch.file("video.mp4");
        self.tools
            .make_video(&spec, &stills, &path)
            .await
            .map_err(fault)?;
        let video = tokio::fs::read(&path).await;
        let video = Bytes::from(video.map_err(|error| fault(error.into()))?);
        let starts = (0..video.len()).step_by(CHUNK_BYTES);
        let items: Vec<Bytes> = starts
            .map(|start| video.slice(start..video.len().min(start + CHUNK_BYTES)))
            .collect();
        Ok(Box::pin(stream::iter(items.into_iter().map(Ok))))
    }
}

impl VideoJob {
    fn of(call: &VideoCall, user_text: &str, scripted: Option<(u32, u32)>) -> Self {
        let (width, height) = scripted.unwrap_or((call.size.width, call.size.height));
        let negative = call.negative_prompt.as_deref().unwrap_or_default();
        let number = call.seed.unwrap_or_default().to_le_bytes();
        Self {
            title: ticket::title(user_text),
            seed: hash(&[user_text.as_bytes(), negative.as_bytes(), &number]),
            width,
            height,
            duration_ms: u64::try_from(call.duration.as_millis()).unwrap_or(u64::MAX),
            audio: call.audio,
            first: None,
            reference: None,
            hides_banner: false,
        }
    }

    fn sketch(&self) -> Sketch {
        let size = Dimensions::new(self.width, self.height);
        Sketch {
            hides_banner: self.hides_banner,
            ..Sketch::new(size, self.seed, self.title.as_str())
        }
    }

    fn spec(&self) -> tollgate_media_tools::error::Result<VideoSpec> {
        Ok(VideoSpec {
            size: Dimensions::new(self.width, self.height),
            duration: Duration::from_millis(self.duration_ms),
            rate: FRAME_RATE,
            audio: self.audio.then_some(self.seed),
            banner: Some(self.sketch().banner()?),
            note: Some(NOTE),
        })
    }

    /// Returns the number of images of a video that has no first frame.
    fn count(&self) -> usize {
        let stills = u128::from(self.duration_ms)
            .div_ceil(STILL_DURATION.as_millis())
            .clamp(1, MAX_STILLS);
        usize::try_from(stills).unwrap_or(1)
    }

    fn stills(&self) -> Result<Vec<Image>, UpstreamError> {
        if let Some(first) = &self.first {
            return Ok(vec![first.image()?]);
        }
        let reference = self.reference.as_ref().map(StoredImage::image).transpose()?;
        let count = u32::try_from(self.count()).unwrap_or(1);
        let stills = (1..=count).map(|number| {
            let sketch = Sketch {
                number: Some((number, count)),
                palette: reference.as_ref().map(Palette::of),
                ..self.sketch()
            };
            let scene = sketch.scene().map_err(fault)?;
            Ok(match &reference {
                Some(reference) => reference.covering(sketch.size).blended(&scene, 0.55),
                None => scene,
            })
        });
        stills.collect()
    }
}

#[cfg(test)]
mod tests;
