//! Endpoints for plans and subscriptions.

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::{ApiError, ErrorBody, Operator};
use tollgate_types::{Error, SubscriptionId};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use tollgate_operations::view::{PlanView, SubscriptionView};
use tollgate_operations::{
    ChangePlan, ChangeSubscription, ListPlans, ListSubscriptions, OpenSubscription, ShowSubscription,
    Subscribe, SubscriptionAction,
};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_plans))
        .routes(routes!(list_subscriptions, create_subscription))
        .routes(routes!(open_subscription))
        .routes(routes!(get_subscription))
        .routes(routes!(change_plan))
        .routes(routes!(cancel_subscription))
        .routes(routes!(resume_subscription))
        .routes(routes!(renew_subscription))
}

/// Lists the plans in the settings.
#[utoipa::path(
    get, path = "/admin/v1/plans", tag = "Plans", operation_id = "list_plans",
    responses((status = 200, body = List<PlanView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_plans(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<List<PlanView>>, ApiError> {
    let plans = api.perform(&operator, ListPlans).await?;
    Ok(Json(List::whole(plans)))
}

/// Lists the subscriptions of an account, newest first.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/subscriptions", tag = "Plans", operation_id = "list_subscriptions",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = List<SubscriptionView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_subscriptions(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<List<SubscriptionView>>, ApiError> {
    let account = path_id(&account, "account")?;
    let command = ListSubscriptions { account };
    let found = api.perform(&operator, command).await?;
    Ok(Json(List::whole(found)))
}

/// A plan and the length of its periods, for a subscription.
#[derive(Debug, ToSchema)]
struct NewSubscription {
    /// Name of the plan, as listed by `GET /admin/v1/plans`.
    plan: String,
    /// Billing period: `monthly` or `yearly` (default: the plan's). A year of a monthly plan costs
    /// twelve times the monthly price. A yearly plan has no monthly period.
    cadence: Option<String>,
}

impl Read for NewSubscription {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            plan: members.required("plan", "the name of a plan")?,
            cadence: members.optional("cadence", "'monthly' or 'yearly'")?,
        })
    }
}

/// Subscribes an account to a plan. Charges the first period to the account's credits immediately,
/// unless the payment provider bills the plan.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/subscriptions", tag = "Plans", operation_id = "create_subscription",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewSubscription,
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewSubscription>,
) -> Result<Json<SubscriptionView>, ApiError> {
    let command = Subscribe {
        account: path_id(&account, "account")?,
        plan: new.plan,
        cadence: new.cadence,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// The checkout page of a plan.
#[derive(Debug, Serialize, ToSchema)]
struct OpenedSubscription {
    /// Id of the subscription. The subscription starts when the payer pays on the checkout page.
    #[schema(value_type = String)]
    id: SubscriptionId,
    /// URL of the checkout page, for the payer.
    url: String,
}

/// Creates a checkout page for a plan that the payment provider bills. Earlier checkout pages of
/// the account for plans become invalid.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/subscriptions/open", tag = "Plans", operation_id = "open_subscription",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewSubscription,
    responses((status = 200, body = OpenedSubscription), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn open_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewSubscription>,
) -> Result<Json<OpenedSubscription>, ApiError> {
    let command = OpenSubscription {
        account: path_id(&account, "account")?,
        plan: new.plan,
        cadence: new.cadence,
    };
    let page = api.perform(&operator, command).await?;
    let opened = page
        .subscription
        .map(|id| OpenedSubscription { id, url: page.url });
    Ok(Json(opened.ok_or_else(|| {
        Error::internal("unexpected reply to a command")
    })?))
}

/// Returns a subscription with its events.
#[utoipa::path(
    get, path = "/admin/v1/subscriptions/{id}", tag = "Plans", operation_id = "get_subscription",
    params(("id" = String, Path, description = "Id of the subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    let id = path_id(&subscription, "subscription")?;
    let command = ShowSubscription { id };
    Ok(Json(api.perform(&operator, command).await?))
}

async fn change(
    api: &AdminApi,
    operator: &Operator,
    subscription: &str,
    action: SubscriptionAction,
) -> Result<Json<SubscriptionView>, ApiError> {
    let id = path_id(subscription, "subscription")?;
    let command = ChangeSubscription { id, action };
    Ok(Json(api.perform(operator, command).await?))
}

/// Changes the plan of a subscription. The change starts immediately, as a new subscription, if the
/// new plan has at least the same allowance and period length and its price covers the unused part
/// of the current period. Otherwise, the plan changes with the next period. A change to the current
/// plan cancels a scheduled change.
#[utoipa::path(
    post, path = "/admin/v1/subscriptions/{id}/change-plan", tag = "Plans", operation_id = "change_plan",
    params(("id" = String, Path, description = "Id of the subscription.")), request_body = NewSubscription,
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn change_plan(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
    ObjectBody(new): ObjectBody<NewSubscription>,
) -> Result<Json<SubscriptionView>, ApiError> {
    let command = ChangePlan {
        id: path_id(&subscription, "subscription")?,
        plan: new.plan,
        cadence: new.cadence,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Cancels a subscription at the end of the paid period.
#[utoipa::path(
    post, path = "/admin/v1/subscriptions/{id}/cancel", tag = "Plans", operation_id = "cancel_subscription",
    params(("id" = String, Path, description = "Id of the subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn cancel_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    change(&api, &operator, &subscription, SubscriptionAction::Cancel).await
}

/// Resumes a subscription that is scheduled for cancellation.
#[utoipa::path(
    post, path = "/admin/v1/subscriptions/{id}/resume", tag = "Plans", operation_id = "resume_subscription",
    params(("id" = String, Path, description = "Id of the subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn resume_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    change(&api, &operator, &subscription, SubscriptionAction::Resume).await
}

/// Renews a subscription for the next period now. Charges the period to the account's credits,
/// unless the payment provider bills the plan.
#[utoipa::path(
    post, path = "/admin/v1/subscriptions/{id}/renew", tag = "Plans", operation_id = "renew_subscription",
    params(("id" = String, Path, description = "Id of the subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn renew_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    change(&api, &operator, &subscription, SubscriptionAction::Renew).await
}
