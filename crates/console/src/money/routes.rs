//! Handlers of balance, credits, plans and statements.

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use tollgate_edge::list::List;
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ErrorBody};
use tollgate_operations::view::{BalanceView, LotView, PlanView, StatementView, SubscriptionView};
use tollgate_operations::{ListLots, ListOfferedPlans, ListSubscriptions, ShowBalance, ShowStatement};
use tollgate_types::Credits;
use tollgate_types::id::TransferId;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ConsoleApi;

/// Returns the routes of balance, credits, plans and statements.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new()
        .routes(routes!(get_balance))
        .routes(routes!(list_lots))
        .routes(routes!(get_statement))
        .routes(routes!(list_plans))
}

/// Returns available and held credits, and the allowance that is left in the current week.
#[utoipa::path(
    get, path = "/console/api/v1/balance", tag = "Billing", operation_id = "get_balance",
    responses((status = 200, body = BalanceView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn get_balance(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<BalanceView>, ApiError> {
    let account = session.account.id;
    console.perform(&session, ShowBalance { account }).await
}

/// Credits that arrived together, with their unspent rest.
#[derive(Serialize, ToSchema)]
struct LotBody {
    /// Id of the grant or refund: `xfer_…`.
    #[schema(value_type = String)]
    id: TransferId,
    /// `purchase`, `promotion` or `refund`.
    kind: String,
    /// Credits of the grant or refund.
    #[schema(value_type = String)]
    amount: Credits,
    /// Remaining credits, including those held by running calls.
    #[schema(value_type = String)]
    remaining: Credits,
    /// Credits that expired unused.
    #[schema(value_type = String)]
    expired: Credits,
    /// Credits that were withdrawn or returned to the payer.
    #[schema(value_type = String)]
    withdrawn: Credits,
    /// Time of the grant or refund, RFC 3339.
    created_at: String,
    /// Expiry of the remaining credits, RFC 3339; null for never.
    expires_at: Option<String>,
}

impl From<LotView> for LotBody {
    fn from(lot: LotView) -> Self {
        Self {
            id: lot.id,
            kind: lot.kind,
            amount: lot.amount,
            remaining: lot.remaining,
            expired: lot.expired,
            withdrawn: lot.withdrawn,
            created_at: lot.created_at,
            expires_at: lot.expires_at,
        }
    }
}

/// Lists the credits of the account by arrival, in spending order, including used-up ones.
#[utoipa::path(
    get, path = "/console/api/v1/lots", tag = "Billing", operation_id = "list_lots",
    responses((status = 200, body = List<LotBody>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_lots(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<List<LotBody>>, ApiError> {
    let command = ListLots {
        account: session.account.id,
        all: true,
    };
    let Json(lots) = console.perform(&session, command).await?;
    Ok(Json(List::whole(lots.into_iter().map(LotBody::from).collect())))
}

/// Returns balances and movements of a month.
#[utoipa::path(
    get, path = "/console/api/v1/statements/{month}", tag = "Billing", operation_id = "get_statement",
    params(("month" = String, Path, description = "Month, such as 2026-11.")),
    responses((status = 200, body = StatementView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn get_statement(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(month): Path<String>,
) -> Result<Json<StatementView>, ApiError> {
    let account = session.account.id;
    console.perform(&session, ShowStatement { account, month }).await
}

/// Plans of the service and of the account.
#[derive(Serialize, ToSchema)]
struct PlansBody {
    /// Plans that the service offers.
    data: Vec<PlanView>,
    /// Subscriptions of the account, newest first.
    subscriptions: Vec<SubscriptionView>,
}

/// Lists the plans that the service offers, and the subscriptions of the account.
#[utoipa::path(
    get, path = "/console/api/v1/plans", tag = "Billing", operation_id = "list_plans",
    responses((status = 200, body = PlansBody), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_plans(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<PlansBody>, ApiError> {
    let account = session.account.id;
    let Json(data) = console.perform(&session, ListOfferedPlans { account }).await?;
    let Json(subscriptions) = console.perform(&session, ListSubscriptions { account }).await?;
    Ok(Json(PlansBody { data, subscriptions }))
}
