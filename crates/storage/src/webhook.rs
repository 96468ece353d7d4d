//! Who is told that a job has ended, and what their posts are signed with.
//!
//! A delivery is due because its job has ended and names an address, not because somebody noted it: there is no moment in which
//! a process could die and the delivery be lost.

use async_trait::async_trait;
use tollgate_types::{AccountId, JobId, Timestamp};

use crate::{Job, NoticeState, Result};

/// What becomes of a delivery.
pub type DeliveryState = NoticeState;

/// What became of telling that a job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Whether it has arrived.
    pub state: DeliveryState,
    /// How often it was sent, or is being sent.
    pub attempts: u32,
    /// When it is to be sent once its job has ended, or sent again should nobody tell what became of it.
    pub due_at: Timestamp,
    /// Why it did not arrive when it was sent last.
    pub failure: Option<String>,
    /// When it arrived.
    pub delivered_at: Option<Timestamp>,
}

/// A delivery that is to be made. Nobody else makes it before the lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedDelivery {
    /// The job that has ended.
    pub job: Job,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// What can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// The time.
    pub now: Timestamp,
    /// Until when the leases are.
    pub until: Timestamp,
    /// How many.
    pub limit: u32,
    /// How many of one account are leased at once.
    pub per_account: u32,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It has arrived.
    Delivered {
        /// When.
        at: Timestamp,
    },
    /// It has not, and is sent again.
    Again {
        /// When.
        due_at: Timestamp,
        /// Why it has not.
        why: String,
    },
    /// It has not and is given up.
    Failed {
        /// Why.
        why: String,
    },
}

/// Keeps who is still to be told that a job has ended. Every method is atomic.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Leases what is due: the next of everybody before the second of anybody, counting what is leased. Each counts as one
    /// attempt more.
    async fn claim(&self, claim: DeliveryClaim) -> Result<Vec<LeasedDelivery>>;

    /// Notes how an attempt ended. Nothing is changed when there was a later one, or it had ended before.
    async fn finish(&self, leased: &LeasedDelivery, outcome: DeliveryOutcome) -> Result<()>;

    /// What became of telling that a job has ended; none when there is no such job, or it tells nobody.
    async fn delivery(&self, account: AccountId, job: JobId) -> Result<Option<Delivery>>;

    /// The number of the secret that an account's posts are signed with, from 1.
    async fn secret(&self, account: AccountId) -> Result<u32>;

    /// Has an account's posts signed with another secret from now on; answers its number. `NotFound` when there is no such
    /// account.
    async fn renew_secret(&self, account: AccountId) -> Result<u32>;
}
