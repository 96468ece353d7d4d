//! [`crate::LedgerStore::audit`]. What it shows is compared in every other part of the suite.

use super::{Books, Factory};

/// A new database has no books and no prices.
pub async fn empty_database_shows_nothing(factory: Factory) {
    let storage = factory.open().await;
    assert_eq!(Books::read(&storage).await, Books::default());
}
