//! Endpoints for open realtime sessions, as this node sees them.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use tollgate_operations::sessions::RealtimeSessionView;
use tollgate_operations::{EndRealtimeSession, ListRealtimeSessions};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_realtime_sessions))
        .routes(routes!(end_realtime_session))
}

/// Query parameters of the list of sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SessionsQuery {
    /// Only sessions of this account (default: all).
    account: Option<String>,
    /// Maximum number of sessions per page, 1 to 100 (default: 20).
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last session of the previous page.
    after: Option<String>,
}

/// Lists the open realtime sessions of the node that responds, newest first.
#[utoipa::path(
    get, path = "/admin/v1/realtime/sessions", tag = "Realtime", operation_id = "list_realtime_sessions",
    params(SessionsQuery),
    responses((status = 200, body = List<RealtimeSessionView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_realtime_sessions(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<SessionsQuery>,
) -> Result<Json<List<RealtimeSessionView>>, ApiError> {
    let limit = query::limit(query.limit)?;
    let command = ListRealtimeSessions {
        account: query::id("account", query.account)?,
        before: query::id("after", query.after)?,
        limit: limit + 1,
    };
    let found = api.perform(&operator, command).await?;
    Ok(Json(List::page(found, limit)))
}

/// Ends an open realtime session of the node that responds.
///
/// Its running responses are cancelled and settled, and the client receives the close code 1008.
/// Returns the session as it was.
#[utoipa::path(
    post, path = "/admin/v1/realtime/sessions/{id}/end", tag = "Realtime",
    operation_id = "end_realtime_session",
    params(("id" = String, Path, description = "Id of the session.")),
    responses((status = 200, body = RealtimeSessionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn end_realtime_session(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(id): Path<String>,
) -> Result<Json<RealtimeSessionView>, ApiError> {
    let id = path_id(&id, "session")?;
    Ok(Json(api.perform(&operator, EndRealtimeSession { id }).await?))
}
