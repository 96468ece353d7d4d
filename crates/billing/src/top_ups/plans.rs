//! Plans that a payment provider renews: the page on which one is begun, what the provider says of its invoices, and what it
//! has to hear when one ends here.
//!
//! The provider's word is what counts, and it may come twice, late, in any order, or on two ways at once. So a period is
//! known by its end: an invoice whose period is not over later than what is paid already changes nothing. In the other
//! direction nothing is remembered to be said: what the provider is known to do is compared with what became of the
//! subscription here, and it is told of the difference until it has heard.

use std::time::Duration;

use tollgate_storage::{
    Cadence, Change, NewSubscription, Payer, Payment, Product, ProviderSubscription,
    ProviderSubscriptionChange, ProviderSubscriptionState, StorageErrorKind, Subscription, SubscriptionState,
};
use tollgate_types::{AccountId, Course, Credits, Error, ErrorCode, SubscriptionId, Timestamp};
use tollgate_upstream::{BillingInterval, NewPlanCheckout, PlanInvoice, PlanReference};

use super::{PAGE, Received, TopUps, unavailable};
use crate::plans::{self, Plan};
use crate::refusal::{invalid, no_such_account};

/// How long after the end of a period it counts as paid: a provider asks for the next one only when the last is over, and
/// may be an hour about it; what it then says may come late.
pub const MARGIN: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a period is tried to be renewed while others renew the same subscription.
const TRIES: usize = 8;

/// A page on which a plan is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedPlan {
    /// The subscription that begins when it is paid.
    pub subscription: SubscriptionId,
    /// The address of the page.
    pub url: String,
}

