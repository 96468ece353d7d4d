//! Streams the events of a response, live or again, from any sequence number and on any node.

use std::collections::VecDeque;

use bytes::Bytes;
use tollgate_edge::sse;
use tollgate_types::Error;

use super::super::answer::Ending;
use super::super::follow::{Followed, Follower};
use super::output::Output;

/// A client that follows a response.
pub(super) struct Subscriber {
    follower: Follower,
    output: Output,
    /// Sequence number of the last event that the client has received.
    after: Option<u64>,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl Subscriber {
    pub(super) fn new(follower: Follower, output: Output, after: Option<u64>) -> Self {
        Self {
            follower,
            output,
            after,
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    pub(super) async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            let after = self.after;
            let events = self.output.take_events().into_iter();
            let unseen = events.filter(|(number, _)| after.is_none_or(|after| *number > after));
            self.ready.extend(unseen.map(|(_, event)| event));
            if let Some(event) = self.ready.pop_front() {
                return Some((event, self));
            }
            if self.is_over {
                return None;
            }
            match self.follower.next().await? {
                Followed::Event(kind, body) => self.output.add(&kind, &body),
                Followed::Idle => return Some((sse::PING, self)),
                Followed::Ended => self.end().ok()?,
            }
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        self.is_over = true;
        let ending = Ending::of(&self.follower.research, &self.follower.job)?;
        self.output.end(&self.follower.job, &ending).map(drop)
    }
}
