//! What is done with lots whose time is over.

use tollgate_storage::LotStore;
use tollgate_types::Clock;

/// Accounts that one pass looks at.
const BATCH: u32 = 10_000;

/// Has lots expire whose time is over; answers how many. Several nodes may do so at once. A failure is logged and the
/// next pass tries again.
pub async fn expire_lots(lots: &dyn LotStore, clock: &dyn Clock) -> u64 {
    match lots.expire(clock.now(), BATCH).await {
        Ok(0) => 0,
        Ok(expired) => {
            tracing::info!(expired, "lots of credits have expired");
            expired
        }
        Err(error) => {
            tracing::warn!(%error, "cannot have lots of credits expire");
            0
        }
    }
}
