//! An open hold is a row: audits show it, and its id cannot be used again. A node that leases has its holds in its memory
//! until they are resolved, and its ids are made to be used once.

use super::samples::{account, at_once, funded, grant, hold, kind, settlement, take, warm_up};
use super::{Books, Factory};
use crate::StorageErrorKind;

/// Every account has its book, empty ones too, and every row is in its account's book.
pub async fn shows_every_book(factory: Factory) {
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
    let books = Books::read(&storage).await;
    assert_eq!(books.books.len(), 40);
    for number in 1..=40 {
        let book = books.of(account(number).id);
        let calls = usize::try_from(number % 4).unwrap();
        let grants = if calls == 0 { 0 } else { 2 };
        assert_eq!((book.holds.len(), book.usage.len()), (calls, calls), "{number}");
        assert_eq!(book.transfers.len(), grants + calls * 4, "{number}");
    }
}

/// An id is used once for ever: not while its hold is open, and not after it was resolved.
pub async fn used_id_is_a_conflict(factory: Factory) {
    let storage = factory.open().await;
    let owner = funded(&storage, 1, 1000).await;
    let free = take(&storage, hold(1, owner, 0)).await;
    let paid = take(&storage, hold(2, owner, 10)).await;
    for resolved in [false, true] {
        let before = Books::read(&storage).await;
        for (number, amount) in [(1, 0), (1, 7), (2, 10), (2, 0), (2, 3)] {
            let outcome = storage.ledger.hold(hold(number, owner, amount)).await;
            assert_eq!(
                kind(outcome),
                StorageErrorKind::Conflict,
                "{number} {amount} {resolved}"
            );
        }
        assert_eq!(Books::read(&storage).await, before);
        for hold in [&free, &paid] {
            storage.ledger.settle(settlement(hold, 0)).await.unwrap();
        }
    }
}

/// Of 16 holds with one id at once, exactly one is taken.
pub async fn same_hold_id_is_taken_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1000).await;
    warm_up(&storage, id).await;
    for amount in [0_i64, 5] {
        let number = 1 + amount.unsigned_abs();
        let outcomes = at_once(16, |_| {
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
    Books::read(&storage).await;
}
