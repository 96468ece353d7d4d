//! Video generation. The service parses and routes the request, applies the template, checks the
//! model's limits, fetches the inputs and accepts the job.

use std::time::Duration;

use tollgate_billing::{Demand, ItemizedQuote};
use tollgate_catalog::media::{parse_ratio, resolution, size_of};
use tollgate_catalog::{Factor, MediaEntry, Model, ModelKind, Template};
use tollgate_edge::JobReference;
use tollgate_edge::members::{beyond, invalid};
use tollgate_pipeline::{CallRequest, Routed};
use tollgate_storage::Media;
use tollgate_types::{Error, ErrorCode, JobId, JobStatus};
use tollgate_upstream::VideoCall;

use super::blend;
use super::extend::apply_source_size;
use super::generator::{KIND, Params, Task, VideoGenerator};
use super::read::{self, Request};
use super::source::{self, ExtendSource};
use crate::generation::Acceptance;
use crate::input::FoundInput;
use crate::job_payload::JobPayload;
use crate::jobs::unavailable;
use crate::sizes::{SizeDefaults, SizeParams, nearest_ratio};
use crate::storage::INPUT_RETENTION;
use crate::submission::Submission;

pub(super) const ENDPOINT: &str = "/v1/videos/generations";
/// Duration of a video in seconds, if neither the request nor the model sets one.
const DEFAULT_DURATION: u32 = 5;
/// Size defaults for models that declare none.
const SIZE_DEFAULTS: SizeDefaults = SizeDefaults {
    grain: 2,
    resolution: Some("720p"),
    ratio: Some("16:9"),
};
/// Modes with the same meaning for all models.
const STANDARD_MODES: [&str; 3] = ["t2v", "i2v", "r2v"];
/// Name of the price factor of audio.
const AUDIO: &str = tollgate_catalog::media::AUDIO;

pub(super) async fn create(submission: Submission<'_>) -> Result<JobReference, Error> {
    let request = read::request(&submission.body)?;
    let id = accept(&submission, request, ENDPOINT).await?;
    let created_at = submission.ctx.accepted_at;
    Ok(JobReference::new(
        &submission.origin,
        id,
        KIND,
        JobStatus::Queued,
        created_at,
    ))
}

/// Returns the hold that `POST /v1/videos/generations` would take for the same request.
pub async fn quote(submission: Submission<'_>) -> Result<ItemizedQuote, Error> {
    let request = read::request(&submission.body)?;
    quote_request(&submission, request, ENDPOINT).await
}

/// Returns the hold that [`accept`] would take. Fetches the source of an extended video, whose size
/// determines the price, and no other inputs.
pub(super) async fn quote_request(
    submission: &Submission<'_>,
    request: Request,
    endpoint: &'static str,
) -> Result<ItemizedQuote, Error> {
    let Prepared { routed, call, .. } = prepare(submission, request, endpoint).await?;
    submission.quote(routed, call).await
}

/// A validated request.
struct Prepared {
    request: Request,
    routed: Routed,
    params: Params,
    inputs: Inputs,
    /// Fetched inputs of an extended video; `None` for other videos, whose inputs are not fetched
    /// yet.
    extended: Option<Vec<FoundInput>>,
    call: CallRequest<VideoCall>,
}

async fn prepare(
    submission: &Submission<'_>,
    request: Request,
    endpoint: &'static str,
) -> Result<Prepared, Error> {
    let template = submission.template(request.template.as_deref(), ModelKind::Video)?;
    let mut routed = submission.route(request.model.as_deref(), template.as_deref(), ModelKind::Video)?;
    let entry = routed.model.media.entry.clone();
    let mut inputs = sorted(&entry, &request)?;
    let requested_size = request.requested_size.clone();
    let (request, mut params) = blended(request, template.as_deref(), &mut routed, inputs.task)?;
    submission.check_webhook(request.webhook_url.as_deref())?;
    submission
        .check_texts([&request.prompt, &request.negative_prompt])
        .await?;
    let mut extended = None;
    if let Some(before) = &request.extend_from {
        let lowest = demand(&lowest_priced(&routed.model, &params));
        submission.check_balance(&routed.model, &lowest).await?;
        let finder = submission.finder();
        let extend_source = source::extend_source(submission.state, &finder, before).await?;
        match_source_size(
            &mut params,
            &routed.model,
            (&requested_size, &request.requested_size),
            &extend_source,
        )?;
        extended = Some(start_from_source(
            &mut params,
            &mut inputs,
            &mut routed,
            extend_source,
        )?);
    }
    let call = params.call();
    routed.retain_job_providers(&call)?;
    Ok(Prepared {
        call: submission.call(endpoint, demand(&params), call),
        request,
        routed,
        params,
        inputs,
        extended,
    })
}

