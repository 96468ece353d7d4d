//! How a job that makes media is carried out, whatever it makes. Each of its steps is a submission to a provider: intended,
//! sent, followed, and what was made is kept before the step is done. What differs from kind to kind is a [`Craft`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tollgate_accounts::{Caller, Vault};
use tollgate_edge::RequestContext;
use tollgate_jobs::webhooks::Webhooks;
use tollgate_jobs::{Handler, Jobs, Progress, Ran, Work};
use tollgate_pipeline::making::{Refusal, refusal, told};
use tollgate_pipeline::{CallRequest, Conclusion, MakerCall, Pipeline, Route, Routed};
use tollgate_storage::{
    AccountStore, Compat, Job, JobEnd, JobError, NewJob, NewJobEvent, StorageError, StorageErrorKind,
};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Clock, Error, ErrorCode, JobId, JobStatus, StepState, Unit, Usage};
use tollgate_upstream::{Content, Made, Piece, State, Submitted, UpstreamError};

use crate::compose::Recipes;
use crate::jobs::unavailable;
use crate::order::{self, Failure, Handle, Kept, Order, Outcome, Part};
use crate::shelf::Shelf;

/// How often a submission is tried that was certainly not carried out.
const ATTEMPTS: u32 = 3;
/// How often one is sent under the same key to a provider that keeps keys.
const SENDINGS: u32 = 3;
/// How long a submission waits until it is tried again, unless the provider says how long.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Shortest and longest wait between two questions, and the longest before the first.
const SOONEST: Duration = Duration::from_millis(100);
const FIRST: Duration = Duration::from_secs(2);
const LATEST: Duration = Duration::from_secs(30);
/// The same once a job has taken longer than one of its kind does.
const SELDOM: Duration = Duration::from_secs(300);
/// After so long nobody asks any more, and the hold goes back.
const GIVEN_UP: Duration = Duration::from_secs(24 * 3600);
/// How often it is tried to get what was made.
const COLLECTIONS: u32 = 5;

/// What carries media jobs out.
pub struct Studio {
    /// Calls providers.
    pub pipeline: Arc<Pipeline>,
    /// Accepts jobs.
    pub jobs: Arc<Jobs>,
    /// Tells who wants to know that they have ended.
    pub webhooks: Arc<Webhooks>,
    /// Keeps what is made.
    pub shelf: Arc<Shelf>,
    /// Seals what is asked for.
    pub vault: Vault,
    /// Who asks.
    pub accounts: Arc<dyn AccountStore>,
    /// The programs that make films.
    pub tools: tollgate_studio::Tools,
    /// What compositions are like where nobody says it.
    pub recipes: Recipes,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// One kind of work.
#[async_trait]
pub(crate) trait Craft: Send + Sync + 'static {
    /// What is asked for.
    type Wish: Serialize + DeserializeOwned + Clone + Send + Sync;
    /// What a provider is sent.
    type Call: MakerCall;
    /// The name of the kind.
    const KIND: &'static str;
    /// How long a provider may take to answer a submission.
    const PATIENCE: Duration;
    /// How long a job of this kind takes at the most.
    const CEILING: Duration;

    /// The call of one submission, which asks for so many pieces.
    async fn call(
        &self,
        studio: &Studio,
        job: &Job,
        order: &Order<Self::Wish>,
        count: u32,
    ) -> Result<Self::Call, Error>;

    /// Keeps a piece.
    async fn keep(
        &self,
        studio: &Studio,
        job: &Job,
        order: &Order<Self::Wish>,
        content: Got,
    ) -> Result<Kept, Spoilt>;

    /// What so many pieces count for. `kept` are those that are there; what was made and is withheld has none.
    fn made(&self, wish: &Self::Wish, kept: &[Kept], withheld: u32) -> Usage;

    /// Whether callers get the bytes themselves.
    fn is_inline(&self, wish: &Self::Wish) -> bool;
}

/// The bytes of a piece: here, or on their way.
pub(crate) enum Got {
    /// All of them.
    Whole(bytes::Bytes),
    /// As they come.
    Stream(tollgate_upstream::ContentStream),
}

