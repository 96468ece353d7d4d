//! What accounts have, get and spend.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_storage::LotKind;
use tollgate_types::{Credits, Error, RequestId, Timestamp};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::answer::{List, carried_out, id};
use super::body::{Body, Members, Read};
use super::query;
use crate::control::view::{
    BalanceView, GrantedView, LotView, RefundView, StatementView, UsageView, WithdrawalView,
};
use crate::control::{Command, GrantWish};

/// The routes of this group.
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

/// What an account can spend, and what calls that run hold.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/balance", tag = "Credits", operation_id = "get_balance",
    params(("id" = String, Path, description = "The account.")),
    responses((status = 200, body = BalanceView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_balance(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<BalanceView>, ApiError> {
    let account = id(&account, "account")?;
    let command = Command::ShowBalance { account };
    Ok(Json(carried_out!(api, operator, command, Balance)))
}

/// Which grants.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct GrantsQuery {
    /// Whether those that are used up are listed, too.
    all: bool,
}

/// Grants and refunds with what is left of each, in the order in which they are spent.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/grants", tag = "Credits", operation_id = "list_grants",
    params(("id" = String, Path, description = "The account."), GrantsQuery),
    responses((status = 200, body = List<LotView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_grants(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Query(query): Query<GrantsQuery>,
) -> Result<Json<List<LotView>>, ApiError> {
    let command = Command::ListLots {
        account: id(&account, "account")?,
        all: query.all,
    };
    Ok(Json(List::whole(carried_out!(api, operator, command, Lots))))
}

/// Credits to be put into an account.
#[derive(Debug, ToSchema)]
struct NewGrant {
    /// Names the grant in the account, so that it happens once: sent again it changes nothing. At most 200 characters.
    id: Option<String>,
    /// Credits, above 0, with at most nine decimals, such as `12.5`.
    #[schema(value_type = String)]
    amount: Credits,
    /// `purchase` (when it is not said): they were paid for. `promotion`: the operator gives them.
    #[schema(value_type = Option<String>)]
    kind: Option<LotKind>,
    /// From 0 to 255, 100 when it is not said; lower ones are spent first.
    priority: Option<u8>,
    /// Days until what is left of them is gone, 1 to 36500.
    expires_in_days: Option<u32>,
    /// When what is left of them is gone: RFC 3339, or a date in UTC. Not together with `expires_in_days`.
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
    /// For operators: at most 200 characters.
    note: Option<String>,
}

impl Read for NewGrant {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let granted = |kind: &str| LotKind::parse(kind).filter(|kind| *kind != LotKind::Refund);
        Ok(Self {
            id: members.optional("id", "a text of at most 200 characters")?,
            amount: members.required("amount", AMOUNT)?,
            kind: members.word("kind", "'purchase' or 'promotion'", granted)?,
            priority: members.optional("priority", "a whole number from 0 to 255")?,
            expires_in_days: members.optional("expires_in_days", "a whole number of days")?,
            expires_at: members.instant("expires_at")?,
            note: members.optional("note", "a text of at most 200 characters")?,
        })
    }
}

impl From<NewGrant> for GrantWish {
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

/// Puts credits into an account.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/grants", tag = "Credits", operation_id = "create_grant",
    params(("id" = String, Path, description = "The account.")), request_body = NewGrant,
    responses((status = 200, body = GrantedView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_grant(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Body(new): Body<NewGrant>,
) -> Result<Json<GrantedView>, ApiError> {
    let command = Command::Grant {
        account: id(&account, "account")?,
        grant: new.into(),
    };
    Ok(Json(carried_out!(api, operator, command, Granted)))
}

/// Takes back what is left of a grant that was paid for, to be paid out. What calls that run hold of it stays.
#[utoipa::path(
    post, path = "/admin/v1/grants/{id}/withdraw", tag = "Credits", operation_id = "withdraw_grant",
    params(("id" = String, Path, description = "The grant.")),
    responses((status = 200, body = WithdrawalView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn withdraw_grant(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(grant): Path<String>,
) -> Result<Json<WithdrawalView>, ApiError> {
    let id = id(&grant, "grant")?;
    let command = Command::RefundGrant { id };
    Ok(Json(carried_out!(api, operator, command, Withdrawal)))
}

/// A charge to be given back.
#[derive(Debug, ToSchema)]
struct NewRefund {
    /// The call's `x-request-id`.
    #[schema(value_type = String)]
    request_id: RequestId,
    /// Credits, above 0; all that can be given back when it is not said. What credits paid is given back first.
    #[schema(value_type = Option<String>)]
    amount: Option<Credits>,
    /// For operators: at most 200 characters.
    reason: Option<String>,
    /// Names the refund, so that it happens once; the amount when it is not said.
    key: Option<String>,
}

impl Read for NewRefund {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            request_id: members.required("request_id", "the call's `x-request-id`")?,
            amount: members.optional("amount", AMOUNT)?,
            reason: members.optional("reason", "a text of at most 200 characters")?,
            key: members.optional("key", "a text of at most 200 characters")?,
        })
    }
}

/// Gives back what was charged for a call of the account: what credits paid as credits, what a plan paid to its week while
/// that is open.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/refunds", tag = "Credits", operation_id = "create_refund",
    params(("id" = String, Path, description = "The account.")), request_body = NewRefund,
    responses((status = 200, body = RefundView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_refund(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Body(new): Body<NewRefund>,
) -> Result<Json<RefundView>, ApiError> {
    let command = Command::Refund {
        request: new.request_id,
        account: Some(id(&account, "account")?),
        amount: new.amount,
        reason: new.reason,
        key: new.key,
    };
    Ok(Json(carried_out!(api, operator, command, Refund)))
}

/// Which usage rows.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct UsageQuery {
    /// Rows at or after this instant: RFC 3339 (`2026-11-20T00:00:00Z`) or a date (`2026-11-20`).
    from: Option<String>,
    /// Rows before this instant.
    to: Option<String>,
    /// Rows on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last row of the page before.
    after: Option<String>,
}

/// Usage rows of an account, newest first. They hold no text of prompts or answers.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/usage", tag = "Credits", operation_id = "list_usage",
    params(("id" = String, Path, description = "The account."), UsageQuery),
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
    let command = Command::ListUsage {
        account: id(&account, "account")?,
        from: query::instant("from", query.from)?,
        to: query::instant("to", query.to)?,
        after: query::id("after", query.after)?,
        limit: Some(limit + 1),
    };
    let rows = carried_out!(api, operator, command, UsageRows);
    Ok(Json(List::page(rows, limit)))
}

/// Which month.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StatementQuery {
    /// The month in UTC, such as `2026-11`. The one that runs is told up to now.
    month: String,
}

/// A month of an account: what there was, what came and went, what there is.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/statement", tag = "Credits", operation_id = "get_statement",
    params(("id" = String, Path, description = "The account."), StatementQuery),
    responses((status = 200, body = StatementView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_statement(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Query(query): Query<StatementQuery>,
) -> Result<Json<StatementView>, ApiError> {
    let command = Command::ShowStatement {
        account: id(&account, "account")?,
        month: query.month,
    };
    Ok(Json(*carried_out!(api, operator, command, Statement)))
}