/// Accepts the job of a parsed request. `endpoint` is the path at which the request arrived.
pub(super) async fn accept(
    submission: &Submission<'_>,
    request: Request,
    endpoint: &'static str,
) -> Result<JobId, Error> {
    let Prepared {
        request,
        routed,
        mut params,
        inputs,
        extended,
        call,
    } = prepare(submission, request, endpoint).await?;
    submission.check_balance(&routed.model, &call.demand).await?;
    let finder = submission.finder();
    let found = match extended {
        Some(found) => found,
        None => finder.images(&inputs.images).await?,
    };
    let stored = finder.store(submission.ctx.id, found).await?;
    fill(&mut params, &inputs, &stored);
    let accepted = Acceptance {
        ctx: submission.ctx,
        payload: JobPayload {
            head: submission.head(&routed.model, request.metadata),
            parts: vec![1],
            params,
        },
        request: call,
        routed,
        webhook_url: request.webhook_url,
    };
    let accepted = submission
        .state
        .media_jobs
        .accept::<VideoGenerator>(accepted)
        .await;
    if accepted.is_err() {
        submission.state.storage.discard(&stored).await;
    }
    accepted
}

/// Accepts a job with a new prompt and with the params and inputs of an earlier job.
pub(super) async fn create_remix(
    submission: &Submission<'_>,
    model: &str,
    mut params: Params,
    endpoint: &'static str,
) -> Result<JobId, Error> {
    let mut routed = submission.route(Some(model), None, ModelKind::Video)?;
    check_prompt(&routed.model, &params.prompt)?;
    params.each = each(&routed.model, &params.resolution, params.audio);
    submission
        .check_texts([&Some(params.prompt.clone()), &params.negative_prompt])
        .await?;
    let demand = demand(&params);
    submission.check_balance(&routed.model, &demand).await?;
    extend_retention(submission, &params).await?;
    let call = params.call();
    routed.retain_job_providers(&call)?;
    let accepted = Acceptance {
        ctx: submission.ctx,
        payload: JobPayload {
            head: submission.head(&routed.model, None),
            parts: vec![1],
            params,
        },
        request: submission.call(endpoint, demand, call),
        routed,
        webhook_url: None,
    };
    submission
        .state
        .media_jobs
        .accept::<VideoGenerator>(accepted)
        .await
}

/// Extends the retention of an earlier job's inputs, so that a new job can use them. Returns an
/// error if one of the inputs is no longer stored.
async fn extend_retention(submission: &Submission<'_>, params: &Params) -> Result<(), Error> {
    let storage = &submission.state.storage;
    let now = storage.clock.now();
    let inputs = params
        .image
        .iter()
        .chain(&params.references)
        .chain(&params.before);
    for id in inputs {
        let account = submission.caller.account_id();
        let stored = storage
            .media
            .extend(account, *id, now, now.plus(INPUT_RETENTION))
            .await;
        if stored.map_err(|error| unavailable(&error))?.is_none() {
            let message = "The inputs of the video are no longer stored. Send them again in a new request.";
            return Err(Error::new(ErrorCode::Gone, message).with_param("video_id"));
        }
    }
    Ok(())
}

fn check_prompt(model: &Model, prompt: &str) -> Result<(), Error> {
    let max = model.media.entry.max_prompt_characters;
    match max.filter(|max| prompt.chars().count() > *max as usize) {
        None => Ok(()),
        Some(max) => Err(beyond(
            "prompt",
            &format!("must have at most {max} characters for this model"),
        )),
    }
}

/// Returns the billable quantity of one second, in millionths of a second at the base price.
fn each(model: &Model, step: &str, audio: bool) -> u64 {
    let audio_factor = if audio {
        model.media.factor(AUDIO)
    } else {
        Factor::ONE
    };
    model.media.factor(step).times(audio_factor).of(1_000_000)
}

