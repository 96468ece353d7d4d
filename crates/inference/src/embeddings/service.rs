//! Validates, routes, admits and executes an embeddings request, then encodes the response.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::Demand;
use tollgate_catalog::{Model, ModelKind};
use tollgate_edge::RequestContext;
use tollgate_formats::embeddings::{self, EmbedHead, Encoding, Field, ResponseHead};
use tollgate_pipeline::{CallRequest, Embedded, Pipeline, Routed};
use tollgate_types::{Error, ErrorCode, Usage};
use tollgate_upstream::{EmbedCall, EmbedPayload, EmbedProvider, Outline};

use crate::admission::{admit, call_request};

pub(crate) const ENDPOINT: &str = "/v1/embeddings";

/// The embeddings of a request and their charge.
pub(crate) struct EmbeddingOutput {
    pub(crate) embedded: Embedded,
    public_model: Arc<str>,
    encoding: Encoding,
}

pub(super) async fn create(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    body: Bytes,
) -> Result<Bytes, Error> {
    let prepared = prepare(pipeline, ctx, caller, ENDPOINT, body)?;
    make_body(pipeline, ctx, prepared).await
}

/// Executes a request and returns the JSON body.
pub(crate) async fn make_body(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    prepared: Prepared,
) -> Result<Bytes, Error> {
    let made = make(pipeline, ctx, prepared).await?;
    encode(&made.embedded, &made.public_model, made.encoding)
}

/// Executes a request and returns the embeddings before encoding.
pub(crate) async fn make(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    prepared: Prepared,
) -> Result<EmbeddingOutput, Error> {
    let Prepared {
        routed,
        request,
        encoding,
    } = prepared;
    let public_model = routed.public_model.clone();
    let admission = admit(pipeline, ctx, routed, request).await?;
    let served = pipeline.embed(admission).await?;
    ctx.note_upstream_wait(served.upstream_wait);
    ctx.note_cost(served.answer.charge.amount);
    Ok(EmbeddingOutput {
        embedded: served.answer,
        public_model,
        encoding,
    })
}

/// A validated and routed request.
pub(crate) struct Prepared {
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest<EmbedCall>,
    encoding: Encoding,
}

/// Validates and routes a request, and returns the model call to make. `endpoint` is recorded with
/// the usage.
pub(crate) fn prepare(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    endpoint: &'static str,
    body: Bytes,
) -> Result<Prepared, Error> {
    let head = embeddings::validate(&body)?;
    let mut routed = pipeline.route(&caller, &head.model)?;
    check_model(&routed.model, &head)?;
    check_providers(&mut routed, &head)?;
    note_ignored(&routed, &head, ctx);
    let (public_model, encoding) = (routed.public_model.clone(), head.encoding);
    let demand = demand(&head);
    let call = EmbedCall {
        upstream_model: public_model,
        outline: Some(Outline::new(head.into_owned())),
        body,
    };
    let request = call_request(ctx, caller, endpoint, demand, call);
    Ok(Prepared {
        routed,
        request,
        encoding,
    })
}

/// Rejects unsupported requests: 400 for a model of another kind, 422 for more dimensions than the
/// model has.
pub(super) fn check_model(model: &Model, head: &EmbedHead<'_>) -> Result<(), Error> {
    if model.kind != ModelKind::Embedding {
        return Err(unsupported_endpoint());
    }
    let requested = head.dimensions.map(u64::from);
    let (Some(requested), Some(max_dimensions)) = (requested, model.dimensions) else {
        return Ok(());
    };
    if requested <= max_dimensions {
        return Ok(());
    }
    let message =
        format!("'dimensions' is {requested}, but the vectors of this model have at most {max_dimensions}.");
    Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("dimensions"))
}

fn unsupported_endpoint() -> Error {
    let message = "This model does not create embeddings. GET /v1/models lists the endpoints of each model.";
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}

/// Retains the candidates that support the request. Unknown fields pass if a provider accepts them.
fn check_providers(routed: &mut Routed, head: &EmbedHead<'_>) -> Result<(), Error> {
    let mut retain = |can_carry: &dyn Fn(&dyn EmbedProvider) -> bool| {
        routed.retain(|provider| provider.embeddings().is_some_and(can_carry))
    };
    if !retain(&|_| true) {
        return Err(unsupported_endpoint());
    }
    if head.unknown_fields().next().is_some() {
        let passes = |allowed: &[&str]| embeddings::check_unknown(head, allowed).is_ok();
        if !retain(&|provider| passes(provider.allowed_fields())) {
            embeddings::check_unknown(head, &[])?;
        }
    }
    if head.dimensions.is_some() && !retain(&|provider| provider.takes_dimensions()) {
        let message = "This model does not support 'dimensions'. Remove the parameter.";
        return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("dimensions"));
    }
    Ok(())
}

/// Reports the dropped fields to the caller in `x-tollgate-ignored`. The encoding is never dropped,
/// because the gateway applies it itself.
fn note_ignored(routed: &Routed, head: &EmbedHead<'_>, ctx: &RequestContext) {
    let first = routed.first_provider().and_then(|provider| provider.embeddings());
    let Some(provider) = first else { return };
    let sent = |name: &&str| {
        Field::parse(name).is_some_and(|field| field != Field::EncodingFormat && head.has(field))
    };
    let ignored: Vec<&str> = head
        .ignored_hints(provider.allowed_fields())
        .chain(provider.dropped_fields().iter().copied().filter(sent))
        .collect();
    ctx.note_ignored(&ignored);
}

/// Returns the demand of a request. Text has at most one token per byte; input in token ids is
/// counted exactly.
pub(super) fn demand(head: &EmbedHead<'_>) -> Demand {
    Demand {
        text_bytes: head.text_bytes,
        tokens: head.tokens,
        messages: u64::from(head.inputs),
        inputs: u64::from(head.inputs),
        media_bytes: 0,
        images: 0,
        max_tokens: Some(0),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}

fn encode(embedded: &Embedded, public_model: &str, encoding: Encoding) -> Result<Bytes, Error> {
    let charge = &embedded.charge;
    match &embedded.payload {
        EmbedPayload::Raw { body, outline } => {
            let looked_again;
            let head = match outline.get::<ResponseHead>() {
                Some(head) => head,
                None => {
                    looked_again = embeddings::inspect_response(body).map_err(Error::internal)?;
                    &looked_again
                }
            };
            embeddings::splice_response(body, head, public_model, &charge.usage, charge.amount)
                .map_err(Error::internal)
        }
        EmbedPayload::Common(response) => {
            let bytes =
                embeddings::encode_response(response, public_model, encoding, &charge.usage, charge.amount);
            Ok(Bytes::from(bytes))
        }
    }
}
