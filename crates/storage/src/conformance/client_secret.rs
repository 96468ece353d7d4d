//! Cases for [`crate::ClientSecretStore`].

use std::time::Duration;

use tollgate_types::{AccountId, ClientSecretId, Credits, KeyId, MemberId, Principal, SessionId, Timestamp};

use super::Factory;
use super::samples::{START, at, concurrently, digest, funded, kind, nanos, warm_up};
use crate::{AccountChange, AccountState, ClientSecret, ClientSecretCreation, Storage, StorageErrorKind};

/// Maximum number of live secrets, above the number of secrets in these cases.
const MAX_LIVE: u32 = 1000;

/// Makes a secret whose digest begins with its number, created at [`START`], that expires ten
/// minutes later.
pub(super) fn secret(number: u128, account: AccountId) -> ClientSecret {
    ClientSecret {
        id: ClientSecretId::from_u128(number),
        account,
        principal: Principal::Key(KeyId::from_u128(5)),
        console_session: None,
        digest: digest(number),
        session: b"sealed".to_vec(),
        model: None,
        max_cost: None,
        spent: Credits::ZERO,
        max_seconds: None,
        allowed_origins: Vec::new(),
        created_at: START,
        expires_at: at(600),
    }
}

/// Makes a secret with a maximum cost of this many nano-credits.
fn limited(number: u128, account: AccountId, max_cost: i64) -> ClientSecret {
    ClientSecret {
        max_cost: Some(nanos(max_cost)),
        ..secret(number, account)
    }
}

/// Stores a secret; panics if the account has too many.
pub(super) async fn create(storage: &Storage, new: ClientSecret) {
    let outcome = storage.client_secrets.create(new, MAX_LIVE).await.unwrap();
    assert_eq!(outcome, ClientSecretCreation::Created);
}

/// Finds a secret by the digest of this number.
pub(super) async fn find(storage: &Storage, number: u128, now: Timestamp) -> Option<ClientSecret> {
    let found = storage.client_secrets.find(number.to_be_bytes(), now).await;
    found.unwrap()
}

async fn spent(storage: &Storage, number: u128) -> Credits {
    find(storage, number, START).await.unwrap().spent
}

async fn reserve(storage: &Storage, account: AccountId, number: u128, amount: i64) -> bool {
    let id = ClientSecretId::from_u128(number);
    let reserved = storage.client_secrets.reserve(account, id, nanos(amount));
    reserved.await.unwrap()
}

async fn correct(storage: &Storage, account: AccountId, number: u128, held: i64, charged: i64) {
    let id = ClientSecretId::from_u128(number);
    let corrected = storage
        .client_secrets
        .correct(account, id, nanos(held), nanos(charged));
    corrected.await.unwrap();
}

/// Checks that a secret is found by the first half of its digest, with every field, until it
/// expires. Neither key, member nor session need exist.
pub async fn created_then_found(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let plain = secret(1, account);
    let full = ClientSecret {
        principal: Principal::Member(MemberId::from_u128(u128::MAX)),
        console_session: Some(SessionId::from_u128(u128::MAX)),
        session: vec![0; 100_000],
        model: Some("größer/model".to_owned()),
        max_cost: Some(Credits::MAX),
        spent: nanos(7),
        max_seconds: Some(u32::MAX),
        allowed_origins: vec!["https://example.com".to_owned(), "\"é\"".to_owned()],
        created_at: at(1),
        expires_at: at(7201),
        ..secret(u128::MAX, account)
    };
    let micro = Duration::from_micros(1);
    for new in [plain, full] {
        create(&storage, new.clone()).await;
        let number = new.id.as_u128();
        for now in [START, new.expires_at.minus(micro)] {
            assert_eq!(find(&storage, number, now).await.as_ref(), Some(&new));
        }
        for now in [new.expires_at, new.expires_at.plus(micro)] {
            assert_eq!(find(&storage, number, now).await, None);
        }
    }
    for number in [0, 2] {
        assert_eq!(find(&storage, number, START).await, None);
    }
}

