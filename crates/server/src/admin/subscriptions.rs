//! What accounts pay for by the period.

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use tollgate_edge::{ApiError, ErrorBody, Operator};
use tollgate_types::{Error, SubscriptionId};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::answer::{List, carried_out, id, unexpected};
use super::body::{Body, Members, Read};
use crate::control::view::{PlanView, SubscriptionView};
use crate::control::{Command, SubscriptionWish};

/// The routes of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_plans))
        .routes(routes!(list_subscriptions, create_subscription))
        .routes(routes!(open_subscription))
        .routes(routes!(get_subscription))
        .routes(routes!(cancel_subscription))
        .routes(routes!(resume_subscription))
        .routes(routes!(renew_subscription))
}

/// The plans that can be subscribed to. They are in the settings.
#[utoipa::path(
    get, path = "/admin/v1/plans", tag = "Plans", operation_id = "list_plans",
    responses((status = 200, body = List<PlanView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_plans(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<List<PlanView>>, ApiError> {
    let plans = carried_out!(api, operator, Command::ListPlans, Plans);
    Ok(Json(List::whole(plans)))
}

/// The subscriptions of an account, newest first.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/subscriptions", tag = "Plans", operation_id = "list_subscriptions",
    params(("id" = String, Path, description = "The account.")),
    responses((status = 200, body = List<SubscriptionView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_subscriptions(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<List<SubscriptionView>>, ApiError> {
    let account = id(&account, "account")?;
    let command = Command::ListSubscriptions { account };
    let found = carried_out!(api, operator, command, Subscriptions);
    Ok(Json(List::whole(found)))
}

/// A subscription to be made.
#[derive(Debug, ToSchema)]
struct NewSubscription {
    /// The plan's name.
    plan: String,
    /// `monthly` or `yearly`; that of the plan when it is not said. A year of a monthly plan costs twelve months.
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

/// Subscribes an account to a plan from now on. The first period is paid at once.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/subscriptions", tag = "Plans", operation_id = "create_subscription",
    params(("id" = String, Path, description = "The account.")), request_body = NewSubscription,
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Body(new): Body<NewSubscription>,
) -> Result<Json<SubscriptionView>, ApiError> {
    let command = Command::Subscribe {
        account: id(&account, "account")?,
        plan: new.plan,
        cadence: new.cadence,
    };
    Ok(Json(carried_out!(api, operator, command, Subscription)))
}

/// A page on which a subscription is begun.
#[derive(Debug, Serialize, ToSchema)]
struct OpenedSubscription {
    /// The subscription that begins when the page is paid.
    #[schema(value_type = String)]
    id: SubscriptionId,
    /// Where the page is, for whoever pays.
    url: String,
}

/// Opens a page of the payment provider on which a plan is begun that the provider then renews. A page that was opened for the
/// account before cannot be paid any more.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/subscriptions/open", tag = "Plans", operation_id = "open_subscription",
    params(("id" = String, Path, description = "The account.")), request_body = NewSubscription,
    responses((status = 200, body = OpenedSubscription), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn open_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Body(new): Body<NewSubscription>,
) -> Result<Json<OpenedSubscription>, ApiError> {
    let command = Command::OpenSubscription {
        account: id(&account, "account")?,
        plan: new.plan,
        cadence: new.cadence,
    };
    let page = carried_out!(api, operator, command, Page);
    let made = page
        .subscription
        .map(|id| OpenedSubscription { id, url: page.url });
    Ok(Json(made.ok_or_else(unexpected)?))
}

/// A subscription with what happened to it.
#[utoipa::path(
    get, path = "/admin/v1/subscriptions/{id}", tag = "Plans", operation_id = "get_subscription",
    params(("id" = String, Path, description = "The subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    let id = id(&subscription, "subscription")?;
    let command = Command::ShowSubscription { id };
    Ok(Json(carried_out!(api, operator, command, Subscription)))
}

async fn change(
    api: &AdminApi,
    operator: &Operator,
    subscription: &str,
    wish: SubscriptionWish,
) -> Result<Json<SubscriptionView>, ApiError> {
    let id = id(subscription, "subscription")?;
    let command = Command::ChangeSubscription { id, wish };
    Ok(Json(carried_out!(api, operator, command, Subscription)))
}

/// Has a subscription end with the time that is paid for.
#[utoipa::path(
    post, path = "/admin/v1/subscriptions/{id}/cancel", tag = "Plans", operation_id = "cancel_subscription",
    params(("id" = String, Path, description = "The subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn cancel_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    change(&api, &operator, &subscription, SubscriptionWish::Cancel).await
}

/// Has a subscription that was to end go on.
#[utoipa::path(
    post, path = "/admin/v1/subscriptions/{id}/resume", tag = "Plans", operation_id = "resume_subscription",
    params(("id" = String, Path, description = "The subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn resume_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    change(&api, &operator, &subscription, SubscriptionWish::Resume).await
}

/// Pays a subscription's next period.
#[utoipa::path(
    post, path = "/admin/v1/subscriptions/{id}/renew", tag = "Plans", operation_id = "renew_subscription",
    params(("id" = String, Path, description = "The subscription.")),
    responses((status = 200, body = SubscriptionView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn renew_subscription(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(subscription): Path<String>,
) -> Result<Json<SubscriptionView>, ApiError> {
    change(&api, &operator, &subscription, SubscriptionWish::Renew).await
}
