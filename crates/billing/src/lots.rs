//! Expiry of lots of credits.

use tollgate_storage::LotStore;
use tollgate_types::Clock;

/// Maximum number of accounts in one pass.
const BATCH: u32 = 10_000;

/// Expires due lots and returns their number. Several nodes may call this concurrently. A failure
/// is logged, and the next pass tries again.
pub async fn expire_lots(lots: &dyn LotStore, clock: &dyn Clock) -> u64 {
    match lots.expire(clock.now(), BATCH).await {
        Ok(0) => 0,
        Ok(expired) => {
            tracing::info!(expired, "credit lots expired");
            expired
        }
        Err(error) => {
            tracing::warn!(%error, "cannot expire credit lots");
            0
        }
    }
}
