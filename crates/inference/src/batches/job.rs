//! Batches as jobs. Each line is written down before its call is made and again with what came of it; one that was begun and has no end
//! when a process takes the batch over may have been carried out, and is not begun again. The charge of the batch is the sum of its lines.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tollgate_accounts::{Caller, Vault};
use tollgate_edge::RequestContext;
use tollgate_jobs::{Handler, Jobs, Ran, Webhooks, Work};
use tollgate_pipeline::Pipeline;
use tollgate_storage::{
    AccountStore, BatchLine, BatchStore, Compat, Job, JobLease, KeptFile, KeyMode, LineState, NewJobEvent,
    PriceStore, StorageError, StorageErrorKind,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, Prices, RequestId, Timestamp};

use super::freed::Freed;
use super::lines::{Line, Lines};
use super::native::Handed;
use super::order::{KIND, MESSAGES_KIND, Order, Outcome, opened};
use super::outputs::{self, LineCost, Place, line_of};
use super::request::{Named, Reading};
use crate::files::Files;
use crate::responses::kept::unavailable;

/// Lines of one account that run at once on a node, whatever its batches.
pub(super) const AT_ONCE: usize = 16;
/// Lines of all accounts that run at once on a node.
const AT_ONCE_TOGETHER: usize = 128;
/// Batches of a node whose lines are handed over or read at once.
const HANDED_AT_ONCE: usize = 2;
/// How often a line is tried whose providers did not take it.
const ATTEMPTS: u32 = 3;
/// How long it waits between.
const PAUSE: Duration = Duration::from_secs(5);
/// Events that are read at once.
const EVENTS: u32 = 100;

/// Carries batches out.
pub struct Batches {
    /// Jobs.
    pub jobs: Arc<Jobs>,
    /// Their lines.
    pub store: Arc<dyn BatchStore>,
    /// Their files.
    pub files: Arc<Files>,
    /// Makes calls.
    pub pipeline: Arc<Pipeline>,
    /// Seals what is asked for and what came of it.
    pub vault: Vault,
    /// Who asks.
    pub accounts: Arc<dyn AccountStore>,
    /// What was agreed.
    pub prices: Arc<dyn PriceStore>,
    /// Who is told of the end.
    pub webhooks: Arc<Webhooks>,
    /// Tokens that the unfinished batches of an account may consume that has no limit of its own.
    pub most_tokens: u64,
    /// Makes ids of requests.
    pub ids: Arc<IdSource>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How many lines run.
    pub room: LineRoom,
}

/// How many lines may run at once.
pub struct LineRoom {
    together: Arc<Semaphore>,
    /// Batches whose lines are being handed over or read, which are in memory then.
    pub(super) handing: Semaphore,
    accounts: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

impl Default for LineRoom {
    fn default() -> Self {
        Self {
            together: Arc::new(Semaphore::new(AT_ONCE_TOGETHER)),
            handing: Semaphore::new(HANDED_AT_ONCE),
            accounts: Mutex::default(),
        }
    }
}

impl LineRoom {
    fn of(&self, account: AccountId) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody uses are forgotten.
        accounts.retain(|_, room| Arc::strong_count(room) > 1);
        let room = accounts.entry(account);
        room.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone()
    }
}

/// Why no more lines are begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There are none.
    End,
    Expired,
    Cancelled,
    /// The process is on its way out.
    Leaving,
}

/// What all lines of a batch have in common.
pub(super) struct Run<'w> {
    pub(super) job: &'w Job,
    pub(super) lease: JobLease,
    pub(super) order: &'w Order,
    pub(super) reading: Reading,
    pub(super) caller: Caller,
    pub(super) agreed: Prices,
    room: Arc<Semaphore>,
    /// Whether something has come of this run.
    has_gone_on: AtomicBool,
    /// What the hold has beyond what is needed.
    freed: Freed,
}

impl Run<'_> {
    pub(super) fn place<'p>(&'p self, number: u32, custom_id: &'p str) -> Place<'p> {
        Place {
            batch: self.job,
            endpoint: self.order.endpoint,
            number,
            custom_id,
        }
    }
}

