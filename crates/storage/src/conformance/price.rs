//! Cases for [`crate::PriceStore`].

use tollgate_types::{AuditId, Credits, PriceVersion, Prices, Unit};

use super::samples::{START, at, nanos};
use super::{Factory, LedgerSnapshot};
use crate::{PriceChange, PriceRecord};

fn record(version: u64, input: i64) -> PriceRecord {
    PriceRecord {
        version: PriceVersion::from_u64(version),
        model: format!("maker/model-{version}"),
        prices: Prices::default().with(Unit::Input, nanos(input)),
        created_at: START,
    }
}

/// Checks that versions are read back verbatim, with a price or none for every class.
pub async fn recorded_then_read(factory: Factory) {
    let storage = factory.open().await;
    let mut full = record(u64::MAX, 1);
    for (unit, price) in
        Unit::ALL
            .into_iter()
            .zip([0, 1, 999_999_999, 1_000_000_000, 7, i64::MAX, 250_000_000])
    {
        full.prices = full.prices.with(unit, nanos(price));
    }
    full.created_at = at(1);
    let mut none = record(0, 1);
    none.prices = Prices::default();
    let mut free = record(1 << 63, 1);
    free.prices = Prices::free();
    let records = [full, none, free, record(5, 2_500_000_000)];
    storage.prices.record(records.to_vec()).await.unwrap();
    storage.prices.record(Vec::new()).await.unwrap();
    for record in &records {
        let read = storage.prices.get(record.version).await.unwrap();
        assert_eq!(read.as_ref(), Some(record));
        assert_eq!(
            read.unwrap().prices.listed(Unit::Output),
            record.prices.listed(Unit::Output)
        );
    }
    let shown = LedgerSnapshot::read(&storage).await.prices;
    assert_eq!(shown.len(), records.len());
    for record in records {
        assert_eq!(shown[&record.version], (record.model, record.prices));
    }
}

/// Checks that a version is written once: recording it again changes nothing, in one batch or in
/// two.
pub async fn recorded_versions_never_change(factory: Factory) {
    let storage = factory.open().await;
    let first = record(1, 5);
    let changed = PriceRecord {
        model: "maker/other".to_owned(),
        prices: Prices::default().with(Unit::Input, Credits::MAX),
        created_at: at(9),
        ..first.clone()
    };
    storage
        .prices
        .record(vec![first.clone(), changed.clone()])
        .await
        .unwrap();
    storage.prices.record(vec![changed, record(2, 6)]).await.unwrap();
    assert_eq!(storage.prices.get(first.version).await.unwrap(), Some(first));
    assert_eq!(
        storage.prices.get(PriceVersion::from_u64(2)).await.unwrap(),
        Some(record(2, 6))
    );
}

/// Checks that an unknown version returns `None`.
pub async fn unknown_version_is_none(factory: Factory) {
    let storage = factory.open().await;
    storage.prices.record(vec![record(1, 5)]).await.unwrap();
    for version in [0, 2, u64::MAX] {
        assert_eq!(
            storage.prices.get(PriceVersion::from_u64(version)).await.unwrap(),
            None
        );
    }
}

fn change(number: u128, record: &PriceRecord) -> PriceChange {
    PriceChange {
        id: AuditId::from_u128(number),
        model: record.model.clone(),
        version: record.version,
        at: at(u64::try_from(number).unwrap_or(0)),
        actor: format!("jo-{number}"),
    }
}

fn of_model(model: &str, version: u64, input: i64) -> PriceRecord {
    PriceRecord {
        model: model.to_owned(),
        ..record(version, input)
    }
}

/// Checks that the last activated version is active, even if it was active before, and that the
/// history has every change.
pub async fn newest_change_is_active(factory: Factory) {
    let storage = factory.open().await;
    let prices = &storage.prices;
    assert_eq!(prices.active().await.unwrap(), []);
    let (cheap, costly) = (of_model("b/x", 1, 5), of_model("b/x", u64::MAX, 50));
    let other = of_model("a/y", 7, 3);
    let both = vec![cheap.clone(), other.clone()];
    let changes = vec![change(1, &cheap), change(2, &other)];
    prices.activate(both, changes).await.unwrap();
    assert_eq!(prices.active().await.unwrap(), [other.clone(), cheap.clone()]);
    let changes = vec![change(3, &costly)];
    prices.activate(vec![costly.clone()], changes).await.unwrap();
    assert_eq!(prices.active().await.unwrap(), [other.clone(), costly.clone()]);
    let changes = vec![change(4, &cheap)];
    prices.activate(vec![cheap.clone()], changes).await.unwrap();
    assert_eq!(prices.active().await.unwrap(), [other, cheap.clone()]);
    let whole = [
        (change(4, &cheap), cheap.clone()),
        (change(3, &costly), costly),
        (change(1, &cheap), cheap),
    ];
    assert_eq!(prices.history("b/x", 9).await.unwrap(), whole);
    assert_eq!(prices.history("b/x", 2).await.unwrap(), whole[..2]);
    assert_eq!(prices.history("b/z", 9).await.unwrap(), []);
}

/// Checks that activating the active version again does not change the time of its activation.
pub async fn same_version_is_no_change(factory: Factory) {
    let storage = factory.open().await;
    let prices = &storage.prices;
    let same = record(1, 5);
    for number in [1, 2] {
        let changes = vec![change(number, &same)];
        prices.activate(vec![same.clone()], changes).await.unwrap();
    }
    let history = prices.history(&same.model, 9).await.unwrap();
    assert_eq!(history, [(change(1, &same), same)]);
}
