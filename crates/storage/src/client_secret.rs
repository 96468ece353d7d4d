//! Client secrets of realtime sessions: short-lived secrets that a server gives to a browser. Only
//! a keyed digest of a secret is stored, and its session is encrypted.

use async_trait::async_trait;
use tollgate_types::{AccountId, ClientSecretId, Credits, Principal, SessionId, Timestamp};

use crate::Result;
use crate::key::KeyDigest;

/// A stored client secret, without the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSecret {
    /// Unique id of the client secret.
    pub id: ClientSecretId,
    /// Account that pays for the sessions.
    pub account: AccountId,
    /// Key or member that created the secret. The secret ends with it.
    pub principal: Principal,
    /// Session of the console in which a member created the secret; `None` for keys. The secret
    /// opens nothing after the end of this session, which need not exist.
    pub console_session: Option<SessionId>,
    /// Digest of the secret.
    pub digest: KeyDigest,
    /// Configuration of the sessions, encrypted for the account.
    pub session: Vec<u8>,
    /// The only model that the sessions may use; `None` allows every model of the principal.
    pub model: Option<String>,
    /// Maximum cost of all sessions together; `None` without a limit.
    pub max_cost: Option<Credits>,
    /// Reserved and charged credits of all sessions. With [`Self::max_cost`], at most that amount.
    pub spent: Credits,
    /// Maximum duration of each session, in seconds.
    pub max_seconds: Option<u32>,
    /// Origins of the pages that may use the secret; empty for any origin.
    pub allowed_origins: Vec<String>,
    /// Time when the secret was created.
    pub created_at: Timestamp,
    /// Time after which the secret opens no session. Open sessions continue.
    pub expires_at: Timestamp,
}

/// Outcome of [`ClientSecretStore::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientSecretCreation {
    /// The secret is stored.
    Created,
    /// The account has the maximum number of live secrets. Nothing was written.
    TooMany,
}

/// Stores client secrets by digest.
#[async_trait]
pub trait ClientSecretStore: Send + Sync {
    /// Stores the secret unless the account has `max_live` secrets that expire after its creation;
    /// the count and the insert are one atomic step. `NotFound` if the account does not exist.
    /// `Conflict` if the account is closed, or if another secret has the id or digest.
    async fn create(&self, secret: ClientSecret, max_live: u32) -> Result<ClientSecretCreation>;

    /// Returns the secret whose digest begins with these 16 bytes; `None` if it is unknown or
    /// expires at `now` or earlier. The caller must compare the whole digest in constant time.
    async fn find(&self, digest_prefix: [u8; 16], now: Timestamp) -> Result<Option<ClientSecret>>;

    /// Adds an amount to [`ClientSecret::spent`] in one atomic step; returns false if the sum would
    /// exceed [`ClientSecret::max_cost`], or if the account has no such secret. An expired secret
    /// is no obstacle, because its sessions may continue. `Conflict` if the amount is negative.
    ///
    /// The reservation is durable. After a crash before [`Self::correct`] it remains counted, so
    /// the sessions may spend less than the maximum, but never more.
    async fn reserve(&self, account: AccountId, id: ClientSecretId, amount: Credits) -> Result<bool>;

    /// Replaces a reservation of `held` credits by the amount that was charged. Call it once for
    /// each reservation. A secret that does not exist is ignored. `Conflict` unless `charged` is
    /// between zero and `held`.
    async fn correct(
        &self,
        account: AccountId,
        id: ClientSecretId,
        held: Credits,
        charged: Credits,
    ) -> Result<()>;

    /// Deletes at most `limit` secrets that expired before the given time, and returns their
    /// number.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64>;
}