impl TopUps {
    /// Opens a page on which somebody begins a plan that the provider then renews. A page that was opened before for the account
    /// cannot be paid any more.
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
                self.plan_not_begun(new.id, "not_opened").await?;
                Err(unavailable(&error))
            }
        }
    }

    /// What is to be begun, unless the account or the plan forbid it.
    async fn new_plan(&self, account: AccountId, plan: Plan) -> Result<ProviderSubscription, Error> {
        if plan.payer != Payer::Provider {
            let message = "Credits pay this plan: `tollgate subscriptions create` subscribes to it.";
            return Err(invalid("plan", message));
        }
        if plan.price <= Credits::ZERO {
            let message = "The plan costs nothing: `tollgate subscriptions create` subscribes to it.";
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
            money: money.ok_or_else(|| invalid("plan", "Its price is too large."))?,
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

    /// Closes the pages of an account that are still open, so that nobody pays for two plans.
    async fn close_pages(&self, account: AccountId) -> Result<(), Error> {
        let pending = self.storage.provider_subscriptions.pending(account).await;
        for page in pending.map_err(Error::internal)? {
            let Some(checkout) = &page.checkout else { continue };
            let closed = self.provider.close_checkout(checkout).await;
            if !closed.map_err(|error| unavailable(&error))? {
                let message =
                    "The account has just paid for a plan; it begins when the payment provider says so.";
                return Err(invalid("account", message));
            }
            self.plan_not_begun(page.id, "replaced").await?;
        }
        Ok(())
    }

    /// A period was paid: the subscription begins, or goes on.
    pub(super) async fn plan_paid(&self, paid: &PlanInvoice) -> Result<Received, Error> {
        let Some(sold) = self.find_plan(&paid.of).await? else {
            return Ok(Received::Ignored);
        };
        let (id, invoice) = (sold.id, &paid.invoice);
        if sold.state == ProviderSubscriptionState::Failed && sold.reference.is_some() {
            tracing::error!(subscription.id = %id, invoice, "{invoice} was paid for a plan that did not begin; give it back");
            return Ok(Received::Plan);
        }
        if !self.begin(&sold, paid).await? {
            let refused = ProviderSubscriptionChange::Refused {
                reference: paid.of.reference.clone(),
                why: "another_plan".to_owned(),
            };
            let sold = self.note_plan(id, refused).await?;
            tracing::error!(
                account.id = %sold.account, subscription.id = %id, invoice,
                "{invoice} was paid for a second plan of {}, which is ended; give it back", sold.account
            );
            self.try_to_tell(&sold).await;
            return Ok(Received::Plan);
        }
        let is_new = self.renew(id, paid).await?;
        if is_new || sold.state != ProviderSubscriptionState::Begun {
            let paid = ProviderSubscriptionChange::Paid {
                reference: paid.of.reference.clone(),
                invoice: invoice.clone(),
            };
            self.note_plan(id, paid).await?;
            tracing::info!(account.id = %sold.account, subscription.id = %id, invoice, "a period of {id} was paid");
        }
        Ok(Received::Plan)
    }

    /// Begins the subscription with the period that was paid; what was begun before stays. Whether there is one: false when the
    /// account has another plan.
    async fn begin(&self, sold: &ProviderSubscription, paid: &PlanInvoice) -> Result<bool, Error> {
        if sold.state == ProviderSubscriptionState::Begun {
            return Ok(true);
        }
        let begun = self.storage.subscriptions.subscribe(NewSubscription {
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
        match begun.await {
            Ok(_) => Ok(true),
            // It was begun before, or there is another one.
            Err(error) if error.kind == StorageErrorKind::Conflict => {
                Ok(self.subscription(sold.id).await?.is_some())
            }
            Err(error) => Err(Error::internal(error)),
        }
    }

    /// Renews the subscription with the period that was paid, unless so much is paid already; whether it did.
    async fn renew(&self, id: SubscriptionId, paid: &PlanInvoice) -> Result<bool, Error> {
        let invoice = &paid.invoice;
        for _ in 0..TRIES {
            let Some(found) = self.subscription(id).await? else {
                break;
            };
            let paid_through = paid.end.plus(MARGIN);
            if paid_through <= found.terms.paid_through {
                return Ok(false);
            }
            if found.state.is_terminal() {
                let state = found.state.as_str();
                tracing::error!(subscription.id = %id, invoice, state, "{invoice} was paid after {id} had ended; give it back");
                return Ok(false);
            }
            let period = found.period.saturating_add(1);
            if self.change(id, Change::Renew { period, paid_through }).await? {
                return Ok(true);
            }
        }
        Err(Error::new(
            ErrorCode::Overloaded,
            "The subscription is being changed by others.",
        ))
    }

    /// A period could not be paid: it is owed, unless it was paid after all.
    pub(super) async fn plan_not_paid(&self, asked: &PlanInvoice) -> Result<Received, Error> {
        let Some(sold) = self.find_plan(&asked.of).await? else {
            return Ok(Received::Ignored);
        };
        // Before the first payment nothing is owed.
        if let Some(found) = self.subscription(sold.id).await?
            && found.state == SubscriptionState::Active
            && asked.end.plus(MARGIN) > found.terms.paid_through
        {
            self.change(sold.id, Change::PastDue).await?;
            tracing::info!(account.id = %sold.account, subscription.id = %sold.id, "a period of {} was not paid", sold.id);
        }
        Ok(Received::Plan)
    }

    /// Something about a subscription is another way at the provider.
    pub(super) async fn plan_changed(&self, of: &PlanReference) -> Result<Received, Error> {
        let Some(sold) = self.find_plan(of).await? else {
            return Ok(Received::Ignored);
        };
        self.catch_up(&sold, &of.reference).await?;
        Ok(Received::Plan)
    }

    /// Asks the provider how a subscription stands now, which is what counts, and has the one here follow.
    async fn catch_up(&self, sold: &ProviderSubscription, reference: &str) -> Result<(), Error> {
        let standing = self.provider.plan_standing(reference).await;
        let standing = standing.map_err(|error| unavailable(&error))?;
        if let Some(paid) = &standing.paid {
            self.plan_paid(paid).await?;
        }
        match sold.state {
            ProviderSubscriptionState::Begun => self.follow(sold, standing.course).await,
            ProviderSubscriptionState::Pending | ProviderSubscriptionState::Failed => Ok(()),
        }
    }

    /// A subscription has ended at the provider.
    pub(super) async fn plan_ended(&self, of: &PlanReference) -> Result<Received, Error> {
        let Some(mut sold) = self.find_plan(of).await? else {
            return Ok(Received::Ignored);
        };
        if sold.course.is_none() {
            let refused = ProviderSubscriptionChange::Refused {
                reference: of.reference.clone(),
                why: "ended".to_owned(),
            };
            sold = self.note_plan(sold.id, refused).await?;
        }
        self.follow(&sold, Course::Ended).await?;
        Ok(Received::Plan)
    }

    /// A page will not be paid.
    pub(super) async fn plan_not_begun(&self, id: SubscriptionId, why: &str) -> Result<(), Error> {
        let found = self.storage.provider_subscriptions.get(id).await;
        found.map_err(Error::internal)?.ok_or_else(|| unknown(id))?;
        let why = why.to_owned();
        self.note_plan(id, ProviderSubscriptionChange::Failed { why })
            .await?;
        Ok(())
    }

    /// Has the subscription here do what the provider's does, where somebody has changed that there.
    async fn follow(&self, sold: &ProviderSubscription, course: Course) -> Result<(), Error> {
        if sold.course == Some(course) {
            return Ok(());
        }
        let id = sold.id;
        match (course, self.subscription(id).await?) {
            (Course::Renews, Some(_)) => {
                self.change(id, Change::Resume).await?;
            }
            (Course::Ends, Some(_)) => {
                self.change(id, Change::CancelAtPeriodEnd).await?;
            }
            (Course::Ended, Some(found)) if found.state == SubscriptionState::PastDue => {
                self.change(id, Change::Expire).await?;
            }
            (Course::Ended, Some(_)) => {
                self.change(id, Change::CancelAtPeriodEnd).await?;
                self.change(id, Change::Cancel).await?;
            }
            (_, None) => {}
        }
        self.note_plan(id, ProviderSubscriptionChange::Course(course))
            .await?;
        Ok(())
    }

    /// Renews, or ends, the subscriptions of this provider whose paid time is over, and tells it what it does not know. Several
    /// nodes may do so at once. A failure is logged and the next pass tries again.
    pub async fn look_after_plans(&self) {
        let (store, now) = (&self.storage.provider_subscriptions, self.clock.now());
        match store.due(now, PAGE).await {
            Ok(due) => {
                for sold in due {
                    if let Err(error) = self.look_after(&sold, now).await {
                        tracing::warn!(%error, subscription.id = %sold.id, "cannot see whether {} was paid", sold.id);
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for plans that the payment provider renews"),
        }
        match store.differing(PAGE).await {
            Ok(differing) => {
                for sold in differing {
                    self.try_to_tell(&sold).await;
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for what the payment provider has to hear"),
        }
    }

    /// What becomes of a subscription whose paid time is over. Before it is owed or ends the provider is asked: what it says by
    /// itself may have been lost.
    async fn look_after(&self, sold: &ProviderSubscription, now: Timestamp) -> Result<(), Error> {
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

    /// Tells the provider what becomes of a subscription, when a provider renews it. What it does not hear now it is told later.
    pub async fn tell_of_plan(&self, id: SubscriptionId) {
        match self.storage.provider_subscriptions.get(id).await {
            Ok(Some(sold)) => self.try_to_tell(&sold).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, subscription.id = %id, "cannot look for what pays {id}");
            }
        }
    }

    async fn try_to_tell(&self, sold: &ProviderSubscription) {
        if let Err(error) = self.tell(sold).await {
            let id = sold.id;
            tracing::warn!(%error, subscription.id = %id, "the payment provider was not told what becomes of {id}");
        }
    }

    async fn tell(&self, sold: &ProviderSubscription) -> Result<(), Error> {
        let found = self.subscription(sold.id).await?;
        let wanted = sold.wanted(found.as_ref());
        let (Some(reference), Some(known)) = (&sold.reference, sold.course) else {
            return Ok(());
        };
        if known == wanted || known == Course::Ended {
            return Ok(());
        }
        let does = self.provider.set_course(reference, wanted).await;
        match does.map_err(|error| unavailable(&error))? {
            does if does == wanted => {
                self.note_plan(sold.id, ProviderSubscriptionChange::Course(does))
                    .await?;
            }
            // It has ended there meanwhile.
            does => self.follow(sold, does).await?,
        }
        Ok(())
    }

    /// What was sold, by the provider's name of it; nothing for what somebody else sells at the same provider.
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
            tracing::error!(subscription.id = %id, reference, "{reference} is said to pay {id}, which another one pays");
            let message = "Another subscription of the payment provider pays this one.";
            return Err(Error::new(ErrorCode::Conflict, message));
        }
        Ok(Some(found))
    }

    async fn subscription(&self, id: SubscriptionId) -> Result<Option<Subscription>, Error> {
        let found = self.storage.subscriptions.get(id).await;
        found.map_err(Error::internal)
    }

    /// Changes a subscription; false when it is not such that it can be changed so.
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
                let message = "What was told of the subscription does not agree with what is known of it.";
                Error::new(ErrorCode::Conflict, message).with_source(error)
            }
            _ => Error::internal(error),
        })
    }
}

/// The provider tells it again: what it speaks of may come to be known.
fn unknown(id: SubscriptionId) -> Error {
    tracing::error!(subscription.id = %id, "the payment provider speaks of {id}, which nobody asked for here");
    Error::new(ErrorCode::NotFound, "There is no such subscription.")
}
