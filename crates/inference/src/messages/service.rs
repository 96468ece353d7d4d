//! Validates, routes, admits and executes a message request, then encodes the response.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::Demand;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{self, Betas, MessagesHead, Purpose, ResponseHead, Version};
use tollgate_pipeline::{CallRequest, Delivered, Pipeline, Routed};
use tollgate_types::generate::{GenerateRequest, GenerateResponse};
use tollgate_types::{Credits, Error, ErrorCode, Format, Usage};
use tollgate_upstream::{Outline, Payload, TextCall};

use super::events::Events;
use crate::admission::{self, admit, call_request};
use crate::capabilities::{self, RequestedCapabilities};
use crate::conversion::FormatFields;
use crate::{conversion, lenient};

const ENDPOINT: &str = "/v1/messages";

/// An encoded response.
pub(super) enum Answer {
    /// The complete JSON body.
    Whole(Bytes),
    /// Server-sent events, for `stream: true`.
    Stream(Box<Events>),
}

pub(super) async fn create(
    pipeline: &Arc<Pipeline>,
    ctx: &Arc<RequestContext>,
    caller: Caller,
    version: Version,
    betas: Betas,
    body: Bytes,
) -> Result<Answer, Error> {
    let (routed, request) = prepare(pipeline, ctx, caller, version, betas, body)?;
    let common = request.call.common.as_ref();
    let show_reasoning = common.is_none_or(|request| !request.hide_reasoning);
    let public_model = routed.public_model.clone();
    let admission = admit(pipeline, ctx, routed, request).await?;
    match admission::run(pipeline, ctx, admission).await? {
        Delivered::Whole {
            payload,
            outline,
            charge,
        } => {
            ctx.note_cost(charge.amount);
            let bytes = encode_whole(
                payload,
                outline.as_ref(),
                &public_model,
                charge.amount,
                show_reasoning,
            )?;
            Ok(Answer::Whole(bytes))
        }
        Delivered::Stream(chunks) => Ok(Answer::Stream(Box::new(Events::new(
            chunks,
            &public_model,
            show_reasoning,
            ctx.id.to_string(),
        )))),
    }
}

/// Executes a request that is not streamed and returns the JSON body.
pub(crate) async fn make(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    routed: Routed,
    request: CallRequest,
) -> Result<Bytes, Error> {
    let common = request.call.common.as_ref();
    let show_reasoning = common.is_none_or(|request| !request.hide_reasoning);
    let public_model = routed.public_model.clone();
    let admission = admit(pipeline, ctx, routed, request).await?;
    match admission::run(pipeline, ctx, admission).await? {
        Delivered::Whole {
            payload,
            outline,
            charge,
        } => encode_whole(
            payload,
            outline.as_ref(),
            &public_model,
            charge.amount,
            show_reasoning,
        ),
        Delivered::Stream(_) => Err(Error::internal("unexpected stream for a non-streaming request")),
    }
}

/// Validates and routes a request, and returns the model call to make.
pub(crate) fn prepare(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    version: Version,
    betas: Betas,
    body: Bytes,
) -> Result<(Routed, CallRequest), Error> {
    let (checked, body) = lenient::checked(&caller, ctx, body, |body| {
        check(pipeline, ctx, &caller, version, Purpose::Generate, body)
    })?;
    let (routed, request) = call(ctx, caller, checked, betas, body);
    conversion::note_foreign_reasoning(ctx, &routed, &request.call);
    Ok((routed, request))
}

/// Builds the model call of a validated request.
pub(super) fn call(
    ctx: &RequestContext,
    caller: Caller,
    checked: Checked,
    betas: Betas,
    body: Bytes,
) -> (Routed, CallRequest) {
    let Checked { head, routed, common } = checked;
    note_betas(ctx, &betas, &routed);
    let demand = demand(&head, body.len());
    let call = TextCall {
        stream: head.stream,
        previews: betas.forwarded,
        common,
        outline: Some(Outline::new(head)),
        ..TextCall::new(Format::Messages, routed.public_model.clone(), body)
    };
    let request = call_request(ctx, caller, ENDPOINT, demand, call);
    (routed, request)
}

