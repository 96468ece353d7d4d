//! Calls that run as jobs. Acceptance runs the stages up to the hold, which is taken in the
//! transaction that creates the job. A worker then runs all stages against this hold. The
//! settlement is recorded at the end of the job.

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
    /// Returns a pipeline that creates this job together with the hold.
    pub fn accepting_job(&self, jobs: Arc<Jobs>, job: NewJob) -> Arc<Pipeline> {
        let inner = self.ledger.clone();
        self.with_ledger(Arc::new(AcceptingLedger { inner, jobs, job }))
    }

    /// Accepts a job that several models serve, with a hold of `amount`, their total maximum cost.
    /// Fails with 422 if `amount` exceeds the caller's cost limit, and with 402 if it exceeds the
    /// balance. On an error, neither the hold nor the job is created.
    pub async fn accept_job(
        &self,
        jobs: Arc<Jobs>,
        job: NewJob,
        hold: &HoldRequest,
        terms: FixedTerms,
        amount: Credits,
    ) -> std::result::Result<(), Error> {
        let inner = self.ledger.clone();
        let accepting_job = AcceptingLedger { inner, jobs, job };
        Hold::take_amount(&accepting_job, hold, terms, amount).await
    }

    /// Returns a pipeline for the call of this job, and the [`Settled`] that receives its
    /// settlement.
    pub fn executing_job(&self, job: &Job) -> (Arc<Pipeline>, Arc<Settled>) {
        self.executing(job.held)
    }

    fn executing(&self, held: Credits) -> (Arc<Pipeline>, Arc<Settled>) {
        let settled = Arc::new(Settled::default());
        let ledger = ExecutingLedger {
            inner: self.ledger.clone(),
            held,
            settled: settled.clone(),
        };
        (self.with_ledger(Arc::new(ledger)), settled)
    }
}

impl Pipeline {
    /// Returns a pipeline for one line of this batch, and the [`Settled`] that receives its
    /// settlement. Lines do not count towards tokens per minute.
    pub fn executing_batch_line(&self, job: &Job) -> (Arc<Pipeline>, Arc<Settled>) {
        self.executing_without_limits(job.held)
    }

    /// Returns a pipeline for one call against a part of a hold, and the [`Settled`] that receives
    /// its settlement. The call does not count towards tokens per minute. A dropped call ends
    /// immediately.
    pub(crate) fn executing_part(&self, held: Credits) -> (Arc<Pipeline>, Arc<Settled>) {
        let (pipeline, settled) = self.executing_without_limits(held);
        let mut settings = self.settings;
        settings.drain.time = Duration::ZERO;
        let pipeline = Pipeline {
            settings,
            ..Pipeline::clone(&pipeline)
        };
        (Arc::new(pipeline), settled)
    }

    fn executing_without_limits(&self, held: Credits) -> (Arc<Pipeline>, Arc<Settled>) {
        let (pipeline, settled) = self.executing(held);
        let limiter = Limiter::new(Arc::new(NoLimits), u32::MAX, u64::MAX);
        let pipeline = Pipeline {
            limiter: Arc::new(limiter),
            ..Pipeline::clone(&pipeline)
        };
        (Arc::new(pipeline), settled)
    }

    /// Returns the quote for the maximum cost of a call, regardless of the balance and the cost
    /// limit.
    pub fn bound<C>(&self, routed: &Routed, request: &CallRequest<C>) -> Quote {
        quote(&routed.model, &routed.demand(request.demand))
    }
}

impl<C> Admission<C> {
    /// Releases the token reservation of a call that a worker will run; the worker reserves tokens
    /// again.
    pub async fn defer_to_worker(self, pipeline: &Pipeline) {
        pipeline.limiter.correct(self.reservation, 0).await;
    }
}

impl Routed {
    /// Sets the model's prices to those that were agreed when the job was accepted.
    pub fn use_agreed_prices(&mut self, version: PriceVersion, prices: Prices) {
        let mut model = (*self.model).clone();
        (model.prices, model.price_version) = (prices, version);
        self.model = Arc::new(model);
    }

    /// Applies the batch discount to the model's prices.
    pub fn apply_batch_discount(&mut self) {
        let mut model = (*self.model).clone();
        model.prices = model.prices.at(Discount::BATCH);
        self.model = Arc::new(model);
    }
}

/// Settlement of a call that runs against a hold of another operation.
#[derive(Default)]
pub struct Settled {
    settlement: Mutex<Option<Settlement>>,
    /// Amount of the hold that the call requested.
    bound: Mutex<Credits>,
    settled_notify: Notify,
}

impl Settled {
    /// Returns the settlement, if the call has been settled.
    pub fn get(&self) -> Option<Settlement> {
        self.settlement
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the amount of the hold that the call requested; zero if the call failed before the
    /// hold.
    pub fn bound(&self) -> Credits {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the settlement.
    pub async fn wait(&self) -> Settlement {
        loop {
            let settled_notify = self.settled_notify.notified();
            if let Some(settlement) = self.get() {
                return settlement;
            }
            settled_notify.await;
        }
    }

    fn set(&self, settlement: Settlement) {
        *self.settlement.lock().unwrap_or_else(PoisonError::into_inner) = Some(settlement);
        self.settled_notify.notify_one();
    }
}

/// Ledger that creates a job together with the hold.
struct AcceptingLedger {
    inner: Arc<dyn LedgerStore>,
    jobs: Arc<Jobs>,
    job: NewJob,
}

/// Ledger of a single existing hold, which was taken with a job.
struct ExecutingLedger {
    inner: Arc<dyn LedgerStore>,
    held: Credits,
    settled: Arc<Settled>,
}

/// Counters that allow everything.
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

/// Returns the error for operations that the ledgers of jobs do not support.
fn unsupported_operation() -> StorageError {
    StorageError::new(
        StorageErrorKind::Conflict,
        "the ledger of a job supports only the hold of the call",
    )
}

#[async_trait]
impl LedgerStore for AcceptingLedger {
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        self.jobs.accept(self.job.clone(), hold).await
    }

    async fn settle(&self, _: Settlement) -> Result<Resolution> {
        Err(unsupported_operation())
    }

    async fn grant(&self, _: Grant) -> Result<Balance> {
        Err(unsupported_operation())
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
        Err(unsupported_operation())
    }

    async fn audit(&self, _: Option<AccountId>, _: &mut dyn AuditVisitor) -> Result<()> {
        Err(unsupported_operation())
    }
}

#[async_trait]
impl LedgerStore for ExecutingLedger {
    /// Returns `Held` if the existing hold covers the amount; records the amount as the bound of
    /// the call.
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
        Err(unsupported_operation())
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
        Err(unsupported_operation())
    }

    async fn audit(&self, _: Option<AccountId>, _: &mut dyn AuditVisitor) -> Result<()> {
        Err(unsupported_operation())
    }
}
