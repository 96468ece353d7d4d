//! Cases for [`crate::JobStore`].

use std::sync::Arc;

use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, ErrorCode, JobId, JobStatus, MemberId, Principal, StepState, Timestamp, WorkerId,
};

use super::samples::{
    START, at, concurrently, funded, hold, kind, nanos, plan, settlement, subscribe, warm_up,
};
use super::{Factory, LedgerSnapshot};
use crate::audit::{Leg, MAX_EARLY_RELEASES};
use crate::{
    Balance, HoldOutcome, Job, JobActivity, JobAdvance, JobCancel, JobClaim, JobEnd, JobError, JobFilter,
    JobLease, JobSearch, JobStep, LeasedJob, LedgerAccount, NewHold, NewJob, NewJobEvent, Payer, Storage,
    StorageErrorKind,
};

pub(super) fn job(number: u128) -> NewJob {
    NewJob {
        id: JobId::from_u128(number),
        kind: Arc::from("image.generation"),
        body: format!("what is asked for in {number}").into_bytes(),
        start_by: None,
        webhook: None,
    }
}

/// Accepts a job with a hold of 10 nano-credits.
pub(super) async fn accept(storage: &Storage, number: u128, account: AccountId) -> NewJob {
    accept_as(storage, job(number), account).await
}

pub(super) async fn accept_as(storage: &Storage, job: NewJob, account: AccountId) -> NewJob {
    let hold = hold(job.id.as_u128(), account, 10);
    let accepted = storage.jobs.accept(job.clone(), hold).await.unwrap();
    assert!(matches!(accepted, HoldOutcome::Held { .. }), "{accepted:?}");
    job
}

async fn get(storage: &Storage, account: AccountId, number: u128) -> Job {
    let found = storage.jobs.get(account, JobId::from_u128(number)).await;
    found.unwrap().unwrap()
}

/// Makes a claim of a worker at this second, with leases of 30 seconds.
pub(super) fn claim(worker: u128, seconds: u64) -> JobClaim {
    JobClaim {
        worker: WorkerId::from_u128(worker),
        now: at(seconds),
        until: at(seconds + 30),
        limit: 100,
        per_account: 100,
        caps: Arc::default(),
    }
}

/// Leases jobs and sorts them by number.
pub(super) async fn leases(storage: &Storage, claim: JobClaim) -> Vec<LeasedJob> {
    let mut leased = storage.jobs.claim(claim).await.unwrap();
    leased.sort_by_key(|leased| leased.job.terms.id);
    leased
}

/// Leases the only job.
pub(super) async fn lease(storage: &Storage, worker: u128, seconds: u64) -> LeasedJob {
    let mut leased = leases(storage, claim(worker, seconds)).await;
    assert_eq!(leased.len(), 1);
    leased.remove(0)
}

pub(super) fn numbers(leased: &[LeasedJob]) -> Vec<u128> {
    leased
        .iter()
        .map(|leased| leased.job.terms.id.as_u128())
        .collect()
}

/// Makes the end of a job from [`accept`].
pub(super) fn end(job: &Job, status: JobStatus, charge: i64) -> JobEnd {
    let hold = hold(job.hold.as_u128(), job.account, 10);
    JobEnd {
        status,
        result: Some(b"an image".to_vec()),
        error: None,
        settlement: settlement(&hold, charge),
        parts: Vec::new(),
        events: Vec::new(),
    }
}

fn step(number: u32, state: StepState, attempt: u32) -> JobStep {
    JobStep {
        number,
        state,
        attempt,
        handle: format!("handle {number}").into_bytes(),
        outcome: vec![0, 255],
    }
}

async fn write(storage: &Storage, lease: JobLease, step: JobStep) -> crate::Result<()> {
    let advance = JobAdvance {
        step: Some(step),
        ..JobAdvance::default()
    };
    storage.jobs.advance(lease, advance, at(2)).await
}

async fn kinds(storage: &Storage, account: AccountId, number: u128, after: u64) -> Vec<(u64, String)> {
    let id = JobId::from_u128(number);
    let events = storage.jobs.events(account, id, after, 100).await.unwrap();
    let named = events
        .iter()
        .map(|event| (event.sequence, event.kind.to_string()));
    named.collect()
}

