//! Cases for [`crate::WebhookStore`].

use tollgate_types::{AccountId, JobId, JobStatus};

use super::Factory;
use super::job::{accept, accept_as, claim as job_claim, end, job, lease, leases};
use super::samples::{account, at, concurrently, funded, kind, warm_up};
use crate::{
    Delivery, DeliveryClaim, DeliveryOutcome, DeliveryState, JobCancel, LeasedDelivery, NewJob, Storage,
    StorageErrorKind,
};

/// Makes a job with a webhook address.
fn with_webhook(number: u128) -> NewJob {
    NewJob {
        webhook: Some(address(number)),
        ..job(number)
    }
}

fn address(number: u128) -> Vec<u8> {
    format!("https://example.com/{number}").into_bytes()
}

/// Accepts a job with a webhook and cancels the job: its delivery is due from this second.
async fn ended(storage: &Storage, number: u128, account: AccountId, seconds: u64) {
    accept_as(storage, with_webhook(number), account).await;
    let cancelled = storage
        .jobs
        .cancel(account, JobId::from_u128(number), at(seconds))
        .await;
    assert!(matches!(cancelled.unwrap(), JobCancel::Cancelled(_)));
}

/// Makes a claim at this second, with leases of 30 seconds.
fn claim(seconds: u64) -> DeliveryClaim {
    DeliveryClaim {
        now: at(seconds),
        until: at(seconds + 30),
        limit: 100,
        per_account: 100,
    }
}

/// Leases deliveries and sorts them by the number of their job.
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

fn retry_at(seconds: u64) -> DeliveryOutcome {
    DeliveryOutcome::Retry {
        due_at: at(seconds),
        why: "the endpoint returned 503".to_owned(),
    }
}

/// Checks that a delivery postponed by a fast clock is due once the clock is right.
pub async fn deliveries_dated_by_a_fast_clock_are_due(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    for number in 1..=2 {
        accept_as(&storage, with_webhook(number), account).await;
        let leased = lease(&storage, 1, 0).await;
        let completed = end(&leased.job, JobStatus::Completed, 7);
        storage.jobs.finish(leased.lease, completed).await.unwrap();
    }
    let sent = claimed(&storage, claim(100)).await;
    for (leased, due) in sent.iter().zip([30 * 24 * 3_600, 27 * 3_600]) {
        storage.webhooks.finish(leased, retry_at(due)).await.unwrap();
    }
    let due = claimed(&storage, claim(110)).await;
    assert_eq!(numbers(&due), [1], "the longest wait is not over");
}

