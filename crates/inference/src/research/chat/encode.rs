//! Encodes reports as chat completions and their chunks.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tollgate_formats::openai_chat::encode_usage;
use tollgate_formats::sse;
use tollgate_storage::Job;

use super::super::answer::{Answer, Ending, queries};
use super::super::progress;

/// Members that are the same in a chat completion and in all of its chunks.
pub(in super::super) struct Identity {
    id: String,
    created: i64,
    model: String,
    /// Whether the usage has its own chunk. The other chunks have no usage then: it is null.
    has_usage_chunk: bool,
}

impl Identity {
    /// Returns the identity of the chat completion of a job.
    pub(in super::super) fn of(job: &Job) -> Self {
        Self {
            id: format!("chatcmpl-{:032x}", job.terms.id.as_u128()),
            created: job.created_at.as_seconds(),
            model: job.model.to_string(),
            has_usage_chunk: false,
        }
    }

    /// Sets whether the usage has its own chunk.
    pub(super) fn with_usage_chunk(self, has_usage_chunk: bool) -> Self {
        Self {
            has_usage_chunk,
            ..self
        }
    }

    /// Returns the chat completion of a complete report, or an empty one for a blocked report.
    pub(in super::super) fn completion(&self, job: &Job, answer: Option<&Answer>) -> Value {
        let mut message = json!({
            "role": "assistant",
            "content": answer.map_or("", Answer::report),
            "refusal": null,
        });
        if let Some(answer) = answer {
            let annotations = answer
                .marks()
                .into_iter()
                .map(|mark| json!({"type": "url_citation", "url_citation": mark.members()}));
            message["annotations"] = annotations.collect();
        }
        let mut completion = json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": finish_reason(answer),
            }],
            "usage": usage(job),
        });
        if let (Some(completion), Some(answer)) = (completion.as_object_mut(), answer) {
            completion.extend(found(answer));
        }
        completion
    }

    /// Returns the first chunk, with the role of the message.
    pub(super) fn start(&self) -> Bytes {
        self.chunk(json!({"role": "assistant", "content": ""}), Map::new())
    }

    /// Returns the chunk of a step; `None` for events without a step.
    pub(super) fn step(&self, kind: &str, body: &Value) -> Option<Bytes> {
        let line = progress::line(kind, body)?;
        let results = match kind {
            "research.source" => vec![progress::search_result(body, None)],
            _ => Vec::new(),
        };
        let mut more = status("info", "PENDING");
        more.insert("search_results".to_owned(), results.into());
        Some(self.chunk(json!({"reasoning_content": line}), more))
    }

    /// Returns the chunk of a part of the report.
    pub(super) fn content(&self, text: &str) -> Bytes {
        self.chunk(json!({"content": text}), status("message", "PENDING"))
    }

    /// Returns the chunk with the finish reason, without citations for a blocked report.
    pub(super) fn finish(&self, job: &Job, answer: Option<&Answer>, has_usage: bool) -> Bytes {
        let mut more = status("end_of_stream", "COMPLETED");
        more.extend(answer.map(found).unwrap_or_default());
        if has_usage {
            more.insert("usage".to_owned(), usage(job));
        }
        let choice = json!({
            "index": 0,
            "delta": {},
            "logprobs": null,
            "finish_reason": finish_reason(answer),
        });
        self.event(json!([choice]), more)
    }

    /// Returns the chunk with the usage and without choices.
    pub(super) fn usage(&self, job: &Job) -> Bytes {
        let mut more = status("end_of_stream", "COMPLETED");
        more.insert("usage".to_owned(), usage(job));
        self.event(json!([]), more)
    }

    fn chunk(&self, delta: Value, more: Map<String, Value>) -> Bytes {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        self.event(json!([choice]), more)
    }

    fn event(&self, choices: Value, more: Map<String, Value>) -> Bytes {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(chunk) = chunk.as_object_mut() {
            if self.has_usage_chunk {
                chunk.insert("usage".to_owned(), Value::Null);
            }
            chunk.extend(more);
        }
        sse::write_event(None, chunk.to_string().as_bytes())
    }
}

fn status(kind: &str, status: &str) -> Map<String, Value> {
    Map::from_iter([
        ("type".to_owned(), kind.into()),
        ("status".to_owned(), status.into()),
    ])
}

/// Returns the members with the citations and the sources of a report.
fn found(answer: &Answer) -> Map<String, Value> {
    let urls: Vec<Value> = answer.urls().into_iter().cloned().collect();
    Map::from_iter([
        ("citations".to_owned(), urls.into()),
        ("search_results".to_owned(), answer.search_results().into()),
    ])
}

const fn finish_reason(answer: Option<&Answer>) -> &'static str {
    match answer {
        Some(_) => "stop",
        None => "content_filter",
    }
}

/// Returns the usage of a job that has ended.
fn usage(job: &Job) -> Value {
    let mut usage = encode_usage(&job.usage, job.charge);
    usage["num_search_queries"] = queries(job).into();
    usage
}

impl Ending {
    /// Returns the report, or `None` if it was blocked. Returns the error of a failed job.
    pub(in super::super) fn into_answer(self) -> Result<Option<Answer>, tollgate_types::Error> {
        match self {
            Ending::Complete(answer) => Ok(Some(answer)),
            Ending::Blocked => Ok(None),
            Ending::Failed(error) => Err(error),
        }
    }
}
