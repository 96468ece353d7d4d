//! Settlements that the database could not write. They are retried until they succeed, so that an
//! account pays the charge that was reported to the caller. If the process dies before, the sweep
//! voids their holds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tollgate_storage::{Settlement, StorageErrorKind};

use super::Node;
use super::ledger::settle_exactly;
use crate::ids::lock;

/// Maximum number of waiting settlements. Further settlements are dropped, and the sweep voids
/// their holds.
const MAX_WAITING: usize = 100_000;
/// Initial and maximum pause between attempts, with exponential backoff.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Queue of settlements.
#[derive(Default)]
pub(super) struct Unsettled(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Waiting settlements, oldest first.
    settlements: VecDeque<Settlement>,
    /// Whether a retry task is running.
    is_retrying: bool,
}

impl Unsettled {
    /// Queues a settlement for retries; writing it more than once is safe.
    pub(super) fn retry_later(&self, node: &Arc<Node>, settlement: Settlement) {
        let mut waiting = lock(&self.0);
        if waiting.settlements.len() >= MAX_WAITING {
            return;
        }
        waiting.settlements.push_back(settlement);
        if !std::mem::replace(&mut waiting.is_retrying, true) {
            node.pool.spawn_background(retry_all(Arc::downgrade(node)));
        }
    }

    /// Retries each settlement once more, at shutdown.
    pub(super) async fn finish(&self, node: &Node) {
        let waiting = std::mem::take(&mut lock(&self.0).settlements);
        for settlement in waiting {
            if let Err(error) = settle_exactly(&node.pool, &settlement).await {
                tracing::error!(hold.id = %settlement.hold, %error, "lost a settlement: its hold is released later");
            }
        }
    }

    /// Returns the next settlement; `None` ends the retry task.
    fn next(&self) -> Option<Settlement> {
        let mut waiting = lock(&self.0);
        let next = waiting.settlements.pop_front();
        waiting.is_retrying = next.is_some();
        next
    }

    fn put_back(&self, settlement: Settlement) {
        lock(&self.0).settlements.push_front(settlement);
    }
}

/// Retries settlements until the queue is empty.
async fn retry_all(node: Weak<Node>) {
    let mut pause = RETRY_PAUSES[0];
    loop {
        // Pauses first: the database has just failed.
        tokio::time::sleep(pause).await;
        let Some(node) = node.upgrade() else { return };
        while let Some(settlement) = node.unsettled.next() {
            match settle_exactly(&node.pool, &settlement).await {
                Ok(_) => pause = RETRY_PAUSES[0],
                Err(error) if is_transient(error.kind) => {
                    node.unsettled.put_back(settlement);
                    pause = (pause * 2).min(RETRY_PAUSES[1]);
                    break;
                }
                Err(error) => {
                    tracing::error!(hold.id = %settlement.hold, %error, "dropped a settlement that cannot be written");
                }
            }
        }
        if !lock(&node.unsettled.0).is_retrying {
            return;
        }
    }
}

/// Whether a retry after an error of this kind may succeed.
pub(super) fn is_transient(kind: StorageErrorKind) -> bool {
    matches!(kind, StorageErrorKind::Unavailable | StorageErrorKind::Timeout)
}
