//! Tenants.

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
    /// When it was created.
    pub created_at: Timestamp,
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

    /// Replaces the account's limits. `NotFound` when there is no such account.
    async fn set_limits(&self, id: AccountId, limits: Limits) -> Result<()>;

    /// Sets whether the account's keys work. `NotFound` when there is no such account.
    async fn set_state(&self, id: AccountId, state: AccountState) -> Result<()>;
}
