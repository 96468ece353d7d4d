//! Who waits for a job in this process is woken when it changes here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tollgate_types::JobId;

/// Jobs that somebody waits for, and jobs that are carried out.
#[derive(Default)]
pub(crate) struct Watch {
    /// A job was accepted.
    pub(crate) accepted: Notify,
    /// Somebody may have to be told that a job has ended.
    pub(crate) due: Notify,
    waiting: Mutex<HashMap<JobId, watch::Sender<()>>>,
    running: Mutex<HashMap<JobId, CancellationToken>>,
}

/// The next change of a job, seen from when this was made.
pub(crate) struct Changed(watch::Receiver<()>);

impl Changed {
    /// Returns when it has changed.
    pub(crate) async fn told(mut self) {
        // An error says that the sender is gone, which it is when it was told.
        let _ = self.0.changed().await;
    }
}

impl Watch {
    pub(crate) fn changed(&self, id: JobId) -> Changed {
        let mut waiting = lock(&self.waiting);
        let sender = waiting.entry(id).or_insert_with(|| watch::channel(()).0);
        Changed(sender.subscribe())
    }

    /// Tells everybody who waits.
    pub(crate) fn tell(&self, id: JobId) {
        let mut waiting = lock(&self.waiting);
        waiting.remove(&id);
        // Who gave up waiting for another job has left a sender behind.
        waiting.retain(|_, sender| !sender.is_closed());
    }

    /// Tells everybody who waits for anything, since something may have been missed.
    pub(crate) fn tell_all(&self) {
        lock(&self.waiting).clear();
    }

    /// The job is carried out here; what is answered says when its caller does not want it any more.
    pub(crate) fn run(&self, id: JobId) -> CancellationToken {
        let token = CancellationToken::new();
        lock(&self.running).insert(id, token.clone());
        token
    }

    /// The job is not carried out here any more.
    pub(crate) fn stop(&self, id: JobId) {
        lock(&self.running).remove(&id);
    }

    /// A job has ended, and perhaps somebody is to be told.
    pub(crate) fn ended(&self, tells: bool) {
        if tells {
            self.due.notify_one();
        }
    }

    /// Tells who carries the job out that its caller does not want it any more.
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
    async fn who_waits_is_told_and_who_gave_up_is_forgotten() {
        let watch = Watch::default();
        let (one, other) = (JobId::from_u128(1), JobId::from_u128(2));
        let changed = watch.changed(one);
        drop(watch.changed(other));
        watch.tell(one);
        changed.told().await;
        assert!(lock(&watch.waiting).is_empty());
    }
}
