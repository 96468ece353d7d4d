//! API keys and their callers: format, digest, cache, storage, states.

mod changes;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use thread_local::ThreadLocal;
use tollgate_storage::key::KeyDigest;
use tollgate_storage::{
    Account, AccountState, AccountStore, Compat, Job, Key, KeyChange, KeyMode, KeyOwner, KeyRotation,
    KeyState, KeyStore, NewKey, Notification, StorageError, StorageErrorKind,
};
use tollgate_types::id::IdSource;
use tollgate_types::{
    AccountId, Clock, Error, ErrorCode, KeyId, KeyRights, MemberId, Principal, Scope, Timestamp,
};

use crate::secret::{KeyShape, Pepper, SecretKey, digest_prefix, same_digest};
use changes::{Changes, Version};

/// Authenticated caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Account that pays and whose limits apply.
    pub account: Arc<Account>,
    /// The API key of the request, or the member whose session it has.
    pub principal: Principal,
    /// Live or test mode of the key.
    pub mode: KeyMode,
    /// Handling of request parts that a model does not support.
    pub compat: Compat,
    /// Whether image requests wait for the result by default.
    pub sync: bool,
    /// Models and endpoints that the key may use.
    pub rights: KeyRights,
}

impl Caller {
    /// Returns the caller of a stored job, with the job's key mode and compatibility. It may use
    /// all models, because the rights of the key were checked when the job was accepted. `Corrupt`
    /// if the job has no owner.
    pub async fn of_job(
        accounts: &dyn AccountStore,
        job: &Job,
        mode: KeyMode,
        compat: Compat,
    ) -> tollgate_storage::Result<Self> {
        let account = accounts.get(job.account).await?;
        let (Some(account), Some(principal)) = (account, job.principal) else {
            let message = format!("{} has no owner", job.terms.id);
            return Err(StorageError::new(StorageErrorKind::Corrupt, message));
        };
        Ok(Self {
            account: Arc::new(account),
            principal,
            mode,
            compat,
            sync: false,
            rights: KeyRights::default(),
        })
    }
}

/// Parameters of a new key.
#[derive(Clone, Debug)]
pub struct KeyParams {
    /// Display name: 1 to 100 characters.
    pub name: String,
    /// Live or test mode.
    pub mode: KeyMode,
    /// Handling of request parts that a model does not support.
    pub compat: Compat,
    /// Whether image requests wait for the result by default.
    pub sync: bool,
    /// Models and endpoints that the key may use.
    pub rights: KeyRights,
    /// Expiry of the key; `None` for a key that never expires.
    pub expires_at: Option<Timestamp>,
    /// Member who creates the key; `None` for an operator.
    pub created_by: Option<MemberId>,
}

impl KeyParams {
    /// Returns the parameters of a live key with defaults.
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            mode: KeyMode::Live,
            compat: Compat::default(),
            sync: false,
            rights: KeyRights::default(),
            expires_at: None,
            created_by: None,
        }
    }
}

impl Caller {
    /// Whether hosted tools, unknown fields and unsupported optional fields are removed from
    /// requests.
    pub fn is_lenient(&self) -> bool {
        self.compat == Compat::Lenient
    }

    /// Whether a request with an unsupported part is refused instead of adapted.
    pub fn is_strict(&self) -> bool {
        self.compat == Compat::Strict
    }

    /// Whether the caller uses a test key, which reaches simulated models only and costs nothing.
    pub fn is_test(&self) -> bool {
        self.mode == KeyMode::Test
    }

    /// Returns an error if the key lacks the scope of a request.
    pub fn check_scope(&self, scope: Scope) -> Result<(), Error> {
        if self.rights.allow_scope(scope) {
            return Ok(());
        }
        let message = format!(
            "The API key does not have the scope '{}', which this request requires. Add the scope to the key, or use another key.",
            scope.as_str()
        );
        Err(Error::new(ErrorCode::PermissionDenied, message).with_param("scope"))
    }

