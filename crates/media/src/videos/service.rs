//! The use case: read, route, check against the model, fetch what goes in, accept the job.

use std::time::Duration;

use tollgate_billing::Demand;
use tollgate_catalog::media::{parse_ratio, resolution, size_of};
use tollgate_catalog::{Factor, MediaEntry, Model, ModelKind, Template};
use tollgate_pipeline::Routed;
use tollgate_storage::Media;
use tollgate_types::{Error, ErrorCode, JobId, JobStatus};

use super::alike::alike;
use super::blend;
use super::craft::{Films, KIND, Task, Wish};
use super::read::{self, Request};
use super::source::{self, Beginning};
use crate::input::Found;
use crate::jobs::{JobReference, unavailable};
use crate::making::Acceptance;
use crate::order::Order;
use crate::read::{beyond, invalid};
use crate::shelf::INPUT_KEPT;
use crate::sizes::{Said, Usual, nearest_ratio};
use crate::submission::Asked;

pub(super) const ENDPOINT: &str = "/v1/videos/generations";
/// How long a film is where neither caller nor model says it.
const USUAL_DURATION: u32 = 5;
/// Steps of size where the model says nothing.
const USUAL: Usual = Usual {
    grain: 2,
    resolution: Some("720p"),
    ratio: Some("16:9"),
};
/// The factor of sound.
const AUDIO: &str = tollgate_catalog::media::AUDIO;

pub(super) async fn create(asked: Asked<'_>) -> Result<JobReference, Error> {
    let request = read::request(&asked.body)?;
    let id = accept(&asked, request, ENDPOINT).await?;
    let created_at = asked.ctx.accepted_at;
    Ok(JobReference::new(
        &asked.origin,
        id,
        KIND,
        JobStatus::Queued,
        created_at,
    ))
}

/// Accepts the job of a request that was sent to this endpoint.
pub(super) async fn accept(
    asked: &Asked<'_>,
    request: Request,
    endpoint: &'static str,
) -> Result<JobId, Error> {
    let template = asked.template(request.template.as_deref(), ModelKind::Video)?;
    let mut routed = asked.route(request.model.as_deref(), template.as_deref(), ModelKind::Video)?;
    let entry = routed.model.media.entry.clone();
    let mut inputs = sorted(&entry, &request)?;
    let said = request.said.clone();
    let (request, mut wish) = blended(request, template.as_deref(), &mut routed, inputs.task)?;
    asked.check_webhook(request.webhook_url.as_deref())?;
    asked
        .check_texts([&request.prompt, &request.negative_prompt])
        .await?;
    let least = match request.extend_from {
        Some(_) => demand(&cheapest(&routed.model, &wish)),
        None => demand(&wish),
    };
    asked.check_balance(&routed.model, &least).await?;
    let finder = asked.finder();
    let mut found = finder.pictures(&inputs.pictures).await?;
    if let Some(before) = &request.extend_from {
        let beginning = source::beginning(asked.room, &finder, before).await?;
        like(&mut wish, &routed.model, (&said, &request.said), &beginning)?;
        found = begin(&mut wish, &mut inputs, &mut routed, beginning)?;
        asked.check_balance(&routed.model, &demand(&wish)).await?;
    }
    let demand = demand(&wish);
    let call = wish.call();
    routed.retain_makers(&call)?;
    let kept = finder.keep(asked.ctx.id, found).await?;
    fill(&mut wish, &inputs, &kept);
    let accepted = Acceptance {
        ctx: asked.ctx,
        order: Order {
            head: asked.head(&routed.model, request.metadata),
            parts: vec![1],
            wish,
        },
        request: asked.call(endpoint, demand, call),
        routed,
        webhook_url: request.webhook_url,
    };
    let accepted = asked.room.studio.accept::<Films>(accepted).await;
    if accepted.is_err() {
        asked.room.shelf.discard(&kept).await;
    }
    accepted
}

