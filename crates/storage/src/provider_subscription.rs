//! Subscriptions that a payment provider renews: the request to the provider, the link to its
//! subscription, and its last reported renewal state. The local subscription has the period, the
//! week and the overdue payments.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, Money, RenewalState, SubscriptionId, Timestamp};

use crate::subscription::names;
use crate::{Cadence, Result, StorageError, StorageErrorKind, Subscription};

names! {
    /// State of a subscription at a payment provider.
    ProviderSubscriptionState {
        /// The first payment is outstanding.
        Pending = "pending",
        /// The provider's subscription pays for the local one.
        Started = "begun",
        /// The subscription has not started: it was not paid, or the account had another plan when
        /// it was paid. A later payment can still start a subscription that was not paid.
        Failed = "failed",
    }
}

/// A subscription at a payment provider. It is stored before the provider receives the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSubscription {
    /// Id of the local subscription that the provider's subscription pays for.
    pub id: SubscriptionId,
    /// Account that pays for the plan.
    pub account: AccountId,
    /// Name of the payment provider.
    pub provider: String,
    /// Name of the plan in the settings.
    pub plan: Arc<str>,
    /// Price of a period, in credits.
    pub price: Credits,
    /// Length of a period.
    pub cadence: Cadence,
    /// Weekly allowance of the plan.
    pub allowance: Credits,
    /// Amount that the provider charges for a period.
    pub money: Money,
    /// State of the provider's subscription.
    pub state: ProviderSubscriptionState,
    /// Provider's id of the checkout page for the first payment.
    pub checkout: Option<String>,
    /// Provider's id of the subscription.
    pub reference: Option<String>,
    /// Last known renewal state of the provider's subscription; `None` while the provider has none.
    pub course: Option<RenewalState>,
    /// Provider's id of the invoice of the last paid period.
    pub invoice: Option<String>,
    /// Reason of the failure, if the subscription has failed.
    pub failure: Option<String>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A change to a subscription at a payment provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderSubscriptionChange {
    /// The checkout page was created.
    Opened {
        /// Provider's id of the checkout page.
        checkout: String,
    },
    /// A period was paid, and the provider continues to renew the subscription.
    Paid {
        /// Provider's id of the subscription.
        reference: String,
        /// Provider's id of the invoice.
        invoice: String,
    },
    /// The subscription was paid but cannot start: the provider must end it.
    Refused {
        /// Provider's id of the subscription.
        reference: String,
        /// Short reason code.
        why: String,
    },
    /// The subscription will not be paid.
    Failed {
        /// Short reason code.
        why: String,
    },
    /// The provider reported this renewal state.
    RenewalState(RenewalState),
}

impl ProviderSubscription {
    /// Returns the subscription after a change. A repeated change has no effect. `Conflict` if the
    /// change is impossible, for example because another subscription of the provider already pays
    /// or the provider has no subscription whose renewal state could change.
    pub fn after(&self, change: ProviderSubscriptionChange, at: Timestamp) -> Result<Self> {
        use ProviderSubscriptionChange::{Failed, Opened, Paid, Refused, RenewalState as RenewalChanged};
        use ProviderSubscriptionState as State;
        let mut next = self.clone();
        let is_another = |reference: &str| self.reference.as_deref().is_some_and(|own| own != reference);
        match (self.state, change) {
            (_, Paid { reference, .. } | Refused { reference, .. }) if is_another(&reference) => {
                return Err(self.conflict("paid by another subscription"));
            }
            (State::Pending, Opened { checkout }) => next.checkout = Some(checkout),
            (State::Started, Paid { invoice, .. }) => next.invoice = Some(invoice),
            (State::Pending | State::Failed, Paid { reference, invoice }) if self.course.is_none() => {
                next.state = State::Started;
                (next.reference, next.invoice) = (Some(reference), Some(invoice));
                next.course = Some(RenewalState::Renews);
                next.failure = None;
            }
            (State::Pending | State::Failed, Refused { reference, why }) if self.course.is_none() => {
                next.state = State::Failed;
                (next.reference, next.failure) = (Some(reference), Some(why));
                next.course = Some(RenewalState::Renews);
            }
            (State::Failed, Refused { .. }) => {}
            (State::Pending | State::Failed, Failed { why }) => {
                next.state = State::Failed;
                next.failure = Some(why);
            }
            // A started subscription stays started, regardless of later reports about an earlier
            // attempt.
            (State::Started, Failed { .. }) => {}
            (_, RenewalChanged(course)) if self.course.is_some() => next.course = Some(course),
            _ => return Err(self.conflict("changed in this way")),
        }
        if next != *self {
            next.updated_at = at;
        }
        Ok(next)
    }

    /// Returns the renewal state that the provider should have, derived from the local
    /// subscription; `Ended` if there is none.
    pub fn desired_renewal(&self, subscription: Option<&Subscription>) -> RenewalState {
        match subscription {
            Some(found) if found.state.is_terminal() => RenewalState::Ended,
            Some(found) if found.cancel_at_period_end => RenewalState::Ends,
            Some(_) => RenewalState::Renews,
            None => RenewalState::Ended,
        }
    }

    fn conflict(&self, what: &str) -> StorageError {
        let why = format!("{} is {} and cannot be {what}", self.id, self.state.as_str());
        StorageError::new(StorageErrorKind::Conflict, why)
    }
}

/// Stores subscriptions at payment providers.
#[async_trait]
pub trait ProviderSubscriptionStore: Send + Sync {
    /// Stores a new subscription. `NotFound` if the account does not exist, `Conflict` if the id
    /// was used.
    async fn create(&self, new: ProviderSubscription) -> Result<()>;

    /// Returns the provider's subscription for the local subscription with this id; `None` if there
    /// is none.
    async fn get(&self, id: SubscriptionId) -> Result<Option<ProviderSubscription>>;

    /// Returns the subscription with this id at the provider; `None` if it does not exist.
    async fn by_reference(&self, reference: &str) -> Result<Option<ProviderSubscription>>;

    /// Lists the unpaid subscriptions of an account that have a checkout page, oldest first.
    async fn pending(&self, account: AccountId) -> Result<Vec<ProviderSubscription>>;

    /// Applies a change by [`ProviderSubscription::after`] and returns the result. `NotFound` if
    /// the subscription does not exist.
    async fn change(
        &self,
        id: SubscriptionId,
        change: ProviderSubscriptionChange,
        at: Timestamp,
    ) -> Result<ProviderSubscription>;

    /// Lists up to `limit` started subscriptions whose local subscription is active or past due
    /// after its paid time, longest overdue first.
    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<ProviderSubscription>>;

    /// Lists up to `limit` subscriptions whose last known renewal state differs from
    /// [`desired_renewal`](ProviderSubscription::desired_renewal), longest unchanged first.
    async fn out_of_sync(&self, limit: u32) -> Result<Vec<ProviderSubscription>>;
}
