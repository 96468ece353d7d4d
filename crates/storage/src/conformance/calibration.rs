//! Cases for [`crate::CalibrationStore`].

use tollgate_types::{AccountId, CalibrationId};

use super::Factory;
use super::samples::{START, at, concurrently, funded, kind};
use crate::{Calibration, CalibrationFilter, NewCalibration, Storage, StorageErrorKind};

/// Quota above the number of calibrations in these cases.
const QUOTA: u32 = 100;

pub(super) fn new(number: u128, account: AccountId) -> NewCalibration {
    NewCalibration {
        id: CalibrationId::from_u128(number),
        account,
        model: "acme/decider".to_owned(),
        name: None,
        profile: r#"{"temperatures":[],"isotonic":null}"#.to_owned(),
        examples: 30,
        summary: "{}".to_owned(),
        created_at: START,
    }
}

pub(super) async fn insert(storage: &Storage, new: NewCalibration) -> Calibration {
    let inserted = storage.calibrations.insert(new, QUOTA).await.unwrap();
    inserted.expect("there is room")
}

/// Returns the id of the default of a model, as a number.
async fn default_of(storage: &Storage, account: AccountId, model: &str) -> Option<u128> {
    let found = storage.calibrations.default_of(account, model).await.unwrap();
    assert!(found.as_ref().is_none_or(|found| found.is_default));
    found.map(|found| found.details.id.as_u128())
}

/// Checks that a calibration is read back verbatim.
pub async fn inserted_then_read(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let whole = NewCalibration {
        name: Some("fü\"r".to_owned()),
        profile: r#"{"temperatures":[{"kind":"noul"}]}"#.to_owned(),
        examples: 50_000,
        summary: r#"{"before":1}"#.to_owned(),
        created_at: at(60),
        ..new(u128::MAX, account)
    };
    for (version, written) in [(1, whole), (2, new(2, account))] {
        let inserted = insert(&storage, written.clone()).await;
        let expected = Calibration {
            details: written,
            version,
            is_default: true,
        };
        assert_eq!(inserted, expected);
        let read = storage
            .calibrations
            .get(account, expected.details.id)
            .await
            .unwrap();
        assert_eq!(read, Some(expected));
    }
    let unknown = storage
        .calibrations
        .get(account, CalibrationId::from_u128(3))
        .await;
    assert_eq!(unknown.unwrap(), None);
    assert_eq!(default_of(&storage, account, "acme/other").await, None);
}

/// Checks that each model has its own versions, and the number of a deleted version is not reused.
pub async fn versions_increase_and_are_never_reused(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let other = |number| NewCalibration {
        model: "acme/other".to_owned(),
        ..new(number, account)
    };
    assert_eq!(insert(&storage, new(1, account)).await.version, 1);
    assert_eq!(insert(&storage, new(2, account)).await.version, 2);
    assert_eq!(insert(&storage, other(3)).await.version, 1);
    for number in [1, 2] {
        let id = CalibrationId::from_u128(number);
        assert!(storage.calibrations.delete(account, id).await.unwrap());
        assert!(!storage.calibrations.delete(account, id).await.unwrap());
    }
    assert_eq!(default_of(&storage, account, "acme/decider").await, None);
    assert_eq!(insert(&storage, new(4, account)).await.version, 3);
    assert_eq!(insert(&storage, other(5)).await.version, 2);
}

/// Checks that calibrations of other accounts cannot be read, listed, chosen or deleted, and do not
/// affect version numbers.
pub async fn calibrations_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let mine = insert(&storage, new(5, account)).await;
    let (store, id) = (&storage.calibrations, mine.details.id);
    assert_eq!(store.get(other, id).await.unwrap(), None);
    assert_eq!(store.choose(other, id, true).await.unwrap(), None);
    assert_eq!(store.choose(other, id, false).await.unwrap(), None);
    assert!(!store.delete(other, id).await.unwrap());
    let listed = store.list(other, CalibrationFilter::default(), 10).await;
    assert_eq!(listed.unwrap(), []);
    assert_eq!(default_of(&storage, other, "acme/decider").await, None);
    assert_eq!(insert(&storage, new(6, other)).await.version, 1);
    assert_eq!(store.get(account, id).await.unwrap(), Some(mine));
}

