//! Detects the failure of vital parts: the storage engine and the tasks that run as long as the
//! process. When one fails, the process exits with an error so that a supervisor restarts it. A
//! process without them would refuse calls forever.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tollgate_storage::Engine;

/// The first failure of a vital part, if there was one.
#[derive(Clone)]
pub struct Vitals {
    engine: Arc<dyn Engine>,
    failure: Arc<FailureCause>,
}

#[derive(Default)]
struct FailureCause {
    cause: OnceLock<String>,
    reported: CancellationToken,
}

impl Vitals {
    /// Creates a monitor of this engine and of the tasks that [`Vitals::guard`] runs.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            failure: Arc::default(),
        }
    }

    /// Reports a failure. Only the first report counts.
    pub fn report(&self, cause: impl Into<String>) {
        // A second cause is a consequence of the first one.
        let _ = self.failure.cause.set(cause.into());
        self.failure.reported.cancel();
    }

    /// Runs a vital task until `stop`. Reports its panic, or its end before `stop`.
    pub async fn guard(self, name: &'static str, stop: CancellationToken, task: impl Future<Output = ()>) {
        let ended = AssertUnwindSafe(task).catch_unwind().await;
        match ended {
            Err(_) => self.report(format!("{name} panicked")),
            Ok(()) if !stop.is_cancelled() => self.report(format!("{name} has ended")),
            Ok(()) => {}
        }
    }

    /// Waits for a failure and returns its cause.
    pub async fn failed(&self) -> String {
        tokio::select! {
            cause = self.engine.failed() => cause,
            () = self.failure.reported.cancelled() => self.failure.cause.get().cloned().unwrap_or_default(),
        }
    }

    /// Returns whether a vital part has failed.
    pub fn is_failed(&self) -> bool {
        self.failed().now_or_never().is_some()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_storage::Result;

    use super::*;

    /// An engine that fails permanently when its token is cancelled.
    #[derive(Default)]
    struct FailingEngine(CancellationToken);

    #[async_trait::async_trait]
    impl Engine for FailingEngine {
        fn name(&self) -> &'static str {
            "mortal"
        }

        async fn ping(&self) -> Result<()> {
            Ok(())
        }

        async fn failed(&self) -> String {
            self.0.cancelled().await;
            "the engine".to_owned()
        }

        async fn flush(&self) -> Result<()> {
            Ok(())
        }

        async fn close(&self) -> Result<()> {
            Ok(())
        }
    }

    fn vitals() -> (Vitals, CancellationToken, CancellationToken) {
        let engine = FailingEngine::default();
        let kill = engine.0.clone();
        (Vitals::new(Arc::new(engine)), kill, CancellationToken::new())
    }

    #[tokio::test]
    async fn engine_failures_are_reported() {
        let (vitals, kill, _) = vitals();
        assert!(!vitals.is_failed());
        kill.cancel();
        assert!(vitals.is_failed());
        assert_eq!(vitals.failed().await, "the engine");
    }

    #[tokio::test]
    async fn tasks_end_when_they_are_stopped_and_not_before() {
        let (vitals, _, stop) = vitals();
        stop.cancel();
        vitals.clone().guard("a task", stop, async {}).await;
        assert!(!vitals.is_failed(), "the task was stopped");
        let running = CancellationToken::new();
        vitals.clone().guard("a task", running, async {}).await;
        assert_eq!(vitals.failed().await, "a task has ended");
    }

    #[tokio::test]
    async fn a_panic_is_reported_even_while_stopping() {
        let (vitals, _, stop) = vitals();
        stop.cancel();
        let task = async { panic!("on purpose") };
        vitals.clone().guard("a task", stop, task).await;
        assert_eq!(vitals.failed().await, "a task panicked");
    }
}
