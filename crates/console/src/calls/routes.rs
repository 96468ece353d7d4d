//! Handlers of the calls of an account.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tollgate_edge::list::path_id;
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ErrorBody, Query};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{CallDetail, CallList, CallsQuery};
use crate::ConsoleApi;

/// Returns the routes of calls.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new()
        .routes(routes!(list_calls))
        .routes(routes!(get_call))
        .routes(routes!(export_calls))
}

/// Lists the calls of the account, newest first.
#[utoipa::path(
    get, path = "/console/api/v1/calls", tag = "Usage", operation_id = "list_calls", params(CallsQuery),
    responses((status = 200, body = CallList), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_calls(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Query(query): Query<CallsQuery>,
) -> Result<Json<CallList>, ApiError> {
    let (filter, page) = query.decode()?;
    Ok(Json(
        service::list(&console, session.account.id, filter, page).await?,
    ))
}

/// Returns a call with its timeline, the arithmetic of its charge, and its transfers.
#[utoipa::path(
    get, path = "/console/api/v1/calls/{id}", tag = "Usage", operation_id = "get_call",
    params(("id" = String, Path, description = "Id of the call: `hold_…`.")),
    responses((status = 200, body = CallDetail), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn get_call(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
) -> Result<Json<CallDetail>, ApiError> {
    let id = path_id(&id, "call")?;
    let actor = ConsoleApi::actor(&session);
    Ok(Json(
        service::get(&console, &actor, session.account.id, id).await?,
    ))
}

/// Exports all matching calls as CSV with a header, newest first. `limit` and `after` have no
/// effect.
#[utoipa::path(
    get, path = "/console/api/v1/calls.csv", tag = "Usage", operation_id = "export_calls", params(CallsQuery),
    responses((status = 200, content((String = "text/csv"))), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn export_calls(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Query(query): Query<CallsQuery>,
) -> Result<Response, ApiError> {
    let (filter, _) = query.decode()?;
    let body = Body::from_stream(service::csv(console, session.account.id, filter));
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"calls.csv\""),
    ];
    Ok((headers, body).into_response())
}
