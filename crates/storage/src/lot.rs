//! Lots: credits that came in together, with what is left of them. One is made by each grant and each refund.
//!
//! Calls and fees move credits, not lots. What they spent is assigned to lots later, in [`burn order`](Lot::burns_before)
//! and always before the set of lots changes, so that it is what assigning every charge at once would have been. Until
//! then it is the difference between what is left of all lots and what the account has, held or not.

use std::cmp::Ordering;

use async_trait::async_trait;
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::Result;
use crate::audit::Leg;
use crate::refund::{NewRefund, RefundOutcome};
use crate::subscription::entry;

/// Where the credits of a lot came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LotKind {
    /// They were paid for.
    #[default]
    Purchase,
    /// The operator gave them.
    Promotion,
    /// They were charged and given back.
    Refund,
}

impl LotKind {
    /// The name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            LotKind::Purchase => "purchase",
            LotKind::Promotion => "promotion",
            LotKind::Refund => "refund",
        }
    }

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [LotKind::Purchase, LotKind::Promotion, LotKind::Refund]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }

    /// The transfer that makes such a lot.
    pub const fn leg(self) -> Leg {
        match self {
            LotKind::Purchase => Leg::Grant,
            LotKind::Promotion => Leg::Promotion,
            LotKind::Refund => Leg::Refund,
        }
    }
}

/// On which terms credits are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotTerms {
    /// Where they come from.
    pub kind: LotKind,
    /// Lots of lower priority are spent first.
    pub priority: u8,
    /// When what is left of them is gone; never, when it is not said.
    pub expires_at: Option<Timestamp>,
    /// For operators.
    pub note: String,
}

impl LotTerms {
    /// The priority of what is given without one.
    pub const PRIORITY: u8 = 100;
}

impl Default for LotTerms {
    /// A purchase that never expires.
    fn default() -> Self {
        LotTerms {
            kind: LotKind::Purchase,
            priority: LotTerms::PRIORITY,
            expires_at: None,
            note: String::new(),
        }
    }
}

/// Credits that came in together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lot {
    /// Id of the grant or refund that made it.
    pub id: TransferId,
    /// Whose.
    pub account: AccountId,
    /// How many there were.
    pub amount: Credits,
    /// How many are left of them, less what was spent since spending was assigned last.
    pub remaining: Credits,
    /// How many were gone with their time.
    pub expired: Credits,
    /// How many were taken back.
    pub withdrawn: Credits,
    /// On which terms.
    pub terms: LotTerms,
    /// When they came.
    pub created_at: Timestamp,
}

impl Lot {
    /// A new lot, of which everything is left.
    pub fn new(
        id: TransferId,
        account: AccountId,
        amount: Credits,
        terms: LotTerms,
        created_at: Timestamp,
    ) -> Lot {
        Lot {
            id,
            account,
            amount,
            remaining: amount,
            expired: Credits::ZERO,
            withdrawn: Credits::ZERO,
            terms,
            created_at,
        }
    }

    /// Whether its time is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.terms.expires_at.is_some_and(|at| at <= now)
    }

    /// The order in which lots are spent: lower priority first, then what expires sooner, then what came earlier.
    pub fn burns_before(&self, other: &Lot) -> Ordering {
        let key = |lot: &Lot| {
            let expires_at = lot.terms.expires_at.map_or(i64::MAX, Timestamp::as_micros);
            (
                lot.terms.priority,
                lot.terms.expires_at.is_none(),
                expires_at,
                lot.created_at,
                lot.id,
            )
        };
        key(self).cmp(&key(other))
    }
}

/// Credits of an account at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Funds {
    /// What can be spent.
    pub available: Credits,
    /// What calls that run hold of credits, without what they hold of an allowance.
    pub held: Credits,
}

/// Credits that leave a lot other than by being spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// What names the transfer. It follows from the lot and what was left of it, so that the same is not taken twice.
    pub entry: TransferId,
    /// [`Leg::Expire`] or [`Leg::Withdraw`].
    pub leg: Leg,
    /// How many.
    pub amount: Credits,
}

/// Assigns to the lots what was spent since this was done last: what they have beyond the account's funds. The lots are
/// all of the account that have something left; they are put into the order in which they are spent.
pub fn assign(lots: &mut [Lot], funds: Funds) {
    lots.sort_by(Lot::burns_before);
    let total: i128 = lots.iter().map(|lot| i128::from(lot.remaining.nanos())).sum();
    let mut spent = total - i128::from(funds.available.nanos()) - i128::from(funds.held.nanos());
    for lot in lots {
        let remaining = i128::from(lot.remaining.nanos());
        let burnt = spent.clamp(0, remaining);
        spent -= burnt;
        lot.remaining = narrowed(remaining - burnt);
    }
}

