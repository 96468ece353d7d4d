//! Plans that a payment provider renews: their checkout pages, the provider's invoice events, and
//! the updates sent to the provider.
//!
//! The state of a payment follows from the provider's events, which may arrive twice, late, in any
//! order, or concurrently over two paths. A period is therefore identified by its end: an invoice
//! that does not extend the paid period changes nothing. Updates to the provider are not queued:
//! the provider's last known renewal state is compared with the local subscription, and the
//! difference is sent until the provider confirms it.

use std::time::Duration;

use tollgate_storage::{
    Cadence, Change, NewSubscription, Payer, Payment, Product, ProviderSubscription,
    ProviderSubscriptionChange, ProviderSubscriptionState, StorageErrorKind, Subscription, SubscriptionState,
};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, RenewalState, SubscriptionId, Timestamp};
use tollgate_upstream::{BillingInterval, NewPlanCheckout, PlanInvoice, PlanReference};

use super::{EventOutcome, PAGE, TopUps, unavailable};
use crate::plans::{self, Plan};
use crate::refusal::{invalid, no_such_account};

/// Extra time after a paid period. A provider charges the next period when the last one has ended,
/// which takes up to an hour, and its event may be late.
pub const MARGIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of attempts to renew a subscription under concurrent changes.
const MAX_ATTEMPTS: usize = 8;

/// A checkout page of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedPlan {
    /// Id of the subscription that the payment starts.
    pub subscription: SubscriptionId,
    /// URL of the checkout page.
    pub url: String,
}

impl TopUps {
    /// Creates a provider-renewed plan and returns its checkout page. Closes earlier unpaid pages
    /// of the account.
    pub async fn open_plan(&self, account: AccountId, plan: Plan) -> Result<OpenedPlan, Error> {
        let new = self.new_plan(account, plan).await?;
        self.close_pages(account).await?;
        let payer = self.payer(account).await?;
        let store = &self.storage.provider_subscriptions;
        store.create(new.clone()).await.map_err(no_such_account)?;
        let checkout = NewPlanCheckout {
            subscription: new.id,
            payer,
            money: new.money,
            interval: match new.cadence {
                Cadence::Monthly => BillingInterval::Month,
                Cadence::Yearly => BillingInterval::Year,
            },
            title: format!("Plan {}, {}", new.plan, self.settings.seller),
            success_url: self.settings.return_url.clone(),
            cancel_url: self.settings.return_url.clone(),
        };
        match self.provider.open_plan_checkout(&checkout).await {
            Ok(page) => {
                let checkout = page.reference;
                self.note_plan(new.id, ProviderSubscriptionChange::Opened { checkout })
                    .await?;
                Ok(OpenedPlan {
                    subscription: new.id,
                    url: page.url,
                })
            }
            Err(error) => {
                self.plan_not_started(new.id, "not_opened").await?;
                Err(unavailable(&error))
            }
        }
    }

    /// Returns the new provider subscription, or an error if the account cannot subscribe to the
    /// plan.
    async fn new_plan(&self, account: AccountId, plan: Plan) -> Result<ProviderSubscription, Error> {
        if plan.payer != Payer::Provider {
            let message = "This plan is paid with credits. Use `tollgate subscriptions create`.";
            return Err(invalid("plan", message));
        }
        if plan.price <= Credits::ZERO {
            let message = "This plan is free. Use `tollgate subscriptions create`.";
            return Err(invalid("plan", message));
        }
        let found = self.storage.subscriptions.list(account).await;
        let is_open =
            |found: &Subscription| found.terms.product == Product::Plan && !found.state.is_terminal();
        if found.map_err(Error::internal)?.iter().any(is_open) {
            let message = "The account has a plan that has not ended. An account has one plan at a time.";
            return Err(invalid("account", message));
        }
        let now = self.clock.now();
        let money = self.settings.price.of(plan.price);
        Ok(ProviderSubscription {
            id: SubscriptionId::from_u128(self.ids.next(now)),
            account,
            provider: self.provider.name().to_owned(),
            plan: plan.name,
            price: plan.price,
            cadence: plan.cadence,
            allowance: plan.allowance,
            money: money.ok_or_else(|| invalid("plan", "The price of the plan is too large."))?,
            state: ProviderSubscriptionState::Pending,
            checkout: None,
            reference: None,
            course: None,
            invoice: None,
            failure: None,
            created_at: now,
            updated_at: now,
        })
    }

