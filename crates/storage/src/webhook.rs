//! Webhook deliveries for jobs that have ended, and the numbers of their signing secrets.
//!
//! A delivery is due because its job has ended and has a webhook URL; no separate record is needed.
//! A crash of the process therefore cannot lose a delivery.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::{AccountId, JobId, JobStatus, Timestamp};

use crate::notice::latest_retry;
use crate::{Job, NoticeState, Result};

/// State of a delivery: one of the states of a notice.
pub type DeliveryState = NoticeState;

/// Delivery of the webhook that reports the end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Current state of the delivery.
    pub state: DeliveryState,
    /// Number of attempts, including one in progress.
    pub attempts: u32,
    /// Time of the next attempt, after the job has ended. During an attempt: time of the next
    /// attempt if the outcome of this one is not recorded.
    pub due_at: Timestamp,
    /// Reason why the last attempt failed.
    pub failure: Option<String>,
    /// Time when the recipient accepted the delivery.
    pub delivered_at: Option<Timestamp>,
}

/// An ended job with a webhook, and the delivery of its webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDelivery {
    /// Id of the job.
    pub job: JobId,
    /// Kind of the job.
    pub kind: Arc<str>,
    /// Final status of the job.
    pub status: JobStatus,
    /// Time when the job ended.
    pub completed_at: Timestamp,
    /// Webhook URL, sealed by the caller of the store.
    pub webhook: Vec<u8>,
    /// Delivery of the webhook of this job.
    pub delivery: Delivery,
}

/// A delivery that the caller must attempt. No other process attempts it before the lease expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedDelivery {
    /// Job that has ended, with its webhook URL.
    pub job: Job,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// Limits for leasing deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// Time of the claim. Deliveries that are due at this time are leased.
    pub now: Timestamp,
    /// Time when the leases expire.
    pub until: Timestamp,
    /// Maximum number of deliveries to lease.
    pub limit: u32,
    /// Maximum number of simultaneously leased deliveries of one account.
    pub per_account: u32,
}

impl DeliveryClaim {
    /// Returns the latest valid due time of a delivery. A later due time was written while the
    /// clock was ahead: the delivery is due now.
    pub fn latest_due(&self) -> Timestamp {
        latest_retry(self.now)
    }
}

/// Outcome of an attempt to deliver a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The recipient accepted the delivery.
    Delivered {
        /// Time when the recipient accepted the delivery.
        at: Timestamp,
    },
    /// The attempt failed and will be repeated.
    Retry {
        /// Time of the next attempt.
        due_at: Timestamp,
        /// Reason of the failure.
        why: String,
    },
    /// The attempt failed and is the last one.
    Failed {
        /// Reason of the failure.
        why: String,
    },
}

/// Stores the webhook deliveries of ended jobs. Every method is atomic.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Leases due deliveries, round-robin over the accounts; existing leases of an account count.
    /// Each lease counts as an attempt.
    async fn claim(&self, claim: DeliveryClaim) -> Result<Vec<LeasedDelivery>>;

    /// Records the outcome of an attempt. If a later attempt exists or the delivery has ended, the
    /// call changes nothing.
    async fn finish(&self, leased: &LeasedDelivery, outcome: DeliveryOutcome) -> Result<()>;

    /// Returns the webhook delivery of a job; `None` if the job does not exist or has no webhook.
    async fn delivery(&self, account: AccountId, job: JobId) -> Result<Option<Delivery>>;

    /// Lists up to `limit` ended jobs of an account with webhooks, newest first, older than the job
    /// `before`.
    async fn list(&self, account: AccountId, before: Option<JobId>, limit: u32) -> Result<Vec<JobDelivery>>;

    /// Makes the delivery of an ended job due at `at`, also if it was delivered or has failed, and
    /// returns it. A delivery whose attempt is in progress does not change. `None` if the job does
    /// not exist, has no webhook or has not ended.
    async fn redeliver(&self, account: AccountId, job: JobId, at: Timestamp) -> Result<Option<JobDelivery>>;

    /// Returns the number of the account's signing secret, from 1.
    async fn secret(&self, account: AccountId) -> Result<u32>;

    /// Rotates the account's signing secret immediately and returns the new number. `NotFound` if
    /// the account does not exist.
    async fn renew_secret(&self, account: AccountId) -> Result<u32>;
}