/// Checks that a job is read back as accepted; its hold is in the ledger and does not expire.
pub async fn accepted_with_its_hold(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let mut whole = job(5);
    (whole.body, whole.start_by) = ((0..=255).collect(), Some(at(60)));
    whole.webhook = Some((0..=255).collect());
    let terms = NewHold {
        principal: Some(Principal::Member(MemberId::from_u128(7))),
        ..hold(5, account, 10)
    };
    let accepted = storage.jobs.accept(whole.clone(), terms.clone()).await.unwrap();
    assert!(matches!(accepted, HoldOutcome::Held { .. }), "{accepted:?}");
    let found = get(&storage, account, 5).await;
    let expected = Job {
        terms: whole,
        account,
        principal: terms.principal,
        request: terms.request,
        hold: terms.id,
        held: nanos(10),
        price_version: terms.price_version,
        model: terms.model,
        status: JobStatus::Queued,
        phase: Arc::from(""),
        progress: None,
        result: None,
        error: None,
        cancel_requested: false,
        created_at: START,
        started_at: None,
        completed_at: None,
        charge: None,
        usage: tollgate_types::Usage::ZERO,
        last_event: 1,
    };
    assert_eq!(found, expected);
    let held = Balance {
        credits: nanos(90),
        held: nanos(10),
    };
    assert_eq!(storage.ledger.balance(account).await.unwrap(), held);
    let ages = at(100 * 365 * 24 * 3_600);
    assert_eq!(storage.ledger.sweep(ages, 10).await.unwrap(), 0);
    assert_eq!(LedgerSnapshot::read(&storage).await.of(account).holds.len(), 1);
}

/// Checks that a denied hold stores no job.
pub async fn denied_jobs_write_nothing(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 9).await;
    let before = LedgerSnapshot::read(&storage).await;
    let denied = storage.jobs.accept(job(5), hold(5, account, 10)).await.unwrap();
    assert_eq!(denied, HoldOutcome::Denied { available: nanos(9) });
    let found = storage.jobs.get(account, JobId::from_u128(5)).await.unwrap();
    assert_eq!(found, None);
    before.assert_unchanged(&storage).await;
    let unknown_account = AccountId::from_u128(99);
    let accepted = storage.jobs.accept(job(6), hold(6, unknown_account, 10)).await;
    assert_eq!(kind(accepted), StorageErrorKind::NotFound);
}

/// Checks that an id is used once; the second attempt holds no credits.
pub async fn same_id_is_a_conflict(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let again = storage.jobs.accept(job(5), hold(6, account, 10)).await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);
    let again = storage.jobs.accept(job(6), hold(5, account, 10)).await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);
    assert_eq!(storage.ledger.balance(account).await.unwrap().held, nanos(10));
    assert_eq!(
        storage.jobs.get(account, JobId::from_u128(6)).await.unwrap(),
        None
    );
}

/// Checks that jobs of other accounts are not found.
pub async fn jobs_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 0).await);
    let id = accept(&storage, 5, account).await.id;
    assert_eq!(storage.jobs.get(other, id).await.unwrap(), None);
    let all = storage.jobs.list(other, JobFilter::default(), 9).await.unwrap();
    assert_eq!(all, []);
    assert_eq!(storage.jobs.events(other, id, 0, 9).await.unwrap(), []);
    let cancelled = storage.jobs.cancel(other, id, at(1)).await;
    assert_eq!(kind(cancelled), StorageErrorKind::NotFound);
    assert_eq!(get(&storage, account, 5).await.status, JobStatus::Queued);
}

/// Checks that jobs are listed newest first, in pages, by kind and by status.
pub async fn listed_in_pages(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    for number in 1..=4 {
        accept(&storage, number, account).await;
    }
    let mut video = job(5);
    video.kind = Arc::from("video.generation");
    accept_as(&storage, video, account).await;
    storage
        .jobs
        .cancel(account, JobId::from_u128(3), at(1))
        .await
        .unwrap();
    let list = async |filter: JobFilter, limit| -> Vec<u128> {
        let jobs = storage.jobs.list(account, filter, limit).await.unwrap();
        jobs.iter().map(|job| job.terms.id.as_u128()).collect()
    };
    let all = JobFilter::default();
    assert_eq!(list(all.clone(), 2).await, [5, 4]);
    let before = Some(JobId::from_u128(4));
    assert_eq!(
        list(
            JobFilter {
                before,
                ..all.clone()
            },
            9
        )
        .await,
        [3, 2, 1]
    );
    let after = Some(JobId::from_u128(2));
    assert_eq!(
        list(JobFilter { after, ..all.clone() }, 2).await,
        [4, 3],
        "those next to it"
    );
    let between = JobFilter {
        before,
        after,
        ..all.clone()
    };
    assert_eq!(list(between, 9).await, [3]);
    let kind = Some("image.generation".to_owned());
    assert_eq!(list(JobFilter { kind, ..all.clone() }, 9).await, [4, 3, 2, 1]);
    let status = Some(JobStatus::Cancelled);
    assert_eq!(list(JobFilter { status, ..all }, 9).await, [3]);
}

