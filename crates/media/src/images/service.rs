//! The use case: read, route, check against the model, fetch what goes in, accept the job, and wait for it where that is
//! asked for.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tollgate_billing::Demand;
use tollgate_catalog::{Factor, Model, ModelKind, Template};
use tollgate_edge::RequestContext;
use tollgate_pipeline::Routed;
use tollgate_storage::{Job, Media};
use tollgate_types::{Error, ErrorCode, JobId, JobStatus, Unit, Usage};
use tollgate_upstream::ImageCall;

use super::blend;
use super::craft::{Format, Pictures, Task, Wish};
use super::read::{self, Request};
use crate::MediaRoom;
use crate::input::Found;
use crate::jobs::{JobReference, unavailable};
use crate::making::Acceptance;
use crate::order::Order;
use crate::read::beyond;
use crate::sizes::{Said, Usual, nearest_ratio};
use crate::submission::Asked;

pub(super) const ENDPOINT: &str = "/v1/images/generations";
/// The longest that a call is held open (contract, Limits).
pub(super) const WINDOW: Duration = Duration::from_secs(240);
/// Output tokens of one picture where a model is priced by them and does not say how many there can be.
const PICTURE_TOKENS: u64 = 16_384;
/// What sides are multiples of where the model says nothing.
const USUAL: Usual = Usual {
    grain: 16,
    resolution: None,
    ratio: None,
};

/// What a request has become.
pub(super) enum Answer {
    /// A job, which is polled.
    Accepted(JobReference),
    /// The pictures.
    Made(Value),
}

/// Accepts a request and waits for it where its body or, for so long, its `prefer` header says so, or else its key.
pub(super) async fn create(asked: Asked<'_>, prefer: Option<Duration>) -> Result<Answer, Error> {
    let request = read::request(&asked.body)?;
    let wait = match (request.sync, prefer) {
        (Some(true), _) => Some(WINDOW),
        (Some(false), prefer) | (None, prefer @ Some(_)) => prefer,
        (None, None) => asked.caller.sync.then_some(WINDOW),
    };
    asked.ctx.note_ignored(&request.ignored);
    let id = accept(&asked, request).await?;
    let Asked {
        room, ctx, origin, ..
    } = &asked;
    let Some(wait) = wait else {
        let created_at = ctx.accepted_at;
        let reference = JobReference::new(origin, id, super::KIND, JobStatus::Queued, created_at);
        return Ok(Answer::Accepted(reference));
    };
    let waited = room.jobs.wait(asked.caller.account_id(), id, None, wait).await;
    let job = waited.map_err(|error| unavailable(&error))?;
    let job = job.ok_or_else(|| Error::internal(format!("{id} is not there")))?;
    answer(room, ctx, origin, &job).await
}

/// What is answered to somebody who has waited.
async fn answer(room: &MediaRoom, ctx: &RequestContext, origin: &str, job: &Job) -> Result<Answer, Error> {
    if let Some(charge) = job.charge {
        ctx.note_cost(charge);
    }
    if let Some(made) = room.records.result(origin, job).await? {
        let mut body = made.body;
        if let Value::Object(body) = &mut body {
            body.insert("usage".to_owned(), usage(job));
            body.insert("job_id".to_owned(), job.terms.id.to_string().into());
        }
        return Ok(Answer::Made(body));
    }
    match (&job.error, job.status) {
        (Some(error), _) => Err(Error::from(error)),
        (None, JobStatus::Cancelled | JobStatus::Expired) => {
            let message = "The job was cancelled before it was done. It was not charged.";
            Err(Error::new(ErrorCode::Conflict, message))
        }
        (None, _) => Ok(Answer::Accepted(JobReference::of(origin, job))),
    }
}

fn usage(job: &Job) -> Value {
    let usage = &job.usage;
    let mut said = Map::new();
    said.insert("input_tokens".to_owned(), usage.total_input().into());
    said.insert("output_tokens".to_owned(), usage.total_output().into());
    said.insert("total_tokens".to_owned(), usage.total().into());
    said.insert(
        "cost".to_owned(),
        json!(job.charge.map(|charge| charge.to_string())),
    );
    Value::Object(said)
}

