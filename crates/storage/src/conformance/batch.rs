//! Cases for [`crate::BatchStore`].

use tollgate_types::{Credits, HoldId, JobId, JobStatus, PriceVersion, Usage};

use super::job::{accept, end, lease};
use super::samples::{START, at, funded, kind, nanos};
use super::{Factory, LedgerSnapshot};
use crate::{BatchLine, ChargedLine, JobLease, LineCounts, LineState, Storage, StorageErrorKind};

const VERSION: PriceVersion = PriceVersion::from_u64(u64::MAX - 1);
const BATCH: JobId = JobId::from_u128(7);

fn line(number: u32, state: LineState) -> BatchLine {
    BatchLine {
        number,
        state,
        content: format!("line {number}").into_bytes(),
        price_version: VERSION,
        usage: Usage::tokens(3, 4),
        charge: nanos(2),
        overrun: nanos(1),
        held: nanos(9),
    }
}

async fn leased(storage: &Storage) -> JobLease {
    let account = funded(storage, 1, 100).await;
    accept(storage, BATCH.as_u128(), account).await;
    lease(storage, 5, 0).await.lease
}

/// Checks that a line starts once and ends once, and is read back verbatim.
pub async fn lines_start_and_end_once(factory: Factory) {
    let storage = factory.open().await;
    let lease = leased(&storage).await;
    let (store, account) = (&storage.batches, lease.account);
    assert!(store.begin(lease, 3, VERSION, START).await.unwrap());
    assert!(!store.begin(lease, 3, VERSION, START).await.unwrap());
    assert!(store.begin(lease, 1, VERSION, START).await.unwrap());
    assert!(store.begin(lease, 2, VERSION, START).await.unwrap());
    let missing = store.end(lease, line(9, LineState::Done), at(1)).await;
    assert_eq!(kind(missing), StorageErrorKind::Conflict);
    store.end(lease, line(3, LineState::Done), at(1)).await.unwrap();
    store.end(lease, line(1, LineState::Failed), at(1)).await.unwrap();
    let again = store.end(lease, line(3, LineState::Failed), at(2)).await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);

    let counts = LineCounts {
        started: 1,
        done: 1,
        failed: 1,
    };
    assert_eq!(store.counts(account, BATCH).await.unwrap(), counts);
    let states = [
        (1, LineState::Failed),
        (2, LineState::Started),
        (3, LineState::Done),
    ];
    assert_eq!(store.states(account, BATCH).await.unwrap(), states);
    let found = store.lines(account, BATCH, 3, 9).await.unwrap();
    assert_eq!(found, [line(3, LineState::Done)]);
    let found = store.lines(account, BATCH, 0, 2).await.unwrap();
    assert_eq!(found.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2]);
    let other = funded(&storage, 2, 0).await;
    assert_eq!(store.lines(other, BATCH, 0, 9).await.unwrap(), []);
    assert_eq!(store.counts(other, BATCH).await.unwrap(), LineCounts::default());
}

/// Checks that a worker that lost its lease can no longer write to the batch.
pub async fn written_under_its_lease(factory: Factory) {
    let storage = factory.open().await;
    let old = leased(&storage).await;
    let store = &storage.batches;
    assert!(store.begin(old, 0, VERSION, START).await.unwrap());
    let new = lease(&storage, 6, 60).await.lease;
    for (refused, number) in [
        (store.begin(old, 1, VERSION, at(61)).await, 1),
        (store.begin(old, 0, VERSION, at(61)).await, 0),
    ] {
        assert_eq!(kind(refused), StorageErrorKind::Conflict, "{number}");
    }
    let ended = store.end(old, line(0, LineState::Done), at(61)).await;
    assert_eq!(kind(ended), StorageErrorKind::Conflict);
    assert!(!store.begin(new, 0, VERSION, at(61)).await.unwrap());
    store.end(new, line(0, LineState::Failed), at(61)).await.unwrap();
}

/// Checks that the cost of lines appears in the audit and survives the deletion of the batch; their
/// content does not.
pub async fn charged_lines_outlive_their_batch(factory: Factory) {
    let storage = factory.open().await;
    let lease = leased(&storage).await;
    let (store, account) = (&storage.batches, lease.account);
    assert!(store.begin(lease, 0, VERSION, START).await.unwrap());
    store.end(lease, line(0, LineState::Done), at(1)).await.unwrap();
    let job = storage.jobs.get(account, BATCH).await.unwrap().unwrap();
    let ended = end(&job, JobStatus::Completed, 2);
    storage.jobs.finish(lease, ended).await.unwrap();
    let shown = ChargedLine {
        hold: job.hold,
        price_version: VERSION,
        usage: Usage::tokens(3, 4),
        charge: nanos(2),
        overrun: nanos(1),
    };
    storage.engine.flush().await.unwrap();
    assert_eq!(
        LedgerSnapshot::read(&storage).await.ledgers[&account].lines,
        [shown]
    );
    assert_eq!(storage.jobs.sweep(at(9_999_999), 10).await.unwrap(), 1);
    assert_eq!(
        LedgerSnapshot::read(&storage).await.ledgers[&account].lines,
        [shown]
    );
    assert_eq!(store.charged(account, job.hold).await.unwrap(), [shown]);
    let other = HoldId::from_u128(job.hold.as_u128() + 1);
    assert_eq!(store.charged(account, other).await.unwrap(), []);
    let left = store.lines(account, BATCH, 0, 9).await.unwrap();
    assert_eq!(left[0].content, b"");
}

/// Checks that the unused hold is known for ended lines, and is never below zero.
pub async fn unused_hold_counts_ended_lines(factory: Factory) {
    let storage = factory.open().await;
    let lease = leased(&storage).await;
    let (store, account) = (&storage.batches, lease.account);
    assert_eq!(store.unused_hold(account, BATCH).await.unwrap(), Credits::ZERO);
    for number in 0..4 {
        assert!(store.begin(lease, number, VERSION, START).await.unwrap());
    }
    let unknown = BatchLine {
        held: Credits::ZERO,
        ..line(2, LineState::Failed)
    };
    for ended in [line(0, LineState::Done), line(1, LineState::Failed), unknown] {
        store.end(lease, ended, at(1)).await.unwrap();
    }
    assert_eq!(
        store.unused_hold(account, BATCH).await.unwrap(),
        nanos(2 * (9 - 2))
    );
    let other = funded(&storage, 2, 0).await;
    assert_eq!(store.unused_hold(other, BATCH).await.unwrap(), Credits::ZERO);
}

/// Checks that deaths no longer count after the batch has made progress.
pub async fn deaths_count_in_a_row(factory: Factory) {
    let storage = factory.open().await;
    let old = leased(&storage).await;
    let second = lease(&storage, 6, 60).await;
    assert_eq!(second.deaths, 1);
    assert_eq!(
        kind(storage.batches.reset_deaths(old).await),
        StorageErrorKind::Conflict
    );
    storage.batches.reset_deaths(second.lease).await.unwrap();
    assert_eq!(lease(&storage, 7, 120).await.deaths, 1);
}
