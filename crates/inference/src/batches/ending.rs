//! How a batch ends: its two files are written, each once, and its lines are settled in one step with it.

use std::time::Duration;

use tollgate_jobs::{Progress, Ran, Work};
use tollgate_storage::{FilePurpose, Job, JobEnd, JobError, KeptFile, LineState, NewJobEvent, Settlement};
use tollgate_types::usage::Outcome as CallOutcome;
use tollgate_types::{BatchId, Credits, Error, FileId, JobStatus, StepState};

use super::job::{Batches, Stop};
use super::order::{Order, Outcome, seal};
use super::outputs::{self, NotBegun, Told};
use crate::files::Label;
use crate::responses::kept::unavailable;

/// How long what came of a batch is kept that says nothing.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// The two files, as steps.
const OUTPUT: u32 = 0;
const ERRORS: u32 = 1;
/// Said when the files are written.
pub(super) const FINALIZING: &str = "batch.finalizing";

impl Batches {
    /// Keeps a file of what came of the batch, once, whenever the process dies.
    async fn keep(
        &self,
        work: &mut Work,
        step: u32,
        mut told: Told<'_>,
        order: &Order,
    ) -> Result<FileId, Error> {
        let job = work.job().clone();
        let known = work.step(step);
        if let Some(known) = known {
            let id = <[u8; 16]>::try_from(known.handle.as_slice()).map(u128::from_be_bytes);
            let id = FileId::from_u128(id.map_err(|_| Error::internal("a file of a batch has no id"))?);
            let is_there = self.files.find(job.account, id).await?.is_some();
            match known.state {
                StepState::Done => return Ok(id),
                StepState::Intended if is_there => {
                    let done = work.became(step, StepState::Done, Vec::new()).await;
                    return done.map(|()| id).map_err(|error| unavailable(&error));
                }
                StepState::Intended => {
                    let failed = work.became(step, StepState::Failed, Vec::new()).await;
                    failed.map_err(|error| unavailable(&error))?;
                }
                _ => {}
            }
        }
        let id = self.files.next_id();
        let intended = work.intend(step, id.as_u128().to_be_bytes().to_vec()).await;
        intended.map_err(|error| unavailable(&error))?;
        let name = if step == OUTPUT { "output" } else { "error" };
        let label = Label {
            filename: format!("{}_{name}.jsonl", BatchId::from_u128(job.terms.id.as_u128())),
            purpose: FilePurpose::BatchOutput,
            expires_after: Some(order.kept.map_or(KEPT, Duration::from_secs)),
        };
        self.files.make(job.account, id, &mut told, label).await?;
        let done = work.became(step, StepState::Done, Vec::new()).await;
        done.map(|()| id).map_err(|error| unavailable(&error))
    }

    /// Writes the files and ends the batch.
    pub(super) async fn finalize(
        &self,
        work: &mut Work,
        order: &Order,
        file: Option<&KeptFile>,
        stop: Stop,
    ) -> Result<Ran, Error> {
        let job = work.job().clone();
        let finalizing_at = self.clock.now();
        let told = work.tell(Progress {
            phase: Some("finalizing".into()),
            events: vec![NewJobEvent {
                kind: FINALIZING.into(),
                body: Vec::new(),
            }],
            ..Progress::default()
        });
        told.await.map_err(|error| unavailable(&error))?;
        let sum = outputs::sum(&*self.store, &job).await;
        let sum = sum.map_err(|error| unavailable(&error))?;
        let why = match stop {
            Stop::Expired => NotBegun::Expired,
            _ => NotBegun::Cancelled,
        };
        let behind = match file {
            Some(file) if sum.done + sum.failed < u64::from(order.total) => {
                let states = self.store.states(job.account, job.terms.id).await;
                let begun = states.map_err(|error| unavailable(&error))?;
                let begun = begun.into_iter().map(|(number, _)| number).collect();
                outputs::those_not_begun(self, &job, file, &begun, order.endpoint, why).await?
            }
            _ => Vec::new(),
        };
        let failed = u64::try_from(behind.len()).unwrap_or(u64::MAX) + sum.failed;
        let output = match sum.done {
            0 => None,
            _ => {
                let told = Told::new(self, &job, LineState::Done, Vec::new());
                Some(self.keep(work, OUTPUT, told, order).await?)
            }
        };
        let errors = match failed {
            0 => None,
            _ => {
                let told = Told::new(self, &job, LineState::Failed, behind);
                Some(self.keep(work, ERRORS, told, order).await?)
            }
        };
        // It may have been asked for since the last request was begun.
        let cancelling_at = self.told_at(&job, NewJobEvent::CANCELLING).await?;
        let outcome = Outcome {
            output,
            errors,
            done: sum.done,
            failed: sum.failed,
            finalizing_at: Some(finalizing_at),
            cancelling_at,
            usage: sum.usage,
        };
        let (status, how) = match stop {
            Stop::Expired => (JobStatus::Expired, CallOutcome::Timeout),
            Stop::End | Stop::Leaving if cancelling_at.is_none() => (JobStatus::Completed, CallOutcome::Ok),
            _ => (JobStatus::Cancelled, CallOutcome::Cancelled),
        };
        // This asks for nothing back: what is left of the hold is resolved in the same step as the batch.
        let held = self.jobs.shrink_hold(work.lease(), job.held, finalizing_at).await;
        let charge = sum.charge.min(held.map_err(|error| unavailable(&error))?);
        let beyond = sum.charge.saturating_sub(charge);
        Ok(Ran::Ended(Box::new(JobEnd {
            parts: Vec::new(),
            status,
            result: Some(seal(&self.vault, job.account, job.terms.id, &outcome)?),
            error: None,
            settlement: Settlement {
                charge,
                overrun: sum.overrun.checked_add(beyond).unwrap_or(Credits::MAX),
                usage: sum.usage,
                ..Settlement::free(job.account, job.hold, how, self.clock.now())
            },
            events: Vec::new(),
        })))
    }

    pub(super) fn failed(&self, job: &Job, error: &Error) -> Ran {
        Ran::Ended(Box::new(JobEnd {
            parts: Vec::new(),
            status: JobStatus::Failed,
            result: None,
            error: Some(JobError::from(error)),
            settlement: Settlement::free(job.account, job.hold, CallOutcome::Cancelled, self.clock.now()),
            events: Vec::new(),
        }))
    }
}
