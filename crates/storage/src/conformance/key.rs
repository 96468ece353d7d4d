//! Cases for [`crate::KeyStore`].

use tollgate_types::{AccountId, KeyId, KeyRights, MemberId, ModelPatterns, Scope, Scopes, Timestamp};

use super::Factory;
use super::samples::{account, at, concurrently, key, kind, warm_up};
use crate::{
    AccountChange, AccountState, Compat, Key, KeyChange, KeyMode, KeyOwner, KeyRotation, KeyState, NewKey,
    StorageErrorKind,
};

fn prefix(number: u128) -> [u8; 16] {
    number.to_be_bytes()
}

fn id(number: u128) -> KeyId {
    KeyId::from_u128(number)
}

/// Makes the rotation of a key of the first account. The new key is created at this many seconds;
/// the old one works for a minute longer.
fn rotation(old: u128, new: u128, seconds: u64) -> KeyRotation {
    KeyRotation {
        old: id(old),
        new: Key {
            created_at: at(seconds),
            ..key(new, account(1).id).key
        },
        overlap_end: at(seconds + 60),
    }
}

/// Checks that a created key is found by the first half of its digest and by its id, with the
/// current state of its account. The member who created it need not exist.
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
    full.key.created_by = Some(MemberId::from_u128(u128::MAX));
    full.key.rights = KeyRights {
        models: Some(patterns(&["acme/large", "é/*"])),
        scopes: Some(Scope::ALL.into_iter().collect()),
    };
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
        assert_eq!(storage.keys.get(key.id).await.unwrap(), found);
        let account = owner.clone();
        assert_eq!(found, Some(KeyOwner { key, account }));
    }
}

/// Checks that an unknown digest or id finds no key.
pub async fn unknown_digest_finds_nothing(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    storage.keys.create(key(1, account(1).id)).await.unwrap();
    for number in [0, 2, u128::MAX] {
        assert_eq!(storage.keys.find(prefix(number)).await.unwrap(), None);
        assert_eq!(storage.keys.get(id(number)).await.unwrap(), None);
    }
}