/// Why a piece is not kept.
#[derive(Debug)]
pub(crate) enum Spoilt {
    /// Storage failed: it is tried again.
    Storage(StorageError),
    /// It could not be had from the provider: it is tried again.
    Missing(UpstreamError),
    /// It is not what was asked for.
    Wrong(String),
}

/// What has become of a step.
pub(crate) enum Turn {
    Done(Part),
    Failed(Error, Ending),
    Cancelled,
    Later(Duration),
}

impl Part {
    /// What one submission for so many pieces has consumed: what was made, and the tokens that were reported.
    pub(crate) fn consumed<C: Craft>(&self, craft: &C, wish: &C::Wish, asked: u32) -> Usage {
        let withheld = if self.is_blocked { asked } else { 0 };
        let made = craft.made(wish, &self.pieces, withheld);
        let reported = self.reported.unwrap_or_default();
        Unit::MADE
            .into_iter()
            .fold(reported, |usage, unit| usage.with(unit, made.get(unit)))
    }
}

/// Carries out the jobs of one craft.
pub(crate) struct Making<C> {
    studio: Arc<Studio>,
    craft: C,
}

/// A request that was read, and what is held for it.
pub(crate) struct Acceptance<'a, C: Craft> {
    pub(crate) ctx: &'a RequestContext,
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest<C::Call>,
    pub(crate) order: Order<C::Wish>,
    /// Where the caller wants to be told of its end.
    pub(crate) webhook_url: Option<String>,
}

impl Studio {
    /// Takes the hold and the job together.
    pub(crate) async fn accept<C: Craft>(&self, accepted: Acceptance<'_, C>) -> Result<JobId, Error> {
        let Acceptance {
            ctx,
            routed,
            request,
            order,
            webhook_url,
        } = accepted;
        let id = JobId::from_u128(ctx.id.as_u128());
        let account = request.caller.account_id();
        let webhook = webhook_url.map(|url| self.webhooks.address(account, id, &url));
        let job = NewJob {
            id,
            kind: Arc::from(C::KIND),
            body: order::seal(&self.vault, account, id, &order)?,
            webhook: webhook.transpose()?,
            start_by: None,
        };
        let pipeline = self.pipeline.accepting(self.jobs.clone(), job);
        let admitted = pipeline.admit(routed, request, |_| Vec::new()).await;
        let (admission, tokens) = admitted.map_err(|refused| {
            if let Some(tokens) = refused.tokens {
                ctx.note_tokens(tokens);
            }
            refused.error
        })?;
        ctx.note_tokens(tokens);
        admission.leave(&pipeline).await;
        Ok(id)
    }

    pub(crate) async fn caller(
        &self,
        job: &Job,
        order_mode: tollgate_storage::KeyMode,
    ) -> Result<Caller, Error> {
        let caller = Caller::of_job(&*self.accounts, job, order_mode, Compat::Strict).await;
        caller.map_err(|error| unavailable(&error))
    }
}

impl From<Failure> for Turn {
    fn from(failure: Failure) -> Self {
        match failure.error() {
            Some(error) => Turn::Failed(error, failure.ending),
            None => Turn::Cancelled,
        }
    }
}

impl Failure {
    fn of(error: &UpstreamError) -> Self {
        Self::new(&told(error), ending(error))
    }
}

impl<C: Craft> Making<C> {
    pub(crate) fn new(studio: Arc<Studio>, craft: C) -> Self {
        Self { studio, craft }
    }

