//! Commands on plans and subscriptions.

use serde::{Deserialize, Serialize};
use tollgate_billing::Plan;
use tollgate_billing::plans::{self, PlanAction};
use tollgate_storage::{Cadence, Subscription};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, Timestamp};

use crate::accounts::{no_such_account, time_of};
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::top_ups::{PageView, check_time, seller};
use crate::view::{EventView, PlanView, RenewedByView, SubscriptionView};
use crate::{Actor, Operations};

/// Lists the plans of the settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListPlans;

impl Operation for ListPlans {
    const NAME: &'static str = "list_plans";
    type Reply = Vec<PlanView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let plans = operations.plans.all();
        Ok(plans.values().map(PlanView::of).collect::<Vec<_>>().into())
    }
}

/// Lists the plans of the settings for a member of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListOfferedPlans {
    pub account: AccountId,
}

impl Operation for ListOfferedPlans {
    const NAME: &'static str = "list_offered_plans";
    type Reply = Vec<PlanView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        ListPlans.execute(operations, actor).await
    }
}

/// Subscribes an account to a plan and charges the first period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subscribe {
    pub account: AccountId,
    /// Name of the plan.
    pub plan: String,
    /// `monthly` or `yearly`; `None` for the plan's default.
    pub cadence: Option<String>,
}

impl Operation for Subscribe {
    const NAME: &'static str = "subscribe";
    type Reply = SubscriptionView;

    fn declaration(&self) -> Declaration {
        Declaration::change("subscription.create", Permission::Plans).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let plan = offered(operations, &self.plan, self.cadence.as_deref())?;
        let now = time_of(operations, self.account).await?;
        let id = SubscriptionId::from_u128(operations.ids.next(now));
        let created =
            plans::subscribe(&*operations.storage.subscriptions, id, self.account, plan, now).await?;
        subscription(operations, &created).await
    }
}

/// Creates a checkout page for a plan that the payment provider bills.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenSubscription {
    pub account: AccountId,
    /// Name of the plan.
    pub plan: String,
    /// `monthly` or `yearly`; `None` for the plan's default.
    pub cadence: Option<String>,
}

impl Operation for OpenSubscription {
    const NAME: &'static str = "open_subscription";
    type Reply = PageView;

    fn declaration(&self) -> Declaration {
        Declaration::change("subscription.open", Permission::Plans).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let sales = seller(operations)?;
        let plan = offered(operations, &self.plan, self.cadence.as_deref())?;
        let instead = "use `tollgate subscriptions create` instead";
        check_time(operations, self.account, instead).await?;
        let opened = sales.open_plan(self.account, plan).await?;
        let view = PageView {
            url: opened.url,
            top_up: None,
            subscription: Some(opened.subscription),
        };
        Ok(view.into())
    }
}

/// Lists the subscriptions of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListSubscriptions {
    pub account: AccountId,
}

impl Operation for ListSubscriptions {
    const NAME: &'static str = "list_subscriptions";
    type Reply = Vec<SubscriptionView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let now = time_of(operations, self.account).await?;
        let found = operations.storage.subscriptions.list(self.account).await;
        let left = allowance(operations, self.account).await?;
        let views = found.map_err(Error::internal)?;
        let views = views.iter().map(|found| SubscriptionView::of(found, left, now));
        Ok(views.collect::<Vec<_>>().into())
    }
}

/// Returns a subscription with its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowSubscription {
    pub id: SubscriptionId,
}

impl Operation for ShowSubscription {
    const NAME: &'static str = "show_subscription";
    type Reply = SubscriptionView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let subscriptions = &operations.storage.subscriptions;
        let found = subscriptions.get(self.id).await.map_err(Error::internal)?;
        let found =
            found.ok_or_else(|| Error::new(ErrorCode::NotFound, "The subscription does not exist."))?;
        let events = subscriptions.events(self.id).await.map_err(Error::internal)?;
        let left = allowance(operations, found.terms.account).await?;
        let now = time_of(operations, found.terms.account).await?;
        let view = SubscriptionView::of(&found, left, now);
        let renewed = operations.storage.provider_subscriptions.get(self.id).await;
        let renewed = renewed.map_err(Error::internal)?;
        let view = SubscriptionView {
            renewed_by: renewed.as_ref().map(RenewedByView::of).map(Box::new),
            events: events.iter().map(EventView::of).collect(),
            ..view
        };
        Ok(view.into())
    }
}

