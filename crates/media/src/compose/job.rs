//! Executes a composition job: script, voices, visuals, segments, video. Each output is a recorded
//! step, so a worker that takes over the job repeats only unfinished steps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_jobs::{Handler, JobOutcome, Work, sealed};
use tollgate_media_tools::{Caption, captions};
use tollgate_pipeline::provider_job::{StepResult, corrupt, is_passing};
use tollgate_storage::{Job, JobEnd, UsagePart};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Error, JobStatus, MediaId, StepState};

use super::KIND;
use super::parallel_steps::{Meter, Stage, StopReason};
use super::payload::{CallUsage, Composed, Composition, PriceLine, VoiceClip};
use super::step_pricing::{self, VisualParams};
use super::storyboard::{Scene, Storyboard};
use crate::generation::{GenerationHandler, MediaJobs, blocked};
use crate::images::{self, ImageGenerator};
use crate::job_payload::{Head, JobPayload, Outcome, Part};
use crate::videos::{self, VideoGenerator};

// Step numbers. The script, the visual params and the video are one step each. Voices, visuals and
// segments have one step for each scene, numbered from their first step.
pub(super) const SCRIPT_STEP: u32 = 0;
const VISUAL_PARAMS_STEP: u32 = 1;
pub(super) const VIDEO_STEP: u32 = 2;
const FIRST_VOICE_STEP: u32 = 100;
const FIRST_VISUAL_STEP: u32 = 200;
pub(super) const FIRST_SEGMENT_STEP: u32 = 300;
/// Maximum number of visuals that are generated concurrently.
const MAX_CONCURRENT_VISUALS: usize = 4;
/// Maximum number of voice clips that are generated concurrently.
const MAX_CONCURRENT_VOICES: usize = 2;

/// Pause before the narration of a scene.
pub(super) const LEAD_IN: Duration = Duration::from_millis(300);
/// Pause after the narration of a scene.
const LEAD_OUT: Duration = Duration::from_millis(500);
/// Duration of a scene without narration, video and requested duration, in seconds.
const SILENT_SCENE_SECONDS: f64 = 4.0;
/// Maximum duration of a rendered scene, in seconds.
const MAX_SCENE_SECONDS: f64 = 60.0;

/// Executes jobs of the kind `video.compose`.
pub(crate) struct CompositionHandler {
    pub(super) media_jobs: Arc<MediaJobs>,
    images: GenerationHandler<ImageGenerator>,
    videos: GenerationHandler<VideoGenerator>,
}

/// The source of a scene's visual: a generated image or video, or media of the caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SceneVisual {
    #[serde(rename = "picture")]
    Image {
        model: String,
        simulated: bool,
        #[serde(rename = "wish")]
        params: images::Params,
    },
    #[serde(rename = "film")]
    Video {
        model: String,
        simulated: bool,
        #[serde(rename = "wish")]
        params: videos::Params,
    },
    Own {
        media: MediaId,
        #[serde(rename = "is_film")]
        is_video: bool,
    },
}

/// The image or video of a scene, after generation or upload.
#[derive(Clone, Debug)]
pub(super) struct VisualMedia {
    pub(super) media: MediaId,
    pub(super) is_video: bool,
    /// Whether a simulated model generated the media. The rendered scene then has a banner.
    pub(super) simulated: bool,
    /// Duration of a video, in microseconds.
    pub(super) duration: Option<u64>,
    spent: Option<CallUsage>,
}

/// A scene with all media that are necessary to render it.
pub(super) struct ReadyScene<'a> {
    pub(super) scene: &'a Scene,
    pub(super) voice_clip: Option<VoiceClip>,
    pub(super) visual_media: VisualMedia,
    /// Duration of the scene, rounded up to whole frames.
    pub(super) duration: Duration,
    /// Captions, with times relative to the start of the scene.
    pub(super) captions: Vec<Caption>,
}

impl CompositionHandler {
    pub(crate) fn new(media_jobs: Arc<MediaJobs>) -> Self {
        Self {
            images: GenerationHandler::new(media_jobs.clone(), ImageGenerator),
            videos: GenerationHandler::new(media_jobs.clone(), VideoGenerator),
            media_jobs,
        }
    }

