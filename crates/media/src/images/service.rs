//! Image generation. The service parses and routes the request, applies the template, checks the
//! model's limits, fetches the inputs, accepts the job and, for synchronous requests, waits for the
//! result.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tollgate_billing::{Demand, ItemizedQuote};
use tollgate_catalog::{Factor, Model, ModelKind, Template};
use tollgate_edge::members::beyond;
use tollgate_edge::{FormField, JobReference, RequestContext};
use tollgate_pipeline::{CallRequest, Routed};
use tollgate_storage::{Job, Media};
use tollgate_types::{Error, ErrorCode, JobId, JobStatus, Unit, Usage};
use tollgate_upstream::ImageCall;

use super::blend;
use super::form;
use super::generator::{Format, ImageGenerator, Params, Task};
use super::read::{self, Request};
use crate::MediaState;
use crate::generation::Acceptance;
use crate::input::FoundInput;
use crate::job_payload::JobPayload;
use crate::jobs::unavailable;
use crate::sizes::{SizeDefaults, SizeParams, nearest_ratio};
use crate::submission::Submission;

const GENERATIONS: &str = "/v1/images/generations";
const EDITS: &str = "/v1/images/edits";
const VARIATIONS: &str = "/v1/images/variations";
/// Maximum time that a synchronous request stays open (contract, Limits).
pub(super) const SYNC_TIMEOUT: Duration = Duration::from_secs(240);
/// Maximum number of output tokens of one image, for models that are priced by tokens and declare
/// no limit.
const DEFAULT_IMAGE_TOKENS: u64 = 16_384;
/// Size defaults for models that declare none: sides are multiples of 16 pixels.
const SIZE_DEFAULTS: SizeDefaults = SizeDefaults {
    grain: 16,
    resolution: None,
    ratio: None,
};

/// Outcome of an image request.
pub(super) enum Answer {
    /// A job to poll.
    Accepted(JobReference),
    /// The response body with the images.
    Completed(Value),
}

/// Handles a JSON request. Waits for the result if `sync` is true or the `prefer` header requests a
/// wait. Without `sync` and a wait in the header, the key's setting decides.
pub(super) async fn create(submission: Submission<'_>, prefer: Option<Duration>) -> Result<Answer, Error> {
    let request = read::request(&submission.body)?;
    let waits = submission.caller.sync;
    serve(submission, GENERATIONS, request, prefer, waits).await
}

/// Returns the hold that [`create`] would take for the same request. The demand depends on the
/// number of input images, so they are not fetched.
pub async fn quote(submission: Submission<'_>) -> Result<ItemizedQuote, Error> {
    let request = read::request(&submission.body)?;
    submission.ctx.note_ignored(&request.ignored);
    let Prepared { routed, call, .. } = prepare(&submission, GENERATIONS, request).await?;
    submission.quote(routed, call).await
}

/// Handles the form of an image edit. Waits for the result by default, because OpenAI's clients
/// expect the images in the response.
pub(super) async fn edit(
    submission: Submission<'_>,
    fields: Vec<FormField>,
    prefer: Option<Duration>,
) -> Result<Answer, Error> {
    serve(submission, EDITS, form::edit(fields)?, prefer, true).await
}

/// Handles the form of an image variation. Waits for the result by default, like [`edit`].
pub(super) async fn vary(
    submission: Submission<'_>,
    fields: Vec<FormField>,
    prefer: Option<Duration>,
) -> Result<Answer, Error> {
    let answer = serve(submission, VARIATIONS, form::vary(fields)?, prefer, true).await;
    answer.map_err(form::as_image)
}

async fn serve(
    submission: Submission<'_>,
    endpoint: &'static str,
    request: Request,
    prefer: Option<Duration>,
    waits: bool,
) -> Result<Answer, Error> {
    let wait = match (request.sync, prefer) {
        (Some(true), _) => Some(SYNC_TIMEOUT),
        (Some(false), prefer) | (None, prefer @ Some(_)) => prefer,
        (None, None) => waits.then_some(SYNC_TIMEOUT),
    };
    submission.ctx.note_ignored(&request.ignored);
    let id = accept(&submission, endpoint, request).await?;
    let Submission {
        state, ctx, origin, ..
    } = &submission;
    let Some(wait) = wait else {
        let created_at = ctx.accepted_at;
        let reference = JobReference::new(origin, id, super::KIND, JobStatus::Queued, created_at);
        return Ok(Answer::Accepted(reference));
    };
    let waited = state
        .jobs
        .wait(submission.caller.account_id(), id, None, wait)
        .await;
    let job = waited.map_err(|error| unavailable(&error))?;
    let job = job.ok_or_else(|| Error::internal(format!("{id} does not exist")))?;
    answer(state, ctx, origin, &job).await
}

