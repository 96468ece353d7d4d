//! Handlers.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::{self, Asking};
use super::wire::{CreateQuote, Quote};
use crate::{Inference, messages};

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new().routes(routes!(create_quote))
}

/// Says what a request can cost at the most, which is what would be held for it now, without carrying it out. It costs
/// nothing and counts against no limit but that of reads. A request that would be refused is refused here in the same way.
#[utoipa::path(
    post, path = "/v1/quote", tag = "Text", operation_id = "create_quote",
    request_body = CreateQuote,
    responses((status = 200, body = Quote), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_quote(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Json<Quote>, ApiError> {
    let asking = Asking {
        inference: &inference,
        ctx: &ctx,
        caller,
        version: messages::version(&headers)?,
        betas: messages::betas(&headers)?,
    };
    Ok(Json(service::quote(asking, &body).await?))
}
