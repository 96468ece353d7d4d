//! [`crate::LedgerStore::audit`]. What it shows is compared in every other part of the suite.

use super::samples::{account, funded, grant, hold, settlement, take};
use super::{Books, Factory};

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

/// A new database has no books and no prices.
pub async fn empty_database_shows_nothing(factory: Factory) {
    let storage = factory.open().await;
    assert_eq!(Books::read(&storage).await, Books::default());
}
