//! A future that is carried out to its end, whether somebody waits for it or not.
//!
//! Most callers wait, and then it is polled as a part of what waits. A task of its own for every call would cost an
//! allocation, a channel and two wake-ups more. It becomes one when its caller leaves.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Whether the caller still waits.
#[derive(Clone, Default)]
pub(crate) struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Whether it has left.
    pub(crate) fn has_left(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Returns when it has left. What is awaited is polled anew when it becomes a task, so nobody need be woken.
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

/// The work, and who is told when its caller leaves.
pub(crate) struct Owned<T: Send + 'static> {
    work: Option<Work<T>>,
    caller: Caller,
    tracker: TaskTracker,
    /// It counts as running from its beginning, so that a shutdown waits for it.
    _running: TaskTrackerToken,
}

impl<T: Send + 'static> Owned<T> {
    /// Work that is polled when this is, and becomes a task of the tracker when this is dropped before its end.
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

impl<T: Send + 'static> Future for Owned<T> {
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

impl<T: Send + 'static> Drop for Owned<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.caller.0.store(true, Ordering::Release);
        match Handle::try_current() {
            Ok(runtime) => drop(self.tracker.spawn_on(work, &runtime)),
            // The process is at its end; what is not settled now is released at the next start.
            Err(error) => tracing::error!(%error, "a call whose caller left cannot go on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_is_answered() {
        let tracker = TaskTracker::new();
        let work = Owned::new(&tracker, |caller| async move { (7, caller.has_left()) });
        assert_eq!(tracker.len(), 1);
        assert_eq!(work.await, (7, false));
        assert_eq!(tracker.len(), 0);
    }

    #[tokio::test]
    async fn work_goes_on_without_its_caller() {
        let tracker = TaskTracker::new();
        let (go, gone) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let mut work = Box::pin(Owned::new(&tracker, |caller| async move {
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
    async fn work_that_was_never_polled_is_carried_out() {
        let tracker = TaskTracker::new();
        let (done, ended) = oneshot::channel();
        drop(Owned::new(&tracker, |caller| async move {
            let _ = done.send(caller.has_left());
        }));
        assert!(ended.await.unwrap());
    }
}
