//! The routes of the public listener and the OpenAPI document that describes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tollgate_console::{Console, ConsoleApi};
use tollgate_edge::request_layer;
use tollgate_inference::Inference;
use tollgate_listener::Vitals;
use tollgate_media::MediaState;
use tollgate_realtime::Realtime;
use tollgate_storage::Engine;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;

use crate::console;
use crate::documentation::{self, Security};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate",
        description = "One API and one bill for all your AI models. Every response carries `x-request-id`: quote it \
                       when you ask for help.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    modifiers(&Security),
    tags(
        (name = "Text", description = "Text generation"),
        (name = "Images", description = "Image generation"),
        (name = "Videos", description = "Video generation"),
        (name = "Templates", description = "Tested prompts for images and videos"),
        (name = "Audio", description = "Speech synthesis and transcription"),
        (name = "Realtime", description = "Voice sessions and live transcription over WebSocket"),
        (name = "Files", description = "Uploaded files that requests refer to by id"),
        (name = "Jobs", description = "Asynchronous jobs and their results"),
        (name = "Models", description = "Available models with their limits and prices"),
        (name = "Account", description = "Usage, cost and the webhook signing secret")
    )
)]
struct Base;

/// The state that the health probes check.
#[derive(Clone)]
pub struct Health {
    pub engine: Arc<dyn Engine>,
    /// Whether the process is shutting down.
    pub draining: Arc<AtomicBool>,
    /// The engine and tasks that the process depends on.
    pub vitals: Vitals,
}

/// Returns the OpenAPI document of the public API.
pub fn document() -> Document {
    let (_, inference) = tollgate_inference::routes().split_for_parts();
    let (_, media) = tollgate_media::routes().split_for_parts();
    let (_, realtime) = tollgate_realtime::routes().split_for_parts();
    let (_, console) = tollgate_console::routes().split_for_parts();
    let mut document = Base::openapi();
    document.merge(inference);
    document.merge(media);
    document.merge(realtime);
    document.merge(console);
    documentation::tidy(&mut document);
    document
}

/// Builds the routes of the public listener. `console_api` is `None` if the console is disabled.
/// `support` is the contact that the OpenAPI document contains.
pub fn router(
    inference: Inference,
    media: MediaState,
    realtime: Realtime,
    console: Console,
    console_api: Option<ConsoleApi>,
    health: Health,
    support: Option<&str>,
) -> Router {
    fn plain<S: Clone + Send + Sync + 'static>(routes: OpenApiRouter<S>, state: S) -> Router {
        routes.split_for_parts().0.with_state(state)
    }
    let api = plain(tollgate_inference::routes(), inference)
        .merge(plain(tollgate_media::routes(), media))
        .merge(plain(tollgate_realtime::routes(), realtime))
        .merge(plain(tollgate_console::routes(), console));
    let has_console = console_api.is_some();
    let console = console_api.map(|console_api| console::routes(console_api, api.clone()));
    self::health(health)
        .merge(api)
        .merge(documentation::routes(document, support, has_console))
        .merge(console.unwrap_or_default())
        .fallback(request_layer::not_found)
        .method_not_allowed_fallback(request_layer::method_not_allowed)
}

/// Returns the health probes `/healthz` and `/readyz`.
pub fn health(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .with_state(health)
}

async fn healthy(State(health): State<Health>) -> Response {
    alive(&health.vitals)
}

/// Returns status 200, or status 503 if a component has failed and the process has to be restarted.
pub(crate) fn alive(vitals: &Vitals) -> Response {
    match vitals.is_failed() {
        true => unavailable("a component of the gateway has failed; restart the process"),
        false => Json(json!({"status": "ok"})).into_response(),
    }
}

async fn ready(State(health): State<Health>) -> Response {
    if health.draining.load(Ordering::Relaxed) {
        return unavailable("shutting down");
    }
    if health.vitals.is_failed() {
        return unavailable("a component of the gateway has failed; restart the process");
    }
    match health.engine.ping().await {
        Ok(()) => Json(json!({"status": "ready"})).into_response(),
        Err(_) => unavailable("storage does not answer"),
    }
}

fn unavailable(reason: &str) -> Response {
    let body = Json(json!({"status": "unavailable", "reason": reason}));
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}
