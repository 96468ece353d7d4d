//! Handler of the usage API.

use axum::Json;
use axum::extract::State;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Query};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{AccountUsage, UsageQuery};
use crate::Console;

/// Returns the route of the usage API.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new().routes(routes!(get_account_usage))
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
