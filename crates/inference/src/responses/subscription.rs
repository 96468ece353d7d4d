//! Streams the events of a background response, live or replayed, from any sequence number and on
//! any node.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tollgate_edge::sse;
use tollgate_formats::openai_responses::{encode_response_event, sequence_number};
use tollgate_storage::{Job, JobEvent};
use tollgate_types::{AccountId, Error, ErrorCode, JobStatus};

use super::background::Background;
use super::event_log::{FIRST_SEQUENCE_NUMBER, KIND};
use crate::Inference;

/// Maximum number of job events per query.
const PAGE_SIZE: u32 = 100;
/// Time without an event after which a ping is sent.
const PING_INTERVAL: Duration = Duration::from_secs(15);

/// Stream of encoded server-sent events.
pub(crate) type EventStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Returns the events of a response after this sequence number, up to its final event.
pub(super) async fn subscribe(
    inference: &Inference,
    account: AccountId,
    id: &str,
    after: Option<u64>,
) -> Result<EventStream, Error> {
    let background = inference.background.clone();
    let Some(job) = background.job(account, id).await? else {
        // Fails with 404 if the response does not exist.
        inference.responses.get(account, id).await?;
        return Err(not_streamed());
    };
    if job.status == JobStatus::Completed {
        // Fails with 404 if the response was deleted.
        inference.responses.get(account, id).await?;
    }
    if !background.is_streamed(&job)? {
        return Err(not_streamed());
    }
    let mut subscriber = Subscriber {
        background,
        job,
        after,
        read: 0,
        next: 0,
        ready: VecDeque::new(),
        has_ended: false,
        is_over: false,
    };
    let accepted = subscriber.background.accepted(&subscriber.job)?;
    for kind in ["response.created", "response.queued"] {
        subscriber.push_event(encode_response_event(kind, &accepted, subscriber.next));
    }
    debug_assert_eq!(subscriber.next, FIRST_SEQUENCE_NUMBER);
    Ok(Box::pin(stream::unfold(subscriber, Subscriber::next)))
}

/// A client that follows a response.
struct Subscriber {
    background: Arc<Background>,
    job: Job,
    /// Sequence number of the last event that the client has received.
    after: Option<u64>,
    /// Sequence number of the last job event that was read.
    read: u64,
    /// Sequence number of the next response event.
    next: u64,
    ready: VecDeque<Bytes>,
    /// Whether the job had ended at the last check.
    has_ended: bool,
    is_over: bool,
}

impl Subscriber {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((event, self));
            }
            if self.is_over {
                return None;
            }
            let (account, id) = (self.job.account, self.job.terms.id);
            let read = self
                .background
                .jobs
                .events(account, id, self.read, PAGE_SIZE)
                .await;
            let events = read.ok()?;
            if !events.is_empty() {
                events.iter().try_for_each(|event| self.read(event))?;
                continue;
            }
            if self.has_ended {
                self.end()?;
                continue;
            }
            let after = Some(self.read);
            self.job = self
                .background
                .jobs
                .wait(account, id, after, PING_INTERVAL)
                .await
                .ok()??;
            // The job may have ended between the two queries, so its last events are read once
            // more.
            self.has_ended = self.job.status.is_terminal();
            if self.job.last_event <= self.read && !self.has_ended {
                return Some((sse::PING, self));
            }
        }
    }

    /// Decrypts and queues the response events of a job event.
    fn read(&mut self, event: &JobEvent) -> Option<()> {
        self.read = event.sequence;
        if &*event.kind != KIND {
            return Some(());
        }
        let id = self.job.terms.id.as_u128();
        let opened = self.background.vault.open(self.job.account, id, &event.body)?;
        let mut events = Bytes::from(opened);
        while let Some(event) = sse::split_first(&mut events) {
            self.push_event(event);
        }
        Some(())
    }

    /// Ends the stream. A response without a result ends with `response.failed`. The recorded
    /// events of a completed response already include its final event.
    fn end(&mut self) -> Option<()> {
        self.is_over = true;
        if self.job.status != JobStatus::Completed {
            let response = self.background.shown(&self.job).ok()?;
            self.push_event(encode_response_event("response.failed", &response, self.next));
        }
        Some(())
    }

    /// Queues an event, unless the client has already received it.
    fn push_event(&mut self, event: Bytes) {
        let number = sequence_number(&event).unwrap_or(self.next);
        self.next = number + 1;
        if self.after.is_none_or(|after| number > after) {
            self.ready.push_back(event);
        }
    }
}

fn not_streamed() -> Error {
    let message = "Only a response that was created with 'background': true and 'stream': true can be streamed. Request it without \
                   'stream'.";
    Error::new(ErrorCode::InvalidParameter, message).with_param("stream")
}
