//! What accounts are told, such as that a balance is low: written down first, and sent until it arrives or is given up.

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, NoticeId, Timestamp};

use crate::Result;

/// When an account is told that its balance is low, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceAlert {
    /// Whose.
    pub account: AccountId,
    /// It is low when less than this can be spent.
    pub below: Credits,
    /// An address that is posted to.
    pub webhook: Option<String>,
    /// A mailbox.
    pub email: Option<String>,
    /// Whether it was low when it was looked at last: it is told once, until it was not low again.
    pub is_low: bool,
}

/// How something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// By a signed POST.
    Webhook,
    /// By a mail.
    Email,
}

impl Channel {
    /// The name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Channel::Webhook => "webhook",
            Channel::Email => "email",
        }
    }

    /// The channel with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Channel::Webhook, Channel::Email]
            .into_iter()
            .find(|channel| channel.as_str() == name)
    }
}

/// What became of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeState {
    /// It is to be sent.
    Pending,
    /// It has arrived.
    Delivered,
    /// It was given up.
    Failed,
}

impl NoticeState {
    /// The name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            NoticeState::Pending => "pending",
            NoticeState::Delivered => "delivered",
            NoticeState::Failed => "failed",
        }
    }

    /// The state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [NoticeState::Pending, NoticeState::Delivered, NoticeState::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// Something that an account is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Id; the same whenever it is sent.
    pub id: NoticeId,
    /// Whom.
    pub account: AccountId,
    /// How.
    pub channel: Channel,
    /// Where.
    pub address: String,
    /// What, as JSON.
    pub body: String,
    /// What became of it.
    pub state: NoticeState,
    /// How often it was sent, or is being sent.
    pub attempts: u32,
    /// When it is to be sent, or sent again should nobody tell what became of it.
    pub due_at: Timestamp,
    /// Why it did not arrive when it was sent last.
    pub failure: Option<String>,
    /// When it came up.
    pub created_at: Timestamp,
}

/// How an attempt at sending ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeOutcome {
    /// It has arrived.
    Delivered,
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

impl NoticeOutcome {
    /// The state after it, why it did not arrive, and when it is sent again.
    pub fn parts(self, due_at: Timestamp) -> (NoticeState, Option<String>, Timestamp) {
        match self {
            NoticeOutcome::Delivered => (NoticeState::Delivered, None, due_at),
            NoticeOutcome::Again { due_at, why } => (NoticeState::Pending, Some(why), due_at),
            NoticeOutcome::Failed { why } => (NoticeState::Failed, Some(why), due_at),
        }
    }
}

/// Stores who is to be told what, and what is still to be sent.
#[async_trait]
pub trait NoticeStore: Send + Sync {
    /// Sets when an account is told that its balance is low, or that it is not. `NotFound` when there is no such account.
    async fn set_alert(&self, account: AccountId, alert: Option<BalanceAlert>) -> Result<()>;

    /// When an account is told that its balance is low.
    async fn alert(&self, account: AccountId) -> Result<Option<BalanceAlert>>;

    /// Every alert in order of account, after `after`, at most `limit`.
    async fn alerts(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<BalanceAlert>>;

    /// Notes whether a balance is low, with what is to be sent for it; whether that was not noted before. Of several nodes
    /// that see the same, one notes it.
    async fn note_low(&self, account: AccountId, is_low: bool, notices: Vec<Notice>) -> Result<bool>;

    /// Takes what is due, the oldest first and at most so much: to nobody else it is due before `until`. Each counts as
    /// one attempt more.
    async fn claim(&self, now: Timestamp, until: Timestamp, limit: u32) -> Result<Vec<Notice>>;

    /// Notes how the attempt of this number at sending a notice ended; a later attempt is not touched.
    async fn finish(&self, notice: &Notice, outcome: NoticeOutcome) -> Result<()>;

    /// What an account was told, newest first, at most `limit`.
    async fn list(&self, account: AccountId, limit: u32) -> Result<Vec<Notice>>;

    /// Deletes what was delivered or given up and came up before an instant, at most so much; how much there was.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64>;
}