/// Returns the params at the price of the cheapest resolution. The resolution of an extended video
/// is known only after its source was fetched.
fn lowest_priced(model: &Model, params: &Params) -> Params {
    let steps = model.media.entry.resolutions.iter();
    let lowest = steps.map(|step| each(model, step, params.audio)).min();
    Params {
        each: lowest.unwrap_or(params.each),
        ..params.clone()
    }
}

/// Input images and the task that uses them.
struct Inputs {
    task: Task,
    images: Vec<(String, String)>,
}

/// Determines the task from the inputs and the requested mode. Without a mode, a single image is
/// the first frame, and several images are references to subjects. Returns an error if the model
/// does not support the task or the mode does not match the inputs.
fn sorted(entry: &MediaEntry, request: &Request) -> Result<Inputs, Error> {
    let knows_references = match entry.max_references {
        Some(max) => max > 0,
        None => entry.modes.iter().any(|mode| mode == "r2v"),
    };
    let (task, name, images) = match (&request.references[..], &request.images[..]) {
        ([], []) if request.extend_from.is_some() => (Task::Extend, "extend_from", &request.images),
        ([], []) => (Task::FromText, "prompt", &request.images),
        ([], [_]) => (Task::FromImage, "image", &request.images),
        ([], _) => (Task::FromReferences, "images", &request.images),
        _ => (Task::FromReferences, "reference_images", &request.references),
    };
    if task == Task::FromReferences {
        if !knows_references {
            return Err(beyond(
                name,
                "sets reference images, which this model does not support",
            ));
        }
        let sent = images.len();
        if let Some(max) = entry.max_references.filter(|max| sent > *max as usize) {
            return Err(beyond(
                name,
                &format!("has {sent} images, but this model accepts at most {max}"),
            ));
        }
    }
    let task = match (&request.mode, task) {
        (None, task) => task,
        (Some(mode), task) => by_mode(entry, mode, task)?,
    };
    if task == Task::FromReferences && !knows_references {
        return Err(beyond(
            "mode",
            "is 'r2v', but this model does not support reference images",
        ));
    }
    let standard_mode = task.mode();
    let known = |mode: &&String| **mode == standard_mode;
    // A model that lists standard modes supports only the listed ones.
    let lists_standard_modes = entry
        .modes
        .iter()
        .any(|mode| STANDARD_MODES.contains(&mode.as_str()));
    if request.mode.is_none()
        && task != Task::Extend
        && lists_standard_modes
        && !entry.modes.iter().any(|mode| known(&mode))
    {
        return Err(beyond(
            name,
            &format!(
                "requires mode {standard_mode}, but this model supports {}",
                entry.modes.join(", ")
            ),
        ));
    }
    Ok(Inputs {
        task,
        images: images.clone(),
    })
}

/// Returns the task for an explicit mode. Returns an error if the model does not support the mode
/// or the mode does not match the inputs.
fn by_mode(entry: &MediaEntry, mode: &str, task: Task) -> Result<Task, Error> {
    if entry.modes.is_empty() && !STANDARD_MODES.contains(&mode) {
        return Err(invalid("mode", "must be 'auto', 't2v', 'i2v' or 'r2v'"));
    }
    if !entry.modes.is_empty() && !entry.modes.iter().any(|known| known == mode) {
        let what = format!("must be one of: auto, {}", entry.modes.join(", "));
        return Err(beyond("mode", &what));
    }
    let fits = match (mode, task) {
        ("t2v", Task::FromText)
        | ("i2v", Task::FromImage)
        | ("r2v", Task::FromReferences | Task::FromImage) => true,
        ("t2v" | "i2v" | "r2v", _) => false,
        _ => true,
    };
    match (fits, mode) {
        (true, "r2v") => Ok(Task::FromReferences),
        (true, _) => Ok(task),
        (false, "t2v") => Err(invalid("mode", "is 't2v', which accepts no images or video")),
        (false, "i2v") => Err(invalid(
            "mode",
            "is 'i2v', which requires exactly one image in 'image'",
        )),
        (false, _) => Err(invalid(
            "mode",
            "is 'r2v', which requires images in 'reference_images'",
        )),
    }
}

