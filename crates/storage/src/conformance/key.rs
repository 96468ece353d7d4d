//! Cases for [`crate::KeyStore`].

use tollgate_types::{AccountId, KeyId};

use super::Factory;
use super::samples::{account, at, concurrently, key, kind, warm_up};
use crate::{
    AccountChange, AccountState, Compat, Key, KeyChange, KeyMode, KeyOwner, KeyState, NewKey,
    StorageErrorKind,
};

fn prefix(number: u128) -> [u8; 16] {
    number.to_be_bytes()
}

/// Checks that a created key is found by the first half of its digest, with the current state of
/// its account.
pub async fn create_then_find(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let plain = key(1, account(1).id);
    let mut full = key(u128::MAX, account(1).id);
    full.key.name = "production — \"Zoë\"".to_owned();
    full.key.mode = KeyMode::Test;
    full.key.compat = Compat::Lenient;
    full.key.sync = true;
    full.key.expires_at = Some(at(60));
    storage.keys.create(plain.clone()).await.unwrap();
    storage.keys.create(full.clone()).await.unwrap();
    let change = AccountChange {
        rpm: Some(Some(3)),
        tpm: Some(Some(4)),
        keys: Some(Some(5)),
        gpus: Some(Some(6)),
        agents: Some(Some(7)),
        chats: Some(Some(8)),
        files: Some(Some(9)),
        files_gib: Some(Some(10)),
        batch_tokens: Some(Some(11)),
        ..AccountChange::default()
    };
    let changed = storage.accounts.change(account(1).id, change).await;
    let owner = changed.unwrap().after;
    for NewKey { key, .. } in [plain, full] {
        let found = storage.keys.find(prefix(key.id.as_u128())).await.unwrap();
        let account = owner.clone();
        assert_eq!(found, Some(KeyOwner { key, account }));
    }
}

/// Checks that an unknown digest finds no key.
pub async fn unknown_digest_finds_nothing(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    storage.keys.create(key(1, account(1).id)).await.unwrap();
    for number in [0, 2, u128::MAX] {
        assert_eq!(storage.keys.find(prefix(number)).await.unwrap(), None);
    }
}

/// Checks that a key can be changed repeatedly; fields of `None` stay unchanged.
pub async fn is_changed(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let mut expected = key(1, account(1).id);
    storage.keys.create(expected.clone()).await.unwrap();
    for (compat, sync) in [
        (Some(Compat::Lenient), None),
        (Some(Compat::Lenient), Some(true)),
        (None, Some(true)),
        (Some(Compat::Strict), None),
        (None, Some(false)),
        (None, None),
    ] {
        let change = KeyChange { compat, sync };
        let changed = storage.keys.change(KeyId::from_u128(1), change).await.unwrap();
        expected.key.compat = compat.unwrap_or(expected.key.compat);
        expected.key.sync = sync.unwrap_or(expected.key.sync);
        assert_eq!(changed, expected.key);
        let found = storage.keys.find(prefix(1)).await.unwrap().unwrap();
        assert_eq!(found.key, expected.key);
    }
    let missing = storage
        .keys
        .change(KeyId::from_u128(2), KeyChange::default())
        .await;
    assert_eq!(kind(missing), StorageErrorKind::NotFound);
}

/// Checks that revoked keys and keys of suspended accounts are found; the caller checks the states.
pub async fn revoked_and_suspended_are_found(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    storage.keys.create(key(1, account(1).id)).await.unwrap();
    storage.keys.revoke(KeyId::from_u128(1), at(5)).await.unwrap();
    let change = AccountChange {
        state: Some(AccountState::Suspended),
        ..AccountChange::default()
    };
    storage.accounts.change(account(1).id, change).await.unwrap();
    let found = storage.keys.find(prefix(1)).await.unwrap().unwrap();
    assert_eq!(found.key.state, KeyState::Revoked);
    assert_eq!(found.key.revoked_at, Some(at(5)));
    assert_eq!(found.account.state, AccountState::Suspended);
}

/// Checks that lists are in order of id and contain the keys of one account only.
pub async fn list_covers_one_account(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2] {
        storage.accounts.create(account(number)).await.unwrap();
    }
    for (number, owner) in [(1 << 127, 1), (4, 2), (3, 1), (5, 1)] {
        storage.keys.create(key(number, account(owner).id)).await.unwrap();
    }
    let listed = storage.keys.list(account(1).id).await.unwrap();
    let expected: Vec<Key> = [3, 5, 1 << 127]
        .map(|number| key(number, account(1).id).key)
        .into();
    assert_eq!(listed, expected);
    assert_eq!(storage.keys.list(AccountId::from_u128(3)).await.unwrap(), []);
}

