//! Runs the steps of a stage concurrently and reports their progress.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;
use tollgate_jobs::{Progress, ProgressListener, Work};
use tollgate_pipeline::provider_job::report_progress;
use tollgate_storage::StorageError;
use tollgate_types::Error;
use tollgate_types::usage::Outcome as Ending;

/// Minimum change of the progress that is reported, in percentage points.
const MIN_REPORTED_PERCENT: u8 = 2;

/// Reason why a composition stops or pauses.
#[derive(Debug)]
pub(super) enum StopReason {
    /// Storage failed. The next worker that claims the job continues it.
    Storage(StorageError),
    /// The job pauses and continues after this time.
    Later(Duration),
    /// The caller cancelled the job.
    Cancelled,
    /// The content policy blocked an output. The output is charged.
    Blocked,
    /// A step failed permanently.
    Failed(Error, Ending),
}

impl From<StorageError> for StopReason {
    fn from(error: StorageError) -> Self {
        StopReason::Storage(error)
    }
}

impl StopReason {
    /// Returns the priority of a reason if several steps stop. Reasons that end the job have a
    /// higher priority than pauses.
    fn weight(&self) -> u8 {
        match self {
            StopReason::Storage(_) => 4,
            StopReason::Cancelled => 3,
            StopReason::Blocked => 2,
            StopReason::Failed(..) => 1,
            StopReason::Later(_) => 0,
        }
    }
}

/// A stage of the job. `from` and `to` are the progress of the job at its start and its end, in
/// percent.
pub(super) struct Stage {
    pub(super) phase: &'static str,
    pub(super) from: u8,
    pub(super) to: u8,
    /// Maximum number of concurrent steps.
    pub(super) max_concurrent: usize,
}

/// Progress of each step of a stage, in percent.
pub(super) struct Meter {
    tasks: Mutex<Vec<u8>>,
    changed: Notify,
}

impl Meter {
    pub(super) fn new(tasks: usize) -> Arc<Self> {
        Arc::new(Self {
            tasks: Mutex::new(vec![0; tasks]),
            changed: Notify::new(),
        })
    }

    /// Sets the progress of a step. The progress never decreases.
    pub(super) fn set(&self, number: usize, percent: u8) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = tasks.get_mut(number) {
            *task = percent.max(*task).min(100);
        }
        self.changed.notify_one();
    }

    /// Returns a listener that records the progress of one step.
    pub(super) fn of(self: &Arc<Self>, number: usize) -> Arc<dyn ProgressListener> {
        Arc::new(TaskMeter {
            meter: self.clone(),
            number,
        })
    }

    fn percent(&self) -> u64 {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let sum: u64 = tasks.iter().map(|percent| u64::from(*percent)).sum();
        sum / (tasks.len() as u64).max(1)
    }
}

struct TaskMeter {
    meter: Arc<Meter>,
    number: usize,
}

impl ProgressListener for TaskMeter {
    fn on_progress(&self, progress: Progress) {
        if let Some(percent) = progress.percent {
            self.meter.set(self.number, percent);
        }
    }
}

impl Stage {
    /// Runs all steps and reports their progress. If a step fails, the other steps still finish, so
    /// that their outcomes are recorded.
    pub(super) async fn run<T>(
        &self,
        work: &Work,
        meter: &Arc<Meter>,
        tasks: Vec<impl Future<Output = Result<T, StopReason>>>,
    ) -> Result<Vec<T>, StopReason> {
        let count = tasks.len();
        let numbered = tasks.into_iter().enumerate().map(|(number, task)| {
            let meter = meter.clone();
            async move {
                let results = task.await;
                meter.set(number, 100);
                (number, results)
            }
        });
        let mut tasks = pin!(stream::iter(numbered).buffer_unordered(self.max_concurrent.max(1)));
        let mut results: Vec<Option<T>> = std::iter::repeat_with(|| None).take(count).collect();
        let mut stop: Option<StopReason> = None;
        let mut reported = self.from;
        report_progress(work, self.phase, Some(reported)).await?;
        loop {
            tokio::select! {
                next = tasks.next() => match next {
                    None => break,
                    Some((number, Ok(task))) => {
                        if let Some(place) = results.get_mut(number) {
                            *place = Some(task);
                        }
                    }
                    Some((_, Err(error))) => {
                        if stop.as_ref().is_none_or(|stop| stop.weight() < error.weight()) {
                            stop = Some(error);
                        }
                    }
                },
                () = meter.changed.notified() => {
                    let share = u64::from(self.to - self.from) * meter.percent() / 100;
                    let now = self.from + u8::try_from(share).unwrap_or_default();
                    if now >= reported + MIN_REPORTED_PERCENT {
                        reported = now;
                        report_progress(work, self.phase, Some(reported)).await?;
                    }
                }
            }
        }
        match stop {
            Some(stop) => Err(stop),
            None => Ok(results.into_iter().flatten().collect()),
        }
    }
}
