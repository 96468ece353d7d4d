//! From a key to its caller: shape, digest, cache, storage, states.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::future::Cache;
use thread_local::ThreadLocal;
use tollgate_storage::key::KeyDigest;
use tollgate_storage::{
    Account, AccountState, Compat, Key, KeyMode, KeyOwner, KeyState, KeyStore, NewKey, StorageError,
    StorageErrorKind,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, KeyId, Timestamp};

use crate::secret::{KeyShape, Pepper, SecretKey, same_digest};

/// Who is calling.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account that pays and whose limits count.
    pub account: Arc<Account>,
    /// The key it came with.
    pub key: KeyId,
    /// What the key may reach.
    pub mode: KeyMode,
    /// What becomes of what a model cannot do.
    pub compat: Compat,
}

impl Caller {
    /// Whether what a model cannot use is left out of its requests.
    pub fn is_lenient(&self) -> bool {
        self.compat == Compat::Lenient
    }

    /// Whether it came with a test key, which reaches simulated models only and spends nothing.
    pub fn is_test(&self) -> bool {
        self.mode == KeyMode::Test
    }

    /// The account's id.
    pub fn account_id(&self) -> AccountId {
        self.account.id
    }
}

/// Why a key does not work. Callers are told `invalid_api_key` in every case.
#[derive(Debug)]
pub enum KeyError {
    /// Not a key of this installation, revoked, expired, unknown, or of a suspended account.
    Invalid,
    /// It could not be looked up.
    Storage(Arc<StorageError>),
}

/// Settings of [`Keys`].
#[derive(Clone, Debug)]
pub struct KeysConfig {
    /// What keys look like.
    pub shape: KeyShape,
    /// What they are digested with.
    pub pepper: Pepper,
    /// How long a key that works is believed without another look. Bounds how late another node's revocation is noticed.
    pub positive_ttl: Duration,
    /// How long an unknown key is refused without another look.
    pub negative_ttl: Duration,
    /// Most active keys of an account that has no limit of its own.
    pub quota: u32,
}

/// Digest → owner, `None` for a key that is known not to exist.
type Entry = Option<Arc<CachedKey>>;

/// Most keys that one thread remembers by itself.
const MOST_RECENT: usize = 1024;

/// What a thread has found lately. The cache of all threads keeps account of every look, which costs more than the look.
#[derive(Debug, Default)]
struct Recent {
    keys: HashMap<KeyDigest, Arc<CachedKey>>,
    /// How many changes there had been.
    changes: u64,
}

#[derive(Debug)]
struct CachedKey {
    digest: KeyDigest,
    /// When it was read, on the clock that never goes back.
    read_at: u64,
    caller: Caller,
    usable: bool,
    expires_at: Option<Timestamp>,
}

/// Makes, finds and revokes keys.
pub struct Keys {
    config: KeysConfig,
    store: Arc<dyn KeyStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    found: Cache<KeyDigest, Entry>,
    missing: Cache<KeyDigest, ()>,
    recent: ThreadLocal<RefCell<Recent>>,
    /// How often something was changed here: what threads remember from before is not believed.
    changes: AtomicU64,
}

impl Keys {
    /// Keys kept in `store`.
    pub fn new(
        config: KeysConfig,
        store: Arc<dyn KeyStore>,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
    ) -> Self {
        let found = Cache::builder()
            .max_capacity(100_000)
            .time_to_live(config.positive_ttl)
            .build();
        let missing = Cache::builder()
            .max_capacity(100_000)
            .time_to_live(config.negative_ttl)
            .build();
        Self {
            config,
            store,
            clock,
            ids,
            found,
            missing,
            recent: ThreadLocal::new(),
            changes: AtomicU64::new(0),
        }
    }

    /// What this installation's keys look like.
    pub fn shape(&self) -> &KeyShape {
        &self.config.shape
    }

