//! Handler of the stream of changes.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ErrorBody, sse};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::{BalanceEvent, ChatsEvent, JobsEvent, KeysEvent, LimitsEvent, Versions};
use crate::ConsoleApi;

/// Returns the route of the stream.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new().routes(routes!(follow_account))
}

/// Data of one event. The field `event` of the stream is its kind: `balance`, `jobs`, `keys`,
/// `chats` or `limits`.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the events in the OpenAPI document")]
enum LiveEvent {
    Balance(BalanceEvent),
    Jobs(JobsEvent),
    Keys(KeysEvent),
    Chats(ChatsEvent),
    Limits(LimitsEvent),
}

/// Streams changes of the account as server-sent events.
///
/// The stream starts with an event of each kind; with `Last-Event-ID`, only with those that have
/// changed since that event. A change arrives within a few seconds. Roles that read no contents get
/// no events of jobs and chats. The stream ends when the session ends or the role of the member
/// changes. An account can have 100 streams per node.
#[utoipa::path(
    get, path = "/console/api/v1/live", tag = "Account", operation_id = "follow_account",
    params(("last-event-id" = Option<String>, Header, description = "Id of the last received event")),
    responses(
        (status = 200, description = "Changes of the account", content_type = "text/event-stream", body = LiveEvent),
        (status = "default", body = ErrorBody)
    ),
    security(("session" = []))
)]
async fn follow_account(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let last = headers.get("last-event-id").filter(|value| !value.is_empty());
    let received = match last {
        None => Versions::default(),
        Some(value) => Versions::parse(value.to_str().unwrap_or_default())?,
    };
    Ok(sse::response(console.live.stream(session, received)?))
}
