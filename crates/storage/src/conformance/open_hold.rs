//! Cases for engines that store each open hold as a row: audits show it, and its id cannot be
//! reused. Nodes with leases keep open holds in memory, and their ids are unique by construction.

use super::samples::{account, concurrently, funded, grant, hold, kind, settlement, take, warm_up};
use super::{Factory, LedgerSnapshot};
use crate::StorageErrorKind;

/// Checks that an audit shows every account, including empty ones, and every row under its account.
pub async fn shows_every_account_ledger(factory: Factory) {
    let storage = factory.open().await;
    for number in 1..=40 {
        if number % 4 == 0 {
            storage.accounts.create(account(number)).await.unwrap();
            continue;
        }
        let id = funded(&storage, number, 1_000).await;
        storage.ledger.grant(grant(100 + number, id, 1)).await.unwrap();
        for call in 0..number % 4 {
            take(&storage, hold(1_000 + number * 10 + call, id, 9)).await;
            let hold = take(&storage, hold(2_000 + number * 10 + call, id, 9)).await;
            storage.ledger.settle(settlement(&hold, 4)).await.unwrap();
        }
    }
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.ledgers.len(), 40);
    for number in 1..=40 {
        let ledger = ledgers.of(account(number).id);
        let calls = usize::try_from(number % 4).unwrap();
        let grants = if calls == 0 { 0 } else { 2 };
        assert_eq!(
            (ledger.holds.len(), ledger.usage.len()),
            (calls, calls),
            "{number}"
        );
        assert_eq!(ledger.transfers.len(), grants + calls * 4, "{number}");
    }
}

/// Checks that an id is used once: neither while its hold is open nor after its resolution can it
/// be reused.
pub async fn used_id_is_a_conflict(factory: Factory) {
    let storage = factory.open().await;
    let owner = funded(&storage, 1, 1000).await;
    let free = take(&storage, hold(1, owner, 0)).await;
    let paid = take(&storage, hold(2, owner, 10)).await;
    for resolved in [false, true] {
        let before = LedgerSnapshot::read(&storage).await;
        for (number, amount) in [(1, 0), (1, 7), (2, 10), (2, 0), (2, 3)] {
            let outcome = storage.ledger.hold(hold(number, owner, amount)).await;
            assert_eq!(
                kind(outcome),
                StorageErrorKind::Conflict,
                "{number} {amount} {resolved}"
            );
        }
        before.assert_unchanged(&storage).await;
        for hold in [&free, &paid] {
            storage.ledger.settle(settlement(hold, 0)).await.unwrap();
        }
    }
}

/// Checks that, of 16 concurrent holds with one id, exactly one is taken.
pub async fn same_hold_id_is_taken_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1000).await;
    warm_up(&storage, id).await;
    for amount in [0_i64, 5] {
        let number = 1 + amount.unsigned_abs();
        let outcomes = concurrently(16, |_| {
            let (ledger, hold) = (storage.ledger.clone(), hold(number.into(), id, amount));
            Box::pin(async move { ledger.hold(hold).await })
        })
        .await;
        let (taken, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!(taken.len(), 1, "{amount}");
        for refusal in refused {
            assert_eq!(kind(refusal), StorageErrorKind::Conflict);
        }
    }
    LedgerSnapshot::read(&storage).await;
}