/// Checks that operators search jobs of all accounts, with every filter.
pub async fn search_covers_every_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 100).await);
    accept(&storage, 1, account).await;
    accept(&storage, 2, other).await;
    let mut video = job(3);
    video.kind = Arc::from("video.generation");
    accept_as(&storage, video, account).await;
    let mut ended = job(4);
    ended.kind = Arc::from("research");
    accept_as(&storage, ended, other).await;
    let ended = JobId::from_u128(4);
    storage.jobs.cancel(other, ended, at(1)).await.unwrap();
    let found = async |search: JobSearch, limit| -> Vec<u128> {
        let jobs = storage.jobs.search(search, limit).await.unwrap();
        jobs.iter().map(|job| job.terms.id.as_u128()).collect()
    };
    let all = JobSearch::default();
    assert_eq!(found(all.clone(), 9).await, [4, 3, 2, 1]);
    assert_eq!(found(all.clone(), 2).await, [4, 3]);
    let of = |number| Some(JobId::from_u128(number));
    for (search, expected) in [
        (
            JobSearch {
                account: Some(account),
                ..all.clone()
            },
            &[3, 1][..],
        ),
        (
            JobSearch {
                kind: Some("image.generation".to_owned()),
                ..all.clone()
            },
            &[2, 1],
        ),
        (
            JobSearch {
                before: of(2),
                ..all.clone()
            },
            &[1],
        ),
        (
            JobSearch {
                id: of(2),
                ..all.clone()
            },
            &[2],
        ),
        (
            JobSearch {
                is_unfinished: true,
                ..all.clone()
            },
            &[3, 2, 1],
        ),
        (
            JobSearch {
                id: of(2),
                account: Some(account),
                ..all
            },
            &[],
        ),
    ] {
        assert_eq!(found(search.clone(), 9).await, expected, "{search:?}");
    }
}

/// Checks that a job has one lease at a time. After its expiry the next worker leases the job, the
/// death is counted, and writes of the first worker are refused.
pub async fn leased_by_one_at_a_time(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let first = lease(&storage, 1, 10).await;
    assert_eq!((first.deaths, first.lease.epoch), (0, 1));
    assert_eq!(first.job.status, JobStatus::InProgress);
    assert_eq!(first.job.started_at, Some(at(10)));
    assert!(leases(&storage, claim(2, 39)).await.is_empty());
    let second = lease(&storage, 2, 40).await;
    assert_eq!((second.deaths, second.lease.epoch), (1, 2));
    assert_eq!(second.job.started_at, Some(at(10)));
    let late = storage
        .jobs
        .advance(first.lease, JobAdvance::default(), at(41))
        .await;
    assert_eq!(kind(late), StorageErrorKind::Conflict);
    let late = storage.jobs.release(first.lease, at(41)).await;
    assert_eq!(kind(late), StorageErrorKind::Conflict);
    let late = storage
        .jobs
        .finish(first.lease, end(&first.job, JobStatus::Completed, 7))
        .await;
    assert_eq!(kind(late), StorageErrorKind::Conflict);
    assert_eq!(storage.ledger.balance(account).await.unwrap().held, nanos(10));
    write(&storage, second.lease, step(0, StepState::Intended, 1))
        .await
        .unwrap();
    let third = lease(&storage, 1, 70).await;
    assert_eq!(
        (third.deaths, third.lease.epoch),
        (1, 3),
        "a step forward was no death"
    );
}

/// Checks that a death counts if the process worked on the job; beyond two deaths, only if the
/// process worked on no other job.
pub async fn deaths_count_while_working(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let (waiting, working, alone) = (
        JobActivity::Waiting,
        JobActivity::Working,
        JobActivity::WorkingAlone,
    );
    let first = lease(&storage, 1, 0).await;
    assert_eq!((first.deaths, first.activity), (0, working));
    let mut before = first.lease;
    for (worker, (written, deaths, resumes_as)) in (2..).zip([
        (None, 1, working),
        (Some(waiting), 1, waiting),
        (None, 1, waiting),
        (Some(working), 2, working),
        (None, 2, working),
        (Some(waiting), 2, waiting),
        (Some(alone), 3, working),
    ]) {
        let advance = JobAdvance {
            activity: written,
            ..JobAdvance::default()
        };
        storage.jobs.advance(before, advance, at(1)).await.unwrap();
        let next = lease(&storage, worker, 40 * worker as u64).await;
        assert_eq!((next.deaths, next.activity), (deaths, resumes_as), "{written:?}");
        before = next.lease;
    }
    // A worker that releases a job has not died.
    let advance = JobAdvance {
        activity: Some(alone),
        ..JobAdvance::default()
    };
    storage.jobs.advance(before, advance, at(1)).await.unwrap();
    storage.jobs.release(before, at(400)).await.unwrap();
    let next = lease(&storage, 99, 400).await;
    assert_eq!((next.deaths, next.activity), (3, working));
}

