//! Subscriptions that a payment provider renews: what was asked of it, which of its subscriptions pays one of here, and what
//! it is known to do with that. The period, the week and what is owed are those of the subscription itself.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::{AccountId, Course, Credits, Money, SubscriptionId, Timestamp};

use crate::subscription::names;
use crate::{Cadence, Result, StorageError, StorageErrorKind, Subscription};

names! {
    /// How far one has come.
    ProviderSubscriptionState {
        /// Nothing was paid yet.
        Pending = "pending",
        /// The provider's subscription pays the one of here.
        Begun = "begun",
        /// Nothing begins: it was not paid, or there was another plan when it was.
        Failed = "failed",
    }
}

/// A subscription at a payment provider. It is written down before the provider hears of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSubscription {
    /// The id of the subscription that it pays, or is to pay.
    pub id: SubscriptionId,
    /// Whose.
    pub account: AccountId,
    /// The provider's name.
    pub provider: String,
    /// The name of the plan.
    pub plan: Arc<str>,
    /// What a period costs, in credits.
    pub price: Credits,
    /// How long a period is.
    pub cadence: Cadence,
    /// What a week includes.
    pub allowance: Credits,
    /// What the provider was asked to take for a period.
    pub money: Money,
    /// How far it has come.
    pub state: ProviderSubscriptionState,
    /// The provider's id of the page on which it is paid for first.
    pub checkout: Option<String>,
    /// The provider's id of the subscription.
    pub reference: Option<String>,
    /// What the provider is known to do when a period is over; nothing while it has no subscription.
    pub course: Option<Course>,
    /// The provider's id of the invoice that paid the last period.
    pub invoice: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
}

/// What becomes of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderSubscriptionChange {
    /// There is a page on which it is paid for.
    Opened {
        /// The provider's id of the page.
        checkout: String,
    },
    /// A period was paid, and the provider goes on.
    Paid {
        /// The provider's id of the subscription.
        reference: String,
        /// The provider's id of the invoice.
        invoice: String,
    },
    /// It was paid, and nothing can begin: the provider has to end it.
    Refused {
        /// The provider's id of the subscription.
        reference: String,
        /// A word for why.
        why: String,
    },
    /// It will not be paid.
    Failed {
        /// A word for why.
        why: String,
    },
    /// This is what the provider does.
    Course(Course),
}

impl ProviderSubscription {
    /// The subscription after a change. What it already says changes nothing. `Conflict` when it cannot be: what one
    /// subscription of the provider pays is not paid by another, and one that does not exist has no course.
    pub fn after(&self, change: ProviderSubscriptionChange, at: Timestamp) -> Result<Self> {
        use ProviderSubscriptionChange::{Course as Does, Failed, Opened, Paid, Refused};
        use ProviderSubscriptionState as State;
        let mut next = self.clone();
        let is_another = |reference: &str| self.reference.as_deref().is_some_and(|own| own != reference);
        match (self.state, change) {
            (_, Paid { reference, .. } | Refused { reference, .. }) if is_another(&reference) => {
                return Err(self.conflict("paid by another subscription"));
            }
            (State::Pending, Opened { checkout }) => next.checkout = Some(checkout),
            (State::Begun, Paid { invoice, .. }) => next.invoice = Some(invoice),
            (State::Pending | State::Failed, Paid { reference, invoice }) if self.course.is_none() => {
                next.state = State::Begun;
                (next.reference, next.invoice) = (Some(reference), Some(invoice));
                next.course = Some(Course::Renews);
                next.failure = None;
            }
            (State::Pending | State::Failed, Refused { reference, why }) if self.course.is_none() => {
                next.state = State::Failed;
                (next.reference, next.failure) = (Some(reference), Some(why));
                next.course = Some(Course::Renews);
            }
            (State::Failed, Refused { .. }) => {}
            (State::Pending | State::Failed, Failed { why }) => {
                next.state = State::Failed;
                next.failure = Some(why);
            }
            // What was begun stays so, whatever is said of an earlier attempt.
            (State::Begun, Failed { .. }) => {}
            (_, Does(course)) if self.course.is_some() => next.course = Some(course),
            _ => return Err(self.conflict("changed so")),
        }
        if next != *self {
            next.updated_at = at;
        }
        Ok(next)
    }

    /// What the provider is to do, by what became of the subscription here.
    pub fn wanted(&self, subscription: Option<&Subscription>) -> Course {
        match subscription {
            Some(found) if found.state.is_terminal() => Course::Ended,
            Some(found) if found.cancel_at_period_end => Course::Ends,
            Some(_) => Course::Renews,
            None => Course::Ended,
        }
    }

    fn conflict(&self, what: &str) -> StorageError {
        let why = format!("{} is {} and cannot be {what}", self.id, self.state.as_str());
        StorageError::new(StorageErrorKind::Conflict, why)
    }
}

/// Stores what payment providers renew.
#[async_trait]
pub trait ProviderSubscriptionStore: Send + Sync {
    /// Writes one down. `NotFound` when there is no such account, `Conflict` when the id was used.
    async fn create(&self, new: ProviderSubscription) -> Result<()>;

    /// The one that pays this subscription; `None` when there is none.
    async fn get(&self, id: SubscriptionId) -> Result<Option<ProviderSubscription>>;

    /// The one with the provider's id of its subscription.
    async fn by_reference(&self, reference: &str) -> Result<Option<ProviderSubscription>>;

    /// Those of an account that have a page and are not paid yet, oldest first.
    async fn pending(&self, account: AccountId) -> Result<Vec<ProviderSubscription>>;

    /// Changes one as [`ProviderSubscription::after`] says, and answers it. `NotFound` when there is none.
    async fn change(
        &self,
        id: SubscriptionId,
        change: ProviderSubscriptionChange,
        at: Timestamp,
    ) -> Result<ProviderSubscription>;

    /// Those that have begun and whose subscription is active or past due with its paid time over, those that are owed
    /// longest first.
    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<ProviderSubscription>>;

    /// Those of which the provider does something else than [`wanted`](ProviderSubscription::wanted), those that changed
    /// longest ago first.
    async fn differing(&self, limit: u32) -> Result<Vec<ProviderSubscription>>;
}
