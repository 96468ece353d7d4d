//! Follows the events of a research job, on any node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tollgate_jobs::sealed;
use tollgate_storage::{Job, JobEvent};

use super::Research;

/// Maximum number of job events per query.
const PAGE_SIZE: u32 = 100;
/// Time without an event after which a stream sends a keep-alive.
const PING_INTERVAL: Duration = Duration::from_secs(15);

/// A reader of the events of a job, from the first one.
pub(super) struct Follower {
    pub(super) research: Arc<Research>,
    /// The job at the last check.
    pub(super) job: Job,
    read: u64,
    ready: VecDeque<JobEvent>,
}

/// Result of one step of a [`Follower`].
pub(super) enum Followed {
    /// The next event, with its decrypted body.
    Event(Arc<str>, Value),
    /// No event arrived for a while.
    Idle,
    /// The job has ended, and all of its events were read.
    Ended,
}

impl Follower {
    pub(super) fn new(research: Arc<Research>, job: Job) -> Self {
        Self {
            research,
            job,
            read: 0,
            ready: VecDeque::new(),
        }
    }

    /// Waits for the next event. `None` if the storage cannot be read.
    pub(super) async fn next(&mut self) -> Option<Followed> {
        let (account, id) = (self.job.account, self.job.terms.id);
        let jobs = &self.research.jobs;
        let mut is_first = true;
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.read = event.sequence;
                let body = opened(&self.research, &self.job, &event);
                return Some(Followed::Event(event.kind, body));
            }
            // The state of the job is older than this query, so a job that has ended has no events
            // after those of the query.
            self.ready = jobs.events(account, id, self.read, PAGE_SIZE).await.ok()?.into();
            if !self.ready.is_empty() {
                continue;
            }
            if self.job.status.is_terminal() {
                return Some(Followed::Ended);
            }
            if !is_first {
                return Some(Followed::Idle);
            }
            is_first = false;
            let waited = jobs.wait(account, id, Some(self.read), PING_INTERVAL).await;
            self.job = waited.ok()??;
        }
    }
}

fn opened(research: &Research, job: &Job, event: &JobEvent) -> Value {
    match event.kind.starts_with("research.") {
        true => sealed::open(&research.vault, job, &event.body).unwrap_or_default(),
        false => Value::Null,
    }
}
