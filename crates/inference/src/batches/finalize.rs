//! Finalizes a batch: writes each of its two result files exactly once, and settles all lines when
//! the job ends.

use std::time::Duration;

use tollgate_jobs::{JobOutcome, Progress, Work, sealed};
use tollgate_storage::{FilePurpose, FileRecord, Job, JobEnd, LineState, NewJobEvent, Settlement};
use tollgate_types::usage::Outcome as CallOutcome;
use tollgate_types::{BatchId, Credits, Error, FileId, JobStatus, StepState};

use super::job::{Batches, StopReason};
use super::outputs::{self, NotStarted, OutputLines};
use super::payload::{BatchPayload, Outcome};
use crate::files::Label;
use crate::responses::store::unavailable;

/// Default retention of the result files.
const OUTPUT_RETENTION: Duration = Duration::from_hours(30 * 24);
/// Job steps of the two result files.
const OUTPUT_STEP: u32 = 0;
const ERRORS_STEP: u32 = 1;
/// Kind of the job event that is recorded before the result files are written.
pub(super) const FINALIZING_EVENT: &str = "batch.finalizing";

impl Batches {
    /// Writes a result file exactly once, even if a process dies while writing it.
    async fn write_file(
        &self,
        work: &mut Work,
        step: u32,
        mut pending: OutputLines<'_>,
        payload: &BatchPayload,
    ) -> Result<FileId, Error> {
        let job = work.job().clone();
        let known = work.step(step);
        if let Some(known) = known {
            let id = <[u8; 16]>::try_from(known.handle.as_slice()).map(u128::from_be_bytes);
            let id = FileId::from_u128(
                id.map_err(|_| Error::internal("the stored id of a result file is invalid"))?,
            );
            let exists = self.files.find(job.account, id).await?.is_some();
            match known.state {
                StepState::Done => return Ok(id),
                StepState::Intended if exists => {
                    let done = work.record_outcome(step, StepState::Done, Vec::new()).await;
                    return done.map(|()| id).map_err(|error| unavailable(&error));
                }
                StepState::Intended => {
                    let failed = work.record_outcome(step, StepState::Failed, Vec::new()).await;
                    failed.map_err(|error| unavailable(&error))?;
                }
                _ => {}
            }
        }
        let id = self.files.next_id();
        let intended = work.intend(step, id.as_u128().to_be_bytes().to_vec()).await;
        intended.map_err(|error| unavailable(&error))?;
        let name = if step == OUTPUT_STEP { "output" } else { "error" };
        let label = Label {
            filename: format!("{}_{name}.jsonl", BatchId::from_u128(job.terms.id.as_u128())),
            purpose: FilePurpose::BatchOutput,
            expires_after: Some(
                payload
                    .retention_seconds
                    .map_or(OUTPUT_RETENTION, Duration::from_secs),
            ),
        };
        self.files.make(job.account, id, &mut pending, label).await?;
        let done = work.record_outcome(step, StepState::Done, Vec::new()).await;
        done.map(|()| id).map_err(|error| unavailable(&error))
    }

    /// Writes the result files and ends the batch.
    pub(super) async fn finalize(
        &self,
        work: &mut Work,
        payload: &BatchPayload,
        file: Option<&FileRecord>,
        stop: StopReason,
    ) -> Result<JobOutcome, Error> {
        let job = work.job().clone();
        let finalizing_at = self.clock.now();
        let pending = work.report_progress(Progress {
            phase: Some("finalizing".into()),
            events: vec![NewJobEvent {
                kind: FINALIZING_EVENT.into(),
                body: Vec::new(),
            }],
            ..Progress::default()
        });
        pending.await.map_err(|error| unavailable(&error))?;
        let sum = outputs::sum(&*self.store, &job).await;
        let sum = sum.map_err(|error| unavailable(&error))?;
        let why = match stop {
            StopReason::Expired => NotStarted::Expired,
            _ => NotStarted::Cancelled,
        };
        let appended = match file {
            Some(file) if sum.done + sum.failed < u64::from(payload.total) => {
                let states = self.store.states(job.account, job.terms.id).await;
                let started = states.map_err(|error| unavailable(&error))?;
                let started = started.into_iter().map(|(number, _)| number).collect();
                outputs::not_started_lines(self, &job, file, &started, payload.endpoint, why).await?
            }
            _ => Vec::new(),
        };
        let failed = u64::try_from(appended.len()).unwrap_or(u64::MAX) + sum.failed;
        let output = match sum.done {
            0 => None,
            _ => {
                let pending = OutputLines::new(self, &job, LineState::Done, Vec::new());
                Some(self.write_file(work, OUTPUT_STEP, pending, payload).await?)
            }
        };
        let errors = match failed {
            0 => None,
            _ => {
                let pending = OutputLines::new(self, &job, LineState::Failed, appended);
                Some(self.write_file(work, ERRORS_STEP, pending, payload).await?)
            }
        };
        // Cancellation may have been requested after the last line was started.
        let cancelling_at = self.first_event_at(&job, NewJobEvent::CANCELLING).await?;
        let outcome = Outcome {
            output,
            errors,
            done: sum.done,
            failed: sum.failed,
            finalizing_at: Some(finalizing_at),
            cancelling_at,
            usage: sum.usage,
        };
        let (status, call_outcome) = match stop {
            StopReason::Expired => (JobStatus::Expired, CallOutcome::Timeout),
            StopReason::End | StopReason::ShuttingDown if cancelling_at.is_none() => {
                (JobStatus::Completed, CallOutcome::Ok)
            }
            _ => (JobStatus::Cancelled, CallOutcome::Cancelled),
        };
        // The call releases nothing and returns the held amount. The rest of the hold is settled
        // together with the batch.
        let held = self.jobs.shrink_hold(work.lease(), job.held, finalizing_at).await;
        let charge = sum.charge.min(held.map_err(|error| unavailable(&error))?);
        let excess = sum.charge.saturating_sub(charge);
        Ok(JobOutcome::Ended(Box::new(JobEnd {
            parts: Vec::new(),
            status,
            result: Some(sealed::seal(&self.vault, job.account, job.terms.id, &outcome)?),
            error: None,
            settlement: Settlement {
                charge,
                overrun: sum.overrun.checked_add(excess).unwrap_or(Credits::MAX),
                usage: sum.usage,
                ..Settlement::free(job.account, job.hold, call_outcome, self.clock.now())
            },
            events: Vec::new(),
        })))
    }

    pub(super) fn failed(&self, job: &Job, error: &Error) -> JobOutcome {
        JobOutcome::Ended(Box::new(JobEnd {
            parts: Vec::new(),
            status: JobStatus::Failed,
            result: None,
            error: Some(tollgate_jobs::job_error(job, error)),
            settlement: Settlement::free(job.account, job.hold, CallOutcome::Cancelled, self.clock.now()),
            events: Vec::new(),
        }))
    }
}
