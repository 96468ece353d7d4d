//! Client secrets: short-lived secrets with which a browser opens realtime sessions. A server
//! creates them with its key, so that the key itself never leaves the server.
//!
//! A secret opens any number of sessions until it expires. It has the rights of the key or member
//! that created it, and ends with it: each use reads their present state. A secret that a member
//! created in the console also ends with the member's session there. Nothing is cached, because
//! sessions are opened rarely.

mod origin;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tollgate_storage::{
    AccountState, AccountStore, ClientSecret, ClientSecretCreation, ClientSecretStore, MemberRole,
    MemberStore, SessionOwner, Storage, StorageError, StorageErrorKind,
};
use tollgate_types::id::IdSource;
use tollgate_types::{
    AccountId, ClientSecretId, Clock, Credits, Error, ErrorCode, MemberId, Principal, SessionId, Timestamp,
};

use crate::keys::{Caller, KeyError, Keys};
use crate::secret::{
    Pepper, SecretKey, digest_prefix, generate_client_secret, is_client_secret, same_digest,
};
use crate::sign_in::Sessions;
use crate::vault::Vault;

/// Lifetime of a secret whose request does not specify one, in seconds.
pub const DEFAULT_LIFETIME_SECONDS: u64 = 600;
/// Shortest lifetime of a secret, in seconds.
pub const MIN_LIFETIME_SECONDS: u64 = 10;
/// Longest lifetime of a secret, in seconds.
pub const MAX_LIFETIME_SECONDS: u64 = 7200;
/// Maximum number of secrets of an account that have not expired.
pub const MAX_LIVE_SECRETS: u32 = 1000;
/// Maximum number of [`NewClientSecret::allowed_origins`].
pub const MAX_ORIGINS: usize = 100;

/// Time for which expired secrets remain stored, longer than any session. Their open sessions
/// continue to reserve from [`ClientSecret::max_cost`].
const RETENTION: Duration = Duration::from_secs(2 * 60 * 60);

/// Parameters of a new client secret.
#[derive(Clone, Debug, Default)]
pub struct NewClientSecret {
    /// Configuration of the sessions, as JSON.
    pub session: String,
    /// The only model that the sessions may use; `None` allows every model of the caller.
    pub model: Option<String>,
    /// Time from creation to expiry, in seconds; `None` for [`DEFAULT_LIFETIME_SECONDS`].
    pub lifetime_seconds: Option<u64>,
    /// Maximum cost of all sessions together; `None` without a limit.
    pub max_cost: Option<Credits>,
    /// Maximum duration of each session, in seconds.
    pub max_seconds: Option<u32>,
    /// Origins of the pages that may use the secret; empty for any origin.
    pub allowed_origins: Vec<String>,
    /// Session of the console in which a member creates the secret; the secret ends with it.
    pub console_session: Option<SessionId>,
}

/// A client secret that was just created.
#[derive(Debug)]
pub struct CreatedSecret {
    /// Unique id of the secret.
    pub id: ClientSecretId,
    /// The secret in the clear. Only this value has it.
    pub secret: SecretKey,
    /// Time after which the secret opens no session.
    pub expires_at: Timestamp,
}

/// Handle to the maximum cost that all sessions of a secret share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretBudget {
    account: AccountId,
    id: ClientSecretId,
}

/// Authenticated caller with a client secret.
#[derive(Clone, Debug)]
pub struct SecretCaller {
    /// The key or member that created the secret, with its present rights.
    pub caller: Caller,
    /// Unique id of the secret.
    pub id: ClientSecretId,
    /// Configuration of the sessions, as JSON.
    pub session: String,
    /// The only model that the sessions may use; `None` allows every model of the caller.
    pub model: Option<String>,
    /// The shared maximum cost; `None` without a limit. With a limit, each hold of a session
    /// requires a reservation.
    pub budget: Option<SecretBudget>,
    /// Maximum duration of each session, in seconds.
    pub max_seconds: Option<u32>,
    /// Origins of the pages that may use the secret; empty for any origin.
    pub allowed_origins: Vec<String>,
    /// Time after which the secret opens no session.
    pub expires_at: Timestamp,
}

impl SecretCaller {
    /// Whether a request with this `Origin` header may use the secret. A program that is no browser
    /// sends no origin; it may use only secrets of any origin.
    pub fn allows_origin(&self, origin: Option<&str>) -> bool {
        let is_listed = |origin| self.allowed_origins.iter().any(|allowed| allowed == origin);
        self.allowed_origins.is_empty() || origin.is_some_and(is_listed)
    }
}

