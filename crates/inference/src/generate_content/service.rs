//! The use case: validate, route, admit, run, encode.

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
use crate::capabilities::{self, Asked};
use crate::crossing::Own;
use crate::{crossing, lenient};

const WHOLE: &str = "/v1/models/{model}:generateContent";
const STREAMED: &str = "/v1/models/{model}:streamGenerateContent";

/// An answer, ready to be sent.
pub(super) enum Answer {
    /// A JSON body.
    Whole(Bytes),
    /// Pieces of a stream.
    Stream(Events),
}

/// Answers a request for this model, whole or, with a framing, piece by piece.
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
    match answer.map_err(in_our_words)? {
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
        Delivered::Stream(pieces) => Ok(Answer::Stream(Events::new(
            pieces,
            &public_model,
            show_reasoning,
            framing.unwrap_or(Framing::Events),
            ctx.clone(),
        ))),
    }
}

/// A request as a call.
pub(crate) struct Prepared {
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest,
    show_reasoning: bool,
}

/// The call that a request for this model asks for.
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
    crossing::note_foreign_reasoning(ctx, &routed, &request.call);
    Ok(Prepared {
        routed,
        request,
        show_reasoning,
    })
}

/// The call of the pipeline.
pub(super) fn call(
    ctx: &RequestContext,
    caller: Caller,
    checked: Checked,
    stream: bool,
    body: Bytes,
) -> (Routed, CallRequest) {
    let Checked { head, routed, common } = checked;
    let demand = demand(&head, body.len());
    let endpoint = if stream { STREAMED } else { WHOLE };
    let call = TextCall {
        stream,
        common,
        outline: Some(Outline::new(head)),
        ..TextCall::new(Format::GenerateContent, routed.public_model.clone(), body)
    };
    let request = call_request(ctx, caller, endpoint, demand, call);
    (routed, request)
}

/// A request that can be made.
pub(super) struct Checked {
    head: GenerateHead,
    routed: Routed,
    common: Option<Arc<GenerateRequest>>,
}

/// Everything that can be refused before anything is held or sent.
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
    capabilities::check(&routed.model, &asked(&head)).map_err(in_our_words)?;
    let (own, media) = (own(&head), head.media);
    let common = crossing::common_form_without(
        &own,
        &mut routed,
        Format::GenerateContent,
        media,
        ctx,
        || match purpose {
            Purpose::Generate => gemini::decode_request(body),
            Purpose::Count => gemini::decode_count(body),
        },
    )?;
    Ok(Checked { head, routed, common })
}

/// The same failure with this format's name for the parameter.
pub(super) fn in_our_words(error: Error) -> Error {
    crossing::in_words_of(Format::GenerateContent, error)
}

/// What only this format has and no answer depends on.
fn own(head: &GenerateHead) -> Own {
    Own {
        ignored: head.ignored_hints().collect(),
        hints: head.own_hints().collect(),
        reasoning: head
            .says_how_to_reason
            .then_some("generationConfig.thinkingConfig"),
    }
}

fn asked(head: &GenerateHead) -> Asked {
    Asked {
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
            // Whose the seals are is known to the adapter alone, which has looked at the answer.
            let head = outline.and_then(|outline| outline.get::<ResponseHead>());
            let head = head.ok_or_else(crossing::wrong_format)?;
            Ok(gemini::splice_response(&bytes, head, public_model, Some(cost)))
        }
        Payload::Raw(..) => Err(crossing::wrong_format()),
        Payload::Common(response) => Ok(Bytes::from(gemini::encode_response(
            &response,
            public_model,
            Some(cost),
            show_reasoning,
        ))),
    }
}
