//! Recorded calls. A free call is repeated after a crash. A paid call whose outcome is unknown is
//! counted as lost, not charged, and repeated: its only effect was its cost.

use std::time::Duration;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tollgate_accounts::Vault;
use tollgate_jobs::{Progress, Work, sealed};
use tollgate_pipeline::Reservation;
use tollgate_storage::{Job, NewJobEvent, StorageError, StorageErrorKind};
use tollgate_types::{Error, StepState, Usage};
use tollgate_upstream::{ResearchReply, UpstreamError, UpstreamErrorKind};

use super::super::bounds::Stage;
use super::super::cast::Spent;
use super::super::payload::StepOutcome;
use super::super::relay::RELAY_STEP;
use super::{Engine, Stop};

/// Counter of the calls of research jobs.
pub(in super::super) const CALLS: &str = "tollgate_research_calls_total";
/// Number of attempts at a call.
const MAX_ATTEMPTS: u32 = 3;
/// Delay before the second attempt. Each further delay is twice as long.
const RETRY_DELAY: Duration = Duration::from_millis(200);

// Step numbers. Steps of a round begin at 1000 times its number, counted from 1.
pub(super) const PLAN_STEP: u32 = 0;
pub(super) const ROUND_STEPS: u32 = 1_000;
pub(super) const SEARCH_STEP: u32 = 1;
pub(super) const READ_STEP: u32 = 100;
pub(super) const NOTES_STEP: u32 = 400;
pub(super) const REFLECT_STEP: u32 = 900;
pub(super) const OUTLINE_STEP: u32 = 100_000;
pub(super) const SECTION_STEP: u32 = 100_001;
pub(super) const JUDGE_STEP: u32 = 100_200;
pub(super) const CORRECTION_STEP: u32 = 100_500;
pub(super) const SECOND_JUDGE_STEP: u32 = 100_600;
/// Local steps that send the text of a section to the owner of the job.
pub(super) const DELTA_STEP: u32 = 100_700;

/// Returns the stage of a paid step; `None` for steps without a cost.
fn stage(number: u32) -> Option<Stage> {
    match number {
        PLAN_STEP | OUTLINE_STEP => return Some(Stage::Plan),
        SECTION_STEP..JUDGE_STEP | CORRECTION_STEP..SECOND_JUDGE_STEP => return Some(Stage::Write),
        JUDGE_STEP..CORRECTION_STEP | SECOND_JUDGE_STEP..DELTA_STEP => return Some(Stage::Judge),
        RELAY_STEP => return Some(Stage::Report),
        DELTA_STEP.. => return None,
        _ => {}
    }
    match number % ROUND_STEPS {
        SEARCH_STEP..READ_STEP => Some(Stage::Search),
        NOTES_STEP..REFLECT_STEP => Some(Stage::Read),
        REFLECT_STEP => Some(Stage::Plan),
        _ => None,
    }
}

/// Result of a recorded call.
pub(super) enum Called<T> {
    Done(T),
    /// The budget does not cover the call.
    Unaffordable,
    /// All attempts failed.
    Failed,
}

impl<T> Called<T> {
    pub(super) fn done(self) -> Option<T> {
        match self {
            Called::Done(value) => Some(value),
            Called::Unaffordable | Called::Failed => None,
        }
    }
}

/// Description of a call.
pub(super) struct Call<'e, T> {
    pub(super) number: u32,
    pub(super) stage: Stage,
    /// Whether the call may use the reserve of the last calls.
    pub(super) is_last: bool,
    /// Returns the progress that is recorded with the result.
    pub(super) progress: &'e (dyn Fn(&T) -> Progress + Sync),
    /// Returns the names of the backends that answered, for a search.
    pub(super) backends: fn(&T) -> Vec<String>,
}

impl<'e, T> Call<'e, T> {
    /// Describes a call of a round.
    pub(super) fn new(number: u32, stage: Stage, progress: &'e (dyn Fn(&T) -> Progress + Sync)) -> Self {
        Self {
            number,
            stage,
            is_last: false,
            progress,
            backends: |_| Vec::new(),
        }
    }

    /// Describes one of the last calls.
    pub(super) fn last(number: u32, stage: Stage, progress: &'e (dyn Fn(&T) -> Progress + Sync)) -> Self {
        Self {
            is_last: true,
            ..Self::new(number, stage, progress)
        }
    }
}

