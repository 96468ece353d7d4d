//! Holds: a hold reserves credits before a call. Without a hold, no request is sent upstream. Each
//! hold is resolved exactly once.

mod amount;

use std::sync::Arc;
use std::time::Duration;

use tollgate_catalog::Model;
use tollgate_storage::{
    HoldOutcome, LedgerStore, NewHold, Settlement, Spendable, StorageError, StorageErrorKind,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, Error, ErrorCode, HoldId, PriceVersion, Prices, Principal, RequestId, Retry,
    Timestamp, Usage,
};

use crate::quote::{Demand, Quote, QuoteError, SpendLimit, is_worth_counting, quote, quote_covered};
use crate::verdict::Verdict;

pub use amount::FixedTerms;

/// Parameters of a hold.
#[derive(Clone, Debug)]
pub struct HoldRequest {
    /// Account that pays.
    pub account: AccountId,
    /// The API key or member that makes the request.
    pub principal: Principal,
    /// Request that the hold belongs to.
    pub request: RequestId,
    /// Id of the hold; `None` for the first hold of the request.
    pub hold: Option<HoldId>,
    /// Model name as sent in the request.
    pub public_model: Arc<str>,
    /// Path of the endpoint.
    pub endpoint: &'static str,
    /// The caller's cost limit (`x-max-cost`).
    pub max_cost: Option<Credits>,
    /// Time when the request was accepted.
    pub accepted_at: Timestamp,
    /// Offset of the account's test clock from `accepted_at`; zero for an account without a test
    /// clock.
    pub ahead: Duration,
    /// Maximum duration of the call, after which the hold expires.
    pub lifetime: Duration,
}

/// Quote of a request and the funds of its account, without a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preview {
    /// Amount and output cap that a hold would have.
    pub quote: Quote,
    /// Demand that was quoted. The text of the demand is counted in tokens if that was necessary
    /// for the quote.
    pub demand: Demand,
    /// Funds that the account can spend on the request.
    pub spendable: Spendable,
    /// Whether these funds cover the quote.
    pub is_covered: bool,
}

/// Terms fixed when the hold is taken. Later changes of the catalog do not affect them.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Prices of the model at that time.
    pub prices: Prices,
    /// Version of these prices.
    pub price_version: PriceVersion,
    /// Amount and output cap of the hold.
    pub quote: Quote,
    /// Input and output sizes of the request.
    pub demand: Demand,
}

/// A hold that is not settled yet.
#[must_use = "an unsettled hold reserves credits of its account until the hold expires"]
#[derive(Debug)]
pub struct Hold {
    id: HoldId,
    account: AccountId,
    ahead: Duration,
    terms: Terms,
}

/// Cost of a call's usage, divided between the caller and the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Credits that the caller pays, at most the held amount.
    pub amount: Credits,
    /// Cost above the held amount, borne by the operator: the upstream exceeded the bounds of the
    /// quote.
    pub overrun: Credits,
    /// Usage that determines the amount and the overrun.
    pub usage: Usage,
    /// Whether the gateway estimated `usage`.
    pub estimated: bool,
    /// Outcome of the call, such as [`Outcome::Ok`].
    pub outcome: Outcome,
}

/// Maximum number of attempts to take a hold: one for the full amount, one limited to the available
/// credits, and one more in case a concurrent hold took them.
const ATTEMPTS: u32 = 3;

impl Hold {
    /// Takes a hold for the maximum cost of the call. If the byte-based bound of the cost exceeds
    /// the caller's limit or the balance, `count` may count the text in tokens. With a `max_cost`,
    /// the hold covers the largest output that this limit pays for; otherwise 422. If the caller
    /// sets no output cap, the hold covers the largest affordable cap of at least 1,024 tokens;
    /// otherwise 402. On an error, no data is written.
    pub async fn take<F>(
        ledger: &dyn LedgerStore,
        request: &HoldRequest,
        model: &Model,
        demand: Demand,
        count: impl FnOnce() -> F,
    ) -> Result<Hold, Error>
    where
        F: Future<Output = Option<Demand>>,
    {
        let mut lazy_demand = LazyDemand::new(model, demand, count);
        let mut limit = SpendLimit {
            max_cost: request.max_cost,
            available: Credits::MAX,
        };
        let mut attempt = 1;
        loop {
            let quote = lazy_demand.quote(limit).await;
            let quote = quote.map_err(|error| quote_error(error, limit, &lazy_demand.demand))?;
            match try_hold(ledger, request, &fixed(model), quote.amount).await? {
                HoldOutcome::Held { .. } => return Ok(Self::new(request, model, lazy_demand.demand, quote)),
                HoldOutcome::Denied { available } if attempt < ATTEMPTS => limit.available = available,
                HoldOutcome::Denied { available } => {
                    return Err(insufficient(quote.amount, available, advice(&lazy_demand.demand)));
                }
            }
            attempt += 1;
        }
    }

