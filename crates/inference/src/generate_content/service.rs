//! Validates, routes, admits and executes a request in Gemini's format, then encodes the response.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::Demand;
use tollgate_edge::RequestContext;
use tollgate_formats::gemini::{self, GenerateHead, Purpose, ResponseHead};
use tollgate_pipeline::{CallRequest, Delivered, Pipeline, Routed};
use tollgate_types::generate::{GenerateRequest, GenerateResponse};
use tollgate_types::{Credits, Error, Format};
use tollgate_upstream::{Outline, Payload, TextCall};

use super::events::{Events, Framing};
use crate::admission::{self, admit, call_request};
use crate::capabilities::{self, RequestedCapabilities};
use crate::conversion::FormatFields;
use crate::{conversion, lenient};

const GENERATE_ENDPOINT: &str = "/v1/models/{model}:generateContent";
const STREAM_ENDPOINT: &str = "/v1/models/{model}:streamGenerateContent";

/// An encoded response.
pub(super) enum Answer {
    /// The complete JSON body.
    Whole(Bytes),
    /// Chunks of a stream.
    Stream(Box<Events>),
}

/// Executes a request for this model. With a framing the response is streamed.
pub(super) async fn create(
    pipeline: &Arc<Pipeline>,
    ctx: &Arc<RequestContext>,
    caller: Caller,
    model: &str,
    framing: Option<Framing>,
    body: Bytes,
) -> Result<Answer, Error> {
    let prepared = prepare(pipeline, ctx, caller, model, framing.is_some(), body)?;
    let Prepared {
        routed,
        request,
        show_reasoning,
    } = prepared;
    let public_model = routed.public_model.clone();
    let admission = admit(pipeline, ctx, routed, request).await?;
    let answer = admission::run(pipeline, ctx, admission).await;
    match answer.map_err(in_gemini_terms)? {
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
            framing.unwrap_or(Framing::Events),
            ctx.clone(),
        )))),
    }
}

/// A validated and routed request with its encoding option.
pub(crate) struct Prepared {
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest,
    show_reasoning: bool,
}

/// Validates and routes a request for this model, and returns the model call to make.
pub(crate) fn prepare(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    model: &str,
    is_streamed: bool,
    body: Bytes,
) -> Result<Prepared, Error> {
    let (checked, body) = lenient::checked(&caller, ctx, body, |body| {
        check(pipeline, ctx, &caller, model, Purpose::Generate, body)
    })?;
    let show_reasoning = checked.head.include_thoughts;
    let (routed, request) = call(ctx, caller, checked, is_streamed, body);
    conversion::note_foreign_reasoning(ctx, &routed, &request.call);
    Ok(Prepared {
        routed,
        request,
        show_reasoning,
    })
}

/// Builds the model call of a validated request.
pub(super) fn call(
    ctx: &RequestContext,
    caller: Caller,
    checked: Checked,
    stream: bool,
    body: Bytes,
) -> (Routed, CallRequest) {
    let Checked { head, routed, common } = checked;
    let demand = demand(&head, body.len());
    let endpoint = if stream {
        STREAM_ENDPOINT
    } else {
        GENERATE_ENDPOINT
    };
    let call = TextCall {
        stream,
        common,
        outline: Some(Outline::new(head)),
        ..TextCall::new(Format::GenerateContent, routed.public_model.clone(), body)
    };
    let request = call_request(ctx, caller, endpoint, demand, call);
    (routed, request)
}

/// A validated and routed request.
pub(super) struct Checked {
    head: GenerateHead,
    routed: Routed,
    common: Option<Arc<GenerateRequest>>,
}

/// Runs all checks that need neither a hold nor an upstream call.
pub(super) fn check(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: &Caller,
    model: &str,
    purpose: Purpose,
    body: &Bytes,
) -> Result<Checked, Error> {
    let head = gemini::validate(body, purpose)?;
    let mut routed = pipeline.route(caller, model)?;
    capabilities::check(&routed.model, &requested(&head)).map_err(in_gemini_terms)?;
    let (format_fields, media) = (format_fields(&head), head.media);
    let common = conversion::common_form_dropping(
        &format_fields,
        &mut routed,
        Format::GenerateContent,
        media,
        caller,
        ctx,
        || match purpose {
            Purpose::Generate => gemini::decode_request(body),
            Purpose::Count => gemini::decode_count(body),
        },
    )?;
    Ok(Checked { head, routed, common })
}

/// Renames the parameter of an error to this format's name.
pub(super) fn in_gemini_terms(error: Error) -> Error {
    conversion::in_format_terms(Format::GenerateContent, error)
}

/// Returns the fields of this format that do not change the response content.
fn format_fields(head: &GenerateHead) -> FormatFields {
    FormatFields {
        ignored: head.ignored_hints().collect(),
        hints: head.own_hints().collect(),
        reasoning: head
            .has_reasoning_params
            .then_some("generationConfig.thinkingConfig"),
    }
}

fn requested(head: &GenerateHead) -> RequestedCapabilities {
    RequestedCapabilities {
        max_tokens: head
            .max_tokens
            .map(|cap| (cap, "generationConfig.maxOutputTokens")),
        response_format: (head.response_format, "generationConfig.responseMimeType"),
        tools: head.tools > 0,
        conversation: "contents",
        media: head.media,
        audio_output: false,
    }
}

fn demand(head: &GenerateHead, body_bytes: usize) -> Demand {
    Demand {
        max_tokens: head.max_tokens,
        n: u64::from(head.candidates),
        ..admission::demand(head.media, head.contents, body_bytes)
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
        Payload::Raw(Format::GenerateContent, bytes) => {
            // Only the adapter can determine the provider that signed the reasoning. Its inspection
            // of the response is therefore required.
            let head = outline.and_then(|outline| outline.get::<ResponseHead>());
            let head = head.ok_or_else(conversion::wrong_format)?;
            Ok(gemini::splice_response(&bytes, head, public_model, Some(cost)))
        }
        Payload::Raw(..) => Err(conversion::wrong_format()),
        Payload::Common(response) => Ok(Bytes::from(gemini::encode_response(
            &response,
            public_model,
            Some(cost),
            show_reasoning,
        ))),
    }
}