    /// Brings a step to its end, from wherever it is.
    pub(crate) async fn step(
        &self,
        work: &Work,
        order: &Order<C::Wish>,
        number: u32,
        count: u32,
    ) -> tollgate_storage::Result<Turn> {
        let job = work.job().clone();
        let Some(step) = work.step(number) else {
            return self.submit(work, order, number, count).await;
        };
        match step.state {
            StepState::Done => {
                let part = order::open(&self.studio.vault, &job, &step.outcome);
                Ok(Turn::Done(part.map_err(|error| corrupt(&error))?))
            }
            StepState::Failed | StepState::Unknown if !step.outcome.is_empty() => {
                let failure: Failure =
                    order::open(&self.studio.vault, &job, &step.outcome).map_err(|error| corrupt(&error))?;
                Ok(failure.into())
            }
            StepState::Failed if step.attempt < ATTEMPTS => self.submit(work, order, number, count).await,
            StepState::Failed | StepState::Unknown => Ok(Turn::Failed(interrupted(), Ending::Crashed)),
            StepState::Submitted => {
                let handle = order::open(&self.studio.vault, &job, &step.handle);
                let handle = handle.map_err(|error| corrupt(&error))?;
                self.follow(work, order, number, handle, SOONEST).await
            }
            StepState::Intended => {
                let handle: Handle =
                    order::open(&self.studio.vault, &job, &step.handle).map_err(|error| corrupt(&error))?;
                if self.studio.pipeline.keeps_keys::<C::Call>(&handle.provider) {
                    return self
                        .send_again(work, order, number, count, &handle.provider)
                        .await;
                }
                let failure = Failure::new(&interrupted(), Ending::Crashed);
                self.over(work, number, StepState::Unknown, failure).await
            }
        }
    }

    /// Writes down that a submission has brought nothing, and why: it is not sent again whoever has the job next, and its caller is
    /// told the same.
    async fn over(
        &self,
        work: &Work,
        number: u32,
        state: StepState,
        failure: Failure,
    ) -> tollgate_storage::Result<Turn> {
        let sealed = self.sealed(work.job(), &failure)?;
        work.became(number, state, sealed).await?;
        Ok(failure.into())
    }

    /// Where the call may be sent, and the call; else what becomes of the step.
    async fn ready(&self, job: &Job, order: &Order<C::Wish>, count: u32) -> Result<(Routed, C::Call), Turn> {
        self.routed(job, order, count)
            .await
            .map_err(|error| match is_passing(&error) {
                true => Turn::Later(PAUSE),
                false => Turn::Failed(error, Ending::UpstreamError),
            })
    }

    async fn routed(
        &self,
        job: &Job,
        order: &Order<C::Wish>,
        count: u32,
    ) -> Result<(Routed, C::Call), Error> {
        let studio = &*self.studio;
        let caller = studio.caller(job, order.head.key_mode()).await?;
        let mut routed = studio
            .pipeline
            .route(&caller, order.head.model.as_deref().unwrap_or(&job.model))?;
        let call = self.craft.call(studio, job, order, count).await?;
        routed.retain_makers(&call)?;
        Ok((routed, call))
    }

    async fn submit(
        &self,
        work: &Work,
        order: &Order<C::Wish>,
        number: u32,
        count: u32,
    ) -> tollgate_storage::Result<Turn> {
        if work.cancelled().is_cancelled() {
            return Ok(Turn::Cancelled);
        }
        let job = work.job().clone();
        let (routed, call) = match self.ready(&job, order, count).await {
            Ok(ready) => ready,
            Err(turn) => return Ok(turn),
        };
        let attempt = work.step(number).map_or(0, |step| step.attempt) + 1;
        let Some(route) = routed.candidate(attempt) else {
            return Ok(Turn::Later(PAUSE));
        };
        let intent = self.sealed(&job, &self.handle(route, Vec::new()))?;
        let key = work.intend(number, intent).await?;
        tell(work, "submitting", None).await?;
        self.send(work, order, number, route, &call, &key).await
    }

    /// Sends a submission again that may have been sent, to a provider that carries it out once.
    async fn send_again(
        &self,
        work: &Work,
        order: &Order<C::Wish>,
        number: u32,
        count: u32,
        provider: &str,
    ) -> tollgate_storage::Result<Turn> {
        let job = work.job().clone();
        let (routed, call) = match self.ready(&job, order, count).await {
            Ok(ready) => ready,
            Err(turn) => return Ok(turn),
        };
        let Some(route) = routed.candidate_at(provider) else {
            let failure = Failure::new(&interrupted(), Ending::Crashed);
            return self.over(work, number, StepState::Unknown, failure).await;
        };
        let key = work.key(number);
        self.send(work, order, number, route, &call, &key).await
    }