    /// The caller that presents `key`.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, KeyError> {
        let mode = self.config.shape.mode_of(key).ok_or(KeyError::Invalid)?;
        let digest = self.config.pepper.digest(key);
        let cached = match self.recall(&digest) {
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

    /// What this thread remembers of the key, unless that is too old or something was changed since.
    fn recall(&self, digest: &KeyDigest) -> Option<Arc<CachedKey>> {
        let recent = self.recent.get()?.borrow();
        let cached = recent.keys.get(digest)?;
        let age = self.clock.monotonic_micros().saturating_sub(cached.read_at);
        let is_young = u128::from(age) < self.config.positive_ttl.as_micros();
        let is_unchanged = recent.changes == self.changes.load(Ordering::Acquire);
        (is_young && is_unchanged).then(|| cached.clone())
    }

    async fn find(&self, digest: KeyDigest) -> Result<Arc<CachedKey>, KeyError> {
        // Before the look: what changes during it is not remembered as if it were older.
        let changes = self.changes.load(Ordering::Acquire);
        let entry = match self.found.get(&digest).await {
            Some(entry) => entry,
            None => self.look_up(digest).await?,
        };
        let cached = entry.ok_or(KeyError::Invalid)?;
        let mut recent = self.recent.get_or_default().borrow_mut();
        if recent.changes != changes || recent.keys.len() >= MOST_RECENT {
            recent.keys.clear();
            recent.changes = changes;
        }
        recent.keys.insert(digest, cached.clone());
        Ok(cached)
    }

    async fn look_up(&self, digest: KeyDigest) -> Result<Entry, KeyError> {
        if self.missing.contains_key(&digest) {
            return Ok(None);
        }
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&digest[..16]);
        let found = self.found.try_get_with(digest, async {
            let read_at = self.clock.monotonic_micros();
            let owner = self.store.find(prefix).await?;
            Ok(owner.map(|owner| Arc::new(cached(owner, read_at))))
        });
        let entry = found.await.map_err(KeyError::Storage)?;
        if entry.is_none() {
            self.found.invalidate(&digest).await;
            self.missing.insert(digest, ()).await;
        }
        Ok(entry)
    }

    /// Makes a key for an account. The key in the clear is in the answer and nowhere else.
    pub async fn create(
        &self,
        account: AccountId,
        name: &str,
        mode: KeyMode,
        compat: Compat,
        expires_at: Option<Timestamp>,
    ) -> Result<(Key, SecretKey), Error> {
        if name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
            return Err(Error::new(
                ErrorCode::InvalidParameter,
                "A key's name has 1 to 100 characters.",
            )
            .with_param("name"));
        }
        let secret = self
            .config
            .shape
            .generate(mode)
            .map_err(|error| Error::internal(error.to_string()))?;
        let now = self.clock.now();
        let key = Key {
            id: KeyId::from_u128(self.ids.next(now)),
            account,
            name: name.to_owned(),
            digest: self.config.pepper.digest(secret.reveal()),
            last4: secret.last4().to_owned(),
            mode,
            compat,
            state: KeyState::Active,
            created_at: now,
            expires_at,
            revoked_at: None,
        };
        let stored = self
            .store
            .create(NewKey {
                key: key.clone(),
                quota: self.config.quota,
            })
            .await;
        stored.map_err(Self::creation_error)?;
        self.missing.invalidate(&key.digest).await;
        Ok((key, secret))
    }

    fn creation_error(error: StorageError) -> Error {
        match error.kind {
            StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "There is no such account."),
            StorageErrorKind::Conflict => {
                let message = "The account has its full number of keys. Revoke one that is not used, or ask for a higher limit.";
                Error::new(ErrorCode::KeyLimitReached, message)
            }
            _ => Error::internal(error),
        }
    }

    /// Changes how lenient a key is: at once here, within the positive time to live on other nodes.
    pub async fn set_compat(&self, id: KeyId, compat: Compat) -> Result<Key, Error> {
        self.changed(self.store.set_compat(id, compat).await).await
    }

    /// Revokes a key: at once here, within the positive time to live on other nodes.
    pub async fn revoke(&self, id: KeyId) -> Result<Key, Error> {
        self.changed(self.store.revoke(id, self.clock.now()).await).await
    }

    async fn changed(&self, stored: Result<Key, StorageError>) -> Result<Key, Error> {
        let key = stored.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "There is no such key."),
            _ => Error::internal(error),
        })?;
        self.found.invalidate(&key.digest).await;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(key)
    }

    /// Keys of an account.
    pub async fn list(&self, account: AccountId) -> Result<Vec<Key>, Error> {
        self.store.list(account).await.map_err(Error::internal)
    }

    /// Forgets what is cached, after an account's limits or state have changed.
    pub fn forget(&self) {
        self.found.invalidate_all();
        self.changes.fetch_add(1, Ordering::Release);
    }
}

fn cached(owner: KeyOwner, read_at: u64) -> CachedKey {
    let usable = owner.key.state == KeyState::Active && owner.account.state == AccountState::Active;
    CachedKey {
        digest: owner.key.digest,
        read_at,
        usable,
        expires_at: owner.key.expires_at,
        caller: Caller {
            account: Arc::new(owner.account),
            key: owner.key.id,
            mode: owner.key.mode,
            compat: owner.key.compat,
        },
    }
}
