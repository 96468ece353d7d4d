//! Streams the progress and the report of a job as chunks of a chat completion.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tollgate_edge::error::error_type;
use tollgate_edge::sse;
use tollgate_formats::openai_chat::{StreamEncoder, encode_error_event};
use tollgate_storage::Job;
use tollgate_types::Error;

use super::super::Research;
use super::super::answer::Ending;
use super::super::follow::{Followed, Follower};
use super::encode::Identity;
use super::read::Usage;

/// A client that follows a job.
pub(super) struct ChatStream {
    follower: Follower,
    identity: Identity,
    usage: Usage,
    /// Text of the report that was sent.
    sent: String,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl ChatStream {
    pub(super) fn new(research: Arc<Research>, job: Job, usage: Usage) -> Self {
        let identity = Identity::of(&job).with_usage_chunk(usage == Usage::InOwnChunk);
        Self {
            ready: VecDeque::from([identity.start()]),
            identity,
            follower: Follower::new(research, job),
            usage,
            sent: String::new(),
            is_over: false,
        }
    }

    pub(super) async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some((chunk, self));
            }
            if self.is_over {
                return None;
            }
            match self.follower.next().await? {
                Followed::Event(kind, body) => self.event(&kind, &body),
                Followed::Idle => return Some((sse::PING, self)),
                Followed::Ended => self.end(),
            }
        }
    }

    fn event(&mut self, kind: &str, body: &Value) {
        if kind == "research.delta" {
            let text = body["text"].as_str().unwrap_or_default();
            self.content(text);
        } else {
            self.ready.extend(self.identity.step(kind, body));
        }
    }

    fn content(&mut self, text: &str) {
        if !text.is_empty() {
            self.sent.push_str(text);
            self.ready.push_back(self.identity.content(text));
        }
    }

    /// Sends the rest of the report and the last chunk. A failed job ends with an error and
    /// without `[DONE]`, which clients interpret as the end of a complete response.
    fn end(&mut self) {
        self.is_over = true;
        if let Err(error) = self.complete() {
            let error = encode_error_event(&error, error_type(error.code));
            self.ready.push_back(error);
        }
    }

    fn complete(&mut self) -> Result<(), Error> {
        let ending = Ending::of(&self.follower.research, &self.follower.job)?;
        let answer = ending.into_answer()?;
        if let Some(answer) = &answer {
            // The events of a report without findings contain no text.
            let rest = answer.report().strip_prefix(&*self.sent);
            let rest =
                rest.ok_or_else(|| Error::internal("the events of a report differ from its result"))?;
            self.content(rest);
        }
        let job = &self.follower.job;
        let has_usage = self.usage == Usage::InLastChunk;
        let finish = self.identity.finish(job, answer.as_ref(), has_usage);
        self.ready.push_back(finish);
        if self.usage == Usage::InOwnChunk {
            self.ready.push_back(self.identity.usage(job));
        }
        self.ready.push_back(StreamEncoder::done());
        Ok(())
    }
}
