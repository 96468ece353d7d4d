//! What is cleared away from time to time.

use tollgate_billing::sweep::sweep as sweep_holds;
use tollgate_storage::ResponseStore;
use tollgate_types::Timestamp;

use crate::wiring::Domains;

/// How many responses one pass deletes at the most: each is as large as a conversation.
const BATCH: u32 = 100;

/// Releases holds that nobody resolved, and deletes responses whose time is over.
pub async fn sweep(domains: &Domains) {
    let (storage, clock) = (&domains.storage, &*domains.clock);
    sweep_holds(&*storage.ledger, clock).await;
    sweep_responses(&*storage.responses, clock.now()).await;
}

async fn sweep_responses(responses: &dyn ResponseStore, now: Timestamp) {
    loop {
        match responses.sweep(now, BATCH).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot delete responses whose time is over");
                return;
            }
        }
    }
}
