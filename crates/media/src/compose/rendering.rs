//! Renders a composition. Each scene is rendered as a segment and stored. Then the segments are
//! joined with voices and music. The final video is inspected before the job completes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_jobs::Work;
use tollgate_media_tools::image::Image;
use tollgate_media_tools::memory::{pixels_of, with_pixels};
use tollgate_media_tools::{
    AudioClip, Caption, CutScene, CutSpec, Dimensions, Music, SceneSpec, Scratch, Sketch, captions,
};
use tollgate_storage::{UsagePart, blob};
use tollgate_types::{Error, ErrorCode, MediaId};

use super::job::{CompositionHandler, FIRST_SEGMENT_STEP, FRAME_RATE, LEAD_IN, ReadyScene, VIDEO_STEP};
use super::parallel_steps::{Meter, Stage, StopReason};
use super::payload::{Composed, Composition, Measured, PriceLine, Segment, Subtitles};
use super::storyboard::{self, Storyboard};
use crate::job_payload::StoredMedia;
use crate::storage::{Facts, INPUT_RETENTION, RETENTION};
use crate::videos::read_video;

/// Maximum number of segments that are rendered concurrently. The number is small, because each
/// encoder uses all cores.
const MAX_CONCURRENT_SEGMENTS: usize = 2;
/// Volume of the audio of the caller's videos; 1 leaves it unchanged.
const SOURCE_AUDIO_VOLUME: f64 = 1.0;

/// Outcome of the video step: the stored video and its subtitles.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct RenderedVideo {
    #[serde(rename = "kept")]
    stored: StoredMedia,
    subtitles: Option<Subtitles>,
    measured: Measured,
}

