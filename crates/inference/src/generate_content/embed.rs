//! Embeddings in this format. The vectors are made as those of `POST /v1/embeddings` are.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::embeddings::{self, Encoding};
use tollgate_formats::gemini;
use tollgate_pipeline::Pipeline;
use tollgate_types::Error;
use tollgate_types::embed::{EmbedRequest, EmbedResponse};
use tollgate_upstream::EmbedPayload;

use crate::crossing::renamed;
use crate::embeddings::service::{Made, Prepared, make, prepare};

const ONE: &str = "/v1/models/{model}:embedContent";
const SEVERAL: &str = "/v1/models/{model}:batchEmbedContents";

/// One vector.
pub(super) async fn one(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Bytes, Error> {
    let prepared = prepare_one(pipeline, ctx, caller, model, body)?;
    let made = make(pipeline, ctx, prepared).await.map_err(in_our_words)?;
    let charge = &made.embedded.charge;
    let bytes = gemini::encode_embedding(&vectors(&made)?, &charge.usage, charge.amount);
    Ok(Bytes::from(bytes))
}

/// A vector for each of several texts.
pub(super) async fn several(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Bytes, Error> {
    let prepared = prepare_several(pipeline, ctx, caller, model, body)?;
    let made = make(pipeline, ctx, prepared).await.map_err(in_our_words)?;
    let charge = &made.embedded.charge;
    let bytes = gemini::encode_embeddings(&vectors(&made)?, &charge.usage, charge.amount);
    Ok(Bytes::from(bytes))
}

/// The call that a request for one vector asks for.
pub(crate) fn prepare_one(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Prepared, Error> {
    as_ours(pipeline, ctx, caller, ONE, model, gemini::embed_request(body)?)
}

/// The call that a request for several asks for.
pub(crate) fn prepare_several(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Prepared, Error> {
    as_ours(
        pipeline,
        ctx,
        caller,
        SEVERAL,
        model,
        gemini::embed_requests(body)?,
    )
}

fn as_ours(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    endpoint: &'static str,
    model: String,
    request: EmbedRequest,
) -> Result<Prepared, Error> {
    let request = EmbedRequest { model, ..request };
    let body = Bytes::from(embeddings::encode_request(&request, Encoding::Float));
    prepare(pipeline, ctx, caller, endpoint, body).map_err(in_our_words)
}

fn in_our_words(error: Error) -> Error {
    renamed(error, |param| gemini::embed_param(param).to_owned())
}

fn vectors(made: &Made) -> Result<EmbedResponse, Error> {
    match &made.embedded.payload {
        EmbedPayload::Raw { body, .. } => embeddings::decode_response(body).map_err(Error::internal),
        EmbedPayload::Common(response) => Ok(EmbedResponse::clone(response)),
    }
}