/// Accepts the job of a wish that an earlier job had, with another prompt. What went into that goes into this.
pub(super) async fn again(
    asked: &Asked<'_>,
    model: &str,
    mut wish: Wish,
    endpoint: &'static str,
) -> Result<JobId, Error> {
    let mut routed = asked.route(Some(model), None, ModelKind::Video)?;
    check_prompt(&routed.model, &wish.prompt)?;
    wish.each = each(&routed.model, &wish.resolution, wish.audio);
    asked
        .check_texts([&Some(wish.prompt.clone()), &wish.negative_prompt])
        .await?;
    let demand = demand(&wish);
    asked.check_balance(&routed.model, &demand).await?;
    keep_longer(asked, &wish).await?;
    let call = wish.call();
    routed.retain_makers(&call)?;
    let accepted = Acceptance {
        ctx: asked.ctx,
        order: Order {
            head: asked.head(&routed.model, None),
            parts: vec![1],
            wish,
        },
        request: asked.call(endpoint, demand, call),
        routed,
        webhook_url: None,
    };
    asked.room.studio.accept::<Films>(accepted).await
}

/// What goes into a job is kept for as long as it may last.
async fn keep_longer(asked: &Asked<'_>, wish: &Wish) -> Result<(), Error> {
    let shelf = &asked.room.shelf;
    let now = shelf.clock.now();
    let inputs = wish.image.iter().chain(&wish.references).chain(&wish.before);
    for id in inputs {
        let account = asked.caller.account_id();
        let kept = shelf.media.extend(account, *id, now, now.plus(INPUT_KEPT)).await;
        if kept.map_err(|error| unavailable(&error))?.is_none() {
            let message =
                "What the film was made from is not kept any more. Send it again with a new request.";
            return Err(Error::new(ErrorCode::Gone, message).with_param("video_id"));
        }
    }
    Ok(())
}

fn check_prompt(model: &Model, prompt: &str) -> Result<(), Error> {
    let most = model.media.entry.max_prompt_characters;
    match most.filter(|most| prompt.chars().count() > *most as usize) {
        None => Ok(()),
        Some(most) => Err(beyond(
            "prompt",
            &format!("has more than the {most} characters that this model reads"),
        )),
    }
}

/// What a second of film counts for, in millionths of a plain one.
fn each(model: &Model, step: &str, audio: bool) -> u64 {
    let sound = if audio {
        model.media.factor(AUDIO)
    } else {
        Factor::ONE
    };
    model.media.factor(step).times(sound).of(1_000_000)
}

/// The same in the step of size that counts for least: in which one it will be is known with what it goes on with.
fn cheapest(model: &Model, wish: &Wish) -> Wish {
    let steps = model.media.entry.resolutions.iter();
    let least = steps.map(|step| each(model, step, wish.audio)).min();
    Wish {
        each: least.unwrap_or(wish.each),
        ..wish.clone()
    }
}

/// What goes in, and what it is for.
struct Inputs {
    task: Task,
    pictures: Vec<(String, String)>,
}

/// Two pictures or more are subjects on a model that knows those; a single one is the first frame.
fn sorted(entry: &MediaEntry, request: &Request) -> Result<Inputs, Error> {
    let knows_references = match entry.max_references {
        Some(most) => most > 0,
        None => entry.modes.is_empty() || entry.modes.iter().any(|mode| mode == "r2v"),
    };
    let (task, name, pictures) = match (&request.references[..], &request.images[..]) {
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
                "are subjects that are to appear, which this model does not know",
            ));
        }
        let sent = pictures.len();
        if let Some(most) = entry.max_references.filter(|most| sent > *most as usize) {
            return Err(beyond(
                name,
                &format!("has {sent} pictures, and this model takes at most {most}"),
            ));
        }
    }
    let task = match (&request.mode, task) {
        (None, task) => task,
        (Some(mode), task) => by_mode(entry, mode, task)?,
    };
    let usual = task.mode();
    let known = |mode: &&String| **mode == usual;
    // A model that lists the usual names lists what it can do.
    let lists_usual = entry
        .modes
        .iter()
        .any(|mode| ["t2v", "i2v", "r2v"].contains(&mode.as_str()));
    if request.mode.is_none()
        && task != Task::Extend
        && lists_usual
        && !entry.modes.iter().any(|mode| known(&mode))
    {
        return Err(beyond(
            name,
            &format!(
                "asks for {usual}, and this model's modes are {}",
                entry.modes.join(", ")
            ),
        ));
    }
    Ok(Inputs {
        task,
        pictures: pictures.clone(),
    })
}

