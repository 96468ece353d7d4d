//! A call that is a job. At its acceptance the stages up to the hold are gone through, and the hold is taken with the job; a
//! worker goes through all of them, with the hold that there is, and what would settle it is kept for the end of the job.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tollgate_accounts::Limiter;
use tollgate_billing::quote::{Quote, quote};
use tollgate_billing::{FixedTerms, Hold, HoldRequest};
use tollgate_jobs::Jobs;
use tollgate_storage::{
    AuditVisitor, Balance, Budget, Counters, Decision, Grant, HoldOutcome, Job, LedgerStore, NewHold, NewJob,
    Resolution, Result, Settlement, Spendable, StorageError, StorageErrorKind,
};
use tollgate_types::money::Discount;
use tollgate_types::{AccountId, Credits, Error, PriceVersion, Prices, Timestamp};

use crate::Pipeline;
use crate::admit::{Admission, CallRequest};
use crate::route::Routed;

impl Pipeline {
    /// A pipeline whose holds are taken with this job.
    pub fn accepting(&self, jobs: Arc<Jobs>, job: NewJob) -> Arc<Pipeline> {
        let inner = self.ledger.clone();
        self.with_ledger(Arc::new(Accepting { inner, jobs, job }))
    }

    /// Accepts a job on which several models work, with a hold of what they may cost together. 422 when that is more than the
    /// caller allows, 402 when it is more than the account has; neither hold nor job is there then.
    pub async fn accept_job(
        &self,
        jobs: Arc<Jobs>,
        job: NewJob,
        hold: &HoldRequest,
        terms: FixedTerms,
        amount: Credits,
    ) -> std::result::Result<(), Error> {
        let inner = self.ledger.clone();
        let accepting = Accepting { inner, jobs, job };
        Hold::take_amount(&accepting, hold, terms, amount).await
    }

    /// A pipeline whose one call is this job; what settles it is asked for afterwards.
    pub fn carrying_out(&self, job: &Job) -> (Arc<Pipeline>, Arc<Settled>) {
        let settled = Arc::new(Settled::default());
        let ledger = CarryingOut {
            inner: self.ledger.clone(),
            held: job.held,
            settled: settled.clone(),
        };
        (self.with_ledger(Arc::new(ledger)), settled)
    }
}

impl Pipeline {
    /// A pipeline whose one call is a line of this batch, priced as one; what settles it is asked for afterwards. Lines are outside of
    /// tokens per minute.
    pub fn carrying_out_line(&self, job: &Job) -> (Arc<Pipeline>, Arc<Settled>) {
        let (pipeline, settled) = self.carrying_out(job);
        let limiter = Limiter::new(Arc::new(NoLimits), u32::MAX, u64::MAX);
        let pipeline = Pipeline {
            limiter: Arc::new(limiter),
            ..Pipeline::clone(&pipeline)
        };
        (Arc::new(pipeline), settled)
    }

    /// The most that a call can cost, whoever pays it.
    pub fn bound<C>(&self, routed: &Routed, request: &CallRequest<C>) -> Quote {
        quote(&routed.model, &routed.demand(request.demand))
    }
}

impl<C> Admission<C> {
    /// Leaves the call to a worker, which reserves its tokens when it makes it.
    pub async fn leave(self, pipeline: &Pipeline) {
        pipeline.limiter.correct(self.reservation, 0).await;
    }
}

impl Routed {
    /// The prices that were agreed when the job was accepted.
    pub fn agree(&mut self, version: PriceVersion, prices: Prices) {
        let mut model = (*self.model).clone();
        (model.prices, model.price_version) = (prices, version);
        self.model = Arc::new(model);
    }

    /// The prices of a line of a batch, by the same list.
    pub fn as_line(&mut self) {
        let mut model = (*self.model).clone();
        model.prices = model.prices.at(Discount::BATCH);
        self.model = Arc::new(model);
    }
}

/// How a call was settled.
#[derive(Default)]
pub struct Settled {
    settlement: Mutex<Option<Settlement>>,
    /// The most that the call could cost.
    bound: Mutex<Credits>,
    there: Notify,
}