    /// Returns the quote that [`Hold::take`] would use now, without a hold. The same 422 errors
    /// apply. If the account has too few credits, returns the quote without the balance limit, with
    /// `is_covered` set to `false`.
    pub async fn preview<F>(
        ledger: &dyn LedgerStore,
        request: &HoldRequest,
        model: &Model,
        demand: Demand,
        count: impl FnOnce() -> F,
    ) -> Result<Preview, Error>
    where
        F: Future<Output = Option<Demand>>,
    {
        let at = request.accepted_at.plus(request.ahead);
        let spendable = spendable(ledger, request.account, &model.not_covered_by, at).await?;
        let mut lazy_demand = LazyDemand::new(model, demand, count);
        let mut limit = SpendLimit {
            max_cost: request.max_cost,
            available: spendable.total(),
        };
        let covered = lazy_demand.quote(limit).await;
        let is_covered = covered.is_ok();
        let quote = match covered {
            Err(QuoteError::Balance { .. }) => {
                limit.available = Credits::MAX;
                lazy_demand.quote(limit).await
            }
            known => known,
        };
        Ok(Preview {
            quote: quote.map_err(|error| quote_error(error, limit, &lazy_demand.demand))?,
            demand: lazy_demand.demand,
            spendable,
            is_covered,
        })
    }

    /// Returns an error if the cost limit or the current balance cannot cover a request, without
    /// taking a hold. For use before expensive work. Accepts a request that may become affordable
    /// when its text is counted.
    pub async fn check(
        ledger: &dyn LedgerStore,
        account: AccountId,
        model: &Model,
        demand: &Demand,
        max_cost: Option<Credits>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let limit = SpendLimit {
            max_cost,
            available: spendable(ledger, account, &model.not_covered_by, at)
                .await?
                .total(),
        };
        match quote_covered(model, demand, limit) {
            Err(error) if !is_worth_counting(model, demand, limit) => Err(quote_error(error, limit, demand)),
            _ => Ok(()),
        }
    }

    fn new(request: &HoldRequest, model: &Model, demand: Demand, quote: Quote) -> Self {
        let terms = Terms {
            prices: model.prices,
            price_version: model.price_version,
            quote,
            demand,
        };
        Self {
            id: request.hold_id(),
            account: request.account,
            ahead: request.ahead,
            terms,
        }
    }

    /// Returns the id of the hold.
    pub fn id(&self) -> HoldId {
        self.id
    }

    /// Returns the prices, quote and demand that were fixed with the hold.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the charge for a usage under the fixed terms. The charge never exceeds the hold.
    pub fn price(&self, verdict: &Verdict) -> Charge {
        charge(&self.terms.prices, verdict, self.terms.quote.amount)
    }

    /// Resolves the hold. If storage fails, the sweep releases the hold later.
    pub async fn settle(
        self,
        ledger: &dyn LedgerStore,
        charge: &Charge,
        target: Arc<str>,
        first_at: Option<Timestamp>,
        ended_at: Timestamp,
    ) -> Result<(), StorageError> {
        if !charge.overrun.is_zero() {
            tracing::error!(hold.id = %self.id, overrun = %charge.overrun, "the cost of the upstream usage exceeded the held amount");
        }
        let settlement = Settlement {
            hold: self.id,
            account: self.account,
            charge: charge.amount,
            overrun: charge.overrun,
            usage: charge.usage,
            outcome: charge.outcome,
            estimated: charge.estimated,
            target,
            first_at: first_at.map(|at| at.plus(self.ahead)),
            ended_at: ended_at.plus(self.ahead),
        };
        ledger.settle(settlement).await.map(|_| ())
    }
}

/// Returns the charge for a usage: the cost up to `held`, and the rest as overrun.
pub fn charge(prices: &Prices, verdict: &Verdict, held: Credits) -> Charge {
    let cost = prices.cost(&verdict.usage);
    let amount = cost.min(held);
    Charge {
        amount,
        overrun: cost.saturating_sub(amount),
        usage: verdict.usage,
        estimated: verdict.estimated,
        outcome: verdict.outcome,
    }
}

