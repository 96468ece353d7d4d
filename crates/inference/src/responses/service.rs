//! Validates, routes, admits and executes a response request, then encodes and stores the response.

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
use super::conversation::{ResolvedRequest, resolve};
use super::events::Events;
use super::store::{LatestResponse, ResponseWriter};
use super::subscription::{self, EventStream};
use crate::Inference;
use crate::admission::{self, admit, call_request};
use crate::capabilities::{self, RequestedCapabilities};
use crate::conversion::FormatFields;
use crate::research::responses::Created;
use crate::research::{self, ResearchRequest, names_research_model};
use crate::{conversion, lenient};

const ENDPOINT: &str = "/v1/responses";

/// An encoded response.
pub(super) enum Answer {
    /// The complete JSON body.
    Whole(Bytes),
    /// Server-sent events, for `stream: true`.
    Stream(Box<Events>),
    /// Server-sent events of a background response or of a research model.
    Subscribed(EventStream),
}

/// A request to create a response.
pub(crate) struct Request<'a> {
    pub(crate) inference: &'a Inference,
    pub(crate) ctx: &'a Arc<RequestContext>,
    pub(crate) caller: Caller,
    /// Base URL of the gateway, as the caller addressed it; `None` where research models are not
    /// accepted.
    pub(crate) origin: Option<String>,
    pub(crate) body: Bytes,
    /// Latest response of the WebSocket session, if the request belongs to one.
    pub(crate) latest: Option<&'a Arc<LatestResponse>>,
}

pub(super) async fn create(request: Request<'_>) -> Result<Answer, Error> {
    let Request {
        inference,
        ctx,
        latest,
        ..
    } = request;
    let (responses, pipeline) = (&inference.responses, &inference.pipeline);
    let (caller, body) = (request.caller.clone(), request.body.clone());
    let origin = request.origin.clone();
    let is_report = || names_research_model(&inference.research, &caller, &body);
    let prepared = match (prepare(request).await, origin) {
        // Research models have their own parameters, so only refused requests are theirs.
        (Err(_), Some(origin)) if is_report() => {
            let created = research::responses::create(ResearchRequest {
                research: &inference.research,
                ctx,
                caller,
                origin,
                body,
            });
            return Ok(match created.await? {
                Created::Whole(response) => Answer::Whole(response),
                Created::Stream(events) => Answer::Subscribed(events),
            });
        }
        (prepared, _) => prepared?,
    };
    if prepared.background {
        let (account, stream) = (prepared.request.caller.account_id(), prepared.stream);
        let response = background::accept(inference, ctx, prepared).await?;
        let id = ResponseId::from_u128(ctx.id.as_u128()).to_string();
        return match stream {
            true => subscription::subscribe(inference, account, &id, None)
                .await
                .map(Answer::Subscribed),
            false => Ok(Answer::Whole(response)),
        };
    }
    let Prepared {
        routed,
        request,
        meta,
        mut resolved,
        store,
        ..
    } = prepared;
    let account = request.caller.account_id();
    let writer = match store || latest.is_some() {
        true => Some(ResponseWriter {
            responses: responses.clone(),
            account,
            id: ResponseId::from_u128(ctx.id.as_u128()),
            previous: resolved.previous,
            input: resolved.take_own_items()?,
            before: resolved.before,
            store,
            latest: latest.cloned(),
        }),
        false => None,
    };
    let admission = admit(pipeline, ctx, routed, request).await?;
    let answer = admission::run(pipeline, ctx, admission).await?;
    deliver(pipeline, ctx, answer, meta, writer).await
}

/// A validated and routed request with all data for its response.
pub(crate) struct Prepared {
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest,
    pub(super) meta: ResponseMeta,
    pub(super) resolved: ResolvedRequest,
    /// Whether the response is stored.
    store: bool,
    /// Whether the response is generated in the background.
    background: bool,
    /// Whether the caller requested a stream.
    pub(super) stream: bool,
}

/// Resolves, validates and routes a request, and returns the model call to make.
pub(crate) async fn prepare(request: Request<'_>) -> Result<Prepared, Error> {
    let Request {
        inference,
        ctx,
        caller,
        body,
        latest,
        ..
    } = request;
    let resolved = resolve(&inference.responses, latest, caller.account_id(), body).await?;
    let prepared = prepare_resolved(&inference.pipeline, ctx, caller, resolved)?;
    if prepared.background && latest.is_some() {
        let why = "is not supported in a session; send an HTTP request instead";
        return Err(DecodeError::unsupported("background", why).into());
    }
    Ok(prepared)
}

/// Validates and routes a request whose references are resolved.
pub(super) fn prepare_resolved(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    resolved: ResolvedRequest,
) -> Result<Prepared, Error> {
    let checked = lenient::checked(&caller, ctx, resolved.body.clone(), |body| {
        check(pipeline, ctx, &caller, body)
    });
    let (checked, body) = checked.map_err(|error| resolved.with_request_paths(error))?;
    let meta = ResponseMeta {
        identity: identity(ctx, &checked, &resolved),
        echo: echo(ctx, &checked, &body)?,
        show_reasoning: checked.head.shows_reasoning,
    };
    let (store, background, stream) = (checked.head.store, checked.head.background, checked.head.stream);
    let (routed, request) = call(ctx, caller, checked, body);
    conversion::note_foreign_reasoning(ctx, &routed, &request.call);
    Ok(Prepared {
        routed,
        request,
        meta,
        resolved,
        store,
        background,
        stream,
    })
}

