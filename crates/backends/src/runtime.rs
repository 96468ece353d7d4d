//! A runtime of an engine's own. Callers have several runtimes, which come and go; connections must not go with them.

use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime that can be dropped within another one.
pub(crate) struct OwnedRuntime {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl OwnedRuntime {
    /// Starts two threads of this name.
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

    /// Where to start tasks.
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