impl Engine<'_> {
    /// Executes a paid call, or returns its recorded result.
    pub(super) async fn call<T, F>(
        &self,
        work: &Work,
        call: Call<'_, T>,
        make: impl Fn() -> F,
    ) -> Result<Called<T>, Stop>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<ResearchReply<T>, UpstreamError>>,
    {
        let number = call.number;
        loop {
            let step = work.step(number);
            if let Some(step) = step.as_ref().filter(|step| step.state == StepState::Done) {
                let outcome: StepOutcome<T> = self.opened(&step.outcome)?;
                return Ok(Called::Done(outcome.value));
            }
            let mut lost = step.as_ref().map_or(0, |step| lost_in(&step.handle));
            match step.as_ref().map(|step| step.state) {
                Some(StepState::Intended) => {
                    lost += 1;
                    self.forget(work, number, step.map(|step| step.attempt)).await?;
                }
                Some(StepState::Unknown | StepState::Submitted) => {
                    work.record_outcome(number, StepState::Failed, Vec::new()).await?;
                }
                _ => {}
            }
            let attempt = work.step(number).map_or(0, |step| step.attempt);
            if attempt >= MAX_ATTEMPTS {
                return Ok(Called::Failed);
            }
            let Some(reservation) = self.reservation(&call) else {
                return Ok(Called::Unaffordable);
            };
            work.intend_and_pause(number, vec![lost]).await?;
            let reply = tokio::select! {
                reply = make() => reply,
                () = work.cancelled().cancelled() => {
                    work.record_outcome(number, StepState::Failed, Vec::new()).await?;
                    return Err(Stop::Cancelled);
                }
            };
            work.resume_work().await?;
            match reply {
                Ok(reply) => return self.record(work, &call, reply, reservation).await,
                Err(error) => {
                    self.note_failure(work, number, attempt + 1, &error).await?;
                    if attempt + 1 < MAX_ATTEMPTS {
                        self.pause(work, RETRY_DELAY * 2_u32.pow(attempt)).await?;
                    }
                }
            }
        }
    }

    /// Executes a step without a cost, or returns its recorded result. `progress` is recorded with
    /// the result.
    pub(in super::super) async fn local<T: Serialize + DeserializeOwned>(
        &self,
        work: &Work,
        number: u32,
        progress: &(dyn Fn(&T) -> Progress + Sync),
        make: impl Future<Output = Result<T, Stop>>,
    ) -> Result<T, Stop> {
        match work.step(number) {
            Some(step) if step.state == StepState::Done => {
                let outcome: StepOutcome<T> = self.opened(&step.outcome)?;
                return Ok(outcome.value);
            }
            Some(step) if step.state == StepState::Intended => {}
            _ => drop(work.intend(number, Vec::new()).await?),
        }
        let value = tokio::select! {
            value = make => value?,
            () = work.cancelled().cancelled() => return Err(Stop::Cancelled),
        };
        let outcome = StepOutcome {
            usage: Usage::ZERO,
            target: String::new(),
            backends: Vec::new(),
            value,
        };
        let sealed = self.sealed(&outcome)?;
        work.record_done(number, sealed, progress(&outcome.value)).await?;
        Ok(outcome.value)
    }

    async fn record<T: Serialize>(
        &self,
        work: &Work,
        call: &Call<'_, T>,
        reply: ResearchReply<T>,
        reservation: Reservation<'_>,
    ) -> Result<Called<T>, Stop> {
        let bound = self.payload.bounds.call(call.stage);
        let outcome = StepOutcome {
            usage: within(reply.usage, &bound.usage),
            target: reply.target.to_string(),
            backends: (call.backends)(&reply.value),
            value: reply.value,
        };
        let cost = self.payload.cast.cost(call.stage, &outcome.spent());
        let sealed = self.sealed(&outcome)?;
        work.record_done(call.number, sealed, (call.progress)(&outcome.value))
            .await?;
        reservation.settle(cost);
        count(call.stage, "done");
        Ok(Called::Done(outcome.value))
    }

    fn reservation<T>(&self, call: &Call<'_, T>) -> Option<Reservation<'_>> {
        let bound = self.payload.bounds.call(call.stage).cost;
        match call.is_last {
            true => self.purse.reserve_last(bound),
            false => self.purse.reserve(bound),
        }
    }

    /// Gives up a call that another process had started.
    async fn forget(&self, work: &Work, number: u32, attempt: Option<u32>) -> Result<(), Stop> {
        tracing::info!(job.id = %work.job().terms.id, step = number, attempt, "a call of a research job was lost");
        work.record_outcome(number, StepState::Unknown, Vec::new())
            .await?;
        work.record_outcome(number, StepState::Failed, Vec::new()).await?;
        Ok(())
    }

    async fn note_failure(
        &self,
        work: &Work,
        number: u32,
        attempt: u32,
        error: &UpstreamError,
    ) -> Result<(), Stop> {
        if !matches!(error.kind, UpstreamErrorKind::Simulated(_)) {
            tracing::warn!(job.id = %work.job().terms.id, step = number, attempt, %error, "a call of a research job failed");
        }
        work.record_outcome(number, StepState::Failed, Vec::new()).await?;
        if let Some(stage) = stage(number) {
            count(stage, "failed");
        }
        Ok(())
    }

    async fn pause(&self, work: &Work, delay: Duration) -> Result<(), Stop> {
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            () = work.cancelled().cancelled() => Err(Stop::Cancelled),
        }
    }

    /// Returns an event with an encrypted body.
    pub(in super::super) fn event(&self, kind: &str, body: &serde_json::Value) -> Progress {
        let mut progress = Progress::default();
        match self.sealed(body) {
            Ok(body) => progress.events.push(NewJobEvent {
                kind: kind.into(),
                body,
            }),
            Err(_) => tracing::error!(job.id = %self.work.job().terms.id, "cannot encrypt an event"),
        }
        progress
    }

    /// Adds the cost of the calls so far to the progress.
    pub(super) fn with_budget(&self, mut progress: Progress) -> Progress {
        let (spent, _) = self.purse.totals();
        let body = serde_json::json!({"spent": spent, "held": self.work.job().held});
        progress
            .events
            .extend(self.event("research.budget", &body).events);
        progress
    }

    /// Changes the phase of the job.
    pub(in super::super) async fn enter(&self, phase: &str, percent: u8) -> Result<(), Stop> {
        let progress = Progress {
            phase: Some(phase.into()),
            percent: Some(percent),
            events: Vec::new(),
        };
        self.work.report_progress(progress).await?;
        Ok(())
    }

    fn sealed(&self, what: &impl Serialize) -> Result<Vec<u8>, Stop> {
        let job = self.work.job();
        let sealed = sealed::seal(&self.research.vault, job.account, job.terms.id, what);
        sealed.map_err(|error| Stop::Storage(corrupt(&error)))
    }

    fn opened<T: DeserializeOwned>(&self, sealed: &[u8]) -> Result<T, Stop> {
        let opened = sealed::open(&self.research.vault, self.work.job(), sealed);
        opened.map_err(|error| Stop::Storage(corrupt(&error)))
    }
}

