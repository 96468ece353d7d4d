//! The events of a response that is made in the background, as they happen or again, from any number on and on any node.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tollgate_edge::sse;
use tollgate_formats::openai_responses::{encode_event_of, sequence_number};
use tollgate_storage::{Job, JobEvent};
use tollgate_types::{AccountId, Error, ErrorCode, JobStatus};

use super::background::Background;
use super::recording::{FIRST, KIND};
use crate::Inference;

/// Events of the job that are read at once.
const BATCH: u32 = 100;
/// After so long without an event there is a sign of life.
const SILENCE: Duration = Duration::from_secs(15);

/// Server-sent events.
pub(super) type Following = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The events of a response behind the one of this number. It ends behind the end of the response, or where that was cancelled.
pub(super) async fn follow(
    inference: &Inference,
    account: AccountId,
    id: &str,
    after: Option<u64>,
) -> Result<Following, Error> {
    let background = inference.background.clone();
    let Some(job) = background.job(account, id).await? else {
        // It may not be there at all.
        inference.kept.get(account, id).await?;
        return Err(not_streamed());
    };
    if job.status == JobStatus::Completed {
        // It may have been forgotten.
        inference.kept.get(account, id).await?;
    }
    if !background.is_streamed(&job)? {
        return Err(not_streamed());
    }
    let mut follower = Follower {
        background,
        job,
        after,
        read: 0,
        next: 0,
        ready: VecDeque::new(),
        has_ended: false,
        is_over: false,
    };
    let accepted = follower.background.accepted(&follower.job)?;
    for kind in ["response.created", "response.queued"] {
        follower.tell(encode_event_of(kind, &accepted, follower.next));
    }
    debug_assert_eq!(follower.next, FIRST);
    Ok(Box::pin(stream::unfold(follower, Follower::next)))
}

/// Somebody who follows a response.
struct Follower {
    background: Arc<Background>,
    job: Job,
    /// The number of the last event that the caller has.
    after: Option<u64>,
    /// The last event of the job that was read.
    read: u64,
    /// The number behind that of the last event of the response.
    next: u64,
    ready: VecDeque<Bytes>,
    /// Whether the job had ended when it was looked at.
    has_ended: bool,
    is_over: bool,
}

impl Follower {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((event, self));
            }
            if self.is_over {
                return None;
            }
            let (account, id) = (self.job.account, self.job.terms.id);
            let read = self.background.jobs.events(account, id, self.read, BATCH).await;
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
                .wait(account, id, after, SILENCE)
                .await
                .ok()??;
            // It may have ended between the two looks: then its last events are read once more.
            self.has_ended = self.job.status.is_terminal();
            if self.job.last_event <= self.read && !self.has_ended {
                return Some((sse::PING, self));
            }
        }
    }

    /// Takes the events of the response out of one of the job.
    fn read(&mut self, event: &JobEvent) -> Option<()> {
        self.read = event.sequence;
        if &*event.kind != KIND {
            return Some(());
        }
        let id = self.job.terms.id.as_u128();
        let opened = self.background.vault.open(self.job.account, id, &event.body)?;
        let mut events = Bytes::from(opened);
        while let Some(event) = sse::split_first(&mut events) {
            self.tell(event);
        }
        Some(())
    }

    /// What is there has ended by itself; what will not be there says so.
    fn end(&mut self) -> Option<()> {
        self.is_over = true;
        if self.job.status != JobStatus::Completed {
            let response = self.background.shown(&self.job).ok()?;
            self.tell(encode_event_of("response.failed", &response, self.next));
        }
        Some(())
    }

    /// Hands an event out, unless the caller has it.
    fn tell(&mut self, event: Bytes) {
        let number = sequence_number(&event).unwrap_or(self.next);
        self.next = number + 1;
        if self.after.is_none_or(|after| number > after) {
            self.ready.push_back(event);
        }
    }
}

fn not_streamed() -> Error {
    let message = "Only a response that was asked for with 'background': true and 'stream': true can be followed. Ask for it without \
                   'stream'.";
    Error::new(ErrorCode::InvalidParameter, message).with_param("stream")
}