/// Checks that an account must exist to have a key.
pub async fn unknown_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let created = storage.keys.create(key(1, account(1).id)).await;
    assert_eq!(kind(created), StorageErrorKind::NotFound);
    assert_eq!(storage.keys.find(prefix(1)).await.unwrap(), None);
}

/// Checks that ids and digests are unique across accounts; the first key stays.
pub async fn same_id_or_digest_is_a_conflict(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2] {
        storage.accounts.create(account(number)).await.unwrap();
    }
    storage.keys.create(key(1, account(1).id)).await.unwrap();
    let mut same_id = key(2, account(2).id);
    same_id.key.id = KeyId::from_u128(1);
    let mut same_digest = key(1, account(2).id);
    same_digest.key.id = KeyId::from_u128(2);
    for new in [same_id, same_digest] {
        assert_eq!(kind(storage.keys.create(new).await), StorageErrorKind::Conflict);
    }
    assert_eq!(
        storage.keys.find(prefix(1)).await.unwrap().unwrap().key,
        key(1, account(1).id).key
    );
    assert_eq!(storage.keys.list(account(2).id).await.unwrap(), []);
}

/// Checks that the quota counts all unrevoked keys of the account, including expired ones.
pub async fn quota_counts_keys_not_revoked(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2] {
        storage.accounts.create(account(number)).await.unwrap();
    }
    let limited = |number: u128, owner: u128| {
        let mut new = key(number, account(owner).id);
        new.key.expires_at = Some(at(0));
        new.quota = 3;
        new
    };
    for number in 1..=3 {
        storage.keys.create(limited(number, 1)).await.unwrap();
    }
    assert_eq!(
        kind(storage.keys.create(limited(4, 1)).await),
        StorageErrorKind::Conflict
    );
    assert_eq!(storage.keys.find(prefix(4)).await.unwrap(), None);
    storage.keys.create(limited(5, 2)).await.unwrap();
    storage.keys.revoke(KeyId::from_u128(2), at(1)).await.unwrap();
    storage.keys.create(limited(4, 1)).await.unwrap();
    assert_eq!(
        kind(storage.keys.create(limited(6, 1)).await),
        StorageErrorKind::Conflict
    );
    assert_eq!(storage.keys.list(account(1).id).await.unwrap().len(), 4);
}

/// Checks that the limit of an account replaces the quota, whether higher or lower.
pub async fn own_limit_replaces_the_quota(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let limited = |number: u128| {
        let mut new = key(number, account(1).id);
        new.quota = 2;
        new
    };
    let limit = |keys: Option<u32>| AccountChange {
        keys: Some(keys),
        ..AccountChange::default()
    };
    for (own, number, fits) in [
        (Some(0), 1, false),
        (None, 1, true),
        (Some(1), 2, false),
        (Some(3), 2, true),
        (Some(3), 3, true),
        (Some(3), 4, false),
        (None, 4, false),
    ] {
        storage.accounts.change(account(1).id, limit(own)).await.unwrap();
        let created = storage.keys.create(limited(number)).await;
        assert_eq!(created.is_ok(), fits, "{own:?} {number}");
    }
    assert_eq!(storage.keys.list(account(1).id).await.unwrap().len(), 3);
}

/// Checks that 64 concurrent creations leave an account with exactly its 50 keys.
pub async fn quota_holds_under_concurrency(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    warm_up(&storage, account(1).id).await;
    let created = concurrently(64, |number| {
        let (keys, new) = (storage.keys.clone(), key(number as u128, account(1).id));
        Box::pin(async move { keys.create(new).await })
    })
    .await;
    let (stored, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
    assert_eq!(stored.len(), 50);
    for refusal in refused {
        assert_eq!(kind(refusal), StorageErrorKind::Conflict);
    }
    assert_eq!(storage.keys.list(account(1).id).await.unwrap().len(), 50);
}

/// Checks that a second revocation changes nothing and returns the key with the first time.
pub async fn first_revocation_stays(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    for number in [1, 2] {
        storage.keys.create(key(number, account(1).id)).await.unwrap();
    }
    let revoked = Key {
        state: KeyState::Revoked,
        revoked_at: Some(at(10)),
        ..key(1, account(1).id).key
    };
    for seconds in [10, 5, 20] {
        let answer = storage
            .keys
            .revoke(KeyId::from_u128(1), at(seconds))
            .await
            .unwrap();
        assert_eq!(answer, revoked);
    }
    let listed = storage.keys.list(account(1).id).await.unwrap();
    assert_eq!(listed, [revoked, key(2, account(1).id).key]);
}

/// Checks that an unknown key cannot be revoked.
pub async fn unknown_key_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let revoked = storage.keys.revoke(KeyId::from_u128(1), at(1)).await;
    assert_eq!(kind(revoked), StorageErrorKind::NotFound);
}
