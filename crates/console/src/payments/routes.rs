//! Handler of payment provider events.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};
use tollgate_billing::TopUps;
use tollgate_edge::{ApiError, JsonBody, request_layer};
use utoipa_axum::router::OpenApiRouter;

use crate::Console;

/// Maximum size of an event, in bytes.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Returns the route of payment provider events.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new().route("/webhooks/{provider}", post(receive))
}

/// Receives an event. The provider retries every event that is not answered with 200.
async fn receive(
    Path(provider): Path<String>,
    State(top_ups): State<Option<Arc<TopUps>>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MAX_EVENT_BYTES>,
) -> Result<Json<Value>, ApiError> {
    let Some(top_ups) = top_ups.filter(|top_ups| top_ups.provider().name() == provider) else {
        return Err(request_layer::not_found().await);
    };
    let header = headers.get(top_ups.provider().signature_header());
    let signature = header.and_then(|value| value.to_str().ok());
    top_ups.receive(signature, &body).await?;
    Ok(Json(json!({"received": true})))
}
