//! Endpoints for low-balance alerts and their deliveries.

use axum::Json;
use axum::extract::{Path, State};
use tollgate_edge::list::{Done, List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::{ApiError, ErrorBody, Operator};
use tollgate_types::{AccountId, Credits, Error, ErrorCode};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use tollgate_operations::alerts::{AlertView, NoticeView};
use tollgate_operations::{ListNotices, RemoveAlert, SendAlerts, SetAlert, ShowAlert};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(get_alert, set_alert, remove_alert))
        .routes(routes!(list_deliveries))
        .routes(routes!(send_alerts))
}

/// Returns the alert of an account, with the signing secret of its webhook.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/alert", tag = "Credits", operation_id = "get_alert",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = AlertView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_alert(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<AlertView>, ApiError> {
    let account: AccountId = path_id(&account, "account")?;
    let command = ShowAlert { account };
    let alert = api.perform(&operator, command).await?;
    let none = || Error::new(ErrorCode::NotFound, "The account has no alert.");
    Ok(Json(alert.ok_or_else(none)?))
}

/// A low-balance alert. At least one of `webhook` and `email` is required.
#[derive(Debug, ToSchema)]
struct NewAlert {
    /// Threshold in credits, above 0, such as `5`. The alert is sent when the available credits,
    /// without plan allowances, fall below the threshold.
    #[schema(value_type = String)]
    below: Credits,
    /// Webhook URL that receives the alert.
    webhook: Option<String>,
    /// E-mail address that receives the alert.
    email: Option<String>,
    /// Whether to replace the signing secret of the account's webhooks (default: false).
    new_secret: Option<bool>,
}

impl Read for NewAlert {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            below: members.required("below", "credits as a string such as \"5\"")?,
            webhook: members.optional("webhook", "a URL")?,
            email: members.optional("email", "an e-mail address")?,
            new_secret: members.optional("new_secret", "true or false")?,
        })
    }
}

/// Sets the alert of an account, replacing the previous one.
#[utoipa::path(
    put, path = "/admin/v1/accounts/{id}/alert", tag = "Credits", operation_id = "set_alert",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewAlert,
    responses((status = 200, body = AlertView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn set_alert(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewAlert>,
) -> Result<Json<AlertView>, ApiError> {
    let command = SetAlert {
        account: path_id(&account, "account")?,
        below: new.below,
        webhook: new.webhook,
        email: new.email,
        new_secret: new.new_secret.unwrap_or_default(),
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Removes the alert of an account. Its pending webhook deliveries fail; pending e-mails are still
/// sent.
#[utoipa::path(
    delete, path = "/admin/v1/accounts/{id}/alert", tag = "Credits", operation_id = "remove_alert",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn remove_alert(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<Done>, ApiError> {
    let account = path_id(&account, "account")?;
    let command = RemoveAlert { account };
    api.perform(&operator, command).await?;
    Ok(Json(Done { done: true }))
}

/// Lists up to 200 alert deliveries of an account from the last 30 days, newest first.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/alert/deliveries", tag = "Credits", operation_id = "list_deliveries",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = List<NoticeView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_deliveries(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<List<NoticeView>>, ApiError> {
    let account = path_id(&account, "account")?;
    let command = ListNotices { account };
    let found = api.perform(&operator, command).await?;
    Ok(Json(List::whole(found)))
}

/// Checks all balances and sends due alerts now, instead of within 30 seconds.
#[utoipa::path(
    post, path = "/admin/v1/alerts/send", tag = "Credits", operation_id = "send_alerts",
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn send_alerts(operator: Operator, State(api): State<AdminApi>) -> Result<Json<Done>, ApiError> {
    api.perform(&operator, SendAlerts).await?;
    Ok(Json(Done { done: true }))
}