/// Checks that a delivery is due once its job has ended, regardless of the outcome, and not before.
pub async fn due_when_its_job_has_ended(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let late = NewJob {
        start_by: Some(at(60)),
        ..with_webhook(2)
    };
    accept_as(&storage, late, account).await;
    storage.jobs.expire(at(60), 9).await.unwrap();
    accept_as(&storage, with_webhook(1), account).await;
    let leased = lease(&storage, 1, 0).await;
    accept_as(&storage, with_webhook(3), account).await;
    accept_as(&storage, with_webhook(4), account).await;
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

/// Checks that a job without an address has no delivery; deliveries of other accounts are not
/// found.
pub async fn jobs_without_a_webhook_have_no_delivery(factory: Factory) {
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

/// Checks that, of concurrent claims, one leases a delivery, and no other does until its lease
/// expires.
pub async fn leased_by_one_at_a_time(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 1_000).await;
    for number in 1..=20 {
        ended(&storage, number, account, 1).await;
    }
    warm_up(&storage, account).await;
    let found = concurrently(8, |_| {
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
    // The process with the first leases has died.
    let next = claimed(&storage, claim(69)).await;
    assert_eq!(next.len(), 20);
    assert!(next.iter().all(|leased| leased.attempt == 2));
}

/// Checks that a failed delivery is repeated when it is due, and the outcome of an attempt is
/// recorded once.
pub async fn failed_deliveries_are_retried(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    ended(&storage, 1, account, 1).await;
    ended(&storage, 2, account, 1).await;
    let first = claimed(&storage, claim(1)).await;
    for leased in &first {
        storage.webhooks.finish(leased, retry_at(6)).await.unwrap();
    }
    let pending = delivery(&storage, account, 1).await.unwrap();
    assert_eq!(
        (pending.state, pending.attempts, pending.due_at),
        (DeliveryState::Pending, 1, at(6))
    );
    assert_eq!(pending.failure.as_deref(), Some("the endpoint returned 503"));
    assert_eq!(claimed(&storage, claim(5)).await, []);
    let second = claimed(&storage, claim(6)).await;
    assert_eq!(numbers(&second), [1, 2]);
    assert_eq!(second[0].attempt, 2);
    // The first attempt reports its outcome again, too late.
    let arrived = |seconds| DeliveryOutcome::Delivered { at: at(seconds) };
    storage.webhooks.finish(&first[0], arrived(7)).await.unwrap();
    assert_eq!(
        delivery(&storage, account, 1).await.unwrap().state,
        DeliveryState::Pending
    );
    storage.webhooks.finish(&second[0], arrived(8)).await.unwrap();
    storage.webhooks.finish(&second[0], retry_at(9)).await.unwrap();
    let gone = DeliveryOutcome::Failed {
        why: "the endpoint returned 410".to_owned(),
    };
    storage.webhooks.finish(&second[1], gone).await.unwrap();
    let delivered = delivery(&storage, account, 1).await.unwrap();
    assert_eq!(
        (delivered.state, delivered.delivered_at, delivered.failure),
        (DeliveryState::Delivered, Some(at(8)), None)
    );
    let failed = delivery(&storage, account, 2).await.unwrap();
    assert_eq!((failed.state, failed.delivered_at), (DeliveryState::Failed, None));
    assert_eq!(failed.failure.as_deref(), Some("the endpoint returned 410"));
    assert_eq!(claimed(&storage, claim(900_000)).await, []);
}

/// Checks that the first deliveries of all accounts come before second ones, and no account exceeds
/// its limit of leased deliveries.
pub async fn accounts_take_turns(factory: Factory) {
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
    // A delivery that waits for a retry does not count as leased.
    storage.webhooks.finish(&first[0], retry_at(500)).await.unwrap();
    assert_eq!(numbers(&claimed(&storage, some(9, 3)).await), [4]);
}

/// Checks that a job is not deleted before its delivery has ended.
pub async fn jobs_stay_until_delivered(factory: Factory) {
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

/// Checks that due and leased deliveries of a dead process are made by the next one.
pub async fn due_again_after_reopening(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept_as(&storage, with_webhook(1), account).await;
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

/// Checks that the first secret of an account needs no row; each later one has the next number, and
/// accounts are independent.
pub async fn secrets_are_numbered(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1).await, funded(&storage, 2, 1).await);
    assert_eq!(storage.webhooks.secret(one).await.unwrap(), 1);
    let renewed = concurrently(4, |_| {
        let webhooks = storage.webhooks.clone();
        Box::pin(async move { webhooks.renew_secret(one).await.unwrap() })
    })
    .await;
    let mut renewed: Vec<u32> = renewed.into_iter().collect();
    renewed.sort_unstable();
    assert_eq!(renewed, [2, 3, 4, 5]);
    assert_eq!(storage.webhooks.secret(one).await.unwrap(), 5);
    assert_eq!(storage.webhooks.secret(other).await.unwrap(), 1);
    let unknown_account = storage.webhooks.renew_secret(account(99).id).await;
    assert_eq!(kind(unknown_account), StorageErrorKind::NotFound);
}

/// Checks that the deliveries of ended jobs are listed in pages, and are due again on request,
/// unless an attempt is in progress.
pub async fn listed_and_delivered_again(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 100).await);
    for number in 1..=3 {
        ended(&storage, number, account, 1).await;
    }
    ended(&storage, 4, other, 1).await;
    let silent = accept(&storage, 5, account).await.id;
    storage.jobs.cancel(account, silent, at(1)).await.unwrap();
    accept_as(&storage, with_webhook(6), account).await;
    let page = async |before: Option<u128>, limit| {
        let found = storage
            .webhooks
            .list(account, before.map(JobId::from_u128), limit)
            .await;
        let found = found.unwrap().into_iter();
        found.map(|one| one.job.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 9).await, [3, 2, 1]);
    assert_eq!(page(None, 2).await, [3, 2]);
    assert_eq!(page(Some(2), 9).await, [1]);

    let again = async |account, number, seconds| {
        let job = JobId::from_u128(number);
        let found = storage.webhooks.redeliver(account, job, at(seconds)).await;
        found.unwrap().map(|one| one.delivery)
    };
    let sent = claimed(&storage, claim(10)).await;
    assert_eq!(numbers(&sent), [1, 2, 3, 4]);
    let busy = again(account, 1, 20).await.unwrap();
    assert_eq!(busy.due_at, at(40), "the attempt continues");
    let delivered = DeliveryOutcome::Delivered { at: at(12) };
    let failed = DeliveryOutcome::Failed {
        why: "the endpoint returned 410".to_owned(),
    };
    storage.webhooks.finish(&sent[0], delivered).await.unwrap();
    storage.webhooks.finish(&sent[1], failed).await.unwrap();
    storage.webhooks.finish(&sent[2], retry_at(900)).await.unwrap();
    for number in 1..=3 {
        let due = again(account, number, 30).await.unwrap();
        assert_eq!(
            (due.state, due.attempts, due.due_at, due.delivered_at),
            (DeliveryState::Pending, 1, at(30), None),
            "{number}"
        );
    }
    let next = claimed(&storage, claim(30)).await;
    assert_eq!(numbers(&next), [1, 2, 3]);
    assert!(next.iter().all(|leased| leased.attempt == 2));
    // The lease of a process that has died does not stop a new request.
    assert_eq!(again(account, 1, 60).await.unwrap().due_at, at(60));
    for (account, number) in [(account, 4), (account, 5), (account, 6), (account, 7), (other, 1)] {
        assert_eq!(again(account, number, 30).await, None, "{number}");
    }
}
