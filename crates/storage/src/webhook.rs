//! Webhook deliveries for jobs that have ended, and the numbers of their signing secrets.
//!
//! A delivery is due because its job has ended and has a webhook address, not because of a separate
//! record. So a crash of the process cannot lose it.

use async_trait::async_trait;
use tollgate_types::{AccountId, JobId, Timestamp};

use crate::notice::latest_retry;
use crate::{Job, NoticeState, Result};

/// State of a delivery; the same states as those of a notice.
pub type DeliveryState = NoticeState;

/// Delivery of the notification that a job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Current state of the delivery.
    pub state: DeliveryState,
    /// Number of attempts, including one in progress.
    pub attempts: u32,
    /// Time of the next attempt, once the job has ended. During an attempt: time when it is
    /// repeated if its outcome is not recorded.
    pub due_at: Timestamp,
    /// Reason why the last attempt failed.
    pub failure: Option<String>,
    /// Time of arrival.
    pub delivered_at: Option<Timestamp>,
}

/// A delivery to be made by the caller. No other process makes it before the lease expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedDelivery {
    /// The job that has ended.
    pub job: Job,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// Limits for leasing deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// Time of the claim: deliveries due by then are leased.
    pub now: Timestamp,
    /// Expiry of the leases.
    pub until: Timestamp,
    /// Maximum number of deliveries to lease.
    pub limit: u32,
    /// Maximum number of simultaneously leased deliveries of one account.
    pub per_account: u32,
}

impl DeliveryClaim {
    /// Returns the latest valid due time of a delivery. A later one was written while the clock was
    /// ahead: it is due now.
    pub fn latest_due(&self) -> Timestamp {
        latest_retry(self.now)
    }
}

/// Outcome of an attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The recipient accepted it.
    Delivered {
        /// Time of arrival.
        at: Timestamp,
    },
    /// The attempt failed and is repeated.
    Retry {
        /// Time of the next attempt.
        due_at: Timestamp,
        /// Reason of the failure.
        why: String,
    },
    /// The attempt failed and the delivery is given up.
    Failed {
        /// Reason of the failure.
        why: String,
    },
}

/// Stores the webhook deliveries of ended jobs. Every method is atomic.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Leases due deliveries, round-robin over the accounts, counting their existing leases. Each
    /// lease counts as an attempt.
    async fn claim(&self, claim: DeliveryClaim) -> Result<Vec<LeasedDelivery>>;

    /// Records the outcome of an attempt. Does nothing if there was a later attempt or the delivery
    /// had already ended.
    async fn finish(&self, leased: &LeasedDelivery, outcome: DeliveryOutcome) -> Result<()>;

    /// Returns the webhook delivery of a job; `None` if the job does not exist or has no webhook.
    async fn delivery(&self, account: AccountId, job: JobId) -> Result<Option<Delivery>>;

    /// Returns the number of the account's signing secret, from 1.
    async fn secret(&self, account: AccountId) -> Result<u32>;

    /// Rotates the account's signing secret, effective immediately; returns the new number.
    /// `NotFound` when the account does not exist.
    async fn renew_secret(&self, account: AccountId) -> Result<u32>;
}