    /// Closes the open checkout pages of an account, so that the account cannot pay for two plans.
    async fn close_pages(&self, account: AccountId) -> Result<(), Error> {
        let pending = self.storage.provider_subscriptions.pending(account).await;
        for page in pending.map_err(Error::internal)? {
            let Some(checkout) = &page.checkout else { continue };
            let closed = self.provider.close_checkout(checkout).await;
            if !closed.map_err(|error| unavailable(&error))? {
                let message =
                    "The account has just paid for a plan. The plan starts when the payment is confirmed.";
                return Err(invalid("account", message));
            }
            self.plan_not_started(page.id, "replaced").await?;
        }
        Ok(())
    }

    /// Handles the payment of a period: starts or renews the subscription.
    pub(super) async fn plan_paid(&self, paid: &PlanInvoice) -> Result<EventOutcome, Error> {
        let Some(sold) = self.find_plan(&paid.of).await? else {
            return Ok(EventOutcome::Ignored);
        };
        let (id, invoice) = (sold.id, &paid.invoice);
        if sold.state == ProviderSubscriptionState::Failed && sold.reference.is_some() {
            tracing::error!(subscription.id = %id, invoice, "{invoice} was paid for a plan that did not start; refund it");
            return Ok(EventOutcome::Plan);
        }
        if !self.begin(&sold, paid).await? {
            let refused = ProviderSubscriptionChange::Refused {
                reference: paid.of.reference.clone(),
                why: "another_plan".to_owned(),
            };
            let sold = self.note_plan(id, refused).await?;
            tracing::error!(
                account.id = %sold.account, subscription.id = %id, invoice,
                "{invoice} was paid for a second plan of {}, which is ended; refund it", sold.account
            );
            self.try_sync(&sold).await;
            return Ok(EventOutcome::Plan);
        }
        let is_new = self.renew(id, paid).await?;
        if is_new || sold.state != ProviderSubscriptionState::Started {
            let paid = ProviderSubscriptionChange::Paid {
                reference: paid.of.reference.clone(),
                invoice: invoice.clone(),
            };
            self.note_plan(id, paid).await?;
            tracing::info!(account.id = %sold.account, subscription.id = %id, invoice, "a period of {id} was paid");
        }
        Ok(EventOutcome::Plan)
    }

    /// Starts the subscription with the paid period, unless it has started. Returns `false` if the
    /// account has another plan.
    async fn begin(&self, sold: &ProviderSubscription, paid: &PlanInvoice) -> Result<bool, Error> {
        if sold.state == ProviderSubscriptionState::Started {
            return Ok(true);
        }
        let started = self.storage.subscriptions.subscribe(NewSubscription {
            id: sold.id,
            account: sold.account,
            product: Product::Plan,
            subject: sold.plan.clone(),
            price: sold.price,
            cadence: sold.cadence,
            payer: Payer::Provider,
            allowance: sold.allowance,
            anchor: paid.start,
            paid_through: paid.end.plus(MARGIN),
        });
        match started.await {
            Ok(_) => Ok(true),
            // The subscription was started before, or the account has another plan.
            Err(error) if error.kind == StorageErrorKind::Conflict => {
                Ok(self.subscription(sold.id).await?.is_some())
            }
            Err(error) => Err(Error::internal(error)),
        }
    }

    /// Renews the subscription with the paid period; returns `false` if that period is already paid
    /// or the subscription has ended.
    async fn renew(&self, id: SubscriptionId, paid: &PlanInvoice) -> Result<bool, Error> {
        let invoice = &paid.invoice;
        for _ in 0..MAX_ATTEMPTS {
            let Some(found) = self.subscription(id).await? else {
                break;
            };
            let paid_through = paid.end.plus(MARGIN);
            if paid_through <= found.terms.paid_through {
                return Ok(false);
            }
            if found.state.is_terminal() {
                let state = found.state.as_str();
                tracing::error!(subscription.id = %id, invoice, state, "{invoice} was paid after {id} had ended; refund it");
                return Ok(false);
            }
            let period = found.period.saturating_add(1);
            if self.change(id, Change::Renew { period, paid_through }).await? {
                return Ok(true);
            }
        }
        Err(Error::new(
            ErrorCode::Overloaded,
            "The subscription is being changed concurrently. Retry.",
        ))
    }

    /// Handles a failed payment: marks the subscription as past due, unless the period is paid.
    pub(super) async fn plan_not_paid(&self, asked: &PlanInvoice) -> Result<EventOutcome, Error> {
        let Some(sold) = self.find_plan(&asked.of).await? else {
            return Ok(EventOutcome::Ignored);
        };
        // A subscription without a first payment cannot be past due.
        if let Some(found) = self.subscription(sold.id).await?
            && found.state == SubscriptionState::Active
            && asked.end.plus(MARGIN) > found.terms.paid_through
        {
            self.change(sold.id, Change::PastDue).await?;
            tracing::info!(account.id = %sold.account, subscription.id = %sold.id, "a period of {} was not paid", sold.id);
        }
        Ok(EventOutcome::Plan)
    }