/// Checks that a key can be changed repeatedly; fields of `None` stay unchanged.
pub async fn is_changed(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let mut expected = key(1, account(1).id);
    storage.keys.create(expected.clone()).await.unwrap();
    for (name, compat, sync) in [
        (None, Some(Compat::Lenient), None),
        (None, Some(Compat::Lenient), Some(true)),
        (Some("production — \"Zoë\""), None, None),
        (None, None, Some(true)),
        (None, Some(Compat::Strict), None),
        (Some("staging"), Some(Compat::Standard), Some(false)),
        (None, None, None),
    ] {
        let name = name.map(str::to_owned);
        expected.key.name = name.clone().unwrap_or(expected.key.name);
        let change = KeyChange {
            name,
            compat,
            sync,
            ..KeyChange::default()
        };
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

/// Checks that models and scopes of a key change separately, and that both can be removed.
pub async fn rights_change(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let mut expected = key(1, account(1).id);
    storage.keys.create(expected.clone()).await.unwrap();
    let (text, none) = (Scopes::from_iter([Scope::Text]), Scopes::default());
    for (models, scopes) in [
        (Some(Some(patterns(&["acme/*"]))), None),
        (None, Some(Some(text))),
        (Some(None), Some(Some(none))),
        (Some(Some(patterns(&[]))), Some(None)),
        (None, None),
    ] {
        let rights = &mut expected.key.rights;
        rights.models = models.clone().unwrap_or(rights.models.clone());
        rights.scopes = scopes.unwrap_or(rights.scopes);
        let change = KeyChange {
            models,
            scopes,
            ..KeyChange::default()
        };
        let changed = storage.keys.change(id(1), change).await.unwrap();
        assert_eq!(changed, expected.key);
        let found = storage.keys.find(prefix(1)).await.unwrap().unwrap();
        assert_eq!(found.key, expected.key);
    }
}

fn patterns(texts: &[&str]) -> ModelPatterns {
    ModelPatterns::new(texts.iter().map(ToString::to_string).collect())
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

/// Checks that a rotation stores the new key, sets expiry and replacement of the old key, and
/// returns the old key. Other keys stay unchanged.
pub async fn rotation_replaces_the_key(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let mut first = key(1, account(1).id);
    first.key.mode = KeyMode::Test;
    first.key.created_by = Some(MemberId::from_u128(7));
    let other = key(2, account(1).id);
    for new in [&first, &other] {
        storage.keys.create(new.clone()).await.unwrap();
    }
    let mut rotation = rotation(1, 3, 10);
    rotation.new = Key {
        name: "rotated".to_owned(),
        mode: KeyMode::Test,
        compat: Compat::Lenient,
        sync: true,
        expires_at: Some(at(900)),
        created_by: Some(MemberId::from_u128(8)),
        ..rotation.new
    };
    let new = rotation.new.clone();
    let mut old = Key {
        expires_at: Some(at(70)),
        replaced_by: Some(id(3)),
        ..first.key
    };
    assert_eq!(storage.keys.rotate(rotation).await.unwrap(), old);
    for expected in [&old, &new] {
        let found = storage.keys.find(prefix(expected.id.as_u128())).await.unwrap();
        assert_eq!(found.unwrap().key, *expected);
    }
    let listed = storage.keys.list(account(1).id).await.unwrap();
    assert_eq!(listed, [old.clone(), other.key.clone(), new.clone()]);

    // A replaced key can be changed and revoked.
    let change = KeyChange {
        name: Some("replaced".to_owned()),
        ..KeyChange::default()
    };
    old.name = "replaced".to_owned();
    assert_eq!(storage.keys.change(id(1), change).await.unwrap(), old);
    old.state = KeyState::Revoked;
    old.revoked_at = Some(at(20));
    assert_eq!(storage.keys.revoke(id(1), at(20)).await.unwrap(), old);
    let listed = storage.keys.list(account(1).id).await.unwrap();
    assert_eq!(listed, [old, other.key, new]);
}

/// Checks that the old key expires at the end of the overlap, or at its own expiry if that is
/// earlier.
pub async fn rotation_retains_an_earlier_expiry(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let just_after = |seconds| Timestamp::from_micros(at(seconds).as_micros() + 1);
    for (number, own, overlap_end, expected) in [
        (1, None, at(70), at(70)),
        (2, Some(at(900)), at(70), at(70)),
        (3, Some(just_after(70)), at(70), at(70)),
        (4, Some(at(70)), at(70), at(70)),
        (5, Some(at(70)), just_after(70), at(70)),
        (6, Some(just_after(10)), at(70), just_after(10)),
        // Without an overlap, the old key stops working immediately.
        (7, None, at(10), at(10)),
        (8, Some(at(900)), at(10), at(10)),
    ] {
        let mut old = key(number, account(1).id);
        old.key.expires_at = own;
        storage.keys.create(old).await.unwrap();
        let mut rotation = rotation(number, number + 100, 10);
        rotation.overlap_end = overlap_end;
        let replaced = storage.keys.rotate(rotation).await.unwrap();
        assert_eq!(replaced.expires_at, Some(expected), "{number}");
        let found = storage.keys.find(prefix(number)).await.unwrap().unwrap();
        assert_eq!(found.key, replaced, "{number}");
    }
}

/// Checks that replaced keys do not count against the quota, whether it is used up or not.
pub async fn quota_ignores_replaced_keys(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let limited = |number: u128| {
        let mut new = key(number, account(1).id);
        new.quota = 2;
        new
    };
    // Only the key 2 and the replacement of the key 1 count.
    storage.keys.create(limited(1)).await.unwrap();
    storage.keys.rotate(rotation(1, 11, 10)).await.unwrap();
    storage.keys.create(limited(2)).await.unwrap();
    let refused = storage.keys.create(limited(3)).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    // The revocation of a replaced key leaves the count unchanged; that of its replacement does
    // not.
    storage.keys.revoke(id(1), at(20)).await.unwrap();
    let refused = storage.keys.create(limited(3)).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    storage.keys.revoke(id(11), at(20)).await.unwrap();
    storage.keys.create(limited(3)).await.unwrap();
    // The own limit of an account counts in the same way.
    storage.keys.rotate(rotation(2, 12, 30)).await.unwrap();
    storage.keys.rotate(rotation(3, 13, 30)).await.unwrap();
    let own = AccountChange {
        keys: Some(Some(3)),
        ..AccountChange::default()
    };
    storage.accounts.change(account(1).id, own).await.unwrap();
    storage.keys.create(limited(4)).await.unwrap();
    let refused = storage.keys.create(limited(5)).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    let listed = storage.keys.list(account(1).id).await.unwrap();
    let listed: Vec<u128> = listed.into_iter().map(|key| key.id.as_u128()).collect();
    assert_eq!(listed, [1, 2, 3, 4, 11, 12, 13]);
}

/// Checks that a key can be rotated if the quota is used up, or below the number of keys.
pub async fn rotation_works_at_the_full_quota(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    for number in [1, 2] {
        storage.keys.create(key(number, account(1).id)).await.unwrap();
    }
    for (limit, old, new) in [(2, 1, 3), (1, 3, 4), (0, 4, 5)] {
        let own = AccountChange {
            keys: Some(Some(limit)),
            ..AccountChange::default()
        };
        storage.accounts.change(account(1).id, own).await.unwrap();
        let rotated = storage.keys.rotate(rotation(old, new, 10)).await.unwrap();
        assert_eq!(rotated.replaced_by, Some(id(new)));
        let refused = storage.keys.create(key(9, account(1).id)).await;
        assert_eq!(kind(refused), StorageErrorKind::Conflict);
    }
}

/// Checks that the account of the new key must have the old one; otherwise nothing is written.
pub async fn rotations_stay_within_one_account(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2] {
        storage.accounts.create(account(number)).await.unwrap();
        storage
            .keys
            .create(key(number, account(number).id))
            .await
            .unwrap();
    }
    for (old, owner) in [(1, 2), (2, 1), (3, 1), (1, 3)] {
        let mut rotation = rotation(old, 9, 10);
        rotation.new.account = AccountId::from_u128(owner);
        let rotated = storage.keys.rotate(rotation).await;
        assert_eq!(kind(rotated), StorageErrorKind::NotFound, "{old} {owner}");
    }
    for number in [1, 2] {
        let listed = storage.keys.list(account(number).id).await.unwrap();
        assert_eq!(listed, [key(number, account(number).id).key]);
    }
    assert_eq!(storage.keys.find(prefix(9)).await.unwrap(), None);
}

/// Checks that a revoked, expired or replaced key cannot be rotated, and that id and digest of the
/// new key must be unused. Such a rotation writes nothing.
pub async fn conflicting_rotations_write_nothing(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let expiring = |number: u128, expires_at: Timestamp| {
        let mut new = key(number, account(1).id);
        new.key.expires_at = Some(expires_at);
        new
    };
    for new in [
        key(1, account(1).id),
        expiring(2, at(9)),
        expiring(3, at(10)),
        key(4, account(1).id),
        expiring(5, Timestamp::from_micros(at(10).as_micros() + 1)),
    ] {
        storage.keys.create(new).await.unwrap();
    }
    storage.keys.revoke(id(1), at(5)).await.unwrap();
    // The key 14 is replaced before its replacement 24 is rotated.
    storage.keys.rotate(rotation(4, 14, 6)).await.unwrap();
    storage.keys.rotate(rotation(14, 24, 7)).await.unwrap();
    let before = storage.keys.list(account(1).id).await.unwrap();

    let same_id = KeyRotation {
        new: Key {
            id: id(14),
            ..rotation(24, 9, 10).new
        },
        ..rotation(24, 9, 10)
    };
    let same_digest = KeyRotation {
        new: Key {
            id: id(9),
            ..rotation(24, 14, 10).new
        },
        ..rotation(24, 14, 10)
    };
    for (case, conflicting) in [
        ("revoked", rotation(1, 9, 10)),
        ("expired earlier", rotation(2, 9, 10)),
        ("expires now", rotation(3, 9, 10)),
        ("replaced and revoked", rotation(4, 9, 10)),
        ("replaced", rotation(14, 9, 10)),
        ("replaced by the same key", rotation(14, 24, 10)),
        ("same id", same_id),
        ("same digest", same_digest),
    ] {
        let rotated = storage.keys.rotate(conflicting).await;
        assert_eq!(kind(rotated), StorageErrorKind::Conflict, "{case}");
        let after = storage.keys.list(account(1).id).await.unwrap();
        assert_eq!(after, before, "{case}");
        assert_eq!(storage.keys.find(prefix(9)).await.unwrap(), None, "{case}");
    }
    for number in [5, 24] {
        let valid = rotation(number, number + 100, 10);
        storage.keys.rotate(valid).await.unwrap();
    }
}

/// Checks that the rotation of a replacement revokes the key that it replaced, so that at most two
/// keys work. An earlier revocation is retained.
pub async fn rotating_twice_revokes_the_first_key(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2] {
        storage.accounts.create(account(number)).await.unwrap();
    }
    for new in [
        key(1, account(1).id),
        key(1 << 64, account(1).id),
        key(9, account(2).id),
    ] {
        storage.keys.create(new).await.unwrap();
    }
    // An independent rotation, which stays unchanged.
    storage.keys.rotate(rotation(1 << 64, 1 << 65, 5)).await.unwrap();
    let revocations = async || -> Vec<(u128, Option<Timestamp>)> {
        let listed = storage.keys.list(account(1).id).await.unwrap();
        let revocation = |key: Key| {
            assert_eq!(key.state == KeyState::Revoked, key.revoked_at.is_some());
            (key.id.as_u128(), key.revoked_at)
        };
        listed.into_iter().map(revocation).collect()
    };
    let others = [(1 << 64, None), (1 << 65, None)];
    storage.keys.rotate(rotation(1, 2, 10)).await.unwrap();
    let expected = [&[(1, None), (2, None)], &others[..]].concat();
    assert_eq!(revocations().await, expected);
    storage.keys.rotate(rotation(2, 3, 20)).await.unwrap();
    let expected = [&[(1, Some(at(20))), (2, None), (3, None)], &others[..]].concat();
    assert_eq!(revocations().await, expected);
    // The key 2 was revoked by its owner; the key 1 was revoked by the previous rotation.
    storage.keys.revoke(id(2), at(25)).await.unwrap();
    storage.keys.rotate(rotation(3, 4, 30)).await.unwrap();
    let chain = [(1, Some(at(20))), (2, Some(at(25))), (3, None), (4, None)];
    assert_eq!(revocations().await, [&chain, &others[..]].concat());
    // The key 3 is revoked even if it has expired.
    storage.keys.rotate(rotation(4, 5, 900)).await.unwrap();
    let chain = [
        (1, Some(at(20))),
        (2, Some(at(25))),
        (3, Some(at(900))),
        (4, None),
        (5, None),
    ];
    assert_eq!(revocations().await, [&chain, &others[..]].concat());
    let foreign = storage.keys.list(account(2).id).await.unwrap();
    assert_eq!(foreign, [key(9, account(2).id).key]);
}

/// Checks that exactly one of 64 concurrent rotations of one key succeeds.
pub async fn concurrent_rotations_succeed_once(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    storage.keys.create(key(1, account(1).id)).await.unwrap();
    warm_up(&storage, account(1).id).await;
    let rotated = concurrently(64, |number| {
        let keys = storage.keys.clone();
        Box::pin(async move { keys.rotate(rotation(1, number as u128 + 2, 10)).await })
    })
    .await;
    let (done, refused): (Vec<_>, Vec<_>) = rotated.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 1);
    for refusal in refused {
        assert_eq!(kind(refusal), StorageErrorKind::Conflict);
    }
    let listed = storage.keys.list(account(1).id).await.unwrap();
    let old = done.into_iter().next().unwrap().unwrap();
    let new = old.replaced_by.unwrap().as_u128();
    assert_eq!(listed, [old, rotation(1, new, 10).new]);
}