/// Counts a call of a research job.
pub(in super::super) fn count(stage: Stage, outcome: &'static str) {
    metrics::counter!(CALLS, "stage" => stage.as_str(), "outcome" => outcome).increment(1);
}

fn corrupt(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, error.operator_message())
}

/// Returns a usage that costs at most as much as `bound`. A provider may report more than the call
/// allowed; the caller does not pay for it.
pub(in super::super) fn within(usage: Usage, bound: &Usage) -> Usage {
    let (input, output) = (bound.total_input(), bound.total_output());
    let is_within = usage.total_input() <= input && usage.total_output() <= output;
    let tokens = match is_within {
        true => usage,
        false => Usage::tokens(usage.total_input().min(input), usage.total_output().min(output)),
    };
    let others = usage.iter().filter(|(unit, _)| !unit.is_token());
    others.fold(tokens, |within, (unit, quantity)| {
        within.with(unit, quantity.min(bound.get(unit)))
    })
}

/// Returns the number of lost attempts that a step has recorded.
fn lost_in(handle: &[u8]) -> u8 {
    handle.first().copied().unwrap_or_default()
}

/// Returns the number of calls whose outcome was lost with a process.
pub(super) fn lost_calls(work: &Work) -> u32 {
    let steps = work.recorded_steps();
    steps.iter().map(|step| u32::from(lost_in(&step.handle))).sum()
}

/// Returns the calls of all recorded steps.
pub(in super::super) fn spent(vault: &Vault, job: &Job, work: &Work) -> Result<Vec<(Stage, Spent)>, Error> {
    let mut steps = work.recorded_steps();
    steps.retain(|step| step.state == StepState::Done);
    steps.sort_by_key(|step| step.number);
    let calls = steps.iter().filter_map(|step| Some((stage(step.number)?, step)));
    let calls = calls.map(|(stage, step)| {
        let outcome: StepOutcome<IgnoredAny> = sealed::open(vault, job, &step.outcome)?;
        Ok((stage, outcome.spent()))
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use tollgate_types::Unit;

    use super::*;

    #[test]
    fn a_usage_within_its_bound_is_unchanged() {
        let bound = Usage::tokens(1_000, 100).with(Unit::Search, 2_000_000);
        let usage = Usage::tokens(600, 40)
            .with(Unit::CacheRead, 400)
            .with(Unit::Reasoning, 60)
            .with(Unit::Search, 1_000_000);
        assert_eq!(within(usage, &bound), usage);
        let more = usage.with(Unit::Reasoning, 61).with(Unit::Search, 3_000_000);
        assert_eq!(within(more, &bound), bound);
    }
}