    /// Handles a change of a subscription at the provider, such as a cancellation.
    pub(super) async fn plan_changed(&self, of: &PlanReference) -> Result<EventOutcome, Error> {
        let Some(sold) = self.find_plan(of).await? else {
            return Ok(EventOutcome::Ignored);
        };
        self.catch_up(&sold, &of.reference).await?;
        Ok(EventOutcome::Plan)
    }

    /// Reads the subscription's current status from the provider and applies it to the local
    /// subscription.
    async fn catch_up(&self, sold: &ProviderSubscription, reference: &str) -> Result<(), Error> {
        let standing = self.provider.plan_status(reference).await;
        let standing = standing.map_err(|error| unavailable(&error))?;
        if let Some(paid) = &standing.paid {
            self.plan_paid(paid).await?;
        }
        match sold.state {
            ProviderSubscriptionState::Started => self.follow(sold, standing.course).await,
            ProviderSubscriptionState::Pending | ProviderSubscriptionState::Failed => Ok(()),
        }
    }

    /// Handles the end of a subscription at the provider.
    pub(super) async fn plan_ended(&self, of: &PlanReference) -> Result<EventOutcome, Error> {
        let Some(mut sold) = self.find_plan(of).await? else {
            return Ok(EventOutcome::Ignored);
        };
        if sold.course.is_none() {
            let refused = ProviderSubscriptionChange::Refused {
                reference: of.reference.clone(),
                why: "ended".to_owned(),
            };
            sold = self.note_plan(sold.id, refused).await?;
        }
        self.follow(&sold, RenewalState::Ended).await?;
        Ok(EventOutcome::Plan)
    }

    /// Marks the subscription of an unpaid checkout page as failed.
    pub(super) async fn plan_not_started(&self, id: SubscriptionId, why: &str) -> Result<(), Error> {
        let found = self.storage.provider_subscriptions.get(id).await;
        found.map_err(Error::internal)?.ok_or_else(|| unknown(id))?;
        let why = why.to_owned();
        self.note_plan(id, ProviderSubscriptionChange::Failed { why })
            .await?;
        Ok(())
    }

    /// Applies the provider's renewal state to the local subscription, if the state has changed.
    async fn follow(&self, sold: &ProviderSubscription, course: RenewalState) -> Result<(), Error> {
        if sold.course == Some(course) {
            return Ok(());
        }
        let id = sold.id;
        match (course, self.subscription(id).await?) {
            (RenewalState::Renews, Some(_)) => {
                self.change(id, Change::Resume).await?;
            }
            (RenewalState::Ends, Some(_)) => {
                self.change(id, Change::CancelAtPeriodEnd).await?;
            }
            (RenewalState::Ended, Some(found)) if found.state == SubscriptionState::PastDue => {
                self.change(id, Change::Expire).await?;
            }
            (RenewalState::Ended, Some(_)) => {
                self.change(id, Change::CancelAtPeriodEnd).await?;
                self.change(id, Change::Cancel).await?;
            }
            (_, None) => {}
        }
        self.note_plan(id, ProviderSubscriptionChange::RenewalState(course))
            .await?;
        Ok(())
    }