    async fn execute(
        &self,
        work: &Work,
        payload: &Composition,
        bill: &mut Vec<UsagePart>,
    ) -> Result<Composed, StopReason> {
        let start = Stage {
            phase: "script",
            from: 0,
            to: 2,
            max_concurrent: 1,
        };
        let written = vec![self.script(work, payload)];
        let mut written = start.run(work, &Meter::new(1), written).await?;
        let written = written.pop().ok_or_else(|| fault(Error::internal("no script")))?;
        let board = match written {
            None => payload.board.clone(),
            Some(written) => {
                // The script is billed even if it is withheld.
                add(bill, payload, SCRIPT_STEP, "script", Some(written.spent));
                if written.is_withheld {
                    return Err(StopReason::Blocked);
                }
                self.check_script(work, &written.board).await?;
                written.board
            }
        };
        if payload.is_plan {
            return self.planned(work, payload, board).await;
        }
        let scene_visuals = self.scene_visuals(work, payload, &board).await?;
        let voices = self.voices(work, payload, &board).await;
        // Generated voices are billed even if others were withheld or the job was cancelled.
        for (number, scene) in (FIRST_VOICE_STEP..).zip(&board.scenes) {
            let name = format!("{} voice", scene.id);
            add(bill, payload, number, &name, self.spent_on_voice(work, number)?);
        }
        let voices = voices?;
        let visual_media = self.visuals(work, payload, &scene_visuals, bill, &board).await?;
        let size = board.size();
        let scenes = board.scenes.iter().zip(voices).zip(visual_media);
        let ready: Vec<ReadyScene<'_>> = scenes
            .map(|((scene, voice_clip), visual_media)| {
                ReadyScene::new(&board, scene, voice_clip, visual_media)
            })
            .collect();
        let segments = self.segments(work, &board, size, &ready).await?;
        self.video(work, payload, &board, (&ready, &segments), bill).await
    }

    /// Returns the visual params of each scene. They are recorded as a step, so that later changes
    /// of the catalog do not affect them.
    async fn scene_visuals(
        &self,
        work: &Work,
        payload: &Composition,
        board: &Storyboard,
    ) -> Result<Vec<SceneVisual>, StopReason> {
        self.run_local_step(work, VISUAL_PARAMS_STEP, async || {
            let mut scene_visuals = Vec::with_capacity(board.scenes.len());
            for scene in &board.scenes {
                scene_visuals.push(self.scene_visual(work, payload, board, scene).await?);
            }
            Ok(scene_visuals)
        })
        .await
    }

    async fn scene_visual(
        &self,
        work: &Work,
        payload: &Composition,
        board: &Storyboard,
        scene: &Scene,
    ) -> Result<SceneVisual, Error> {
        let visual = &scene.visual;
        if let Some(media) = visual.media {
            let is_video = visual.video.is_some();
            return Ok(SceneVisual::Own { media, is_video });
        }
        let model = visual.model.as_ref().or(payload.model_plan.visual.as_ref());
        let model = model
            .ok_or_else(|| Error::internal("the scene has no model"))?
            .clone();
        let routed = self.routed(work, payload, &model).await?;
        Ok(
            match step_pricing::visual_params(&routed.model, board, scene, payload.seed)?.0 {
                VisualParams::Image(params) => SceneVisual::Image {
                    model,
                    simulated: routed.model.simulated,
                    params,
                },
                VisualParams::Video(params) => SceneVisual::Video {
                    model,
                    simulated: routed.model.simulated,
                    params,
                },
            },
        )
    }

    async fn voices(
        &self,
        work: &Work,
        payload: &Composition,
        board: &Storyboard,
    ) -> Result<Vec<Option<VoiceClip>>, StopReason> {
        let stage = Stage {
            phase: "voice",
            from: 2,
            to: 10,
            max_concurrent: MAX_CONCURRENT_VOICES,
        };
        let narrated = (0..)
            .zip(&board.scenes)
            .map(async |(number, scene): (u32, &Scene)| {
                let (Some(voice), Some(text)) = (&board.voice, &scene.narration) else {
                    return Ok(None);
                };
                let voice_clip = self.voice(work, payload, FIRST_VOICE_STEP + number, (voice, text));
                Box::pin(voice_clip).await.map(Some)
            });
        let narrated: Vec<_> = narrated.collect();
        stage.run(work, &Meter::new(narrated.len()), narrated).await
    }