type Running<'r> = Pin<Box<dyn Future<Output = tollgate_storage::Result<()>> + Send + 'r>>;

impl Batches {
    pub(super) fn order(&self, job: &Job) -> Result<Order, Error> {
        opened(&self.vault, job, &job.terms.body)
    }

    pub(super) fn outcome(&self, job: &Job) -> Result<Option<Outcome>, Error> {
        let sealed = job.result.as_deref();
        sealed.map(|sealed| opened(&self.vault, job, sealed)).transpose()
    }

    /// Who has asked, with the prices that were agreed.
    async fn agreed(&self, job: &Job, order: &Order) -> Result<(Caller, Prices), Error> {
        let mode = KeyMode::parse(&order.mode).unwrap_or(KeyMode::Live);
        let compat = Compat::parse(&order.compat).unwrap_or(Compat::Strict);
        let caller = Caller::of_job(&*self.accounts, job, mode, compat).await;
        let caller = caller.map_err(|error| unavailable(&error))?;
        let agreed = self.prices.get(job.price_version).await;
        let agreed = agreed.map_err(|error| unavailable(&error))?;
        let agreed = agreed.ok_or_else(|| Error::internal("a price version is not recorded"))?;
        Ok((caller, agreed.prices))
    }

    pub(super) fn stop(&self, work: &Work, order: &Order) -> Option<Stop> {
        if work.cancelled().is_cancelled() {
            Some(Stop::Cancelled)
        } else if self.clock.now() >= order.expires_at() {
            Some(Stop::Expired)
        } else if self.pipeline.calls.is_closed() {
            Some(Stop::Leaving)
        } else {
            None
        }
    }

    /// Carries out the lines that were not begun yet.
    async fn lines(
        &self,
        work: &Work,
        run: &Run<'_>,
        file: &KeptFile,
        begun: &HashSet<u32>,
    ) -> tollgate_storage::Result<Stop> {
        let content = self.files.open(file, None).await.map_err(|error| lost(&error))?;
        let (mut lines, mut next) = (Lines::new(content), 0);
        let mut running: FuturesUnordered<Running<'_>> = FuturesUnordered::new();
        let mut stop = None;
        loop {
            while stop.is_none() && running.len() < AT_ONCE {
                stop = self.stop(work, run.order);
                if stop.is_some() {
                    break;
                }
                match lines.next().await? {
                    None => stop = Some(Stop::End),
                    Some(line) => {
                        let number = next;
                        next += 1;
                        if !begun.contains(&number) {
                            running.push(Box::pin(self.line(run, number, line)));
                        }
                    }
                }
            }
            match (running.next().await, stop) {
                (Some(ended), _) => ended?,
                (None, Some(stop)) => return Ok(stop),
                (None, None) => {}
            }
        }
    }

    /// Carries out one line.
    async fn line(&self, run: &Run<'_>, number: u32, line: Line) -> tollgate_storage::Result<()> {
        let _permits = (
            run.room.acquire().await.map_err(closed)?,
            self.room.together.acquire().await.map_err(closed)?,
        );
        let (job, version) = (run.job, run.job.price_version);
        let now = self.clock.now();
        if !self.store.begin(run.lease, number, version, now).await? {
            return Ok(());
        }
        let named = line
            .text
            .as_deref()
            .map(|text| Named::read(text, run.order.endpoint));
        let (content, state, cost) = match named {
            Some(Ok(named)) => self.answer(run, number, &named).await,
            _ => {
                let error = Error::internal("a line that was checked cannot be read");
                let content = outputs::failed(&run.place(number, ""), self.request(), &error);
                (content, LineState::Failed, LineCost::default())
            }
        };
        let sealed = self.sealed(job, &content)?;
        self.ended(run, line_of(job, number, state, sealed, &cost)).await
    }

