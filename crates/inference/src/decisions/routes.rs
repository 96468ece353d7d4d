//! HTTP handlers of the Decisions API.

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, WorkCaller, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::{CreateDecisions, Decisions};
use super::{calibrations, service};
use crate::Inference;

/// Returns the router of `/v1/decisions`. Clients of other dialects call `/v1/systemone` and
/// `/v1beta/decisions`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_decisions))
        .route("/v1/systemone", post(create_decisions))
        .route("/v1beta/decisions", post(create_decisions))
        .merge(calibrations::routes())
}

/// Answers typed questions about a state with probabilities.
///
/// The answer to a question is yes or no, one of several options, a level of a scale, or a function
/// to call. No text is generated. Only input is charged: the state once, the text of each question,
/// and media.
///
/// The body selects one of three dialects, and the response uses the same dialect and form: the
/// gateway's own (`state`, and `questions` as an array or a map), OpenAI's (`input`, and
/// `questions` as an array) and Google's (`input`, and `questions` as a map). The endpoint is also
/// available as `POST /v1/systemone` and `POST /v1beta/decisions`.
#[utoipa::path(
    post, path = "/v1/decisions", tag = "Decisions", operation_id = "create_decisions",
    request_body = CreateDecisions,
    responses((status = 200, body = Decisions), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_decisions(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Response, ApiError> {
    let Inference {
        pipeline,
        calibrations,
        ..
    } = &inference;
    let bytes = service::create(pipeline, calibrations, &ctx, caller, &body).await?;
    Ok(json::response(bytes))
}