    async fn send(
        &self,
        work: &Work,
        order: &Order<C::Wish>,
        number: u32,
        route: &Route,
        call: &C::Call,
        key: &str,
    ) -> tollgate_storage::Result<Turn> {
        let job = work.job().clone();
        let pipeline = &self.studio.pipeline;
        let provider = &*route.candidate.provider;
        let mut sendings = 1;
        let error = loop {
            let error = match pipeline.submit(&job, route, call, key, C::PATIENCE).await {
                Ok(Submitted::Made(made)) => return self.keep(work, order, number, provider, made).await,
                Ok(Submitted::Accepted { handle, poll_after }) => {
                    let handle = self.handle(route, handle);
                    work.submitted(number, self.sealed(&job, &handle)?).await?;
                    return self.follow(work, order, number, handle, poll_after).await;
                }
                Err(error) => error,
            };
            let may_send = refusal(&error) == Refusal::Unknown && pipeline.keeps_keys::<C::Call>(provider);
            if !may_send || sendings == SENDINGS {
                break error;
            }
            tokio::time::sleep(PAUSE * sendings).await;
            sendings += 1;
        };
        let attempt = work.step(number).map_or(ATTEMPTS, |step| step.attempt);
        match refusal(&error) {
            Refusal::Passing if attempt < ATTEMPTS => {
                work.became(number, StepState::Failed, Vec::new()).await?;
                let pause = error.retry_after.unwrap_or(PAUSE * attempt);
                Ok(Turn::Later(pause.min(LONGEST_PAUSE)))
            }
            Refusal::Passing | Refusal::Final => {
                self.over(work, number, StepState::Failed, Failure::of(&error))
                    .await
            }
            Refusal::Unknown => {
                self.over(work, number, StepState::Unknown, Failure::of(&error))
                    .await
            }
        }
    }

