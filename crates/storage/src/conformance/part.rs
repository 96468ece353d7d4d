//! Cases for the parts of usage rows: [`crate::UsagePart`].

use std::sync::Arc;

use tollgate_types::{HoldId, JobId, JobStatus, PriceVersion, Prices, Usage};

use super::job::{accept, end, lease};
use super::samples::{at, every_class, funded, kind, nanos};
use super::{Factory, LedgerSnapshot};
use crate::{JobEnd, LeasedJob, PriceRecord, StorageErrorKind, UsagePart};

/// Makes a part with a quantity of every class.
fn part(number: u32, cost: i64) -> UsagePart {
    UsagePart {
        number,
        name: Arc::from(format!("scene {number}")),
        model: Arc::from("maker/größer:7b"),
        target: Arc::from("sim"),
        price_version: PriceVersion::from_u64(u64::MAX - u64::from(number)),
        usage: every_class(),
        cost: nanos(cost),
    }
}

/// Makes the end of a job with parts of these costs, not sorted by number.
fn ended(leased: &LeasedJob, costs: &[i64]) -> (JobEnd, Vec<UsagePart>) {
    let parts: Vec<UsagePart> = (0..)
        .zip(costs)
        .map(|(number, cost)| part(number, *cost))
        .collect();
    let mut end = end(&leased.job, JobStatus::Completed, costs.iter().sum());
    end.settlement.usage = parts.iter().fold(Usage::ZERO, |sum, part| sum.plus(&part.usage));
    end.parts = parts.iter().rev().cloned().collect();
    (end, parts)
}

/// Checks that parts are read back verbatim in order of number, and an audit shows them before
/// their row; a repeated end adds none.
pub async fn parts_end_with_their_job(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let leased = lease(&storage, 1, 0).await;
    let row = leased.job.hold;
    assert_eq!(storage.usage.parts(account, row).await.unwrap(), []);
    let (end, parts) = ended(&leased, &[4, 0, 3]);
    let settled = storage.jobs.finish(leased.lease, end.clone()).await.unwrap();
    assert_eq!(settled.charge, nanos(7));
    assert_eq!(storage.usage.parts(account, row).await.unwrap(), parts);
    let record = PriceRecord {
        version: parts[1].price_version,
        model: "maker/canonical".to_owned(),
        prices: Prices::default(),
        created_at: at(0),
    };
    storage.prices.record(vec![record]).await.unwrap();
    let mut canonical = parts.clone();
    canonical[1].model = Arc::from("maker/canonical");
    assert_eq!(storage.usage.parts(account, row).await.unwrap(), canonical);
    let mut more = end.clone();
    more.parts.push(part(3, 9));
    for again in [end, more] {
        let again = storage.jobs.finish(leased.lease, again).await.unwrap();
        assert_eq!((again.first, again.charge), (false, nanos(7)));
    }
    assert_eq!(storage.usage.parts(account, row).await.unwrap(), canonical);
    let shown: Vec<(HoldId, UsagePart)> = parts.iter().map(|part| (row, part.clone())).collect();
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(account).parts, shown);
    assert_eq!(ledgers.of(account).usage.len(), 1);
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    assert_eq!(storage.usage.parts(account, row).await.unwrap(), canonical);
    assert_eq!(LedgerSnapshot::read(&storage).await, ledgers);
}

/// Checks that parts of other accounts are invisible, even if their rows have the same id.
pub async fn parts_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 100).await);
    accept(&storage, 5, one).await;
    let leased = lease(&storage, 1, 0).await;
    let (end, parts) = ended(&leased, &[7]);
    storage.jobs.finish(leased.lease, end).await.unwrap();
    let row = leased.job.hold;
    assert_eq!(storage.usage.parts(one, row).await.unwrap(), parts);
    assert_eq!(storage.usage.parts(other, row).await.unwrap(), []);
    let unknown = HoldId::from_u128(6);
    assert_eq!(storage.usage.parts(one, unknown).await.unwrap(), []);
    accept(&storage, 6, other).await;
    let leased = lease(&storage, 1, 0).await;
    let (end, theirs) = ended(&leased, &[1, 2]);
    storage.jobs.finish(leased.lease, end).await.unwrap();
    let row = leased.job.hold;
    assert_eq!(storage.usage.parts(other, row).await.unwrap(), theirs);
    assert_eq!(storage.usage.parts(one, row).await.unwrap(), []);
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(
        (ledgers.of(one).parts.len(), ledgers.of(other).parts.len()),
        (1, 2)
    );
}

/// Checks that a void lease writes no parts. Parts of deleted jobs stay with their usage rows.
pub async fn parts_outlive_their_job(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 100).await;
    accept(&storage, 5, account).await;
    let late = lease(&storage, 1, 0).await;
    let leased = lease(&storage, 2, 900).await;
    let (end, _) = ended(&late, &[9]);
    let refused = storage.jobs.finish(late.lease, end).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    let row = leased.job.hold;
    assert_eq!(storage.usage.parts(account, row).await.unwrap(), []);
    let (end, parts) = ended(&leased, &[2, 5]);
    storage.jobs.finish(leased.lease, end).await.unwrap();
    let swept = storage.jobs.sweep(at(900_000), 10).await.unwrap();
    assert_eq!(swept, 1);
    let gone = storage.jobs.get(account, JobId::from_u128(5)).await.unwrap();
    assert_eq!(gone, None);
    assert_eq!(storage.usage.parts(account, row).await.unwrap(), parts);
}
