//! Encodes lines like their calls and submits them in chunks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_edge::RequestContext;
use tollgate_jobs::Work;
use tollgate_pipeline::{ProviderBatches, SubmitError};
use tollgate_storage::FileRecord;
use tollgate_types::{Error, StepState};
use tollgate_upstream::{EncodedRequest, Submission};

use super::{Chunk, REFUSED, SubmittedChunks};
use crate::batches::job::{BatchRun, Batches};
use crate::batches::lines::{Line, Lines};
use crate::batches::request::NamedRequest;
use crate::responses::store::unavailable;

/// Maximum size of a chunk in bytes, independent of the provider's limit, because the chunk is held
/// in memory.
const MAX_CHUNK_BYTES: u64 = 16 << 20;
/// Maximum number of lines in the range of a chunk that are executed one by one.
const MAX_LEFT_OUT: usize = 1_000;
/// Default delay before the next submission to a provider that currently accepts none.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);
/// Number of lines after which the task yields to other tasks.
const LINES_PER_YIELD: u32 = 16;

/// A chunk that is being filled.
struct Draft {
    at: ProviderBatches,
    chunk: Chunk,
    requests: Vec<Bytes>,
    bytes: u64,
}

/// Result of submitting a chunk.
enum SubmitOutcome {
    Taken,
    Refused,
    Later(Duration),
}

/// Reader of lines that returns a line again if it did not fit into the last chunk.
struct Reader {
    lines: Lines,
    next: u32,
    pushed_back: Option<(u32, Line)>,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<(u32, Line)>, Error> {
        if let Some(pushed_back) = self.pushed_back.take() {
            return Ok(Some(pushed_back));
        }
        let line = self.lines.next().await.map_err(|error| unavailable(&error))?;
        let number = self.next;
        self.next += 1;
        Ok(line.map(|line| (number, line)))
    }
}

impl Batches {
    /// Submits the lines that the provider can execute as native batches. Returns a delay if
    /// submission must be retried later; otherwise the remaining lines are executed one by one.
    pub(in crate::batches) async fn submit_chunks(
        &self,
        work: &Work,
        run: &BatchRun<'_>,
        file: &FileRecord,
        ended: &HashSet<u32>,
    ) -> Result<Option<Duration>, Error> {
        let submitted = SubmittedChunks::of(work)?;
        if submitted.is_refused()
            || submitted.next_line() >= run.payload.total
            || self.stop(work, run.payload).is_some()
        {
            return Ok(None);
        }
        let _permit = self
            .slots
            .submission
            .acquire()
            .await
            .map_err(|_| Error::internal("the semaphore for submissions is closed"))?;
        let content = self.files.open(file, None).await?;
        let mut reader = Reader {
            lines: Lines::new(content),
            next: 0,
            pushed_back: None,
        };
        let next_line = submitted.next_line();
        while self.stop(work, run.payload).is_none() {
            let Some(draft) = self.draft(run, &mut reader, next_line, ended).await? else {
                return Ok(None);
            };
            match self.submit_chunk(work, run, draft).await? {
                SubmitOutcome::Taken => {}
                SubmitOutcome::Refused => return Ok(None),
                SubmitOutcome::Later(pause) => return Ok(Some(pause)),
            }
        }
        Ok(None)
    }

    /// Fills the next chunk; `None` if no lines are left.
    async fn draft(
        &self,
        run: &BatchRun<'_>,
        reader: &mut Reader,
        next_line: u32,
        ended: &HashSet<u32>,
    ) -> Result<Option<Draft>, Error> {
        let mut draft: Option<Draft> = None;
        while let Some((number, line)) = reader.next().await? {
            if number < next_line {
                continue;
            }
            if number.is_multiple_of(LINES_PER_YIELD) {
                tokio::task::yield_now().await;
            }
            let written = match (&line.text, ended.contains(&number)) {
                (Some(text), false) => self.written(run, number, text, draft.as_ref()).await,
                _ => None,
            };
            let Some((at, written)) = written else {
                // Lines before the first encoded line belong to no chunk.
                if let Some(draft) = &mut draft {
                    draft.chunk.left_out.push(number);
                    draft.chunk.to = number + 1;
                    if draft.chunk.left_out.len() == MAX_LEFT_OUT {
                        break;
                    }
                }
                continue;
            };
            let draft = draft.get_or_insert_with(|| self.new_draft(number, at, &written));
            let size = written.text.len() as u64 + 1;
            let (max_requests, max_bytes) = draft.at.limits();
            let is_full = draft.requests.len() as u64 >= u64::from(max_requests)
                || draft.bytes.saturating_add(size) > max_bytes.min(MAX_CHUNK_BYTES);
            if is_full && !draft.requests.is_empty() {
                reader.pushed_back = Some((number, line));
                break;
            }
            draft.bytes = draft.bytes.saturating_add(size);
            draft.chunk.to = number + 1;
            draft.requests.push(written.text);
        }
        Ok(draft)
    }

