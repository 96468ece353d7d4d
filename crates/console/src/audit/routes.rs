//! Handler of the audit log.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ErrorBody, Query};
use tollgate_operations::ListAudit;
use tollgate_operations::view::admin::AuditView;
use tollgate_types::{Error, ErrorCode};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ConsoleApi;

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 200;

/// Returns the route of the audit log.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new().routes(routes!(list_audit_log))
}

/// A page of the audit log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Filter by action, such as `key.create`.
    action: Option<String>,
    /// Number of entries per page: 1 to 200, default 50.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    /// Cursor: the `id` of the previous page's last entry.
    after: Option<String>,
}

/// Lists the changes to the account, newest first. Requires the role `admin` or `owner`. Entries of
/// operators have the actor `operator` and omit what was changed.
#[utoipa::path(
    get, path = "/console/api/v1/audit-log", tag = "Account", operation_id = "list_audit_log", params(AuditQuery),
    responses((status = 200, body = List<AuditView>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_audit_log(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Query(query): Query<AuditQuery>,
) -> Result<Json<List<AuditView>>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let message = format!("'limit' must be an integer from 1 to {MAX_LIMIT}.");
        return Err(Error::new(ErrorCode::InvalidParameter, message)
            .with_param("limit")
            .into());
    }
    let before = query.after.as_deref().map(|after| path_id(after, "entry"));
    let command = ListAudit {
        account: Some(session.account.id),
        actor: None,
        action: query.action,
        since: None,
        before: before.transpose().map_err(|error| error.with_param("after"))?,
        limit: limit + 1,
    };
    let Json(entries) = console.perform(&session, command).await?;
    Ok(Json(List::page(entries, limit)))
}