/// Takes from lots whose time is over what no call may still use, at most what the account has available. Calls hold
/// lots in the order in which they are spent, and a lot that is over is held by those alone that were accepted before:
/// `held_before` says how much of credits these hold. The lots are as [`assign`] leaves them.
pub fn expire(
    lots: &mut [Lot],
    funds: Funds,
    now: Timestamp,
    held_before: impl Fn(Timestamp) -> Credits,
) -> Vec<Leaving> {
    let (mut reserved, mut available) = (Credits::ZERO, funds.available);
    let mut leaving = Vec::new();
    for lot in lots {
        let over = lot.terms.expires_at.filter(|_| lot.is_over(now));
        let free = free(lot, over.map_or(funds.held, &held_before), &mut reserved).min(available);
        if over.is_some() && free > Credits::ZERO {
            available = available.saturating_sub(free);
            leaving.push(leave(lot, Leg::Expire, free));
        }
    }
    leaving
}

/// Takes what is left of a lot and held by no call, at most so much that `total` was taken back of it then. The lots are
/// as [`assign`] leaves them.
pub fn withdraw(lots: &mut [Lot], funds: Funds, which: TransferId, total: Credits) -> Option<Leaving> {
    let mut reserved = Credits::ZERO;
    for lot in lots {
        let free = free(lot, funds.held, &mut reserved).min(funds.available);
        let free = free.min(total.saturating_sub(lot.withdrawn));
        if lot.id == which {
            return (free > Credits::ZERO).then(|| leave(lot, Leg::Withdraw, free));
        }
    }
    None
}

/// What of a lot is not held, when `held` is what calls hold and `reserved` what they hold of the lots before.
fn free(lot: &Lot, held: Credits, reserved: &mut Credits) -> Credits {
    let kept = held.saturating_sub(*reserved).min(lot.remaining);
    *reserved = Credits::from_nanos(reserved.nanos().saturating_add(kept.nanos()));
    lot.remaining.saturating_sub(kept)
}

/// Takes credits out of a lot.
fn leave(lot: &mut Lot, leg: Leg, amount: Credits) -> Leaving {
    let kind: &[u8] = if leg == Leg::Expire {
        b"expire"
    } else {
        b"withdraw"
    };
    let entry = entry(kind, lot.id.as_u128(), lot.remaining.nanos());
    lot.remaining = lot.remaining.saturating_sub(amount);
    let sum = if leg == Leg::Expire {
        &mut lot.expired
    } else {
        &mut lot.withdrawn
    };
    *sum = Credits::from_nanos(sum.nanos().saturating_add(amount.nanos()));
    Leaving { entry, leg, amount }
}

