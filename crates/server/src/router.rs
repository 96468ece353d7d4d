//! Every path of the public listener, one line for each room, and the document that describes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tollgate_console::Console;
use tollgate_edge::shell;
use tollgate_inference::Inference;
use tollgate_media::MediaRoom;
use tollgate_storage::Engine;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;

use crate::documentation::{self, Security};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate",
        description = "One API, one bill, over every AI model. Every response carries `x-request-id`: quote it when \
                       you ask for help.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    modifiers(&Security),
    tags(
        (name = "Text", description = "Text generation"),
        (name = "Images", description = "Pictures"),
        (name = "Videos", description = "Films"),
        (name = "Templates", description = "Prompts for pictures and films that are known to work"),
        (name = "Audio", description = "Speech, and transcripts of recordings"),
        (name = "Files", description = "What is uploaded once and named by its id"),
        (name = "Jobs", description = "Work that goes on after its request was answered, and what it has made"),
        (name = "Models", description = "The catalog"),
        (name = "Account", description = "Usage and spend")
    )
)]
struct Base;

/// What the health probes look at.
#[derive(Clone)]
pub struct Health {
    /// The storage engine.
    pub engine: Arc<dyn Engine>,
    /// Whether the process is on its way out.
    pub draining: Arc<AtomicBool>,
}

/// The document that describes the public API.
pub fn document() -> Document {
    let (_, inference) = tollgate_inference::routes().split_for_parts();
    let (_, media) = tollgate_media::routes().split_for_parts();
    let (_, console) = tollgate_console::routes().split_for_parts();
    let mut document = Base::openapi();
    document.merge(inference);
    document.merge(media);
    document.merge(console);
    documentation::tidy(&mut document);
    document
}

/// The routes of the public listener.
pub fn router(
    inference: Inference,
    media: MediaRoom,
    console: Console,
    health: Health,
    support: Option<&str>,
) -> Router {
    fn plain<S: Clone + Send + Sync + 'static>(routes: OpenApiRouter<S>, state: S) -> Router {
        routes.split_for_parts().0.with_state(state)
    }
    self::health(health)
        .merge(plain(tollgate_inference::routes(), inference))
        .merge(plain(tollgate_media::routes(), media))
        .merge(plain(tollgate_console::routes(), console))
        .merge(documentation::routes(document(), support))
        .fallback(shell::not_found)
        .method_not_allowed_fallback(shell::method_not_allowed)
}

/// The probes.
pub fn health(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .with_state(health)
}

async fn ready(State(health): State<Health>) -> Response {
    let unready = |reason: &str| {
        let body = Json(json!({"status": "unavailable", "reason": reason}));
        (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
    };
    if health.draining.load(Ordering::Relaxed) {
        return unready("shutting down");
    }
    match health.engine.ping().await {
        Ok(()) => Json(json!({"status": "ready"})).into_response(),
        Err(_) => unready("storage does not answer"),
    }
}