    async fn visuals(
        &self,
        work: &Work,
        payload: &Composition,
        scene_visuals: &[SceneVisual],
        bill: &mut Vec<UsagePart>,
        board: &Storyboard,
    ) -> Result<Vec<VisualMedia>, StopReason> {
        let stage = Stage {
            phase: "scenes",
            from: 10,
            to: 30,
            max_concurrent: MAX_CONCURRENT_VISUALS,
        };
        let meter = Meter::new(scene_visuals.len());
        let visual_tasks = (0..)
            .zip(scene_visuals)
            .map(|(number, scene_visual): (u32, &SceneVisual)| {
                let part = work.part(meter.of(number as usize));
                async move {
                    Box::pin(self.visual(&part, payload, FIRST_VISUAL_STEP + number, scene_visual)).await
                }
            });
        let visual_tasks: Vec<_> = visual_tasks.collect();
        // The working time is measured by each visual step itself.
        work.pause_work().await?;
        let generated = stage.run(work, &meter, visual_tasks).await;
        work.resume_work().await?;
        // Generated visuals are billed even if others are blocked or the job is cancelled.
        for (number, scene_visual) in (0..).zip(scene_visuals) {
            let name = board
                .scenes
                .get(number as usize)
                .map_or("", |scene| scene.id.as_str());
            let spent = match &generated {
                Ok(generated) => generated
                    .get(number as usize)
                    .and_then(|visual_media| visual_media.spent.clone()),
                Err(_) => self.spent_on(work, FIRST_VISUAL_STEP + number, scene_visual)?,
            };
            add(
                bill,
                payload,
                FIRST_VISUAL_STEP + number,
                &format!("{name} visual"),
                spent,
            );
        }
        generated
    }

    async fn visual(
        &self,
        work: &Work,
        payload: &Composition,
        step: u32,
        scene_visual: &SceneVisual,
    ) -> Result<VisualMedia, StopReason> {
        let (step_result, is_video) = match scene_visual {
            SceneVisual::Own { media, is_video } => {
                return Ok(VisualMedia {
                    media: *media,
                    is_video: *is_video,
                    simulated: false,
                    duration: self.length(work, *media).await?,
                    spent: None,
                });
            }
            SceneVisual::Image { model, params, .. } => {
                let payload = single_output_payload(payload, model, params);
                (self.images.step(work, &payload, step, 1).await?, false)
            }
            SceneVisual::Video { model, params, .. } => {
                let payload = single_output_payload(payload, model, params);
                (self.videos.step(work, &payload, step, 1).await?, true)
            }
        };
        work.pause_work().await?;
        let part = match step_result {
            StepResult::Done(part) if part.is_blocked => return Err(StopReason::Blocked),
            StepResult::Done(part) => part,
            StepResult::Failed(error, ending) => return Err(StopReason::Failed(error, ending)),
            StepResult::Cancelled => return Err(StopReason::Cancelled),
            StepResult::Later(pause) => return Err(StopReason::Later(pause)),
        };
        let stored = part
            .items
            .first()
            .ok_or_else(|| fault(Error::internal("the step has no output")))?;
        Ok(VisualMedia {
            media: stored.media,
            is_video,
            simulated: scene_visual.is_simulated(),
            duration: stored.duration,
            spent: scene_visual.spent(&part),
        })
    }

    async fn length(&self, work: &Work, media: MediaId) -> Result<Option<u64>, StopReason> {
        let found = self
            .media_jobs
            .storage
            .find_available(work.job().account, media)
            .await?;
        let length = found.and_then(|media| media.duration);
        Ok(length.and_then(|length| u64::try_from(length.as_micros()).ok()))
    }

    /// Returns the usage of a finished visual step; `None` for an unfinished step and for media of
    /// the caller.
    fn spent_on(
        &self,
        work: &Work,
        step: u32,
        scene_visual: &SceneVisual,
    ) -> Result<Option<CallUsage>, StopReason> {
        let done = work.step(step).filter(|step| step.state == StepState::Done);
        let part = done.map(|step| self.opened::<Part>(work, &step.outcome));
        Ok(part.transpose()?.and_then(|part| scene_visual.spent(&part)))
    }

    /// Returns the usage of a finished voice step; `None` for an unfinished step and for the
    /// built-in voice.
    fn spent_on_voice(&self, work: &Work, step: u32) -> Result<Option<CallUsage>, StopReason> {
        let done = work.step(step).filter(|step| step.state == StepState::Done);
        let voice_clip = done.map(|step| self.opened::<VoiceClip>(work, &step.outcome));
        Ok(voice_clip.transpose()?.and_then(|voice_clip| voice_clip.spent))
    }