/// Service that creates and authenticates client secrets.
pub struct ClientSecrets {
    store: Arc<dyn ClientSecretStore>,
    accounts: Arc<dyn AccountStore>,
    members: Arc<dyn MemberStore>,
    keys: Arc<Keys>,
    sessions: Arc<Sessions>,
    pepper: Pepper,
    vault: Vault,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
}

impl ClientSecrets {
    /// Creates the service over `storage`, with the pepper of `keys`. `sessions` are those of the
    /// console.
    pub fn new(
        storage: &Storage,
        keys: Arc<Keys>,
        sessions: Arc<Sessions>,
        pepper: Pepper,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
    ) -> Self {
        Self {
            store: storage.client_secrets.clone(),
            accounts: storage.accounts.clone(),
            members: storage.members.clone(),
            keys,
            sessions,
            vault: Vault::new(pepper.clone()),
            pepper,
            clock,
            ids,
        }
    }

    /// Creates a secret for the sessions of a caller. Returns `rate_limit_exceeded` if the account
    /// has [`MAX_LIVE_SECRETS`] secrets that have not expired, and `invalid_parameter` for a
    /// parameter outside its range.
    pub async fn create(&self, caller: &Caller, new: NewClientSecret) -> Result<CreatedSecret, Error> {
        let lifetime = check(&new)?;
        let now = self.clock.now();
        let id = ClientSecretId::from_u128(self.ids.next(now));
        let account = caller.account_id();
        let secret = generate_client_secret().map_err(|error| Error::internal(error.to_string()))?;
        let sealed = self.vault.seal(account, id.as_u128(), new.session.as_bytes());
        let stored = ClientSecret {
            id,
            account,
            principal: caller.principal,
            console_session: new.console_session,
            digest: self.pepper.digest(secret.reveal()),
            session: sealed.map_err(Error::internal)?,
            model: new.model,
            max_cost: new.max_cost,
            spent: Credits::ZERO,
            max_seconds: new.max_seconds,
            allowed_origins: new.allowed_origins,
            created_at: now,
            expires_at: now.plus(lifetime),
        };
        let expires_at = stored.expires_at;
        match self.store.create(stored, MAX_LIVE_SECRETS).await? {
            ClientSecretCreation::Created => Ok(CreatedSecret {
                id,
                secret,
                expires_at,
            }),
            ClientSecretCreation::TooMany => Err(too_many()),
        }
    }

    /// Returns the caller of a secret. `Invalid` if the secret is malformed, unknown or expired, if
    /// its session of the console has ended, or if [`Self::caller_of`] finds its principal invalid.
    pub async fn authenticate(&self, secret: &str) -> Result<SecretCaller, KeyError> {
        if !is_client_secret(secret) {
            return Err(KeyError::Invalid);
        }
        let digest = self.pepper.digest(secret);
        let found = self.store.find(digest_prefix(&digest), self.clock.now()).await;
        let genuine = found
            .map_err(failed)?
            .filter(|found| same_digest(&found.digest, &digest));
        let stored = genuine.ok_or(KeyError::Invalid)?;
        let caller = self.caller_of(stored.account, stored.principal).await?;
        if !self.is_session_open(&stored).await? {
            return Err(KeyError::Invalid);
        }
        Ok(SecretCaller {
            caller,
            id: stored.id,
            session: self.open(&stored)?,
            model: stored.model,
            budget: stored.max_cost.map(|_| SecretBudget {
                account: stored.account,
                id: stored.id,
            }),
            max_seconds: stored.max_seconds,
            allowed_origins: stored.allowed_origins,
            expires_at: stored.expires_at,
        })
    }

    /// Returns the caller of a principal in its present state, which is not cached. A session that
    /// a secret has opened repeats this check while it is open.
    ///
    /// A key is invalid if it is revoked or expired. A member is invalid if it was removed, or if
    /// its role no longer permits use of the account; the end of its session in the console ends
    /// no open session. Both are invalid if the account is suspended or closed.
    pub async fn caller_of(&self, account: AccountId, principal: Principal) -> Result<Caller, KeyError> {
        let caller = match principal {
            Principal::Key(key) => self.keys.caller_of(key).await?,
            Principal::Member(member) => self.member(account, member).await?,
        };
        match caller.account_id() == account {
            true => Ok(caller),
            false => Err(KeyError::Invalid),
        }
    }

    async fn member(&self, account: AccountId, id: MemberId) -> Result<Caller, KeyError> {
        let members = self.members.list(account).await.map_err(failed)?;
        let member = members.iter().find(|member| member.id == id);
        if !member.is_some_and(|member| may_use(member.role)) {
            return Err(KeyError::Invalid);
        }
        let account = self.accounts.get(account).await.map_err(failed)?;
        let active = account.filter(|account| account.state == AccountState::Active);
        let account = active.ok_or(KeyError::Invalid)?;
        Ok(Caller::of_member(Arc::new(account), id))
    }

