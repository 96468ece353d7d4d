//! Cases for the caps of single kinds of jobs: [`crate::KindCap`].

use std::ops::RangeInclusive;
use std::sync::Arc;

use tollgate_types::{AccountId, JobStatus};

use super::Factory;
use super::job::{accept, accept_as, claim, end, job, leases, numbers};
use super::samples::{concurrently, funded, warm_up};
use crate::{JobClaim, KindCap, LeasedJob, NewJob, Storage};

const CAPPED: &str = "research";

/// Makes a claim of a worker with a cap for [`CAPPED`] jobs.
fn capped(worker: u128, seconds: u64, (per_account, per_worker): (u32, u32)) -> JobClaim {
    JobClaim {
        caps: Arc::from([KindCap {
            kind: Arc::from(CAPPED),
            per_account,
            per_worker,
        }]),
        ..claim(worker, seconds)
    }
}

/// Accepts jobs of the capped kind.
async fn accept_capped(storage: &Storage, numbers: RangeInclusive<u128>, account: AccountId) {
    for number in numbers {
        let capped = NewJob {
            kind: Arc::from(CAPPED),
            ..job(number)
        };
        accept_as(storage, capped, account).await;
    }
}

async fn leased(storage: &Storage, claim: JobClaim) -> Vec<u128> {
    numbers(&leases(storage, claim).await)
}

async fn finish(storage: &Storage, leased: &LeasedJob) {
    let completed = end(&leased.job, JobStatus::Completed, 7);
    storage.jobs.finish(leased.lease, completed).await.unwrap();
}

/// Checks that no account and no worker exceeds a cap, that the cap per account covers all workers,
/// and that a finished job frees its slot.
pub async fn caps_hold_per_account_and_worker(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1_000).await, funded(&storage, 2, 1_000).await);
    accept_capped(&storage, 1..=4, one).await;
    accept_capped(&storage, 5..=7, other).await;
    let caps = (2, 3);
    let first = leases(&storage, capped(1, 10, caps)).await;
    assert_eq!(numbers(&first), [1, 2, 5], "first jobs of both accounts first");
    assert!(leased(&storage, capped(1, 10, caps)).await.is_empty());
    assert_eq!(leased(&storage, capped(2, 10, caps)).await, [6]);
    assert!(leased(&storage, capped(2, 10, caps)).await.is_empty());
    finish(&storage, &first[0]).await;
    assert_eq!(leased(&storage, capped(2, 11, caps)).await, [3]);
    finish(&storage, &first[2]).await;
    assert_eq!(leased(&storage, capped(1, 11, caps)).await, [7]);
    assert!(leased(&storage, capped(1, 11, caps)).await.is_empty());
    assert_eq!(leased(&storage, claim(3, 11)).await, [4], "a claim without caps");
}

/// Checks that jobs beyond a cap delay neither jobs of other kinds nor jobs of other accounts, even
/// if the account or the worker has a single free slot.
pub async fn capped_jobs_block_no_others(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1_000).await, funded(&storage, 2, 1_000).await);
    accept_capped(&storage, 1..=9, one).await;
    accept(&storage, 10, one).await;
    accept_capped(&storage, 11..=12, other).await;
    let limited = |worker, caps, per_account| JobClaim {
        per_account,
        ..capped(worker, 10, caps)
    };
    assert_eq!(leased(&storage, limited(1, (1, 9), 2)).await, [1, 10, 11]);
    accept(&storage, 13, other).await;
    // The worker has no free slot for the kind.
    assert_eq!(leased(&storage, limited(1, (9, 2), 2)).await, [13]);
    assert_eq!(leased(&storage, limited(2, (9, 1), 3)).await, [2]);
    // The first account has reached its maximum, so that its older jobs take no slot of the worker.
    assert_eq!(leased(&storage, limited(3, (9, 1), 3)).await, [12]);
}

/// Checks that the jobs of a dead worker count until their leases expire, and then are leased
/// before queued jobs.
pub async fn expired_leases_free_capped_slots(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 1_000).await;
    accept_capped(&storage, 1..=4, account).await;
    let caps = (2, 2);
    assert_eq!(leased(&storage, capped(1, 0, caps)).await, [1, 2]);
    assert!(leased(&storage, capped(2, 29, caps)).await.is_empty());
    let taken = leases(&storage, capped(2, 30, caps)).await;
    assert_eq!(numbers(&taken), [1, 2]);
    assert!(taken.iter().all(|taken| taken.deaths == 1));
    assert!(leased(&storage, capped(3, 30, caps)).await.is_empty());
    finish(&storage, &taken[1]).await;
    assert_eq!(leased(&storage, capped(3, 31, caps)).await, [3]);
}

/// Checks that several caps of one claim are independent, and a cap of zero leases no job.
pub async fn each_kind_has_its_cap(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 1_000).await;
    accept_capped(&storage, 1..=3, account).await;
    for number in 4..=6 {
        accept(&storage, number, account).await;
    }
    let cap = |kind: &str, per_account, per_worker| KindCap {
        kind: Arc::from(kind),
        per_account,
        per_worker,
    };
    let with = |caps: [KindCap; 2]| JobClaim {
        caps: Arc::from(caps),
        ..claim(1, 10)
    };
    let images = "image.generation";
    let none = with([cap(CAPPED, 0, 9), cap(images, 9, 0)]);
    assert!(leased(&storage, none).await.is_empty());
    let some = with([cap(CAPPED, 2, 9), cap(images, 9, 1)]);
    assert_eq!(leased(&storage, some).await, [1, 2, 4]);
}

/// Checks that concurrent claims respect the caps.
pub async fn concurrent_claims_respect_caps(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 10_000).await;
    accept_capped(&storage, 1..=40, account).await;
    warm_up(&storage, account).await;
    let claimed = concurrently(16, |worker| {
        let jobs = storage.jobs.clone();
        let claim = capped(worker as u128 + 1, 10, (25, 3));
        Box::pin(async move { jobs.claim(claim).await.unwrap() })
    })
    .await;
    assert!(claimed.iter().all(|leased| leased.len() <= 3));
    let mut all: Vec<u128> = claimed.iter().flat_map(|leased| numbers(leased)).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=25).collect::<Vec<_>>());
}
