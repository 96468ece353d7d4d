//! A future that runs to completion even if its caller stops polling it.
//!
//! In most cases the caller polls the future to its end. A separate task for every call would cost
//! an allocation, a channel and two wake-ups. So the future becomes a task only when its caller
//! disconnects.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Connection state of a caller. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Whether the caller has dropped the future.
    pub(crate) fn has_left(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Completes when the caller has disconnected. No waker is needed: the work is polled again
    /// when it becomes a task.
    pub(crate) async fn left(&self) {
        std::future::poll_fn(|_| {
            if self.has_left() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that is spawned as a task if it is dropped before its end.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    work: Option<Work<T>>,
    caller: Caller,
    tracker: TaskTracker,
    /// Registers the work as running from its creation, so that a shutdown waits for it.
    _running: TaskTrackerToken,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    /// Creates a future that polls the work. If it is dropped before the end of the work, it spawns
    /// the work on the tracker.
    pub(crate) fn new<F>(tracker: &TaskTracker, work: impl FnOnce(Caller) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let caller = Caller::default();
        Self {
            work: Some(Box::pin(work(caller.clone()))),
            caller,
            tracker: tracker.clone(),
            _running: tracker.token(),
        }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.caller.0.store(true, Ordering::Release);
        match Handle::try_current() {
            Ok(runtime) => drop(self.tracker.spawn_on(work, &runtime)),
            // The process is terminating; unsettled holds are released at the next start.
            Err(error) => tracing::error!(%error, "cannot continue a call whose caller disconnected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_completed_future_returns_its_output() {
        let tracker = TaskTracker::new();
        let work = DetachOnDrop::new(&tracker, |caller| async move { (7, caller.has_left()) });
        assert_eq!(tracker.len(), 1);
        assert_eq!(work.await, (7, false));
        assert_eq!(tracker.len(), 0);
    }

    #[tokio::test]
    async fn dropped_futures_continue_as_tasks() {
        let tracker = TaskTracker::new();
        let (go, gone) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let mut work = Box::pin(DetachOnDrop::new(&tracker, |caller| async move {
            tokio::select! {
                biased;
                _ = gone => {}
                () = caller.left() => {}
            }
            let _ = done.send(caller.has_left());
        }));
        assert!(futures_util::poll!(&mut work).is_pending());
        drop(work);
        assert!(ended.await.unwrap());
        tracker.close();
        tracker.wait().await;
        drop(go);
    }

    #[tokio::test]
    async fn futures_that_were_never_polled_still_run() {
        let tracker = TaskTracker::new();
        let (done, ended) = oneshot::channel();
        drop(DetachOnDrop::new(&tracker, |caller| async move {
            let _ = done.send(caller.has_left());
        }));
        assert!(ended.await.unwrap());
    }
}
