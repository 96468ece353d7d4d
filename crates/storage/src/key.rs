//! API keys. Only a keyed digest of a key is stored.

use async_trait::async_trait;
use tollgate_types::{AccountId, KeyId, Timestamp};

use crate::Result;
use crate::account::Account;

/// HMAC-SHA-256 of a key under the installation's pepper.
pub type KeyDigest = [u8; 32];

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Id.
    pub id: KeyId,
    /// Owner.
    pub account: AccountId,
    /// Name given by the owner.
    pub name: String,
    /// Digest of the key.
    pub digest: KeyDigest,
    /// The last four characters, so that people can tell keys apart.
    pub last4: String,
    /// What it may reach.
    pub mode: KeyMode,
    /// What becomes of what a model cannot do.
    pub compat: Compat,
    /// Whether pictures are waited for, unless the request says otherwise.
    pub sync: bool,
    /// Whether it works. Expiry is not a state: it is `expires_at` in the past.
    pub state: KeyState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops to work, if ever.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// What a key may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMode {
    /// Everything.
    Live,
    /// Simulator models only; spends nothing.
    Test,
}

impl KeyMode {
    /// The name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            KeyMode::Live => "live",
            KeyMode::Test => "test",
        }
    }

    /// The mode with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [KeyMode::Live, KeyMode::Test]
            .into_iter()
            .find(|mode| mode.as_str() == name)
    }
}

/// What becomes of parts of a request that change nothing about what the caller's own tools and texts mean, and that the
/// model cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// The request is refused.
    #[default]
    Strict,
    /// They are left out, and named.
    Lenient,
}

impl Compat {
    /// The name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Compat::Strict => "strict",
            Compat::Lenient => "lenient",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Compat::Strict, Compat::Lenient]
            .into_iter()
            .find(|compat| compat.as_str() == name)
    }
}

/// Whether a key works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It does.
    Active,
    /// It was revoked, for ever.
    Revoked,
}

impl KeyState {
    /// The name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            KeyState::Active => "active",
            KeyState::Revoked => "revoked",
        }
    }

    /// The state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [KeyState::Active, KeyState::Revoked]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// What of a key is to be another. What is not said stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyChange {
    /// [`Key::compat`].
    pub compat: Option<Compat>,
    /// [`Key::sync`].
    pub sync: Option<bool>,
}

/// A key to be stored, and how many active keys its account may have.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The key.
    pub key: Key,
    /// Most keys of the account that are not revoked, this one included, where the account has no limit of its own.
    pub quota: u32,
}

/// A key with the account that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOwner {
    /// The key.
    pub key: Key,
    /// Its account.
    pub account: Account,
}

/// Stores keys.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Stores the key. `NotFound` when the account does not exist; `Conflict` when the account has its quota of
    /// keys that are not revoked, counted in the same atomic step.
    async fn create(&self, new: NewKey) -> Result<()>;

    /// The key whose digest has these first 16 bytes, with its account, whatever their states. The caller compares
    /// the whole digest in constant time.
    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<KeyOwner>>;

    /// Keys of an account in order of id.
    async fn list(&self, account: AccountId) -> Result<Vec<Key>>;

    /// Changes the key, whatever its state, and answers it. `NotFound` when there is no such key.
    async fn change(&self, id: KeyId, change: KeyChange) -> Result<Key>;

    /// Revokes the key and answers it; the time of the first revocation stays. `NotFound` when there is no such key.
    async fn revoke(&self, id: KeyId, at: Timestamp) -> Result<Key>;
}
