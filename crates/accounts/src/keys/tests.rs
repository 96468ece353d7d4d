use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;
use tollgate_storage::Limits;
use tollgate_types::clock::ManualClock;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);
const TTL: Duration = Duration::from_secs(5);

/// A store shared with another node: tests change `owners` to bypass [`Keys`].
#[derive(Default)]
struct Store {
    owners: Mutex<Vec<KeyOwner>>,
    finds: AtomicUsize,
    /// Delay of the next read: the read copies the owners, then waits for its release before it
    /// returns.
    slow: Mutex<Option<Arc<Slow>>>,
}

#[derive(Default)]
struct Slow {
    began: Notify,
    answer: Notify,
}

#[async_trait]
impl KeyStore for Store {
    async fn create(&self, new: NewKey) -> Result<(), StorageError> {
        let account = Account {
            id: new.key.account,
            name: "tenant".to_owned(),
            state: AccountState::Active,
            limits: Limits::default(),
            test_clock: None,
            created_at: NOW,
        };
        let owner = KeyOwner {
            key: new.key,
            account,
        };
        self.owners.lock().unwrap().push(owner);
        Ok(())
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<KeyOwner>, StorageError> {
        self.finds.fetch_add(1, Ordering::SeqCst);
        let owners = self.owners.lock().unwrap().clone();
        let slow = self.slow.lock().unwrap().take();
        if let Some(slow) = slow {
            slow.began.notify_one();
            slow.answer.notified().await;
        }
        Ok(owners
            .into_iter()
            .find(|owner| owner.key.digest[..16] == digest_prefix))
    }

    async fn get(&self, id: KeyId) -> Result<Option<KeyOwner>, StorageError> {
        let owners = self.owners.lock().unwrap();
        Ok(owners.iter().find(|owner| owner.key.id == id).cloned())
    }

    async fn list(&self, _: AccountId) -> Result<Vec<Key>, StorageError> {
        Ok(Vec::new())
    }

    async fn change(&self, id: KeyId, _: KeyChange) -> Result<Key, StorageError> {
        Err(StorageError::not_found(id))
    }

    async fn rotate(&self, rotation: KeyRotation) -> Result<Key, StorageError> {
        Err(StorageError::not_found(rotation.old))
    }

    async fn revoke(&self, id: KeyId, _: Timestamp) -> Result<Key, StorageError> {
        let mut owners = self.owners.lock().unwrap();
        let owner = owners.iter_mut().find(|owner| owner.key.id == id);
        let key = &mut owner.ok_or_else(|| StorageError::not_found(id))?.key;
        key.state = KeyState::Revoked;
        Ok(key.clone())
    }
}

/// Two nodes on one store.
struct TestNodes {
    store: Arc<Store>,
    clock: Arc<ManualClock>,
    here: Keys,
    there: Keys,
}

impl TestNodes {
    fn new() -> Self {
        let (store, clock) = (Arc::new(Store::default()), Arc::new(ManualClock::at(NOW)));
        let ids = Arc::new(IdSource::new(7));
        let keys = || {
            let config = KeysConfig {
                shape: KeyShape::new("service"),
                pepper: Pepper::new(&[7; 32]).unwrap(),
                ttl: TTL,
                quota: 50,
            };
            Keys::new(config, store.clone(), clock.clone(), ids.clone())
        };
        let (here, there) = (keys(), keys());
        Self {
            store,
            clock,
            here,
            there,
        }
    }

    async fn key(&self, account: u128) -> (KeyId, String) {
        let account = AccountId::from_u128(account);
        let created = self.there.create(account, KeyParams::plain("key"));
        let (key, secret) = created.await.unwrap();
        (key.id, secret.reveal().to_owned())
    }

    async fn works(&self, key: &str) -> bool {
        self.here.authenticate(key).await.is_ok()
    }

