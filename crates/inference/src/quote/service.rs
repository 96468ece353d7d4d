//! Prepares a request exactly like its endpoint does, but does not execute it.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{Betas, Version};
use tollgate_formats::to_common;
use tollgate_pipeline::{CallRequest, DecideCall, Pipeline, Routed};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::EmbedCall;

use super::media::MediaRequest;
use super::read::{self, Endpoint};
use super::wire::Quote;
use crate::counting::{Counted, Counting};
use crate::research::ResearchRequest;
use crate::research::service::Submission;
use crate::{Inference, admission, conversion, counting};
use crate::{
    chat_completions, completions, decisions, embeddings, generate_content, messages, research, responses,
};

/// The caller and the parsed headers of a quote request.
pub(super) struct QuoteRequest<'a> {
    pub(super) inference: &'a Inference,
    pub(super) ctx: &'a Arc<RequestContext>,
    pub(super) caller: Caller,
    /// Base URL of the gateway, as the caller addressed it.
    pub(super) origin: String,
    pub(super) version: Version,
    pub(super) betas: Betas,
}

pub(super) async fn quote(asking: QuoteRequest<'_>, body: &[u8]) -> Result<Quote, Error> {
    let read::Request { endpoint, path, body } = read::request(body)?;
    let names_model = endpoint.names_model();
    let quoted = asking.quoted(endpoint, path, body).await;
    quoted.map_err(|error| with_quote_paths(error, names_model))
}

impl QuoteRequest<'_> {
    async fn quoted(self, endpoint: Endpoint, path: String, body: Bytes) -> Result<Quote, Error> {
        let QuoteRequest {
            inference,
            ctx,
            caller,
            origin,
            version,
            betas,
        } = self;
        let pipeline = &inference.pipeline;
        let is_report = || research::names_research_model(&inference.research, &caller, &body);
        let report = |caller, origin, body| ResearchRequest {
            research: &inference.research,
            ctx,
            caller,
            origin,
            body,
        };
        let (routed, request) = match endpoint {
            Endpoint::Research => {
                return of_report(path, Submission::read(report(caller, origin, body))?).await;
            }
            Endpoint::ChatCompletions if is_report() => {
                let submission = research::chat::submission(report(caller, origin, body))?;
                return of_report(path, submission).await;
            }
            Endpoint::Responses if is_report() => {
                let submission = research::responses::submission(report(caller, origin, body))?;
                return of_report(path, submission).await;
            }
            Endpoint::ChatCompletions => chat_completions::service::prepare(pipeline, ctx, caller, body)?,
            Endpoint::Completions => completions::service::prepare(pipeline, ctx, caller, body)?,
            Endpoint::Messages => messages::service::prepare(pipeline, ctx, caller, version, betas, body)?,
            Endpoint::Responses => {
                let request = responses::service::Request {
                    inference,
                    ctx,
                    caller,
                    origin: None,
                    body,
                    latest: None,
                };
                let prepared = responses::service::prepare(request).await?;
                (prepared.routed, prepared.request)
            }
            Endpoint::GenerateContent { model, is_streamed } => {
                let prepared =
                    generate_content::service::prepare(pipeline, ctx, caller, &model, is_streamed, body)?;
                (prepared.routed, prepared.request)
            }
            Endpoint::Embeddings => {
                let at = embeddings::service::ENDPOINT;
                let prepared = embeddings::service::prepare(pipeline, ctx, caller, at, body)?;
                return of_embeddings(pipeline, ctx, path, prepared.routed, prepared.request).await;
            }
            Endpoint::Decisions => {
                let prepared =
                    decisions::service::prepare(pipeline, &inference.calibrations, ctx, caller, &body)
                        .await?;
                return of_decisions(pipeline, ctx, path, prepared.routed, prepared.request).await;
            }
            Endpoint::EmbedContent(model) => {
                let prepared = generate_content::embed::prepare_embed(pipeline, ctx, caller, model, &body)?;
                return of_embeddings(pipeline, ctx, path, prepared.routed, prepared.request).await;
            }
            Endpoint::BatchEmbedContents(model) => {
                let prepared =
                    generate_content::embed::prepare_batch_embed(pipeline, ctx, caller, model, &body)?;
                return of_embeddings(pipeline, ctx, path, prepared.routed, prepared.request).await;
            }
            Endpoint::Media(endpoint) => {
                let request = MediaRequest {
                    endpoint,
                    ctx,
                    caller,
                    origin,
                    body,
                };
                let quote = inference.media_quotes.quote(request).await?;
                return Ok(Quote::of_media(path, quote));
            }
        };
        of_text(pipeline, ctx, path, routed, request).await
    }
}

async fn of_text(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    path: String,
    mut routed: Routed,
    mut request: CallRequest,
) -> Result<Quote, Error> {
    let preview = admission::preview(pipeline, ctx, &mut routed, &mut request).await?;
    let call = &mut request.call;
    if call.common.is_none() {
        // A request that the common form cannot represent is bounded by its bytes.
        call.common = to_common::decode_request(call.format, &call.body)
            .ok()
            .map(Arc::new);
    }
    let counting = Counting { routed, request };
    let counted = counting.count_here(pipeline).await;
    Ok(Quote::new(path, &counting.routed, &preview, &counted))
}

async fn of_report(path: String, submission: Submission<'_>) -> Result<Quote, Error> {
    let quote = research::service::quote(submission).await?;
    Ok(Quote::of_media(path, quote))
}

async fn of_embeddings(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    path: String,
    mut routed: Routed,
    mut request: CallRequest<EmbedCall>,
) -> Result<Quote, Error> {
    let preview = admission::preview(pipeline, ctx, &mut routed, &mut request).await?;
    let counted = counting::bound_of(pipeline, &routed, &request).await;
    Ok(Quote::new(path, &routed, &preview, &counted))
}

/// Quotes a decision. Its input is counted before admission, so the count is exact.
async fn of_decisions(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    path: String,
    mut routed: Routed,
    mut request: CallRequest<DecideCall>,
) -> Result<Quote, Error> {
    let preview = admission::preview(pipeline, ctx, &mut routed, &mut request).await?;
    let counted = Counted::exactly(request.call.input.total());
    Ok(Quote::new(path, &routed, &preview, &counted))
}

/// Prefixes the parameter of an error with its path in the quote request.
fn with_quote_paths(error: Error, names_model: bool) -> Error {
    match error.param.as_deref() {
        None if error.code == ErrorCode::InvalidJson => error.with_param("request"),
        None | Some("x-max-cost") => error,
        Some("model") if names_model => conversion::with_param_name(error, |_| "endpoint".to_owned()),
        Some(_) => conversion::with_param_name(error, |param| format!("request.{param}")),
    }
}
