//! Handlers. What is asked for stands behind the last colon of the path, which a router cannot split: one route finds
//! the handler.

use axum::extract::{Path, RawQuery, Request, State};
use axum::handler::Handler;
use axum::http::header::ALLOW;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use tollgate_edge::body::{JSON_BODY, MEDIA_BODY};
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, WorkCaller, json, shell, sse};
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

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::with_openapi(Documented::openapi())
        .route("/v1/models/{*model}", post(call))
        .route("/v1beta/models/{*model}", post(call))
}

async fn call(State(inference): State<Inference>, Path(target): Path<String>, request: Request) -> Response {
    match target.rsplit_once(':').map(|(_, action)| action) {
        Some("generateContent") => generate_content.call(request, inference).await,
        Some("streamGenerateContent") => stream_generate_content.call(request, inference).await,
        Some("countTokens") => count_content_tokens.call(request, inference).await,
        Some("embedContent") => embed_content.call(request, inference).await,
        Some("batchEmbedContents") => batch_embed_contents.call(request, inference).await,
        Some(_) => shell::not_found().await.into_response(),
        None => {
            let mut response = shell::method_not_allowed().await.into_response();
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
            response
        }
    }
}

/// The model in a path, which may have slashes and colons in it itself.
fn model_of(target: &str) -> &str {
    target.rsplit_once(':').map_or(target, |(model, _)| model)
}

/// Generates the next turn of a conversation in Gemini's format. Names may be written as `maxOutputTokens` or as
/// `max_output_tokens`. The same is served under `/v1beta`.
#[utoipa::path(
    post, path = "/v1/models/{model}:generateContent", tag = "Text", operation_id = "generate_content",
    params(("model" = String, Path, description = "Id or alias, such as google/gemini-3.5-flash")),
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

/// The same piece by piece: with `alt=sse` as server-sent events, else as the elements of one JSON array. No event marks
/// the end; the last piece says why the answer ended, and what it consumed and cost.
#[utoipa::path(
    post, path = "/v1/models/{model}:streamGenerateContent", tag = "Text", operation_id = "stream_generate_content",
    params(
        ("model" = String, Path, description = "Id or alias, such as google/gemini-3.5-flash"),
        ("alt" = Option<String>, Query, description = "`sse` or `json`")
    ),
    request_body = GenerateContent,
    responses(
        (status = 200, description = "The pieces", content(
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

/// Counts the tokens of a request that is not carried out: the model's provider is asked, where it counts. It costs nothing
/// and counts against no limit but that of reads.
#[utoipa::path(
    post, path = "/v1/models/{model}:countTokens", tag = "Text", operation_id = "count_content_tokens",
    params(("model" = String, Path, description = "Id or alias, such as google/gemini-3.5-flash")),
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

/// Turns a text into a vector. Only input is charged.
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
        embed::one(&inference.pipeline, &ctx, caller, model, &body).await?,
    ))
}

/// Turns several texts into vectors. What is asked for the vectors must be the same in all requests.
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
        embed::several(&inference.pipeline, &ctx, caller, model, &body).await?,
    ))
}

/// `alt=sse`, or `alt=json`, which is what is meant without it.
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
