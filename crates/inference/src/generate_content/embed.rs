//! Embeddings in Gemini's format. The vectors are the same as those of `POST /v1/embeddings`.

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

use crate::conversion::with_param_name;
use crate::embeddings::service::{EmbeddingOutput, Prepared, make, prepare};

const EMBED_ENDPOINT: &str = "/v1/models/{model}:embedContent";
const BATCH_EMBED_ENDPOINT: &str = "/v1/models/{model}:batchEmbedContents";

/// Executes `embedContent` and returns the JSON body.
pub(super) async fn embed(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Bytes, Error> {
    let prepared = prepare_embed(pipeline, ctx, caller, model, body)?;
    let output = make(pipeline, ctx, prepared).await.map_err(in_gemini_terms)?;
    let charge = &output.embedded.charge;
    let bytes = gemini::encode_embedding(&vectors(&output)?, &charge.usage, charge.amount);
    Ok(Bytes::from(bytes))
}

/// Executes `batchEmbedContents` and returns the JSON body.
pub(super) async fn batch_embed(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Bytes, Error> {
    let prepared = prepare_batch_embed(pipeline, ctx, caller, model, body)?;
    let output = make(pipeline, ctx, prepared).await.map_err(in_gemini_terms)?;
    let charge = &output.embedded.charge;
    let bytes = gemini::encode_embeddings(&vectors(&output)?, &charge.usage, charge.amount);
    Ok(Bytes::from(bytes))
}

/// Validates and routes an `embedContent` request.
pub(crate) fn prepare_embed(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Prepared, Error> {
    to_embedding_call(
        pipeline,
        ctx,
        caller,
        EMBED_ENDPOINT,
        model,
        gemini::embed_request(body)?,
    )
}

/// Validates and routes a `batchEmbedContents` request.
pub(crate) fn prepare_batch_embed(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    model: String,
    body: &[u8],
) -> Result<Prepared, Error> {
    to_embedding_call(
        pipeline,
        ctx,
        caller,
        BATCH_EMBED_ENDPOINT,
        model,
        gemini::embed_requests(body)?,
    )
}

fn to_embedding_call(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    endpoint: &'static str,
    model: String,
    request: EmbedRequest,
) -> Result<Prepared, Error> {
    let request = EmbedRequest { model, ..request };
    let body = Bytes::from(embeddings::encode_request(&request, Encoding::Float));
    prepare(pipeline, ctx, caller, endpoint, body).map_err(in_gemini_terms)
}

fn in_gemini_terms(error: Error) -> Error {
    with_param_name(error, |param| gemini::embed_param(param).to_owned())
}

fn vectors(output: &EmbeddingOutput) -> Result<EmbedResponse, Error> {
    match &output.embedded.payload {
        EmbedPayload::Raw { body, .. } => embeddings::decode_response(body).map_err(Error::internal),
        EmbedPayload::Common(response) => Ok(EmbedResponse::clone(response)),
    }
}
