//! A hold is the permission to spend. Without one nothing is sent upstream, and one that exists is resolved once.

mod amount;

use std::sync::Arc;
use std::time::Duration;

use tollgate_catalog::Model;
use tollgate_storage::{
    HoldOutcome, LedgerStore, NewHold, Settlement, Spendable, StorageError, StorageErrorKind,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, Error, ErrorCode, HoldId, KeyId, PriceVersion, Prices, RequestId, Retry, Timestamp,
    Usage,
};

use crate::quote::{Demand, Quote, Room, TooDear, is_worth_counting, quote, quote_covered};
use crate::verdict::Verdict;

pub use amount::FixedTerms;

/// For whom and for what a hold is taken.
#[derive(Clone, Debug)]
pub struct HoldRequest {
    /// Who pays.
    pub account: AccountId,
    /// With which key.
    pub key: KeyId,
    /// For which request.
    pub request: RequestId,
    /// The model as the caller named it.
    pub public_model: Arc<str>,
    /// The path of the endpoint.
    pub endpoint: &'static str,
    /// The most that the caller allows it to cost.
    pub max_cost: Option<Credits>,
    /// When the request was accepted.
    pub accepted_at: Timestamp,
    /// How far the account's own time is ahead of that.
    pub ahead: Duration,
    /// How long the call can run at the most.
    pub lifetime: Duration,
}

/// What would be held for a request, and who would pay it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The hold.
    pub quote: Quote,
    /// What it was made for, with its text counted if it had to be.
    pub demand: Demand,
    /// What the account can spend on it.
    pub spendable: Spendable,
    /// Whether that is enough.
    pub is_covered: bool,
}

/// What was agreed when the hold was taken; later changes of the catalog do not touch it.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// The prices.
    pub prices: Prices,
    /// Their name.
    pub price_version: PriceVersion,
    /// What the hold covers.
    pub quote: Quote,
    /// What the request asks for.
    pub demand: Demand,
}

/// A live hold.
#[must_use = "a hold that is not settled keeps credits from their owner until it expires"]
#[derive(Debug)]
pub struct Hold {
    id: HoldId,
    account: AccountId,
    ahead: Duration,
    terms: Terms,
}

/// What a call did cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// What the caller pays.
    pub amount: Credits,
    /// What the operator bears because the upstream used more than the bound.
    pub overrun: Credits,
    /// What was consumed.
    pub usage: Usage,
    /// Whether `usage` was counted by the gateway.
    pub estimated: bool,
    /// How the call ended.
    pub outcome: Outcome,
}

/// How often a hold is tried: in full, by what the account has, and once more when somebody else was faster.
const ATTEMPTS: u32 = 3;

impl Hold {
    /// Takes a hold for the most that the call can cost. Where that is more than the caller allows or the account has, by
    /// the bytes of the request, `count` is asked what its text is in tokens, if that may help. A caller that allows less
    /// gets the largest output that it pays for, or 422 if there is none. One that set no cap and cannot afford the model's
    /// maximum gets the largest affordable cap, if that is at least 1,024 tokens; otherwise 402. Nothing is written then.
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
        let mut wanted = Wanted::new(model, demand, count);
        let mut room = Room {
            max_cost: request.max_cost,
            available: Credits::MAX,
        };
        let mut attempt = 1;
        loop {
            let quote = wanted.quote(room).await;
            let quote = quote.map_err(|dear| too_dear(dear, room, &wanted.demand))?;
            match try_hold(ledger, request, &fixed(model), quote.amount).await? {
                HoldOutcome::Held { .. } => return Ok(Self::new(request, model, wanted.demand, quote)),
                HoldOutcome::Denied { available } if attempt < ATTEMPTS => room.available = available,
                HoldOutcome::Denied { available } => {
                    return Err(insufficient(quote.amount, available, advice(&wanted.demand)));
                }
            }
            attempt += 1;
        }
    }

    /// What [`Hold::take`] would take now, and takes nothing. 422 as there; who cannot pay is told what would be held.
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
        let mut wanted = Wanted::new(model, demand, count);
        let mut room = Room {
            max_cost: request.max_cost,
            available: spendable.total(),
        };
        let covered = wanted.quote(room).await;
        let is_covered = covered.is_ok();
        let quote = match covered {
            Err(TooDear::Balance { .. }) => {
                room.available = Credits::MAX;
                wanted.quote(room).await
            }
            known => known,
        };
        Ok(Preview {
            quote: quote.map_err(|dear| too_dear(dear, room, &wanted.demand))?,
            demand: wanted.demand,
            spendable,
            is_covered,
        })
    }

    /// Refuses what the caller does not allow or the account cannot pay now, and takes nothing: before work that is for
    /// nothing when the hold is denied. What counting may let through is let through.
    pub async fn check(
        ledger: &dyn LedgerStore,
        account: AccountId,
        model: &Model,
        demand: &Demand,
        max_cost: Option<Credits>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let room = Room {
            max_cost,
            available: spendable(ledger, account, &model.not_covered_by, at)
                .await?
                .total(),
        };
        match quote_covered(model, demand, room) {
            Err(dear) if !is_worth_counting(model, demand, room) => Err(too_dear(dear, room, demand)),
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
            id: first_hold(request.request),
            account: request.account,
            ahead: request.ahead,
            terms,
        }
    }

    /// Its id.
    pub fn id(&self) -> HoldId {
        self.id
    }

    /// What was agreed.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// What a usage costs under the agreed terms: the charge is never above the hold.
    pub fn price(&self, verdict: &Verdict) -> Charge {
        charge(&self.terms.prices, verdict, self.terms.quote.amount)
    }

    /// Resolves the hold. A failure of storage leaves it to the sweep, which releases it.
    pub async fn settle(
        self,
        ledger: &dyn LedgerStore,
        charge: &Charge,
        provider: Arc<str>,
        first_at: Option<Timestamp>,
        ended_at: Timestamp,
    ) -> Result<(), StorageError> {
        if !charge.overrun.is_zero() {
            tracing::error!(hold.id = %self.id, overrun = %charge.overrun, "upstream used more than the bound of its hold");
        }
        let settlement = Settlement {
            hold: self.id,
            account: self.account,
            charge: charge.amount,
            overrun: charge.overrun,
            usage: charge.usage,
            outcome: charge.outcome,
            estimated: charge.estimated,
            provider,
            first_at: first_at.map(|at| at.plus(self.ahead)),
            ended_at: ended_at.plus(self.ahead),
        };
        ledger.settle(settlement).await.map(|_| ())
    }
}

