//! Notices: webhooks and e-mails to accounts, such as a low balance alert. A notice is stored
//! first, and sent until it arrives or is given up.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, NoticeId, Timestamp};

use crate::{CLOCK_TOLERANCE, Result};

/// The low balance alert of an account, with its recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceAlert {
    /// Account that the alert belongs to.
    pub account: AccountId,
    /// Threshold: the balance is low when fewer credits can be spent.
    pub below: Credits,
    /// Webhook address for a signed POST.
    pub webhook: Option<String>,
    /// E-mail address of the recipient.
    pub email: Option<String>,
    /// Whether the balance was low at the last check. One alert is sent until the balance recovers.
    pub is_low: bool,
}

/// Transport of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A signed HTTP POST.
    Webhook,
    /// An e-mail over SMTP.
    Email,
}

impl Channel {
    /// Name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Channel::Webhook => "webhook",
            Channel::Email => "email",
        }
    }

    /// Parses the name.
    pub fn parse(name: &str) -> Option<Self> {
        [Channel::Webhook, Channel::Email]
            .into_iter()
            .find(|channel| channel.as_str() == name)
    }
}

/// Maximum wait before a webhook or a notice is sent again.
pub const MAX_RETRY_WAIT: Duration = Duration::from_hours(27);

/// Returns the latest valid due time of a webhook or a notice. A later one was written while the
/// clock was ahead: it is due now.
pub fn latest_retry(now: Timestamp) -> Timestamp {
    now.plus(MAX_RETRY_WAIT + CLOCK_TOLERANCE)
}

/// State of a notice or webhook delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeState {
    /// It has to be sent, or sent again.
    Pending,
    /// The recipient accepted it.
    Delivered,
    /// It was given up after its last attempt.
    Failed,
}

impl NoticeState {
    /// Name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            NoticeState::Pending => "pending",
            NoticeState::Delivered => "delivered",
            NoticeState::Failed => "failed",
        }
    }

    /// Parses the name.
    pub fn parse(name: &str) -> Option<Self> {
        [NoticeState::Pending, NoticeState::Delivered, NoticeState::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A message to an account by webhook or e-mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Unique id, the same for each attempt.
    pub id: NoticeId,
    /// Account that receives the notice.
    pub account: AccountId,
    /// Transport of the notice.
    pub channel: Channel,
    /// Webhook address or e-mail address.
    pub address: String,
    /// Content, as JSON.
    pub body: String,
    /// State of the delivery.
    pub state: NoticeState,
    /// Number of attempts, including one in progress.
    pub attempts: u32,
    /// Time of the next attempt. During an attempt: time when it is repeated if its outcome is not
    /// recorded.
    pub due_at: Timestamp,
    /// Reason why the last attempt failed.
    pub failure: Option<String>,
    /// Time when the notice was created.
    pub created_at: Timestamp,
}

/// Outcome of an attempt to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeOutcome {
    /// The recipient accepted it.
    Delivered,
    /// The attempt failed and is repeated.
    Retry {
        /// Time of the next attempt.
        due_at: Timestamp,
        /// Reason of the failure.
        why: String,
    },
    /// The attempt failed and the notice is given up.
    Failed {
        /// Reason of the failure.
        why: String,
    },
}

impl NoticeOutcome {
    /// Returns the new state, the failure, and the time of the next attempt.
    pub fn parts(self, due_at: Timestamp) -> (NoticeState, Option<String>, Timestamp) {
        match self {
            NoticeOutcome::Delivered => (NoticeState::Delivered, None, due_at),
            NoticeOutcome::Retry { due_at, why } => (NoticeState::Pending, Some(why), due_at),
            NoticeOutcome::Failed { why } => (NoticeState::Failed, Some(why), due_at),
        }
    }
}

/// Stores balance alerts and notices.
#[async_trait]
pub trait NoticeStore: Send + Sync {
    /// Sets or removes the low balance alert of an account. `NotFound` when the account does not
    /// exist.
    async fn set_alert(&self, account: AccountId, alert: Option<BalanceAlert>) -> Result<()>;

    /// Returns the low balance alert of an account.
    async fn alert(&self, account: AccountId) -> Result<Option<BalanceAlert>>;

    /// Lists all alerts in order of account, after `after`, at most `limit`.
    async fn alerts(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<BalanceAlert>>;

    /// Records whether a balance is low, together with the notices to send; returns whether that is
    /// new. If several nodes record the same, only one of them gets `true`.
    async fn note_low(&self, account: AccountId, is_low: bool, notices: Vec<Notice>) -> Result<bool>;

    /// Leases due notices until `until`, oldest first, at most `limit`. Each lease counts as an
    /// attempt.
    async fn claim(&self, now: Timestamp, until: Timestamp, limit: u32) -> Result<Vec<Notice>>;

    /// Records the outcome of the notice's current attempt; a later attempt is not changed.
    async fn finish(&self, notice: &Notice, outcome: NoticeOutcome) -> Result<()>;

    /// Lists the notices of an account, newest first, at most `limit`.
    async fn list(&self, account: AccountId, limit: u32) -> Result<Vec<Notice>>;

    /// Deletes delivered and failed notices that were created before this time, at most `limit`;
    /// returns how many.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64>;
}
