//! Lots: credits that arrived together, with their unspent rest. Each grant and each refund creates
//! a lot.
//!
//! Calls and fees move credits, not lots. Their spending is assigned to lots later, in
//! [burn order](Lot::burn_order), and always before the set of lots changes, so that the result is
//! the same as with immediate assignment. Until then, unassigned spending is the sum of all lots
//! minus the account's available and held credits.

use std::cmp::Ordering;

use async_trait::async_trait;
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::Result;
use crate::audit::Leg;
use crate::refund::{NewRefund, RefundOutcome};
use crate::subscription::entry;

/// Source of the credits of a lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LotKind {
    /// The account paid for the credits.
    #[default]
    Purchase,
    /// The operator gave the credits for free.
    Promotion,
    /// The credits refund a charge.
    Refund,
}

impl LotKind {
    /// Returns the name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            LotKind::Purchase => "purchase",
            LotKind::Promotion => "promotion",
            LotKind::Refund => "refund",
        }
    }

    /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        [LotKind::Purchase, LotKind::Promotion, LotKind::Refund]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }

    /// Returns the leg of the transfer that creates a lot of this kind.
    pub const fn leg(self) -> Leg {
        match self {
            LotKind::Purchase => Leg::Grant,
            LotKind::Promotion => Leg::Promotion,
            LotKind::Refund => Leg::Refund,
        }
    }

    /// Returns the leg of the transfer that withdraws the rest of a lot of this kind; `None` for a
    /// refund, which cannot be withdrawn.
    pub const fn withdrawal(self) -> Option<Leg> {
        match self {
            LotKind::Purchase => Some(Leg::Withdraw),
            LotKind::Promotion => Some(Leg::RevokePromotion),
            LotKind::Refund => None,
        }
    }
}

/// Terms of a grant of credits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotTerms {
    /// Source of the credits.
    pub kind: LotKind,
    /// Priority: lots with a lower number are spent first.
    pub priority: u8,
    /// Time when the unspent rest expires; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// Note for operators.
    pub note: String,
}

impl LotTerms {
    /// Default of [`LotTerms::priority`].
    pub const PRIORITY: u8 = 100;
}

impl Default for LotTerms {
    /// Returns the terms of a purchase that never expires.
    fn default() -> Self {
        LotTerms {
            kind: LotKind::Purchase,
            priority: LotTerms::PRIORITY,
            expires_at: None,
            note: String::new(),
        }
    }
}

/// Credits that arrived together, by a grant or a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lot {
    /// Id of the grant or refund that created the lot.
    pub id: TransferId,
    /// Account that owns the credits.
    pub account: AccountId,
    /// Amount of the grant or refund.
    pub amount: Credits,
    /// Unspent amount at the last assignment of spending. Later spending is not yet subtracted.
    pub remaining: Credits,
    /// Amount that expired.
    pub expired: Credits,
    /// Amount that was withdrawn.
    pub withdrawn: Credits,
    /// Kind, priority and expiry of the credits.
    pub terms: LotTerms,
    /// Time when the credits arrived.
    pub created_at: Timestamp,
}

impl Lot {
    /// Creates an unspent lot.
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

    /// Whether the lot has expired at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.terms.expires_at.is_some_and(|at| at <= now)
    }

    /// Compares lots in the order of spending: lower priority number first, then earlier expiry
    /// (lots that never expire last), then earlier arrival, then lower id.
    pub fn burn_order(&self, other: &Lot) -> Ordering {
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
    /// Credits that can be spent.
    pub available: Credits,
    /// Credits held by running calls, without held allowance.
    pub held: Credits,
}

/// Credits that leave a lot without being spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LotRemoval {
    /// Id of the transfer, derived from the lot and its rest, so that a repeated removal has the
    /// same id.
    pub entry: TransferId,
    /// [`Leg::Expire`], or the lot's [`LotKind::withdrawal`].
    pub leg: Leg,
    /// Amount removed, above zero.
    pub amount: Credits,
}

/// Subtracts the spending since the last assignment from the lots: their sum minus the account's
/// funds. `lots` must contain all lots of the account that have a rest; the function sorts them in
/// the order of spending.
pub fn assign(lots: &mut [Lot], funds: Funds) {
    lots.sort_by(Lot::burn_order);
    let total: i128 = lots.iter().map(|lot| i128::from(lot.remaining.nanos())).sum();
    let mut spent = total - i128::from(funds.available.nanos()) - i128::from(funds.held.nanos());
    for lot in lots {
        let remaining = i128::from(lot.remaining.nanos());
        let burnt = spent.clamp(0, remaining);
        spent -= burnt;
        lot.remaining = to_credits(remaining - burnt);
    }
}

