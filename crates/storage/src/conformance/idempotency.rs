//! Cases for [`crate::IdempotencyStore`].

use tollgate_types::{AccountId, RequestId};

use super::Factory;
use super::samples::{START, at, concurrently, funded};
use crate::{Claim, ClaimOutcome, Storage};

const KEY: [u8; 32] = [7; 32];

/// Makes a claim at [`START`], abandoned after a minute and expired after an hour.
pub(super) fn claim(account: AccountId, request: u128) -> Claim {
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

async fn take(storage: &Storage, claim: Claim) -> ClaimOutcome {
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

/// Checks that, of many concurrent claims, one is first, and the others return `Running`.
pub async fn one_claim_is_first(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let claimed = concurrently(64, |number| {
        let (store, claim) = (storage.idempotency.clone(), claim(account, number as u128));
        Box::pin(async move { store.claim(claim).await.unwrap() })
    })
    .await;
    let first = claimed
        .iter()
        .filter(|claimed| **claimed == ClaimOutcome::First)
        .count();
    let running = claimed
        .iter()
        .filter(|claimed| **claimed == ClaimOutcome::Running)
        .count();
    assert_eq!((first, running), (1, 63));
}

/// Checks that the same request receives the stored response, that another request with the key
/// receives `Reused`, and that the first response remains.
pub async fn answer_is_replayed_for_the_same_request(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    assert_eq!(take(&storage, claim(account, 1)).await, ClaimOutcome::First);
    let other = Claim {
        fingerprint: [2; 32],
        ..claim(account, 2)
    };
    assert_eq!(take(&storage, other.clone()).await, ClaimOutcome::Reused);
    let content: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    assert!(!answer(&storage, account, 2, b"not its own").await);
    assert!(answer(&storage, account, 1, &content).await);
    assert!(!answer(&storage, account, 1, b"a second one").await);
    let request = RequestId::from_u128(1);
    let answered = ClaimOutcome::Answered { request, content };
    assert_eq!(take(&storage, claim(account, 3)).await, answered);
    assert_eq!(take(&storage, other).await, ClaimOutcome::Reused);
    storage.idempotency.release(account, KEY, request).await.unwrap();
    assert_eq!(take(&storage, claim(account, 4)).await, answered);
}

/// Checks that a released key can be claimed again, even for another request, and that only the
/// owner of a claim can release it.
pub async fn released_key_is_claimed_anew(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    assert_eq!(take(&storage, claim(account, 1)).await, ClaimOutcome::First);
    let release = async |request| {
        let request = RequestId::from_u128(request);
        storage.idempotency.release(account, KEY, request).await.unwrap();
    };
    release(2).await;
    assert_eq!(take(&storage, claim(account, 2)).await, ClaimOutcome::Running);
    release(1).await;
    let other = Claim {
        fingerprint: [2; 32],
        ..claim(account, 3)
    };
    assert_eq!(take(&storage, other).await, ClaimOutcome::First);
}

/// Checks that a claim without a response is void once it is abandoned, and a claim with a response
/// when it expires; its owner can then no longer store a response.
pub async fn abandoned_and_expired_claims_are_void(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let later = |request, seconds| Claim {
        now: at(seconds),
        abandoned_at: at(seconds + 60),
        expires_at: at(seconds + 3600),
        ..claim(account, request)
    };
    assert_eq!(take(&storage, claim(account, 1)).await, ClaimOutcome::First);
    assert_eq!(take(&storage, later(2, 59)).await, ClaimOutcome::Running);
    assert_eq!(take(&storage, later(3, 60)).await, ClaimOutcome::First);
    assert!(!answer(&storage, account, 1, b"too late").await);
    assert!(answer(&storage, account, 3, b"in time").await);
    assert!(matches!(
        take(&storage, later(4, 3659)).await,
        ClaimOutcome::Answered { .. }
    ));
    assert_eq!(take(&storage, later(5, 3660)).await, ClaimOutcome::First);
}

/// Checks that accounts have separate keys.
pub async fn keys_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    assert_eq!(take(&storage, claim(account, 1)).await, ClaimOutcome::First);
    assert_eq!(take(&storage, claim(other, 2)).await, ClaimOutcome::First);
    assert!(!answer(&storage, other, 1, b"of the other").await);
    assert!(answer(&storage, account, 1, b"mine").await);
    assert_eq!(take(&storage, claim(other, 3)).await, ClaimOutcome::Running);
}

/// Checks that the sweep deletes expired claims, up to the limit.
pub async fn sweep_deletes_expired_rows(factory: Factory) {
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
    assert_eq!(take(&storage, again).await, ClaimOutcome::First);
}
