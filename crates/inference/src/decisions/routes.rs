//! Handlers.

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

/// The routes of this group. `/v1/systemone` and `/v1beta/decisions` are where clients of other dialects look.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_decisions))
        .route("/v1/systemone", post(create_decisions))
        .route("/v1beta/decisions", post(create_decisions))
        .merge(calibrations::routes())
}

/// Answers typed questions about a state with probabilities: yes or no, one of several options, a level of a scale, a
/// function to call. No text is generated, and only input is charged: the state once, each question's text, and media.
///
/// Three dialects are told apart by the body, and answers are in the dialect and the container of the questions: the one
/// described here (`state`, and `questions` as a list or a map), OpenAI's (`input`, and `questions` as a list) and Google's
/// (`input`, and `questions` as a map). The same is served as `POST /v1/systemone`.
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