    /// Whether a secret belongs to no session of the console, or to one that is still valid.
    async fn is_session_open(&self, stored: &ClientSecret) -> Result<bool, KeyError> {
        let Some(session) = stored.console_session else {
            return Ok(true);
        };
        let Some(id) = stored.principal.member() else {
            return Ok(false);
        };
        let members = self.members.list(stored.account).await.map_err(failed)?;
        let member = members.iter().find(|member| member.id == id);
        let Some(person) = member.and_then(|member| member.person) else {
            return Ok(false);
        };
        let owner = SessionOwner::Person(person);
        self.sessions.is_open(owner, session).await.map_err(failed)
    }

    /// Decrypts the configuration of the sessions.
    fn open(&self, stored: &ClientSecret) -> Result<String, KeyError> {
        let opened = self
            .vault
            .open(stored.account, stored.id.as_u128(), &stored.session);
        let text = opened.and_then(|text| String::from_utf8(text).ok());
        text.ok_or_else(|| {
            let message = format!("the session of {} cannot be decrypted", stored.id);
            failed(StorageError::new(StorageErrorKind::Corrupt, message))
        })
    }

    /// Reserves credits before a hold of this amount is taken; returns false if the sessions of the
    /// secret would exceed their maximum cost. A reservation that is never corrected stays counted,
    /// so that a crash never lets the sessions spend more.
    pub async fn reserve(&self, budget: SecretBudget, amount: Credits) -> Result<bool, Error> {
        let reserved = self.store.reserve(budget.account, budget.id, amount);
        Ok(reserved.await?)
    }

    /// Replaces a reservation of `held` credits by the charge of its settlement. Call it once for
    /// each successful reservation; `charged` is zero if the hold was refused or voided.
    pub async fn correct(&self, budget: SecretBudget, held: Credits, charged: Credits) -> Result<(), Error> {
        let corrected = self.store.correct(budget.account, budget.id, held, charged);
        Ok(corrected.await?)
    }

    /// Deletes at most `limit` secrets that expired so long ago that no session uses them.
    pub async fn sweep(&self, limit: u32) -> Result<u64, StorageError> {
        let before = self.clock.now().minus(RETENTION);
        self.store.sweep(before, limit).await
    }
}

fn failed(error: StorageError) -> KeyError {
    KeyError::Storage(Arc::new(error))
}

/// Whether members with this role may make calls. Agrees with the permission `Use` of members in
/// the crate of operators' commands.
fn may_use(role: MemberRole) -> bool {
    matches!(role, MemberRole::Owner | MemberRole::Admin | MemberRole::Member)
}

/// Checks the parameters of a secret and returns its lifetime.
fn check(new: &NewClientSecret) -> Result<Duration, Error> {
    let lifetime = new.lifetime_seconds.unwrap_or(DEFAULT_LIFETIME_SECONDS);
    if !(MIN_LIFETIME_SECONDS..=MAX_LIFETIME_SECONDS).contains(&lifetime) {
        let message = format!("must be between {MIN_LIFETIME_SECONDS} and {MAX_LIFETIME_SECONDS} seconds");
        return Err(invalid("expires_after.seconds", &message));
    }
    if new.max_cost.is_some_and(|max_cost| max_cost < Credits::ZERO) {
        return Err(invalid("max_cost", "must be an amount of credits from 0"));
    }
    if new.max_seconds == Some(0) {
        return Err(invalid("max_seconds", "must be at least 1"));
    }
    if new.allowed_origins.len() > MAX_ORIGINS {
        let message = format!("must have at most {MAX_ORIGINS} origins");
        return Err(invalid("allowed_origins", &message));
    }
    for (place, origin) in new.allowed_origins.iter().enumerate() {
        if !origin::is_serialized(origin) {
            let message = "must be an origin as browsers send it, such as https://example.com: scheme, host in lower case, and a port that is not the default";
            return Err(invalid(&format!("allowed_origins[{place}]"), message));
        }
    }
    Ok(Duration::from_secs(lifetime))
}

fn invalid(param: &str, rule: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {rule}.")).with_param(param)
}

fn too_many() -> Error {
    let message = format!(
        "The account has {MAX_LIVE_SECRETS} client secrets that have not expired. Retry when some have expired, or create secrets with a shorter lifetime."
    );
    Error::new(ErrorCode::RateLimitExceeded, message)
}
