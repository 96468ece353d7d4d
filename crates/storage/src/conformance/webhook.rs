//! [`crate::WebhookStore`].

use tollgate_types::{AccountId, JobId, JobStatus};

use super::Factory;
use super::job::{accept, accept_as, claim as job_claim, end, job, lease, leases};
use super::samples::{account, at, at_once, funded, kind, warm_up};
use crate::{
    Delivery, DeliveryClaim, DeliveryOutcome, DeliveryState, JobCancel, LeasedDelivery, NewJob, Storage,
    StorageErrorKind,
};

/// A job of which somebody is told.
fn told(number: u128) -> NewJob {
    NewJob {
        webhook: Some(address(number)),
        ..job(number)
    }
}

fn address(number: u128) -> Vec<u8> {
    format!("https://example.com/{number}").into_bytes()
}

/// Accepts such a job and cancels it: that it has ended is told from this second on.
async fn ended(storage: &Storage, number: u128, account: AccountId, seconds: u64) {
    accept_as(storage, told(number), account).await;
    let cancelled = storage
        .jobs
        .cancel(account, JobId::from_u128(number), at(seconds))
        .await;
    assert!(matches!(cancelled.unwrap(), JobCancel::Cancelled(_)));
}

/// What can be taken at so many seconds, for half a minute.
fn claim(seconds: u64) -> DeliveryClaim {
    DeliveryClaim {
        now: at(seconds),
        until: at(seconds + 30),
        limit: 100,
        per_account: 100,
    }
}

/// The deliveries that are leased, in order of their jobs' numbers.
async fn claimed(storage: &Storage, claim: DeliveryClaim) -> Vec<LeasedDelivery> {
    let mut claimed = storage.webhooks.claim(claim).await.unwrap();
    claimed.sort_by_key(|leased| leased.job.terms.id);
    claimed
}

fn numbers(leased: &[LeasedDelivery]) -> Vec<u128> {
    let number = |leased: &LeasedDelivery| leased.job.terms.id.as_u128();
    leased.iter().map(number).collect()
}

async fn delivery(storage: &Storage, account: AccountId, number: u128) -> Option<Delivery> {
    let found = storage.webhooks.delivery(account, JobId::from_u128(number)).await;
    found.unwrap()
}

fn again(seconds: u64) -> DeliveryOutcome {
    DeliveryOutcome::Again {
        due_at: at(seconds),
        why: "the answer is 503".to_owned(),
    }
}

/// However a job ends, somebody is told from then on, and not before.
pub async fn due_when_its_job_has_ended(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let late = NewJob {
        start_by: Some(at(60)),
        ..told(2)
    };
    accept_as(&storage, late, account).await;
    storage.jobs.expire(at(60), 9).await.unwrap();
    accept_as(&storage, told(1), account).await;
    let leased = lease(&storage, 1, 0).await;
    accept_as(&storage, told(3), account).await;
    accept_as(&storage, told(4), account).await;
    let waiting = Delivery {
        state: DeliveryState::Pending,
        attempts: 0,
        due_at: delivery(&storage, account, 1).await.unwrap().due_at,
        failure: None,
        delivered_at: None,
    };
    assert_eq!(delivery(&storage, account, 1).await, Some(waiting));
    assert_eq!(numbers(&claimed(&storage, claim(100)).await), [2]);
    let completed = end(&leased.job, JobStatus::Completed, 7);
    storage.jobs.finish(leased.lease, completed).await.unwrap();
    let third = JobId::from_u128(3);
    storage.jobs.cancel(account, third, at(110)).await.unwrap();
    let due = claimed(&storage, claim(110)).await;
    assert_eq!(numbers(&due), [1, 3]);
    for leased in due {
        let id = leased.job.terms.id;
        let stored = storage.jobs.get(account, id).await.unwrap();
        assert_eq!(Some(&leased.job), stored.as_ref());
        assert_eq!(leased.job.terms.webhook, Some(address(id.as_u128())));
        assert_eq!(leased.attempt, 1);
    }
}

/// A job that names no address tells nobody, and what is another account's is not there.
pub async fn nobody_is_told_of_other_jobs(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 0).await);
    let id = accept(&storage, 1, account).await.id;
    storage.jobs.cancel(account, id, at(1)).await.unwrap();
    ended(&storage, 2, account, 1).await;
    assert_eq!(delivery(&storage, account, 1).await, None);
    assert_eq!(delivery(&storage, other, 2).await, None);
    assert_eq!(delivery(&storage, account, 3).await, None);
    assert_eq!(numbers(&claimed(&storage, claim(9)).await), [2]);
}

/// However many look at once, each delivery is made by one of them until its lease is over.
pub async fn leased_by_one_at_a_time(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 1_000).await;
    for number in 1..=20 {
        ended(&storage, number, account, 1).await;
    }
    warm_up(&storage, account).await;
    let found = at_once(8, |_| {
        let webhooks = storage.webhooks.clone();
        let some = DeliveryClaim {
            limit: 5,
            ..claim(10)
        };
        Box::pin(async move { webhooks.claim(some).await.unwrap() })
    })
    .await;
    let mut all: Vec<u128> = found.iter().flat_map(|leased| numbers(leased)).collect();
    let before = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), before, "one was leased twice");
    all.extend(numbers(&claimed(&storage, claim(39)).await));
    all.sort_unstable();
    assert_eq!(all, (1..=20).collect::<Vec<_>>());
    // Whoever had them has died.
    let next = claimed(&storage, claim(69)).await;
    assert_eq!(next.len(), 20);
    assert!(next.iter().all(|leased| leased.attempt == 2));
}

