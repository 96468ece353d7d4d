//! Polls submitted chunks and settles their lines. Each line is settled once: results of unknown or
//! settled lines are skipped, and a line without a result fails.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tollgate_edge::RequestContext;
use tollgate_jobs::Work;
use tollgate_pipeline::ProviderBatches;
use tollgate_pipeline::batch::public_batch_error;
use tollgate_storage::{FileRecord, LineState};
use tollgate_types::{Error, ErrorCode, StepState, Timestamp};
use tollgate_upstream::{BatchAnswer, BatchEnd, BatchResult, BatchState, UpstreamError};

use super::submission::number_of;
use super::{Chunk, SubmittedChunks};
use crate::batches::job::{BatchRun, Batches, MAX_CONCURRENT_LINES, StopReason};
use crate::batches::lines::Lines;
use crate::batches::outputs::{self, LineCost, NotStarted, line_of};
use crate::batches::request::NamedRequest;
use crate::responses::store::unavailable;

/// Minimum and maximum interval between two polls.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// Time after an unconfirmed submission during which the gateway searches the provider for the
/// chunk.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a batch waits, after the end of its window, for lines that the provider has started.
const GRACE_PERIOD: Duration = Duration::from_hours(2);

/// Result of a line at the provider, before it is settled.
#[derive(Clone)]
enum LineOutcome {
    AnsweredLine(u16, Bytes),
    NotStarted(NotStarted),
    Failed(Arc<Error>),
}

/// Result of polling a chunk.
enum ChunkStatus {
    /// The chunk has not ended. Contains the delay until the next poll.
    Pending(Duration),
    /// The process is shutting down. The chunk is polled again after the restart.
    ShuttingDown,
    /// Locations of the results, and the outcome of lines without a result.
    Ended(Vec<String>, LineOutcome),
}

impl Batches {
    /// Polls all submitted chunks and settles those that have ended. Returns the delay until the
    /// next poll, if one is needed.
    pub(in crate::batches) async fn poll_chunks(
        &self,
        work: &Work,
        run: &BatchRun<'_>,
        file: &FileRecord,
        stop: StopReason,
    ) -> Result<Option<Duration>, Error> {
        let mut pause: Option<Duration> = None;
        for step in SubmittedChunks::of(work)?.open() {
            let mut chunk = step.chunk.clone();
            let chunk_status = match self.pipeline.provider_batches(run.job, &chunk.provider) {
                Some(at) => {
                    self.poll_chunk(work, run, file, step.number, &mut chunk, &at, stop)
                        .await?
                }
                None => ChunkStatus::Pending(POLL_INTERVALS.1),
            };
            match chunk_status {
                ChunkStatus::ShuttingDown => return Ok(Some(Duration::ZERO)),
                ChunkStatus::Pending(next)
                    if self.clock.now() < run.payload.expires_at().plus(GRACE_PERIOD) =>
                {
                    pause = Some(pause.map_or(next, |pause| pause.min(next)));
                }
                ChunkStatus::Pending(_) => {
                    let outcome = LineOutcome::NotStarted(NotStarted::Expired);
                    self.settle_rest(run, file, &chunk, outcome).await?;
                    self.done(work, step.number).await?;
                }
                ChunkStatus::Ended(..) => self.done(work, step.number).await?,
            }
        }
        Ok(pause)
    }