    fn new_draft(&self, number: u32, at: ProviderBatches, written: &EncodedRequest) -> Draft {
        Draft {
            chunk: Chunk {
                provider: at.name.to_string(),
                from: number,
                to: number,
                left_out: Vec::new(),
                dialect: written.dialect.to_string(),
                at: self.clock.now(),
                staged: None,
                handle: None,
                is_cancelled: false,
            },
            at,
            requests: Vec::new(),
            bytes: 0,
        }
    }

    /// Encodes a line for the provider; `None` if that fails or if its options differ from those of
    /// the chunk. Such a line is executed alone, which reports its errors.
    async fn written(
        &self,
        run: &BatchRun<'_>,
        number: u32,
        text: &[u8],
        draft: Option<&Draft>,
    ) -> Option<(ProviderBatches, EncodedRequest)> {
        let named = NamedRequest::read(text, run.payload.endpoint).ok()?;
        let ctx = RequestContext::for_background(self.request(), self.clock.now(), None);
        let (pipeline, _) = self.pipeline.executing_batch_line(run.job);
        let call = named.prepare(&pipeline, &ctx, &run.caller, &run.reading).ok()?;
        let at = match draft {
            Some(draft) => draft.at.clone(),
            None => {
                let provider = call.routed().native_batch_provider(run.payload.endpoint.kind())?;
                self.pipeline.provider_batches(run.job, &provider)?
            }
        };
        let written = call
            .write(&pipeline, &ctx, run.job, run.agreed, (&at.name, &name_of(number)))
            .await
            .ok()?;
        let fits = draft.is_none_or(|draft| *written.dialect == *draft.chunk.dialect);
        fits.then_some((at, written))
    }

    async fn submit_chunk(
        &self,
        work: &Work,
        run: &BatchRun<'_>,
        draft: Draft,
    ) -> Result<SubmitOutcome, Error> {
        let Draft {
            at,
            mut chunk,
            requests,
            ..
        } = draft;
        let submitted = SubmittedChunks::of(work)?;
        let step = submitted.next();
        let failed = |error| unavailable(&error);
        if submitted
            .steps
            .iter()
            .any(|known| known.number == step && known.state == StepState::Intended)
        {
            // The upload was interrupted, and an upload alone executes nothing.
            let again = work.record_outcome(step, StepState::Failed, Vec::new()).await;
            again.map_err(failed)?;
        }
        let key = work.intend(step, chunk.written()?).await.map_err(failed)?;
        let mut submission = Submission {
            key,
            kind: run.payload.endpoint.kind(),
            dialect: Arc::from(chunk.dialect.as_str()),
            requests,
            staged: None,
        };
        match at.stage(&submission).await {
            Ok(staged) => {
                chunk.staged.clone_from(&staged);
                submission.staged = staged;
            }
            Err(why) => return self.record_rejection(work, step, &at, why).await,
        }
        chunk.at = self.clock.now();
        work.submitted(step, chunk.written()?).await.map_err(failed)?;
        match at.submit(&submission).await {
            Ok(handle) => {
                tracing::info!(job.id = %run.job.terms.id, provider = %at.name, lines = submission.requests.len(), "batch lines were submitted to the provider");
                chunk.handle = Some(handle);
                work.submitted(step, chunk.written()?).await.map_err(failed)?;
                Ok(SubmitOutcome::Taken)
            }
            Err(SubmitError::Unknown(error)) => {
                tracing::warn!(job.id = %run.job.terms.id, provider = %at.name, %error, "batch lines may have been submitted to the provider");
                Ok(SubmitOutcome::Taken)
            }
            Err(why) => self.record_rejection(work, step, &at, why).await,
        }
    }

    async fn record_rejection(
        &self,
        work: &Work,
        step: u32,
        at: &ProviderBatches,
        why: SubmitError,
    ) -> Result<SubmitOutcome, Error> {
        let (outcome, submission) = match why {
            SubmitError::Later(pause) => (&b""[..], SubmitOutcome::Later(pause.unwrap_or(RETRY_INTERVAL))),
            SubmitError::Refused(error) | SubmitError::Unknown(error) => {
                tracing::warn!(job.id = %work.job().terms.id, provider = %at.name, %error, "the provider did not accept batch lines; they are executed one by one");
                (REFUSED, SubmitOutcome::Refused)
            }
        };
        let record_outcome = work
            .record_outcome(step, StepState::Failed, outcome.to_vec())
            .await;
        record_outcome.map_err(|error| unavailable(&error))?;
        Ok(submission)
    }
}

/// Returns the name of a line at a provider. The name contains no data of the caller.
pub(super) fn name_of(number: u32) -> String {
    format!("r{number}")
}

/// Parses the line number from a name.
pub(super) fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix('r')?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_are_unique() {
        for number in [0, 7, u32::MAX] {
            assert_eq!(number_of(&name_of(number)), Some(number));
        }
        for name in ["", "r", "7", "r07", "r+7", "r-1", "r4294967296", "x7", "r7 "] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