/// Checks that a live worker retains its jobs, and `renew` returns those with a cancellation
/// request.
pub async fn renewed_leases_last(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    for number in 1..=2 {
        accept(&storage, number, account).await;
    }
    let leased = leases(&storage, claim(1, 10)).await;
    assert_eq!(leased.len(), 2);
    let worker = WorkerId::from_u128(1);
    assert_eq!(storage.jobs.renew(worker, at(60)).await.unwrap(), []);
    assert!(leases(&storage, claim(2, 50)).await.is_empty());
    let second = JobId::from_u128(2);
    let requested = storage.jobs.cancel(account, second, at(51)).await.unwrap();
    assert!(matches!(requested, JobCancel::Requested(job) if job.cancel_requested));
    assert_eq!(storage.jobs.renew(worker, at(70)).await.unwrap(), [second]);
    let other = WorkerId::from_u128(2);
    assert_eq!(storage.jobs.renew(other, at(900)).await.unwrap(), []);
    assert_eq!(leases(&storage, claim(2, 70)).await.len(), 2);
}

/// Checks that a released job counts no death, and is leased when it is due.
pub async fn released_jobs_wait_until_they_are_due(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let first = lease(&storage, 1, 10).await;
    storage.jobs.release(first.lease, at(20)).await.unwrap();
    assert!(leases(&storage, claim(2, 19)).await.is_empty());
    let second = lease(&storage, 2, 20).await;
    assert_eq!((second.deaths, second.lease.epoch), (0, 2));
}

/// Checks that a job released by a fast clock is due once the clock is right. A lease from that
/// time ends at its normal end, unless its live worker renews it.
pub async fn jobs_dated_by_a_fast_clock_are_due(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let month = 30 * 24 * 3_600;
    for number in 5..=7 {
        accept(&storage, number, account).await;
    }
    let ahead = leases(&storage, claim(1, month)).await;
    storage.jobs.release(ahead[0].lease, at(month + 5)).await.unwrap();
    let waiting = storage.jobs.release(ahead[1].lease, at(300)).await;
    waiting.unwrap();
    let due = leases(&storage, claim(2, 10)).await;
    assert_eq!(numbers(&due), [5], "the longest pause is not over");
    assert!(leases(&storage, claim(3, 39)).await.is_empty());
    let renewed = storage.jobs.renew(WorkerId::from_u128(2), at(69)).await;
    renewed.unwrap();
    let taken = leases(&storage, claim(3, 40)).await;
    assert_eq!(numbers(&taken), [7], "its lease was not renewed");
}

/// Checks that the first jobs of all accounts come before second ones, running jobs count, and no
/// account exceeds its concurrency limit.
pub async fn accounts_take_turns(factory: Factory) {
    let storage = factory.open().await;
    let (greedy, modest) = (funded(&storage, 1, 1_000).await, funded(&storage, 2, 100).await);
    for number in 1..=6 {
        accept(&storage, number, greedy).await;
    }
    for number in 7..=8 {
        accept(&storage, number, modest).await;
    }
    let some = |limit, per_account| JobClaim {
        limit,
        per_account,
        ..claim(1, 10)
    };
    assert_eq!(numbers(&leases(&storage, some(3, 9)).await), [1, 2, 7]);
    assert_eq!(
        numbers(&leases(&storage, some(1, 9)).await),
        [8],
        "of whom one runs"
    );
    assert_eq!(numbers(&leases(&storage, some(9, 3)).await), [3]);
    assert_eq!(leases(&storage, some(9, 3)).await, []);
}

/// Checks that, of concurrent claims, one leases a job, and no account exceeds its limit.
pub async fn concurrent_claims_are_disjoint(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 10_000).await;
    for number in 1..=40 {
        accept(&storage, number, account).await;
    }
    warm_up(&storage, account).await;
    let claimed = concurrently(16, |worker| {
        let jobs = storage.jobs.clone();
        let claim = JobClaim {
            limit: 3,
            per_account: 25,
            ..claim(worker as u128 + 1, 10)
        };
        Box::pin(async move { jobs.claim(claim).await.unwrap() })
    })
    .await;
    let mut all: Vec<u128> = claimed.iter().flat_map(|leased| numbers(leased)).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=25).collect::<Vec<_>>());
}

/// Checks that a step is stored before the provider is called, and a step that may have been
/// executed is not repeated.
pub async fn steps_go_one_way(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let first = lease(&storage, 1, 0).await;
    let refused = async |step| {
        let refused = kind(write(&storage, first.lease, step).await);
        assert_eq!(refused, StorageErrorKind::Conflict);
    };
    refused(step(0, StepState::Submitted, 1)).await;
    refused(step(0, StepState::Intended, 2)).await;
    for (state, attempt) in [
        (StepState::Intended, 1),
        (StepState::Failed, 1),
        (StepState::Intended, 2),
        (StepState::Unknown, 2),
    ] {
        write(&storage, first.lease, step(0, state, attempt))
            .await
            .unwrap();
    }
    refused(step(0, StepState::Intended, 3)).await;
    write(&storage, first.lease, step(1, StepState::Intended, 1))
        .await
        .unwrap();
    refused(step(1, StepState::Submitted, 2)).await;
    write(&storage, first.lease, step(1, StepState::Submitted, 1))
        .await
        .unwrap();
    let next = lease(&storage, 2, 30).await;
    let expected = [step(0, StepState::Unknown, 2), step(1, StepState::Submitted, 1)];
    assert_eq!(next.steps, expected);
}

