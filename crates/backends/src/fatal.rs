//! Fatal failures of an engine: one of its tasks panicked, or its disk lost written data.

use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tollgate_storage::{Result, StorageError, StorageErrorKind};

/// The first fatal failure of an engine, if any.
#[derive(Default)]
pub(crate) struct Fatal {
    cause: OnceLock<String>,
    reported: CancellationToken,
}

impl Fatal {
    /// Records a failure and wakes waiting callers. Later failures do not replace the first one.
    pub(crate) fn report(&self, cause: impl Into<String>) {
        let cause = cause.into();
        tracing::error!(cause, "the storage engine failed");
        // A later failure is usually a consequence of the first one.
        let _ = self.cause.set(cause);
        self.reported.cancel();
    }

    /// Returns `Unavailable` if a failure was reported.
    pub(crate) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(StorageError::new(StorageErrorKind::Unavailable, cause.clone())),
        }
    }

    /// Waits for a failure and returns its cause.
    pub(crate) async fn reported(&self) -> String {
        self.reported.cancelled().await;
        self.cause.get().cloned().unwrap_or_default()
    }

    /// Runs a task that the engine needs. A panic of the task is a fatal failure.
    pub(crate) async fn guard(&self, name: &str, task: impl Future<Output = ()>) {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            self.report(format!("{name} panicked"));
        }
    }
}
