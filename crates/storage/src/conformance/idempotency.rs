//! [`crate::IdempotencyStore`].

use tollgate_types::{AccountId, RequestId};

use super::Factory;
use super::samples::{START, at, at_once, funded};
use crate::{Claim, Claimed, Storage};

const KEY: [u8; 32] = [7; 32];

/// A claim made at [`START`], abandoned after a minute and expired after an hour.
fn claim(account: AccountId, request: u128) -> Claim {
    Claim {
        account,
        key: KEY,
        fingerprint: [1; 32],
        request: RequestId::from_u128(request),
        now: START,
        abandoned_at: at(60),
        expires_at: at(3600),
    }
}

async fn take(storage: &Storage, claim: Claim) -> Claimed {
    storage.idempotency.claim(claim).await.unwrap()
}

async fn answer(storage: &Storage, account: AccountId, request: u128, content: &[u8]) -> bool {
    let request = RequestId::from_u128(request);
    let content = content.to_vec();
    storage
        .idempotency
        .answer(account, KEY, request, content)
        .await
        .unwrap()
}

/// Of many claims at once, one is first, and the others are told that it runs.
pub async fn one_claim_is_first(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let claimed = at_once(64, |number| {
        let (store, claim) = (storage.idempotency.clone(), claim(account, number as u128));
        Box::pin(async move { store.claim(claim).await.unwrap() })
    })
    .await;
    let first = claimed
        .iter()
        .filter(|claimed| **claimed == Claimed::First)
        .count();
    let running = claimed
        .iter()
        .filter(|claimed| **claimed == Claimed::Running)
        .count();
    assert_eq!((first, running), (1, 63));
}

/// The same request gets the answer, another one under the key is told so, and the first answer stays.
pub async fn answer_is_kept_for_the_same_request(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    assert_eq!(take(&storage, claim(account, 1)).await, Claimed::First);
    let other = Claim {
        fingerprint: [2; 32],
        ..claim(account, 2)
    };
    assert_eq!(take(&storage, other.clone()).await, Claimed::Reused);
    let content: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    assert!(!answer(&storage, account, 2, b"not its own").await);
    assert!(answer(&storage, account, 1, &content).await);
    assert!(!answer(&storage, account, 1, b"a second one").await);
    let request = RequestId::from_u128(1);
    let answered = Claimed::Answered { request, content };
    assert_eq!(take(&storage, claim(account, 3)).await, answered);
    assert_eq!(take(&storage, other).await, Claimed::Reused);
    storage.idempotency.release(account, KEY, request).await.unwrap();
    assert_eq!(take(&storage, claim(account, 4)).await, answered);
}

/// What came to nothing may be made again, for something else, too; only its owner gives a key back.
pub async fn released_key_is_claimed_anew(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    assert_eq!(take(&storage, claim(account, 1)).await, Claimed::First);
    let release = async |request| {
        let request = RequestId::from_u128(request);
        storage.idempotency.release(account, KEY, request).await.unwrap();
    };
    release(2).await;
    assert_eq!(take(&storage, claim(account, 2)).await, Claimed::Running);
    release(1).await;
    let other = Claim {
        fingerprint: [2; 32],
        ..claim(account, 3)
    };
    assert_eq!(take(&storage, other).await, Claimed::First);
}

/// A claim that nobody answered is void after its time, an answered one when it expires; then the old owner has nothing
/// to say any more.
pub async fn abandoned_and_expired_claims_are_void(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let later = |request, seconds| Claim {
        now: at(seconds),
        abandoned_at: at(seconds + 60),
        expires_at: at(seconds + 3600),
        ..claim(account, request)
    };
    assert_eq!(take(&storage, claim(account, 1)).await, Claimed::First);
    assert_eq!(take(&storage, later(2, 59)).await, Claimed::Running);
    assert_eq!(take(&storage, later(3, 60)).await, Claimed::First);
    assert!(!answer(&storage, account, 1, b"too late").await);
    assert!(answer(&storage, account, 3, b"in time").await);
    assert!(matches!(
        take(&storage, later(4, 3659)).await,
        Claimed::Answered { .. }
    ));
    assert_eq!(take(&storage, later(5, 3660)).await, Claimed::First);
}

/// The same key of another account is another key.
pub async fn keys_are_of_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    assert_eq!(take(&storage, claim(account, 1)).await, Claimed::First);
    assert_eq!(take(&storage, claim(other, 2)).await, Claimed::First);
    assert!(!answer(&storage, other, 1, b"of the other").await);
    assert!(answer(&storage, account, 1, b"mine").await);
    assert_eq!(take(&storage, claim(other, 3)).await, Claimed::Running);
}

/// The sweep takes what has expired, at most so many.
pub async fn sweep_deletes_what_expired(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for number in 1..=3 {
        let key = [number; 32];
        let expires_at = at(u64::from(number) * 100);
        let request = u128::from(number);
        take(
            &storage,
            Claim {
                key,
                expires_at,
                ..claim(account, request)
            },
        )
        .await;
    }
    let sweep = async |seconds, limit| storage.idempotency.sweep(at(seconds), limit).await.unwrap();
    assert_eq!(sweep(99, 9).await, 0);
    assert_eq!(sweep(200, 1).await, 1);
    assert_eq!(sweep(200, 9).await, 1);
    assert_eq!(sweep(200, 9).await, 0);
    let again = Claim {
        key: [1; 32],
        ..claim(account, 9)
    };
    assert_eq!(take(&storage, again).await, Claimed::First);
}
