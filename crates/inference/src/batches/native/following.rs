//! How it goes with what was handed over, and what came of it. Each line is settled once: a result of a line that is settled already,
//! or of none, is passed over, and a line without a result has failed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tollgate_edge::RequestContext;
use tollgate_jobs::Work;
use tollgate_pipeline::BatchAt;
use tollgate_pipeline::batch::told_of_batch;
use tollgate_storage::{KeptFile, LineState};
use tollgate_types::{Error, ErrorCode, StepState, Timestamp};
use tollgate_upstream::{BatchAnswer, BatchEnd, BatchResult, BatchState, UpstreamError};

use super::handover::number_of;
use super::{Chunk, Handed};
use crate::batches::job::{AT_ONCE, Batches, Run, Stop};
use crate::batches::lines::Lines;
use crate::batches::outputs::{self, LineCost, NotBegun, line_of};
use crate::batches::request::Named;
use crate::responses::kept::unavailable;

/// How long is waited between two questions.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// How long something is looked for that may have been taken.
const LOOKED_FOR: Duration = Duration::from_secs(30);
/// How long after the end of its window a batch waits for what its provider has begun.
const GRACE: Duration = Duration::from_hours(2);

/// What came of a line.
#[derive(Clone)]
enum How {
    Answered(u16, Bytes),
    NotBegun(NotBegun),
    Failed(Arc<Error>),
}

/// How it goes with a chunk.
enum Standing {
    /// It is to be asked for again after so long.
    Open(Duration),
    /// It is to be asked for again, and the process is on its way out.
    Leaving,
    /// These are the results, and this came of lines that have none.
    Ended(Vec<String>, How),
}

impl Batches {
    /// Asks for everything that was handed over, and settles what has ended: after how long it is to be asked again, if it is.
    pub(in crate::batches) async fn follow(
        &self,
        work: &Work,
        run: &Run<'_>,
        file: &KeptFile,
        stop: Stop,
    ) -> Result<Option<Duration>, Error> {
        let mut pause: Option<Duration> = None;
        for step in Handed::of(work)?.open() {
            let mut chunk = step.chunk.clone();
            let standing = match self.pipeline.batches_at(run.job, &chunk.provider) {
                Some(at) => {
                    self.follow_one(work, run, file, step.number, &mut chunk, &at, stop)
                        .await?
                }
                None => Standing::Open(PAUSES.1),
            };
            match standing {
                Standing::Leaving => return Ok(Some(Duration::ZERO)),
                Standing::Open(next) if self.clock.now() < run.order.expires_at().plus(GRACE) => {
                    pause = Some(pause.map_or(next, |pause| pause.min(next)));
                }
                Standing::Open(_) => {
                    let how = How::NotBegun(NotBegun::Expired);
                    self.settle_rest(run, file, &chunk, how).await?;
                    self.done(work, step.number).await?;
                }
                Standing::Ended(..) => self.done(work, step.number).await?,
            }
        }
        Ok(pause)
    }

