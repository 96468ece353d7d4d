//! The use case: validate, route, admit, run, encode.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{Charge, Demand};
use tollgate_edge::RequestContext;
use tollgate_formats::DecodeError;
use tollgate_formats::openai_responses::{self, Echo, Identity, ResponseHead, ResponsesHead};
use tollgate_pipeline::{CallRequest, Delivered, Pipeline, Routed};
use tollgate_types::generate::{GenerateRequest, GenerateResponse};
use tollgate_types::{Error, Format, ResponseId, Timestamp};
use tollgate_upstream::{Outline, Payload, TextCall};

use super::background;
use super::events::Events;
use super::following::{self, Following};
use super::kept::{Keeper, Latest};
use super::recall::{Recalled, recall};
use crate::Inference;
use crate::admission::{self, admit, call_request};
use crate::capabilities::{self, Asked};
use crate::crossing::Own;
use crate::{crossing, lenient};

const ENDPOINT: &str = "/v1/responses";

/// An answer, ready to be sent.
pub(super) enum Answer {
    /// A JSON body.
    Whole(Bytes),
    /// Server-sent events.
    Stream(Box<Events>),
    /// Those of a response that is made in the background.
    Followed(Following),
}

/// A request for a response.
pub(crate) struct Request<'a> {
    pub(crate) inference: &'a Inference,
    pub(crate) ctx: &'a Arc<RequestContext>,
    pub(crate) caller: Caller,
    pub(crate) body: Bytes,
    /// The session that it belongs to.
    pub(crate) latest: Option<&'a Arc<Latest>>,
}

pub(super) async fn create(request: Request<'_>) -> Result<Answer, Error> {
    let Request {
        inference,
        ctx,
        latest,
        ..
    } = request;
    let (kept, pipeline) = (&inference.kept, &inference.pipeline);
    let prepared = prepare(request).await?;
    if prepared.background {
        let (account, stream) = (prepared.request.caller.account_id(), prepared.stream);
        let response = background::accept(inference, ctx, prepared).await?;
        let id = ResponseId::from_u128(ctx.id.as_u128()).to_string();
        return match stream {
            true => following::follow(inference, account, &id, None)
                .await
                .map(Answer::Followed),
            false => Ok(Answer::Whole(response)),
        };
    }
    let Prepared {
        routed,
        request,
        told,
        mut recalled,
        store,
        ..
    } = prepared;
    let account = request.caller.account_id();
    let keeper = match store || latest.is_some() {
        true => Some(Keeper {
            kept: kept.clone(),
            account,
            id: ResponseId::from_u128(ctx.id.as_u128()),
            previous: recalled.previous,
            input: recalled.take_own_items()?,
            before: recalled.before,
            store,
            latest: latest.cloned(),
        }),
        false => None,
    };
    let admission = admit(pipeline, ctx, routed, request).await?;
    let answer = admission::run(pipeline, ctx, admission).await?;
    deliver(pipeline, ctx, answer, told, keeper).await
}

/// A request as a call.
pub(crate) struct Prepared {
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest,
    pub(super) told: Told,
    pub(super) recalled: Recalled,
    /// Whether the response is kept.
    store: bool,
    /// Whether its caller does not wait.
    background: bool,
    /// Whether its events are asked for.
    pub(super) stream: bool,
}

/// The call that a request asks for.
pub(crate) async fn prepare(request: Request<'_>) -> Result<Prepared, Error> {
    let Request {
        inference,
        ctx,
        caller,
        body,
        latest,
    } = request;
    let recalled = recall(&inference.kept, latest, caller.account_id(), body).await?;
    let prepared = prepare_recalled(&inference.pipeline, ctx, caller, recalled)?;
    if prepared.background && latest.is_some() {
        let why = "is not served in a session; send the request by itself";
        return Err(DecodeError::unsupported("background", why).into());
    }
    Ok(prepared)
}

/// The call that a request asks for which says everything itself.
pub(super) fn prepare_recalled(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    recalled: Recalled,
) -> Result<Prepared, Error> {
    let checked = lenient::checked(&caller, ctx, recalled.body.clone(), |body| {
        check(pipeline, ctx, &caller, body)
    });
    let (checked, body) = checked.map_err(|error| recalled.in_callers_places(error))?;
    let told = Told {
        identity: identity(ctx, &checked, &recalled),
        echo: echo(ctx, &checked, &body)?,
        show_reasoning: checked.head.shows_reasoning,
    };
    let (store, background, stream) = (checked.head.store, checked.head.background, checked.head.stream);
    let (routed, request) = call(ctx, caller, checked, body);
    crossing::note_foreign_reasoning(ctx, &routed, &request.call);
    Ok(Prepared {
        routed,
        request,
        told,
        recalled,
        store,
        background,
        stream,
    })
}

/// What the gateway itself says about the response.
fn identity(ctx: &RequestContext, checked: &Checked, recalled: &Recalled) -> Identity {
    Identity {
        number: ctx.id.as_u128(),
        created_at: seconds(ctx.accepted_at),
        model: checked.routed.public_model.to_string(),
        store: checked.head.store,
        background: checked.head.background,
        previous_response_id: recalled.previous.map(|id| id.to_string()),
    }
}

