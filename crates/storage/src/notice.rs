//! Notices: webhooks and e-mails to accounts, such as low balance alerts. A notice is stored first,
//! and then sent until it is delivered or its last attempt has failed.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, NoticeId, Timestamp};

use crate::{CLOCK_TOLERANCE, Result};

/// The low balance alert of an account, with its recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceAlert {
    /// Account whose balance is checked.
    pub account: AccountId,
    /// Threshold: the balance is low if fewer credits can be spent.
    pub below: Credits,
    /// URL of the webhook, which receives a signed POST.
    pub webhook: Option<String>,
    /// E-mail address of the recipient.
    pub email: Option<String>,
    /// Whether the balance was low at the last check. After an alert, the next one is sent only
    /// after the balance has recovered.
    pub is_low: bool,
}

/// Transport of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A signed HTTP POST to a webhook.
    Webhook,
    /// An e-mail over SMTP.
    Email,
}

impl Channel {
    /// Returns the name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Channel::Webhook => "webhook",
            Channel::Email => "email",
        }
    }

    /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        [Channel::Webhook, Channel::Email]
            .into_iter()
            .find(|channel| channel.as_str() == name)
    }
}

/// Maximum delay before a webhook delivery or a notice is sent again.
pub const MAX_RETRY_WAIT: Duration = Duration::from_hours(27);

/// Returns the latest valid due time of a webhook delivery or a notice. A later due time was
/// written while the clock was ahead: the delivery is due now.
pub fn latest_retry(now: Timestamp) -> Timestamp {
    now.plus(MAX_RETRY_WAIT + CLOCK_TOLERANCE)
}

/// State of a notice or webhook delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeState {
    /// The notice is to be sent for the first time or again.
    Pending,
    /// The recipient accepted the notice.
    Delivered,
    /// The last attempt failed.
    Failed,
}

impl NoticeState {
    /// Returns the name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            NoticeState::Pending => "pending",
            NoticeState::Delivered => "delivered",
            NoticeState::Failed => "failed",
        }
    }

    /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        [NoticeState::Pending, NoticeState::Delivered, NoticeState::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A message to an account by webhook or e-mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Unique id, the same for all attempts.
    pub id: NoticeId,
    /// Account that receives the notice.
    pub account: AccountId,
    /// Transport of the notice.
    pub channel: Channel,
    /// URL of the webhook, or e-mail address.
    pub address: String,
    /// Content, as JSON.
    pub body: String,
    /// State of the delivery.
    pub state: NoticeState,
    /// Number of attempts, including one in progress.
    pub attempts: u32,
    /// Time of the next attempt. During an attempt: time of the next attempt if the outcome of this
    /// one is not recorded.
    pub due_at: Timestamp,
    /// Reason why the last attempt failed.
    pub failure: Option<String>,
    /// Time when the notice was created.
    pub created_at: Timestamp,
}

/// Outcome of an attempt to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeOutcome {
    /// The recipient accepted the notice.
    Delivered,
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

impl NoticeOutcome {
    /// Returns the new state, the failure, and the time of the next attempt, which is `due_at`
    /// unless the attempt will be repeated.
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
    /// Sets or removes the low balance alert of an account. `NotFound` if the account does not
    /// exist.
    async fn set_alert(&self, account: AccountId, alert: Option<BalanceAlert>) -> Result<()>;

    /// Returns the low balance alert of an account; `None` if it has none.
    async fn alert(&self, account: AccountId) -> Result<Option<BalanceAlert>>;

    /// Lists up to `limit` alerts of accounts with an id greater than `after`, sorted by account.
    async fn alerts(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<BalanceAlert>>;

    /// Records whether a balance is low, together with the notices to send; returns whether the
    /// value has changed. If several nodes record the same change, only one call returns `true`.
    async fn note_low(&self, account: AccountId, is_low: bool, notices: Vec<Notice>) -> Result<bool>;

    /// Leases up to `limit` due notices until `until`, oldest first. Each lease counts as an
    /// attempt.
    async fn claim(&self, now: Timestamp, until: Timestamp, limit: u32) -> Result<Vec<Notice>>;

    /// Records the outcome of the notice's current attempt. If a later attempt exists, the call
    /// changes nothing.
    async fn finish(&self, notice: &Notice, outcome: NoticeOutcome) -> Result<()>;

    /// Lists up to `limit` notices of an account, newest first.
    async fn list(&self, account: AccountId, limit: u32) -> Result<Vec<Notice>>;

    /// Deletes up to `limit` delivered and failed notices that were created before this time, and
    /// returns their number.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64>;
}