fn narrowed(nanos: i128) -> Credits {
    Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Keeps lots. Every method is atomic together with the money that it moves; a method that fails has written nothing.
/// Lots are made by [`crate::LedgerStore::grant`].
#[async_trait]
pub trait LotStore: Send + Sync {
    /// All lots of an account in the order in which they are spent, with what is left of each now: all spending is
    /// assigned, and those whose time is over have expired. `NotFound` when there is no such account.
    async fn lots(&self, account: AccountId, now: Timestamp) -> Result<Vec<Lot>>;

    /// Has lots expire whose time is over, of at most `limit` accounts, those that are over longest first; answers how
    /// many. What calls that were accepted before hold of them stays until these have ended.
    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64>;

    /// Takes back what is left of a purchase and held by no call, at most so much that `total` was taken back of it since
    /// it was made; answers how much was taken now, which may be nothing. `NotFound` when there is no such lot;
    /// `Conflict` when it was not paid for.
    async fn withdraw(&self, lot: TransferId, total: Credits, at: Timestamp) -> Result<Credits>;

    /// Gives back what was charged for a call, never more in total than was charged: what credits paid as a lot of its
    /// own that never expires, what an allowance paid to its week while that is open. The same id twice is one refund.
    /// `NotFound` when there is no such usage row; `Conflict` when the id is that of a refund of another call.
    async fn refund(&self, new: NewRefund) -> Result<RefundOutcome>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lot(id: u128, remaining: i64, priority: u8, expires_at: Option<i64>, created_at: i64) -> Lot {
        let terms = LotTerms {
            priority,
            expires_at: expires_at.map(Timestamp::from_micros),
            ..LotTerms::default()
        };
        let amount = Credits::from_nanos(remaining);
        let (id, account) = (TransferId::from_u128(id), AccountId::from_u128(1));
        Lot::new(id, account, amount, terms, Timestamp::from_micros(created_at))
    }

    fn funds(available: i64, held: i64) -> Funds {
        Funds {
            available: Credits::from_nanos(available),
            held: Credits::from_nanos(held),
        }
    }

    fn left(lots: &[Lot]) -> Vec<(u128, i64)> {
        lots.iter()
            .map(|lot| (lot.id.as_u128(), lot.remaining.nanos()))
            .collect()
    }

    #[test]
    fn lots_burn_by_priority_then_expiry_then_age() {
        let mut lots = vec![
            lot(1, 5, 100, None, 1),
            lot(2, 5, 100, None, 0),
            lot(3, 5, 100, Some(9), 7),
            lot(4, 5, 100, Some(i64::MAX), 0),
            lot(5, 5, 100, Some(8), 8),
            lot(6, 5, 0, None, 9),
            lot(7, 5, 100, None, 1),
        ];
        assign(&mut lots, funds(35, 0));
        let order: Vec<u128> = lots.iter().map(|lot| lot.id.as_u128()).collect();
        assert_eq!(order, [6, 5, 3, 4, 2, 1, 7]);
    }

    #[test]
    fn spending_is_assigned_once_and_in_order() {
        let mut lots = vec![
            lot(1, 5, 1, None, 0),
            lot(2, 5, 2, None, 0),
            lot(3, 5, 3, None, 0),
        ];
        for (available, held, expected) in [
            (15, 0, [5, 5, 5]),
            (10, 5, [5, 5, 5]),
            (5, 4, [0, 4, 5]),
            (9, 0, [0, 4, 5]),
            (0, 2, [0, 0, 2]),
            (0, 0, [0, 0, 0]),
        ] {
            assign(&mut lots, funds(available, held));
            let left: Vec<i64> = lots.iter().map(|lot| lot.remaining.nanos()).collect();
            assert_eq!(left, expected, "{available} {held}");
        }
    }

    /// Lots, funds, what calls of before hold, and what leaves.
    #[test]
    fn what_expires_is_what_no_call_of_before_holds() {
        let over = |id, remaining| lot(id, remaining, 100, Some(10), 0);
        let lasting = |id, remaining| lot(id, remaining, 100, None, 0);
        for (lots, funds, before, expected) in [
            (vec![over(1, 10)], funds(10, 0), 0, vec![(1, 0)]),
            (vec![over(1, 10)], funds(4, 6), 6, vec![(1, 6)]),
            (
                vec![over(1, 10), lasting(2, 10)],
                funds(14, 6),
                6,
                vec![(1, 6), (2, 10)],
            ),
            (
                vec![over(1, 10), lasting(2, 10)],
                funds(4, 16),
                16,
                vec![(1, 10), (2, 10)],
            ),
            // Calls that came later hold what is not over; where there is nothing else, it is gone when they end.
            (
                vec![over(1, 10), lasting(2, 10)],
                funds(14, 6),
                0,
                vec![(1, 0), (2, 10)],
            ),
            (vec![over(1, 10)], funds(4, 6), 0, vec![(1, 6)]),
            (
                vec![lot(1, 5, 0, None, 0), over(2, 5)],
                funds(5, 5),
                5,
                vec![(1, 5), (2, 0)],
            ),
            (vec![lot(1, 5, 100, Some(11), 0)], funds(5, 0), 0, vec![(1, 5)]),
        ] {
            let mut lots = lots;
            assign(&mut lots, funds);
            let sum = |lots: &[Lot]| lots.iter().map(|lot| lot.remaining.nanos()).sum::<i64>();
            let had = sum(&lots);
            let now = Timestamp::from_micros(10);
            let leaving = expire(&mut lots, funds, now, |_| Credits::from_nanos(before));
            assert_eq!(left(&lots), expected);
            let gone: i64 = leaving.iter().map(|leaving| leaving.amount.nanos()).sum();
            assert_eq!(had - sum(&lots), gone);
            let expired: i64 = lots.iter().map(|lot| lot.expired.nanos()).sum();
            assert_eq!((expired, gone <= funds.available.nanos()), (gone, true));
        }
    }

    #[test]
    fn each_part_that_leaves_has_a_name_of_its_own() {
        let mut first = lot(1, 10, 100, Some(0), 0);
        let one = leave(&mut first, Leg::Expire, Credits::from_nanos(4));
        let two = leave(&mut first, Leg::Expire, Credits::from_nanos(4));
        let other = leave(
            &mut lot(1, 10, 100, Some(0), 0),
            Leg::Withdraw,
            Credits::from_nanos(4),
        );
        let again = leave(
            &mut lot(1, 10, 100, Some(0), 0),
            Leg::Expire,
            Credits::from_nanos(9),
        );
        assert_eq!(one.entry, again.entry);
        assert_ne!(one.entry, two.entry);
        assert_ne!(one.entry, other.entry);
        assert_eq!((first.remaining.nanos(), first.expired.nanos()), (2, 8));
    }
}