/// What is asked for by its name must fit what goes in.
fn by_mode(entry: &MediaEntry, mode: &str, task: Task) -> Result<Task, Error> {
    if !entry.modes.is_empty() && !entry.modes.iter().any(|known| known == mode) {
        let what = format!("is not one of the model's: auto, {}", entry.modes.join(", "));
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
        (false, "t2v") => Err(invalid("mode", "is 't2v', which takes no pictures and no film")),
        (false, "i2v") => Err(invalid(
            "mode",
            "is 'i2v', which needs exactly one picture in 'image'",
        )),
        (false, _) => Err(invalid(
            "mode",
            "is 'r2v', which needs pictures in 'reference_images'",
        )),
    }
}

/// The request with what its template adds, and what is asked for by that. What no candidate takes of the template's
/// parameters is not the caller's fault: then there are none.
fn blended(
    mut request: Request,
    template: Option<&Template>,
    routed: &mut Routed,
    task: Task,
) -> Result<(Request, Wish), Error> {
    let model = routed.model.clone();
    if let Some(template) = template {
        request.prompt = Some(blend::prompt(&request, template));
        let filled = blend::filled(&request, template, &model.media.entry, task);
        // Who goes on with a film is known when that was looked at.
        let is_taken = |wish: &Wish| task == Task::Extend || routed.retain_makers(&wish.call()).is_ok();
        if let Some(wish) = wish(&model, &filled, task).ok().filter(is_taken) {
            return Ok((filled, wish));
        }
    }
    let wish = wish(&model, &request, task)?;
    Ok((request, wish))
}