/// What a usage costs at these prices, of which so much was held.
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

/// A demand whose text is counted at most once, and only where that may help.
struct Wanted<'a, C> {
    model: &'a Model,
    demand: Demand,
    count: Option<C>,
}

impl<'a, C, F> Wanted<'a, C>
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

    async fn quote(&mut self, room: Room) -> Result<Quote, TooDear> {
        let full = quote(self.model, &self.demand);
        if room.covers(full.amount) {
            return Ok(full);
        }
        if is_worth_counting(self.model, &self.demand, room)
            && let Some(count) = self.count.take()
        {
            self.demand = count().await.unwrap_or(self.demand);
        }
        quote_covered(self.model, &self.demand, room)
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

/// The first hold of a request has the request's own value, so that a usage row is found by request id.
fn first_hold(request: RequestId) -> HoldId {
    HoldId::from_u128(request.as_u128())
}

/// What is agreed on with a model.
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
        id: first_hold(request.request),
        account: request.account,
        key: Some(request.key),
        request: request.request,
        amount,
        price_version: terms.price_version,
        model: request.public_model.clone(),
        endpoint: request.endpoint,
        not_covered_by: terms.not_covered_by.clone(),
        // By the account's time; but a call that is lost is released by the time that it is.
        created_at: request.accepted_at.plus(request.ahead),
        expires_at: request.accepted_at.plus(request.lifetime),
    };
    ledger.hold(hold).await.map_err(hold_error)
}

fn hold_error(error: StorageError) -> Error {
    match error.kind {
        // Fail closed: without the ledger nothing is sent upstream.
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

fn too_dear(dear: TooDear, room: Room, demand: &Demand) -> Error {
    match dear {
        TooDear::Balance { needed } => insufficient(needed, room.available, advice(demand)),
        TooDear::Allowed { least } => not_allowed(least, room.max_cost.unwrap_or_default(), demand),
    }
}

/// The header with which a caller says what a call may cost.
const MAX_COST: &str = "x-max-cost";

fn not_allowed(least: Credits, most: Credits, demand: &Demand) -> Error {
    let answer = if demand.is_input_only() {
        ""
    } else {
        ", with the shortest answer,"
    };
    let message = format!(
        "'{MAX_COST}' is {most} and this request{answer} can cost {least} credits. Allow at least {least}, or send less \
         input."
    );
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param(MAX_COST)
}

/// What makes a request cheaper.
fn advice(demand: &Demand) -> &'static str {
    if demand.is_input_only() {
        "send less input"
    } else {
        "lower the cap on output tokens"
    }
}

fn insufficient(needed: Credits, available: Credits, less: &str) -> Error {
    let message = format!(
        "The account needs {needed} credits to cover this request at its most expensive and has {available}. \
         Add credits, or {less}."
    );
    Error::new(ErrorCode::InsufficientCredits, message)
}
