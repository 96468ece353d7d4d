//! Tenants.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, Timestamp};

use crate::Result;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Id.
    pub id: AccountId,
    /// Name shown to operators; not unique.
    pub name: String,
    /// Whether its keys work.
    pub state: AccountState,
    /// Its own limits; `None` where the configured default applies.
    pub limits: Limits,
    /// How far its test clock is ahead; `None` for an account that has none and goes by the time that it is.
    pub test_clock: Option<Duration>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Account {
    /// The time that this instant is for what the account pays and has: its plan, its lots, its calls.
    pub fn time(&self, at: Timestamp) -> Timestamp {
        at.plus(self.test_clock.unwrap_or_default())
    }
}

/// Whether an account's keys work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// They do.
    Active,
    /// They answer 401 `invalid_api_key`.
    Suspended,
}

impl AccountState {
    /// The name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            AccountState::Active => "active",
            AccountState::Suspended => "suspended",
        }
    }

    /// The state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [AccountState::Active, AccountState::Suspended]
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
    /// GPUs at once.
    pub gpus: Option<u32>,
    /// Hosted agents.
    pub agents: Option<u32>,
    /// Saved chats.
    pub chats: Option<u32>,
    /// Files that are kept.
    pub files: Option<u32>,
    /// GiB of all of them together.
    pub files_gib: Option<u32>,
    /// Tokens that its unfinished batches may consume together.
    pub batch_tokens: Option<u64>,
}

/// What becomes of an account; what is not said stays. A limit of `Some(None)` is taken away, so that the default applies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AccountChange {
    /// Its name.
    pub name: Option<String>,
    /// Whether its keys work.
    pub state: Option<AccountState>,
    /// Requests per minute.
    pub rpm: Option<Option<u32>>,
    /// Tokens per minute.
    pub tpm: Option<Option<u64>>,
    /// Keys that are not revoked.
    pub keys: Option<Option<u32>>,
    /// GPUs at once.
    pub gpus: Option<Option<u32>>,
    /// Hosted agents.
    pub agents: Option<Option<u32>>,
    /// Saved chats.
    pub chats: Option<Option<u32>>,
    /// Files that are kept.
    pub files: Option<Option<u32>>,
    /// GiB of all of them together.
    pub files_gib: Option<Option<u32>>,
    /// Tokens that its unfinished batches may consume together.
    pub batch_tokens: Option<Option<u64>>,
    /// How far its test clock is ahead. One that is further ahead stays; an account that has none gets none.
    pub test_clock: Option<Duration>,
}

impl AccountChange {
    /// The account as it is afterwards.
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
    /// As it was.
    pub before: Account,
    /// As it is.
    pub after: Account,
}

/// Stores accounts.
#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Creates the account with its empty books. `Conflict` when the id exists.
    async fn create(&self, account: Account) -> Result<()>;

    /// The account; `None` when there is none.
    async fn get(&self, id: AccountId) -> Result<Option<Account>>;

    /// Accounts in order of id, after `after`, at most `limit`.
    async fn list(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<Account>>;

    /// Accounts that have a test clock, in order of id.
    async fn with_test_clocks(&self) -> Result<Vec<Account>>;

    /// Changes the account. Changes at once do not undo one another: each is of the account that the one before has left.
    /// `NotFound` when there is no such account.
    async fn change(&self, id: AccountId, change: AccountChange) -> Result<AccountChanged>;
}
