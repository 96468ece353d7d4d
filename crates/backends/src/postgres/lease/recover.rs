//! Reports the calls and releases the leases of processes that have died.
//!
//! Each process locks its own directory, named after its node. An unlocked directory belongs to a
//! process that has ended. A call that was open then is void and free: whether its response arrived
//! is unknown.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_storage::{Result, Settlement};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, HoldId};

use super::round::{self, Call, Report, Terms};
use super::{LeaseConfig, MAX_ROUND_CALLS};
use crate::journal::record::{Hold, Record, crashed};
use crate::journal::segment::{self, Installation};
use crate::journal::unavailable;
use crate::postgres::pool::Pool;
use crate::postgres::rows;

const LOCK: &str = "lock";

pub(super) fn directory(dir: &Path, node: TransferId) -> PathBuf {
    dir.join(format!("{:032x}", node.as_u128()))
}

/// Locks a node's directory for this process; returns `None` if another process has locked it.
pub(super) fn directory_lock(dir: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Reports the calls in the journals of ended processes. An unreadable journal is logged and left
/// in place.
pub(super) async fn recover(pool: &Pool, config: &LeaseConfig, installation: Installation) -> Result<()> {
    fs::create_dir_all(&config.dir).map_err(unavailable)?;
    for entry in fs::read_dir(&config.dir).map_err(unavailable)? {
        let dir = entry.map_err(unavailable)?.path();
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(node) = u128::from_str_radix(name, 16) else {
            continue;
        };
        let Some(_directory_lock) = directory_lock(&dir).map_err(unavailable)? else {
            continue;
        };
        match UnreportedCalls::read(&dir, installation) {
            Ok(unreported) => {
                unreported
                    .report(pool, config, TransferId::from_u128(node))
                    .await?;
                fs::remove_dir_all(&dir).map_err(unavailable)?;
            }
            Err(error) => {
                let path = dir.display();
                tracing::error!(%error, %path, "cannot recover the journal of a dead node; leaving it in place");
            }
        }
    }
    Ok(())
}

/// Unreported calls from the journal of a dead process.
#[derive(Default)]
struct UnreportedCalls {
    holds: HashMap<(AccountId, HoldId), (u64, Hold)>,
    settled: HashMap<(AccountId, HoldId), Settlement>,
}

impl UnreportedCalls {
    fn read(dir: &Path, installation: Installation) -> Result<UnreportedCalls> {
        let mut unreported = UnreportedCalls::default();
        segment::replay(dir, installation, |seq, record| match record {
            Record::Hold(hold) => {
                unreported.holds.insert((hold.account, hold.id), (seq, hold));
            }
            Record::Settle(settlement, _) => {
                unreported
                    .settled
                    .insert((settlement.account, settlement.hold), settlement);
            }
            Record::Window(_) | Record::Refund(_) | Record::Shrink(_) => {}
        })?;
        Ok(unreported)
    }

    /// Reports every call and releases every lease of the node.
    async fn report(mut self, pool: &Pool, config: &LeaseConfig, node: TransferId) -> Result<()> {
        let mut leases: HashMap<(AccountId, TransferId), Vec<Call>> = HashMap::new();
        let of_node = sqlx::query("SELECT account_id, id FROM lease WHERE node = $1")
            .bind(node.as_u128().to_be_bytes());
        for row in pool.all(of_node).await? {
            let account = AccountId::from_u128(rows::id(&row, "account_id")?);
            let lease = TransferId::from_u128(rows::id(&row, "id")?);
            leases.entry((account, lease)).or_default();
        }
        let (now, mut void) = (config.clock.now(), 0_u64);
        for (key, (seq, hold)) in self.holds {
            // Holds without a lease belong to the SQLite engine; such a journal has none.
            let Some(lease) = hold.lease else { continue };
            let settlement = self.settled.remove(&key).unwrap_or_else(|| {
                void += 1;
                crashed(key, now)
            });
            let hold = Arc::new(hold);
            let calls = leases.entry((key.0, lease)).or_default();
            calls.push(Call {
                seq,
                hold,
                settlement,
            });
        }
        let calls: usize = leases.values().map(Vec::len).sum();
        tracing::info!(
            leases = leases.len(),
            calls,
            void,
            "reporting the calls of a dead node"
        );
        let terms = Terms {
            node,
            ttl: config.ttl,
            keep: config.max_call_duration,
        };
        for ((account, lease), mut calls) in leases {
            calls.sort_by_key(|call| call.seq);
            let mut report = Report::closing(lease);
            loop {
                let later = calls.split_off(calls.len().min(MAX_ROUND_CALLS));
                report.target = later.is_empty().then_some(0);
                report.calls = calls;
                round::exchange(pool, account, terms, &report).await?;
                if later.is_empty() {
                    break;
                }
                report.round += 1;
                calls = later;
            }
        }
        Ok(())
    }
}