/// Checks that ids and digests are used once, and that the account must exist and not be closed.
pub async fn invalid_secrets_write_nothing(factory: Factory) {
    let storage = factory.open().await;
    let (account, closed) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let change = AccountChange {
        state: Some(AccountState::Suspended),
        ..AccountChange::default()
    };
    storage.accounts.change(closed, change).await.unwrap();
    storage.accounts.close_account(closed, at(1)).await.unwrap();
    create(&storage, secret(1, account)).await;
    let same_digest = ClientSecret {
        digest: digest(1),
        ..secret(2, account)
    };
    let same_id = ClientSecret {
        digest: digest(2),
        ..secret(1, account)
    };
    for (new, expected) in [
        (same_digest, StorageErrorKind::Conflict),
        (same_id, StorageErrorKind::Conflict),
        (secret(2, closed), StorageErrorKind::Conflict),
        (secret(2, AccountId::from_u128(9)), StorageErrorKind::NotFound),
    ] {
        let refused = storage.client_secrets.create(new, MAX_LIVE).await;
        assert_eq!(kind(refused), expected);
        assert_eq!(find(&storage, 2, START).await, None);
    }
    assert_eq!(find(&storage, 1, START).await, Some(secret(1, account)));
}

/// Checks that only secrets of the account that have not expired count against the maximum.
pub async fn live_secrets_are_limited(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let expiring = |number, seconds| ClientSecret {
        expires_at: at(seconds),
        ..secret(number, account)
    };
    create(&storage, secret(100, other)).await;
    create(&storage, expiring(1, 10)).await;
    create(&storage, expiring(2, 20)).await;
    for (number, seconds, max_live, expected) in [
        (3, 0, 0, ClientSecretCreation::TooMany),
        (3, 0, 2, ClientSecretCreation::TooMany),
        (3, 9, 2, ClientSecretCreation::TooMany),
        (3, 10, 2, ClientSecretCreation::Created),
        (4, 19, 2, ClientSecretCreation::TooMany),
        (4, 19, 3, ClientSecretCreation::Created),
        (5, 20, 3, ClientSecretCreation::Created),
    ] {
        let new = ClientSecret {
            created_at: at(seconds),
            ..secret(number, account)
        };
        let outcome = storage.client_secrets.create(new, max_live).await.unwrap();
        assert_eq!(outcome, expected, "{number} at {seconds}");
        let exists = find(&storage, number, START).await.is_some();
        assert_eq!(exists, expected == ClientSecretCreation::Created);
    }
}

/// Checks that concurrent creations share the maximum.
pub async fn concurrent_creations_respect_the_maximum(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    warm_up(&storage, account).await;
    create(&storage, secret(100, account)).await;
    let outcomes = concurrently(16, |number| {
        let storage = storage.clone();
        let new = secret(number as u128 + 1, account);
        Box::pin(async move { storage.client_secrets.create(new, 4).await.unwrap() })
    })
    .await;
    let created = outcomes
        .iter()
        .filter(|outcome| **outcome == ClientSecretCreation::Created);
    assert_eq!(created.count(), 3);
}

/// Checks that reservations end at the maximum cost exactly, and that corrections free credits for
/// further reservations.
pub async fn reservations_end_at_the_maximum(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    create(&storage, limited(1, account, 100)).await;
    create(&storage, limited(2, account, 0)).await;
    create(&storage, secret(3, account)).await;
    for (number, amount, expected, total) in [
        (1, 101, false, 0),
        (1, i64::MAX, false, 0),
        (1, 60, true, 60),
        (1, 41, false, 60),
        (1, 40, true, 100),
        (1, 1, false, 100),
        (1, 0, true, 100),
        (2, 1, false, 0),
        (2, 0, true, 0),
        (3, i64::MAX, true, i64::MAX),
    ] {
        assert_eq!(reserve(&storage, account, number, amount).await, expected);
        assert_eq!(
            spent(&storage, number).await,
            nanos(total),
            "{number} after {amount}"
        );
    }
    for (held, charged, total) in [(60, 25, 65), (40, 40, 65), (0, 0, 65), (65, 0, 0), (9, 0, 0)] {
        correct(&storage, account, 1, held, charged).await;
        assert_eq!(spent(&storage, 1).await, nanos(total));
    }
    assert!(reserve(&storage, account, 1, 100).await);
    assert!(!reserve(&storage, account, 1, 1).await);
    assert_eq!(spent(&storage, 2).await, Credits::ZERO);
}