impl Settled {
    /// The settlement, when there is one.
    pub fn get(&self) -> Option<Settlement> {
        self.settlement
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What was asked for of the hold that there is; zero when the call did not come so far.
    pub fn bound(&self) -> Credits {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settlement, when it is there.
    pub async fn wait(&self) -> Settlement {
        loop {
            let there = self.there.notified();
            if let Some(settlement) = self.get() {
                return settlement;
            }
            there.await;
        }
    }

    fn set(&self, settlement: Settlement) {
        *self.settlement.lock().unwrap_or_else(PoisonError::into_inner) = Some(settlement);
        self.there.notify_one();
    }
}

/// Takes the hold with a job.
struct Accepting {
    inner: Arc<dyn LedgerStore>,
    jobs: Arc<Jobs>,
    job: NewJob,
}

/// Has one hold, which was taken with a job.
struct CarryingOut {
    inner: Arc<dyn LedgerStore>,
    held: Credits,
    settled: Arc<Settled>,
}

/// Counts nothing and refuses nothing.
struct NoLimits;

#[async_trait]
impl Counters for NoLimits {
    async fn admit(&self, _: AccountId, _: Budget, limit: u32) -> Result<Decision> {
        Ok(unlimited(u64::from(limit)))
    }

    async fn reserve(&self, _: AccountId, _: u64, limit: u64) -> Result<Decision> {
        Ok(unlimited(limit))
    }

    async fn correct(&self, _: AccountId, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    async fn peek(&self, _: AccountId, _: Budget, rpm: u32, tpm: u64) -> Result<(Decision, Decision)> {
        Ok((unlimited(u64::from(rpm)), unlimited(tpm)))
    }
}

fn unlimited(limit: u64) -> Decision {
    Decision {
        allowed: true,
        limit,
        remaining: limit,
        reset: Duration::ZERO,
        retry_after: Duration::ZERO,
    }
}

/// What neither of them is for.
fn not_here() -> StorageError {
    StorageError::new(
        StorageErrorKind::Conflict,
        "the call of a job has its own hold alone",
    )
}

#[async_trait]
impl LedgerStore for Accepting {
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        self.jobs.accept(self.job.clone(), hold).await
    }

    async fn settle(&self, _: Settlement) -> Result<Resolution> {
        Err(not_here())
    }

    async fn grant(&self, _: Grant) -> Result<Balance> {
        Err(not_here())
    }

    async fn spendable(
        &self,
        account: AccountId,
        not_covered_by: Arc<[Arc<str>]>,
        at: Timestamp,
    ) -> Result<Spendable> {
        self.inner.spendable(account, not_covered_by, at).await
    }

    async fn balance(&self, account: AccountId) -> Result<Balance> {
        self.inner.balance(account).await
    }

    async fn sweep(&self, _: Timestamp, _: u32) -> Result<u64> {
        Err(not_here())
    }

    async fn audit(&self, _: Option<AccountId>, _: &mut dyn AuditVisitor) -> Result<()> {
        Err(not_here())
    }
}

#[async_trait]
impl LedgerStore for CarryingOut {
    /// The hold that there is, if it is enough.
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        *self.settled.bound.lock().unwrap_or_else(PoisonError::into_inner) = hold.amount;
        Ok(match hold.amount <= self.held {
            true => HoldOutcome::Held {
                available: Credits::ZERO,
            },
            false => HoldOutcome::Denied { available: self.held },
        })
    }

    async fn settle(&self, settlement: Settlement) -> Result<Resolution> {
        let charge = settlement.charge;
        self.settled.set(settlement);
        Ok(Resolution {
            charge,
            first: true,
            available: Credits::ZERO,
        })
    }

    async fn grant(&self, _: Grant) -> Result<Balance> {
        Err(not_here())
    }

    async fn spendable(&self, _: AccountId, _: Arc<[Arc<str>]>, _: Timestamp) -> Result<Spendable> {
        Ok(Spendable {
            credits: self.held,
            allowance: Credits::ZERO,
        })
    }

    async fn balance(&self, account: AccountId) -> Result<Balance> {
        self.inner.balance(account).await
    }

    async fn sweep(&self, _: Timestamp, _: u32) -> Result<u64> {
        Err(not_here())
    }

    async fn audit(&self, _: Option<AccountId>, _: &mut dyn AuditVisitor) -> Result<()> {
        Err(not_here())
    }
}