    fn finds(&self) -> usize {
        self.store.finds.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn change_applies_on_notification() {
    for notification in [
        Notification::Account(AccountId::from_u128(1)),
        Notification::Everything,
    ] {
        let nodes = TestNodes::new();
        let (id, key) = nodes.key(1).await;
        assert!(nodes.works(&key).await);
        nodes.there.revoke(id).await.unwrap();
        assert!(
            nodes.there.authenticate(&key).await.is_err(),
            "at once where it is made"
        );
        assert!(nodes.works(&key).await, "no notification arrived");
        for other in [
            Notification::Keys,
            Notification::Account(AccountId::from_u128(2)),
            Notification::Lease(AccountId::from_u128(1)),
        ] {
            nodes.here.invalidate(other);
            assert!(nodes.works(&key).await, "{other} says nothing of it");
        }
        assert_eq!(nodes.finds(), 2, "one look on each node");
        nodes.here.invalidate(notification);
        assert!(!nodes.works(&key).await, "{notification}");
    }
}

#[tokio::test]
async fn unannounced_change_applies_after_the_ttl() {
    let nodes = TestNodes::new();
    let (id, key) = nodes.key(1).await;
    assert!(nodes.works(&key).await);
    nodes.there.revoke(id).await.unwrap();
    nodes.clock.advance(TTL - Duration::from_micros(1));
    assert!(nodes.works(&key).await);
    nodes.clock.advance(Duration::from_micros(1));
    assert!(!nodes.works(&key).await);
}

#[tokio::test]
async fn new_key_works_on_nodes_that_cached_its_absence() {
    // `None`: no notification; the cached entry expires.
    for notification in [Some(Notification::Keys), Some(Notification::Everything), None] {
        let nodes = TestNodes::new();
        let (_, key) = nodes.key(1).await;
        let owners = std::mem::take(&mut *nodes.store.owners.lock().unwrap());
        assert!(!nodes.works(&key).await);
        *nodes.store.owners.lock().unwrap() = owners;
        nodes
            .here
            .invalidate(Notification::Account(AccountId::from_u128(1)));
        assert!(!nodes.works(&key).await, "it is known to be unknown");
        assert_eq!(nodes.finds(), 1);
        match notification {
            Some(notification) => nodes.here.invalidate(notification),
            None => nodes.clock.advance(TTL),
        }
        assert!(nodes.works(&key).await, "{notification:?}");
    }
}

/// A read that started before a change is not used after the change is known, not even by lookups
/// that share the read.
#[tokio::test]
async fn lookup_overtaken_by_a_change_is_repeated() {
    let nodes = TestNodes::new();
    let (id, key) = nodes.key(1).await;
    let slow = Arc::new(Slow::default());
    *nodes.store.slow.lock().unwrap() = Some(slow.clone());
    let (works, ()) = tokio::join!(nodes.works(&key), async {
        slow.began.notified().await;
        nodes.there.revoke(id).await.unwrap();
        nodes
            .here
            .invalidate(Notification::Account(AccountId::from_u128(1)));
        slow.answer.notify_one();
    });
    assert!(!works);
    assert_eq!(nodes.finds(), 2);
}

/// A key is found by its id in its stored state, without notifications and caches.
#[tokio::test]
async fn caller_of_an_id_follows_the_stored_key() {
    type Change = fn(&mut KeyOwner);
    let changes: [(Change, bool); 6] = [
        (|_| {}, true),
        (|owner| owner.key.state = KeyState::Revoked, false),
        (|owner| owner.account.state = AccountState::Suspended, false),
        (|owner| owner.account.state = AccountState::Closed, false),
        (|owner| owner.key.expires_at = Some(NOW), false),
        (
            |owner| owner.key.expires_at = Some(NOW.plus(Duration::from_micros(1))),
            true,
        ),
    ];
    for (change, valid) in changes {
        let nodes = TestNodes::new();
        let (id, key) = nodes.key(1).await;
        let expected = nodes.here.authenticate(&key).await.unwrap();
        change(&mut nodes.store.owners.lock().unwrap()[0]);
        let found = nodes.here.caller_of(id).await;
        assert_eq!(found.is_ok(), valid);
        if let Ok(caller) = found {
            assert_eq!(caller.principal, expected.principal);
            assert_eq!(caller.rights, expected.rights);
        }
        let unknown = nodes.here.caller_of(KeyId::from_u128(9)).await;
        assert!(matches!(unknown, Err(KeyError::Invalid)));
    }
}