/// Checks that an advance with a refused step writes none of its other fields.
pub async fn advances_are_atomic(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let leased = lease(&storage, 1, 0).await;
    let advance = |step: Option<JobStep>, progress| JobAdvance {
        step,
        phase: Some(Arc::from("rendering")),
        progress: Some(progress),
        activity: None,
        events: vec![NewJobEvent {
            kind: Arc::from("job.progress"),
            body: vec![progress],
        }],
    };
    let wrong = advance(Some(step(0, StepState::Done, 1)), 50);
    let refused = storage.jobs.advance(leased.lease, wrong, at(1)).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    let before = get(&storage, account, 5).await;
    assert_eq!(
        (&*before.phase, before.progress, before.last_event),
        ("", None, 2)
    );
    storage
        .jobs
        .advance(leased.lease, advance(None, 30), at(1))
        .await
        .unwrap();
    storage
        .jobs
        .advance(leased.lease, JobAdvance::default(), at(2))
        .await
        .unwrap();
    let after = get(&storage, account, 5).await;
    assert_eq!(
        (&*after.phase, after.progress, after.last_event),
        ("rendering", Some(30), 3)
    );
    let events = storage.jobs.events(account, after.terms.id, 2, 9).await.unwrap();
    assert_eq!(
        (events[0].sequence, &events[0].body[..], events[0].at),
        (3, &[30][..], at(1))
    );
}

/// Checks that a job ends with its settlement; the same end again returns the first result.
pub async fn finished_with_its_settlement(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let leased = lease(&storage, 1, 0).await;
    let completed = end(&leased.job, JobStatus::Completed, 7);
    let first = storage
        .jobs
        .finish(leased.lease, completed.clone())
        .await
        .unwrap();
    assert_eq!(
        (first.first, first.charge, first.available),
        (true, nanos(7), nanos(93))
    );
    let job = get(&storage, account, 5).await;
    assert_eq!((job.status, job.progress), (JobStatus::Completed, Some(100)));
    assert_eq!((job.charge, job.completed_at), (Some(nanos(7)), Some(at(2))));
    assert_eq!(job.usage, completed.settlement.usage);
    assert_eq!(job.result.as_deref(), Some(&b"an image"[..]));
    let mut other = completed.clone();
    (other.status, other.settlement.charge) = (JobStatus::Failed, Credits::ZERO);
    let again = storage.jobs.finish(leased.lease, other).await.unwrap();
    assert_eq!((again.first, again.charge), (false, nanos(7)));
    assert_eq!(get(&storage, account, 5).await, job);
    let late = storage
        .jobs
        .advance(leased.lease, JobAdvance::default(), at(3))
        .await;
    assert_eq!(kind(late), StorageErrorKind::Conflict);
    assert!(leases(&storage, claim(2, 900)).await.is_empty());
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(account).balance(LedgerAccount::RevenueUsage), 7);
    assert_eq!(ledgers.of(account).usage.len(), 1);
}

/// Checks that unneeded credits of a hold are released once while the job runs, and not again at
/// its end. The charge is limited to the reduced hold.
pub async fn holds_shrink_while_their_jobs_run(factory: Factory) {
    for (charge, charged, left) in [(5, 5, 95), (6, 6, 94), (10, 6, 94), (0, 0, 100)] {
        let storage = factory.open().await;
        let account = funded(&storage, 1 + charge, 100).await;
        let number = 5 + charge;
        accept(&storage, number, account).await;
        let old = lease(&storage, 1, 0).await.lease;
        let leased = lease(&storage, 2, 60).await;
        let shrink = |lease, needed| storage.jobs.shrink_hold(lease, nanos(needed), at(61));
        assert_eq!(kind(shrink(old, 4).await), StorageErrorKind::Conflict);
        for (needed, held) in [(10, 10), (11, 10), (8, 8), (9, 8), (6, 6), (6, 6)] {
            assert_eq!(
                shrink(leased.lease, needed).await.unwrap(),
                nanos(held),
                "{needed}"
            );
            let balance = storage.ledger.balance(account).await.unwrap();
            let expected = Balance {
                credits: nanos(100 - held),
                held: nanos(held),
            };
            assert_eq!(balance, expected);
        }
        storage.engine.flush().await.unwrap();
        let ledger = LedgerSnapshot::read(&storage).await.of(account).clone();
        assert_eq!(ledger.holds[0].amount, nanos(6));
        let early = ledger.transfers.iter().filter_map(|transfer| match transfer.leg {
            Leg::ReleaseEarly(number) => Some((number, transfer.amount.nanos())),
            _ => None,
        });
        assert_eq!(early.collect::<Vec<_>>(), [(0, 2), (1, 2)]);
        storage.engine.close().await.unwrap();
        drop(storage);

        let storage = factory.open().await;
        let leased = lease(&storage, 3, 120).await;
        let held = storage.jobs.shrink_hold(leased.lease, nanos(7), at(121)).await;
        assert_eq!(held.unwrap(), nanos(6));
        let mut ended = end(&leased.job, JobStatus::Completed, 0);
        ended.settlement.charge = nanos(i64::try_from(charge).unwrap());
        let settled = storage.jobs.finish(leased.lease, ended).await.unwrap();
        assert_eq!((settled.charge, settled.available), (nanos(charged), nanos(left)));
        storage.engine.flush().await.unwrap();
        let ledger = LedgerSnapshot::read(&storage).await.of(account).clone();
        assert_eq!(
            (ledger.usage[0].held, ledger.usage[0].charge),
            (nanos(10), nanos(charged))
        );
        let gone = storage.jobs.shrink_hold(leased.lease, nanos(0), at(122)).await;
        assert_eq!(kind(gone), StorageErrorKind::Conflict);
        storage.engine.close().await.unwrap();
    }
}