/// Checks that concurrent rotations and creations leave an account with exactly its 50 keys, not
/// counting replaced ones.
pub async fn quota_holds_during_rotations(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    for number in 0..48 {
        storage.keys.create(key(number, account(1).id)).await.unwrap();
    }
    warm_up(&storage, account(1).id).await;
    let done = concurrently(64, |number| {
        let (keys, number) = (storage.keys.clone(), number as u128);
        Box::pin(async move {
            match number % 2 {
                0 => keys.rotate(rotation(number / 2, number + 100, 10)).await.is_ok(),
                _ => keys.create(key(number + 100, account(1).id)).await.is_ok(),
            }
        })
    })
    .await;
    let done = |remainder| {
        let numbered = done.iter().enumerate();
        numbered
            .filter(|(number, done)| number % 2 == remainder && **done)
            .count()
    };
    assert_eq!((done(0), done(1)), (32, 2));
    let listed = storage.keys.list(account(1).id).await.unwrap();
    let replaced = listed.iter().filter(|key| key.replaced_by.is_some()).count();
    assert_eq!((listed.len(), replaced), (82, 32));
}

/// Checks that a revocation concurrent with a rotation is before or after it: a revoked key is not
/// replaced, and a replaced key is revoked.
pub async fn revocations_and_rotations_are_serial(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    for number in 0..32 {
        storage.keys.create(key(number, account(1).id)).await.unwrap();
    }
    warm_up(&storage, account(1).id).await;
    let done = concurrently(64, |number| {
        let (keys, old) = (storage.keys.clone(), number as u128 / 2);
        Box::pin(async move {
            match number % 2 {
                0 => keys.rotate(rotation(old, old + 100, 10)).await,
                _ => keys.revoke(id(old), at(10)).await,
            }
        })
    })
    .await;
    let mut rotated = 0;
    for (old, done) in (0..).zip(done.chunks(2)) {
        let [rotation, revocation] = done else {
            unreachable!("two calls for each key");
        };
        let revoked = revocation.as_ref().unwrap();
        let stored = storage.keys.find(prefix(old)).await.unwrap().unwrap().key;
        assert_eq!(stored.revoked_at, Some(at(10)));
        let new = storage.keys.find(prefix(old + 100)).await.unwrap();
        match rotation {
            Ok(replaced) => {
                rotated += 1;
                assert_eq!((replaced.state, replaced.revoked_at), (KeyState::Active, None));
                assert_eq!(stored.replaced_by, Some(id(old + 100)));
                assert_eq!(revoked.replaced_by, stored.replaced_by);
                assert!(new.is_some());
            }
            Err(error) => {
                assert_eq!(error.kind, StorageErrorKind::Conflict);
                assert_eq!((stored.replaced_by, stored.expires_at, new), (None, None, None));
            }
        }
    }
    let listed = storage.keys.list(account(1).id).await.unwrap();
    assert_eq!(listed.len(), 32 + rotated);
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