    /// Writes down what has become of a line.
    pub(super) async fn ended(&self, run: &Run<'_>, line: BatchLine) -> tollgate_storage::Result<()> {
        let beyond = line.held.saturating_sub(line.charge);
        self.store.end(run.lease, line, self.clock.now()).await?;
        run.freed.add(self, run, beyond).await?;
        match run.has_gone_on.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.store.goes_on(run.lease).await,
        }
    }

    async fn answer(&self, run: &Run<'_>, number: u32, named: &Named) -> (Vec<u8>, LineState, LineCost) {
        let place = run.place(number, &named.custom_id);
        let mut attempt = 1;
        loop {
            let request = self.request();
            let ctx = RequestContext::of_accepted(request, self.clock.now(), None);
            let (pipeline, settled) = self.pipeline.carrying_out_line(run.job);
            let made = match named.prepare(&pipeline, &ctx, &run.caller, &run.reading) {
                Ok(call) => call.make(&pipeline, &ctx, run.job, run.agreed).await,
                Err(error) => Err(error),
            };
            let cost = LineCost::from(&*settled);
            let error = match made {
                Ok(body) => {
                    let content = outputs::answered(&place, request, &body);
                    return (content, LineState::Done, cost);
                }
                Err(error) => error,
            };
            let is_free = cost
                .settlement
                .as_ref()
                .is_none_or(|settled| settled.charge.is_zero());
            if is_free && attempt < ATTEMPTS && passes(&error) {
                attempt += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let content = outputs::failed(&place, request, &error);
            return (content, LineState::Failed, cost);
        }
    }

    pub(super) fn request(&self) -> RequestId {
        RequestId::from_u128(self.ids.next(self.clock.now()))
    }

    pub(super) fn sealed(&self, job: &Job, content: &[u8]) -> tollgate_storage::Result<Vec<u8>> {
        let sealed = self.vault.seal(job.account, job.terms.id.as_u128(), content);
        sealed.map_err(|error| StorageError::new(StorageErrorKind::Corrupt, error.to_string()))
    }

    /// Ends lines that a process has left in the middle: they may have been carried out, and nobody pays for them.
    async fn end_abandoned(
        &self,
        run: &Run<'_>,
        file: &KeptFile,
        abandoned: &HashSet<u32>,
    ) -> tollgate_storage::Result<()> {
        if abandoned.is_empty() {
            return Ok(());
        }
        let content = self.files.open(file, None).await.map_err(|error| lost(&error))?;
        let (mut lines, mut number) = (Lines::new(content), 0);
        while let Some(line) = lines.next().await? {
            if abandoned.contains(&number) {
                let named = line
                    .text
                    .and_then(|text| Named::read(&text, run.order.endpoint).ok());
                let custom_id = named.map(|named| named.custom_id).unwrap_or_default();
                let message =
                    "The gateway was stopped while the request was carried out. It was not charged.";
                let error = Error::new(ErrorCode::InternalError, message);
                let content = outputs::failed(&run.place(number, &custom_id), self.request(), &error);
                let sealed = self.sealed(run.job, &content)?;
                let ended = line_of(run.job, number, LineState::Failed, sealed, &LineCost::default());
                self.store.end(run.lease, ended, self.clock.now()).await?;
            }
            number += 1;
        }
        Ok(())
    }

    async fn carry_out(&self, work: &mut Work) -> Result<Ran, Error> {
        let job = work.job().clone();
        let order = self.order(&job)?;
        if let Some(fault) = order.faults.first() {
            let error = Error::new(ErrorCode::InvalidParameter, fault.message.clone());
            return Ok(self.failed(&job, &error));
        }
        let file = self.files.find(job.account, order.input).await?;
        let Some(file) = file else {
            let message = "The file with the requests is not there any more.";
            let states = self.store.counts(job.account, job.terms.id).await;
            let counts = states.map_err(|error| unavailable(&error))?;
            if counts.done + counts.failed + counts.begun == 0 {
                return Ok(self.failed(&job, &Error::new(ErrorCode::NotFound, message)));
            }
            return self.finalize(work, &order, None, Stop::Expired).await;
        };
        let (caller, agreed) = self.agreed(&job, &order).await?;
        let run = Run {
            job: &job,
            lease: work.lease(),
            order: &order,
            reading: order.reading(),
            caller,
            agreed,
            room: self.room.of(job.account),
            has_gone_on: AtomicBool::new(false),
            freed: Freed::new(self, &job).await?,
        };
        let (stop, pause) = self.all_lines(work, &run, &file).await?;
        match (stop, pause) {
            (Stop::Leaving, _) => Ok(Ran::Later(Duration::ZERO)),
            (_, Some(pause)) => Ok(Ran::Later(pause)),
            (stop, None) => self.finalize(work, &order, Some(&file), stop).await,
        }
    }

    /// Carries out all lines, by the provider's own batches or one by one: why no more are begun, and when there is more to do.
    async fn all_lines(
        &self,
        work: &Work,
        run: &Run<'_>,
        file: &KeptFile,
    ) -> Result<(Stop, Option<Duration>), Error> {
        let states = self.store.states(run.job.account, run.job.terms.id).await;
        let states = states.map_err(|error| unavailable(&error))?;
        let mut begun: HashSet<u32> = states.iter().map(|(number, _)| *number).collect();
        // What came of lines that were handed over can be asked for again.
        let handed = Handed::of(work)?.lines();
        let is_abandoned =
            |(number, state): &&(u32, LineState)| *state == LineState::Begun && !handed.contains(number);
        let abandoned = states.iter().filter(is_abandoned).map(|(number, _)| *number);
        let abandoned = self.end_abandoned(run, file, &abandoned.collect()).await;
        abandoned.map_err(|error| unavailable(&error))?;
        let later = self.hand_over(work, run, file, &begun).await?;
        let handed = Handed::of(work)?;
        begun.extend(handed.lines());
        let is_complete = begun.len() as u64 >= u64::from(run.order.total);
        let stop = match self.stop(work, run.order) {
            Some(Stop::Leaving) => return Ok((Stop::Leaving, None)),
            // They are handed over later.
            None if later.is_some() => Stop::End,
            stop if is_complete && !handed.is_empty() => stop.unwrap_or(Stop::End),
            _ => {
                let stop = self.lines(work, run, file, &begun).await;
                stop.map_err(|error| unavailable(&error))?
            }
        };
        let pause = match stop {
            Stop::Leaving => None,
            stop => self.follow(work, run, file, stop).await?,
        };
        let later = later.filter(|_| stop == Stop::End);
        Ok((stop, pause.into_iter().chain(later).min()))
    }

    /// When something was told of a batch for the first time.
    pub(super) async fn told_at(&self, job: &Job, kind: &str) -> Result<Option<Timestamp>, Error> {
        let mut read = 0;
        loop {
            let events = self.jobs.events(job.account, job.terms.id, read, EVENTS).await;
            let events = events.map_err(|error| unavailable(&error))?;
            let Some(last) = events.last() else {
                return Ok(None);
            };
            read = last.sequence;
            if let Some(event) = events.iter().find(|event| &*event.kind == kind) {
                return Ok(Some(event.at));
            }
        }
    }

    /// When the caller did not want a batch any more.
    pub(super) async fn cancelling_at(
        &self,
        job: &Job,
        outcome: Option<&Outcome>,
    ) -> Result<Option<Timestamp>, Error> {
        let known = outcome.and_then(|outcome| outcome.cancelling_at);
        if known.is_some() || !job.cancel_requested {
            return Ok(known);
        }
        // One that nobody had begun was cancelled at once.
        let told = self.told_at(job, NewJobEvent::CANCELLING).await?;
        Ok(told.or(job.completed_at))
    }
}

#[async_trait]
impl Handler for Batches {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<Ran> {
        match self.carry_out(work).await {
            Ok(ran) => Ok(ran),
            Err(error) => {
                tracing::warn!(%error, job.id = %work.job().terms.id, "a batch goes on later");
                Ok(Ran::Later(PAUSE))
            }
        }
    }
}

/// Carries out those in the format of messages, in the same way.
pub struct MessageBatches(pub Arc<Batches>);

#[async_trait]
impl Handler for MessageBatches {
    fn kind(&self) -> &'static str {
        MESSAGES_KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<Ran> {
        self.0.run(work).await
    }
}

/// Whether it may work later what does not work now.
fn passes(error: &Error) -> bool {
    matches!(
        error.code,
        ErrorCode::RateLimitExceeded | ErrorCode::Overloaded | ErrorCode::ModelUnavailable
    )
}

fn lost(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error.to_string())
}

fn closed(_: tokio::sync::AcquireError) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, "the room for lines is closed")
}
