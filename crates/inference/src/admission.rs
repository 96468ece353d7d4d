//! Admission of inference calls: checks, content policy and holds.

use std::sync::Arc;

use tollgate_accounts::Caller;
use tollgate_billing::{Demand, Preview};
use tollgate_edge::RequestContext;
use tollgate_formats::Media;
use tollgate_pipeline::{Admission, CallRequest, Delivered, Pipeline, ReferencesMedia, Routed, Structure};
use tollgate_types::{Credits, Error, Usage};

use crate::counting::{Countable, check_window};
use crate::missing::Wanted;
use crate::policy::Inspectable;
use crate::structured_output::Shaped;

/// Builds the pipeline's call from the caller and the request context.
pub(crate) fn call_request<C>(
    ctx: &RequestContext,
    caller: Caller,
    endpoint: &'static str,
    demand: Demand,
    call: C,
) -> CallRequest<C> {
    CallRequest {
        caller,
        request: ctx.id,
        accepted_at: ctx.accepted_at,
        endpoint,
        demand,
        max_cost: ctx.max_cost.amount(),
        call,
    }
}

/// Executes an admitted text call and records its details for the response headers.
pub(crate) async fn run(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    admission: Admission,
) -> Result<Delivered, Error> {
    let wanted = Wanted::of(admission.call());
    let served = pipeline.run(admission).await?;
    ctx.note_upstream_wait(served.upstream_wait);
    ctx.note_structure(served.structure.map(Structure::as_str));
    let changed: Vec<&str> = served.changed.iter().map(String::as_str).collect();
    ctx.note_ignored(&changed);
    if let Delivered::Whole { payload, outline, .. } = &served.answer {
        wanted.note_missing(ctx, payload, outline.as_ref());
    }
    Ok(served.answer)
}

/// Admits a call unless the content policy rejects it. Records the token rate limit for the
/// response headers, whether the call is admitted or rejected.
pub(crate) async fn admit<C: Inspectable + Shaped + ReferencesMedia + Countable>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    mut routed: Routed,
    mut request: CallRequest<C>,
) -> Result<Admission<C>, Error> {
    make_ready(pipeline, ctx, &mut routed, &mut request).await?;
    let (admission, tokens) =
        pipeline
            .admit(routed, request, C::texts_to_count)
            .await
            .map_err(|refused| {
                if let Some(tokens) = refused.tokens {
                    ctx.note_tokens(tokens);
                }
                refused.error
            })?;
    ctx.note_tokens(tokens);
    Ok(admission)
}

/// Returns the amount that would be held for the call now. Fails like an admission, but ignores
/// rate limits and a low balance.
pub(crate) async fn preview<C: Inspectable + Shaped + ReferencesMedia + Countable>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    routed: &mut Routed,
    request: &mut CallRequest<C>,
) -> Result<Preview, Error> {
    make_ready(pipeline, ctx, routed, request).await?;
    pipeline.preview(routed, request, C::texts_to_count).await
}

/// Returns the maximum cost of the call as a batch line. The content policy is checked later, when
/// the line is executed.
pub(crate) fn line_bound<C: Shaped>(
    pipeline: &Pipeline,
    routed: &mut Routed,
    request: &mut CallRequest<C>,
) -> Result<Credits, Error> {
    request.call.shape(routed)?;
    routed.apply_batch_discount();
    Ok(pipeline.bound(routed, request).amount)
}

async fn make_ready<C: Inspectable + Shaped + Countable>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    routed: &mut Routed,
    request: &mut CallRequest<C>,
) -> Result<(), Error> {
    check_window(pipeline, routed, request).await?;
    let policy = pipeline.policy().filter(|policy| policy.inspects_input());
    if let Some(policy) = policy.filter(|_| !routed.is_replay) {
        policy.check_input(ctx.id, &request.call.texts()?).await?;
    }
    request.call.shape(routed)
}

/// Returns the demand of a conversation with this number of turns, without its output.
pub(crate) fn demand(media: Media, turns: u32, body_bytes: usize) -> Demand {
    let body_bytes = u64::try_from(body_bytes).unwrap_or(u64::MAX);
    // Images are charged by their size on the model's grid, not by their bytes. For other media the
    // bytes are an upper bound.
    let only_images = media.audio == 0 && media.files == 0;
    Demand {
        text_bytes: body_bytes.saturating_sub(media.inline_bytes),
        tokens: 0,
        messages: u64::from(turns),
        inputs: 1,
        media_bytes: if only_images { 0 } else { media.inline_bytes },
        images: u64::from(media.images),
        max_tokens: None,
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}
