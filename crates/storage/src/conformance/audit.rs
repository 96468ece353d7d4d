//! Cases for [`crate::LedgerStore::audit`]. Every other part of the suite compares its output.

use super::{Factory, LedgerSnapshot};

/// Checks that an empty database has no accounts and no prices.
pub async fn empty_database_shows_nothing(factory: Factory) {
    let storage = factory.open().await;
    assert_eq!(LedgerSnapshot::read(&storage).await, LedgerSnapshot::default());
}