/// Builds the outcome of a synchronous request: the images, an error, or the job if it is still
/// running.
async fn answer(state: &MediaState, ctx: &RequestContext, origin: &str, job: &Job) -> Result<Answer, Error> {
    if let Some(charge) = job.charge {
        ctx.note_cost(charge);
    }
    if let Some(made) = state.records.result(origin, job).await? {
        let mut body = made.body;
        if let Value::Object(body) = &mut body {
            body.insert("usage".to_owned(), usage(job));
            body.insert("job_id".to_owned(), job.terms.id.to_string().into());
        }
        return Ok(Answer::Completed(body));
    }
    match (&job.error, job.status) {
        (Some(error), _) => Err(Error::from(error)),
        (None, JobStatus::Cancelled | JobStatus::Expired) => {
            let message = "The job was cancelled before it completed. It was not charged.";
            Err(Error::new(ErrorCode::Conflict, message))
        }
        (None, _) => Ok(Answer::Accepted(JobReference::of(origin, job))),
    }
}

fn usage(job: &Job) -> Value {
    let usage = &job.usage;
    let mut fields = Map::new();
    fields.insert("input_tokens".to_owned(), usage.total_input().into());
    fields.insert("output_tokens".to_owned(), usage.total_output().into());
    fields.insert("total_tokens".to_owned(), usage.total().into());
    fields.insert(
        "cost".to_owned(),
        json!(job.charge.map(|charge| charge.to_string())),
    );
    Value::Object(fields)
}

/// A validated request whose input images are not fetched yet.
struct Prepared {
    request: Request,
    routed: Routed,
    params: Params,
    /// Number of images to generate.
    count: u32,
    call: CallRequest<ImageCall>,
}

async fn prepare(
    submission: &Submission<'_>,
    endpoint: &'static str,
    request: Request,
) -> Result<Prepared, Error> {
    let template = submission.template(request.template.as_deref(), ModelKind::Image)?;
    let mut routed = submission.route(request.model.as_deref(), template.as_deref(), ModelKind::Image)?;
    let (request, params) = blended(request, template.as_deref(), &mut routed)?;
    submission.check_webhook(request.webhook_url.as_deref())?;
    submission
        .check_texts([&request.prompt, &request.negative_prompt])
        .await?;
    let count = request.num_images.unwrap_or(1);
    let demand = demand(&routed.model, &params, count, inputs(&request).count());
    Ok(Prepared {
        call: submission.call(endpoint, demand, params.call(1)),
        request,
        routed,
        params,
        count,
    })
}

async fn accept(
    submission: &Submission<'_>,
    endpoint: &'static str,
    request: Request,
) -> Result<JobId, Error> {
    let Prepared {
        request,
        routed,
        mut params,
        count,
        call,
    } = prepare(submission, endpoint, request).await?;
    submission.check_balance(&routed.model, &call.demand).await?;
    let named: Vec<(String, String)> = inputs(&request).cloned().collect();
    let finder = submission.finder();
    let found = finder.images(&named).await?;
    check_mask(&found, request.mask.is_some())?;
    let stored = finder.store(submission.ctx.id, found).await?;
    fill(&mut params, &stored, request.mask.is_some());
    let accepted = Acceptance {
        ctx: submission.ctx,
        payload: JobPayload {
            head: submission.head(&routed.model, request.metadata),
            parts: parts(count, routed.max_outputs::<ImageCall>()),
            params,
        },
        request: call,
        routed,
        webhook_url: request.webhook_url,
    };
    let accepted = submission
        .state
        .media_jobs
        .accept::<ImageGenerator>(accepted)
        .await;
    if accepted.is_err() {
        submission.state.storage.discard(&stored).await;
    }
    accepted
}

/// Applies the template. Returns the request and its generation params. If no candidate supports
/// the parameters of the template, only the template's prompt is applied.
fn blended(
    mut request: Request,
    template: Option<&Template>,
    routed: &mut Routed,
) -> Result<(Request, Params), Error> {
    let model = routed.model.clone();
    let mut candidate_params = |request: &Request| -> Result<Params, Error> {
        let params = params(&model, request)?;
        routed.retain_job_providers(&params.call(1))?;
        Ok(params)
    };
    if let Some(template) = template {
        request.prompt = Some(blend::prompt(&request, template));
        let filled = blend::filled(&request, template, &model.media.entry);
        if let Ok(params) = candidate_params(&filled) {
            return Ok((filled, params));
        }
    }
    let params = candidate_params(&request)?;
    Ok((request, params))
}

