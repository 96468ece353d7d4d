//! Cases for [`crate::LedgerStore::grant`].

use tollgate_types::Credits;

use super::samples::{account, funded, grant, hold, kind, nanos, settlement, take};
use super::{Factory, LedgerSnapshot};
use crate::{Balance, LedgerAccount, StorageErrorKind};

/// Checks that a grant moves credits from cash, which goes down by the same amount.
pub async fn adds_to_credits(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 0).await;
    take(&storage, hold(9, id, 0)).await;
    for (number, amount, credits) in [(1, 100, 100), (2, 1, 101), (u128::MAX, 5, 106)] {
        let balance = storage.ledger.grant(grant(number, id, amount)).await.unwrap();
        let expected = Balance {
            credits: nanos(credits),
            held: Credits::ZERO,
        };
        assert_eq!(balance, expected);
    }
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).balance(LedgerAccount::Cash), -106);
    assert_eq!(ledgers.of(id).transfers.len(), 3);
}

/// Checks that a repeated grant, with any amount, changes nothing and returns the balance.
pub async fn same_id_is_one_grant(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    take(&storage, hold(3, id, 30)).await;
    let before = LedgerSnapshot::read(&storage).await;
    for amount in [100, 1, i64::MAX] {
        let balance = storage.ledger.grant(grant(1, id, amount)).await.unwrap();
        let expected = Balance {
            credits: nanos(70),
            held: nanos(30),
        };
        assert_eq!(balance, expected);
    }
    before.assert_unchanged(&storage).await;
}

/// Checks that the id of a grant to one account cannot be used for another account.
pub async fn same_id_for_another_account_is_a_conflict(factory: Factory) {
    let storage = factory.open().await;
    funded(&storage, 1, 100).await;
    let other = funded(&storage, 2, 0).await;
    let before = LedgerSnapshot::read(&storage).await;
    let granted = storage.ledger.grant(grant(1, other, 100)).await;
    assert_eq!(kind(granted), StorageErrorKind::Conflict);
    before.assert_unchanged(&storage).await;
}

/// Checks that the sum of all grants to an account must not overflow, spent or not.
pub async fn sum_that_does_not_fit_is_a_conflict(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, i64::MAX - 1).await;
    let hold = take(&storage, hold(3, id, 30)).await;
    storage.ledger.settle(settlement(&hold, 12)).await.unwrap();
    let before = LedgerSnapshot::read(&storage).await;
    for amount in [3, 12, i64::MAX] {
        let granted = storage.ledger.grant(grant(2, id, amount)).await;
        assert_eq!(kind(granted), StorageErrorKind::Conflict, "{amount}");
    }
    before.assert_unchanged(&storage).await;
    let balance = storage.ledger.grant(grant(2, id, 1)).await.unwrap();
    assert_eq!(balance.credits, nanos(i64::MAX - 12));
    LedgerSnapshot::read(&storage).await;
}

/// Checks that an account must exist to receive credits.
pub async fn unknown_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let granted = storage.ledger.grant(grant(1, account(1).id, 5)).await;
    assert_eq!(kind(granted), StorageErrorKind::NotFound);
    assert_eq!(LedgerSnapshot::read(&storage).await, LedgerSnapshot::default());
}

/// Checks that a grant must be above zero.
pub async fn amount_must_be_positive(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let before = LedgerSnapshot::read(&storage).await;
    for amount in [0, -1, i64::MIN] {
        let granted = storage.ledger.grant(grant(2, id, amount)).await;
        assert_eq!(kind(granted), StorageErrorKind::Conflict, "{amount}");
    }
    before.assert_unchanged(&storage).await;
}