    /// Asks until it is made. The wish to cancel is passed on once; what is made all the same is kept.
    async fn follow(
        &self,
        work: &Work,
        order: &Order<C::Wish>,
        number: u32,
        handle: Handle,
        first: Duration,
    ) -> tollgate_storage::Result<Turn> {
        let job = work.job().clone();
        let pipeline = &self.studio.pipeline;
        let (provider, theirs) = (handle.provider.clone(), handle.handle.clone());
        let mut wait = first.clamp(SOONEST, FIRST);
        let mut is_withdrawn = false;
        let mut last = String::new();
        // How far it is said to be never goes back: a graph has several steps, and not every question is answered with it.
        let mut furthest = None;
        loop {
            let cancelled = work.cancelled().clone();
            let is_cancelled = tokio::select! {
                () = tokio::time::sleep(wait) => false,
                () = cancelled.cancelled(), if !is_withdrawn => true,
            };
            if is_cancelled {
                is_withdrawn = true;
                if let Err(error) = pipeline.withdraw::<C::Call>(&job, &provider, &theirs).await {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "cannot cancel what was submitted");
                }
            }
            let age = self.studio.clock.now().since(handle.submitted_at);
            let is_late = age > C::CEILING;
            let (phase, percent) = match pipeline.ask::<C::Call>(&job, &provider, &theirs).await {
                Ok(State::Made(made)) => {
                    let kept = self.keep(work, order, number, &provider, made).await;
                    if kept.is_err() && age > GIVEN_UP {
                        let failure = Failure::new(&not_kept(), Ending::Crashed);
                        return self.over(work, number, StepState::Unknown, failure).await;
                    }
                    return kept;
                }
                Ok(State::Blocked) => return self.withheld(work, number, provider).await,
                Ok(State::Failed(error)) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "upstream failed");
                    let failure = Failure::of(&error);
                    return self.over(work, number, StepState::Failed, failure).await;
                }
                Ok(State::Cancelled) => {
                    let failure = Failure::cancelled();
                    return self.over(work, number, StepState::Failed, failure).await;
                }
                // A provider may forget what was withdrawn.
                Ok(State::Lost) if is_withdrawn => {
                    let failure = Failure::cancelled();
                    return self.over(work, number, StepState::Unknown, failure).await;
                }
                Ok(State::Lost) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, "upstream has lost what was submitted");
                    let failure = Failure::new(&lost(), Ending::UpstreamError);
                    return self.over(work, number, StepState::Unknown, failure).await;
                }
                Ok(_) | Err(_) if is_late => ("unknown".to_owned(), None),
                Ok(State::Waiting { ahead: Some(ahead) }) => (format!("queued_upstream/{ahead}"), None),
                Ok(State::Waiting { ahead: None }) => ("queued_upstream".to_owned(), None),
                Ok(State::Running { percent }) => {
                    furthest = furthest.max(percent.map(|percent| percent.min(99)));
                    ("running".to_owned(), furthest)
                }
                Err(error) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "cannot ask how it goes");
                    (last.split(' ').next().unwrap_or("running").to_owned(), None)
                }
            };
            if age > GIVEN_UP {
                let failure = Failure::new(&lost(), Ending::Timeout);
                return self.over(work, number, StepState::Unknown, failure).await;
            }
            let now = format!("{phase} {percent:?}");
            if now != last {
                last = now;
                tell(work, &phase, percent).await?;
            }
            wait = if is_late {
                SELDOM
            } else {
                (wait * 3 / 2).min(LATEST)
            };
        }
    }

    /// Keeps what was made, then says so.
    async fn keep(
        &self,
        work: &Work,
        order: &Order<C::Wish>,
        number: u32,
        provider: &str,
        made: Made,
    ) -> tollgate_storage::Result<Turn> {
        let job = work.job().clone();
        let is_only_here = work
            .step(number)
            .is_some_and(|step| step.state == StepState::Intended);
        tell(work, "fetching", None).await?;
        let first_at = self.studio.clock.now();
        let mut pieces = Vec::with_capacity(made.pieces.len());
        for piece in made.pieces {
            match self.piece(&job, order, provider, piece).await {
                Ok(kept) => pieces.push(kept),
                // What was made with its submission cannot be had again.
                Err(Spoilt::Storage(error)) if is_only_here => {
                    tracing::error!(job.id = %job.terms.id, %error, "what was made cannot be kept");
                    let failure = Failure::new(&not_kept(), Ending::Crashed);
                    return self.over(work, number, StepState::Unknown, failure).await;
                }
                Err(Spoilt::Storage(error)) => return Err(error),
                Err(Spoilt::Missing(error)) => {
                    let failure = Failure::of(&error);
                    return self.over(work, number, StepState::Unknown, failure).await;
                }
                Err(Spoilt::Wrong(why)) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, why, "upstream made something else");
                    let failure = Failure::new(&something_else(), Ending::UpstreamError);
                    return self.over(work, number, StepState::Failed, failure).await;
                }
            }
        }
        let part = Part {
            provider: provider.to_owned(),
            is_blocked: false,
            pieces,
            reported: made.usage,
            first_at,
        };
        work.became(number, StepState::Done, self.sealed(&job, &part)?)
            .await?;
        Ok(Turn::Done(part))
    }

    async fn withheld(&self, work: &Work, number: u32, provider: String) -> tollgate_storage::Result<Turn> {
        let part = Part {
            provider,
            pieces: Vec::new(),
            reported: None,
            is_blocked: true,
            first_at: self.studio.clock.now(),
        };
        let sealed = self.sealed(work.job(), &part)?;
        work.became(number, StepState::Done, sealed).await?;
        Ok(Turn::Done(part))
    }

    /// What was made is paid for, so it is tried for a while to get and to keep it.
    async fn piece(
        &self,
        job: &Job,
        order: &Order<C::Wish>,
        provider: &str,
        piece: Piece,
    ) -> Result<Kept, Spoilt> {
        let mut tries = 1;
        loop {
            let kept = match self.got(job, provider, &piece.content).await {
                Ok(got) => self.craft.keep(&self.studio, job, order, got).await,
                Err(error) => Err(Spoilt::Missing(error)),
            };
            match kept {
                Ok(kept) => {
                    return Ok(Kept {
                        revised_prompt: piece.revised_prompt,
                        ..kept
                    });
                }
                Err(Spoilt::Wrong(why)) => return Err(Spoilt::Wrong(why)),
                Err(spoilt) if tries == COLLECTIONS => return Err(spoilt),
                Err(spoilt) => tracing::warn!(job.id = %job.terms.id, ?spoilt, "what was made is kept later"),
            }
            tokio::time::sleep(PAUSE * tries).await;
            tries += 1;
        }
    }

    async fn got(&self, job: &Job, provider: &str, content: &Content) -> Result<Got, UpstreamError> {
        let pipeline = &self.studio.pipeline;
        match content {
            Content::Bytes(bytes) => Ok(Got::Whole(bytes.clone())),
            Content::Own(own) => Ok(Got::Stream(
                pipeline.collect::<C::Call>(job, provider, own).await?,
            )),
            Content::Address(url) => {
                let fetched = pipeline.fetch_made(url).await?;
                Ok(Got::Whole(fetched))
            }
        }
    }

    fn handle(&self, route: &Route, handle: Vec<u8>) -> Handle {
        Handle {
            provider: route.candidate.provider.to_string(),
            handle,
            submitted_at: self.studio.clock.now(),
        }
    }

    fn sealed(&self, job: &Job, what: &impl Serialize) -> tollgate_storage::Result<Vec<u8>> {
        let sealed = order::seal(&self.studio.vault, job.account, job.terms.id, what);
        sealed.map_err(|error| corrupt(&error))
    }

    /// The end of a job of which everything that could be made is made.
    fn completed(
        &self,
        job: &Job,
        order: &Order<C::Wish>,
        parts: Vec<Part>,
    ) -> tollgate_storage::Result<Ran> {
        let wish = &order.wish;
        let asked: u32 = order.parts.iter().sum();
        let provider: Arc<str> = parts.first().map_or("", |part| &*part.provider).into();
        let first_at = parts.iter().map(|part| part.first_at).min();
        let mut reported = Usage::ZERO;
        for usage in parts.iter().filter_map(|part| part.reported.as_ref()) {
            for (unit, quantity) in usage.iter() {
                reported = reported.with(unit, reported.get(unit).saturating_add(quantity));
            }
        }
        let pieces: Vec<Kept> = parts.into_iter().flat_map(|part| part.pieces).collect();
        let is_blocked = pieces.is_empty();
        let withheld = if is_blocked { asked } else { 0 };
        let made = self.craft.made(wish, &pieces, withheld);
        let usage = Unit::MADE
            .into_iter()
            .fold(reported, |usage, unit| usage.with(unit, made.get(unit)));
        let conclusion = Conclusion {
            usage,
            outcome: if is_blocked {
                Ending::BlockedOutput
            } else {
                Ending::Ok
            },
            provider,
            first_at,
            ahead: order.head.ahead,
        };
        let settlement = self
            .studio
            .pipeline
            .conclude(job, &order.head.agreed(), conclusion);
        let outcome = Outcome {
            created_at: self.studio.clock.now(),
            inline: self.craft.is_inline(wish),
            pieces,
        };
        let end = JobEnd {
            status: if is_blocked {
                JobStatus::Failed
            } else {
                JobStatus::Completed
            },
            result: match is_blocked {
                true => None,
                false => Some(self.sealed(job, &outcome)?),
            },
            error: is_blocked.then(|| JobError::from(&blocked())),
            settlement,
            parts: Vec::new(),
            events: Vec::new(),
        };
        Ok(Ran::Ended(Box::new(end)))
    }

    /// An end without anything: it costs nothing.
    fn nothing(
        &self,
        job: &Job,
        order: Option<&Order<C::Wish>>,
        status: JobStatus,
        error: Option<&Error>,
        ending: Ending,
    ) -> Ran {
        let conclusion = Conclusion {
            usage: Usage::ZERO,
            outcome: ending,
            provider: "".into(),
            first_at: None,
            ahead: order.map(|order| order.head.ahead).unwrap_or_default(),
        };
        let prices = order.map(|order| order.head.agreed()).unwrap_or_default();
        Ran::Ended(Box::new(JobEnd {
            status,
            result: None,
            error: error.map(JobError::from),
            settlement: self.studio.pipeline.conclude(job, &prices, conclusion),
            parts: Vec::new(),
            events: Vec::new(),
        }))
    }
}