/// What the response says again of its request. An upstream of this format says it itself, unless the gateway looks at
/// what it says; the simulator takes every format and speaks none.
fn echo(ctx: &RequestContext, checked: &Checked, body: &Bytes) -> Result<Echo, Error> {
    let is_inspected = checked.head.stream && ctx.max_cost.amount().is_some();
    let is_relayed = checked.common.is_none() && !checked.routed.model.simulated && !is_inspected;
    match is_relayed {
        true => Ok(Echo::default()),
        false => Ok(Echo::of(body)?),
    }
}

/// The call of the pipeline.
pub(super) fn call(
    ctx: &RequestContext,
    caller: Caller,
    checked: Checked,
    body: Bytes,
) -> (Routed, CallRequest) {
    let Checked { head, routed, common } = checked;
    let demand = demand(&head, body.len());
    let call = TextCall {
        stream: head.stream,
        common,
        outline: Some(Outline::new(head)),
        ..TextCall::new(Format::Responses, routed.public_model.clone(), body)
    };
    let request = call_request(ctx, caller, ENDPOINT, demand, call);
    (routed, request)
}

/// The response object of a call that was made whole, and what it cost.
pub(super) fn encode(pipeline: &Pipeline, answer: Delivered, told: &Told) -> Result<Bytes, Error> {
    match answer {
        Delivered::Whole {
            payload,
            outline,
            charge,
        } => told.encode(payload, outline.as_ref(), seconds(pipeline.clock.now()), &charge),
        Delivered::Stream(_) => Err(Error::internal("a whole answer was asked for")),
    }
}

/// Hands the answer out, kept if it is to be. One that cannot be kept says so itself: it was paid for.
async fn deliver(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    answer: Delivered,
    told: Told,
    keeper: Option<Keeper>,
) -> Result<Answer, Error> {
    match answer {
        Delivered::Whole { ref charge, .. } => {
            ctx.note_cost(charge.amount);
            let response = encode(pipeline, answer, &told)?;
            let is_kept = match keeper {
                Some(keeper) => keeper.finish(&response).await,
                None => true,
            };
            Ok(Answer::Whole(match is_kept {
                true => response,
                false => openai_responses::not_kept(&response),
            }))
        }
        Delivered::Stream(pieces) => {
            let events = Events::new(pieces, pipeline.clone(), told, keeper);
            Ok(Answer::Stream(Box::new(events)))
        }
    }
}

/// A request that can be made.
pub(super) struct Checked {
    head: ResponsesHead<'static>,
    routed: Routed,
    common: Option<Arc<GenerateRequest>>,
}

/// Everything that can be refused before anything is held or sent.
pub(super) fn check(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: &Caller,
    body: &Bytes,
) -> Result<Checked, Error> {
    let head = validate(body)?;
    let mut routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &asked(&head))?;
    let (own, media) = (own(&head), head.media);
    let common = crossing::common_form_without(&own, &mut routed, Format::Responses, media, ctx, || {
        openai_responses::decode_request(body)
    })?;
    Ok(Checked {
        head: head.into_owned(),
        routed,
        common,
    })
}

/// Checks a request that says everything itself.
pub(super) fn validate(body: &[u8]) -> Result<ResponsesHead<'_>, Error> {
    let head = openai_responses::validate(body)?;
    if head.previous_response_id.is_some() {
        let why = "is written in a way that is not read here; write it without escapes";
        return Err(DecodeError::unsupported("previous_response_id", why).into());
    }
    Ok(head)
}

pub(super) fn seconds(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(1_000_000)
}

/// What only this format has and no answer depends on.
fn own(head: &ResponsesHead<'_>) -> Own {
    Own {
        ignored: head.ignored_hints().collect(),
        hints: head.own_hints().collect(),
        reasoning: head.says_how_to_reason.then_some("reasoning"),
    }
}

pub(super) fn asked(head: &ResponsesHead<'_>) -> Asked {
    Asked {
        max_tokens: head.max_tokens.map(|cap| (cap, "max_output_tokens")),
        response_format: (head.response_format, "text.format"),
        tools: head.tools > 0,
        conversation: "input",
        media: head.media,
        audio_output: false,
    }
}

pub(super) fn demand(head: &ResponsesHead<'_>, body_bytes: usize) -> Demand {
    Demand {
        max_tokens: head.max_tokens,
        n: 1,
        ..admission::demand(head.media, head.items, body_bytes)
    }
}

/// What is said about an answer besides itself.
pub(super) struct Told {
    pub(super) identity: Identity,
    pub(super) echo: Echo,
    pub(super) show_reasoning: bool,
}

impl Told {
    /// The response object of a whole answer.
    fn encode(
        &self,
        payload: Payload<GenerateResponse>,
        outline: Option<&Outline>,
        completed_at: i64,
        charge: &Charge,
    ) -> Result<Bytes, Error> {
        let (usage, cost) = (&charge.usage, charge.amount);
        match payload {
            Payload::Raw(Format::Responses, bytes) => {
                // Whose the seals are is known to the adapter alone, which has looked at the answer.
                let head = outline.and_then(|outline| outline.get::<ResponseHead>());
                let head = head.ok_or_else(crossing::wrong_format)?;
                Ok(openai_responses::splice_response(
                    &bytes,
                    head,
                    &self.identity,
                    usage,
                    cost,
                ))
            }
            Payload::Raw(..) => Err(crossing::wrong_format()),
            Payload::Common(response) => Ok(Bytes::from(openai_responses::encode_response(
                &response,
                &self.identity,
                &self.echo,
                completed_at,
                Some(cost),
                self.show_reasoning,
            ))),
        }
    }
}
