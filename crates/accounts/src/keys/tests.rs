use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;
use tollgate_storage::Limits;
use tollgate_types::clock::ManualClock;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);
const TTL: Duration = Duration::from_secs(5);

/// A store that another node changes, too: a change behind the back of [`Keys`] is one to `owners`.
#[derive(Default)]
struct Store {
    owners: Mutex<Vec<KeyOwner>>,
    finds: AtomicUsize,
    /// The next look has read what there is, and does not answer before it is told to.
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

    async fn list(&self, _: AccountId) -> Result<Vec<Key>, StorageError> {
        Ok(Vec::new())
    }

    async fn change(&self, id: KeyId, _: KeyChange) -> Result<Key, StorageError> {
        Err(StorageError::not_found(id))
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
struct Scene {
    store: Arc<Store>,
    clock: Arc<ManualClock>,
    here: Keys,
    there: Keys,
}

impl Scene {
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
        let created = self.there.create(account, KeyWish::plain("key"));
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
async fn a_change_counts_when_it_is_heard_of() {
    for news in [News::Account(AccountId::from_u128(1)), News::Everything] {
        let scene = Scene::new();
        let (id, key) = scene.key(1).await;
        assert!(scene.works(&key).await);
        scene.there.revoke(id).await.unwrap();
        assert!(
            scene.there.authenticate(&key).await.is_err(),
            "at once where it is made"
        );
        assert!(scene.works(&key).await, "nobody has told");
        for other in [
            News::Keys,
            News::Account(AccountId::from_u128(2)),
            News::Lease(AccountId::from_u128(1)),
        ] {
            scene.here.hear(other);
            assert!(scene.works(&key).await, "{other} says nothing of it");
        }
        assert_eq!(scene.finds(), 2, "one look on each node");
        scene.here.hear(news);
        assert!(!scene.works(&key).await, "{news}");
    }
}

#[tokio::test]
async fn a_change_that_nobody_tells_of_counts_when_what_was_read_is_old() {
    let scene = Scene::new();
    let (id, key) = scene.key(1).await;
    assert!(scene.works(&key).await);
    scene.there.revoke(id).await.unwrap();
    scene.clock.advance(TTL - Duration::from_micros(1));
    assert!(scene.works(&key).await);
    scene.clock.advance(Duration::from_micros(1));
    assert!(!scene.works(&key).await);
}

#[tokio::test]
async fn a_new_key_works_where_it_was_unknown_before() {
    // `None`: nobody tells, and what was read becomes old.
    for news in [Some(News::Keys), Some(News::Everything), None] {
        let scene = Scene::new();
        let (_, key) = scene.key(1).await;
        let owners = std::mem::take(&mut *scene.store.owners.lock().unwrap());
        assert!(!scene.works(&key).await);
        *scene.store.owners.lock().unwrap() = owners;
        scene.here.hear(News::Account(AccountId::from_u128(1)));
        assert!(!scene.works(&key).await, "it is known to be unknown");
        assert_eq!(scene.finds(), 1);
        match news {
            Some(news) => scene.here.hear(news),
            None => scene.clock.advance(TTL),
        }
        assert!(scene.works(&key).await, "{news:?}");
    }
}

/// A look that began before a change says nothing once the change is known, also to those who share it.
#[tokio::test]
async fn a_look_that_a_change_overtakes_is_repeated() {
    let scene = Scene::new();
    let (id, key) = scene.key(1).await;
    let slow = Arc::new(Slow::default());
    *scene.store.slow.lock().unwrap() = Some(slow.clone());
    let (works, ()) = tokio::join!(scene.works(&key), async {
        slow.began.notified().await;
        scene.there.revoke(id).await.unwrap();
        scene.here.hear(News::Account(AccountId::from_u128(1)));
        slow.answer.notify_one();
    });
    assert!(!works);
    assert_eq!(scene.finds(), 2);
}
