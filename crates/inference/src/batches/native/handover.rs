//! Lines are written as their calls would be sent, and handed over chunk by chunk.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_edge::RequestContext;
use tollgate_jobs::Work;
use tollgate_pipeline::{BatchAt, Unsubmitted};
use tollgate_storage::KeptFile;
use tollgate_types::{Error, StepState};
use tollgate_upstream::{Submission, Written};

use super::{Chunk, Handed, REFUSED};
use crate::batches::job::{Batches, Run};
use crate::batches::lines::{Line, Lines};
use crate::batches::request::Named;
use crate::responses::kept::unavailable;

/// Most bytes of a chunk, which are in memory at once, whatever the provider takes.
const MOST_BYTES: u64 = 16 << 20;
/// Most lines between those of a chunk that are carried out one by one.
const MOST_LEFT_OUT: usize = 1_000;
/// How long a provider is left alone that takes nothing now.
const PAUSE: Duration = Duration::from_secs(15);
/// After so many lines others have a turn on this thread.
const TURN: u32 = 16;

/// Lines that are about to be handed over.
struct Draft {
    at: BatchAt,
    chunk: Chunk,
    requests: Vec<Bytes>,
    bytes: u64,
}

/// Whether there is anything more to do about a chunk.
enum Handing {
    Taken,
    Refused,
    Later(Duration),
}

/// Reads lines with the one that did not fit before.
struct Reader {
    lines: Lines,
    next: u32,
    kept: Option<(u32, Line)>,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<(u32, Line)>, Error> {
        if let Some(kept) = self.kept.take() {
            return Ok(Some(kept));
        }
        let line = self.lines.next().await.map_err(|error| unavailable(&error))?;
        let number = self.next;
        self.next += 1;
        Ok(line.map(|line| (number, line)))
    }
}

impl Batches {
    /// Hands over what the model's provider carries out. What it does not is left to be carried out line by line, unless something is
    /// answered: then it is to be tried again after so long.
    pub(in crate::batches) async fn hand_over(
        &self,
        work: &Work,
        run: &Run<'_>,
        file: &KeptFile,
        ended: &HashSet<u32>,
    ) -> Result<Option<Duration>, Error> {
        let handed = Handed::of(work)?;
        if handed.is_refused() || handed.reached() >= run.order.total || self.stop(work, run.order).is_some()
        {
            return Ok(None);
        }
        let _room = self
            .room
            .handing
            .acquire()
            .await
            .map_err(|_| Error::internal("the room is closed"))?;
        let content = self.files.open(file, None).await?;
        let mut reader = Reader {
            lines: Lines::new(content),
            next: 0,
            kept: None,
        };
        let reached = handed.reached();
        while self.stop(work, run.order).is_none() {
            let Some(draft) = self.draft(run, &mut reader, reached, ended).await? else {
                return Ok(None);
            };
            match self.hand_over_one(work, run, draft).await? {
                Handing::Taken => {}
                Handing::Refused => return Ok(None),
                Handing::Later(pause) => return Ok(Some(pause)),
            }
        }
        Ok(None)
    }

    /// The next lines that can be handed over together; nothing when there are none.
    async fn draft(
        &self,
        run: &Run<'_>,
        reader: &mut Reader,
        reached: u32,
        ended: &HashSet<u32>,
    ) -> Result<Option<Draft>, Error> {
        let mut draft: Option<Draft> = None;
        while let Some((number, line)) = reader.next().await? {
            if number < reached {
                continue;
            }
            if number.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
            let written = match (&line.text, ended.contains(&number)) {
                (Some(text), false) => self.written(run, number, text, draft.as_ref()).await,
                _ => None,
            };
            let Some((at, written)) = written else {
                // What stands before the first one belongs to no chunk.
                if let Some(draft) = &mut draft {
                    draft.chunk.left_out.push(number);
                    draft.chunk.to = number + 1;
                    if draft.chunk.left_out.len() == MOST_LEFT_OUT {
                        break;
                    }
                }
                continue;
            };
            let draft = draft.get_or_insert_with(|| self.begun(number, at, &written));
            let size = written.text.len() as u64 + 1;
            let (most_requests, most_bytes) = draft.at.limits();
            let is_full = draft.requests.len() as u64 >= u64::from(most_requests)
                || draft.bytes.saturating_add(size) > most_bytes.min(MOST_BYTES);
            if is_full && !draft.requests.is_empty() {
                reader.kept = Some((number, line));
                break;
            }
            draft.bytes = draft.bytes.saturating_add(size);
            draft.chunk.to = number + 1;
            draft.requests.push(written.text);
        }
        Ok(draft)
    }

