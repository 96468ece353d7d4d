//! HTTP handlers of the Gemini API. The action follows the last colon of the path, which a router
//! cannot split. A single route therefore dispatches to all handlers.

use axum::extract::{Path, RawQuery, Request, State};
use axum::handler::Handler;
use axum::http::header::ALLOW;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use bytes::Bytes;
use tollgate_edge::body::{JSON_BODY, MEDIA_BODY};
use tollgate_edge::context::Context;
use tollgate_edge::{
    Action, ApiError, ControlCaller, ErrorBody, JsonBody, WorkCaller, json, request_layer, sse,
};
use tollgate_types::{Error, ErrorCode};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::events::Framing;
use super::service::{self, Answer};
use super::wire::{
    BatchEmbedContents, ContentEmbedding, ContentEmbeddings, ContentTokens, CountContentTokens, EmbedContent,
    GenerateContent, GeneratedContent,
};
use super::{count, embed};
use crate::Inference;

const COUNTING: HeaderName = HeaderName::from_static("x-tollgate-counting");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(OpenApi)]
#[openapi(paths(
    generate_content,
    stream_generate_content,
    count_content_tokens,
    embed_content,
    batch_embed_contents
))]
struct Documented;

/// Returns the router of `/v1/models/{model}:{action}` and its `/v1beta` variants.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::with_openapi(Documented::openapi())
        .route("/v1/models/{*model}", post(call))
        .route("/v1beta/models/{*model}", post(call))
        // JavaScript clients interpret a model id with a slash as a complete path and omit
        // `models/`.
        .route("/v1/{*model}", any(call_by_id))
        .route("/v1beta/{*model}", any(call_by_id))
}

/// Serves `provider/name:action`. Returns 404 for any other path without a route.
async fn call_by_id(state: State<Inference>, Path(target): Path<String>, request: Request) -> Response {
    match Action::of(&target).filter(|_| target.contains('/')) {
        None => request_layer::not_found().await.into_response(),
        Some(_) if request.method() == Method::POST => call(state, Path(target), request).await,
        Some(_) => not_allowed("POST").await,
    }
}

async fn not_allowed(allow: &'static str) -> Response {
    let mut response = request_layer::method_not_allowed().await.into_response();
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allow));
    response
}

async fn call(State(inference): State<Inference>, Path(target): Path<String>, request: Request) -> Response {
    match Action::of(&target) {
        Some(Action::GenerateContent) => generate_content.call(request, inference).await,
        Some(Action::StreamGenerateContent) => stream_generate_content.call(request, inference).await,
        Some(Action::CountTokens) => count_content_tokens.call(request, inference).await,
        Some(Action::EmbedContent) => embed_content.call(request, inference).await,
        Some(Action::BatchEmbedContents) => batch_embed_contents.call(request, inference).await,
        None if target.contains(':') => request_layer::not_found().await.into_response(),
        None => not_allowed("GET,HEAD").await,
    }
}

/// Returns the model id of a path. The id may contain slashes and colons.
fn model_of(target: &str) -> &str {
    target.rsplit_once(':').map_or(target, |(model, _)| model)
}

