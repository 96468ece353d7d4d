//! HTTP handlers of quotes.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, Origin};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::{self, QuoteRequest};
use super::wire::{CreateQuote, Quote};
use crate::{Inference, messages};

/// Returns the router of `/v1/quote`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new().routes(routes!(create_quote))
}

/// Returns the maximum cost of a request without executing it.
///
/// The maximum is the amount that the gateway would hold for the request now. If the endpoint would
/// reject the request, the quote fails with the same error, except for rate limits and a low
/// balance. A quote is free of charge and only subject to the rate limit of read requests.
#[utoipa::path(
    post, path = "/v1/quote", tag = "Text", operation_id = "create_quote",
    request_body = CreateQuote,
    responses((status = 200, body = Quote), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_quote(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    Origin(origin): Origin,
    State(inference): State<Inference>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MEDIA_BODY>,
) -> Result<Json<Quote>, ApiError> {
    let asking = QuoteRequest {
        inference: &inference,
        ctx: &ctx,
        caller,
        origin,
        version: messages::version(&headers)?,
        betas: messages::betas(&headers)?,
    };
    Ok(Json(service::quote(asking, &body).await?))
}