/// A demand whose text is counted at most once, and only if the count may change the quote.
struct LazyDemand<'a, C> {
    model: &'a Model,
    demand: Demand,
    count: Option<C>,
}

impl<'a, C, F> LazyDemand<'a, C>
where
    C: FnOnce() -> F,
    F: Future<Output = Option<Demand>>,
{
    fn new(model: &'a Model, demand: Demand, count: C) -> Self {
        Self {
            model,
            demand,
            count: Some(count),
        }
    }

    async fn quote(&mut self, limit: SpendLimit) -> Result<Quote, QuoteError> {
        let full = quote(self.model, &self.demand);
        if limit.covers(full.amount) {
            return Ok(full);
        }
        if is_worth_counting(self.model, &self.demand, limit)
            && let Some(count) = self.count.take()
        {
            self.demand = count().await.unwrap_or(self.demand);
        }
        quote_covered(self.model, &self.demand, limit)
    }
}

async fn spendable(
    ledger: &dyn LedgerStore,
    account: AccountId,
    not_covered_by: &Arc<[Arc<str>]>,
    at: Timestamp,
) -> Result<Spendable, Error> {
    let spendable = ledger.spendable(account, not_covered_by.clone(), at).await;
    spendable.map_err(hold_error)
}

impl HoldRequest {
    fn hold_id(&self) -> HoldId {
        self.hold.unwrap_or_else(|| first_hold(self.request))
    }
}

/// Returns the id of a request's first hold: the value of the request id, so that a usage row can
/// be found by request id.
fn first_hold(request: RequestId) -> HoldId {
    HoldId::from_u128(request.as_u128())
}

/// Returns the price version of a model, and the plans that do not cover it.
fn fixed(model: &Model) -> FixedTerms {
    FixedTerms {
        price_version: model.price_version,
        not_covered_by: model.not_covered_by.clone(),
    }
}

async fn try_hold(
    ledger: &dyn LedgerStore,
    request: &HoldRequest,
    terms: &FixedTerms,
    amount: Credits,
) -> Result<HoldOutcome, Error> {
    let hold = NewHold {
        id: request.hold_id(),
        account: request.account,
        principal: Some(request.principal),
        request: request.request,
        amount,
        price_version: terms.price_version,
        model: request.public_model.clone(),
        endpoint: request.endpoint,
        not_covered_by: terms.not_covered_by.clone(),
        // The account's test clock applies, but an unsettled hold expires by real time.
        created_at: request.accepted_at.plus(request.ahead),
        expires_at: request.accepted_at.plus(request.lifetime),
    };
    ledger.hold(hold).await.map_err(hold_error)
}

fn hold_error(error: StorageError) -> Error {
    match error.kind {
        // The gateway fails closed: without the ledger, no request is sent upstream.
        StorageErrorKind::Unavailable | StorageErrorKind::Timeout => {
            let message = "The gateway cannot reach its ledger at the moment. Retry with backoff.";
            let retry = Retry::After(Duration::from_secs(2));
            Error::new(ErrorCode::Overloaded, message)
                .with_retry(retry)
                .with_source(error)
        }
        _ => Error::internal(error),
    }
}

fn quote_error(error: QuoteError, limit: SpendLimit, demand: &Demand) -> Error {
    match error {
        QuoteError::Balance { needed } => insufficient(needed, limit.available, advice(demand)),
        QuoteError::Allowed { minimum } => not_allowed(minimum, limit.max_cost.unwrap_or_default(), demand),
    }
}

/// Request header with the caller's cost limit.
const MAX_COST: &str = "x-max-cost";

fn not_allowed(minimum: Credits, maximum: Credits, demand: &Demand) -> Error {
    let answer = if demand.is_input_only() {
        ""
    } else {
        " even with the shortest response"
    };
    let message = format!(
        "'{MAX_COST}' is {maximum}, but this request can cost {minimum} credits{answer}. Raise '{MAX_COST}' \
         to at least {minimum}, or shorten the input."
    );
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param(MAX_COST)
}

/// Returns the part of an error message that advises how to make the request cheaper.
fn advice(demand: &Demand) -> &'static str {
    if demand.is_input_only() {
        "shorten the input"
    } else {
        "lower the output token limit"
    }
}

fn insufficient(needed: Credits, available: Credits, less: &str) -> Error {
    let message = format!(
        "This request can cost up to {needed} credits, but the account has {available}. Add \
         credits, or {less}."
    );
    Error::new(ErrorCode::InsufficientCredits, message)
}
