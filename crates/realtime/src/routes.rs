//! HTTP handlers of realtime sessions.

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{
    ApiError, ConsoleSession, ControlCaller, ErrorBody, JsonBody, OpeningCaller, Query, json,
};
use tollgate_formats::openai_realtime::SessionKind;
use tollgate_types::{Error, ErrorCode};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Realtime;
use crate::secrets::{self, CreateClientSecret, CreateSession, CreatedClientSecret, Creator};
use crate::socket::{self, Requested};

/// Returns the router of `/v1/realtime`.
pub fn routes() -> OpenApiRouter<Realtime> {
    OpenApiRouter::new()
        .routes(routes!(open_realtime_session))
        .routes(routes!(create_client_secret))
        .routes(routes!(create_realtime_session))
        .routes(routes!(create_transcription_session))
}

/// Parameters of a handshake. Others are ignored, because clients of some clouds send more.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RealtimeQuery {
    /// Model of the session. Its kind makes the session a voice session or a transcription.
    model: Option<String>,
    /// `transcription` for a session without a model, which uses the default transcription model.
    intent: Option<String>,
    /// Not supported: calls over WebRTC and SIP do not exist.
    call_id: Option<String>,
}

/// Opens a realtime session over WebSocket.
///
/// A model of the type `realtime` answers speech with speech; a model of the type `transcription`
/// returns text while the speaker talks. The events are those of OpenAI's Realtime API. An open
/// session is free. Each response and each block of transcribed audio is charged. Browsers send the
/// key as the subprotocol `openai-insecure-api-key.KEY`.
#[utoipa::path(
    get, path = "/v1/realtime", tag = "Realtime", operation_id = "open_realtime_session",
    params(RealtimeQuery),
    responses(
        (status = 101, description = "The session is open"),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn open_realtime_session(
    OpeningCaller { caller, secret }: OpeningCaller,
    Context(ctx): Context,
    State(realtime): State<Realtime>,
    Query(query): Query<RealtimeQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|_| not_an_upgrade())?;
    if query.call_id.is_some() {
        let message = "'call_id' is not supported: sessions use WebSocket, not WebRTC or SIP.";
        return Err(ApiError(
            Error::new(ErrorCode::UnsupportedParameter, message).with_param("call_id"),
        ));
    }
    let is_transcription = match query.intent.as_deref() {
        None => false,
        Some("transcription") => true,
        Some(_) => {
            let message = "'intent' must be 'transcription'.";
            return Err(ApiError(
                Error::new(ErrorCode::InvalidParameter, message).with_param("intent"),
            ));
        }
    };
    let requested = Requested {
        model: query.model.as_deref(),
        is_transcription,
        dialect: socket::dialect(&headers),
        secret,
    };
    let opened = socket::open(&realtime, caller, &ctx, requested, &headers, upgrade);
    Ok(opened.await?)
}

/// Creates a client secret.
///
/// A client secret opens realtime sessions until it expires, without showing the API key to a
/// browser. The sessions begin with the given configuration. `max_cost` limits the cost of all
/// sessions of the secret together.
#[utoipa::path(
    post, path = "/v1/realtime/client_secrets", tag = "Realtime", operation_id = "create_client_secret",
    request_body = CreateClientSecret,
    responses((status = 200, body = CreatedClientSecret), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_client_secret(
    ControlCaller(caller): ControlCaller,
    ConsoleSession(session): ConsoleSession,
    Context(ctx): Context,
    State(realtime): State<Realtime>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let created = secrets::create(&realtime, &ctx, Creator { caller, session }, &body).await?;
    Ok(json::response(created.into()))
}

/// Creates a client secret for a voice session of the beta format.
///
/// The body is the configuration of the session; the response repeats it with a `client_secret`.
#[utoipa::path(
    post, path = "/v1/realtime/sessions", tag = "Realtime", operation_id = "create_realtime_session",
    request_body = CreateSession,
    responses((status = 200, body = CreateSession), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_realtime_session(
    ControlCaller(caller): ControlCaller,
    ConsoleSession(session): ConsoleSession,
    Context(ctx): Context,
    State(realtime): State<Realtime>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let kind = SessionKind::Voice;
    let created = secrets::create_session(&realtime, &ctx, Creator { caller, session }, &body, kind).await?;
    Ok(json::response(created.into()))
}

/// Creates a client secret for a transcription session of the beta format.
///
/// The body is the configuration of the session; the response repeats it with a `client_secret`.
#[utoipa::path(
    post, path = "/v1/realtime/transcription_sessions", tag = "Realtime",
    operation_id = "create_transcription_session",
    request_body = CreateSession,
    responses((status = 200, body = CreateSession), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_transcription_session(
    ControlCaller(caller): ControlCaller,
    ConsoleSession(session): ConsoleSession,
    Context(ctx): Context,
    State(realtime): State<Realtime>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Response, ApiError> {
    let kind = SessionKind::Transcription;
    let created = secrets::create_session(&realtime, &ctx, Creator { caller, session }, &body, kind).await?;
    Ok(json::response(created.into()))
}

fn not_an_upgrade() -> ApiError {
    let message = "This endpoint is a WebSocket: connect with the header 'Upgrade: websocket'.";
    ApiError(Error::new(ErrorCode::InvalidParameter, message).with_param("upgrade"))
}