    /// Returns the result of a plan: the storyboard and the maximum cost of each step. The script
    /// has already been billed.
    async fn planned(
        &self,
        work: &Work,
        payload: &Composition,
        board: Storyboard,
    ) -> Result<Composed, StopReason> {
        let mut routes = Vec::new();
        for model in payload.model_plan.models() {
            routes.push(self.routed(work, payload, model).await.map_err(fault)?);
        }
        let items = step_pricing::items(&payload.model_plan, &mut routes, &board, payload.seed);
        let items = items.map_err(fault)?;
        let planned_lines = items.iter().map(|item| PriceLine {
            name: item.name.clone(),
            model: item.model.clone(),
            cost: item.cost.to_string(),
        });
        Ok(Composed {
            outcome: self.outcome(Vec::new()),
            is_plan: true,
            recipe: payload.recipe.clone(),
            price: planned_lines.collect(),
            board,
            subtitles: None,
            measured: None,
        })
    }

    pub(super) fn outcome(&self, items: Vec<crate::job_payload::StoredMedia>) -> Outcome {
        Outcome {
            created_at: self.media_jobs.clock.now(),
            items,
            inline: false,
        }
    }

    /// Runs a step that calls no provider. An unfinished step is executed again.
    pub(super) async fn run_local_step<T: Serialize + DeserializeOwned>(
        &self,
        work: &Work,
        number: u32,
        make: impl AsyncFnOnce() -> Result<T, Error>,
    ) -> Result<T, StopReason> {
        match work.step(number) {
            Some(step) if step.state == StepState::Done => return self.opened(work, &step.outcome),
            Some(step) if step.state == StepState::Intended => {}
            _ => drop(work.intend(number, Vec::new()).await?),
        }
        let cancelled = work.cancelled().clone();
        let generated = tokio::select! {
            generated = make() => generated.map_err(fault)?,
            () = cancelled.cancelled() => return Err(StopReason::Cancelled),
        };
        work.record_outcome(number, StepState::Done, self.sealed(work, &generated)?)
            .await?;
        Ok(generated)
    }

    pub(super) fn sealed(&self, work: &Work, what: &impl Serialize) -> tollgate_storage::Result<Vec<u8>> {
        let job = work.job();
        let sealed = sealed::seal(&self.media_jobs.vault, job.account, job.terms.id, what);
        sealed.map_err(|error| corrupt(&error))
    }

    pub(super) fn opened<T: DeserializeOwned>(&self, work: &Work, sealed: &[u8]) -> Result<T, StopReason> {
        let opened = sealed::open(&self.media_jobs.vault, work.job(), sealed);
        opened.map_err(|error| StopReason::Storage(corrupt(&error)))
    }

    /// Builds the outcome of an ended job: its result or error, and the billed steps.
    fn ended(
        &self,
        job: &Job,
        ahead: Duration,
        (status, ending): (JobStatus, Ending),
        generated: Result<Option<Vec<u8>>, Error>,
        parts: Vec<UsagePart>,
    ) -> JobOutcome {
        let pipeline = &self.media_jobs.pipeline;
        let settlement = pipeline.conclude_parts(job, &parts, ending, None, ahead);
        let error = generated.as_ref().err();
        let error = error.map(|error| tollgate_jobs::job_error(job, error));
        JobOutcome::Ended(Box::new(JobEnd {
            status,
            result: generated.ok().flatten(),
            error,
            settlement,
            events: Vec::new(),
            parts,
        }))
    }
}

#[async_trait]
impl Handler for CompositionHandler {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<JobOutcome> {
        let job = work.job().clone();
        let payload: Composition = match sealed::open(&self.media_jobs.vault, &job, &job.terms.body) {
            Ok(payload) => payload,
            Err(error) => {
                let end = (JobStatus::Failed, Ending::Crashed);
                return Ok(self.ended(&job, Duration::ZERO, end, Err(error), Vec::new()));
            }
        };
        let ahead = payload.head.ahead;
        work.resume_work().await?;
        let mut bill = Vec::new();
        let composed = Box::pin(self.execute(work, &payload, &mut bill)).await;
        Ok(match composed {
            Ok(composed) => {
                let end = (JobStatus::Completed, Ending::Ok);
                let sealed = self.sealed(work, &composed)?;
                self.ended(&job, ahead, end, Ok(Some(sealed)), bill)
            }
            Err(StopReason::Storage(error)) => return Err(error),
            Err(StopReason::Later(pause)) => JobOutcome::Later(pause),
            Err(StopReason::Cancelled) => {
                let end = (JobStatus::Cancelled, Ending::Cancelled);
                self.ended(&job, ahead, end, Ok(None), bill)
            }
            Err(StopReason::Blocked) => {
                let end = (JobStatus::Failed, Ending::BlockedOutput);
                self.ended(&job, ahead, end, Err(blocked()), bill)
            }
            Err(StopReason::Failed(error, ending)) => {
                let end = (JobStatus::Failed, ending);
                self.ended(&job, ahead, end, Err(error), Vec::new())
            }
        })
    }
}

