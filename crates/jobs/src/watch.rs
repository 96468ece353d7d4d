//! Wakes the waiters of a job in this process when the job changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tollgate_types::JobId;

/// Waiters of jobs, and cancellation tokens of running jobs.
#[derive(Default)]
pub(crate) struct Watch {
    /// Signal that a job was accepted.
    pub(crate) accepted: Notify,
    /// Signal that a webhook may be due.
    pub(crate) due: Notify,
    waiting: Mutex<HashMap<JobId, watch::Sender<()>>>,
    running: Mutex<HashMap<JobId, CancellationToken>>,
}

/// A receiver for the next change of a job after the receiver was created.
pub(crate) struct ChangeWaiter(watch::Receiver<()>);

impl ChangeWaiter {
    /// Waits until the job changes.
    pub(crate) async fn notified(mut self) {
        // An error means that `notify` dropped the sender, which is the notification.
        let _ = self.0.changed().await;
    }
}

impl Watch {
    pub(crate) fn changed(&self, id: JobId) -> ChangeWaiter {
        let mut waiting = lock(&self.waiting);
        let sender = waiting.entry(id).or_insert_with(|| watch::channel(()).0);
        ChangeWaiter(sender.subscribe())
    }

    /// Wakes all waiters of a job.
    pub(crate) fn notify(&self, id: JobId) {
        let mut waiting = lock(&self.waiting);
        waiting.remove(&id);
        // Waiters of other jobs that were dropped leave closed senders.
        waiting.retain(|_, sender| !sender.is_closed());
    }

    /// Wakes all waiters of all jobs, since notifications may be lost.
    pub(crate) fn notify_all(&self) {
        lock(&self.waiting).clear();
    }

    /// Registers a running job; the returned token is cancelled when the caller cancels the job.
    pub(crate) fn run(&self, id: JobId) -> CancellationToken {
        let token = CancellationToken::new();
        lock(&self.running).insert(id, token.clone());
        token
    }

    /// Removes a job that no longer runs in this process.
    pub(crate) fn stop(&self, id: JobId) {
        lock(&self.running).remove(&id);
    }

    /// Notifies the webhook sender if the ended job has a webhook.
    pub(crate) fn ended(&self, has_webhook: bool) {
        if has_webhook {
            self.due.notify_one();
        }
    }

    /// Cancels the token of a job if the job runs in this process.
    pub(crate) fn cancel(&self, id: JobId) {
        if let Some(token) = lock(&self.running).get(&id) {
            token.cancel();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiters_are_notified_and_dropped_waiters_are_removed() {
        let watch = Watch::default();
        let (one, other) = (JobId::from_u128(1), JobId::from_u128(2));
        let changed = watch.changed(one);
        drop(watch.changed(other));
        watch.notify(one);
        changed.notified().await;
        assert!(lock(&watch.waiting).is_empty());
    }
}