/// Checks that invalid amounts, and ids of no secret or of another account's, change nothing.
pub async fn invalid_reservations_change_nothing(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    create(&storage, limited(1, account, 100)).await;
    assert!(reserve(&storage, account, 1, 50).await);
    let (store, id) = (&storage.client_secrets, ClientSecretId::from_u128(1));
    let negative = store.reserve(account, id, nanos(-1)).await;
    assert_eq!(kind(negative), StorageErrorKind::Conflict);
    for (held, charged) in [(-1, -2), (0, 1), (10, 11), (10, -1)] {
        let invalid = store.correct(account, id, nanos(held), nanos(charged)).await;
        assert_eq!(kind(invalid), StorageErrorKind::Conflict, "{held} {charged}");
    }
    for (account, number) in [(other, 1), (account, 2)] {
        assert!(!reserve(&storage, account, number, 1).await);
        correct(&storage, account, number, 10, 0).await;
    }
    assert_eq!(spent(&storage, 1).await, nanos(50));
}

/// Checks that concurrent reservations never exceed the maximum cost and reach it.
pub async fn concurrent_reservations_never_exceed_the_maximum(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    warm_up(&storage, account).await;
    create(&storage, limited(1, account, 100)).await;
    for (held, expected) in [(30, 3), (10, 1)] {
        let reserved = concurrently(32, |_| {
            let storage = storage.clone();
            Box::pin(async move { reserve(&storage, account, 1, held).await })
        })
        .await;
        let reserved = reserved.iter().filter(|reserved| **reserved);
        assert_eq!(reserved.count(), expected);
    }
    assert_eq!(spent(&storage, 1).await, nanos(100));
    // Each session charges a third and then reserves again.
    concurrently(3, |_| {
        let storage = storage.clone();
        Box::pin(async move {
            correct(&storage, account, 1, 30, 10).await;
            reserve(&storage, account, 1, 25).await
        })
    })
    .await;
    let total = spent(&storage, 1).await;
    assert!(total <= nanos(100), "{total}");
}

/// Checks that reservations remain counted after the engine was opened again.
pub async fn survives_reopening(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    create(&storage, limited(1, account, 100)).await;
    assert!(reserve(&storage, account, 1, 70).await);
    storage.engine.close().await.unwrap();
    let storage = factory.open().await;
    assert!(!reserve(&storage, account, 1, 31).await);
    assert!(reserve(&storage, account, 1, 30).await);
    let expected = ClientSecret {
        spent: nanos(100),
        ..limited(1, account, 100)
    };
    assert_eq!(find(&storage, 1, START).await, Some(expected));
}

/// Checks that a sweep deletes at most `limit` secrets that expired before the given time, of any
/// account.
pub async fn sweep_deletes_expired_secrets(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let before = at(1000);
    for (number, account, expires_at) in [
        (1, account, before),
        (2, account, before.minus(Duration::from_micros(1))),
        (3, other, at(1)),
        (4, other, at(2)),
        (5, other, at(7200)),
    ] {
        let new = ClientSecret {
            expires_at,
            ..secret(number, account)
        };
        create(&storage, new).await;
    }
    let sweep = async |limit| storage.client_secrets.sweep(before, limit).await.unwrap();
    for (limit, deleted) in [(0, 0), (2, 2), (2, 1), (2, 0)] {
        assert_eq!(sweep(limit).await, deleted);
    }
    for (number, exists) in [(1, true), (2, false), (3, false), (4, false), (5, true)] {
        assert_eq!(find(&storage, number, START).await.is_some(), exists, "{number}");
    }
    assert!(!reserve(&storage, account, 2, 0).await);
}