/// What is asked for, if the model can do it.
fn wish(model: &Model, request: &Request, task: Task) -> Result<Wish, Error> {
    let entry = &model.media.entry;
    if request.negative_prompt.is_some() && entry.negative_prompts == Some(false) {
        return Err(beyond("negative_prompt", "is nothing that this model can do"));
    }
    let prompt = request.prompt.clone().unwrap_or_default();
    check_prompt(model, &prompt)?;
    let duration = match request.duration {
        Some(asked) => {
            let fits = |seconds: &u32| asked == Duration::from_secs(u64::from(*seconds));
            if !entry.durations.is_empty() && !entry.durations.iter().any(fits) {
                let known: Vec<String> = entry.durations.iter().map(u32::to_string).collect();
                let what = format!("is not one of the model's, in seconds: {}", known.join(", "));
                return Err(beyond("duration", &what));
            }
            asked
        }
        None => Duration::from_secs(u64::from(
            entry.durations.first().copied().unwrap_or(USUAL_DURATION),
        )),
    };
    if request.audio == Some(true) && entry.audio == Some(false) {
        return Err(beyond(
            "generate_audio",
            "is true, and this model's films are silent",
        ));
    }
    let resolved = request.said.resolve(entry, USUAL)?;
    let step = resolved.resolution.unwrap_or_else(|| "720p".into());
    if task == Task::FromReferences
        && let Some(most) = &entry.max_reference_resolution
        && pixels(&step) > pixels(most)
    {
        return Err(beyond(
            "resolution",
            &format!("is larger than {most}, the most of this model with references"),
        ));
    }
    let size = resolved
        .size
        .map_or((1_280, 720), |size| (size.width, size.height));
    let audio = request.audio.unwrap_or(entry.audio != Some(false));
    Ok(Wish {
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

/// What the film of a scene is asked with: in the shape and the step of size that are nearest to the scene's, silent, and as
/// long as the shortest that the model makes that is long enough. The most that it can consume.
pub(crate) fn scene(
    model: &Model,
    prompt: String,
    shape: (u32, u32),
    (step, seconds): (&str, f64),
    seed: Option<u64>,
) -> Result<(Wish, Demand), Error> {
    let entry = &model.media.entry;
    let long_enough = |known: &&u32| f64::from(**known) >= seconds;
    let fitting = entry.durations.iter().filter(long_enough).min();
    let duration = match fitting.or(entry.durations.iter().max()) {
        Some(known) => *known,
        None => (seconds.ceil() as u32).clamp(1, USUAL_DURATION * 2),
    };
    let has_step = entry.resolutions.is_empty() || entry.resolutions.iter().any(|known| known == step);
    let request = Request {
        prompt: Some(prompt),
        said: Said {
            aspect_ratio: nearest_ratio(&entry.aspect_ratios, shape).cloned(),
            resolution: has_step.then(|| step.to_owned()),
            ..Said::default()
        },
        duration: Some(Duration::from_secs(u64::from(duration))),
        audio: Some(false).filter(|_| entry.audio == Some(true)),
        seed,
        ..Request::default()
    };
    let inputs = sorted(entry, &request)?;
    let wish = wish(model, &request, inputs.task)?;
    let demand = demand(&wish);
    Ok((wish, demand))
}

/// How many pixels a step of size has.
pub(super) fn pixels(step: &str) -> u64 {
    resolution(step).map_or(0, |step| {
        let (width, height) = size_of(step, (16, 9), 2);
        u64::from(width) * u64::from(height)
    })
}

/// Films have even sides.
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

/// A film that goes on with another keeps its size and its ratio, whatever a template says. One that goes on with a picture has
/// the picture's shape, as far as the model has it, unless another is asked for.
fn like(
    wish: &mut Wish,
    model: &Model,
    (said, filled): (&Said, &Said),
    beginning: &Beginning,
) -> Result<(), Error> {
    let entry = &model.media.entry;
    let (facts, is_film) = match beginning {
        Beginning::Picture(picture) => (&picture.facts, false),
        Beginning::Film { film, .. } => (&film.facts, true),
    };
    let (Some(width), Some(height)) = (facts.width, facts.height) else {
        return Ok(());
    };
    if is_film {
        alike(wish, entry, said, (width, height))?;
        wish.each = each(model, &wish.resolution, wish.audio);
        return Ok(());
    }
    if filled.size.is_some() || filled.aspect_ratio.is_some() {
        return Ok(());
    }
    let nearest = nearest_ratio(&entry.aspect_ratios, (width, height));
    let nearest = nearest.and_then(|name| Some((name, parse_ratio(name)?)));
    if let (Some((name, ratio)), Some(step)) = (nearest, resolution(&wish.resolution)) {
        wish.aspect_ratio.clone_from(name);
        wish.size = even(size_of(step, ratio, USUAL.grain));
    }
    Ok(())
}

/// Where some provider goes on with films itself it is left to it; else the gateway has the model begin with the last frame
/// and puts both together.
fn begin(
    wish: &mut Wish,
    inputs: &mut Inputs,
    routed: &mut Routed,
    beginning: Beginning,
) -> Result<Vec<Found>, Error> {
    match beginning {
        Beginning::Picture(picture) => {
            wish.task = Task::FromImage;
            inputs.task = Task::FromImage;
            Ok(vec![picture])
        }
        Beginning::Film { film, last_frame } => {
            let is_native = routed.retain_makers(&wish.call()).is_ok();
            if is_native {
                return Ok(vec![film]);
            }
            wish.task = Task::FromImage;
            wish.is_joined = true;
            Ok(vec![film, last_frame])
        }
    }
}

/// What was kept, in its place.
fn fill(wish: &mut Wish, inputs: &Inputs, kept: &[Media]) {
    let mut ids = kept.iter().map(|media| media.id);
    match inputs.task {
        Task::FromText => {}
        Task::FromImage => wish.image = ids.next(),
        Task::FromReferences => wish.references = ids.collect(),
        Task::Extend => {
            wish.before = ids.next();
            wish.image = ids.next();
        }
    }
}

/// The most that it can consume: nothing but film is charged.
fn demand(wish: &Wish) -> Demand {
    Demand {
        text_bytes: (wish.prompt.len() + wish.negative_prompt.as_ref().map_or(0, String::len)) as u64,
        tokens: 0,
        messages: 1,
        media_bytes: 0,
        images: 0,
        max_tokens: Some(0),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: wish.most(),
    }
}
