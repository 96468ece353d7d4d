//! Endpoints for top-ups: credits sold through a payment provider.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use tollgate_edge::list::{Done, List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_types::{AccountId, Credits, Error, ErrorCode};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use tollgate_operations::top_ups::{AutoView, TopUpView};
use tollgate_operations::{
    ListTopUps, OpenPortal, OpenTopUp, RemoveAutoTopUp, RunTopUps, SetAutoTopUp, ShowAutoTopUp,
};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_top_ups))
        .routes(routes!(create_top_up))
        .routes(routes!(open_portal))
        .routes(routes!(get_auto_top_up, set_auto_top_up, remove_auto_top_up))
        .routes(routes!(run_auto_top_ups))
}

const AMOUNT: &str = "credits as a string such as \"25\"";

/// Query parameters of the list of top-ups.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct TopUpsQuery {
    /// Only top-ups of this account (default: all).
    account: Option<String>,
    /// Maximum number of top-ups per page, 1 to 100 (default: 20).
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last top-up of the previous page.
    after: Option<String>,
}

/// Lists the top-ups of one account or of all, newest first.
#[utoipa::path(
    get, path = "/admin/v1/top-ups", tag = "Credits", operation_id = "list_top_ups", params(TopUpsQuery),
    responses((status = 200, body = List<TopUpView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_top_ups(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<TopUpsQuery>,
) -> Result<Json<List<TopUpView>>, ApiError> {
    let limit = query::limit(query.limit)?;
    let command = ListTopUps {
        account: query::id("account", query.account)?,
        before: query::id("after", query.after)?,
        limit: Some(limit + 1),
    };
    let found = api.perform(&operator, command).await?;
    Ok(Json(List::page(found, limit)))
}

/// Credits to sell on a checkout page.
#[derive(Debug, ToSchema)]
struct NewTopUp {
    /// Number of credits, from `payments.min_amount` to `payments.max_amount`, such as `25`.
    #[schema(value_type = String)]
    credits: Credits,
}

impl Read for NewTopUp {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            credits: members.required("credits", AMOUNT)?,
        })
    }
}

/// The checkout page of a top-up.
#[derive(Debug, Serialize, ToSchema)]
struct CreatedTopUp {
    /// URL of the checkout page, for the payer.
    url: String,
    /// The top-up that the page sells.
    top_up: TopUpView,
}

/// Creates a checkout page for credits. The credits are granted when the payment provider reports
/// the payment.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/top-ups", tag = "Credits", operation_id = "create_top_up",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewTopUp,
    responses((status = 200, body = CreatedTopUp), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_top_up(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewTopUp>,
) -> Result<Json<CreatedTopUp>, ApiError> {
    let command = OpenTopUp {
        account: path_id(&account, "account")?,
        credits: new.credits,
    };
    let page = api.perform(&operator, command).await?;
    let url = page.url;
    let created = page.top_up.map(|top_up| CreatedTopUp { url, top_up });
    Ok(Json(created.ok_or_else(|| {
        Error::internal("unexpected reply to a command")
    })?))
}

/// A portal page of the payment provider.
#[derive(Debug, Serialize, ToSchema)]
struct Portal {
    /// URL of the portal page, for the payer.
    url: String,
}

/// Creates a portal page of the payment provider, with the account's receipts and cards.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/top-ups/portal", tag = "Credits", operation_id = "open_portal",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = Portal), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn open_portal(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<Portal>, ApiError> {
    let account = path_id(&account, "account")?;
    let command = OpenPortal { account };
    let page = api.perform(&operator, command).await?;
    Ok(Json(Portal { url: page.url }))
}

/// Returns the automatic top-up of an account.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/auto-top-up", tag = "Credits", operation_id = "get_auto_top_up",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = AutoView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_auto_top_up(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<AutoView>, ApiError> {
    let account: AccountId = path_id(&account, "account")?;
    let command = ShowAutoTopUp { account };
    let auto = api.perform(&operator, command).await?;
    let none = || Error::new(ErrorCode::NotFound, "The account has no automatic top-up.");
    Ok(Json(auto.ok_or_else(none)?))
}

/// An automatic top-up. It charges the first saved payment method that the payment provider lists.
#[derive(Debug, ToSchema)]
struct NewAutoTopUp {
    /// Threshold in credits, above 0. A top-up starts when the available credits, without plan
    /// allowances, are below the threshold.
    #[schema(value_type = String)]
    below: Credits,
    /// Number of credits that each automatic top-up buys, from `payments.min_amount` to
    /// `payments.max_amount`.
    #[schema(value_type = String)]
    amount: Credits,
    /// Maximum number of credits that automatic top-ups buy per calendar month (UTC), at least
    /// `amount`.
    #[schema(value_type = String)]
    monthly_limit: Credits,
}

impl Read for NewAutoTopUp {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            below: members.required("below", AMOUNT)?,
            amount: members.required("amount", AMOUNT)?,
            monthly_limit: members.required("monthly_limit", AMOUNT)?,
        })
    }
}

/// Sets the automatic top-up of an account. After three consecutive failed charges, automatic
/// top-ups pause until they are set again.
#[utoipa::path(
    put, path = "/admin/v1/accounts/{id}/auto-top-up", tag = "Credits", operation_id = "set_auto_top_up",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewAutoTopUp,
    responses((status = 200, body = AutoView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn set_auto_top_up(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewAutoTopUp>,
) -> Result<Json<AutoView>, ApiError> {
    let command = SetAutoTopUp {
        account: path_id(&account, "account")?,
        below: new.below,
        amount: new.amount,
        monthly_limit: new.monthly_limit,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Disables the automatic top-up of an account.
#[utoipa::path(
    delete, path = "/admin/v1/accounts/{id}/auto-top-up", tag = "Credits", operation_id = "remove_auto_top_up",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn remove_auto_top_up(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<Done>, ApiError> {
    let account = path_id(&account, "account")?;
    let command = RemoveAutoTopUp { account };
    api.perform(&operator, command).await?;
    Ok(Json(Done { done: true }))
}

/// Runs automatic top-ups now, instead of within 30 seconds.
#[utoipa::path(
    post, path = "/admin/v1/top-ups/run", tag = "Credits", operation_id = "run_auto_top_ups",
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn run_auto_top_ups(operator: Operator, State(api): State<AdminApi>) -> Result<Json<Done>, ApiError> {
    api.perform(&operator, RunTopUps).await?;
    Ok(Json(Done { done: true }))
}