/// Checks that held allowance stays until the end, because it pays first.
pub async fn holds_with_an_allowance_shrink_by_credits(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let mut terms = plan(1, account, 7);
    terms.payer = Payer::Provider;
    subscribe(&storage, terms).await;
    accept(&storage, 5, account).await;
    let leased = lease(&storage, 1, 0).await;
    for (needed, held) in [(9, 9), (2, 7), (0, 7)] {
        let shrunk = storage.jobs.shrink_hold(leased.lease, nanos(needed), at(1)).await;
        assert_eq!(shrunk.unwrap(), nanos(held), "{needed}");
    }
    storage.engine.flush().await.unwrap();
    let ledger = LedgerSnapshot::read(&storage).await.of(account).clone();
    assert_eq!(
        (ledger.holds[0].amount, ledger.holds[0].allowance),
        (nanos(7), nanos(7))
    );
    let ended = end(&leased.job, JobStatus::Completed, 5);
    let settled = storage.jobs.finish(leased.lease, ended).await.unwrap();
    assert_eq!((settled.charge, settled.available), (nanos(5), nanos(100)));
    storage.engine.flush().await.unwrap();
    let ledger = LedgerSnapshot::read(&storage).await.of(account).clone();
    assert_eq!(ledger.balance(LedgerAccount::Allowance), 2);
    assert_eq!(ledger.usage[0].included, nanos(5));
}

/// Checks that a hold has a limited number of early releases, however often it shrinks.
pub async fn holds_shrink_a_few_times(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let job = job(5);
    let accepted = storage
        .jobs
        .accept(job.clone(), hold(5, account, 50))
        .await
        .unwrap();
    assert!(matches!(accepted, HoldOutcome::Held { .. }));
    let leased = lease(&storage, 1, 0).await;
    for needed in (0..50).rev() {
        let held = storage.jobs.shrink_hold(leased.lease, nanos(needed), at(1)).await;
        let min_held = 50 - i64::from(MAX_EARLY_RELEASES);
        assert_eq!(held.unwrap(), nanos(needed.max(min_held)));
    }
    let mut ended = end(&leased.job, JobStatus::Completed, 3);
    ended.settlement.charge = nanos(3);
    let settled = storage.jobs.finish(leased.lease, ended).await.unwrap();
    assert_eq!((settled.charge, settled.available), (nanos(3), nanos(97)));
    storage.engine.flush().await.unwrap();
    LedgerSnapshot::read(&storage).await;
}

/// Checks that the error of a failed job is read back, and its charge is that of its settlement.
pub async fn failed_with_its_reason(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let leased = lease(&storage, 1, 0).await;
    let reason = JobError {
        code: ErrorCode::OutputBlocked,
        message: "it was blocked".to_owned(),
        param: Some("prompt".to_owned()),
    };
    let mut blocked = end(&leased.job, JobStatus::Failed, 10);
    (blocked.result, blocked.error) = (None, Some(reason.clone()));
    storage.jobs.finish(leased.lease, blocked).await.unwrap();
    let job = get(&storage, account, 5).await;
    assert_eq!(
        (job.status, job.progress, job.result),
        (JobStatus::Failed, None, None)
    );
    assert_eq!((job.error, job.charge), (Some(reason), Some(nanos(10))));
}

/// Checks that a job that was not started is cancelled for free; an ended job stays unchanged.
pub async fn queued_jobs_are_cancelled_for_free(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let id = accept(&storage, 5, account).await.id;
    let cancelled = storage.jobs.cancel(account, id, at(1)).await.unwrap();
    let JobCancel::Cancelled(job) = cancelled else {
        unreachable!("{cancelled:?}")
    };
    assert_eq!(
        (job.status, job.charge),
        (JobStatus::Cancelled, Some(Credits::ZERO))
    );
    assert_eq!(job.completed_at, Some(at(1)));
    let again = storage.jobs.cancel(account, id, at(2)).await.unwrap();
    assert_eq!(again, JobCancel::Ended(job));
    assert!(leases(&storage, claim(1, 10)).await.is_empty());
    assert_eq!(storage.ledger.balance(account).await.unwrap().credits, nanos(100));
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(account).usage[0].outcome, Outcome::Cancelled);
}

