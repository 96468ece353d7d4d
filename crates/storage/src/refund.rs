//! Refunds of calls. Credits are refunded as a separate lot. Allowance returns to its week while
//! that week is open, and is not refunded afterwards.

use sha2::{Digest, Sha256};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, Timestamp};

use crate::lot::{Lot, LotKind, LotTerms};
use crate::subscription::first_bits;
use crate::usage::UsageRow;

/// A refund to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefund {
    /// Idempotency id: several refunds with the same id count once.
    pub id: TransferId,
    /// Account that receives the refund.
    pub account: AccountId,
    /// Id of the call's usage row.
    pub hold: HoldId,
    /// Amount to refund; `None` for the whole refundable amount.
    pub amount: Option<Credits>,
    /// Note for operators.
    pub reason: String,
    /// Time of the refund.
    pub at: Timestamp,
}

/// A stored refund of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// Id of the refund and of the lot of its credits, if it has any.
    pub id: TransferId,
    /// Account that received the refund.
    pub account: AccountId,
    /// Id of the call's usage row.
    pub hold: HoldId,
    /// Amount returned as credits.
    pub credits: Credits,
    /// Amount returned to the week of a plan.
    pub allowance: Credits,
    /// Note for operators.
    pub reason: String,
    /// Time of the refund.
    pub created_at: Timestamp,
}

impl Refund {
    /// Returns the lot of the refunded credits; `None` if there are none.
    pub fn lot(&self) -> Option<Lot> {
        let terms = LotTerms {
            kind: LotKind::Refund,
            note: self.reason.clone(),
            ..LotTerms::default()
        };
        let lot = Lot::new(self.id, self.account, self.credits, terms, self.created_at);
        (self.credits > Credits::ZERO).then_some(lot)
    }
}

/// Outcome of an attempt to refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOutcome {
    /// The refund exists: this request or an earlier one created it.
    Done {
        /// The stored refund.
        refund: Refund,
        /// Whether it existed before this request.
        is_repeated: bool,
    },
    /// The amount exceeds the refundable amount, or no amount is refundable. No data was written.
    Denied {
        /// Refundable amount; zero if the whole charge was refunded.
        refundable: Credits,
    },
}

/// Derives the id of a refund from the call and an idempotency key.
pub fn refund_id(hold: HoldId, key: &str) -> TransferId {
    let digest = Sha256::new()
        .chain_update(b"refund")
        .chain_update(hold.as_u128().to_be_bytes())
        .chain_update(key);
    first_bits(digest)
}

/// Derives the id of a grant from the account and an idempotency key.
pub fn grant_id(account: AccountId, key: &str) -> TransferId {
    let digest = Sha256::new()
        .chain_update(b"grant")
        .chain_update(account.as_u128().to_be_bytes())
        .chain_update(key);
    first_bits(digest)
}

/// Refundable amount of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refundable {
    /// Unrefunded part of the charge that credits paid.
    pub credits: Credits,
    /// Unrefunded part of the charge that an allowance paid; zero once its week is closed.
    pub allowance: Credits,
}

impl Refundable {
    /// Returns the part of the row's charge that `before` does not refund yet. `is_open` is whether
    /// the week that paid for the call is still open.
    pub fn of(row: &UsageRow, before: &[Refund], is_open: bool) -> Refundable {
        let sum = |of: fn(&Refund) -> Credits| before.iter().map(|refund| of(refund).nanos()).sum::<i64>();
        let paid = row.charge.nanos() - row.included.nanos() - sum(|refund| refund.credits);
        let included = match is_open {
            true => row.included.nanos() - sum(|refund| refund.allowance),
            false => 0,
        };
        Refundable {
            credits: Credits::from_nanos(paid),
            allowance: Credits::from_nanos(included),
        }
    }

    /// Splits a refund into credits and allowance, credits first. If the amount is not positive or
    /// too large, returns the refundable amount as the error.
    pub fn refund(self, new: &NewRefund) -> Result<Refund, Credits> {
        let max = Credits::from_nanos(self.credits.nanos().saturating_add(self.allowance.nanos()));
        let amount = new.amount.unwrap_or(max);
        if amount <= Credits::ZERO || amount > max {
            return Err(max);
        }
        let credits = amount.min(self.credits);
        Ok(Refund {
            id: new.id,
            account: new.account,
            hold: new.hold,
            credits,
            allowance: amount.saturating_sub(credits),
            reason: new.reason.clone(),
            created_at: new.at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(amount: Option<i64>) -> NewRefund {
        NewRefund {
            id: TransferId::from_u128(1),
            account: AccountId::from_u128(2),
            hold: HoldId::from_u128(3),
            amount: amount.map(Credits::from_nanos),
            reason: String::new(),
            at: Timestamp::from_micros(4),
        }
    }

    #[test]
    fn credits_are_refunded_first_and_up_to_the_charge() {
        for (credits, allowance, amount, expected) in [
            (5, 3, None, Ok((5, 3))),
            (5, 3, Some(4), Ok((4, 0))),
            (5, 3, Some(7), Ok((5, 2))),
            (5, 3, Some(8), Ok((5, 3))),
            (5, 3, Some(9), Err(8)),
            (5, 3, Some(0), Err(8)),
            (5, 3, Some(-1), Err(8)),
            (0, 0, None, Err(0)),
            (0, 2, None, Ok((0, 2))),
        ] {
            let refundable = Refundable {
                credits: Credits::from_nanos(credits),
                allowance: Credits::from_nanos(allowance),
            };
            let split = refundable.refund(&new(amount));
            let split = split.map(|refund| (refund.credits.nanos(), refund.allowance.nanos()));
            assert_eq!(
                split.map_err(Credits::nanos),
                expected,
                "{credits} {allowance} {amount:?}"
            );
        }
    }

    #[test]
    fn names_differ_by_call_and_key() {
        let (one, two) = (HoldId::from_u128(1), HoldId::from_u128(2));
        let names = [refund_id(one, "a"), refund_id(one, "b"), refund_id(two, "a")];
        let distinct: std::collections::HashSet<_> = names.into_iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