/// An action on a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionAction {
    /// Ends the subscription at the end of the paid period.
    Cancel,
    /// Withdraws a scheduled cancellation.
    Resume,
    /// Charges the next period now.
    Renew,
}

/// Cancels, resumes or renews a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeSubscription {
    pub id: SubscriptionId,
    /// The action on the subscription.
    pub action: SubscriptionAction,
}

impl Operation for ChangeSubscription {
    const NAME: &'static str = "change_subscription";
    type Reply = SubscriptionView;

    fn declaration(&self) -> Declaration {
        let action = match self.action {
            SubscriptionAction::Cancel => "subscription.cancel",
            SubscriptionAction::Resume => "subscription.resume",
            SubscriptionAction::Renew => "subscription.renew",
        };
        Declaration::change(action, Permission::Plans).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let action = match self.action {
            SubscriptionAction::Cancel => PlanAction::Cancel,
            SubscriptionAction::Resume => PlanAction::Resume,
            SubscriptionAction::Renew => PlanAction::Renew,
        };
        let now = time_of_subscription(operations, self.id).await?;
        let changed = plans::change(&*operations.storage.subscriptions, self.id, action, now).await?;
        if let Some(top_ups) = &operations.top_ups {
            top_ups.sync_plan(self.id).await;
        }
        subscription(operations, &changed).await
    }
}

/// Changes the plan of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangePlan {
    pub id: SubscriptionId,
    /// Name of the new plan.
    pub plan: String,
    /// `monthly` or `yearly`; `None` for the plan's default.
    pub cadence: Option<String>,
}

impl Operation for ChangePlan {
    const NAME: &'static str = "change_plan";
    type Reply = SubscriptionView;

    fn declaration(&self) -> Declaration {
        Declaration::change("subscription.change_plan", Permission::Plans).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let plan = offered(operations, &self.plan, self.cadence.as_deref())?;
        check_payer(operations, self.id).await?;
        let now = time_of_subscription(operations, self.id).await?;
        let new = SubscriptionId::from_u128(operations.ids.next(now));
        let subscriptions = &*operations.storage.subscriptions;
        let changed = plans::change_plan(subscriptions, self.id, new, plan, now).await?;
        subscription(operations, &changed).await
    }
}

/// Returns an error if the payment provider bills the subscription: a plan change would cancel it
/// at the provider, and nothing would pay for the new plan.
async fn check_payer(operations: &Operations, id: SubscriptionId) -> Result<(), Error> {
    let found = operations.storage.provider_subscriptions.get(id).await;
    match found.map_err(Error::internal)? {
        None => Ok(()),
        Some(_) => {
            let message = "The payment provider bills this subscription. Cancel the subscription. After it has ended, create a checkout page for the new plan.";
            Err(Error::new(ErrorCode::InvalidParameter, message).with_param("id"))
        }
    }
}

/// Returns the plan with this name from the settings, with the given period length.
fn offered(operations: &Operations, name: &str, cadence: Option<&str>) -> Result<Plan, Error> {
    let plan = operations.plans.all().get(name).cloned();
    let plan = plan.ok_or_else(|| {
        let message = "The plan does not exist. `tollgate plans list` lists the available plans.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("plan")
    })?;
    let plan = match cadence {
        None => Some(plan),
        Some(cadence) => Cadence::parse(cadence).and_then(|cadence| plan.with_cadence(cadence)),
    };
    plan.ok_or_else(|| {
        let message = "'cadence' must be 'monthly' or 'yearly', and 'yearly' for a yearly plan.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("cadence")
    })
}

async fn subscription(
    operations: &Operations,
    subscription: &Subscription,
) -> Result<Completed<SubscriptionView>, Error> {
    let left = allowance(operations, subscription.terms.account).await?;
    let now = time_of(operations, subscription.terms.account).await?;
    Ok(SubscriptionView::of(subscription, left, now).into())
}

/// Returns the current time of the account of a subscription.
async fn time_of_subscription(operations: &Operations, id: SubscriptionId) -> Result<Timestamp, Error> {
    let found = operations
        .storage
        .subscriptions
        .get(id)
        .await
        .map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "The subscription does not exist."))?;
    time_of(operations, found.terms.account).await
}

async fn allowance(operations: &Operations, account: AccountId) -> Result<Credits, Error> {
    let left = operations.storage.subscriptions.allowance(account).await;
    left.map_err(no_such_account)
}