/// Reports the beta headers that are not forwarded to the provider in `x-tollgate-ignored`.
fn note_betas(ctx: &RequestContext, betas: &Betas, routed: &Routed) {
    let mut left_out: Vec<&str> = betas.left_out.iter().map(String::as_str).collect();
    let has_forwarded = !betas.forwarded.is_empty();
    if has_forwarded && !routed.all_accept_format(Format::Messages) {
        left_out.push("anthropic-beta");
    }
    ctx.note_ignored(&left_out);
}

/// A validated and routed request.
pub(super) struct Checked {
    head: MessagesHead<'static>,
    routed: Routed,
    common: Option<Arc<GenerateRequest>>,
}

/// Runs all checks that need neither a hold nor an upstream call.
pub(super) fn check(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: &Caller,
    version: Version,
    purpose: Purpose,
    body: &Bytes,
) -> Result<Checked, Error> {
    let head = anthropic_messages::validate(body, version, purpose)?;
    let mut routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &requested(&head))?;
    if let Some(index) = head.first_instructions
        && !routed.retain_system_turns(Format::Messages, !caller.is_strict())
    {
        let param = format!("messages[{index}].role");
        let message = format!(
            "'{param}' is 'system', but this model accepts instructions only in the parameter 'system'. \
             Move the instructions there, or choose another model."
        );
        return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(param));
    }
    let (format_fields, media) = (format_fields(&head), head.media);
    let common = conversion::common_form_dropping(
        &format_fields,
        &mut routed,
        Format::Messages,
        media,
        caller,
        ctx,
        || match purpose {
            Purpose::Generate => anthropic_messages::decode_request(body),
            Purpose::Count => anthropic_messages::decode_count(body),
        },
    )?;
    Ok(Checked {
        head: head.into_owned(),
        routed,
        common,
    })
}

/// Returns the fields of this format that do not change the response content.
fn format_fields(head: &MessagesHead<'_>) -> FormatFields {
    FormatFields {
        ignored: head.ignored_hints().collect(),
        hints: head.own_hints().collect(),
        reasoning: head.has_reasoning_params.then_some("thinking"),
    }
}

fn requested(head: &MessagesHead<'_>) -> RequestedCapabilities {
    RequestedCapabilities {
        max_tokens: head.max_tokens.map(|cap| (cap, "max_tokens")),
        response_format: (head.response_format, head.format_param()),
        tools: head.tools > 0,
        conversation: "messages",
        media: head.media,
        audio_output: false,
    }
}

fn demand(head: &MessagesHead<'_>, body_bytes: usize) -> Demand {
    Demand {
        max_tokens: head.max_tokens,
        reasoning_budget: head.reasoning_budget,
        n: 1,
        caches_for_an_hour: head.caches_for_an_hour,
        made: Usage::ZERO,
        ..admission::demand(head.media, head.messages, body_bytes)
    }
}

fn encode_whole(
    payload: Payload<GenerateResponse>,
    outline: Option<&Outline>,
    public_model: &str,
    cost: Credits,
    show_reasoning: bool,
) -> Result<Bytes, Error> {
    match payload {
        Payload::Raw(Format::Messages, bytes) => {
            // Only the adapter can determine the provider that signed the reasoning. Its inspection
            // of the response is therefore required.
            let head = outline.and_then(|outline| outline.get::<ResponseHead>());
            let head = head.ok_or_else(conversion::wrong_format)?;
            Ok(anthropic_messages::splice_response(
                &bytes,
                head,
                public_model,
                Some(cost),
            ))
        }
        Payload::Raw(..) => Err(conversion::wrong_format()),
        Payload::Common(response) => Ok(Bytes::from(anthropic_messages::encode_response(
            &response,
            public_model,
            Some(cost),
            show_reasoning,
        ))),
    }
}