/// What did not arrive is sent again when it is due, and the end of an attempt is heard of once.
pub async fn sent_again_until_it_arrives_or_is_given_up(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    ended(&storage, 1, account, 1).await;
    ended(&storage, 2, account, 1).await;
    let first = claimed(&storage, claim(1)).await;
    for leased in &first {
        storage.webhooks.finish(leased, again(6)).await.unwrap();
    }
    let pending = delivery(&storage, account, 1).await.unwrap();
    assert_eq!(
        (pending.state, pending.attempts, pending.due_at),
        (DeliveryState::Pending, 1, at(6))
    );
    assert_eq!(pending.failure.as_deref(), Some("the answer is 503"));
    assert_eq!(claimed(&storage, claim(5)).await, []);
    let second = claimed(&storage, claim(6)).await;
    assert_eq!(numbers(&second), [1, 2]);
    assert_eq!(second[0].attempt, 2);
    // The first attempt is heard of again, too late.
    let arrived = |seconds| DeliveryOutcome::Delivered { at: at(seconds) };
    storage.webhooks.finish(&first[0], arrived(7)).await.unwrap();
    assert_eq!(
        delivery(&storage, account, 1).await.unwrap().state,
        DeliveryState::Pending
    );
    storage.webhooks.finish(&second[0], arrived(8)).await.unwrap();
    storage.webhooks.finish(&second[0], again(9)).await.unwrap();
    let gone = DeliveryOutcome::Failed {
        why: "the answer is 410".to_owned(),
    };
    storage.webhooks.finish(&second[1], gone).await.unwrap();
    let delivered = delivery(&storage, account, 1).await.unwrap();
    assert_eq!(
        (delivered.state, delivered.delivered_at, delivered.failure),
        (DeliveryState::Delivered, Some(at(8)), None)
    );
    let failed = delivery(&storage, account, 2).await.unwrap();
    assert_eq!((failed.state, failed.delivered_at), (DeliveryState::Failed, None));
    assert_eq!(failed.failure.as_deref(), Some("the answer is 410"));
    assert_eq!(claimed(&storage, claim(900_000)).await, []);
}

/// Everybody's first comes before anybody's second, and no account has more on its way at once than it may.
pub async fn who_has_least_comes_first(factory: Factory) {
    let storage = factory.open().await;
    let (greedy, modest) = (funded(&storage, 1, 1_000).await, funded(&storage, 2, 100).await);
    for number in 1..=6 {
        ended(&storage, number, greedy, 1).await;
    }
    for number in 7..=8 {
        ended(&storage, number, modest, 1).await;
    }
    let some = |limit, per_account| DeliveryClaim {
        limit,
        per_account,
        ..claim(10)
    };
    let first = claimed(&storage, some(3, 9)).await;
    assert_eq!(numbers(&first), [1, 2, 7]);
    assert_eq!(numbers(&claimed(&storage, some(1, 9)).await), [8]);
    assert_eq!(numbers(&claimed(&storage, some(9, 3)).await), [3]);
    assert_eq!(claimed(&storage, some(9, 3)).await, []);
    // What waits to be sent again is not on its way.
    storage.webhooks.finish(&first[0], again(500)).await.unwrap();
    assert_eq!(numbers(&claimed(&storage, some(9, 3)).await), [4]);
}

/// A job is not forgotten before it is told that it has ended.
pub async fn kept_until_it_is_told(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    ended(&storage, 1, account, 1).await;
    ended(&storage, 2, account, 1).await;
    let leased = claimed(&storage, claim(1)).await;
    let arrived = DeliveryOutcome::Delivered { at: at(2) };
    storage.webhooks.finish(&leased[1], arrived).await.unwrap();
    assert_eq!(storage.jobs.sweep(at(900), 9).await.unwrap(), 1);
    assert!(delivery(&storage, account, 1).await.is_some());
    assert_eq!(delivery(&storage, account, 2).await, None);
}

/// What was to be told when the process ended is told by the next one, and so is what was on its way.
pub async fn due_again_after_reopening(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept_as(&storage, told(1), account).await;
    let leased = leases(&storage, job_claim(1, 0)).await.remove(0);
    let completed = end(&leased.job, JobStatus::Completed, 7);
    storage.jobs.finish(leased.lease, completed).await.unwrap();
    ended(&storage, 2, account, 1).await;
    let one = DeliveryClaim { limit: 1, ..claim(1) };
    assert_eq!(numbers(&claimed(&storage, one).await), [1]);
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    let due = claimed(&storage, claim(31)).await;
    assert_eq!(numbers(&due), [1, 2]);
    assert_eq!((due[0].attempt, due[1].attempt), (2, 1));
    assert_eq!(due[0].job.status, JobStatus::Completed);
}

/// An account's first secret needs no row; each one after it has the next number, and is nobody else's.
pub async fn one_secret_after_another(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1).await, funded(&storage, 2, 1).await);
    assert_eq!(storage.webhooks.secret(one).await.unwrap(), 1);
    let renewed = at_once(4, |_| {
        let webhooks = storage.webhooks.clone();
        Box::pin(async move { webhooks.renew_secret(one).await.unwrap() })
    })
    .await;
    let mut renewed: Vec<u32> = renewed.into_iter().collect();
    renewed.sort_unstable();
    assert_eq!(renewed, [2, 3, 4, 5]);
    assert_eq!(storage.webhooks.secret(one).await.unwrap(), 5);
    assert_eq!(storage.webhooks.secret(other).await.unwrap(), 1);
    let nobody = storage.webhooks.renew_secret(account(99).id).await;
    assert_eq!(kind(nobody), StorageErrorKind::NotFound);
}
