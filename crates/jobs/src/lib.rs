//! Durable jobs. A room accepts a job and answers its reference; a worker carries it out by the handler of its kind, here or
//! in another process, and again after a crash. Nothing here knows what a kind does.
//!
//! Suggested reading order: [`handler`], [`worker`], [`watch`], [`webhooks`].

pub mod handler;
mod watch;
pub mod webhooks;
pub mod worker;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_storage::{
    HoldOutcome, Job, JobAdvance, JobCancel, JobEnd, JobEvent, JobFilter, JobLease, JobNews, JobSearch,
    JobStore, NewHold, NewJob, Resolution, Result,
};
use tollgate_types::{AccountId, Credits, JobId, Timestamp};

pub use handler::{Handler, Heard, Progress, Ran, Work};
pub use webhooks::{JobRenderer, Record, Webhooks};
pub use worker::{Worker, WorkerSettings};

use watch::Watch;

/// How long somebody waits for a change that nobody tells of: one that another process has made.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The jobs of an installation, and who waits for them in this process.
pub struct Jobs {
    store: Arc<dyn JobStore>,
    watch: Watch,
}

impl Jobs {
    /// Jobs in this store.
    pub fn new(store: Arc<dyn JobStore>) -> Self {
        Self {
            store,
            watch: Watch::default(),
        }
    }

    /// [`JobStore::accept`], and workers of this process hear of it.
    pub async fn accept(&self, job: NewJob, hold: NewHold) -> Result<HoldOutcome> {
        let accepted = self.store.accept(job, hold).await?;
        if let HoldOutcome::Held { .. } = accepted {
            self.watch.accepted.notify_one();
        }
        Ok(accepted)
    }

    /// [`JobStore::get`].
    pub async fn get(&self, account: AccountId, id: JobId) -> Result<Option<Job>> {
        self.store.get(account, id).await
    }

    /// [`JobStore::list`].
    pub async fn list(&self, account: AccountId, filter: JobFilter, limit: u32) -> Result<Vec<Job>> {
        self.store.list(account, filter, limit).await
    }

    /// [`JobStore::search`].
    pub async fn search(&self, search: JobSearch, limit: u32) -> Result<Vec<Job>> {
        self.store.search(search, limit).await
    }

    /// [`JobStore::forget`].
    pub async fn forget(&self, account: AccountId, id: JobId) -> Result<bool> {
        self.store.forget(account, id).await
    }

    /// [`JobStore::events`].
    pub async fn events(
        &self,
        account: AccountId,
        id: JobId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JobEvent>> {
        self.store.events(account, id, after, limit).await
    }

    /// [`JobStore::cancel`]; who carries the job out in this process hears of it at once.
    pub async fn cancel(&self, account: AccountId, id: JobId, at: Timestamp) -> Result<JobCancel> {
        let cancelled = self.store.cancel(account, id, at).await?;
        match &cancelled {
            JobCancel::Requested(_) => self.watch.cancel(id),
            JobCancel::Cancelled(job) => self.watch.ended(job.terms.webhook.is_some()),
            JobCancel::Ended(_) => {}
        }
        self.watch.tell(id);
        Ok(cancelled)
    }

    /// The job as soon as it has ended or has an event after this one, or as it is when the time is over. None when there is none.
    pub async fn wait(
        &self,
        account: AccountId,
        id: JobId,
        after: Option<u64>,
        patience: Duration,
    ) -> Result<Option<Job>> {
        let deadline = Instant::now() + patience;
        loop {
            let changed = self.watch.changed(id);
            let Some(job) = self.store.get(account, id).await? else {
                return Ok(None);
            };
            let has_news = after.is_some_and(|after| job.last_event > after);
            if job.status.is_terminal() || has_news || Instant::now() >= deadline {
                return Ok(Some(job));
            }
            let until = deadline.min(Instant::now() + LOOK_AGAIN);
            // Whether it was told or looked up makes no difference.
            let _ = tokio::time::timeout_at(until, changed.told()).await;
        }
    }

    /// What another process has done counts here at once: who waits looks again, who could carry something out does, and who
    /// carries out what is not wanted any more is told. What is not heard is looked up, within a second.
    pub fn hear(&self, news: JobNews) {
        match news {
            JobNews::Due => self.watch.accepted.notify_one(),
            JobNews::Changed(id) => self.watch.tell(id),
            JobNews::Cancelled(id) => {
                self.watch.cancel(id);
                self.watch.tell(id);
            }
            JobNews::Any => {
                self.watch.accepted.notify_one();
                self.watch.tell_all();
            }
        }
    }

    /// [`JobStore::shrink_hold`].
    pub async fn shrink_hold(&self, lease: JobLease, needed: Credits, at: Timestamp) -> Result<Credits> {
        self.store.shrink_hold(lease, needed, at).await
    }

    async fn advance(&self, lease: JobLease, advance: JobAdvance, at: Timestamp) -> Result<()> {
        self.store.advance(lease, advance, at).await?;
        self.watch.tell(lease.job);
        Ok(())
    }

    async fn finish(&self, lease: JobLease, end: JobEnd) -> Result<Resolution> {
        let resolution = self.store.finish(lease, end).await?;
        self.watch.tell(lease.job);
        Ok(resolution)
    }
}
