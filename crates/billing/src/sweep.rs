//! Releases expired holds, whose process died or whose settlement failed.

use tollgate_storage::LedgerStore;
use tollgate_types::Clock;

/// Maximum number of holds that one call of the storage releases. A pass makes such calls until no
/// expired hold is left.
const BATCH: u32 = 500;

/// Voids every expired hold and returns their number. A failure is logged, and the next pass tries
/// again.
pub async fn sweep(ledger: &dyn LedgerStore, clock: &dyn Clock) -> u64 {
    let mut swept = 0;
    loop {
        match ledger.sweep(clock.now(), BATCH).await {
            Ok(0) => break,
            Ok(count) => swept += count,
            Err(error) => {
                tracing::warn!(%error, "cannot release expired holds");
                break;
            }
        }
    }
    if swept > 0 {
        tracing::warn!(swept, "released expired holds whose calls were not settled");
    }
    swept
}
