//! Handlers of deliveries.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ErrorBody, Query};
use tollgate_operations::alerts::NoticeView;
use tollgate_operations::webhooks::DeliveryView;
use tollgate_operations::{ListDeliveries, ListNotices, Redeliver};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ConsoleApi;
use crate::usage::wire::{id, page_limit};

/// Returns the routes of deliveries.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new()
        .routes(routes!(list_deliveries))
        .routes(routes!(redeliver))
        .routes(routes!(list_alert_deliveries))
}

/// A page of deliveries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct DeliveriesQuery {
    /// Number of deliveries per page: 1 to 100, default 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Cursor: the `id` of the previous page's last delivery.
    after: Option<String>,
}

/// Lists the webhook deliveries of ended jobs, newest job first. Requires the role `admin` or
/// `owner`.
#[utoipa::path(
    get, path = "/console/api/v1/deliveries", tag = "Account", operation_id = "list_deliveries", params(DeliveriesQuery),
    responses((status = 200, body = List<DeliveryView>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_deliveries(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Query(query): Query<DeliveriesQuery>,
) -> Result<Json<List<DeliveryView>>, ApiError> {
    let (before, limit) = (id("after", query.after)?, page_limit(query.limit)?);
    let command = ListDeliveries {
        account: session.account.id,
        before,
        limit: limit + 1,
    };
    let Json(deliveries) = console.perform(&session, command).await?;
    Ok(Json(List::page(deliveries, limit)))
}

/// Sends the webhook of an ended job again, also if it was delivered or has failed. The event has
/// the same id. An attempt in progress is not repeated. Requires the role `admin` or `owner`.
#[utoipa::path(
    post, path = "/console/api/v1/deliveries/{id}/redeliver", tag = "Account", operation_id = "redeliver",
    params(("id" = String, Path, description = "Id of the job: `job_…`.")),
    responses((status = 200, body = DeliveryView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn redeliver(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
) -> Result<Json<DeliveryView>, ApiError> {
    let (account, job) = (session.account.id, path_id(&id, "job")?);
    console.perform(&session, Redeliver { account, job }).await
}

/// Lists the latest low-balance alerts that were sent to the account, newest first. Requires the
/// role `admin` or `owner`.
#[utoipa::path(
    get, path = "/console/api/v1/alerts/deliveries", tag = "Account", operation_id = "list_alert_deliveries",
    responses((status = 200, body = List<NoticeView>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_alert_deliveries(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<List<NoticeView>>, ApiError> {
    let account = session.account.id;
    let Json(notices) = console.perform(&session, ListNotices { account }).await?;
    Ok(Json(List::whole(notices)))
}
