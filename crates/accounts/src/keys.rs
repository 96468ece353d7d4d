//! From a key to its caller: shape, digest, cache, storage, states.

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
    Account, AccountState, AccountStore, Compat, Job, Key, KeyChange, KeyMode, KeyOwner, KeyState, KeyStore,
    NewKey, News, StorageError, StorageErrorKind,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, KeyId, Timestamp};

use crate::secret::{KeyShape, Pepper, SecretKey, same_digest};
use changes::{Changes, Seen};

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
    /// Whether pictures are waited for, unless the request says otherwise.
    pub sync: bool,
}

impl Caller {
    /// Who has asked for a job, with what was kept of the key then. `Corrupt` when the job has no owner.
    pub async fn of_job(
        accounts: &dyn AccountStore,
        job: &Job,
        mode: KeyMode,
        compat: Compat,
    ) -> tollgate_storage::Result<Self> {
        let account = accounts.get(job.account).await?;
        let (Some(account), Some(key)) = (account, job.key) else {
            let message = format!("{} has no owner", job.terms.id);
            return Err(StorageError::new(StorageErrorKind::Corrupt, message));
        };
        Ok(Self {
            account: Arc::new(account),
            key,
            mode,
            compat,
            sync: false,
        })
    }
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct KeyWish {
    /// For people: 1 to 100 characters.
    pub name: String,
    /// What it may reach.
    pub mode: KeyMode,
    /// What becomes of what a model cannot do.
    pub compat: Compat,
    /// Whether pictures are waited for, unless the request says otherwise.
    pub sync: bool,
    /// When it stops to work, if ever.
    pub expires_at: Option<Timestamp>,
}

impl KeyWish {
    /// A key for everything that nothing special is said of.
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            mode: KeyMode::Live,
            compat: Compat::Strict,
            sync: false,
            expires_at: None,
        }
    }
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
    /// How long what was read of a key is believed without another look. Bounds how late a change is noticed that nobody
    /// tells of.
    pub ttl: Duration,
    /// Most active keys of an account that has no limit of its own.
    pub quota: u32,
}

/// Most keys that one thread remembers by itself.
const MOST_RECENT: usize = 1024;

/// What a thread has found lately. The cache of all threads keeps account of every look, which costs more than the look.
type Recent = HashMap<KeyDigest, Arc<CachedKey>>;

#[derive(Debug)]
struct CachedKey {
    digest: KeyDigest,
    seen: Seen,
    caller: Caller,
    usable: bool,
    expires_at: Option<Timestamp>,
}

/// Why a look found nothing.
enum Missed {
    Unknown(Seen),
    Storage(Arc<StorageError>),
}

/// Makes, finds and revokes keys.
pub struct Keys {
    config: KeysConfig,
    store: Arc<dyn KeyStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    found: Cache<KeyDigest, Arc<CachedKey>>,
    missing: Cache<KeyDigest, Seen>,
    recent: ThreadLocal<RefCell<Recent>>,
    changes: Changes,
}

impl Keys {
    /// Keys kept in `store`.
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

    /// What this thread remembers of the key, unless that may not be true any more.
    fn recall(&self, digest: &KeyDigest) -> Option<Arc<CachedKey>> {
        let recent = self.recent.get()?.borrow();
        let cached = recent.get(digest)?;
        (self.is_young(cached.seen) && self.is_unchanged(cached)).then(|| cached.clone())
    }

    /// What all threads remember of the key, else what storage says.
    async fn find(&self, digest: KeyDigest) -> Result<Arc<CachedKey>, KeyError> {
        let missing = self.missing.get(&digest).await;
        if missing.is_some_and(|seen| self.is_young(seen) && self.changes.has_no_new_keys_since(seen)) {
            return Err(KeyError::Invalid);
        }
        let cached = self.look_up(digest).await?;
        let mut recent = self.recent.get_or_default().borrow_mut();
        if recent.len() >= MOST_RECENT {
            recent.clear();
        }
        recent.insert(digest, cached.clone());
        Ok(cached)
    }

