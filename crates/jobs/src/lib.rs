//! Durable jobs. An API crate accepts a job and returns its reference. A worker executes it with
//! the handler of its kind, in this or another process, and again after a crash. This crate does
//! not depend on any kind.
//!
//! Suggested reading order: [`handler`], [`worker`], [`watch`], [`view`], [`webhooks`], [`sealed`].

pub mod handler;
mod permits;
pub mod sealed;
pub mod view;
mod watch;
pub mod webhooks;
pub mod worker;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_storage::{
    HoldOutcome, Job, JobAdvance, JobCancel, JobEnd, JobEvent, JobFilter, JobLease, JobNotification,
    JobSearch, JobStore, NewHold, NewJob, Resolution, Result,
};
use tollgate_types::{AccountId, Credits, JobId, Timestamp};

pub use handler::{Handler, JobOutcome, Progress, ProgressListener, Work, job_error};
pub use view::{JobResult, JobView, JobViews, quantities};
pub use webhooks::{JobRenderer, WebhookRecord, Webhooks, event_id};
pub use worker::{Worker, WorkerSettings};

use watch::Watch;

/// Interval of polling for changes without a notification, such as those of another process.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The jobs of an installation, and their waiters in this process.
pub struct Jobs {
    store: Arc<dyn JobStore>,
    watch: Watch,
}

impl Jobs {
    /// Creates the service with this store.
    pub fn new(store: Arc<dyn JobStore>) -> Self {
        Self {
            store,
            watch: Watch::default(),
        }
    }

    /// Calls [`JobStore::accept`]; also wakes a worker of this process.
    pub async fn accept(&self, job: NewJob, hold: NewHold) -> Result<HoldOutcome> {
        let accepted = self.store.accept(job, hold).await?;
        if let HoldOutcome::Held { .. } = accepted {
            self.watch.accepted.notify_one();
        }
        Ok(accepted)
    }

    /// Calls [`JobStore::get`].
    pub async fn get(&self, account: AccountId, id: JobId) -> Result<Option<Job>> {
        self.store.get(account, id).await
    }

    /// Calls [`JobStore::list`].
    pub async fn list(&self, account: AccountId, filter: JobFilter, limit: u32) -> Result<Vec<Job>> {
        self.store.list(account, filter, limit).await
    }

    /// Calls [`JobStore::search`].
    pub async fn search(&self, search: JobSearch, limit: u32) -> Result<Vec<Job>> {
        self.store.search(search, limit).await
    }

    /// Calls [`JobStore::forget`].
    pub async fn forget(&self, account: AccountId, id: JobId) -> Result<bool> {
        self.store.forget(account, id).await
    }

    /// Calls [`JobStore::events`].
    pub async fn events(
        &self,
        account: AccountId,
        id: JobId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JobEvent>> {
        self.store.events(account, id, after, limit).await
    }

    /// Calls [`JobStore::cancel`]; also signals the job's handler in this process immediately.
    pub async fn cancel(&self, account: AccountId, id: JobId, at: Timestamp) -> Result<JobCancel> {
        let cancelled = self.store.cancel(account, id, at).await?;
        match &cancelled {
            JobCancel::Requested(_) => self.watch.cancel(id),
            JobCancel::Cancelled(job) => self.watch.ended(job.terms.webhook.is_some()),
            JobCancel::Ended(_) => {}
        }
        self.watch.notify(id);
        Ok(cancelled)
    }

    /// Returns the job when it has ended or has an event after `after`, at the latest after
    /// `timeout`. `None` if there is no such job.
    pub async fn wait(
        &self,
        account: AccountId,
        id: JobId,
        after: Option<u64>,
        timeout: Duration,
    ) -> Result<Option<Job>> {
        let deadline = Instant::now() + timeout;
        loop {
            let changed = self.watch.changed(id);
            let Some(job) = self.store.get(account, id).await? else {
                return Ok(None);
            };
            let has_event = after.is_some_and(|after| job.last_event > after);
            if job.status.is_terminal() || has_event || Instant::now() >= deadline {
                return Ok(Some(job));
            }
            let until = deadline.min(Instant::now() + POLL_INTERVAL);
            // A notification and a timeout both lead to another lookup.
            let _ = tokio::time::timeout_at(until, changed.notified()).await;
        }
    }

    /// Applies a notification of another process: wakes waiters and workers, and signals the
    /// handler of a cancelled job. Missed notifications are found by polling, within a second.
    pub fn apply_notification(&self, notification: JobNotification) {
        match notification {
            JobNotification::Due => self.watch.accepted.notify_one(),
            JobNotification::Changed(id) => self.watch.notify(id),
            JobNotification::Cancelled(id) => {
                self.watch.cancel(id);
                self.watch.notify(id);
            }
            JobNotification::Any => {
                self.watch.accepted.notify_one();
                self.watch.notify_all();
            }
        }
    }

    /// Calls [`JobStore::shrink_hold`].
    pub async fn shrink_hold(&self, lease: JobLease, needed: Credits, at: Timestamp) -> Result<Credits> {
        self.store.shrink_hold(lease, needed, at).await
    }

    async fn advance(&self, lease: JobLease, advance: JobAdvance, at: Timestamp) -> Result<()> {
        self.store.advance(lease, advance, at).await?;
        self.watch.notify(lease.job);
        Ok(())
    }

    async fn finish(&self, lease: JobLease, end: JobEnd) -> Result<Resolution> {
        let resolution = self.store.finish(lease, end).await?;
        self.watch.notify(lease.job);
        Ok(resolution)
    }
}