/// Checks that lists cover one model or all, newest first, and continue after a calibration that
/// may have been deleted.
pub async fn listed_in_pages(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for number in [1, 2, 4, 5] {
        let model = if number == 2 { "acme/other" } else { "acme/decider" };
        let new = NewCalibration {
            model: model.to_owned(),
            ..new(number, account)
        };
        insert(&storage, new).await;
    }
    for (model, after, limit, expected) in [
        (
            None,
            None,
            10,
            &[(5, true), (4, false), (2, true), (1, false)][..],
        ),
        (None, None, 2, &[(5, true), (4, false)]),
        (None, Some(3), 10, &[(2, true), (1, false)]),
        (None, Some(1), 10, &[]),
        (Some("acme/decider"), Some(5), 10, &[(4, false), (1, false)]),
        (Some("acme/none"), None, 10, &[]),
    ] {
        let filter = CalibrationFilter {
            model: model.map(str::to_owned),
            after: after.map(CalibrationId::from_u128),
        };
        let listed = storage.calibrations.list(account, filter.clone(), limit).await;
        let listed: Vec<_> = listed
            .unwrap()
            .iter()
            .map(|one| (one.details.id.as_u128(), one.is_default))
            .collect();
        assert_eq!(listed, expected, "{filter:?}");
    }
}

/// Checks that the quota covers all models of an account. A rejected calibration uses no version; a
/// deleted one no longer counts.
pub async fn quota_is_enforced(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    insert(&storage, new(9, other)).await;
    let store = &storage.calibrations;
    for number in [1, 2] {
        assert!(store.insert(new(number, account), 2).await.unwrap().is_some());
    }
    assert_eq!(store.insert(new(3, account), 2).await.unwrap(), None);
    let elsewhere = NewCalibration {
        model: "acme/other".to_owned(),
        ..new(3, account)
    };
    assert_eq!(store.insert(elsewhere, 2).await.unwrap(), None);
    assert_eq!(default_of(&storage, account, "acme/decider").await, Some(2));
    assert!(store.delete(account, CalibrationId::from_u128(1)).await.unwrap());
    let inserted = store.insert(new(3, account), 2).await.unwrap();
    assert_eq!(inserted.map(|inserted| inserted.version), Some(3));
}

/// Checks that concurrent inserts share the quota and have distinct versions.
pub async fn concurrent_inserts_respect_the_quota(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let inserted = concurrently(8, |number| {
        let storage = storage.clone();
        Box::pin(async move {
            let new = new(number as u128 + 1, account);
            storage.calibrations.insert(new, 3).await.unwrap()
        })
    })
    .await;
    let mut versions: Vec<u32> = inserted.into_iter().flatten().map(|one| one.version).collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3]);
}

/// Checks that the newest calibration of a model is the default unless one is chosen. A choice
/// lasts until it is undone or the calibration is deleted.
pub async fn the_newest_or_the_chosen_is_the_default(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let store = &storage.calibrations;
    let id = CalibrationId::from_u128;
    let default = async || default_of(&storage, account, "acme/decider").await;
    for number in [1, 2] {
        insert(&storage, new(number, account)).await;
        assert_eq!(default().await, Some(number));
    }
    let chosen = store.choose(account, id(1), true).await.unwrap().unwrap();
    assert!(chosen.is_default);
    assert_eq!(default().await, Some(1));
    assert!(!insert(&storage, new(3, account)).await.is_default);
    assert_eq!(default().await, Some(1));
    let other = store.choose(account, id(2), false).await.unwrap().unwrap();
    assert!(!other.is_default, "it was not chosen");
    assert_eq!(default().await, Some(1));
    let back = store.choose(account, id(1), false).await.unwrap().unwrap();
    assert!(!back.is_default);
    assert_eq!(default().await, Some(3));
    store.choose(account, id(2), true).await.unwrap();
    assert!(store.delete(account, id(2)).await.unwrap());
    assert_eq!(default().await, Some(3));
    assert!(store.delete(account, id(3)).await.unwrap());
    assert_eq!(default().await, Some(1));
    assert_eq!(store.choose(account, id(2), true).await.unwrap(), None);
}

/// Checks that an id is used once, by an existing account; a rejected insert uses no version.
pub async fn ids_are_used_once(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    insert(&storage, new(5, account)).await;
    let again = storage.calibrations.insert(new(5, account), QUOTA).await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);
    let unknown_account = new(6, AccountId::from_u128(99));
    let inserted = storage.calibrations.insert(unknown_account, QUOTA).await;
    assert_eq!(kind(inserted), StorageErrorKind::NotFound);
    assert_eq!(insert(&storage, new(7, account)).await.version, 2);
}
