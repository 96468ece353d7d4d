//! Handlers of the webhook secret API.

use axum::Json;
use axum::extract::State;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody};
use tollgate_types::Error;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::WebhookSecretBody;
use crate::Console;

/// Returns the routes of the webhook secret API.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new()
        .routes(routes!(get_webhook_secret))
        .routes(routes!(rotate_webhook_secret))
}

/// Returns the secret that signs webhook requests to the account (Standard Webhooks): job webhooks
/// (`webhook_url`) and alerts.
#[utoipa::path(
    get, path = "/v1/account/webhook_secret", tag = "Account", operation_id = "get_webhook_secret",
    responses((status = 200, body = WebhookSecretBody), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_webhook_secret(
    ControlCaller(caller): ControlCaller,
    State(console): State<Console>,
) -> Result<Json<WebhookSecretBody>, ApiError> {
    let secret = console.webhook_secrets.of(caller.account_id()).await;
    Ok(Json(secret.map_err(Error::from)?.into()))
}

/// Rotates the webhook signing secret. New webhook requests are signed only with the new secret.
#[utoipa::path(
    post, path = "/v1/account/webhook_secret/rotate", tag = "Account", operation_id = "rotate_webhook_secret",
    responses((status = 200, body = WebhookSecretBody), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn rotate_webhook_secret(
    ControlCaller(caller): ControlCaller,
    State(console): State<Console>,
) -> Result<Json<WebhookSecretBody>, ApiError> {
    let secret = console.webhook_secrets.renew(caller.account_id()).await;
    Ok(Json(secret.map_err(Error::from)?.into()))
}