    /// Renews or ends the due subscriptions at the provider, and sends the outstanding updates to
    /// the provider. Several nodes may call this concurrently. A failure is logged, and the next
    /// pass tries again.
    pub async fn renew_plans(&self) {
        let (store, now) = (&self.storage.provider_subscriptions, self.clock.now());
        match store.due(now, PAGE).await {
            Ok(due) => {
                for sold in due {
                    if let Err(error) = self.renew_or_expire(&sold, now).await {
                        tracing::warn!(%error, subscription.id = %sold.id, "cannot check whether {} was paid", sold.id);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the subscriptions that the payment provider bills")
            }
        }
        match store.out_of_sync(PAGE).await {
            Ok(out_of_sync) => {
                for sold in out_of_sync {
                    self.try_sync(&sold).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the subscriptions that are out of sync with the payment provider")
            }
        }
    }

    /// Renews or expires a subscription whose paid period has ended. First reads its status from
    /// the provider, because an event may be lost.
    async fn renew_or_expire(&self, sold: &ProviderSubscription, now: Timestamp) -> Result<(), Error> {
        let Some(found) = self.subscription(sold.id).await? else {
            return Ok(());
        };
        let is_owed_further = found
            .past_due_since
            .is_some_and(|since| now.since(since) < plans::GRACE);
        if is_owed_further && !found.cancel_at_period_end {
            return Ok(());
        }
        if let Some(reference) = &sold.reference {
            self.catch_up(sold, reference).await?;
        }
        let found = self.subscription(sold.id).await?;
        match found.filter(|found| !found.state.is_terminal() && found.terms.paid_through <= now) {
            Some(found) => {
                let renewed = plans::renew(&*self.storage.subscriptions, &found, None, now).await;
                match renewed {
                    Err(error) if error.kind != StorageErrorKind::Conflict => Err(Error::internal(error)),
                    _ => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    /// Sends the renewal state of a subscription to its provider. If the update fails, the next
    /// pass retries it.
    pub async fn sync_plan(&self, id: SubscriptionId) {
        match self.storage.provider_subscriptions.get(id).await {
            Ok(Some(sold)) => self.try_sync(&sold).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, subscription.id = %id, "cannot read the provider subscription of {id}");
            }
        }
    }

    async fn try_sync(&self, sold: &ProviderSubscription) {
        if let Err(error) = self.sync_renewal_state(sold).await {
            let id = sold.id;
            tracing::warn!(%error, subscription.id = %id, "cannot synchronize {id} with the payment provider");
        }
    }

    async fn sync_renewal_state(&self, sold: &ProviderSubscription) -> Result<(), Error> {
        let found = self.subscription(sold.id).await?;
        let desired_renewal = sold.desired_renewal(found.as_ref());
        let (Some(reference), Some(known)) = (&sold.reference, sold.course) else {
            return Ok(());
        };
        if known == desired_renewal || known == RenewalState::Ended {
            return Ok(());
        }
        let does = self.provider.set_renewal_state(reference, desired_renewal).await;
        match does.map_err(|error| unavailable(&error))? {
            does if does == desired_renewal => {
                self.note_plan(sold.id, ProviderSubscriptionChange::RenewalState(does))
                    .await?;
            }
            // The subscription has ended at the provider in the meantime.
            does => self.follow(sold, does).await?,
        }
        Ok(())
    }

    /// Returns the provider subscription of a reference; `None` if another seller created it at the
    /// same provider.
    async fn find_plan(&self, of: &PlanReference) -> Result<Option<ProviderSubscription>, Error> {
        let store = &self.storage.provider_subscriptions;
        let found = store.by_reference(&of.reference).await.map_err(Error::internal)?;
        if found.is_some() {
            return Ok(found);
        }
        let Some(id) = of.subscription else {
            return Ok(None);
        };
        let found = store.get(id).await.map_err(Error::internal)?;
        let found = found.ok_or_else(|| unknown(id))?;
        let reference = &of.reference;
        if found.reference.as_ref().is_some_and(|own| own != reference) {
            tracing::error!(subscription.id = %id, reference, "the event links {reference} to {id}, which is linked to another subscription of the payment provider");
            let message = "Another subscription of the payment provider pays for this subscription.";
            return Err(Error::new(ErrorCode::Conflict, message));
        }
        Ok(Some(found))
    }

    async fn subscription(&self, id: SubscriptionId) -> Result<Option<Subscription>, Error> {
        let found = self.storage.subscriptions.get(id).await;
        found.map_err(Error::internal)
    }

    /// Changes a subscription; returns `false` if the subscription's state or the account's balance
    /// does not permit the change.
    async fn change(&self, id: SubscriptionId, change: Change) -> Result<bool, Error> {
        let changed = self
            .storage
            .subscriptions
            .change(id, change, self.clock.now())
            .await;
        match changed {
            Ok(Payment::Done(_)) => Ok(true),
            Ok(Payment::Denied { .. }) => Ok(false),
            Err(error) if error.kind == StorageErrorKind::Conflict => Ok(false),
            Err(error) => Err(Error::internal(error)),
        }
    }

    async fn note_plan(
        &self,
        id: SubscriptionId,
        change: ProviderSubscriptionChange,
    ) -> Result<ProviderSubscription, Error> {
        let store = &self.storage.provider_subscriptions;
        let changed = store.change(id, change, self.clock.now()).await;
        changed.map_err(|error| match error.kind {
            StorageErrorKind::Conflict => {
                let message = "The event contradicts the stored state of the subscription.";
                Error::new(ErrorCode::Conflict, message).with_source(error)
            }
            _ => Error::internal(error),
        })
    }
}

/// Returns a 404 error, so that the provider sends the event again: the subscription may be stored
/// by then.
fn unknown(id: SubscriptionId) -> Error {
    tracing::error!(subscription.id = %id, "the payment provider sent an event for {id}, which does not exist");
    Error::new(ErrorCode::NotFound, "The subscription does not exist.")
}