impl CompositionHandler {
    pub(super) async fn segments(
        &self,
        work: &Work,
        board: &Storyboard,
        size: Dimensions,
        ready: &[ReadyScene<'_>],
    ) -> Result<Vec<Segment>, StopReason> {
        let stage = Stage {
            phase: "rendering",
            from: 30,
            to: 75,
            max_concurrent: MAX_CONCURRENT_SEGMENTS,
        };
        let tasks = (FIRST_SEGMENT_STEP..)
            .zip(ready)
            .map(async |(step, ready): (u32, &ReadyScene<'_>)| {
                let segment =
                    self.run_local_step(work, step, async || self.segment(work, board, size, ready).await);
                Box::pin(segment).await
            });
        let tasks: Vec<_> = tasks.collect();
        stage.run(work, &Meter::new(tasks.len()), tasks).await
    }

    async fn segment(
        &self,
        work: &Work,
        board: &Storyboard,
        size: Dimensions,
        ready: &ReadyScene<'_>,
    ) -> Result<Segment, Error> {
        let tools = &self.media_jobs.tools;
        let written = board.captions.as_ref().filter(|_| !ready.captions.is_empty());
        let written =
            written.map(|params| captions::ass(&ready.captions, params.style(), params.position(), size));
        let spec = SceneSpec {
            size,
            rate: FRAME_RATE,
            duration: ready.duration,
            motion: ready.scene.motion(),
            captions: written,
            banner: ready
                .visual_media
                .simulated
                .then(|| simulated(size))
                .transpose()
                .map_err(render_error)?,
        };
        let scratch = Scratch::make().map_err(render_error)?;
        let path = scratch.file("segment.mp4");
        let bytes = self.bytes(work, ready.visual_media.media).await?;
        let may_be_black = match ready.visual_media.is_video {
            true => {
                let video = scratch.file("source");
                tokio::fs::write(&video, &bytes).await.map_err(file)?;
                tools
                    .scene_from_video(&spec, &video, &path)
                    .await
                    .map_err(render_error)?;
                true
            }
            false => {
                let pixels = pixels_of(&bytes);
                // The rendered scene has its own banner, so the banner of the image is removed.
                let decode = move || {
                    let image = Image::decode(&bytes)?;
                    Ok(Sketch::without_banner(&image).unwrap_or(image))
                };
                let decoded = with_pixels(pixels, decode).await;
                let image = decoded.and_then(|decoded| decoded).map_err(render_error)?;
                tools
                    .scene_from_image(&spec, &image, &path)
                    .await
                    .map_err(render_error)?;
                is_black(&image)
            }
        };
        let facts = Facts {
            mime_type: "video/mp4".to_owned(),
            width: Some(size.width),
            height: Some(size.height),
            duration: Some(ready.duration),
        };
        let media = self.store_video(work, &path, facts, INPUT_RETENTION).await?;
        Ok(Segment {
            media,
            frames: spec.frames(),
            may_be_black,
        })
    }

    pub(super) async fn video(
        &self,
        work: &Work,
        payload: &Composition,
        board: &Storyboard,
        (ready, segments): (&[ReadyScene<'_>], &[Segment]),
        bill: &[UsagePart],
    ) -> Result<Composed, StopReason> {
        let stage = Stage {
            phase: "rendering",
            from: 75,
            to: 99,
            max_concurrent: 1,
        };
        let meter = Meter::new(1);
        let video = self.run_local_step(work, VIDEO_STEP, async || {
            self.assembled(work, payload, board, (ready, segments), &meter)
                .await
        });
        let mut videos = stage.run(work, &meter, vec![video]).await?;
        let Some(video) = videos.pop() else {
            return Err(super::job::fault(Error::internal("no video")));
        };
        Ok(Composed {
            outcome: self.outcome(vec![video.stored]),
            is_plan: false,
            recipe: payload.recipe.clone(),
            board: board.clone(),
            price: bill.iter().map(PriceLine::from).collect(),
            subtitles: video.subtitles,
            measured: Some(video.measured),
        })
    }

    async fn assembled(
        &self,
        work: &Work,
        payload: &Composition,
        board: &Storyboard,
        (ready, segments): (&[ReadyScene<'_>], &[Segment]),
        meter: &Arc<Meter>,
    ) -> Result<RenderedVideo, Error> {
        let tools = &self.media_jobs.tools;
        let scratch = Scratch::make().map_err(render_error)?;
        let mut spec = CutSpec {
            size: board.size(),
            rate: FRAME_RATE,
            scenes: Vec::with_capacity(segments.len()),
            voices: Vec::new(),
            clips: Vec::new(),
            music: None,
            note: None,
        };
        for (number, (segment, ready)) in segments.iter().zip(ready).enumerate() {
            let path = scratch.file(&format!("segment-{number}.mp4"));
            self.fetch(work, segment.media, &path).await?;
            spec.scenes.push(CutScene {
                segment: path,
                frames: segment.frames,
                transition: ready.scene.transition(),
            });
        }
        let starts: Vec<Duration> = spec.starts().into_iter().map(at).collect();
        for (number, (ready, start)) in ready.iter().zip(&starts).enumerate() {
            self.add_audio(work, &mut spec, &scratch, (number, ready, *start))
                .await?;
        }
        spec.music = self
            .music(work, payload, board, &scratch, spec.duration())
            .await?;
        let path = scratch.file("video.mp4");
        let progress_meter = meter.clone();
        let progress = move |percent: u8| progress_meter.set(0, percent.min(90));
        tools
            .assemble(&spec, &path, Some(&progress))
            .await
            .map_err(render_error)?;
        let mut inspection = tools
            .inspect(&path, &spec.expected())
            .await
            .map_err(render_error)?;
        // Black frames in segments with a black source are expected.
        let black = |at: Duration| {
            let scene = starts.iter().rposition(|start| *start <= at).unwrap_or_default();
            segments.get(scene).is_some_and(|segment| segment.may_be_black)
        };
        inspection.black.retain(|(from, _)| !black(*from));
        let faults = inspection.faults();
        if !faults.is_empty() {
            tracing::warn!(job.id = %work.job().terms.id, ?faults, "rendered video failed the inspection");
            return Err(faulty_video(&faults));
        }
        meter.set(0, 95);
        let (frames, duration) = (spec.frames(), spec.duration());
        let facts = Facts {
            mime_type: "video/mp4".to_owned(),
            width: Some(spec.size.width),
            height: Some(spec.size.height),
            duration: Some(duration),
        };
        let media = self.store_video(work, &path, facts, RETENTION).await?;
        let micros = u64::try_from(duration.as_micros()).ok();
        Ok(RenderedVideo {
            stored: StoredMedia {
                media,
                mime_type: "video/mp4".to_owned(),
                width: spec.size.width,
                height: spec.size.height,
                duration: micros,
                generated: micros,
                revised_prompt: None,
            },
            subtitles: self.subtitles(work, ready, &starts).await?,
            measured: Measured {
                frames,
                loudness: inspection.loudness_lufs_tenths,
            },
        })
    }

    async fn add_audio(
        &self,
        work: &Work,
        spec: &mut CutSpec,
        scratch: &Scratch,
        (number, ready, start): (usize, &ReadyScene<'_>, Duration),
    ) -> Result<(), Error> {
        if let Some(voice_clip) = &ready.voice_clip {
            let path = scratch.file(&format!("voice-{number}"));
            self.fetch(work, voice_clip.media, &path).await?;
            spec.voices.push(AudioClip {
                path,
                at: start + LEAD_IN,
                length: None,
                volume: 1.0,
            });
        } else if ready.scene.visual.video.is_some() {
            let video = scratch.file(&format!("source-{number}"));
            self.fetch(work, ready.visual_media.media, &video).await?;
            let path = scratch.file(&format!("audio-{number}.wav"));
            let audio_length = self
                .media_jobs
                .tools
                .extract_audio(&video, &path)
                .await
                .map_err(render_error)?;
            if audio_length.is_some() {
                spec.clips.push(AudioClip {
                    path,
                    at: start,
                    length: Some(ready.duration),
                    volume: SOURCE_AUDIO_VOLUME,
                });
            }
        }
        Ok(())
    }

    async fn music(
        &self,
        work: &Work,
        payload: &Composition,
        board: &Storyboard,
        scratch: &Scratch,
        duration: Duration,
    ) -> Result<Option<Music>, Error> {
        let Some(params) = &board.music else {
            return Ok(None);
        };
        let path: PathBuf = scratch.file("music.wav");
        match params.media {
            Some(media) => {
                let own = scratch.file("own-music");
                self.fetch(work, media, &own).await?;
                self.media_jobs
                    .tools
                    .fit_music(&own, duration, &path)
                    .await
                    .map_err(render_error)?;
            }
            None => {
                let seed = payload.seed.unwrap_or_default();
                let generated = self
                    .media_jobs
                    .tools
                    .make_music(params.mood(), seed, duration, &path);
                generated.await.map_err(render_error)?;
            }
        }
        Ok(Some(Music {
            path,
            volume: params.volume,
            duck_db: params.duck_db.round() as u32,
        }))
    }

    async fn subtitles(
        &self,
        work: &Work,
        ready: &[ReadyScene<'_>],
        starts: &[Duration],
    ) -> Result<Option<Subtitles>, Error> {
        let mut spoken: Vec<Caption> = Vec::new();
        for (ready, start) in ready.iter().zip(starts) {
            let Some(voice_clip) = &ready.voice_clip else {
                continue;
            };
            spoken.extend(captions::group(
                &voice_clip.words(*start + LEAD_IN),
                storyboard::SUBTITLE_WORDS,
            ));
        }
        if spoken.is_empty() {
            return Ok(None);
        }
        let srt = self
            .store_text(work, "application/x-subrip", captions::srt(&spoken))
            .await?;
        let vtt = self.store_text(work, "text/vtt", captions::vtt(&spoken)).await?;
        Ok(Some(Subtitles { srt, vtt }))
    }

    async fn store_text(&self, work: &Work, mime_type: &str, text: String) -> Result<MediaId, Error> {
        let facts = Facts {
            mime_type: mime_type.to_owned(),
            ..Facts::default()
        };
        let (job, content) = (work.job(), blob::whole(Bytes::from(text)));
        let stored =
            self.media_jobs
                .storage
                .store(job.account, content, facts, job.terms.id.as_u128(), RETENTION);
        Ok(stored.await.map_err(|error| crate::jobs::unavailable(&error))?.id)
    }

    async fn store_video(
        &self,
        work: &Work,
        path: &Path,
        facts: Facts,
        stored: Duration,
    ) -> Result<MediaId, Error> {
        let content = read_video(path)
            .await
            .map_err(|output_error| Error::internal(format!("{output_error:?}")))?;
        let job = work.job();
        let stored =
            self.media_jobs
                .storage
                .store(job.account, content, facts, job.terms.id.as_u128(), stored);
        Ok(stored.await.map_err(|error| crate::jobs::unavailable(&error))?.id)
    }

    async fn bytes(&self, work: &Work, media: MediaId) -> Result<Bytes, Error> {
        let stored = crate::input::stored(&self.media_jobs.storage, work.job().account, media).await?;
        Ok(stored.bytes)
    }

    async fn fetch(&self, work: &Work, media: MediaId, path: &Path) -> Result<(), Error> {
        let bytes = self.bytes(work, media).await?;
        tokio::fs::write(path, &bytes).await.map_err(file)
    }
}

/// Returns the banner that marks simulated media. The banner does not move with the camera.
fn simulated(size: Dimensions) -> Result<Image, tollgate_media_tools::Error> {
    Sketch::new(size, 0, "").banner()
}

/// Whether at least 95 % of an image is nearly black, by the same threshold as for videos.
fn is_black(image: &Image) -> bool {
    let pixels = image.rgba().chunks_exact(4);
    let (mut dark, mut all) = (0_usize, 0_usize);
    for pixel in pixels {
        let luma: u32 = pixel
            .iter()
            .zip([299, 587, 114])
            .map(|(part, weight)| u32::from(*part) * weight)
            .sum();
        dark += usize::from(luma < 32_000);
        all += 1;
    }
    dark * 100 >= all * 95
}

/// Returns the time at which a frame is shown, from the start of the video.
fn at(frame: u64) -> Duration {
    Duration::from_micros(frame * 1_000_000 / u64::from(FRAME_RATE))
}

fn render_error(error: tollgate_media_tools::Error) -> Error {
    tracing::warn!(%error, "cannot render a composition");
    let message = "The video could not be rendered. It was not charged. Check the media that you sent, or send the \
                   request again.";
    Error::new(ErrorCode::InternalError, message).with_source(error.to_string())
}

fn faulty_video(faults: &[String]) -> Error {
    let message = format!(
        "The rendered video is faulty. {} The video was not charged. Change the storyboard, or send the request \
         again.",
        faults.join(" ")
    );
    Error::new(ErrorCode::InternalError, message)
}

fn file(error: std::io::Error) -> Error {
    Error::internal(error.to_string())
}
