//! Verifies the hash chain of an account's transfers. Transfers may arrive in any order: only the
//! ends of linked runs are buffered, so that little memory is needed if the order is almost that of
//! the chain.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_storage::audit::{TransferRow, TransferSubject};
use tollgate_storage::{Chain, Link, TransferHash};
use tollgate_types::AccountId;
use tollgate_types::id::TransferId;

/// Verifier of one account's chain.
#[derive(Debug)]
pub struct ChainFollower {
    account: AccountId,
    /// Hashes of transfers whose successor has not been read, by sequence number.
    ends: BTreeMap<i64, TransferHash>,
    /// Previous hashes of transfers whose predecessor has not been read, by sequence number.
    begins: BTreeMap<i64, (TransferHash, Name)>,
    linked: u64,
    unlinked: u64,
}

/// Name of a transfer in a fault message.
#[derive(Clone, Copy, Debug)]
struct Name {
    subject: TransferSubject,
    leg: &'static str,
}

impl Name {
    fn of(row: &TransferRow) -> Name {
        Name {
            subject: row.subject,
            leg: row.leg.as_str(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject {
            TransferSubject::Hold(id) => write!(f, "transfer {id} {}", self.leg),
            other => write!(
                f,
                "transfer {} {}",
                TransferId::from_u128(other.entry()),
                self.leg
            ),
        }
    }
}

/// Extent of the part of a chain that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainSummary {
    /// The newest transfer's sequence number and hash.
    pub head: Option<(i64, TransferHash)>,
    /// Sequence number of the oldest transfer.
    pub first: Option<i64>,
    /// Number of transfers in the chain.
    pub linked: u64,
    /// Number of transfers without a link: those older than the chain.
    pub unlinked: u64,
    /// Gaps between the transfers that were read: first and last missing sequence number.
    pub gaps: Vec<(i64, i64)>,
}

impl ChainFollower {
    /// Creates a verifier for an account whose transfers are not read yet.
    pub fn new(account: AccountId) -> ChainFollower {
        ChainFollower {
            account,
            ends: BTreeMap::new(),
            begins: BTreeMap::new(),
            linked: 0,
            unlinked: 0,
        }
    }

    /// Adds a transfer. Reports each mismatch of its hash, of its neighbours' hashes or of its
    /// sequence number.
    pub fn see(&mut self, row: &TransferRow, mut fault: impl FnMut(String)) {
        let Some(link) = row.link else {
            self.unlinked += 1;
            return;
        };
        self.linked += 1;
        let (name, place) = (Name::of(row), link.sequence);
        let own = row.hash(self.account, place, link.previous);
        if own != link.hash {
            fault(format!(
                "{name} at place {place} was changed: its stored hash is {}; its content hashes to {own}",
                link.hash
            ));
        }
        self.join_before(link, name, &mut fault);
        match self.begins.remove(&(place + 1)) {
            Some((previous, next)) if previous != link.hash => {
                fault(broken(next, place + 1, previous, link.hash))
            }
            Some(_) => {}
            None => {
                if self.ends.insert(place, link.hash).is_some() {
                    fault(format!(
                        "{name} has place {place}, which another transfer already has"
                    ));
                }
            }
        }
    }

    fn join_before(&mut self, link: Link, name: Name, fault: &mut impl FnMut(String)) {
        let place = link.sequence;
        let before = match place {
            1 => Some(TransferHash::BEFORE_FIRST),
            _ => self.ends.remove(&(place - 1)),
        };
        match before {
            Some(hash) if hash != link.previous => fault(broken(name, place, link.previous, hash)),
            Some(_) => {}
            None => {
                self.begins.insert(place, (link.previous, name));
            }
        }
    }

    /// Returns the extent of the transfers that were read, without a comparison with the recorded
    /// chain.
    pub fn summary(&self) -> ChainSummary {
        let begins = self.begins.keys().copied();
        let ends = self.ends.keys().copied();
        let starts_at_one = self.linked > 0 && self.begins.len() < self.ends.len();
        let first = if starts_at_one {
            Some(1)
        } else {
            self.begins.keys().next().copied()
        };
        let gaps = ends.zip(begins.skip(usize::from(!starts_at_one)));
        ChainSummary {
            head: self.ends.last_key_value().map(|(place, hash)| (*place, *hash)),
            first,
            linked: self.linked,
            unlinked: self.unlinked,
            gaps: gaps.map(|(end, begin)| (end + 1, begin - 1)).collect(),
        }
    }

    /// Compares the transfers that were read with the recorded chain head and number of unchained
    /// transfers.
    pub fn finish(&self, chain: &Chain, mut fault: impl FnMut(String)) {
        for (place, (_, name)) in &self.begins {
            fault(format!(
                "{name} at place {place} has no predecessor: no transfer has place {}",
                place - 1
            ));
        }
        let newest = self.summary().head;
        let recorded = chain.head.map(|head| (head.sequence, head.hash));
        if newest != recorded {
            let (newest, recorded) = (described(newest), described(recorded));
            fault(format!(
                "the newest transfer is at {newest}; the ledger records {recorded}"
            ));
        }
        if self.unlinked != chain.unchained {
            fault(format!(
                "{} transfers are in no chain; {} are older than the chain",
                self.unlinked, chain.unchained
            ));
        }
    }
}

fn broken(name: Name, place: i64, recorded: TransferHash, found: TransferHash) -> String {
    format!("{name} at place {place} records {recorded} as the previous hash; the previous hash is {found}")
}

fn described(head: Option<(i64, TransferHash)>) -> String {
    head.map_or_else(
        || "no place".to_owned(),
        |(place, hash)| format!("place {place} with hash {hash}"),
    )
}

#[cfg(test)]
mod tests;