/// Generates the next turn of a conversation in Gemini's format.
///
/// Field names may be in camel case (`maxOutputTokens`) or snake case (`max_output_tokens`). The
/// endpoint is also available under `/v1beta`.
#[utoipa::path(
    post, path = "/v1/models/{model}:generateContent", tag = "Text", operation_id = "generate_content",
    params(("model" = String, Path, description = "Id or alias of a model, such as google/gemini-3.5-flash")),
    request_body = GenerateContent,
    responses((status = 200, body = GeneratedContent), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn generate_content(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Path(target): Path<String>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let model = model_of(&target);
    let answer = service::create(&inference.pipeline, &ctx, caller, model, None, body).await?;
    Ok(respond(answer))
}

/// Generates the next turn of a conversation as a stream, in Gemini's format.
///
/// With `alt=sse` the chunks are server-sent events, otherwise the elements of one JSON array. No
/// event marks the end. The last chunk has the finish reason, the usage and the cost.
#[utoipa::path(
    post, path = "/v1/models/{model}:streamGenerateContent", tag = "Text", operation_id = "stream_generate_content",
    params(
        ("model" = String, Path, description = "Id or alias of a model, such as google/gemini-3.5-flash"),
        ("alt" = Option<String>, Query, description = "Framing of the stream: `sse` or `json` (default)")
    ),
    request_body = GenerateContent,
    responses(
        (status = 200, description = "The chunks of the response", content(
            (GeneratedContent = "text/event-stream"), (Vec<GeneratedContent> = "application/json")
        )),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn stream_generate_content(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Path(target): Path<String>,
    RawQuery(query): RawQuery,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let framing = Some(framing(query.as_deref())?);
    let model = model_of(&target);
    let answer = service::create(&inference.pipeline, &ctx, caller, model, framing, body).await?;
    Ok(respond(answer))
}

/// Counts the input tokens of a request without executing it, in Gemini's format.
///
/// The gateway queries the model's provider if the provider has a counting endpoint. Counting is
/// free of charge and only subject to the rate limit of read requests.
#[utoipa::path(
    post, path = "/v1/models/{model}:countTokens", tag = "Text", operation_id = "count_content_tokens",
    params(("model" = String, Path, description = "Id or alias of a model, such as google/gemini-3.5-flash")),
    request_body = CountContentTokens,
    responses((status = 200, body = ContentTokens), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn count_content_tokens(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Path(target): Path<String>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let counted = count::count(&inference.pipeline, &ctx, caller, model_of(&target), body).await?;
    let mut response = json::response(Bytes::from(serde_json::to_vec(&counted).unwrap_or_default()));
    let how = HeaderValue::from_static(counted.counting);
    response.headers_mut().insert(COUNTING, how);
    Ok(response)
}

/// Creates an embedding of one text, in Gemini's format.
///
/// Only input tokens are charged.
#[utoipa::path(
    post, path = "/v1/models/{model}:embedContent", tag = "Text", operation_id = "embed_content",
    params(("model" = String, Path, description = "Id or alias of an embedding model")),
    request_body = EmbedContent,
    responses((status = 200, body = ContentEmbedding), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn embed_content(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Path(target): Path<String>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let model = model_of(&target).to_owned();
    Ok(json::response(
        embed::embed(&inference.pipeline, &ctx, caller, model, &body).await?,
    ))
}

/// Creates embeddings of several texts, in Gemini's format.
///
/// All requests must have the same options. Only input tokens are charged.
#[utoipa::path(
    post, path = "/v1/models/{model}:batchEmbedContents", tag = "Text", operation_id = "batch_embed_contents",
    params(("model" = String, Path, description = "Id or alias of an embedding model")),
    request_body = BatchEmbedContents,
    responses((status = 200, body = ContentEmbeddings), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn batch_embed_contents(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Path(target): Path<String>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let model = model_of(&target).to_owned();
    Ok(json::response(
        embed::batch_embed(&inference.pipeline, &ctx, caller, model, &body).await?,
    ))
}

/// Parses the `alt` query parameter; `json` is the default.
fn framing(query: Option<&str>) -> Result<Framing, Error> {
    let pairs = query.unwrap_or_default().split('&');
    match pairs.filter_map(|pair| pair.strip_prefix("alt=")).next_back() {
        Some("sse") => Ok(Framing::Events),
        None | Some("" | "json") => Ok(Framing::Array),
        Some(_) => {
            let message = "'alt' must be 'sse' or 'json'.";
            Err(Error::new(ErrorCode::InvalidParameter, message).with_param("alt"))
        }
    }
}

fn respond(answer: Answer) -> Response {
    match answer {
        Answer::Whole(bytes) => json::response(bytes),
        Answer::Stream(events) => match events.framing() {
            Framing::Events => sse::response(events),
            Framing::Array => sse::response_of(JSON, events),
        },
    }
}