#[async_trait]
impl<C: Craft> Handler for Making<C> {
    fn kind(&self) -> &'static str {
        C::KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<Ran> {
        let job = work.job().clone();
        let order: Order<C::Wish> = match order::open(&self.studio.vault, &job, &job.terms.body) {
            Ok(order) => order,
            Err(error) => {
                return Ok(self.nothing(&job, None, JobStatus::Failed, Some(&error), Ending::Crashed));
            }
        };
        let mut parts = Vec::with_capacity(order.parts.len());
        let mut failure = None;
        for (number, count) in order.parts.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            match self.step(work, &order, number, *count).await? {
                Turn::Done(part) => parts.push(part),
                Turn::Later(pause) => return Ok(Ran::Later(pause)),
                Turn::Failed(error, ending) => {
                    failure = Some((JobStatus::Failed, Some(error), ending));
                    break;
                }
                Turn::Cancelled => {
                    failure = Some((JobStatus::Cancelled, None, Ending::Cancelled));
                    break;
                }
            }
        }
        // What is there is delivered and paid for, also when the rest of it is not.
        let has_some = parts.iter().any(|part: &Part| !part.pieces.is_empty());
        match failure {
            Some((status, error, ending)) if !has_some => {
                Ok(self.nothing(&job, Some(&order), status, error.as_ref(), ending))
            }
            _ => self.completed(&job, &order, parts),
        }
    }
}