async fn accept(asked: &Asked<'_>, request: Request) -> Result<JobId, Error> {
    let template = asked.template(request.template.as_deref(), ModelKind::Image)?;
    let mut routed = asked.route(request.model.as_deref(), template.as_deref(), ModelKind::Image)?;
    let (request, mut wish) = blended(request, template.as_deref(), &mut routed)?;
    let count = request.num_images.unwrap_or(1);
    let call = wish.call(1);
    asked.check_webhook(request.webhook_url.as_deref())?;
    asked
        .check_texts([&request.prompt, &request.negative_prompt])
        .await?;
    let named: Vec<(String, String)> = inputs(&request).cloned().collect();
    let demand = demand(&routed.model, &wish, count, named.len());
    asked.check_balance(&routed.model, &demand).await?;
    let finder = asked.finder();
    let found = finder.pictures(&named).await?;
    check_mask(&found, request.mask.is_some())?;
    let kept = finder.keep(asked.ctx.id, found).await?;
    fill(&mut wish, &kept, request.mask.is_some());
    let accepted = Acceptance {
        ctx: asked.ctx,
        order: Order {
            head: asked.head(&routed.model, request.metadata),
            parts: parts(count, routed.most_at_once::<ImageCall>()),
            wish,
        },
        request: asked.call(ENDPOINT, demand, call),
        routed,
        webhook_url: request.webhook_url,
    };
    let accepted = asked.room.studio.accept::<Pictures>(accepted).await;
    if accepted.is_err() {
        asked.room.shelf.discard(&kept).await;
    }
    accepted
}

/// The request with what its template adds, and what is asked for by that. What no candidate takes of the template's
/// parameters is not the caller's fault: then there are none.
fn blended(
    mut request: Request,
    template: Option<&Template>,
    routed: &mut Routed,
) -> Result<(Request, Wish), Error> {
    let model = routed.model.clone();
    let mut asked_for = |request: &Request| -> Result<Wish, Error> {
        let wish = wish(&model, request)?;
        routed.retain_makers(&wish.call(1))?;
        Ok(wish)
    };
    if let Some(template) = template {
        request.prompt = Some(blend::prompt(&request, template));
        let filled = blend::filled(&request, template, &model.media.entry);
        if let Ok(wish) = asked_for(&filled) {
            return Ok((filled, wish));
        }
    }
    let wish = asked_for(&request)?;
    Ok((request, wish))
}

/// What is asked for, if the model can do it.
fn wish(model: &Model, request: &Request) -> Result<Wish, Error> {
    let entry = &model.media.entry;
    let count = request.num_images.unwrap_or(1);
    if entry.max_images.is_some_and(|most| count > most) {
        let most = entry.max_images.unwrap_or_default();
        return Err(beyond(
            "num_images",
            &format!("is {count}, and this model makes at most {most} at once"),
        ));
    }
    if let Some(most) = entry
        .max_input_images
        .filter(|most| request.images.len() > *most as usize)
    {
        let sent = request.images.len();
        return Err(beyond(
            "image",
            &format!("has {sent} pictures, and this model takes at most {most}"),
        ));
    }
    for (name, is_asked, known) in [
        ("mask", request.mask.is_some(), entry.masks),
        ("variation_of", request.variation_of.is_some(), entry.variations),
        ("image_set", request.image_set, entry.image_sets),
        (
            "negative_prompt",
            request.negative_prompt.is_some(),
            entry.negative_prompts,
        ),
    ] {
        if is_asked && known == Some(false) {
            return Err(beyond(name, "is nothing that this model can do"));
        }
    }
    if let Some(quality) = request.quality()
        && !entry.qualities.is_empty()
        && !entry.qualities.contains(quality)
    {
        let known = entry.qualities.join(", ");
        return Err(beyond("quality", &format!("is not one of the model's: {known}")));
    }
    let prompt = request.prompt.clone().unwrap_or_default();
    if let Some(most) = entry
        .max_prompt_characters
        .filter(|most| prompt.chars().count() > *most as usize)
    {
        return Err(beyond(
            "prompt",
            &format!("has more than the {most} characters that this model reads"),
        ));
    }
    let resolved = request.said.resolve(entry, USUAL)?;
    let quality = request
        .quality()
        .cloned()
        .or_else(|| entry.qualities.first().cloned());
    let step = resolved
        .resolution
        .as_deref()
        .map_or(Factor::ONE, |name| model.media.factor(name));
    let grade = quality
        .as_deref()
        .map_or(Factor::ONE, |name| model.media.factor(name));
    Ok(Wish {
        task: match (&request.variation_of, &request.mask, request.images.is_empty()) {
            (Some(_), ..) => Task::Vary,
            (None, Some(_), _) => Task::Inpaint,
            (None, None, false) => Task::Edit,
            (None, None, true) => Task::Generate,
        },
        prompt,
        negative_prompt: request.negative_prompt.clone(),
        images: Vec::new(),
        mask: None,
        set: request.image_set,
        size: resolved.size.map(|size| (size.width, size.height)),
        aspect_ratio: resolved.aspect_ratio.map(|ratio| ratio.to_string()),
        resolution: resolved.resolution.map(|step| step.to_string()),
        quality: request.quality().cloned(),
        format: request.output_format.map(Format::from),
        seed: request.seed,
        inline: request.inline,
        each: step.times(grade).of(1_000_000),
    })
}

