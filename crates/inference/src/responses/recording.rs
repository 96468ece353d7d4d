//! What a response in the background says while it is made: its events are written down with the job, some at a time, and keep
//! their numbers for whoever reads them, whenever and wherever.

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

/// The kind of an event of the job that has events of the response in it.
pub(super) const KIND: &str = "response.progress";
/// The number of the first event that is written: those before it follow from the job.
pub(super) const FIRST: u64 = 2;

/// How long an event waits to be written with others, at first and at the most: a long answer becomes a row for each second.
const SOON: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(1);
/// What is written without waiting for more.
const LARGE: usize = 64 * 1024;
/// Storage that does not take events may be away for as long as this much fits.
const MOST: usize = 16 * 1024 * 1024;

/// The names of events that are not written: they follow from the job.
const IMPLIED: [&[u8]; 2] = [b"event: response.created\n", b"event: response.queued\n"];
/// The names of those that end a response which is there.
const ENDS: [&[u8]; 2] = [b"event: response.completed\n", b"event: response.incomplete\n"];

/// What was said.
pub(super) struct Recorded {
    /// The response object, or why there is none.
    pub(super) response: std::result::Result<Bytes, Error>,
    /// Events that are still to be written, the last one among them.
    pub(super) rest: Vec<u8>,
    /// Whether anything was said.
    pub(super) has_begun: bool,
}

/// Writes down what a response says until its end, which is left to whoever ends the job.
pub(super) async fn record(work: &Work, vault: &Vault, mut events: Events) -> Result<Recorded> {
    let mut recorder = Recorder::new(work, vault);
    let response = loop {
        let due = recorder.due();
        tokio::select! {
            made = events.next_made() => match made {
                Some(Ok(bytes)) => {
                    if let Some(response) = recorder.note(bytes) {
                        break Ok(response);
                    }
                }
                Some(Err(error)) => break Err(error),
                None => break Err(Error::internal("an answer ended without its end")),
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => recorder.write().await?,
        }
        if recorder.waiting.len() > LARGE && recorder.is_heard() {
            recorder.write().await?;
        }
    };
    Ok(Recorded {
        response,
        has_begun: recorder.next > FIRST,
        rest: recorder.waiting,
    })
}

/// An event of the job with these events of the response, sealed.
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
    /// The number of the next event.
    next: u64,
    /// Events that are not written yet.
    waiting: Vec<u8>,
    /// Since when.
    since: Instant,
    begun: Instant,
    /// How often in a row storage has not taken them.
    failures: u32,
}

impl<'w> Recorder<'w> {
    fn new(work: &'w Work, vault: &'w Vault) -> Self {
        let now = Instant::now();
        Self {
            work,
            vault,
            next: FIRST,
            waiting: Vec::new(),
            since: now,
            begun: now,
            failures: 0,
        }
    }

    /// Takes events that were made together; the response, when one of them is its end.
    fn note(&mut self, mut made: Bytes) -> Option<Bytes> {
        let mut response = None;
        while let Some(event) = sse::split_first(&mut made) {
            let has_name = |names: [&[u8]; 2]| names.iter().any(|name| event.starts_with(name));
            if sse::data(&event).is_none() || has_name(IMPLIED) {
                continue;
            }
            if self.waiting.is_empty() {
                self.since = Instant::now();
            }
            let event = with_sequence_number(&event, self.next);
            self.next += 1;
            self.waiting.extend_from_slice(&event);
            if ENDS.iter().any(|name| event.starts_with(name)) {
                response = response_in_event(&event);
            }
        }
        response
    }

    /// When what waits is to be written.
    fn due(&self) -> Option<Instant> {
        let wait = match self.failures {
            0 => (self.begun.elapsed() / 20).clamp(SOON, LATE),
            _ => LATE,
        };
        (!self.waiting.is_empty()).then(|| self.since + wait)
    }

    fn is_heard(&self) -> bool {
        self.failures == 0
    }

    /// Writes what waits. What storage does not take now is written later, with what comes.
    async fn write(&mut self) -> Result<()> {
        let event = sealed(self.vault, self.work.job(), &self.waiting)?;
        let progress = Progress {
            events: vec![event],
            ..Progress::default()
        };
        match self.work.tell(progress).await {
            Ok(()) => {
                self.waiting.clear();
                self.failures = 0;
            }
            Err(error) if error.kind == StorageErrorKind::Conflict || self.waiting.len() > MOST => {
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(job.id = %self.work.job().terms.id, %error, "events of a response are written later");
                self.failures += 1;
            }
        }
        self.since = Instant::now();
        Ok(())
    }
}
