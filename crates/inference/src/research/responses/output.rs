//! Builds the events and the output items of a response from the events of its job. The same job
//! events always lead to the same response events with the same numbers.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_formats::openai_responses::{Echo, Identity, encode_unfinished, encode_usage};
use tollgate_formats::sse;
use tollgate_storage::Job;
use tollgate_types::{Error, JobStatus, Timestamp};

use super::super::answer::{Answer, Ending};
use crate::responses::background::openai_error_code;

/// A response while it is built.
pub(super) struct Output {
    identity: Identity,
    echo: Echo,
    /// Sequence number of the next event.
    next: u64,
    /// Finished output items.
    items: Vec<Value>,
    /// Text of the message so far; `None` before its first part.
    text: Option<String>,
    has_started: bool,
    /// Events that were not taken yet, with their numbers.
    events: Vec<(u64, Bytes)>,
}

impl Output {
    /// Creates a response with the events of its acceptance.
    pub(super) fn new(identity: Identity, echo: Echo) -> Self {
        let mut output = Self {
            identity,
            echo,
            next: 0,
            items: Vec::new(),
            text: None,
            has_started: false,
            events: Vec::new(),
        };
        for kind in ["response.created", "response.queued"] {
            let response = output.unfinished("queued", None);
            output.push(kind, json!({"response": response}));
        }
        output
    }

    /// Removes and returns the events so far, with their numbers.
    pub(super) fn take_events(&mut self) -> Vec<(u64, Bytes)> {
        std::mem::take(&mut self.events)
    }

    /// Adds an event of the job.
    pub(super) fn add(&mut self, kind: &str, body: &Value) {
        match kind {
            "job.in_progress" => self.start(),
            "research.search" => self.search(body),
            "research.delta" => self.delta(body["text"].as_str().unwrap_or_default()),
            _ => {}
        }
    }

    /// Adds the end of the job, and returns the response.
    pub(super) fn end(&mut self, job: &Job, ending: &Ending) -> Result<Value, Error> {
        let response = match ending {
            Ending::Complete(answer) => {
                // The events of a report without findings contain no text.
                let sent = self.text.as_deref().unwrap_or_default();
                let rest = answer
                    .report()
                    .strip_prefix(sent)
                    .ok_or_else(|| Error::internal("the events of a report differ from its result"))?;
                self.delta(rest);
                self.close_message("completed", annotations(answer));
                let mut response = self.ended("completed", job);
                response["completed_at"] = job.completed_at.map(Timestamp::as_seconds).into();
                response
            }
            Ending::Blocked => {
                self.close_message("incomplete", Vec::new());
                let mut response = self.ended("incomplete", job);
                response["incomplete_details"] = json!({"reason": "content_filter"});
                response
            }
            Ending::Failed(error) => {
                let status = match job.status {
                    JobStatus::Cancelled => "cancelled",
                    _ => "failed",
                };
                let error = (status == "failed").then(|| (openai_error_code(error.code), &*error.message));
                self.unfinished(status, error)
            }
        };
        let kind = match ending {
            Ending::Complete(_) => "response.completed",
            Ending::Blocked => "response.incomplete",
            Ending::Failed(_) => "response.failed",
        };
        self.push(kind, json!({"response": response}));
        Ok(response)
    }

    /// Returns the response of a job that has not ended.
    pub(super) fn unfinished(&self, status: &'static str, error: Option<(&str, &str)>) -> Value {
        encode_unfinished(&self.identity, &self.echo, status, error)
    }

    fn ended(&self, status: &'static str, job: &Job) -> Value {
        let mut response = self.unfinished(status, None);
        response["output"] = self.items.clone().into();
        response["usage"] = encode_usage(&job.usage, job.charge);
        response
    }

    fn start(&mut self) {
        if !self.has_started {
            self.has_started = true;
            let response = self.unfinished("in_progress", None);
            self.push("response.in_progress", json!({"response": response}));
        }
    }

    /// Adds a search as a finished call of the web search tool.
    fn search(&mut self, body: &Value) {
        let (id, index) = (self.item_id("ws"), self.items.len());
        let urls = body["urls"].as_array().into_iter().flatten();
        let sources: Vec<Value> = urls.map(|url| json!({"type": "url", "url": url})).collect();
        let mut item = json!({
            "type": "web_search_call",
            "id": id,
            "status": "in_progress",
            "action": {"type": "search", "query": body["query"], "queries": [body["query"]]},
        });
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        for stage in ["in_progress", "searching", "completed"] {
            let kind = format!("response.web_search_call.{stage}");
            self.push(&kind, json!({"output_index": index, "item_id": id}));
        }
        item["status"] = "completed".into();
        item["action"]["sources"] = sources.into();
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        self.items.push(item);
    }

    /// Adds a part of the report to the message.
    fn delta(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.text.is_none() {
            let item = self.message("in_progress", &[]);
            let index = self.items.len();
            self.push(
                "response.output_item.added",
                json!({"output_index": index, "item": item}),
            );
            self.push_part("response.content_part.added", json!({"part": part("", &[])}));
        }
        self.text.get_or_insert_default().push_str(text);
        self.push_part(
            "response.output_text.delta",
            json!({"delta": text, "logprobs": []}),
        );
    }

    fn close_message(&mut self, status: &str, annotations: Vec<Value>) {
        let Some(text) = self.text.take() else {
            return;
        };
        for (at, annotation) in annotations.iter().enumerate() {
            self.push_part(
                "response.output_text.annotation.added",
                json!({"annotation_index": at, "annotation": annotation}),
            );
        }
        self.push_part("response.output_text.done", json!({"text": text, "logprobs": []}));
        let part = part(&text, &annotations);
        self.push_part("response.content_part.done", json!({"part": part}));
        let item = self.message(status, &[part]);
        let index = self.items.len();
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        self.items.push(item);
    }

    fn message(&self, status: &str, content: &[Value]) -> Value {
        json!({
            "type": "message",
            "id": self.item_id("msg"),
            "status": status,
            "role": "assistant",
            "content": content,
        })
    }

    fn item_id(&self, prefix: &str) -> String {
        self.identity.item_id(prefix, self.items.len())
    }

    /// Adds an event of the only content part of the message.
    fn push_part(&mut self, kind: &str, mut event: Value) {
        event["item_id"] = self.item_id("msg").into();
        event["output_index"] = self.items.len().into();
        event["content_index"] = 0.into();
        self.push(kind, event);
    }

    fn push(&mut self, kind: &str, mut event: Value) {
        event["type"] = kind.into();
        event["sequence_number"] = self.next.into();
        let event = sse::write_event(Some(kind.as_bytes()), event.to_string().as_bytes());
        self.events.push((self.next, event));
        self.next += 1;
    }
}

fn part(text: &str, annotations: &[Value]) -> Value {
    json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []})
}

fn annotations(answer: &Answer) -> Vec<Value> {
    let annotation = |mut members: Value| {
        members["type"] = "url_citation".into();
        members
    };
    let marks = answer.marks();
    marks.iter().map(|mark| annotation(mark.members())).collect()
}