/// Returns the generation params of a request, or an error if it exceeds the model's limits.
fn params(model: &Model, request: &Request) -> Result<Params, Error> {
    let entry = &model.media.entry;
    let count = request.num_images.unwrap_or(1);
    if entry.max_images.is_some_and(|max| count > max) {
        let max = entry.max_images.unwrap_or_default();
        return Err(beyond(
            "num_images",
            &format!("is {count}, but the maximum of this model is {max}"),
        ));
    }
    if let Some(max) = entry
        .max_input_images
        .filter(|max| request.images.len() > *max as usize)
    {
        let sent = request.images.len();
        return Err(beyond(
            "image",
            &format!("has {sent} images, but this model accepts at most {max}"),
        ));
    }
    for (name, is_requested, known) in [
        ("mask", request.mask.is_some(), entry.masks),
        ("variation_of", request.variation_of.is_some(), entry.variations),
        ("image_set", request.image_set, entry.image_sets),
        (
            "negative_prompt",
            request.negative_prompt.is_some(),
            entry.negative_prompts,
        ),
    ] {
        if is_requested && known == Some(false) {
            return Err(beyond(name, "is not supported by this model"));
        }
    }
    if let Some(quality) = request.quality()
        && !entry.qualities.is_empty()
        && !entry.qualities.contains(quality)
    {
        let known = entry.qualities.join(", ");
        return Err(beyond("quality", &format!("must be one of: {known}")));
    }
    let prompt = request.prompt.clone().unwrap_or_default();
    if let Some(max) = entry
        .max_prompt_characters
        .filter(|max| prompt.chars().count() > *max as usize)
    {
        return Err(beyond(
            "prompt",
            &format!("must have at most {max} characters for this model"),
        ));
    }
    let resolved = request.requested_size.resolve(entry, SIZE_DEFAULTS)?;
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
    Ok(Params {
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

/// Returns the generation params of an image for a composition scene, and their maximum demand. The
/// image has the supported aspect ratio nearest to `shape`, which is width and height.
pub(crate) fn still(
    model: &Model,
    prompt: String,
    shape: (u32, u32),
    seed: Option<u64>,
) -> Result<(Params, Demand), Error> {
    let request = Request {
        prompt: Some(prompt),
        requested_size: SizeParams {
            aspect_ratio: nearest_ratio(&model.media.entry.aspect_ratios, shape).cloned(),
            ..SizeParams::default()
        },
        seed,
        ..Request::default()
    };
    let params = params(model, &request)?;
    let demand = demand(model, &params, 1, 0);
    Ok((params, demand))
}

/// Returns the input images of the request; the mask is the last one.
fn inputs(request: &Request) -> impl Iterator<Item = &(String, String)> {
    request
        .variation_of
        .iter()
        .chain(&request.images)
        .chain(&request.mask)
}

/// Checks that the mask has the dimensions of its image.
fn check_mask(found: &[FoundInput], has_mask: bool) -> Result<(), Error> {
    let (Some(mask), true) = (found.last(), has_mask) else {
        return Ok(());
    };
    let size = |found: &FoundInput| (found.facts.width, found.facts.height);
    match found.first() {
        Some(image) if size(image) != size(mask) => Err(tollgate_edge::members::invalid(
            "mask",
            "must have the width and height of the image in 'image'",
        )),
        _ => Ok(()),
    }
}

fn fill(params: &mut Params, stored: &[Media], has_mask: bool) {
    let mut ids: Vec<_> = stored.iter().map(|media| media.id).collect();
    params.mask = if has_mask { ids.pop() } else { None };
    params.images = ids;
}

/// Splits `count` outputs into submissions of at most `max` outputs.
fn parts(count: u32, max: u32) -> Vec<u32> {
    let max = max.max(1);
    let whole = std::iter::repeat_n(max, (count / max) as usize);
    whole.chain(Some(count % max).filter(|rest| *rest > 0)).collect()
}

/// Returns the maximum demand of `count` images.
fn demand(model: &Model, params: &Params, count: u32, inputs: usize) -> Demand {
    let is_priced_by_token = !model.prices.highest_output(0).is_zero();
    let tokens = model.output_ceiling().unwrap_or(DEFAULT_IMAGE_TOKENS);
    let text = params.prompt.len() + params.negative_prompt.as_ref().map_or(0, String::len);
    Demand {
        text_bytes: text as u64,
        tokens: 0,
        messages: 1,
        inputs: 0,
        media_bytes: 0,
        images: inputs as u64,
        max_tokens: Some(if is_priced_by_token { tokens } else { 0 }),
        reasoning_budget: 0,
        n: u64::from(count),
        caches_for_an_hour: false,
        made: Usage::ZERO.with(Unit::Image, params.each.saturating_mul(u64::from(count))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_split_into_submissions() {
        for (count, max, expected) in [
            (1, 4, &[1][..]),
            (4, 4, &[4]),
            (4, 1, &[1, 1, 1, 1]),
            (4, 3, &[3, 1]),
            (3, 0, &[1, 1, 1]),
        ] {
            assert_eq!(parts(count, max), expected, "{count} {max}");
        }
    }
}
