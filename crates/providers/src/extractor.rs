//! Extraction of the text of pages in separate processes, since the parsers read hostile content.
//!
//! A process has no environment, limits its own memory (see `tollgate extract`), and is killed when
//! a page exceeds the time limit. Requests and replies are frames: a length in four bytes, big
//! endian, and the content.

mod process;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tollgate_upstream::{ExtractError, ExtractedPage, PageExtractor, PageHead};

use process::Process;

/// Maximum number of processes.
const MAX_PROCESSES: usize = 4;

/// The program and its limits.
#[derive(Clone, Debug)]
pub struct ExtractorSettings {
    /// Program that extracts text.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Maximum number of processes; at least one.
    pub processes: usize,
    /// Maximum time of one page, after which its process is killed.
    pub time_limit: Duration,
    /// Maximum time that a page waits for a process.
    pub max_wait: Duration,
}

impl ExtractorSettings {
    /// Returns the settings for `tollgate extract` of this binary: a process for each core, at most
    /// four, and 10 seconds for each page.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            program: program.into(),
            arguments: vec!["extract".into()],
            processes: cores.min(MAX_PROCESSES),
            time_limit: Duration::from_secs(10),
            max_wait: Duration::from_mins(1),
        }
    }
}

/// A pool of extraction processes. They are started when pages need them, and end with the pool.
pub struct Extractor {
    settings: ExtractorSettings,
    slots: Semaphore,
    idle: Mutex<Vec<Process>>,
}

/// Reason why a process gave no reply.
#[derive(Debug)]
enum Fault {
    /// The program cannot be started, or is another program.
    NotStarted(String),
    /// The process ended, or violated the protocol.
    Broken(String),
}

impl Extractor {
    /// Creates a pool without processes.
    pub fn new(settings: ExtractorSettings) -> Self {
        Self {
            slots: Semaphore::new(settings.processes.max(1)),
            settings,
            idle: Mutex::default(),
        }
    }

    /// Returns an idle process, or starts one.
    async fn process(&self) -> Result<Process, Fault> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut process) = idle else {
                return Process::start(&self.settings).await;
            };
            // Otherwise, the process was killed from outside while it was idle.
            if process.is_alive() {
                return Ok(process);
            }
        }
    }

    /// Extracts with one process. If the future is dropped, the process is killed.
    async fn exchange(
        &self,
        head: &PageHead,
        bytes: &Bytes,
    ) -> Result<Result<ExtractedPage, ExtractError>, Fault> {
        let mut process = self.process().await?;
        let reply = process.exchange(head, bytes).await?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(process);
        Ok(reply)
    }
}

#[async_trait]
impl PageExtractor for Extractor {
    async fn extract(&self, head: &PageHead, bytes: &Bytes) -> Result<ExtractedPage, ExtractError> {
        let waited = timeout(self.settings.max_wait, self.slots.acquire()).await;
        // The semaphore is never closed.
        let Ok(Ok(_slot)) = waited else {
            return Err(ExtractError::Unavailable);
        };
        match timeout(self.settings.time_limit, self.exchange(head, bytes)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(Fault::NotStarted(cause))) => {
                tracing::error!(%cause, "the extraction process cannot be started");
                Err(ExtractError::Unavailable)
            }
            Ok(Err(Fault::Broken(cause))) => {
                tracing::info!(%cause, "the extraction process failed on a page");
                Err(ExtractError::TooComplex)
            }
            Err(_) => {
                tracing::info!("killed an extraction process that exceeded its time limit");
                Err(ExtractError::TimedOut)
            }
        }
    }
}

#[cfg(test)]
mod tests;
