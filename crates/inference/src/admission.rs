//! What every call of this room is admitted by.

use std::sync::Arc;

use tollgate_accounts::Caller;
use tollgate_billing::{Demand, Preview};
use tollgate_edge::RequestContext;
use tollgate_formats::Media;
use tollgate_pipeline::{Admission, CallRequest, Delivered, NamesMedia, Pipeline, Routed, Structure};
use tollgate_types::{Credits, Error, Usage};

use crate::counting::Countable;
use crate::policy::Inspected;
use crate::structured_output::Shaped;

/// A call as the pipeline takes it.
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

/// Generates text, and notes how for the headers.
pub(crate) async fn run(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    admission: Admission,
) -> Result<Delivered, Error> {
    let served = pipeline.run(admission).await?;
    ctx.note_upstream_wait(served.upstream_wait);
    ctx.note_structure(served.structure.map(Structure::as_str));
    Ok(served.answer)
}

/// Admits the call unless the content policy refuses it, and notes the window of tokens for the limit headers, whether
/// it is admitted or refused.
pub(crate) async fn admit<C: Inspected + Shaped + NamesMedia + Countable>(
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

/// What would be held for the call if it were admitted now. What refuses a call refuses this, but for limits and want of
/// credits.
pub(crate) async fn preview<C: Inspected + Shaped + NamesMedia + Countable>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    routed: &mut Routed,
    request: &mut CallRequest<C>,
) -> Result<Preview, Error> {
    make_ready(pipeline, ctx, routed, request).await?;
    pipeline.preview(routed, request, C::texts_to_count).await
}

/// The most that the call can cost as a line of a batch. The content policy is asked when it is made.
pub(crate) fn line_bound<C: Shaped>(
    pipeline: &Pipeline,
    routed: &mut Routed,
    request: &mut CallRequest<C>,
) -> Result<Credits, Error> {
    request.call.shape(routed)?;
    routed.as_line();
    Ok(pipeline.bound(routed, request).amount)
}

async fn make_ready<C: Inspected + Shaped>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    routed: &mut Routed,
    request: &mut CallRequest<C>,
) -> Result<(), Error> {
    let policy = pipeline.policy().filter(|policy| policy.inspects_input());
    if let Some(policy) = policy.filter(|_| !routed.is_answered) {
        policy.check_input(ctx.id, &request.call.texts()?).await?;
    }
    request.call.shape(routed)
}

/// What a conversation of so many turns asks for, but for its answers.
pub(crate) fn demand(media: Media, turns: u32, body_bytes: usize) -> Demand {
    let body_bytes = u64::try_from(body_bytes).unwrap_or(u64::MAX);
    // A picture is charged by its size on the model's grid, whatever its bytes; other media at most by their bytes.
    let only_pictures = media.audio == 0 && media.files == 0;
    Demand {
        text_bytes: body_bytes.saturating_sub(media.inline_bytes),
        tokens: 0,
        messages: u64::from(turns),
        media_bytes: if only_pictures { 0 } else { media.inline_bytes },
        images: u64::from(media.images),
        max_tokens: None,
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}