    /// Returns the caller of a member, who may use all models and endpoints.
    pub fn of_member(account: Arc<Account>, member: MemberId) -> Self {
        Self {
            account,
            principal: Principal::Member(member),
            mode: KeyMode::Live,
            compat: Compat::default(),
            sync: false,
            rights: KeyRights::default(),
        }
    }

    /// Returns the id of the account that pays.
    pub fn account_id(&self) -> AccountId {
        self.account.id
    }
}

/// Reason why a key is refused. The response has `invalid_api_key` for every invalid key.
#[derive(Debug)]
pub enum KeyError {
    /// The key is malformed, unknown, revoked or expired, or its account is suspended.
    Invalid,
    /// The lookup failed.
    Storage(Arc<StorageError>),
}

/// Settings of [`Keys`]: key format, pepper, cache lifetime and quota.
#[derive(Clone, Debug)]
pub struct KeysConfig {
    /// Format of this installation's keys.
    pub shape: KeyShape,
    /// Secret of the key digests.
    pub pepper: Pepper,
    /// Maximum age of a cached key. Bounds the delay of a change without a notification.
    pub ttl: Duration,
    /// Default maximum number of unrevoked keys, including expired ones, for accounts without their
    /// own limit.
    pub quota: u32,
}

/// Maximum number of keys in a thread's cache.
const MAX_RECENT: usize = 1024;

/// Thread-local cache in front of the shared one. A lookup in the shared cache costs more because
/// of the bookkeeping of that cache.
type Recent = HashMap<KeyDigest, Arc<CachedKey>>;

#[derive(Debug)]
struct CachedKey {
    digest: KeyDigest,
    version: Version,
    caller: Caller,
    usable: bool,
    expires_at: Option<Timestamp>,
}

/// Reason why a lookup found no key.
enum LookupError {
    Unknown(Version),
    Storage(Arc<StorageError>),
}

/// Service that creates, authenticates and revokes keys.
pub struct Keys {
    config: KeysConfig,
    store: Arc<dyn KeyStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    found: Cache<KeyDigest, Arc<CachedKey>>,
    missing: Cache<KeyDigest, Version>,
    recent: ThreadLocal<RefCell<Recent>>,
    changes: Changes,
}

impl Keys {
    /// Creates the service over `store`.
    pub fn new(
        config: KeysConfig,
        store: Arc<dyn KeyStore>,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
    ) -> Self {
        let found = Cache::builder().max_capacity(100_000).time_to_live(config.ttl);
        let missing = Cache::builder().max_capacity(100_000).time_to_live(config.ttl);
        Self {
            config,
            store,
            clock,
            ids,
            found: found.build(),
            missing: missing.build(),
            recent: ThreadLocal::new(),
            changes: Changes::default(),
        }
    }

    /// Returns the format of this installation's keys.
    pub fn shape(&self) -> &KeyShape {
        &self.config.shape
    }