/// Applies the template. Returns the request and its generation params. If no candidate supports
/// the parameters of the template, only the template's prompt is applied.
fn blended(
    mut request: Request,
    template: Option<&Template>,
    routed: &mut Routed,
    task: Task,
) -> Result<(Request, Params), Error> {
    let model = routed.model.clone();
    if let Some(template) = template {
        request.prompt = Some(blend::prompt(&request, template));
        let filled = blend::filled(&request, template, &model.media.entry, task);
        // The candidates for an extended video are known only after its source was fetched.
        let is_taken =
            |params: &Params| task == Task::Extend || routed.retain_job_providers(&params.call()).is_ok();
        if let Some(params) = params(&model, &filled, task).ok().filter(is_taken) {
            return Ok((filled, params));
        }
    }
    let params = params(&model, &request, task)?;
    Ok((request, params))
}

/// Returns the generation params of a request, or an error if it exceeds the model's limits.
fn params(model: &Model, request: &Request, task: Task) -> Result<Params, Error> {
    let entry = &model.media.entry;
    if request.negative_prompt.is_some() && entry.negative_prompts == Some(false) {
        return Err(beyond("negative_prompt", "is not supported by this model"));
    }
    let prompt = request.prompt.clone().unwrap_or_default();
    check_prompt(model, &prompt)?;
    let duration = match request.duration {
        Some(duration) => {
            let fits = |seconds: &u32| duration == Duration::from_secs(u64::from(*seconds));
            if !entry.durations.is_empty() && !entry.durations.iter().any(fits) {
                let known: Vec<String> = entry.durations.iter().map(u32::to_string).collect();
                let what = format!("must be one of (in seconds): {}", known.join(", "));
                return Err(beyond("duration", &what));
            }
            duration
        }
        None => Duration::from_secs(u64::from(
            entry.durations.first().copied().unwrap_or(DEFAULT_DURATION),
        )),
    };
    if request.audio == Some(true) && entry.audio == Some(false) {
        return Err(beyond(
            "generate_audio",
            "is true, but this model generates no audio",
        ));
    }
    let resolved = request.requested_size.resolve(entry, SIZE_DEFAULTS)?;
    let step = resolved.resolution.unwrap_or_else(|| "720p".into());
    if task == Task::FromReferences
        && let Some(max) = &entry.max_reference_resolution
        && pixels(&step) > pixels(max)
    {
        return Err(beyond(
            "resolution",
            &format!("is larger than {max}, the model's limit with reference images"),
        ));
    }
    let size = resolved
        .size
        .map_or((1_280, 720), |size| (size.width, size.height));
    let audio = request.audio.unwrap_or(entry.audio != Some(false));
    Ok(Params {
        task,
        mode: request.mode.clone(),
        prompt,
        negative_prompt: request.negative_prompt.clone(),
        image: None,
        references: Vec::new(),
        before: None,
        before_size: None,
        is_joined: false,
        duration,
        size: even(size),
        aspect_ratio: resolved
            .aspect_ratio
            .map_or_else(|| ratio_of(size), |ratio| ratio.to_string()),
        resolution: step.to_string(),
        audio,
        seed: request.seed,
        each: each(model, &step, audio),
        remixed_from: None,
    })
}

/// Returns the generation params of a video for a composition scene, and their maximum demand. The
/// video has the supported aspect ratio nearest to `shape`, which is width and height. The video
/// has the shortest duration that covers the scene, or else the longest duration of the model.
/// Audio is disabled if the model declares that it generates audio.
pub(crate) fn scene(
    model: &Model,
    prompt: String,
    shape: (u32, u32),
    (step, seconds): (&str, f64),
    seed: Option<u64>,
) -> Result<(Params, Demand), Error> {
    let entry = &model.media.entry;
    let long_enough = |known: &&u32| f64::from(**known) >= seconds;
    let fitting = entry.durations.iter().filter(long_enough).min();
    let duration = match fitting.or(entry.durations.iter().max()) {
        Some(known) => *known,
        None => (seconds.ceil() as u32).clamp(1, DEFAULT_DURATION * 2),
    };
    let has_step = entry.resolutions.is_empty() || entry.resolutions.iter().any(|known| known == step);
    let request = Request {
        prompt: Some(prompt),
        requested_size: SizeParams {
            aspect_ratio: nearest_ratio(&entry.aspect_ratios, shape).cloned(),
            resolution: has_step.then(|| step.to_owned()),
            ..SizeParams::default()
        },
        duration: Some(Duration::from_secs(u64::from(duration))),
        audio: Some(false).filter(|_| entry.audio == Some(true)),
        seed,
        ..Request::default()
    };
    let inputs = sorted(entry, &request)?;
    let params = params(model, &request, inputs.task)?;
    let demand = demand(&params);
    Ok((params, demand))
}

