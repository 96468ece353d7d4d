//! Cases for [`crate::LedgerStore::settle`].

use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, HoldId};

use super::samples::{at, funded, hold, kind, nanos, settlement, take};
use super::{AccountLedger, Factory, LedgerSnapshot};
use crate::audit::Leg;
use crate::{LedgerAccount, Resolution, Settlement, StorageErrorKind, UsageFilter, UsagePage};

fn legs(ledger: &AccountLedger, id: HoldId) -> Vec<(Leg, i64)> {
    let of_hold =
        |transfer: &&crate::audit::TransferRow| transfer.subject == crate::audit::TransferSubject::Hold(id);
    let legs = ledger.transfers.iter().filter(of_hold);
    legs.map(|transfer| (transfer.leg, transfer.amount.nanos()))
        .collect()
}

/// Settles a hold of 30 out of 100; returns the resolution and the legs of its transfers.
async fn resolve(
    factory: &Factory,
    change: impl FnOnce(&mut Settlement),
) -> (Resolution, Vec<(Leg, i64)>, AccountLedger) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let hold = take(&storage, hold(3, id, 30)).await;
    let mut settlement = settlement(&hold, 12);
    change(&mut settlement);
    let resolution = storage.ledger.settle(settlement).await.unwrap();
    let ledgers = LedgerSnapshot::read(&storage).await;
    let ledger = ledgers.of(id).clone();
    assert_eq!(ledger.holds, []);
    assert_eq!(ledger.balance(LedgerAccount::Hold), 0);
    assert_eq!(ledger.usage.len(), 1);
    assert_eq!(ledger.usage[0].charge, resolution.charge);
    assert_eq!(ledger.usage[0].held, nanos(30));
    assert_eq!(
        ledger.balance(LedgerAccount::Credits),
        resolution.available.nanos()
    );
    assert!(resolution.first);
    (resolution, legs(&ledger, hold.id), ledger)
}

/// Checks that the charge goes to revenue and the rest back to credits, at the time the call ended.
pub async fn charge_and_rest_are_moved(factory: Factory) {
    let (resolution, legs, ledger) = resolve(&factory, |_| ()).await;
    assert_eq!((resolution.charge, resolution.available), (nanos(12), nanos(88)));
    assert_eq!(legs, [(Leg::Hold, 30), (Leg::Settle, 12), (Leg::Release, 18)]);
    assert_eq!(ledger.balance(LedgerAccount::RevenueUsage), 12);
    assert!(
        ledger.transfers[2..]
            .iter()
            .all(|transfer| transfer.created_at == at(2))
    );
}

/// Checks that a charge of the whole hold leaves nothing to release.
pub async fn whole_hold_is_charged(factory: Factory) {
    let (resolution, legs, _) = resolve(&factory, |settlement| settlement.charge = nanos(30)).await;
    assert_eq!((resolution.charge, resolution.available), (nanos(30), nanos(70)));
    assert_eq!(legs, [(Leg::Hold, 30), (Leg::Settle, 30)]);
}

/// Checks that a charge of zero releases the whole hold and still writes the usage row.
pub async fn void_releases_the_whole_hold(factory: Factory) {
    let void = |settlement: &mut Settlement| {
        settlement.charge = Credits::ZERO;
        settlement.outcome = Outcome::UpstreamError;
    };
    let (resolution, legs, ledger) = resolve(&factory, void).await;
    assert_eq!(
        (resolution.charge, resolution.available),
        (Credits::ZERO, nanos(100))
    );
    assert_eq!(legs, [(Leg::Hold, 30), (Leg::Release, 30)]);
    assert_eq!(ledger.usage[0].outcome, Outcome::UpstreamError);
}

/// Checks that a charge above the held amount is reduced to that amount.
pub async fn charge_is_cut_to_the_hold(factory: Factory) {
    let (resolution, legs, ledger) = resolve(&factory, |settlement| settlement.charge = nanos(31)).await;
    assert_eq!((resolution.charge, resolution.available), (nanos(30), nanos(70)));
    assert_eq!(legs, [(Leg::Hold, 30), (Leg::Settle, 30)]);
    assert_eq!(ledger.usage[0].overrun, Credits::ZERO);
}

