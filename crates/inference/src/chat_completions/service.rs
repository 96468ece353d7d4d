//! Validates, routes, admits and executes a chat completion request, then encodes the response.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{Charge, Demand};
use tollgate_edge::RequestContext;
use tollgate_formats::openai_chat::{self, ChatHead, Field, ResponseHead, StreamEncoder};
use tollgate_pipeline::{CallRequest, Delivered, Pipeline, Routed};
use tollgate_types::generate::{GenerateRequest, GenerateResponse};
use tollgate_types::{Error, Format};
use tollgate_upstream::{Outline, Payload, TextCall};

use crate::admission::{self, admit, call_request};
use crate::capabilities::{self, RequestedCapabilities};
use crate::chunks::Events;
use crate::research::chat::ChatReport;
use crate::research::{self, ResearchRequest, names_research_model};
use crate::{Inference, conversion, lenient};

const ENDPOINT: &str = "/v1/chat/completions";

/// An encoded response.
pub(super) enum Answer {
    /// The complete JSON body.
    Whole(Bytes),
    /// Server-sent events, for `stream: true`.
    Stream(Events<StreamEncoder>),
    /// The report of a research model.
    Research(ChatReport),
}

pub(super) async fn create(
    inference: &Inference,
    ctx: &RequestContext,
    caller: Caller,
    origin: String,
    body: Bytes,
) -> Result<Answer, Error> {
    let (pipeline, research) = (&inference.pipeline, &inference.research);
    let prepared = prepare(pipeline, ctx, caller.clone(), body.clone());
    let (routed, request) = match prepared {
        // Research models have their own parameters, so only refused requests are theirs.
        Err(_) if names_research_model(research, &caller, &body) => {
            let request = ResearchRequest {
                research,
                ctx,
                caller,
                origin,
                body,
            };
            return research::chat::create(request).await.map(Answer::Research);
        }
        prepared => prepared?,
    };
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

/// Executes a request that is not streamed and returns the JSON body.
pub(crate) async fn make(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    routed: Routed,
    request: CallRequest,
) -> Result<Bytes, Error> {
    let public_model = routed.public_model.clone();
    let admission = admit(pipeline, ctx, routed, request).await?;
    match admission::run(pipeline, ctx, admission).await? {
        Delivered::Whole {
            payload,
            outline,
            charge,
        } => encode_whole(payload, outline.as_ref(), &public_model, &charge),
        Delivered::Stream(_) => Err(Error::internal("unexpected stream for a non-streaming request")),
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
        ..TextCall::new(Format::ChatCompletions, routed.public_model.clone(), body)
    };
    let request = call_request(ctx, caller, ENDPOINT, demand, call);
    Ok((routed, request))
}

/// A validated and routed request.
struct Checked {
    head: ChatHead<'static>,
    routed: Routed,
    common: Option<Arc<GenerateRequest>>,
}

/// Runs all checks that need neither a hold nor an upstream call.
fn check(pipeline: &Pipeline, ctx: &RequestContext, caller: &Caller, body: &Bytes) -> Result<Checked, Error> {
    let head = openai_chat::validate(body)?;
    let mut routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &requested(&head))?;
    check_unknown_fields(&mut routed, &head, ctx)?;
    let common = conversion::common_form(
        &mut routed,
        Format::ChatCompletions,
        head.media,
        caller,
        ctx,
        || openai_chat::decode_request(body),
    )?;
    Ok(Checked {
        head: head.into_owned(),
        routed,
        common,
    })
}

/// Lets unknown fields pass if a provider accepts them. Reports dropped hints to the caller in
/// `x-tollgate-ignored`.
fn check_unknown_fields(routed: &mut Routed, head: &ChatHead<'_>, ctx: &RequestContext) -> Result<(), Error> {
    if head.unknown_fields().next().is_some() {
        let passes = |allowed: &[&str]| openai_chat::check_unknown(head, allowed).is_ok();
        if !routed.retain(|provider| provider.text().is_some_and(|text| passes(text.allowed_fields()))) {
            openai_chat::check_unknown(head, &[])?;
        }
    }
    let Some(text) = routed.first_provider().and_then(|provider| provider.text()) else {
        return Ok(());
    };
    let dropped = text.dropped_fields().iter().copied();
    let sent = |name: &&str| {
        Field::parse(name).is_some_and(|field| head.has(field) && field != Field::StreamOptions)
    };
    let ignored: Vec<&str> = head
        .ignored_hints(text.allowed_fields())
        .chain(dropped.filter(sent))
        .collect();
    ctx.note_ignored(&ignored);
    Ok(())
}

fn requested(head: &ChatHead<'_>) -> RequestedCapabilities {
    RequestedCapabilities {
        max_tokens: head.max_tokens.map(|cap| (cap.value, cap.field.as_str())),
        response_format: (head.response_format, Field::ResponseFormat.as_str()),
        tools: head.tools > 0,
        conversation: "messages",
        media: head.media,
        audio_output: head.audio_output,
    }
}

fn demand(head: &ChatHead<'_>, body_bytes: usize) -> Demand {
    Demand {
        max_tokens: head.max_tokens.map(|cap| cap.value),
        n: u64::from(head.n),
        ..admission::demand(head.media, head.messages, body_bytes)
    }
}

fn encode_whole(
    payload: Payload<GenerateResponse>,
    outline: Option<&Outline>,
    public_model: &str,
    charge: &Charge,
) -> Result<Bytes, Error> {
    match payload {
        Payload::Raw(Format::ChatCompletions, bytes) => {
            let known = outline.and_then(|outline| outline.get::<ResponseHead>().copied());
            let head = match known {
                Some(head) => head,
                None => openai_chat::inspect_response(&bytes).map_err(Error::internal)?,
            };
            Ok(openai_chat::splice_response(
                &bytes,
                &head,
                public_model,
                Some((&charge.usage, charge.amount)),
            ))
        }
        Payload::Raw(..) => Err(conversion::wrong_format()),
        Payload::Common(response) => Ok(Bytes::from(openai_chat::encode_response(
            &response,
            public_model,
            Some(charge.amount),
        ))),
    }
}
