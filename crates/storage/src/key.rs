//! API keys. Only a keyed digest of a key is stored.

use async_trait::async_trait;
use tollgate_types::{AccountId, KeyId, KeyRights, MemberId, ModelPatterns, Scopes, Timestamp};

use crate::Result;
use crate::account::Account;

/// HMAC-SHA-256 of a key under the installation's pepper.
pub type KeyDigest = [u8; 32];

/// A stored API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Unique id of the key.
    pub id: KeyId,
    /// Account that owns the key.
    pub account: AccountId,
    /// Name given by the owner.
    pub name: String,
    /// Digest of the secret.
    pub digest: KeyDigest,
    /// Last four characters of the secret, shown so that owners can distinguish their keys.
    pub last4: String,
    /// Models that the key may use.
    pub mode: KeyMode,
    /// Adaptation of requests to models that do not support a part of them.
    pub compat: Compat,
    /// Whether image requests wait for their result, unless the request specifies otherwise.
    pub sync: bool,
    /// Models and endpoints that the key may use.
    pub rights: KeyRights,
    /// Whether the key is active or revoked. Expiry is not a state; see [`Key::expires_at`].
    pub state: KeyState,
    /// Time when the key was created.
    pub created_at: Timestamp,
    /// Time when the key stops working; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// Time of the revocation, which is permanent.
    pub revoked_at: Option<Timestamp>,
    /// Member who created the key in the console; `None` for other keys. The member may no longer
    /// exist.
    pub created_by: Option<MemberId>,
    /// Key that replaces this one after a rotation. A replaced key does not count against the
    /// maximum number of keys; it works until it expires.
    pub replaced_by: Option<KeyId>,
}

impl Key {
    /// Whether another key can replace this one at the given time: it is active, not expired and
    /// not replaced.
    pub fn can_be_replaced(&self, at: Timestamp) -> bool {
        let is_expired = self.expires_at.is_some_and(|expires_at| expires_at <= at);
        self.state == KeyState::Active && !is_expired && self.replaced_by.is_none()
    }
}

/// Models that a key may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMode {
    /// All models; calls are charged.
    Live,
    /// Simulator models only; calls spend no credits.
    Test,
}

impl KeyMode {
    /// Returns the name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            KeyMode::Live => "live",
            KeyMode::Test => "test",
        }
    }

    /// Parses the name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        [KeyMode::Live, KeyMode::Test]
            .into_iter()
            .find(|mode| mode.as_str() == name)
    }
}

/// Adaptation of requests to models that do not support a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// Requests are not adapted: an unsupported part is an error.
    Strict,
    /// Instructions within the conversation become user turns, and unsupported parameters for
    /// temperature, `top_p`, parallel tool calls and reasoning are dropped. Any other unsupported
    /// part is an error.
    #[default]
    Standard,
    /// Like [`Standard`](Self::Standard), but hosted tools, unknown fields and unsupported optional
    /// fields are also dropped.
    Lenient,
}

impl Compat {
    /// Returns the name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Compat::Strict => "strict",
            Compat::Standard => "standard",
            Compat::Lenient => "lenient",
        }
    }

    /// Parses the name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        [Compat::Strict, Compat::Standard, Compat::Lenient]
            .into_iter()
            .find(|compat| compat.as_str() == name)
    }
}

/// Whether a key is active or revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The key works until it expires.
    Active,
    /// The key was revoked permanently.
    Revoked,
}

impl KeyState {
    /// Returns the name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            KeyState::Active => "active",
            KeyState::Revoked => "revoked",
        }
    }

    /// Parses the name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        [KeyState::Active, KeyState::Revoked]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A change to a key; `None` leaves a field unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeyChange {
    /// New value of [`Key::name`].
    pub name: Option<String>,
    /// New value of [`Key::compat`].
    pub compat: Option<Compat>,
    /// New value of [`Key::sync`].
    pub sync: Option<bool>,
    /// New value of [`KeyRights::models`]; `Some(None)` allows all models.
    pub models: Option<Option<ModelPatterns>>,
    /// New value of [`KeyRights::scopes`]; `Some(None)` allows all scopes.
    pub scopes: Option<Option<Scopes>>,
}

/// A key to be stored, with the quota of its account.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The key to store.
    pub key: Key,
    /// Maximum number of unrevoked and not replaced keys of the account, including this one. A
    /// limit of the account takes precedence.
    pub quota: u32,
}

/// The replacement of a key by a new one of the same account.
#[derive(Clone, Debug)]
pub struct KeyRotation {
    /// The key to replace.
    pub old: KeyId,
    /// The key to store. It takes the place of the old key in the quota of the account.
    pub new: Key,
    /// Time when the old key stops working. An earlier expiry of the old key is retained.
    pub overlap_end: Timestamp,
}

/// A key with the account that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOwner {
    /// The API key.
    pub key: Key,
    /// Account that owns the key.
    pub account: Account,
}

/// Stores API keys by digest.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Stores the key. `NotFound` if the account does not exist. `Conflict` if the account already
    /// has the maximum number of unrevoked and not replaced keys; the count and the insert are one
    /// atomic step.
    async fn create(&self, new: NewKey) -> Result<()>;

    /// Returns the key whose digest begins with these 16 bytes, with its account; both in any
    /// state. The caller must compare the whole digest in constant time.
    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<KeyOwner>>;

    /// Returns the key with its account, both in any state; `None` if the key does not exist.
    async fn get(&self, id: KeyId) -> Result<Option<KeyOwner>>;

    /// Lists the keys of an account, sorted by id.
    async fn list(&self, account: AccountId) -> Result<Vec<Key>>;

    /// Changes the key, in any state, and returns it. `NotFound` if it does not exist.
    async fn change(&self, id: KeyId, change: KeyChange) -> Result<Key>;

    /// Replaces a key in one atomic step, and returns the old key: stores the new key, sets expiry
    /// and [`Key::replaced_by`] of the old key, and revokes keys that the old key has replaced, so
    /// that at most two keys of a rotation work. `NotFound` if the account of the new key does not
    /// have the old one. `Conflict` if the old key is revoked, replaced, or expired when the new
    /// key is created.
    async fn rotate(&self, rotation: KeyRotation) -> Result<Key>;

    /// Revokes the key and returns it. Revoking it again retains the time of the first revocation.
    /// `NotFound` if it does not exist.
    async fn revoke(&self, id: KeyId, at: Timestamp) -> Result<Key>;
}