/// Checks that cost beyond the hold is the operator's expense and does not change the caller's
/// credits.
pub async fn overrun_is_borne_by_the_operator(factory: Factory) {
    let overrun = |settlement: &mut Settlement| {
        settlement.charge = nanos(30);
        settlement.overrun = nanos(5);
    };
    let (resolution, legs, ledger) = resolve(&factory, overrun).await;
    assert_eq!((resolution.charge, resolution.available), (nanos(30), nanos(70)));
    assert_eq!(legs, [(Leg::Hold, 30), (Leg::Settle, 30), (Leg::Overrun, 5)]);
    assert_eq!(ledger.balance(LedgerAccount::RevenueUsage), 35);
    assert_eq!(ledger.balance(LedgerAccount::ExpenseOverrun), -5);
    assert_eq!(ledger.usage[0].overrun, nanos(5));
}

/// Checks that a hold of zero leaves a usage row and no transfer, even with a charge.
pub async fn free_call_writes_its_usage_row_only(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    for (number, charge) in [(3, 0), (4, 9)] {
        let hold = take(&storage, hold(number, id, 0)).await;
        let resolution = storage.ledger.settle(settlement(&hold, charge)).await.unwrap();
        let expected = Resolution {
            charge: Credits::ZERO,
            first: true,
            available: nanos(100),
        };
        assert_eq!(resolution, expected);
    }
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).transfers.len(), 1, "the grant");
    assert_eq!(ledgers.of(id).usage.len(), 2);
}

/// Checks that a hold resolves once. Later settlements change nothing and return the first charge.
pub async fn second_settlement_returns_the_first_result(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let hold = take(&storage, hold(3, id, 30)).await;
    storage.ledger.settle(settlement(&hold, 12)).await.unwrap();
    let before = LedgerSnapshot::read(&storage).await;
    for charge in [12, 0, 30, 1000] {
        let mut again = settlement(&hold, charge);
        again.outcome = Outcome::Crashed;
        again.overrun = nanos(7);
        let resolution = storage.ledger.settle(again).await.unwrap();
        let expected = Resolution {
            charge: nanos(12),
            first: false,
            available: nanos(88),
        };
        assert_eq!(resolution, expected);
    }
    before.assert_unchanged(&storage).await;
}

/// Checks that an unknown hold cannot be settled.
pub async fn unknown_hold_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let before = LedgerSnapshot::read(&storage).await;
    let settled = storage.ledger.settle(settlement(&hold(3, id, 30), 12)).await;
    assert_eq!(kind(settled), StorageErrorKind::NotFound);
    before.assert_unchanged(&storage).await;
}

/// Checks that a settlement with the wrong account finds no hold, before and after the hold is
/// resolved.
pub async fn hold_of_another_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let owner = funded(&storage, 1, 100).await;
    let other = funded(&storage, 2, 100).await;
    let hold = take(&storage, hold(3, owner, 30)).await;
    let mut foreign = settlement(&hold, 12);
    foreign.account = other;
    for resolved in [false, true] {
        let before = LedgerSnapshot::read(&storage).await;
        let settled = storage.ledger.settle(foreign.clone()).await;
        assert_eq!(kind(settled), StorageErrorKind::NotFound, "{resolved}");
        before.assert_unchanged(&storage).await;
        storage.ledger.settle(settlement(&hold, 12)).await.unwrap();
    }
    let page = UsagePage {
        after: None,
        limit: 9,
    };
    let rows = storage
        .usage
        .list(other, UsageFilter::default(), page)
        .await
        .unwrap();
    assert_eq!(rows, []);
}

/// Checks that negative amounts are refused, because they would create credits; the hold stays
/// open.
pub async fn negative_amounts_are_refused(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let hold = take(&storage, hold(3, id, 30)).await;
    let before = LedgerSnapshot::read(&storage).await;
    for (charge, overrun) in [(-1, 0), (i64::MIN, 0), (0, -1), (12, i64::MIN)] {
        let mut negative = settlement(&hold, charge);
        negative.overrun = nanos(overrun);
        let settled = storage.ledger.settle(negative).await;
        assert_eq!(kind(settled), StorageErrorKind::Conflict, "{charge} {overrun}");
    }
    before.assert_unchanged(&storage).await;
    assert!(storage.ledger.settle(settlement(&hold, 1)).await.unwrap().first);
}