/// Tells where the work is.
pub(crate) async fn tell(work: &Work, phase: &str, percent: Option<u8>) -> tollgate_storage::Result<()> {
    let (word, position) = phase.split_once('/').unwrap_or((phase, ""));
    let body = json!({"phase": word, "progress": percent, "queue_position": position.parse::<u32>().ok()});
    work.tell(Progress {
        phase: Some(Arc::from(phase)),
        percent,
        events: vec![NewJobEvent {
            kind: Arc::from("job.progress"),
            body: body.to_string().into_bytes(),
        }],
    })
    .await
}

fn ending(error: &UpstreamError) -> Ending {
    match (error.kind, error.cause) {
        (tollgate_upstream::UpstreamErrorKind::ContentBlocked, _) => Ending::BlockedInput,
        (_, tollgate_upstream::UpstreamCause::Timeout) => Ending::Timeout,
        _ => Ending::UpstreamError,
    }
}

pub(crate) fn is_passing(error: &Error) -> bool {
    matches!(error.code, ErrorCode::Overloaded | ErrorCode::ModelUnavailable)
}

pub(crate) fn blocked() -> Error {
    let message = "What was made was withheld by the content policy. Change the prompt; sending it again will not help.";
    Error::new(ErrorCode::OutputBlocked, message)
}

pub(crate) fn interrupted() -> Error {
    let message =
        "The gateway was stopped while the model was asked. It was not charged. Send the request again.";
    Error::new(ErrorCode::InternalError, message)
}

fn not_kept() -> Error {
    let message = "What was made could not be kept. It was not charged. Send the request again later.";
    Error::new(ErrorCode::InternalError, message)
}

fn lost() -> Error {
    let message = "The model has lost the job. It was not charged. Send the request again.";
    Error::new(ErrorCode::UpstreamError, message)
}

fn something_else() -> Error {
    let message =
        "The model made something else than was asked for. It was not charged. Send the request again.";
    Error::new(ErrorCode::UpstreamError, message)
}

pub(crate) fn corrupt(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, error.to_string())
}