    async fn done(&self, work: &Work, step: u32) -> Result<(), Error> {
        let done = work.became(step, StepState::Done, Vec::new()).await;
        done.map_err(|error| unavailable(&error))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a chunk, where it is, and what it is part of"
    )]
    async fn follow_one(
        &self,
        work: &Work,
        run: &Run<'_>,
        file: &KeptFile,
        step: u32,
        chunk: &mut Chunk,
        at: &BatchAt,
        stop: Stop,
    ) -> Result<Standing, Error> {
        if chunk.handle.is_none() {
            match self.look_for(work, step, chunk, at).await? {
                Some(Standing::Ended(places, rest)) => {
                    self.settle_rest(run, file, chunk, rest.clone()).await?;
                    return Ok(Standing::Ended(places, rest));
                }
                Some(standing) => return Ok(standing),
                None => {}
            }
        }
        let handle = chunk.handle.clone().unwrap_or_default();
        if matches!(stop, Stop::Cancelled | Stop::Expired) && !chunk.is_cancelled {
            match at.cancel(&handle).await {
                Ok(()) => {
                    chunk.is_cancelled = true;
                    self.note(work, step, chunk).await?;
                }
                Err(error) => log_of(run, at, &error),
            }
        }
        let standing = match at.poll(&handle).await {
            Ok(state) => self.standing(chunk, state, stop),
            Err(error) => {
                log_of(run, at, &error);
                let least = error.retry_after.unwrap_or_default();
                Standing::Open(self.pause(chunk.at).max(least).min(GRACE))
            }
        };
        let Standing::Ended(places, rest) = standing else {
            return Ok(standing);
        };
        if let Some(standing) = self.settle_results(run, file, chunk, at, &places).await? {
            return Ok(standing);
        }
        self.settle_rest(run, file, chunk, rest.clone()).await?;
        self.done_with(run, at, chunk, &handle, &places).await;
        Ok(Standing::Ended(places, rest))
    }

    /// Deletes what the provider keeps. What is left there by an accident ends there by itself.
    async fn done_with(&self, run: &Run<'_>, at: &BatchAt, chunk: &Chunk, handle: &str, places: &[String]) {
        if let Err(error) = at.forget(handle, chunk.staged.as_deref(), places).await {
            log_of(run, at, &error);
        }
    }

    async fn note(&self, work: &Work, step: u32, chunk: &Chunk) -> Result<(), Error> {
        let noted = work.submitted(step, chunk.written()?).await;
        noted.map_err(|error| unavailable(&error))
    }

    /// Looks for what may have been taken. Nothing when it was found.
    async fn look_for(
        &self,
        work: &Work,
        step: u32,
        chunk: &mut Chunk,
        at: &BatchAt,
    ) -> Result<Option<Standing>, Error> {
        if at.finds() {
            match at.find(&work.key(step)).await {
                Ok(Some(handle)) => {
                    chunk.handle = Some(handle);
                    self.note(work, step, chunk).await?;
                    return Ok(None);
                }
                Ok(None) if self.clock.now() >= chunk.at.plus(LOOKED_FOR) => {}
                // A list may be behind.
                Ok(None) => return Ok(Some(Standing::Open(PAUSES.0))),
                Err(error) => {
                    tracing::warn!(job.id = %work.job().terms.id, provider = %at.name, %error, "what was handed over cannot be looked for");
                    return Ok(Some(Standing::Open(
                        error.retry_after.unwrap_or(PAUSES.0).min(PAUSES.1),
                    )));
                }
            }
        }
        tracing::error!(job.id = %work.job().terms.id, provider = %at.name, lines = chunk.lines().count(), "nobody knows whether lines were handed over: they are not handed over again");
        let message = "Nobody knows whether the request was carried out. It was not charged.";
        let lost = How::Failed(Arc::new(Error::new(ErrorCode::InternalError, message)));
        Ok(Some(Standing::Ended(Vec::new(), lost)))
    }

    fn standing(&self, chunk: &Chunk, state: BatchState, stop: Stop) -> Standing {
        let no_answer = |message: &str| How::Failed(Arc::new(Error::new(ErrorCode::UpstreamError, message)));
        match state {
            BatchState::Running => Standing::Open(self.pause(chunk.at)),
            BatchState::Ended(places, end) => {
                let rest = match (end, stop) {
                    (BatchEnd::Complete, _) => {
                        no_answer("The model provider gave no answer. It was not charged.")
                    }
                    (BatchEnd::Cancelled, Stop::Expired) | (BatchEnd::Expired, _) => {
                        How::NotBegun(NotBegun::Expired)
                    }
                    (BatchEnd::Cancelled, _) => How::NotBegun(NotBegun::Cancelled),
                };
                Standing::Ended(places, rest)
            }
            BatchState::Failed(error) => {
                tracing::warn!(provider = %chunk.provider, %error, "a provider has not carried out what it was handed");
                Standing::Ended(Vec::new(), How::Failed(Arc::new(told_of_batch(&error))))
            }
            BatchState::Lost => Standing::Ended(
                Vec::new(),
                no_answer("The model provider has lost the request. It was not charged."),
            ),
        }
    }

    /// The longer it takes, the more seldom it is asked for.
    fn pause(&self, since: Timestamp) -> Duration {
        let waited = self.clock.now().since(since);
        (waited / 8).clamp(PAUSES.0, PAUSES.1)
    }

    /// Lines of a chunk that are not settled.
    async fn waiting(
        &self,
        run: &Run<'_>,
        file: &KeptFile,
        chunk: &Chunk,
    ) -> Result<HashMap<u32, Bytes>, Error> {
        let states = self.store.states(run.job.account, run.job.terms.id).await;
        let states: HashMap<u32, LineState> =
            states.map_err(|error| unavailable(&error))?.into_iter().collect();
        let is_open = |number: &u32| matches!(states.get(number), None | Some(LineState::Begun));
        let mut open: HashMap<u32, Bytes> = chunk
            .lines()
            .filter(is_open)
            .map(|number| (number, Bytes::new()))
            .collect();
        if open.is_empty() {
            return Ok(open);
        }
        let mut lines = Lines::new(self.files.open(file, None).await?);
        let mut number = 0;
        while let Some(line) = lines.next().await.map_err(|error| unavailable(&error))? {
            if let Some(text) = open.get_mut(&number) {
                *text = line.text.unwrap_or_default();
            }
            number += 1;
            if number == chunk.to {
                break;
            }
        }
        Ok(open)
    }

    /// Settles the lines that there are results of. Something is answered when not all could be read.
    async fn settle_results(
        &self,
        run: &Run<'_>,
        file: &KeptFile,
        chunk: &Chunk,
        at: &BatchAt,
        places: &[String],
    ) -> Result<Option<Standing>, Error> {
        let _room = self
            .room
            .handing
            .acquire()
            .await
            .map_err(|_| Error::internal("the room is closed"))?;
        let mut waiting = self.waiting(run, file, chunk).await?;
        for place in places {
            let mut results = match at.results(place).await {
                Ok(results) => results,
                Err(error) => return Ok(Some(self.unread(run, chunk, at, &error))),
            };
            let mut running = FuturesUnordered::new();
            let mut broken = None;
            let mut has_ended = false;
            loop {
                while !has_ended && running.len() < AT_ONCE {
                    match results.next().await {
                        None => has_ended = true,
                        Some(Err(error)) => (broken, has_ended) = (Some(error), true),
                        Some(Ok(result)) => {
                            if let Some((number, text, how)) = taken(&mut waiting, result) {
                                running.push(self.settle(run, number, text, how, Some(at)));
                            }
                        }
                    }
                }
                match running.next().await {
                    Some(settled) => settled.map_err(|error| unavailable(&error))?,
                    None if has_ended => break,
                    None => {}
                }
                if self.pipeline.calls.is_closed() {
                    (broken, has_ended) = (None, true);
                    waiting.clear();
                    if running.is_empty() {
                        return Ok(Some(Standing::Leaving));
                    }
                }
            }
            if let Some(error) = broken {
                return Ok(Some(self.unread(run, chunk, at, &error)));
            }
            if self.pipeline.calls.is_closed() {
                return Ok(Some(Standing::Leaving));
            }
        }
        Ok(None)
    }

    fn unread(&self, run: &Run<'_>, chunk: &Chunk, at: &BatchAt, error: &UpstreamError) -> Standing {
        log_of(run, at, error);
        let least = error.retry_after.unwrap_or_default();
        Standing::Open(self.pause(chunk.at).max(least).min(GRACE))
    }

    /// Settles the lines that there is no result of.
    async fn settle_rest(
        &self,
        run: &Run<'_>,
        file: &KeptFile,
        chunk: &Chunk,
        how: How,
    ) -> Result<(), Error> {
        for (number, text) in self.waiting(run, file, chunk).await? {
            let settled = self.settle(run, number, text, how.clone(), None).await;
            settled.map_err(|error| unavailable(&error))?;
        }
        Ok(())
    }

    /// Settles a line.
    async fn settle(
        &self,
        run: &Run<'_>,
        number: u32,
        text: Bytes,
        how: How,
        at: Option<&BatchAt>,
    ) -> tollgate_storage::Result<()> {
        let now = self.clock.now();
        // It was begun before when a process has died in the middle of this, of which nothing came.
        self.store
            .begin(run.lease, number, run.job.price_version, now)
            .await?;
        let named = Named::read(&text, run.order.endpoint);
        let custom_id = named
            .as_ref()
            .map(|named| named.custom_id.clone())
            .unwrap_or_default();
        let place = run.place(number, &custom_id);
        let (content, state, cost) = match (how, named, at) {
            (How::Answered(status, body), Ok(named), Some(at)) => {
                let answered = self.answered(run, &named, at, status, body).await;
                let request = answered.request;
                match answered.made {
                    Ok(body) => {
                        let content = outputs::answered(&place, request, &body);
                        (content, LineState::Done, answered.cost)
                    }
                    Err(error) => {
                        let content = outputs::failed(&place, request, &error);
                        (content, LineState::Failed, answered.cost)
                    }
                }
            }
            (How::NotBegun(why), ..) => (
                outputs::not_begun(&place, why),
                LineState::Failed,
                LineCost::default(),
            ),
            (How::Failed(error), ..) => (
                outputs::failed(&place, self.request(), &error),
                LineState::Failed,
                LineCost::default(),
            ),
            (How::Answered(..), ..) => {
                let error = Error::internal("a line that was handed over cannot be read");
                (
                    outputs::failed(&place, self.request(), &error),
                    LineState::Failed,
                    LineCost::default(),
                )
            }
        };
        self.ended(
            run,
            line_of(run.job, number, state, self.sealed(run.job, &content)?, &cost),
        )
        .await
    }

    /// Goes with an answer through what any answer goes through.
    async fn answered(
        &self,
        run: &Run<'_>,
        named: &Named,
        at: &BatchAt,
        status: u16,
        body: Bytes,
    ) -> Answered {
        let request = self.request();
        let ctx = RequestContext::of_accepted(request, self.clock.now(), None);
        let (pipeline, settled) = self.pipeline.answering_line(run.job);
        let made = async {
            let mut call = named.prepare(&pipeline, &ctx, &run.caller, &run.reading)?;
            call.answer_with(at, status, body);
            call.make(&pipeline, &ctx, run.job, run.agreed).await
        };
        Answered {
            request,
            made: made.await,
            cost: LineCost::from(&*settled),
        }
    }
}

/// A line that was answered.
struct Answered {
    request: tollgate_types::RequestId,
    made: Result<Bytes, Error>,
    cost: LineCost,
}

/// The line that a result is of, if it waits for one.
fn taken(waiting: &mut HashMap<u32, Bytes>, result: BatchResult) -> Option<(u32, Bytes, How)> {
    let number = number_of(&result.name)?;
    let text = waiting.remove(&number)?;
    let how = match result.answer {
        BatchAnswer::Response { status, body } => How::Answered(status, body),
        BatchAnswer::Expired => How::NotBegun(NotBegun::Expired),
        BatchAnswer::Cancelled => How::NotBegun(NotBegun::Cancelled),
    };
    Some((number, text, how))
}

fn log_of(run: &Run<'_>, at: &BatchAt, error: &UpstreamError) {
    tracing::warn!(job.id = %run.job.terms.id, provider = %at.name, %error, "a provider could not be asked about a batch");
}