    async fn done(&self, work: &Work, step: u32) -> Result<(), Error> {
        let done = work.record_outcome(step, StepState::Done, Vec::new()).await;
        done.map_err(|error| unavailable(&error))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the chunk, its provider, and the batch that it belongs to"
    )]
    async fn poll_chunk(
        &self,
        work: &Work,
        run: &BatchRun<'_>,
        file: &FileRecord,
        step: u32,
        chunk: &mut Chunk,
        at: &ProviderBatches,
        stop: StopReason,
    ) -> Result<ChunkStatus, Error> {
        if chunk.handle.is_none() {
            match self.find_submission(work, step, chunk, at).await? {
                Some(ChunkStatus::Ended(places, rest)) => {
                    self.settle_rest(run, file, chunk, rest.clone()).await?;
                    return Ok(ChunkStatus::Ended(places, rest));
                }
                Some(chunk_status) => return Ok(chunk_status),
                None => {}
            }
        }
        let handle = chunk.handle.clone().unwrap_or_default();
        if matches!(stop, StopReason::Cancelled | StopReason::Expired) && !chunk.is_cancelled {
            match at.cancel(&handle).await {
                Ok(()) => {
                    chunk.is_cancelled = true;
                    self.save_chunk(work, step, chunk).await?;
                }
                Err(error) => log_error(run, at, &error),
            }
        }
        let chunk_status = match at.poll(&handle).await {
            Ok(state) => self.chunk_status(chunk, state, stop),
            Err(error) => {
                log_error(run, at, &error);
                let min_pause = error.retry_after.unwrap_or_default();
                ChunkStatus::Pending(self.pause(chunk.at).max(min_pause).min(GRACE_PERIOD))
            }
        };
        let ChunkStatus::Ended(places, rest) = chunk_status else {
            return Ok(chunk_status);
        };
        if let Some(chunk_status) = self.settle_results(run, file, chunk, at, &places).await? {
            return Ok(chunk_status);
        }
        self.settle_rest(run, file, chunk, rest.clone()).await?;
        self.delete_at_provider(run, at, chunk, &handle, &places).await;
        Ok(ChunkStatus::Ended(places, rest))
    }

    /// Deletes the data of a chunk at the provider. If that fails, the data expires at the
    /// provider.
    async fn delete_at_provider(
        &self,
        run: &BatchRun<'_>,
        at: &ProviderBatches,
        chunk: &Chunk,
        handle: &str,
        places: &[String],
    ) {
        if let Err(error) = at.forget(handle, chunk.staged.as_deref(), places).await {
            log_error(run, at, &error);
        }
    }

    async fn save_chunk(&self, work: &Work, step: u32, chunk: &Chunk) -> Result<(), Error> {
        let noted = work.submitted(step, chunk.written()?).await;
        noted.map_err(|error| unavailable(&error))
    }

    /// Searches the provider for a chunk that may have been submitted. Returns `None` if the chunk
    /// was found.
    async fn find_submission(
        &self,
        work: &Work,
        step: u32,
        chunk: &mut Chunk,
        at: &ProviderBatches,
    ) -> Result<Option<ChunkStatus>, Error> {
        if at.can_find() {
            match at.find(&work.key(step)).await {
                Ok(Some(handle)) => {
                    chunk.handle = Some(handle);
                    self.save_chunk(work, step, chunk).await?;
                    return Ok(None);
                }
                Ok(None) if self.clock.now() >= chunk.at.plus(LOOKUP_TIMEOUT) => {}
                // The provider's list may not contain the chunk yet.
                Ok(None) => return Ok(Some(ChunkStatus::Pending(POLL_INTERVALS.0))),
                Err(error) => {
                    tracing::warn!(job.id = %work.job().terms.id, provider = %at.name, %error, "cannot search the provider for submitted batch lines");
                    return Ok(Some(ChunkStatus::Pending(
                        error
                            .retry_after
                            .unwrap_or(POLL_INTERVALS.0)
                            .min(POLL_INTERVALS.1),
                    )));
                }
            }
        }
        tracing::error!(job.id = %work.job().terms.id, provider = %at.name, lines = chunk.lines().count(), "cannot determine whether batch lines were submitted; they are not submitted again");
        let message = "The gateway cannot determine whether the provider executed the request. \
                       The request was not charged. Send it again in a new batch.";
        let lost = LineOutcome::Failed(Arc::new(Error::new(ErrorCode::InternalError, message)));
        Ok(Some(ChunkStatus::Ended(Vec::new(), lost)))
    }

    fn chunk_status(&self, chunk: &Chunk, state: BatchState, stop: StopReason) -> ChunkStatus {
        let no_answer =
            |message: &str| LineOutcome::Failed(Arc::new(Error::new(ErrorCode::UpstreamError, message)));
        match state {
            BatchState::Running => ChunkStatus::Pending(self.pause(chunk.at)),
            BatchState::Ended(places, end) => {
                let rest = match (end, stop) {
                    (BatchEnd::Complete, _) => no_answer(
                        "The model provider returned no response. The request was not charged. Send it again in a new batch.",
                    ),
                    (BatchEnd::Cancelled, StopReason::Expired) | (BatchEnd::Expired, _) => {
                        LineOutcome::NotStarted(NotStarted::Expired)
                    }
                    (BatchEnd::Cancelled, _) => LineOutcome::NotStarted(NotStarted::Cancelled),
                };
                ChunkStatus::Ended(places, rest)
            }
            BatchState::Failed(error) => {
                tracing::warn!(provider = %chunk.provider, %error, "a provider has not executed submitted batch lines");
                ChunkStatus::Ended(
                    Vec::new(),
                    LineOutcome::Failed(Arc::new(public_batch_error(&error))),
                )
            }
            BatchState::Lost => ChunkStatus::Ended(
                Vec::new(),
                no_answer(
                    "The model provider has lost the request. The request was not charged. Send it again in a new batch.",
                ),
            ),
        }
    }

    /// Returns the delay until the next poll, which grows with the age of the chunk.
    fn pause(&self, since: Timestamp) -> Duration {
        let waited = self.clock.now().since(since);
        (waited / 8).clamp(POLL_INTERVALS.0, POLL_INTERVALS.1)
    }

    /// Returns the unsettled lines of a chunk with their content.
    async fn unsettled(
        &self,
        run: &BatchRun<'_>,
        file: &FileRecord,
        chunk: &Chunk,
    ) -> Result<HashMap<u32, Bytes>, Error> {
        let states = self.store.states(run.job.account, run.job.terms.id).await;
        let states: HashMap<u32, LineState> =
            states.map_err(|error| unavailable(&error))?.into_iter().collect();
        let is_open = |number: &u32| matches!(states.get(number), None | Some(LineState::Started));
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

    /// Settles the lines that have results. Returns a status if not all results could be read.
    async fn settle_results(
        &self,
        run: &BatchRun<'_>,
        file: &FileRecord,
        chunk: &Chunk,
        at: &ProviderBatches,
        places: &[String],
    ) -> Result<Option<ChunkStatus>, Error> {
        let _permit = self
            .slots
            .submission
            .acquire()
            .await
            .map_err(|_| Error::internal("the semaphore for submissions is closed"))?;
        let mut unsettled = self.unsettled(run, file, chunk).await?;
        for place in places {
            let mut results = match at.results(place).await {
                Ok(results) => results,
                Err(error) => return Ok(Some(self.retry_later(run, chunk, at, &error))),
            };
            let mut running = FuturesUnordered::new();
            let mut broken = None;
            let mut has_ended = false;
            loop {
                while !has_ended && running.len() < MAX_CONCURRENT_LINES {
                    match results.next().await {
                        None => has_ended = true,
                        Some(Err(error)) => (broken, has_ended) = (Some(error), true),
                        Some(Ok(result)) => {
                            if let Some((number, text, outcome)) = line_of_result(&mut unsettled, result) {
                                running.push(self.settle(run, number, text, outcome, Some(at)));
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
                    unsettled.clear();
                    if running.is_empty() {
                        return Ok(Some(ChunkStatus::ShuttingDown));
                    }
                }
            }
            if let Some(error) = broken {
                return Ok(Some(self.retry_later(run, chunk, at, &error)));
            }
            if self.pipeline.calls.is_closed() {
                return Ok(Some(ChunkStatus::ShuttingDown));
            }
        }
        Ok(None)
    }

    fn retry_later(
        &self,
        run: &BatchRun<'_>,
        chunk: &Chunk,
        at: &ProviderBatches,
        error: &UpstreamError,
    ) -> ChunkStatus {
        log_error(run, at, error);
        let min_pause = error.retry_after.unwrap_or_default();
        ChunkStatus::Pending(self.pause(chunk.at).max(min_pause).min(GRACE_PERIOD))
    }

    /// Settles the lines that have no result.
    async fn settle_rest(
        &self,
        run: &BatchRun<'_>,
        file: &FileRecord,
        chunk: &Chunk,
        outcome: LineOutcome,
    ) -> Result<(), Error> {
        for (number, text) in self.unsettled(run, file, chunk).await? {
            let settled = self.settle(run, number, text, outcome.clone(), None).await;
            settled.map_err(|error| unavailable(&error))?;
        }
        Ok(())
    }

    /// Settles one line; `at` is the provider that answered it.
    async fn settle(
        &self,
        run: &BatchRun<'_>,
        number: u32,
        text: Bytes,
        outcome: LineOutcome,
        at: Option<&ProviderBatches>,
    ) -> tollgate_storage::Result<()> {
        let now = self.clock.now();
        // `begin` has no effect if a process that died had already started the line.
        self.store
            .begin(run.lease, number, run.job.price_version, now)
            .await?;
        let named = NamedRequest::read(&text, run.payload.endpoint);
        let custom_id = named
            .as_ref()
            .map(|named| named.custom_id.clone())
            .unwrap_or_default();
        let place = run.place(number, &custom_id);
        let (content, state, cost) = match (outcome, named, at) {
            (LineOutcome::AnsweredLine(status, body), Ok(named), Some(at)) => {
                let answered = self.answered(run, &named, at, status, body).await;
                let request = answered.request;
                match answered.result {
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
            (LineOutcome::NotStarted(why), ..) => (
                outputs::not_started(&place, why),
                LineState::Failed,
                LineCost::default(),
            ),
            (LineOutcome::Failed(error), ..) => (
                outputs::failed(&place, self.request(), &error),
                LineState::Failed,
                LineCost::default(),
            ),
            (LineOutcome::AnsweredLine(..), ..) => {
                let error = Error::internal("a submitted line is malformed");
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

    /// Passes a provider's response through the normal pipeline.
    async fn answered(
        &self,
        run: &BatchRun<'_>,
        named: &NamedRequest,
        at: &ProviderBatches,
        status: u16,
        body: Bytes,
    ) -> AnsweredLine {
        let request = self.request();
        let ctx = RequestContext::for_background(request, self.clock.now(), None);
        let (pipeline, settled) = self.pipeline.replay_pipeline(run.job);
        let result = async {
            let mut call = named.prepare(&pipeline, &ctx, &run.caller, &run.reading)?;
            call.replay_batch_answer(at, status, body);
            call.make(&pipeline, &ctx, run.job, run.agreed).await
        };
        AnsweredLine {
            request,
            result: result.await,
            cost: LineCost::from(&*settled),
        }
    }
}

/// Result of a line that the provider answered.
struct AnsweredLine {
    request: tollgate_types::RequestId,
    result: Result<Bytes, Error>,
    cost: LineCost,
}

/// Finds the unsettled line of a result.
fn line_of_result(
    unsettled: &mut HashMap<u32, Bytes>,
    result: BatchResult,
) -> Option<(u32, Bytes, LineOutcome)> {
    let number = number_of(&result.name)?;
    let text = unsettled.remove(&number)?;
    let outcome = match result.answer {
        BatchAnswer::Response { status, body } => LineOutcome::AnsweredLine(status, body),
        BatchAnswer::Expired => LineOutcome::NotStarted(NotStarted::Expired),
        BatchAnswer::Cancelled => LineOutcome::NotStarted(NotStarted::Cancelled),
    };
    Some((number, text, outcome))
}

fn log_error(run: &BatchRun<'_>, at: &ProviderBatches, error: &UpstreamError) {
    tracing::warn!(job.id = %run.job.terms.id, provider = %at.name, %error, "a Batch API request to the provider failed");
}
