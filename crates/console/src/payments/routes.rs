//! Handlers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};
use tollgate_billing::TopUps;
use tollgate_edge::{ApiError, JsonBody, shell};
use utoipa_axum::router::OpenApiRouter;

use crate::Console;

/// The largest event.
const EVENT_BODY: usize = 1 << 20;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new().route("/webhooks/{provider}", post(receive))
}

/// Whatever is answered with another status than 200 is told again later.
async fn receive(
    Path(provider): Path<String>,
    State(top_ups): State<Option<Arc<TopUps>>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<EVENT_BODY>,
) -> Result<Json<Value>, ApiError> {
    let Some(top_ups) = top_ups.filter(|top_ups| top_ups.provider().name() == provider) else {
        return Err(shell::not_found().await);
    };
    let header = headers.get(top_ups.provider().signature_header());
    let signature = header.and_then(|value| value.to_str().ok());
    top_ups.receive(signature, &body).await?;
    Ok(Json(json!({"received": true})))
}
