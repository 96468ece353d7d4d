//! Settlements that the database did not take. They are tried again until it does: what a caller was told is what it pays,
//! also when the database was away at that moment. A process that dies before leaves them to the sweep, which voids their holds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tollgate_storage::{Settlement, StorageErrorKind};

use super::Node;
use super::ledger::settle_exactly;
use crate::ids::lock;

/// Settlements that may wait. Their holds are released by the sweep when there are more.
const MOST: usize = 100_000;
/// Between two attempts, doubled up to the second one.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Where they wait.
#[derive(Default)]
pub(super) struct Unsettled(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Oldest first.
    settlements: VecDeque<Settlement>,
    /// Whether a task tries them.
    is_tried: bool,
}

impl Unsettled {
    /// Tries this one again; it can be written any number of times.
    pub(super) fn keep(&self, node: &Arc<Node>, settlement: Settlement) {
        let mut waiting = lock(&self.0);
        if waiting.settlements.len() >= MOST {
            return;
        }
        waiting.settlements.push_back(settlement);
        if !std::mem::replace(&mut waiting.is_tried, true) {
            node.pool.accompany(try_again(Arc::downgrade(node)));
        }
    }

    /// Tries all of them once more: nobody will afterwards.
    pub(super) async fn finish(&self, node: &Node) {
        let waiting = std::mem::take(&mut lock(&self.0).settlements);
        for settlement in waiting {
            if let Err(error) = settle_exactly(&node.pool, &settlement).await {
                tracing::error!(hold.id = %settlement.hold, %error, "a settlement is lost: its hold is released later");
            }
        }
    }

    /// The next one; `None` ends the task that asks.
    fn next(&self) -> Option<Settlement> {
        let mut waiting = lock(&self.0);
        let next = waiting.settlements.pop_front();
        waiting.is_tried = next.is_some();
        next
    }

    fn put_back(&self, settlement: Settlement) {
        lock(&self.0).settlements.push_front(settlement);
    }
}

/// Tries until none is left.
async fn try_again(node: Weak<Node>) {
    let mut pause = AGAIN[0];
    loop {
        // Not at once: the database has just refused one.
        tokio::time::sleep(pause).await;
        let Some(node) = node.upgrade() else { return };
        while let Some(settlement) = node.unsettled.next() {
            match settle_exactly(&node.pool, &settlement).await {
                Ok(_) => pause = AGAIN[0],
                Err(error) if is_passing(error.kind) => {
                    node.unsettled.put_back(settlement);
                    pause = (pause * 2).min(AGAIN[1]);
                    break;
                }
                Err(error) => {
                    tracing::error!(hold.id = %settlement.hold, %error, "a settlement cannot be written");
                }
            }
        }
        if !lock(&node.unsettled.0).is_tried {
            return;
        }
    }
}

/// Whether the same may succeed later.
pub(super) fn is_passing(kind: StorageErrorKind) -> bool {
    matches!(kind, StorageErrorKind::Unavailable | StorageErrorKind::Timeout)
}
