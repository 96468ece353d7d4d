//! Records the events of a background response in its job. Events are written in groups, with their
//! sequence numbers, so that clients can read them later and on any node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use tollgate_accounts::Vault;
use tollgate_edge::sse;
use tollgate_formats::openai_responses::{response_in_event, with_sequence_number};
use tollgate_jobs::{Progress, Work};
use tollgate_storage::{Job, NewJobEvent, Result, StorageError, StorageErrorKind};
use tollgate_types::Error;

use super::events::Events;

/// Kind of the job events that contain response events.
pub(super) const KIND: &str = "response.progress";
/// Sequence number of the first recorded event. The events before it are derived from the job.
pub(super) const FIRST_SEQUENCE_NUMBER: u64 = 2;

/// Minimum and maximum delay before buffered events are written. A long response writes one row per
/// second.
const MIN_WRITE_DELAY: Duration = Duration::from_millis(100);
const MAX_WRITE_DELAY: Duration = Duration::from_secs(1);
/// Size at which the buffer is written without waiting.
const FLUSH_BYTES: usize = 64 * 1024;
/// Maximum size of the buffer while storage is unavailable.
const MAX_BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// Events that are not recorded, because they are derived from the job.
const IMPLIED_EVENTS: [&[u8]; 2] = [b"event: response.created\n", b"event: response.queued\n"];
/// Events that end a successful response.
const FINAL_EVENTS: [&[u8]; 2] = [b"event: response.completed\n", b"event: response.incomplete\n"];

/// Result of recording a response.
pub(super) struct LoggedResponse {
    /// The response object, or the error that ended the response.
    pub(super) response: std::result::Result<Bytes, Error>,
    /// Events that are not written yet, including the last one.
    pub(super) rest: Vec<u8>,
    /// Whether any event was recorded.
    pub(super) has_started: bool,
}

/// Records the events of a response until its end. The caller writes the last events when it ends
/// the job.
pub(super) async fn record(work: &Work, vault: &Vault, mut events: Events) -> Result<LoggedResponse> {
    let mut recorder = Recorder::new(work, vault);
    let response = loop {
        let due = recorder.due();
        tokio::select! {
            chunk = events.next_chunk() => match chunk {
                Some(Ok(bytes)) => {
                    if let Some(response) = recorder.append(bytes) {
                        break Ok(response);
                    }
                }
                Some(Err(error)) => break Err(error),
                None => break Err(Error::internal("the response stream ended without a final event")),
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => recorder.write().await?,
        }
        if recorder.waiting.len() > FLUSH_BYTES && recorder.is_storage_available() {
            recorder.write().await?;
        }
    };
    Ok(LoggedResponse {
        response,
        has_started: recorder.next > FIRST_SEQUENCE_NUMBER,
        rest: recorder.waiting,
    })
}

/// Builds a job event with these response events, encrypted.
pub(super) fn sealed(vault: &Vault, job: &Job, events: &[u8]) -> Result<NewJobEvent> {
    let body = vault.seal(job.account, job.terms.id.as_u128(), events);
    let body = body.map_err(|error| StorageError::new(StorageErrorKind::Corrupt, error))?;
    Ok(NewJobEvent {
        kind: Arc::from(KIND),
        body,
    })
}

struct Recorder<'w> {
    work: &'w Work,
    vault: &'w Vault,
    /// Sequence number of the next event.
    next: u64,
    /// Buffer of events that are not written yet.
    waiting: Vec<u8>,
    /// Time of the first event in the buffer, or of the last write.
    since: Instant,
    started_at: Instant,
    /// Number of consecutive failed writes.
    failures: u32,
}

impl<'w> Recorder<'w> {
    fn new(work: &'w Work, vault: &'w Vault) -> Self {
        let now = Instant::now();
        Self {
            work,
            vault,
            next: FIRST_SEQUENCE_NUMBER,
            waiting: Vec::new(),
            since: now,
            started_at: now,
            failures: 0,
        }
    }

    /// Appends a chunk of events. Returns the response object if one of them ends the response.
    fn append(&mut self, mut chunk: Bytes) -> Option<Bytes> {
        let mut response = None;
        while let Some(event) = sse::split_first(&mut chunk) {
            let has_name = |names: [&[u8]; 2]| names.iter().any(|name| event.starts_with(name));
            if sse::data(&event).is_none() || has_name(IMPLIED_EVENTS) {
                continue;
            }
            if self.waiting.is_empty() {
                self.since = Instant::now();
            }
            let event = with_sequence_number(&event, self.next);
            self.next += 1;
            self.waiting.extend_from_slice(&event);
            if FINAL_EVENTS.iter().any(|name| event.starts_with(name)) {
                response = response_in_event(&event);
            }
        }
        response
    }

    /// Returns the time of the next write; `None` if the buffer is empty.
    fn due(&self) -> Option<Instant> {
        let wait = match self.failures {
            0 => (self.started_at.elapsed() / 20).clamp(MIN_WRITE_DELAY, MAX_WRITE_DELAY),
            _ => MAX_WRITE_DELAY,
        };
        (!self.waiting.is_empty()).then(|| self.since + wait)
    }

    fn is_storage_available(&self) -> bool {
        self.failures == 0
    }

    /// Writes the buffer. While storage is unavailable, the events remain in the buffer. Fails if
    /// the lease is void or the buffer exceeds `MAX_BUFFER_BYTES`.
    async fn write(&mut self) -> Result<()> {
        let event = sealed(self.vault, self.work.job(), &self.waiting)?;
        let progress = Progress {
            events: vec![event],
            ..Progress::default()
        };
        match self.work.report_progress(progress).await {
            Ok(()) => {
                self.waiting.clear();
                self.failures = 0;
            }
            Err(error)
                if error.kind == StorageErrorKind::Conflict || self.waiting.len() > MAX_BUFFER_BYTES =>
            {
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(job.id = %self.work.job().terms.id, %error, "cannot write the events of a response, will retry");
                self.failures += 1;
            }
        }
        self.since = Instant::now();
        Ok(())
    }
}