/// Checks that the first cancellation of a started job appends one event with its time; later ones
/// change nothing.
pub async fn cancelling_event_is_written_once(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let id = accept(&storage, 5, account).await.id;
    let leased = lease(&storage, 1, 0).await;
    let first = storage.jobs.cancel(account, id, at(7)).await.unwrap();
    let JobCancel::Requested(asked) = &first else {
        unreachable!("{first:?}")
    };
    assert_eq!((asked.cancel_requested, asked.last_event), (true, 3));
    let again = storage.jobs.cancel(account, id, at(8)).await.unwrap();
    assert_eq!(again, first);
    let ended = end(&leased.job, JobStatus::Cancelled, 7);
    storage.jobs.finish(leased.lease, ended).await.unwrap();
    let late = storage.jobs.cancel(account, id, at(9)).await.unwrap();
    assert_eq!(late, JobCancel::Ended(Box::new(get(&storage, account, 5).await)));
    let expected = [
        "job.queued",
        "job.in_progress",
        NewJobEvent::CANCELLING,
        "job.cancelled",
    ];
    let expected: Vec<_> = (1..).zip(expected.map(str::to_owned)).collect();
    assert_eq!(kinds(&storage, account, 5, 0).await, expected);
    let reported = storage.jobs.events(account, id, 2, 1).await.unwrap();
    assert_eq!((reported[0].at, &reported[0].body[..]), (at(7), &[][..]));
}

/// Checks that a job that was not started in time ends without cost.
pub async fn expired_costs_nothing(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    let timed = |number, start_by| NewJob {
        start_by,
        ..job(number)
    };
    accept_as(&storage, timed(1, Some(at(60))), account).await;
    accept_as(&storage, timed(2, Some(at(60))), account).await;
    accept_as(&storage, timed(3, None), account).await;
    let one = JobClaim {
        limit: 1,
        ..claim(1, 10)
    };
    assert_eq!(numbers(&leases(&storage, one).await), [1]);
    assert_eq!(storage.jobs.expire(at(59), 10).await.unwrap(), 0);
    assert_eq!(
        numbers(&leases(&storage, claim(2, 60)).await),
        [1, 3],
        "the second is too late"
    );
    assert_eq!(storage.jobs.expire(at(60), 10).await.unwrap(), 1);
    assert_eq!(storage.jobs.expire(at(60), 10).await.unwrap(), 0);
    let expired = get(&storage, account, 2).await;
    assert_eq!(
        (expired.status, expired.charge),
        (JobStatus::Expired, Some(Credits::ZERO))
    );
    assert_eq!(get(&storage, account, 1).await.status, JobStatus::InProgress);
    assert_eq!(storage.ledger.balance(account).await.unwrap().credits, nanos(80));
}

/// Checks that events can be read from any number on.
pub async fn events_are_numbered_in_order(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let leased = lease(&storage, 1, 0).await;
    let reported = |kind: &str| NewJobEvent {
        kind: Arc::from(kind),
        body: kind.as_bytes().to_vec(),
    };
    let advance = JobAdvance {
        events: vec![reported("one"), reported("two")],
        ..JobAdvance::default()
    };
    storage.jobs.advance(leased.lease, advance, at(1)).await.unwrap();
    let mut completed = end(&leased.job, JobStatus::Completed, 7);
    completed.events = vec![reported("three")];
    storage.jobs.finish(leased.lease, completed).await.unwrap();
    let all = kinds(&storage, account, 5, 0).await;
    let expected = [
        "job.queued",
        "job.in_progress",
        "one",
        "two",
        "three",
        "job.completed",
    ];
    let expected: Vec<_> = (1..).zip(expected.map(str::to_owned)).collect();
    assert_eq!(all, expected);
    assert_eq!(kinds(&storage, account, 5, 4).await, expected[4..]);
    let id = JobId::from_u128(5);
    assert_eq!(storage.jobs.events(account, id, 1, 2).await.unwrap().len(), 2);
    assert_eq!(get(&storage, account, 5).await.last_event, 6);
}