    /// Looks until what was read is from after every change that is known. Those who look for one key at the same time share
    /// a look, which may have begun before the change.
    async fn look_up(&self, digest: KeyDigest) -> Result<Arc<CachedKey>, KeyError> {
        let began = self.clock.monotonic_micros();
        loop {
            let found = self.found.try_get_with(digest, self.read(digest)).await;
            let cached = match found {
                Ok(cached) => cached,
                Err(missed) => match *missed {
                    Missed::Unknown(seen) => {
                        self.missing.insert(digest, seen).await;
                        return Err(KeyError::Invalid);
                    }
                    Missed::Storage(ref error) => return Err(KeyError::Storage(error.clone())),
                },
            };
            // A look that takes long is as old as it may be when it ends.
            let is_recent = cached.seen.at >= began || self.is_young(cached.seen);
            if is_recent && self.is_unchanged(&cached) {
                return Ok(cached);
            }
            self.found.invalidate(&digest).await;
        }
    }

    async fn read(&self, digest: KeyDigest) -> Result<Arc<CachedKey>, Missed> {
        // Before the look: what changes during it may not be in what it finds.
        let seen = self.changes.seen(self.clock.monotonic_micros());
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&digest[..16]);
        match self.store.find(prefix).await {
            Ok(Some(owner)) => Ok(Arc::new(cached(owner, seen))),
            Ok(None) => Err(Missed::Unknown(seen)),
            Err(error) => Err(Missed::Storage(Arc::new(error))),
        }
    }

    fn is_young(&self, seen: Seen) -> bool {
        let age = self.clock.monotonic_micros().saturating_sub(seen.at);
        u128::from(age) < self.config.ttl.as_micros()
    }

    fn is_unchanged(&self, cached: &CachedKey) -> bool {
        self.changes
            .has_none_since(cached.seen, cached.caller.account_id())
    }

    /// Makes a key for an account. The key in the clear is in the answer and nowhere else.
    pub async fn create(&self, account: AccountId, wish: KeyWish) -> Result<(Key, SecretKey), Error> {
        let KeyWish {
            name,
            mode,
            compat,
            sync,
            expires_at,
        } = wish;
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
            name,
            digest: self.config.pepper.digest(secret.reveal()),
            last4: secret.last4().to_owned(),
            mode,
            compat,
            sync,
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
        self.hear(News::Keys);
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

    /// Changes a key: at once here, on other nodes when they hear of it.
    pub async fn change(&self, id: KeyId, change: KeyChange) -> Result<Key, Error> {
        self.changed(self.store.change(id, change).await)
    }

    /// Revokes a key: at once here, on other nodes when they hear of it.
    pub async fn revoke(&self, id: KeyId) -> Result<Key, Error> {
        self.changed(self.store.revoke(id, self.clock.now()).await)
    }

    fn changed(&self, stored: Result<Key, StorageError>) -> Result<Key, Error> {
        let key = stored.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "There is no such key."),
            _ => Error::internal(error),
        })?;
        self.hear(News::Account(key.account));
        Ok(key)
    }

    /// Keys of an account.
    pub async fn list(&self, account: AccountId) -> Result<Vec<Key>, Error> {
        self.store.list(account).await.map_err(Error::internal)
    }

    /// Forgets what may not be true any more.
    pub fn hear(&self, news: News) {
        self.changes.note(news);
    }
}

fn cached(owner: KeyOwner, seen: Seen) -> CachedKey {
    let usable = owner.key.state == KeyState::Active && owner.account.state == AccountState::Active;
    CachedKey {
        digest: owner.key.digest,
        seen,
        usable,
        expires_at: owner.key.expires_at,
        caller: Caller {
            account: Arc::new(owner.account),
            key: owner.key.id,
            mode: owner.key.mode,
            compat: owner.key.compat,
            sync: owner.key.sync,
        },
    }
}
