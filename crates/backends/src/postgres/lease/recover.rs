//! Reports what processes have left that died with leases, and gives these back.
//!
//! Each process has a directory of its own, named after its node, which it locks. One that is not locked is of a process
//! that has ended. A call that was open then is void: nobody knows whether its answer arrived, so nobody pays for it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_storage::{Result, Settlement};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, HoldId};

use super::round::{self, Call, Report, Terms};
use super::{LeaseConfig, MOST_TOGETHER};
use crate::journal::record::{Hold, Record, crashed};
use crate::journal::segment::{self, Installation};
use crate::journal::unavailable;
use crate::postgres::pool::Pool;
use crate::postgres::rows;

const LOCK: &str = "lock";

/// The directory of a node.
pub(super) fn directory(dir: &Path, node: TransferId) -> PathBuf {
    dir.join(format!("{:032x}", node.as_u128()))
}

/// Makes a node's directory this process's own; `None` when another process has it.
pub(super) fn own(dir: &Path) -> io::Result<Option<File>> {
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

/// Reports what every process that has ended left in this directory. What cannot be read stays, and is said in the log.
pub(super) async fn recover(pool: &Pool, config: &LeaseConfig, installation: Installation) -> Result<()> {
    fs::create_dir_all(&config.dir).map_err(unavailable)?;
    for entry in fs::read_dir(&config.dir).map_err(unavailable)? {
        let dir = entry.map_err(unavailable)?.path();
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(node) = u128::from_str_radix(name, 16) else {
            continue;
        };
        let Some(_own) = own(&dir).map_err(unavailable)? else {
            continue;
        };
        match Left::read(&dir, installation) {
            Ok(left) => {
                left.report(pool, config, TransferId::from_u128(node)).await?;
                fs::remove_dir_all(&dir).map_err(unavailable)?;
            }
            Err(error) => {
                let path = dir.display();
                tracing::error!(%error, %path, "the journal of a node that has ended is left where it is");
            }
        }
    }
    Ok(())
}

/// What a process left in its journal.
#[derive(Default)]
struct Left {
    holds: HashMap<(AccountId, HoldId), (u64, Hold)>,
    settled: HashMap<(AccountId, HoldId), Settlement>,
}

impl Left {
    fn read(dir: &Path, installation: Installation) -> Result<Left> {
        let mut left = Left::default();
        segment::replay(dir, installation, |seq, record| match record {
            Record::Hold(hold) => {
                left.holds.insert((hold.account, hold.id), (seq, hold));
            }
            Record::Settle(settlement, _) => {
                left.settled
                    .insert((settlement.account, settlement.hold), settlement);
            }
            Record::Window(_) | Record::Refund(_) | Record::Shrink(_) => {}
        })?;
        Ok(left)
    }

    /// Reports every call and gives every lease of the node back.
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
            // A hold of SQLite's engine has no lease; none is in such a journal.
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
            "reporting what a node left that has ended"
        );
        let terms = Terms {
            node,
            life: config.life,
            keep: config.longest_call,
        };
        for ((account, lease), mut calls) in leases {
            calls.sort_by_key(|call| call.seq);
            let mut report = Report::closing(lease);
            loop {
                let later = calls.split_off(calls.len().min(MOST_TOGETHER));
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
