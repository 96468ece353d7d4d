//! Handler of the usage API.

use axum::Json;
use axum::extract::State;
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Query};
use tollgate_types::Error;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::series::{Params, Series};
use super::service;
use super::wire::{AccountUsage, UsageQuery};
use crate::{Console, ConsoleApi};

/// Returns the route of the usage API.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new().routes(routes!(get_account_usage))
}

/// Returns the route of usage over time, for sessions.
pub fn series_routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new().routes(routes!(get_usage_series))
}

/// Returns usage and cost of the account: its balance, usage rows (newest first), and totals over
/// all matching rows.
#[utoipa::path(
    get, path = "/v1/account/usage", tag = "Account", operation_id = "get_account_usage", params(UsageQuery),
    responses((status = 200, body = AccountUsage), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_account_usage(
    ControlCaller(caller): ControlCaller,
    State(console): State<Console>,
    Query(query): Query<UsageQuery>,
) -> Result<Json<AccountUsage>, ApiError> {
    let request = query.decode()?;
    Ok(Json(
        service::account_usage(&console, &caller.account, request).await?,
    ))
}

/// Returns usage and cost of the account in steps of hours or days, by the time when requests were
/// accepted.
#[utoipa::path(
    get, path = "/console/api/v1/usage/series", tag = "Usage", operation_id = "get_usage_series", params(Params),
    responses((status = 200, body = Series), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn get_usage_series(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Query(params): Query<Params>,
) -> Result<Json<Series>, ApiError> {
    let now = session.account.time(console.gate.clock.now());
    let query = params.decode(now)?;
    let usage = &console.operations.storage.usage;
    let points = usage.series(session.account.id, query).await;
    Ok(Json(Series::of(query, points.map_err(Error::from)?)))
}