    fn begun(&self, number: u32, at: BatchAt, written: &Written) -> Draft {
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

    /// A line as the provider takes it, if it can be one of this chunk. What is wrong with it otherwise is found out where it is
    /// carried out alone.
    async fn written(
        &self,
        run: &Run<'_>,
        number: u32,
        text: &[u8],
        draft: Option<&Draft>,
    ) -> Option<(BatchAt, Written)> {
        let named = Named::read(text, run.order.endpoint).ok()?;
        let ctx = RequestContext::of_accepted(self.request(), self.clock.now(), None);
        let (pipeline, _) = self.pipeline.carrying_out_line(run.job);
        let call = named.prepare(&pipeline, &ctx, &run.caller, &run.reading).ok()?;
        let at = match draft {
            Some(draft) => draft.at.clone(),
            None => {
                let provider = call.routed().batched_by(run.order.endpoint.kind())?;
                self.pipeline.batches_at(run.job, &provider)?
            }
        };
        let written = call
            .write(&pipeline, &ctx, run.job, run.agreed, (&at.name, &name_of(number)))
            .await
            .ok()?;
        let fits = draft.is_none_or(|draft| *written.dialect == *draft.chunk.dialect);
        fits.then_some((at, written))
    }

    async fn hand_over_one(&self, work: &Work, run: &Run<'_>, draft: Draft) -> Result<Handing, Error> {
        let Draft {
            at,
            mut chunk,
            requests,
            ..
        } = draft;
        let handed = Handed::of(work)?;
        let step = handed.next();
        let failed = |error| unavailable(&error);
        if handed
            .steps
            .iter()
            .any(|known| known.number == step && known.state == StepState::Intended)
        {
            // It was being put in place, and nothing is carried out for that.
            let again = work.became(step, StepState::Failed, Vec::new()).await;
            again.map_err(failed)?;
        }
        let key = work.intend(step, chunk.written()?).await.map_err(failed)?;
        let mut submission = Submission {
            key,
            kind: run.order.endpoint.kind(),
            dialect: Arc::from(chunk.dialect.as_str()),
            requests,
            staged: None,
        };
        match at.stage(&submission).await {
            Ok(staged) => {
                chunk.staged.clone_from(&staged);
                submission.staged = staged;
            }
            Err(why) => return self.not_taken(work, step, &at, why).await,
        }
        chunk.at = self.clock.now();
        work.submitted(step, chunk.written()?).await.map_err(failed)?;
        match at.submit(&submission).await {
            Ok(handle) => {
                tracing::info!(job.id = %run.job.terms.id, provider = %at.name, lines = submission.requests.len(), "lines of a batch were handed over");
                chunk.handle = Some(handle);
                work.submitted(step, chunk.written()?).await.map_err(failed)?;
                Ok(Handing::Taken)
            }
            Err(Unsubmitted::Unknown(error)) => {
                tracing::warn!(job.id = %run.job.terms.id, provider = %at.name, %error, "lines of a batch may have been handed over");
                Ok(Handing::Taken)
            }
            Err(why) => self.not_taken(work, step, &at, why).await,
        }
    }

    async fn not_taken(
        &self,
        work: &Work,
        step: u32,
        at: &BatchAt,
        why: Unsubmitted,
    ) -> Result<Handing, Error> {
        let (outcome, handing) = match why {
            Unsubmitted::Later(pause) => (&b""[..], Handing::Later(pause.unwrap_or(PAUSE))),
            Unsubmitted::Refused(error) | Unsubmitted::Unknown(error) => {
                tracing::warn!(job.id = %work.job().terms.id, provider = %at.name, %error, "the provider takes no batch: its lines are carried out one by one");
                (REFUSED, Handing::Refused)
            }
        };
        let became = work.became(step, StepState::Failed, outcome.to_vec()).await;
        became.map_err(|error| unavailable(&error))?;
        Ok(handing)
    }
}

/// The name of a line at a provider. Nothing of the caller's is in it.
pub(super) fn name_of(number: u32) -> String {
    format!("r{number}")
}

/// The line of this name.
pub(super) fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix('r')?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_line() {
        for number in [0, 7, u32::MAX] {
            assert_eq!(number_of(&name_of(number)), Some(number));
        }
        for name in ["", "r", "7", "r07", "r+7", "r-1", "r4294967296", "x7", "r7 "] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
