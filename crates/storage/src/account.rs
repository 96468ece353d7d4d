//! Accounts: the tenants of the gateway.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, Timestamp};

use crate::{Result, StorageError, StorageErrorKind};

/// A tenant: the owner of keys, balance and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Unique id of the account.
    pub id: AccountId,
    /// Name shown to operators; not unique.
    pub name: String,
    /// Whether its keys work, or it is suspended or closed.
    pub state: AccountState,
    /// Limits of this account; `None` where the configured default applies.
    pub limits: Limits,
    /// How far its test clock is ahead; `None` for an account without a test clock.
    pub test_clock: Option<Duration>,
    /// Time when the account was created.
    pub created_at: Timestamp,
}

impl Account {
    /// Converts an instant to the time of the account's test clock, which its plan, lots and calls
    /// use.
    pub fn time(&self, at: Timestamp) -> Timestamp {
        at.plus(self.test_clock.unwrap_or_default())
    }

    /// Returns `Conflict` if the account is closed.
    pub fn refuse_closed(&self) -> Result<()> {
        match self.state {
            AccountState::Closed => Err(StorageError::new(
                StorageErrorKind::Conflict,
                "the account is closed",
            )),
            AccountState::Active | AccountState::Suspended => Ok(()),
        }
    }
}

/// Reasons that prevent an account from being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CloseBlockers {
    /// Whether its keys still work.
    pub is_active: bool,
    /// Holds of running calls.
    pub calls: u64,
    /// Jobs and batches that have not ended.
    pub jobs: u64,
    /// Subscriptions that are active or past due.
    pub subscriptions: u64,
}

impl CloseBlockers {
    /// Whether nothing prevents the account from being closed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The outcome of an attempt to close an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The account is closed.
    Closed(Account),
    /// The account was not changed; these reasons prevent it.
    Refused(CloseBlockers),
}

/// State of an account: whether its keys work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// Its keys work.
    Active,
    /// They answer 401 `invalid_api_key`.
    Suspended,
    /// Its keys are revoked and its personal data is removed; only its ledger and usage rows are
    /// left.
    Closed,
}

impl AccountState {
    /// Name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            AccountState::Active => "active",
            AccountState::Suspended => "suspended",
            AccountState::Closed => "closed",
        }
    }

    /// Parses the name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        [
            AccountState::Active,
            AccountState::Suspended,
            AccountState::Closed,
        ]
        .into_iter()
        .find(|state| state.as_str() == name)
    }
}

/// Limits of an account; `None` where the default applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    /// Requests per minute.
    pub rpm: Option<u32>,
    /// Tokens per minute.
    pub tpm: Option<u64>,
    /// Keys that are not revoked.
    pub keys: Option<u32>,
    /// GPUs that may be in use simultaneously.
    pub gpus: Option<u32>,
    /// Maximum number of hosted agents.
    pub agents: Option<u32>,
    /// Maximum number of saved chats.
    pub chats: Option<u32>,
    /// Maximum number of stored files.
    pub files: Option<u32>,
    /// GiB of all stored files together.
    pub files_gib: Option<u32>,
    /// Tokens that its unfinished batches may consume together.
    pub batch_tokens: Option<u64>,
}

/// A change of an account; `None` leaves a field unchanged. A limit of `Some(None)` is removed, so
/// that the default applies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AccountChange {
    /// New name shown to operators.
    pub name: Option<String>,
    /// New state: active, suspended or closed.
    pub state: Option<AccountState>,
    /// Requests per minute.
    pub rpm: Option<Option<u32>>,
    /// Tokens per minute.
    pub tpm: Option<Option<u64>>,
    /// Keys that are not revoked.
    pub keys: Option<Option<u32>>,
    /// GPUs that may be in use simultaneously.
    pub gpus: Option<Option<u32>>,
    /// Maximum number of hosted agents.
    pub agents: Option<Option<u32>>,
    /// Maximum number of saved chats.
    pub chats: Option<Option<u32>>,
    /// Maximum number of stored files.
    pub files: Option<Option<u32>>,
    /// GiB of all stored files together.
    pub files_gib: Option<Option<u32>>,
    /// Tokens that its unfinished batches may consume together.
    pub batch_tokens: Option<Option<u64>>,
    /// How far its test clock is ahead. A test clock never moves back, and an account without one
    /// gets none.
    pub test_clock: Option<Duration>,
}

impl AccountChange {
    /// Returns the account with the change applied.
    pub fn apply(self, account: &Account) -> Account {
        let limits = account.limits;
        Account {
            name: self.name.unwrap_or_else(|| account.name.clone()),
            state: self.state.unwrap_or(account.state),
            limits: Limits {
                rpm: self.rpm.unwrap_or(limits.rpm),
                tpm: self.tpm.unwrap_or(limits.tpm),
                keys: self.keys.unwrap_or(limits.keys),
                gpus: self.gpus.unwrap_or(limits.gpus),
                agents: self.agents.unwrap_or(limits.agents),
                chats: self.chats.unwrap_or(limits.chats),
                files: self.files.unwrap_or(limits.files),
                files_gib: self.files_gib.unwrap_or(limits.files_gib),
                batch_tokens: self.batch_tokens.unwrap_or(limits.batch_tokens),
            },
            test_clock: account
                .test_clock
                .map(|ahead| ahead.max(self.test_clock.unwrap_or_default())),
            ..account.clone()
        }
    }
}

/// An account before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountChanged {
    /// The account before the change.
    pub before: Account,
    /// The account after the change.
    pub after: Account,
}

/// Stores accounts and their limits.
#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Creates the account with an empty ledger. `Conflict` when the id exists.
    async fn create(&self, account: Account) -> Result<()>;

    /// Returns the account; `None` if it does not exist.
    async fn get(&self, id: AccountId) -> Result<Option<Account>>;

    /// Lists accounts in order of id, after `after`, at most `limit`.
    async fn list(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<Account>>;

    /// Lists the accounts that have a test clock, in order of id.
    async fn with_test_clocks(&self) -> Result<Vec<Account>>;

    /// Changes the account. Concurrent changes are applied one after another, so none is lost.
    /// `NotFound` when the account does not exist, `Conflict` when it is closed.
    async fn change(&self, id: AccountId, change: AccountChange) -> Result<AccountChanged>;

    /// Closes a suspended account without calls, jobs and subscriptions: revokes its keys and
    /// removes its name, members, alerts, notices, stored answers, jobs, files, media, calibrations
    /// and notes. Ledger, usage rows and the audit log stay. Closing a closed account again removes
    /// data written since. `NotFound` when the account does not exist.
    async fn close_account(&self, id: AccountId, at: Timestamp) -> Result<CloseOutcome>;
}