/// Checks that jobs that ended long ago are deleted; their ledger rows are not.
pub async fn old_jobs_are_swept(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    for number in 1..=3 {
        accept(&storage, number, account).await;
    }
    storage
        .jobs
        .cancel(account, JobId::from_u128(1), at(10))
        .await
        .unwrap();
    storage
        .jobs
        .cancel(account, JobId::from_u128(2), at(20))
        .await
        .unwrap();
    let before = LedgerSnapshot::read(&storage).await;
    assert_eq!(storage.jobs.sweep(at(20), 10).await.unwrap(), 1);
    assert_eq!(storage.jobs.sweep(at(20), 10).await.unwrap(), 0);
    let all = storage.jobs.list(account, JobFilter::default(), 9).await.unwrap();
    let left: Vec<u128> = all.iter().map(|job| job.terms.id.as_u128()).collect();
    assert_eq!(left, [3, 2]);
    assert!(kinds(&storage, account, 1, 0).await.is_empty());
    let ages: Timestamp = at(900_000);
    assert_eq!(
        storage.jobs.sweep(ages, 10).await.unwrap(),
        1,
        "what has not ended is kept"
    );
    before.assert_unchanged(&storage).await;
}

/// Checks that an owner can delete an ended job without any change to the ledger; jobs of other
/// accounts are not found.
pub async fn ended_jobs_are_forgotten(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 100).await);
    accept(&storage, 1, account).await;
    let reported = NewJob {
        webhook: Some(b"https://example.com/".to_vec()),
        ..job(2)
    };
    accept_as(&storage, reported, account).await;
    let [first, second] = [1, 2].map(JobId::from_u128);
    assert_eq!(
        kind(storage.jobs.forget(account, first).await),
        StorageErrorKind::Conflict,
        "it has not started"
    );
    let leased = leases(&storage, claim(1, 10)).await;
    assert_eq!(
        kind(storage.jobs.forget(account, first).await),
        StorageErrorKind::Conflict,
        "it is carried out"
    );
    for leased in &leased {
        let completed = end(&leased.job, JobStatus::Completed, 7);
        storage.jobs.finish(leased.lease, completed).await.unwrap();
    }
    let before = LedgerSnapshot::read(&storage).await;
    assert!(!storage.jobs.forget(other, first).await.unwrap());
    assert_eq!(get(&storage, account, 1).await.status, JobStatus::Completed);
    assert!(storage.jobs.forget(account, first).await.unwrap());
    assert!(!storage.jobs.forget(account, first).await.unwrap());
    assert_eq!(storage.jobs.get(account, first).await.unwrap(), None);
    assert!(kinds(&storage, account, 1, 0).await.is_empty());
    assert_eq!(
        kind(storage.jobs.forget(account, second).await),
        StorageErrorKind::Conflict,
        "a webhook is pending"
    );
    before.assert_unchanged(&storage).await;
}

/// Checks that jobs and their holds survive a restart: leased jobs are leased again after their
/// lease, and end normally.
pub async fn survives_reopening(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    for number in 1..=2 {
        accept(&storage, number, account).await;
    }
    let one = JobClaim {
        limit: 1,
        ..claim(1, 0)
    };
    let before = leases(&storage, one).await.remove(0);
    write(&storage, before.lease, step(0, StepState::Intended, 1))
        .await
        .unwrap();
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    assert_eq!(storage.ledger.balance(account).await.unwrap().held, nanos(20));
    let leased = leases(&storage, claim(2, 30)).await;
    assert_eq!(numbers(&leased), [1, 2]);
    assert_eq!((leased[0].deaths, leased[1].deaths), (1, 0));
    assert_eq!(leased[0].steps, [step(0, StepState::Intended, 1)]);
    for leased in leased {
        let completed = end(&leased.job, JobStatus::Completed, 7);
        let resolution = storage.jobs.finish(leased.lease, completed).await.unwrap();
        assert!(resolution.first);
    }
    let after = Balance {
        credits: nanos(86),
        held: Credits::ZERO,
    };
    assert_eq!(storage.ledger.balance(account).await.unwrap(), after);
}

/// Checks that the newest and the unfinished jobs of an account are returned with their progress.
pub async fn open_jobs_show_progress(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 100).await);
    let open = async |account, limit| {
        let found = storage.jobs.open_jobs(account, limit).await.unwrap();
        let unfinished = found.unfinished.iter().map(|(id, event)| (id.as_u128(), *event));
        (
            found.newest.map(|id| id.as_u128()),
            unfinished.collect::<Vec<_>>(),
        )
    };
    assert_eq!(open(account, 9).await, (None, vec![]));
    for number in [1, 2, 3] {
        accept(&storage, number, account).await;
    }
    accept(&storage, 4, other).await;
    assert_eq!(open(account, 9).await, (Some(3), vec![(1, 1), (2, 1), (3, 1)]));
    assert_eq!(open(account, 2).await, (Some(3), vec![(1, 1), (2, 1)]));
    storage
        .jobs
        .cancel(account, JobId::from_u128(3), at(1))
        .await
        .unwrap();
    let leased = leases(&storage, claim(1, 0)).await;
    assert_eq!(leased.len(), 3);
    let after = open(account, 9).await;
    assert_eq!(after.0, Some(3), "the newest job, also if it has ended");
    assert_eq!(after.1, [(1, 2), (2, 2)], "the start is an event");
}