/// Returns the response fields that the gateway determines.
fn identity(ctx: &RequestContext, checked: &Checked, resolved: &ResolvedRequest) -> Identity {
    Identity {
        number: ctx.id.as_u128(),
        created_at: seconds(ctx.accepted_at),
        model: checked.routed.public_model.to_string(),
        store: checked.head.store,
        background: checked.head.background,
        previous_response_id: resolved.previous.map(|id| id.to_string()),
    }
}

/// Returns the request fields that the response repeats. An upstream of this format repeats them
/// itself, unless the gateway rewrites the response. The simulator accepts every format but returns
/// the common form.
fn echo(ctx: &RequestContext, checked: &Checked, body: &Bytes) -> Result<Echo, Error> {
    let is_inspected = checked.head.stream && ctx.max_cost.amount().is_some();
    let is_relayed = checked.common.is_none() && !checked.routed.model.simulated && !is_inspected;
    match is_relayed {
        true => Ok(Echo::default()),
        false => Ok(Echo::of(body)?),
    }
}

/// Builds the model call of a validated request.
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

/// Encodes a complete response with its cost.
pub(super) fn encode(pipeline: &Pipeline, answer: Delivered, meta: &ResponseMeta) -> Result<Bytes, Error> {
    match answer {
        Delivered::Whole {
            payload,
            outline,
            charge,
        } => meta.encode(payload, outline.as_ref(), seconds(pipeline.clock.now()), &charge),
        Delivered::Stream(_) => Err(Error::internal("unexpected stream for a non-streaming request")),
    }
}

/// Returns the response and stores it if requested. If storing fails, the caller receives the paid
/// response with `store: false`.
async fn deliver(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    answer: Delivered,
    meta: ResponseMeta,
    writer: Option<ResponseWriter>,
) -> Result<Answer, Error> {
    match answer {
        Delivered::Whole { ref charge, .. } => {
            ctx.note_cost(charge.amount);
            let response = encode(pipeline, answer, &meta)?;
            let is_saved = match writer {
                Some(writer) => writer.finish(&response).await,
                None => true,
            };
            Ok(Answer::Whole(match is_saved {
                true => response,
                false => openai_responses::with_store_false(&response),
            }))
        }
        Delivered::Stream(chunks) => {
            let events = Events::new(chunks, pipeline.clone(), meta, writer);
            Ok(Answer::Stream(Box::new(events)))
        }
    }
}

/// A validated and routed request.
pub(super) struct Checked {
    head: ResponsesHead<'static>,
    routed: Routed,
    common: Option<Arc<GenerateRequest>>,
}

/// Runs all checks that need neither a hold nor an upstream call.
pub(super) fn check(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: &Caller,
    body: &Bytes,
) -> Result<Checked, Error> {
    let head = validate(body)?;
    let mut routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &requested(&head))?;
    let (format_fields, media) = (format_fields(&head), head.media);
    let common = conversion::common_form_dropping(
        &format_fields,
        &mut routed,
        Format::Responses,
        media,
        caller,
        ctx,
        || openai_responses::decode_request(body),
    )?;
    Ok(Checked {
        head: head.into_owned(),
        routed,
        common,
    })
}

/// Validates a request whose references are resolved.
pub(super) fn validate(body: &[u8]) -> Result<ResponsesHead<'_>, Error> {
    let head = openai_responses::validate(body)?;
    if head.previous_response_id.is_some() {
        let why = "must be written without JSON escapes";
        return Err(DecodeError::unsupported("previous_response_id", why).into());
    }
    Ok(head)
}

pub(super) fn seconds(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(1_000_000)
}

/// Returns the fields of this format that do not change the response content.
fn format_fields(head: &ResponsesHead<'_>) -> FormatFields {
    FormatFields {
        ignored: head.ignored_hints().collect(),
        hints: head.own_hints().collect(),
        reasoning: head.has_reasoning_params.then_some("reasoning"),
    }
}

pub(super) fn requested(head: &ResponsesHead<'_>) -> RequestedCapabilities {
    RequestedCapabilities {
        max_tokens: head.max_tokens.map(|cap| (cap, "max_output_tokens")),
        response_format: (head.response_format, "text.format"),
        tools: head.tools > 0,
        conversation: "input",
        media: head.media,
        audio_output: false,
    }
}

pub(super) fn demand(head: &ResponsesHead<'_>, body_bytes: usize) -> Demand {
    // If the provider truncates the input, the amount that it reads is unknown.
    let is_truncated = head.own_hints().any(|hint| hint == "truncation");
    Demand {
        max_tokens: head.max_tokens,
        n: 1,
        inputs: u64::from(!is_truncated),
        ..admission::demand(head.media, head.items, body_bytes)
    }
}

/// Data for the response object that the model does not return.
pub(super) struct ResponseMeta {
    pub(super) identity: Identity,
    pub(super) echo: Echo,
    pub(super) show_reasoning: bool,
}

impl ResponseMeta {
    /// Encodes the response object of a complete response.
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
                // Only the adapter can determine the provider that signed the reasoning. Its
                // inspection of the response is therefore required.
                let head = outline.and_then(|outline| outline.get::<ResponseHead>());
                let head = head.ok_or_else(conversion::wrong_format)?;
                Ok(openai_responses::splice_response(
                    &bytes,
                    head,
                    &self.identity,
                    usage,
                    cost,
                ))
            }
            Payload::Raw(..) => Err(conversion::wrong_format()),
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
