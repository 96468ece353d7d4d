//! Endpoints for balances, grants, refunds, usage and statements.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_storage::LotKind;
use tollgate_types::{Credits, Error, RequestId, Timestamp};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use tollgate_operations::view::{
    BalanceView, GrantedView, LotView, RefundView, StatementView, UsageView, WithdrawalView,
};
use tollgate_operations::{
    GrantCredits, GrantParams, ListLots, ListUsage, RefundCall, RefundGrant, ShowBalance, ShowStatement,
};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(get_balance))
        .routes(routes!(list_grants, create_grant))
        .routes(routes!(withdraw_grant))
        .routes(routes!(create_refund))
        .routes(routes!(list_usage))
        .routes(routes!(get_statement))
}

const AMOUNT: &str = "credits above 0 with at most nine decimals, as a string such as \"12.5\"";

/// Returns the available credits of an account, and those held by running calls.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/balance", tag = "Credits", operation_id = "get_balance",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = BalanceView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_balance(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<BalanceView>, ApiError> {
    let account = path_id(&account, "account")?;
    let command = ShowBalance { account };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Query parameters of the list of grants.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct GrantsQuery {
    /// Whether to include grants and refunds without remaining credits (default: false).
    all: bool,
}

/// Lists grants and refunds with their remaining credits, in spending order.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/grants", tag = "Credits", operation_id = "list_grants",
    params(("id" = String, Path, description = "Id of the account."), GrantsQuery),
    responses((status = 200, body = List<LotView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_grants(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Query(query): Query<GrantsQuery>,
) -> Result<Json<List<LotView>>, ApiError> {
    let command = ListLots {
        account: path_id(&account, "account")?,
        all: query.all,
    };
    Ok(Json(List::whole(api.perform(&operator, command).await?)))
}

/// Credits to grant.
#[derive(Debug, ToSchema)]
struct NewGrant {
    /// Idempotency key of this grant, at most 200 characters. If omitted, each request creates
    /// another grant.
    id: Option<String>,
    /// Amount in credits, above 0, with at most nine decimals, such as `12.5`.
    #[schema(value_type = String)]
    amount: Credits,
    /// `purchase` (default): the credits were paid for. `promotion`: the operator gives them for
    /// free.
    #[schema(value_type = Option<String>)]
    kind: Option<LotKind>,
    /// Spending priority, 0–255 (default: 100); lower values are spent first.
    priority: Option<u8>,
    /// Number of days until unused credits expire, 1 to 36500 (default: never).
    expires_in_days: Option<u32>,
    /// Expiry of unused credits: RFC 3339, or a date in UTC. Cannot be combined with
    /// `expires_in_days`.
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
    /// Note for operators (at most 200 characters).
    note: Option<String>,
}

impl Read for NewGrant {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let granted = |kind: &str| LotKind::parse(kind).filter(|kind| *kind != LotKind::Refund);
        Ok(Self {
            id: members.optional("id", "a string of at most 200 characters")?,
            amount: members.required("amount", AMOUNT)?,
            kind: members.word("kind", "'purchase' or 'promotion'", granted)?,
            priority: members.optional("priority", "a whole number from 0 to 255")?,
            expires_in_days: members.optional("expires_in_days", "a whole number from 1 to 36500")?,
            expires_at: members.instant("expires_at")?,
            note: members.optional("note", "a string of at most 200 characters")?,
        })
    }
}

impl From<NewGrant> for GrantParams {
    fn from(new: NewGrant) -> Self {
        Self {
            key: new.id,
            amount: new.amount,
            promotion: new.kind == Some(LotKind::Promotion),
            expires_in_days: new.expires_in_days,
            expires_at: new.expires_at,
            priority: new.priority,
            note: new.note,
        }
    }
}

/// Grants credits to an account.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/grants", tag = "Credits", operation_id = "create_grant",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewGrant,
    responses((status = 200, body = GrantedView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_grant(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewGrant>,
) -> Result<Json<GrantedView>, ApiError> {
    let command = GrantCredits {
        account: path_id(&account, "account")?,
        grant: new.into(),
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Withdraws the unused part of a purchase or promotion. The operator pays out a withdrawn
/// purchase. Credits that running calls hold are not withdrawn.
#[utoipa::path(
    post, path = "/admin/v1/grants/{id}/withdraw", tag = "Credits", operation_id = "withdraw_grant",
    params(("id" = String, Path, description = "Id of the grant.")),
    responses((status = 200, body = WithdrawalView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn withdraw_grant(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(grant): Path<String>,
) -> Result<Json<WithdrawalView>, ApiError> {
    let id = path_id(&grant, "grant")?;
    let command = RefundGrant { id };
    Ok(Json(api.perform(&operator, command).await?))
}

/// A refund to make.
#[derive(Debug, ToSchema)]
struct NewRefund {
    /// The `x-request-id` of the call.
    #[schema(value_type = String)]
    request_id: RequestId,
    /// Amount in credits, above 0 (default: the full refundable amount). Paid credits are refunded
    /// before the plan's allowance.
    #[schema(value_type = Option<String>)]
    amount: Option<Credits>,
    /// Note for operators (at most 200 characters).
    reason: Option<String>,
    /// Idempotency key of this refund, at most 200 characters (default: derived from the amount).
    key: Option<String>,
}

impl Read for NewRefund {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            request_id: members.required("request_id", "the call's `x-request-id`")?,
            amount: members.optional("amount", AMOUNT)?,
            reason: members.optional("reason", "a string of at most 200 characters")?,
            key: members.optional("key", "a string of at most 200 characters")?,
        })
    }
}

/// Refunds a call. Credits return to the balance, and a plan's allowance returns to its week while
/// that week is open.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/refunds", tag = "Credits", operation_id = "create_refund",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewRefund,
    responses((status = 200, body = RefundView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_refund(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewRefund>,
) -> Result<Json<RefundView>, ApiError> {
    let command = RefundCall {
        request: new.request_id,
        account: Some(path_id(&account, "account")?),
        amount: new.amount,
        reason: new.reason,
        key: new.key,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Query parameters of the list of usage rows.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct UsageQuery {
    /// Only rows created at or after this time: RFC 3339 (`2026-11-20T00:00:00Z`) or a date in UTC
    /// (`2026-11-20`).
    from: Option<String>,
    /// Only rows created before this time: RFC 3339, or a date in UTC.
    to: Option<String>,
    /// Maximum number of rows per page, 1 to 100 (default: 20).
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last row of the previous page.
    after: Option<String>,
}

/// Lists the usage rows of an account, newest first. They contain no text of prompts or responses.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/usage", tag = "Credits", operation_id = "list_usage",
    params(("id" = String, Path, description = "Id of the account."), UsageQuery),
    responses((status = 200, body = List<UsageView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_usage(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Query(query): Query<UsageQuery>,
) -> Result<Json<List<UsageView>>, ApiError> {
    let limit = query::limit(query.limit)?;
    let command = ListUsage {
        account: path_id(&account, "account")?,
        from: query::instant("from", query.from)?,
        to: query::instant("to", query.to)?,
        after: query::id("after", query.after)?,
        limit: Some(limit + 1),
    };
    let rows = api.perform(&operator, command).await?;
    Ok(Json(List::page(rows, limit)))
}

/// Query parameters of the statement.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StatementQuery {
    /// Month in UTC, such as `2026-11`. The statement of the current month ends at the time of the
    /// request.
    month: String,
}

/// Returns the statement of an account for one month: opening balance, movements, closing balance.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/statement", tag = "Credits", operation_id = "get_statement",
    params(("id" = String, Path, description = "Id of the account."), StatementQuery),
    responses((status = 200, body = StatementView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_statement(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Query(query): Query<StatementQuery>,
) -> Result<Json<StatementView>, ApiError> {
    let command = ShowStatement {
        account: path_id(&account, "account")?,
        month: query.month,
    };
    Ok(Json(api.perform(&operator, command).await?))
}