    /// Returns the caller of a valid key.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, KeyError> {
        let mode = self.config.shape.mode_of(key).ok_or(KeyError::Invalid)?;
        let digest = self.config.pepper.digest(key);
        let cached = match self.recent_key(&digest) {
            Some(cached) => cached,
            None => self.find(digest).await?,
        };
        let expired = cached.expires_at.is_some_and(|at| at <= self.clock.now());
        let genuine = same_digest(&cached.digest, &digest) && cached.caller.mode == mode;
        if genuine && cached.usable && !expired {
            Ok(cached.caller.clone())
        } else {
            Err(KeyError::Invalid)
        }
    }

    /// Returns the caller of a valid key by its id. Nothing is cached, so a change of the key takes
    /// effect immediately on every node.
    pub async fn caller_of(&self, id: KeyId) -> Result<Caller, KeyError> {
        let found = self.store.get(id).await;
        let owner = found.map_err(|error| KeyError::Storage(Arc::new(error)))?;
        let owner = owner.ok_or(KeyError::Invalid)?;
        let now = self.clock.now();
        let expired = owner.key.expires_at.is_some_and(|at| at <= now);
        if is_usable(&owner) && !expired {
            Ok(caller(owner))
        } else {
            Err(KeyError::Invalid)
        }
    }

    /// Returns the key from this thread's cache, unless it is outdated.
    fn recent_key(&self, digest: &KeyDigest) -> Option<Arc<CachedKey>> {
        let recent = self.recent.get()?.borrow();
        let cached = recent.get(digest)?;
        (self.is_young(cached.version) && self.is_unchanged(cached)).then(|| cached.clone())
    }

    /// Returns the key from the shared cache or from storage.
    async fn find(&self, digest: KeyDigest) -> Result<Arc<CachedKey>, KeyError> {
        let missing = self.missing.get(&digest).await;
        if missing
            .is_some_and(|version| self.is_young(version) && self.changes.has_no_new_keys_since(version))
        {
            return Err(KeyError::Invalid);
        }
        let cached = self.look_up(digest).await?;
        let mut recent = self.recent.get_or_default().borrow_mut();
        if recent.len() >= MAX_RECENT {
            recent.clear();
        }
        recent.insert(digest, cached.clone());
        Ok(cached)
    }

    /// Repeats the lookup until its result is newer than every known change. Concurrent lookups of
    /// one key share a read, which may have started before the change.
    async fn look_up(&self, digest: KeyDigest) -> Result<Arc<CachedKey>, KeyError> {
        let began = self.clock.monotonic_micros();
        loop {
            let found = self.found.try_get_with(digest, self.read(digest)).await;
            let cached = match found {
                Ok(cached) => cached,
                Err(lookup_error) => match *lookup_error {
                    LookupError::Unknown(version) => {
                        self.missing.insert(digest, version).await;
                        return Err(KeyError::Invalid);
                    }
                    LookupError::Storage(ref error) => return Err(KeyError::Storage(error.clone())),
                },
            };
            // A slow read counts as fresh if it started during this call.
            let is_recent = cached.version.at >= began || self.is_young(cached.version);
            if is_recent && self.is_unchanged(&cached) {
                return Ok(cached);
            }
            self.found.invalidate(&digest).await;
        }
    }

    async fn read(&self, digest: KeyDigest) -> Result<Arc<CachedKey>, LookupError> {
        // The version is taken before the read, because the result may lack a change that happens
        // during the read.
        let version = self.changes.version(self.clock.monotonic_micros());
        match self.store.find(digest_prefix(&digest)).await {
            Ok(Some(owner)) => Ok(Arc::new(cached(owner, version))),
            Ok(None) => Err(LookupError::Unknown(version)),
            Err(error) => Err(LookupError::Storage(Arc::new(error))),
        }
    }

    fn is_young(&self, version: Version) -> bool {
        let age = self.clock.monotonic_micros().saturating_sub(version.at);
        u128::from(age) < self.config.ttl.as_micros()
    }

    fn is_unchanged(&self, cached: &CachedKey) -> bool {
        self.changes
            .has_none_since(cached.version, cached.caller.account_id())
    }

    /// Creates a key for an account. Only the returned value has the key in the clear.
    pub async fn create(&self, account: AccountId, params: KeyParams) -> Result<(Key, SecretKey), Error> {
        check_name(&params.name)?;
        let (key, secret) = self.generate(account, params, self.clock.now())?;
        let stored = self
            .store
            .create(NewKey {
                key: key.clone(),
                quota: self.config.quota,
            })
            .await;
        stored.map_err(Self::creation_error)?;
        self.invalidate(Notification::Keys);
        Ok((key, secret))
    }

    /// Replaces a key by a new one with the same name, settings and lifetime. The old key works for
    /// `overlap` longer, and a key that it has replaced itself is revoked.
    pub async fn rotate(
        &self,
        old: &Key,
        overlap: Duration,
        created_by: Option<MemberId>,
    ) -> Result<(Key, SecretKey), Error> {
        let now = self.clock.now();
        let lifetime = old.expires_at.map(|expiry| expiry.since(old.created_at));
        let params = KeyParams {
            name: old.name.clone(),
            mode: old.mode,
            compat: old.compat,
            sync: old.sync,
            rights: old.rights.clone(),
            expires_at: lifetime.map(|lifetime| now.plus(lifetime)),
            created_by,
        };
        let (new, secret) = self.generate(old.account, params, now)?;
        let rotation = KeyRotation {
            old: old.id,
            new: new.clone(),
            overlap_end: now.plus(overlap),
        };
        let rotated = self.store.rotate(rotation).await;
        rotated.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => no_such_key(),
            StorageErrorKind::Conflict => {
                let message = "The key is revoked, expired or already replaced. Create a new key instead.";
                Error::new(ErrorCode::Conflict, message)
            }
            _ => Error::internal(error),
        })?;
        self.invalidate(Notification::Keys);
        self.invalidate(Notification::Account(old.account));
        Ok((new, secret))
    }

    fn generate(
        &self,
        account: AccountId,
        params: KeyParams,
        now: Timestamp,
    ) -> Result<(Key, SecretKey), Error> {
        let secret = self.config.shape.generate(params.mode);
        let secret = secret.map_err(|error| Error::internal(error.to_string()))?;
        let key = Key {
            id: KeyId::from_u128(self.ids.next(now)),
            account,
            name: params.name,
            digest: self.config.pepper.digest(secret.reveal()),
            last4: secret.last4().to_owned(),
            mode: params.mode,
            compat: params.compat,
            sync: params.sync,
            rights: params.rights,
            state: KeyState::Active,
            created_at: now,
            expires_at: params.expires_at,
            revoked_at: None,
            created_by: params.created_by,
            replaced_by: None,
        };
        Ok((key, secret))
    }

    fn creation_error(error: StorageError) -> Error {
        match error.kind {
            StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "The account does not exist."),
            StorageErrorKind::Conflict => {
                let message = "The account has the maximum number of keys. Revoke or rotate a key, or ask the operator of this service for a higher limit.";
                Error::new(ErrorCode::KeyLimitReached, message)
            }
            _ => Error::internal(error),
        }
    }

    /// Changes a key: immediately on this node, on others with the notification.
    pub async fn change(&self, id: KeyId, change: KeyChange) -> Result<Key, Error> {
        change.name.as_deref().map_or(Ok(()), check_name)?;
        self.changed(self.store.change(id, change).await)
    }

    /// Revokes a key: immediately on this node, on others with the notification.
    pub async fn revoke(&self, id: KeyId) -> Result<Key, Error> {
        self.changed(self.store.revoke(id, self.clock.now()).await)
    }

    fn changed(&self, stored: Result<Key, StorageError>) -> Result<Key, Error> {
        let key = stored.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => no_such_key(),
            _ => Error::internal(error),
        })?;
        self.invalidate(Notification::Account(key.account));
        Ok(key)
    }

    /// Returns the keys of an account.
    pub async fn list(&self, account: AccountId) -> Result<Vec<Key>, Error> {
        self.store.list(account).await.map_err(Error::internal)
    }

    /// Invalidates the cache entries that a change affects.
    pub fn invalidate(&self, notification: Notification) {
        self.changes.note(notification);
    }
}

/// Returns the error for a key that does not exist.
pub fn no_such_key() -> Error {
    Error::new(ErrorCode::NotFound, "The key does not exist.")
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        let message = "'name' must have 1 to 100 characters, none of them control characters.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("name"));
    }
    Ok(())
}

fn cached(owner: KeyOwner, version: Version) -> CachedKey {
    CachedKey {
        digest: owner.key.digest,
        version,
        usable: is_usable(&owner),
        expires_at: owner.key.expires_at,
        caller: caller(owner),
    }
}

/// Whether key and account are active. The key may be expired.
fn is_usable(owner: &KeyOwner) -> bool {
    owner.key.state == KeyState::Active && owner.account.state == AccountState::Active
}

fn caller(owner: KeyOwner) -> Caller {
    Caller {
        account: Arc::new(owner.account),
        principal: Principal::Key(owner.key.id),
        mode: owner.key.mode,
        compat: owner.key.compat,
        sync: owner.key.sync,
        rights: owner.key.rights,
    }
}
