//! Holds of an amount that is known: of a call on which several models work, whose estimates somebody else has added up.

use std::sync::Arc;

use tollgate_storage::{HoldOutcome, LedgerStore};
use tollgate_types::{Credits, Error, ErrorCode, PriceVersion};

use super::{Hold, HoldRequest, MAX_COST, insufficient, spendable, try_hold};

/// What is agreed on when a hold of a known amount is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedTerms {
    /// The prices that its usage row names.
    pub price_version: PriceVersion,
    /// Plans whose allowance does not pay for it.
    pub not_covered_by: Arc<[Arc<str>]>,
}

/// What can be done about an amount that is too high.
const ADVICE: &str = "ask for less";

impl Hold {
    /// Takes a hold of this amount, for a ledger that keeps it with what it pays for. 422 when that is more than the caller
    /// allows, 402 when it is more than the account has; nothing is written then.
    pub async fn take_amount(
        ledger: &dyn LedgerStore,
        request: &HoldRequest,
        terms: FixedTerms,
        amount: Credits,
    ) -> Result<(), Error> {
        check_allowed(request, amount)?;
        match try_hold(ledger, request, &terms, amount).await? {
            HoldOutcome::Held { .. } => Ok(()),
            HoldOutcome::Denied { available } => Err(insufficient(amount, available, ADVICE)),
        }
    }

    /// Refuses what [`Hold::take_amount`] would refuse now, and takes nothing: before work that is for nothing then.
    pub async fn check_amount(
        ledger: &dyn LedgerStore,
        request: &HoldRequest,
        terms: &FixedTerms,
        amount: Credits,
    ) -> Result<(), Error> {
        check_allowed(request, amount)?;
        let at = request.accepted_at.plus(request.ahead);
        let available = spendable(ledger, request.account, &terms.not_covered_by, at).await?;
        match available.total() {
            available if available < amount => Err(insufficient(amount, available, ADVICE)),
            _ => Ok(()),
        }
    }
}

fn check_allowed(request: &HoldRequest, amount: Credits) -> Result<(), Error> {
    match request.max_cost {
        Some(most) if amount > most => {
            let message = format!(
                "'{MAX_COST}' is {most} and this request can cost {amount} credits. Allow at least {amount}, or {ADVICE}."
            );
            Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(MAX_COST))
        }
        _ => Ok(()),
    }
}
