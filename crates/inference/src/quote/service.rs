//! The use case: what is done for a request before it is sent, without sending it.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{Betas, Version};
use tollgate_formats::hub;
use tollgate_pipeline::{CallRequest, DecideCall, Pipeline, Routed};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::EmbedCall;

use super::read::{self, Endpoint};
use super::wire::Quote;
use crate::counting::{Counted, Counting};
use crate::{Inference, admission, counting, crossing};
use crate::{chat_completions, completions, decisions, embeddings, generate_content, messages, responses};

/// Who asks, and what stands in headers.
pub(super) struct Asking<'a> {
    pub(super) inference: &'a Inference,
    pub(super) ctx: &'a Arc<RequestContext>,
    pub(super) caller: Caller,
    pub(super) version: Version,
    pub(super) betas: Betas,
}

pub(super) async fn quote(asking: Asking<'_>, body: &[u8]) -> Result<Quote, Error> {
    let read::Request { endpoint, path, body } = read::request(body)?;
    let names_model = endpoint.names_model();
    let quoted = asking.quoted(endpoint, path, body).await;
    quoted.map_err(|error| in_quotes_places(error, names_model))
}

impl Asking<'_> {
    async fn quoted(self, endpoint: Endpoint, path: String, body: Bytes) -> Result<Quote, Error> {
        let Asking {
            inference,
            ctx,
            caller,
            version,
            betas,
        } = self;
        let pipeline = &inference.pipeline;
        let (routed, request) = match endpoint {
            Endpoint::ChatCompletions => chat_completions::service::prepare(pipeline, ctx, caller, body)?,
            Endpoint::Completions => completions::service::prepare(pipeline, ctx, caller, body)?,
            Endpoint::Messages => messages::service::prepare(pipeline, ctx, caller, version, betas, body)?,
            Endpoint::Responses => {
                let request = responses::service::Request {
                    inference,
                    ctx,
                    caller,
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
                let prepared = generate_content::embed::prepare_one(pipeline, ctx, caller, model, &body)?;
                return of_embeddings(pipeline, ctx, path, prepared.routed, prepared.request).await;
            }
            Endpoint::BatchEmbedContents(model) => {
                let prepared = generate_content::embed::prepare_several(pipeline, ctx, caller, model, &body)?;
                return of_embeddings(pipeline, ctx, path, prepared.routed, prepared.request).await;
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
        // What has no place in the common form is bounded like everything else.
        call.common = hub::decode_request(call.format, &call.body).ok().map(Arc::new);
    }
    let counting = Counting { routed, request };
    let counted = counting.count_here(pipeline).await;
    Ok(Quote::new(path, &counting.routed, &preview, &counted))
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

/// The input is counted before the call is admitted, so the count is what is charged.
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

/// A fault of the request where it stands in the request for a quote.
fn in_quotes_places(error: Error, names_model: bool) -> Error {
    match error.param.as_deref() {
        None if error.code == ErrorCode::InvalidJson => error.with_param("request"),
        None | Some("x-max-cost") => error,
        Some("model") if names_model => crossing::renamed(error, |_| "endpoint".to_owned()),
        Some(_) => crossing::renamed(error, |param| format!("request.{param}")),
    }
}