/// What the picture of a scene is asked with: in the shape that is nearest to the scene's. The most that it can consume.
pub(crate) fn still(
    model: &Model,
    prompt: String,
    shape: (u32, u32),
    seed: Option<u64>,
) -> Result<(Wish, Demand), Error> {
    let request = Request {
        prompt: Some(prompt),
        said: Said {
            aspect_ratio: nearest_ratio(&model.media.entry.aspect_ratios, shape).cloned(),
            ..Said::default()
        },
        seed,
        ..Request::default()
    };
    let wish = wish(model, &request)?;
    let demand = demand(model, &wish, 1, 0);
    Ok((wish, demand))
}

/// Pictures that go in, the mask last.
fn inputs(request: &Request) -> impl Iterator<Item = &(String, String)> {
    request
        .variation_of
        .iter()
        .chain(&request.images)
        .chain(&request.mask)
}

/// A mask is as large as what it masks.
fn check_mask(found: &[Found], has_mask: bool) -> Result<(), Error> {
    let (Some(mask), true) = (found.last(), has_mask) else {
        return Ok(());
    };
    let size = |found: &Found| (found.facts.width, found.facts.height);
    match found.first() {
        Some(picture) if size(picture) != size(mask) => Err(crate::read::invalid(
            "mask",
            "is not as large as the picture in 'image'",
        )),
        _ => Ok(()),
    }
}

fn fill(wish: &mut Wish, kept: &[Media], has_mask: bool) {
    let mut ids: Vec<_> = kept.iter().map(|media| media.id).collect();
    wish.mask = if has_mask { ids.pop() } else { None };
    wish.images = ids;
}

/// How many pieces each submission asks for.
fn parts(count: u32, most: u32) -> Vec<u32> {
    let most = most.max(1);
    let whole = std::iter::repeat_n(most, (count / most) as usize);
    whole.chain(Some(count % most).filter(|rest| *rest > 0)).collect()
}

/// The most that it can consume.
fn demand(model: &Model, wish: &Wish, count: u32, inputs: usize) -> Demand {
    let is_by_token = !model.prices.highest_output(0).is_zero();
    let tokens = model.output_ceiling().unwrap_or(PICTURE_TOKENS);
    let text = wish.prompt.len() + wish.negative_prompt.as_ref().map_or(0, String::len);
    Demand {
        text_bytes: text as u64,
        tokens: 0,
        messages: 1,
        media_bytes: 0,
        images: inputs as u64,
        max_tokens: Some(if is_by_token { tokens } else { 0 }),
        reasoning_budget: 0,
        n: u64::from(count),
        caches_for_an_hour: false,
        made: Usage::ZERO.with(Unit::Image, wish.each.saturating_mul(u64::from(count))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_shared_out() {
        for (count, most, expected) in [
            (1, 4, &[1][..]),
            (4, 4, &[4]),
            (4, 1, &[1, 1, 1, 1]),
            (4, 3, &[3, 1]),
            (3, 0, &[1, 1, 1]),
        ] {
            assert_eq!(parts(count, most), expected, "{count} {most}");
        }
    }
}
