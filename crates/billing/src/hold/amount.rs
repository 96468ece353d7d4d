//! Holds of a known amount, for calls of several models: the caller of this module sums the
//! estimates.

use std::sync::Arc;

use tollgate_storage::{HoldOutcome, LedgerStore, Spendable};
use tollgate_types::{Credits, Error, ErrorCode, PriceVersion};

use super::{Hold, HoldRequest, MAX_COST, insufficient, spendable, try_hold};

/// Terms of a hold of a known amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedTerms {
    /// Price version of the usage row.
    pub price_version: PriceVersion,
    /// Names of the plans whose allowance does not cover the call.
    pub not_covered_by: Arc<[Arc<str>]>,
}

/// Part of the error messages that advises how to lower the amount.
const ADVICE: &str = "reduce the size of the request";

impl Hold {
    /// Takes a hold of this amount; the caller of this function stores the terms. 422 if the amount
    /// exceeds the caller's limit, 402 if it exceeds the account's funds. On an error, no data is
    /// written.
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

    /// Returns an error if [`Hold::take_amount`] would return one now, without taking a hold. For
    /// use before expensive work.
    pub async fn check_amount(
        ledger: &dyn LedgerStore,
        request: &HoldRequest,
        terms: &FixedTerms,
        amount: Credits,
    ) -> Result<(), Error> {
        let spendable = Self::preview_amount(ledger, request, terms, amount).await?;
        match spendable.total() {
            available if available < amount => Err(insufficient(amount, available, ADVICE)),
            _ => Ok(()),
        }
    }

    /// Returns the funds that would pay for a hold of this amount, without a hold. 422 if the
    /// amount exceeds the caller's limit.
    pub async fn preview_amount(
        ledger: &dyn LedgerStore,
        request: &HoldRequest,
        terms: &FixedTerms,
        amount: Credits,
    ) -> Result<Spendable, Error> {
        check_allowed(request, amount)?;
        let at = request.accepted_at.plus(request.ahead);
        spendable(ledger, request.account, &terms.not_covered_by, at).await
    }
}

fn check_allowed(request: &HoldRequest, amount: Credits) -> Result<(), Error> {
    match request.max_cost {
        Some(maximum) if amount > maximum => {
            let message = format!(
                "'{MAX_COST}' is {maximum}, but this request can cost {amount} credits. Raise '{MAX_COST}' to at least {amount}, or {ADVICE}."
            );
            Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(MAX_COST))
        }
        _ => Ok(()),
    }
}
