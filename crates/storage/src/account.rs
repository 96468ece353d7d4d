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
    /// State of the account, which determines whether its keys work.
    pub state: AccountState,
    /// Limits of this account; `None` where the configured default applies.
    pub limits: Limits,
    /// Offset of the account's test clock, which is ahead of real time; `None` for an account
    /// without a test clock.
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

    /// Returns a `Conflict` error if the account is closed.
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
    /// Whether the account is active, so that its keys work.
    pub is_active: bool,
    /// Number of holds of running calls.
    pub calls: u64,
    /// Number of jobs and batches that have not ended.
    pub jobs: u64,
    /// Number of subscriptions that are active or past due.
    pub subscriptions: u64,
}

impl CloseBlockers {
    /// Whether nothing prevents the account from being closed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Outcome of an attempt to close an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The account is closed.
    Closed(Account),
    /// The account was not changed; these reasons prevent it.
    Refused(CloseBlockers),
}

/// State of an account, which determines whether its keys work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// The account's keys work.
    Active,
    /// The account's keys do not work: requests fail with 401 `invalid_api_key`.
    Suspended,
    /// The account's keys are revoked and its personal data is removed; only its ledger, its usage
    /// rows and its entries in the audit log remain.
    Closed,
}

impl AccountState {
    /// Returns the name used in storage.
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

/// Limits of an account; `None` where the configured default applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    /// Maximum number of requests per minute.
    pub rpm: Option<u32>,
    /// Maximum number of tokens per minute.
    pub tpm: Option<u64>,
    /// Maximum number of keys that are not revoked.
    pub keys: Option<u32>,
    /// Maximum number of GPUs in use simultaneously.
    pub gpus: Option<u32>,
    /// Maximum number of hosted agents.
    pub agents: Option<u32>,
    /// Maximum number of saved chats.
    pub chats: Option<u32>,
    /// Maximum number of stored files.
    pub files: Option<u32>,
    /// Maximum total size of all stored files, in GiB.
    pub files_gib: Option<u32>,
    /// Maximum number of tokens that all unfinished batches may consume together.
    pub batch_tokens: Option<u64>,
}

/// A change to an account; `None` leaves a field unchanged. `Some(None)` removes a limit, so that
/// the default applies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AccountChange {
    /// New name shown to operators.
    pub name: Option<String>,
    /// New state: active, suspended or closed.
    pub state: Option<AccountState>,
    /// Maximum number of requests per minute.
    pub rpm: Option<Option<u32>>,
    /// Maximum number of tokens per minute.
    pub tpm: Option<Option<u64>>,
    /// Maximum number of keys that are not revoked.
    pub keys: Option<Option<u32>>,
    /// Maximum number of GPUs in use simultaneously.
    pub gpus: Option<Option<u32>>,
    /// Maximum number of hosted agents.
    pub agents: Option<Option<u32>>,
    /// Maximum number of saved chats.
    pub chats: Option<Option<u32>>,
    /// Maximum number of stored files.
    pub files: Option<Option<u32>>,
    /// Maximum total size of all stored files, in GiB.
    pub files_gib: Option<Option<u32>>,
    /// Maximum number of tokens that all unfinished batches may consume together.
    pub batch_tokens: Option<Option<u64>>,
    /// New offset of the test clock. Has no effect if the offset is smaller than the current one or
    /// the account has no test clock.
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
    /// Creates the account with an empty ledger. `Conflict` if the id exists.
    async fn create(&self, account: Account) -> Result<()>;

    /// Returns the account; `None` if it does not exist.
    async fn get(&self, id: AccountId) -> Result<Option<Account>>;

    /// Lists up to `limit` accounts with an id greater than `after`, sorted by id.
    async fn list(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<Account>>;

    /// Lists the accounts that have a test clock, sorted by id.
    async fn with_test_clocks(&self) -> Result<Vec<Account>>;

    /// Changes the account. Concurrent changes are applied one after another, so that none is lost.
    /// `NotFound` if the account does not exist, `Conflict` if it is closed.
    async fn change(&self, id: AccountId, change: AccountChange) -> Result<AccountChanged>;

    /// Closes a suspended account without running calls, jobs and subscriptions: revokes its keys
    /// and removes its name, members, alerts, notices, stored responses, jobs, files, media,
    /// calibrations, chats and notes. Ledger, usage rows and the audit log remain. Closing a closed
    /// account again removes data written since. `NotFound` if the account does not exist.
    async fn close_account(&self, id: AccountId, at: Timestamp) -> Result<CloseOutcome>;
}