/// Returns the number of pixels of a resolution at 16:9, or 0 if it is unknown.
pub(super) fn pixels(step: &str) -> u64 {
    resolution(step).map_or(0, |step| {
        let (width, height) = size_of(step, (16, 9), 2);
        u64::from(width) * u64::from(height)
    })
}

/// Rounds both sides up to even numbers, as video encoders require.
pub(super) fn even((width, height): (u32, u32)) -> (u32, u32) {
    (width + width % 2, height + height % 2)
}

pub(super) fn ratio_of((width, height): (u32, u32)) -> String {
    let mut divisor = (width, height);
    while divisor.1 > 0 {
        divisor = (divisor.1, divisor.0 % divisor.1);
    }
    let divisor = divisor.0.max(1);
    format!("{}:{}", width / divisor, height / divisor)
}

/// Adapts the params to the source. An extended video has the size and aspect ratio of its source,
/// regardless of the template. A video that starts from an image has the supported aspect ratio
/// nearest to that of the image, unless the request or the template sets a size or aspect ratio.
fn match_source_size(
    params: &mut Params,
    model: &Model,
    (requested_size, filled): (&SizeParams, &SizeParams),
    extend_source: &ExtendSource,
) -> Result<(), Error> {
    let entry = &model.media.entry;
    let (facts, is_video) = match extend_source {
        ExtendSource::Image(image) => (&image.facts, false),
        ExtendSource::Video { video, .. } => (&video.facts, true),
    };
    let (Some(width), Some(height)) = (facts.width, facts.height) else {
        return Ok(());
    };
    if is_video {
        apply_source_size(params, entry, requested_size, (width, height))?;
        params.each = each(model, &params.resolution, params.audio);
        return Ok(());
    }
    if filled.size.is_some() || filled.aspect_ratio.is_some() {
        return Ok(());
    }
    let nearest = nearest_ratio(&entry.aspect_ratios, (width, height));
    let nearest = nearest.and_then(|name| Some((name, parse_ratio(name)?)));
    if let (Some((name, ratio)), Some(step)) = (nearest, resolution(&params.resolution)) {
        params.aspect_ratio.clone_from(name);
        params.size = even(size_of(step, ratio, SIZE_DEFAULTS.grain));
    }
    Ok(())
}

/// Returns the inputs to store for the source. If no provider can extend videos itself, the model
/// starts from the last frame and the gateway joins both parts.
fn start_from_source(
    params: &mut Params,
    inputs: &mut Inputs,
    routed: &mut Routed,
    extend_source: ExtendSource,
) -> Result<Vec<FoundInput>, Error> {
    match extend_source {
        ExtendSource::Image(image) => {
            params.task = Task::FromImage;
            inputs.task = Task::FromImage;
            Ok(vec![image])
        }
        ExtendSource::Video { video, last_frame } => {
            let is_native = routed.retain_job_providers(&params.call()).is_ok();
            if is_native {
                return Ok(vec![video]);
            }
            params.task = Task::FromImage;
            params.is_joined = true;
            Ok(vec![video, last_frame])
        }
    }
}

/// Sets the ids of the stored inputs in the params.
fn fill(params: &mut Params, inputs: &Inputs, stored: &[Media]) {
    let mut ids = stored.iter().map(|media| media.id);
    match inputs.task {
        Task::FromText => {}
        Task::FromImage => params.image = ids.next(),
        Task::FromReferences => params.references = ids.collect(),
        Task::Extend => {
            params.before = ids.next();
            params.image = ids.next();
        }
    }
}

/// Returns the maximum demand of the params. Only the seconds of the video are charged.
fn demand(params: &Params) -> Demand {
    Demand {
        text_bytes: (params.prompt.len() + params.negative_prompt.as_ref().map_or(0, String::len)) as u64,
        tokens: 0,
        messages: 1,
        inputs: 0,
        media_bytes: 0,
        images: 0,
        max_tokens: Some(0),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: params.max_usage(),
    }
}
