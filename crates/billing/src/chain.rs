//! Follows the chain of an account's transfers. They may come in any order: what waits for its neighbour is all that is
//! kept, so that a chain of any length passes through a little memory when its order is about that of the transfers.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_storage::audit::{TransferRow, TransferSubject};
use tollgate_storage::{Chain, Link, TransferHash};
use tollgate_types::AccountId;
use tollgate_types::id::TransferId;

/// Follows one chain.
#[derive(Debug)]
pub struct ChainFollower {
    account: AccountId,
    /// Transfers whose next was not seen, by their place.
    ends: BTreeMap<i64, TransferHash>,
    /// Transfers whose one before was not seen, by their place.
    begins: BTreeMap<i64, (TransferHash, Name)>,
    linked: u64,
    unlinked: u64,
}

/// How a transfer is named in a fault.
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

/// What has been seen of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// The newest transfer's place and hash.
    pub head: Option<(i64, TransferHash)>,
    /// The place of the oldest.
    pub first: Option<i64>,
    /// Transfers in the chain.
    pub linked: u64,
    /// Transfers in none: they are older than it.
    pub unlinked: u64,
    /// Pieces of the chain that are missing between others: from a place up to another.
    pub gaps: Vec<(i64, i64)>,
}

impl ChainFollower {
    /// Nothing was seen yet.
    pub fn new(account: AccountId) -> ChainFollower {
        ChainFollower {
            account,
            ends: BTreeMap::new(),
            begins: BTreeMap::new(),
            linked: 0,
            unlinked: 0,
        }
    }

    /// Sees a transfer; says what is wrong with it or beside it.
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
                "{name} at place {place} was changed: its hash is {}, its content makes {own}",
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
                        "{name} is at place {place}, where there is another transfer"
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

    /// What was seen, when there is no more. What it begins and ends with is not judged.
    pub fn followed(&self) -> Followed {
        let begins = self.begins.keys().copied();
        let ends = self.ends.keys().copied();
        let starts_at_one = self.linked > 0 && self.begins.len() < self.ends.len();
        let first = if starts_at_one {
            Some(1)
        } else {
            self.begins.keys().next().copied()
        };
        let gaps = ends.zip(begins.skip(usize::from(!starts_at_one)));
        Followed {
            head: self.ends.last_key_value().map(|(place, hash)| (*place, *hash)),
            first,
            linked: self.linked,
            unlinked: self.unlinked,
            gaps: gaps.map(|(end, begin)| (end + 1, begin - 1)).collect(),
        }
    }

    /// Compares what was seen with what the book says about its chain.
    pub fn finish(&self, chain: &Chain, mut fault: impl FnMut(String)) {
        for (place, (_, name)) in &self.begins {
            fault(format!(
                "{name} at place {place} comes after place {}, where there is no transfer",
                place - 1
            ));
        }
        let newest = self.followed().head;
        let told = chain.head.map(|head| (head.sequence, head.hash));
        if newest != told {
            let (newest, told) = (described(newest), described(told));
            fault(format!(
                "the newest transfer is at {newest}, the book says {told}"
            ));
        }
        if self.unlinked != chain.unchained {
            fault(format!(
                "{} transfers are in no chain, {} were made before there was one",
                self.unlinked, chain.unchained
            ));
        }
    }
}

fn broken(name: Name, place: i64, told: TransferHash, found: TransferHash) -> String {
    format!("{name} at place {place} says that the hash before it is {told}, which is {found}")
}

fn described(head: Option<(i64, TransferHash)>) -> String {
    head.map_or_else(
        || "no place".to_owned(),
        |(place, hash)| format!("place {place} with hash {hash}"),
    )
}

#[cfg(test)]
mod tests;