/// Removes the credits of expired lots that no running call may still use, at most the available
/// credits, and returns the removals. Calls hold lots in the order of spending, and an expired lot
/// can be held only by calls that were accepted before the lot expired: `held_before` returns the
/// credits that calls accepted before a time hold. The lots must be the result of [`assign`].
pub fn expire(
    lots: &mut [Lot],
    funds: Funds,
    now: Timestamp,
    held_before: impl Fn(Timestamp) -> Credits,
) -> Vec<LotRemoval> {
    let (mut reserved, mut available) = (Credits::ZERO, funds.available);
    let mut removals = Vec::new();
    for lot in lots {
        let over = lot.terms.expires_at.filter(|_| lot.is_expired(now));
        let free = free(lot, over.map_or(funds.held, &held_before), &mut reserved).min(available);
        if over.is_some() && free > Credits::ZERO {
            available = available.saturating_sub(free);
            removals.push(remove_credits(lot, Leg::Expire, free));
        }
    }
    removals
}

/// Withdraws the part of a lot's rest that no call holds, at most the available credits, until
/// `total` is withdrawn from the lot. `None` if there is nothing to withdraw, the lot is a refund
/// or the id is unknown. The lots must be the result of [`assign`].
pub fn withdraw(lots: &mut [Lot], funds: Funds, which: TransferId, total: Credits) -> Option<LotRemoval> {
    let mut reserved = Credits::ZERO;
    for lot in lots {
        let free = free(lot, funds.held, &mut reserved).min(funds.available);
        let free = free.min(total.saturating_sub(lot.withdrawn));
        if lot.id == which {
            let leg = lot.terms.kind.withdrawal().filter(|_| free > Credits::ZERO)?;
            return Some(remove_credits(lot, leg, free));
        }
    }
    None
}

/// Returns the part of a lot that is not held. `held` is the total that calls hold; `reserved` is
/// the part of it that the earlier lots cover, and is increased by the held part of this lot.
fn free(lot: &Lot, held: Credits, reserved: &mut Credits) -> Credits {
    let still_held = held.saturating_sub(*reserved).min(lot.remaining);
    *reserved = Credits::from_nanos(reserved.nanos().saturating_add(still_held.nanos()));
    lot.remaining.saturating_sub(still_held)
}

/// Subtracts credits from a lot and records them as expired or withdrawn.
fn remove_credits(lot: &mut Lot, leg: Leg, amount: Credits) -> LotRemoval {
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
    LotRemoval { entry, leg, amount }
}

fn to_credits(nanos: i128) -> Credits {
    Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Credits withdrawn from a lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// Account of the lot.
    pub account: AccountId,
    /// Credits withdrawn by this call.
    pub amount: Credits,
}

/// Stores lots. Every method is atomic together with its transfers: a method that fails has written
/// nothing. [`crate::LedgerStore::grant`] creates lots.
#[async_trait]
pub trait LotStore: Send + Sync {
    /// Lists the lots of an account in the order of spending, after all spending is assigned and
    /// due lots have expired. `NotFound` if the account does not exist.
    async fn lots(&self, account: AccountId, now: Timestamp) -> Result<Vec<Lot>>;

    /// Expires the due lots of up to `limit` accounts, longest overdue first, and returns the
    /// number of lots. Credits held by calls that were accepted before the expiry remain until
    /// these calls end.
    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64>;

    /// Withdraws the rest of a purchase or a promotion, except credits that calls hold, until
    /// `total` has been withdrawn since the lot was created. The withdrawn amount may be zero.
    /// `NotFound` if the lot does not exist, `Conflict` if it is a refund.
    async fn withdraw(&self, lot: TransferId, total: Credits, at: Timestamp) -> Result<Withdrawal>;

    /// Refunds the charge of a call; all refunds of a call together never exceed its charge.
    /// Credits become a separate lot that never expires; allowance returns to its week while that
    /// week is open. Several refunds with the same id count once. `NotFound` if the usage row does
    /// not exist, `Conflict` if the id belongs to a refund of another call.
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

    /// Each row contains lots, funds, credits held by earlier calls, and the expected rest.
    #[test]
    fn credits_held_by_earlier_calls_do_not_expire() {
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
            // Later calls hold the credits that do not expire. If there are no others, the held
            // credits expire when the calls end.
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
            let removals = expire(&mut lots, funds, now, |_| Credits::from_nanos(before));
            assert_eq!(left(&lots), expected);
            let gone: i64 = removals.iter().map(|removals| removals.amount.nanos()).sum();
            assert_eq!(had - sum(&lots), gone);
            let expired: i64 = lots.iter().map(|lot| lot.expired.nanos()).sum();
            assert_eq!((expired, gone <= funds.available.nanos()), (gone, true));
        }
    }

    #[test]
    fn each_removal_has_its_own_entry() {
        let mut first = lot(1, 10, 100, Some(0), 0);
        let one = remove_credits(&mut first, Leg::Expire, Credits::from_nanos(4));
        let two = remove_credits(&mut first, Leg::Expire, Credits::from_nanos(4));
        let other = remove_credits(
            &mut lot(1, 10, 100, Some(0), 0),
            Leg::Withdraw,
            Credits::from_nanos(4),
        );
        let again = remove_credits(
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
