//! A separate runtime for an engine. Connections must not depend on callers' runtimes, which start
//! and stop.

use tokio::runtime::{Builder, Handle, Runtime};

/// Tokio runtime that can be dropped inside another runtime, because its shutdown does not block.
pub(crate) struct OwnedRuntime {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl OwnedRuntime {
    /// Starts a runtime with two worker threads of this name.
    pub(crate) fn start(name: &str) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    /// Returns the handle that starts tasks.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
