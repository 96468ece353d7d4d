//! Refunds: what was charged for a call and given back. What credits paid becomes credits again, as a lot of its own;
//! what an allowance paid goes back to its week while that is open, and is not given back afterwards.

use sha2::{Digest, Sha256};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, Timestamp};

use crate::lot::{Lot, LotKind, LotTerms};
use crate::subscription::first_bits;
use crate::usage::UsageRow;

/// What is to be given back of a call's charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefund {
    /// Makes the refund happen once, however often it is sent.
    pub id: TransferId,
    /// Who gets it.
    pub account: AccountId,
    /// The call, by the id of its usage row.
    pub hold: HoldId,
    /// How much; all that can be given back when it is not said.
    pub amount: Option<Credits>,
    /// For operators.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// What was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// Id; where credits were given back also that of their lot.
    pub id: TransferId,
    /// Whose.
    pub account: AccountId,
    /// The call, by the id of its usage row.
    pub hold: HoldId,
    /// How much became credits.
    pub credits: Credits,
    /// How much went back to the week of a plan.
    pub allowance: Credits,
    /// For operators.
    pub reason: String,
    /// When.
    pub created_at: Timestamp,
}

impl Refund {
    /// The lot of what became credits.
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

/// What became of an attempt to give something back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOutcome {
    /// It was given back, now or when this was sent before.
    Done {
        /// What was given back.
        refund: Refund,
        /// Whether it was sent before.
        is_repeated: bool,
    },
    /// It is more than can be given back, or there is nothing; nothing was written.
    Denied {
        /// What can be given back.
        refundable: Credits,
    },
}

/// What names a refund: the call, and what whoever asks calls it.
pub fn refund_id(hold: HoldId, key: &str) -> TransferId {
    let digest = Sha256::new()
        .chain_update(b"refund")
        .chain_update(hold.as_u128().to_be_bytes())
        .chain_update(key);
    first_bits(digest)
}

/// What names a grant: the account, and what whoever grants calls it.
pub fn grant_id(account: AccountId, key: &str) -> TransferId {
    let digest = Sha256::new()
        .chain_update(b"grant")
        .chain_update(account.as_u128().to_be_bytes())
        .chain_update(key);
    first_bits(digest)
}

/// What can be given back of a call's charge after these refunds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refundable {
    /// Of what credits paid.
    pub credits: Credits,
    /// Of what an allowance paid.
    pub allowance: Credits,
}

impl Refundable {
    /// What of the row is not given back yet. `is_open` says whether the week that it drew on is open.
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

    /// The refund: credits first. What can be given back at most, when that is less or nothing.
    pub fn refund(self, new: &NewRefund) -> Result<Refund, Credits> {
        let most = Credits::from_nanos(self.credits.nanos().saturating_add(self.allowance.nanos()));
        let amount = new.amount.unwrap_or(most);
        if amount <= Credits::ZERO || amount > most {
            return Err(most);
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
    fn credits_are_given_back_first_and_no_more_than_there_is() {
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
