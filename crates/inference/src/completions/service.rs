//! Validates, routes, admits and executes a completions request, then encodes the response.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{Charge, Demand};
use tollgate_edge::RequestContext;
use tollgate_formats::openai_chat::{inspect_response, splice_response};
use tollgate_formats::openai_completions::{self, COMPLETIONS_ONLY, CompletionHead, Field, StreamEncoder};
use tollgate_formats::{Media, openai_chat};
use tollgate_pipeline::{CallRequest, Delivered, Pipeline, Routed};
use tollgate_types::generate::{GenerateRequest, GenerateResponse};
use tollgate_types::{Error, ErrorCode, Format, Usage};
use tollgate_upstream::{Outline, Payload, TextCall, TextProvider};

use crate::admission::{self, admit, call_request};
use crate::capabilities::{self, RequestedCapabilities};
use crate::chunks::Events;
use crate::{conversion, lenient};

const ENDPOINT: &str = "/v1/completions";

/// An encoded response.
pub(super) enum Answer {
    /// The complete JSON body.
    Whole(Bytes),
    /// Server-sent events, for `stream: true`.
    Stream(Events<StreamEncoder>),
}

pub(super) async fn create(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    body: Bytes,
) -> Result<Answer, Error> {
    let (routed, request) = prepare(pipeline, ctx, caller, body)?;
    let (public_model, include_usage) = (routed.public_model.clone(), request.call.include_usage);
    let admission = admit(pipeline, ctx, routed, request).await?;
    match admission::run(pipeline, ctx, admission).await? {
        Delivered::Whole {
            payload,
            outline,
            charge,
        } => {
            ctx.note_cost(charge.amount);
            let bytes = encode_whole(payload, outline.as_ref(), &public_model, &charge)?;
            Ok(Answer::Whole(bytes))
        }
        Delivered::Stream(chunks) => Ok(Answer::Stream(Events::new(chunks, public_model, include_usage))),
    }
}

/// Validates and routes a request, and returns the model call to make.
pub(crate) fn prepare(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    body: Bytes,
) -> Result<(Routed, CallRequest), Error> {
    let (checked, body) = lenient::checked(&caller, ctx, body, |body| check(pipeline, ctx, &caller, body))?;
    let Checked { head, routed, common } = checked;
    let demand = demand(&head, body.len());
    let call = TextCall {
        stream: head.stream,
        include_usage: head.include_usage,
        common,
        outline: Some(Outline::new(head)),
        ..TextCall::new(Format::Completions, routed.public_model.clone(), body)
    };
    let request = call_request(ctx, caller, ENDPOINT, demand, call);
    Ok((routed, request))
}

/// A validated and routed request.
struct Checked {
    head: CompletionHead<'static>,
    routed: Routed,
    common: Option<Arc<GenerateRequest>>,
}

/// Runs all checks that need neither a hold nor an upstream call.
fn check(pipeline: &Pipeline, ctx: &RequestContext, caller: &Caller, body: &Bytes) -> Result<Checked, Error> {
    let head = openai_completions::validate(body)?;
    let mut routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &requested(&head))?;
    if head.max_tokens == 0 && routed.model.simulated {
        let message = "'max_tokens' must be at least 1 for this model.";
        return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("max_tokens"));
    }
    check_providers(&mut routed, &head)?;
    note_ignored(&routed, &head, ctx);
    let media = Media::default();
    let common = conversion::common_form(&mut routed, Format::Completions, media, caller, ctx, || {
        openai_completions::decode_request(body)
    })?;
    Ok(Checked {
        head: head.into_owned(),
        routed,
        common,
    })
}

/// Retains the candidates that support every field of the request. Unknown fields pass if a
/// provider accepts them.
fn check_providers(routed: &mut Routed, head: &CompletionHead<'_>) -> Result<(), Error> {
    let lacking = |text: &dyn TextProvider| match text.takes(Format::Completions) {
        true => text.unsupported_fields(Format::Completions),
        false => COMPLETIONS_ONLY,
    };
    let first = routed.first_provider().and_then(|provider| provider.text());
    let lacks_first = first.map_or(COMPLETIONS_ONLY, lacking);
    let tells = |lacks: &[&str]| openai_completions::check_unsupported(head, lacks).is_ok();
    if !routed.retain(|provider| provider.text().is_some_and(|text| tells(lacking(text)))) {
        openai_completions::check_unsupported(head, lacks_first)?;
    }
    if head.unknown_fields().next().is_some() {
        let passes = |allowed: &[&str]| openai_completions::check_unknown(head, allowed).is_ok();
        if !routed.retain(|provider| provider.text().is_some_and(|text| passes(text.allowed_fields()))) {
            openai_completions::check_unknown(head, &[])?;
        }
    }
    Ok(())
}

/// Reports the dropped fields to the caller in `x-tollgate-ignored`.
fn note_ignored(routed: &Routed, head: &CompletionHead<'_>, ctx: &RequestContext) {
    let first = routed.first_provider().and_then(|provider| provider.text());
    let Some(text) = first else { return };
    let sent = |name: &&str| {
        Field::parse(name).is_some_and(|field| head.has(field) && field != Field::StreamOptions)
    };
    let ignored: Vec<&str> = head
        .ignored_hints(text.allowed_fields())
        .chain(text.dropped_fields().iter().copied().filter(sent))
        .collect();
    ctx.note_ignored(&ignored);
}

fn requested(head: &CompletionHead<'_>) -> RequestedCapabilities {
    RequestedCapabilities {
        max_tokens: Some((head.max_tokens, Field::MaxTokens.as_str())),
        response_format: (head.response_format, Field::ResponseFormat.as_str()),
        tools: false,
        conversation: "prompt",
        media: Media::default(),
        audio_output: false,
    }
}

/// Returns the demand of `best_of` completions of each prompt, even if fewer are returned. Token
/// ids are counted exactly; the rest of the body has at most one token per byte.
fn demand(head: &CompletionHead<'_>, body_bytes: usize) -> Demand {
    let body_bytes = u64::try_from(body_bytes).unwrap_or(u64::MAX);
    Demand {
        text_bytes: body_bytes.saturating_sub(head.token_bytes),
        tokens: head.tokens,
        messages: u64::from(head.prompts),
        inputs: u64::from(head.prompts),
        media_bytes: 0,
        images: 0,
        max_tokens: Some(head.max_tokens),
        reasoning_budget: 0,
        n: u64::from(head.best_of) * u64::from(head.prompts),
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}

fn encode_whole(
    payload: Payload<GenerateResponse>,
    outline: Option<&Outline>,
    public_model: &str,
    charge: &Charge,
) -> Result<Bytes, Error> {
    match payload {
        Payload::Raw(Format::Completions, bytes) => {
            let known = outline.and_then(|outline| outline.get::<openai_chat::ResponseHead>().copied());
            let head = match known {
                Some(head) => head,
                None => inspect_response(&bytes).map_err(Error::internal)?,
            };
            Ok(splice_response(
                &bytes,
                &head,
                public_model,
                Some((&charge.usage, charge.amount)),
            ))
        }
        Payload::Raw(..) => Err(conversion::wrong_format()),
        Payload::Common(response) => {
            let bytes = openai_completions::encode_response(&response, public_model, Some(charge.amount));
            Ok(Bytes::from(bytes))
        }
    }
}