impl SceneVisual {
    fn is_simulated(&self) -> bool {
        matches!(
            self,
            SceneVisual::Image { simulated: true, .. } | SceneVisual::Video { simulated: true, .. }
        )
    }

    fn spent(&self, part: &Part) -> Option<CallUsage> {
        let (model, usage) = match self {
            SceneVisual::Own { .. } => return None,
            SceneVisual::Image { model, params, .. } => (model, part.consumed(&ImageGenerator, params, 1)),
            SceneVisual::Video { model, params, .. } => (model, part.consumed(&VideoGenerator, params, 1)),
        };
        Some(CallUsage {
            model: model.clone(),
            target: part.target.clone(),
            usage,
        })
    }
}

impl<'a> ReadyScene<'a> {
    /// Computes the duration and the captions of a scene. A scene lasts at least as long as its
    /// narration and its requested duration. A video without narration is shown completely, unless
    /// a duration is requested. All scenes are limited to [`MAX_SCENE_SECONDS`].
    fn new(
        board: &Storyboard,
        scene: &'a Scene,
        voice_clip: Option<VoiceClip>,
        visual_media: VisualMedia,
    ) -> Self {
        let narrated = voice_clip.as_ref().map(|voice_clip| {
            let spoken = Duration::from_micros(voice_clip.duration);
            (LEAD_IN + spoken + LEAD_OUT).as_secs_f64()
        });
        let own = visual_media
            .duration
            .filter(|_| visual_media.is_video)
            .map(|micros| micros as f64 / 1e6);
        let min_seconds = scene.duration.unwrap_or(0.0);
        let seconds = match (narrated, own) {
            (Some(narrated), _) => narrated.max(min_seconds),
            (None, _) if min_seconds > 0.0 => min_seconds,
            (None, Some(own)) => own,
            (None, None) => SILENT_SCENE_SECONDS,
        };
        let frames = (seconds.min(MAX_SCENE_SECONDS) * f64::from(FRAME_RATE)).ceil();
        let duration = Duration::from_secs_f64(frames / f64::from(FRAME_RATE));
        let captions = match (&board.captions, &voice_clip) {
            (Some(params), Some(voice_clip)) => {
                captions::group(&voice_clip.words(LEAD_IN), params.words_per_line)
            }
            _ => Vec::new(),
        };
        Self {
            scene,
            voice_clip,
            visual_media,
            duration,
            captions,
        }
    }
}

/// Frame rate of the rendered video, in frames per second.
pub(super) const FRAME_RATE: u32 = 30;

/// Returns the payload of a job that generates one output with `model`.
fn single_output_payload<W: Clone>(payload: &Composition, model: &str, params: &W) -> JobPayload<W> {
    JobPayload {
        head: Head {
            model: Some(model.to_owned()),
            ..payload.head.clone()
        },
        parts: vec![1],
        params: params.clone(),
    }
}

fn add(bill: &mut Vec<UsagePart>, payload: &Composition, number: u32, name: &str, spent: Option<CallUsage>) {
    let Some(spent) = spent else { return };
    let from = (spent.model.as_str(), spent.target.as_str());
    match payload
        .model_plan
        .part(number, name.to_owned(), from, spent.usage)
    {
        Some(part) => bill.push(part),
        None => tracing::error!(model = spent.model, "composition step has no price"),
    }
}

/// Converts an error to a stop reason. A temporary error pauses the job for 5 seconds; other errors
/// fail it.
pub(super) fn fault(error: Error) -> StopReason {
    match is_passing(&error) {
        true => StopReason::Later(Duration::from_secs(5)),
        false => StopReason::Failed(error, Ending::UpstreamError),
    }
}
