//! The upstream's batch APIs, in the formats of OpenAI and of Anthropic. Every submission is
//! recorded, even if its response fails, so that a test can check that a batch was submitted
//! exactly once.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::delivery::{At, How};
use super::media::parts;
use super::received::ReceivedRequest;
use super::reply::Reply;

/// Number of prompt tokens and of completion tokens of every answer.
pub const BATCH_TOKENS: (u64, u64) = (7, 3);

/// The fault of the next submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchFault {
    /// The submission is refused with this status.
    Refused(u16),
    /// The submission is accepted, but the answer is a server error.
    TakenThenError,
    /// The submission is accepted, but no answer is sent.
    TakenThenSilent,
    /// Validation fails and no request is executed.
    Fails,
    /// The batch expires with half of its requests done.
    Expires,
    /// The batch runs until it is cancelled, with half of its requests done.
    Endless,
    /// The result of the first request is missing.
    Missing,
    /// Each result is present twice, and some results belong to unknown requests.
    Twice,
    /// The results contain malformed lines.
    Malformed,
    /// The first download of the results breaks off in the middle.
    Cut,
    /// The batch is unknown immediately after its submission.
    Lost,
}

/// A submitted batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Batched {
    /// The upstream's id of the batch.
    pub id: String,
    /// The API of the submission: `openai` or `anthropic`.
    pub wire: &'static str,
    /// The endpoint of the requests.
    pub endpoint: String,
    /// The `metadata` of the submission.
    pub metadata: Value,
    /// The requests: custom id and body of each.
    pub requests: Vec<(String, Value)>,
    /// The fault of the batch; `None` for a batch without a fault.
    pub fault: Option<BatchFault>,
    /// Number of status queries for the batch.
    pub polls: u32,
    /// Whether a request cancelled the batch.
    pub is_cancelled: bool,
}

/// The state of the batch APIs.
#[derive(Debug, Default)]
pub(super) struct Batches {
    pub made: Vec<Batched>,
    /// Number of submissions, accepted or not.
    pub submissions: u64,
    pub faults: VecDeque<BatchFault>,
    /// Number of status queries until a batch has ended.
    pub polls: u32,
    /// Uploaded files and result files by id.
    pub files: BTreeMap<String, Vec<u8>>,
    uploads: u64,
}

fn ok(body: &Value) -> Reply {
    Reply::body(200, "application/json", body.to_string())
}

fn unknown() -> Reply {
    Reply::error(404, "not_found", "There is no such thing.")
}

impl Batches {
    /// Returns the reply to a request of the batch and file APIs; `None` for other paths.
    pub fn reply(&mut self, request: &ReceivedRequest) -> Option<Reply> {
        let (path, method) = (request.bare_path(), request.method.as_str());
        if let Some((_, rest)) = path.split_once("/messages/batches") {
            return Some(self.anthropic(method, rest, request));
        }
        if let Some((_, rest)) = path.split_once("/batches") {
            return Some(self.openai(method, rest, request));
        }
        let (_, rest) = path.split_once("/v1/files")?;
        self.file(method, rest, request)
    }

    fn file(&mut self, method: &str, rest: &str, request: &ReceivedRequest) -> Option<Reply> {
        if method == "POST" && rest.is_empty() {
            let form = parts(request.header("content-type")?, &request.body)?;
            let file = form.into_iter().find(|part| part.name == "file")?;
            self.uploads += 1;
            let id = format!("file-b{}", self.uploads);
            self.files.insert(id.clone(), file.body.to_vec());
            return Some(ok(&json!({"id": id, "object": "file", "purpose": "batch"})));
        }
        let id = rest.strip_prefix('/')?;
        Some(match (method, id.strip_suffix("/content")) {
            ("GET", Some(id)) => self.content(id),
            ("DELETE", None) => match self.files.remove(id) {
                Some(_) => ok(&json!({"id": id, "object": "file", "deleted": true})),
                None => unknown(),
            },
            _ => unknown(),
        })
    }

    fn content(&mut self, id: &str) -> Reply {
        let Some(content) = self.files.get(id) else {
            return unknown();
        };
        let reply = Reply::body(200, "application/jsonl", content.clone());
        let cut = self
            .made
            .iter_mut()
            .find(|made| id.ends_with(&made.id) && made.fault == Some(BatchFault::Cut));
        match cut {
            Some(made) => {
                made.fault = None;
                reply.cut(At::Bytes(content.len() / 2), How::Close)
            }
            None => reply,
        }
    }

    fn openai(&mut self, method: &str, rest: &str, request: &ReceivedRequest) -> Reply {
        let id = rest.trim_start_matches('/');
        match (method, id.strip_suffix("/cancel")) {
            ("POST", None) if id.is_empty() => {
                let body = request.json().unwrap_or_default();
                let input = body["input_file_id"].as_str().unwrap_or_default();
                let Some(content) = self.files.get(input) else {
                    return unknown();
                };
                let lines = String::from_utf8_lossy(content).into_owned();
                let requests = lines.lines().map(|line| {
                    let line: Value = serde_json::from_str(line).unwrap_or_default();
                    let name = line["custom_id"].as_str().unwrap_or_default();
                    (name.to_owned(), line["body"].clone())
                });
                let endpoint = body["endpoint"].as_str().unwrap_or_default().to_owned();
                let requests = requests.collect();
                self.take("openai", endpoint, body["metadata"].clone(), requests)
            }
            ("GET", None) if id.is_empty() => {
                let of_wire = self.made.iter().filter(|made| made.wire == "openai");
                let listed: Vec<Value> = of_wire.map(openai_object).collect();
                ok(&json!({"object": "list", "data": listed, "has_more": false}))
            }
            ("GET", None) => self.reported(id),
            ("POST", Some(id)) => self.cancelled(id),
            _ => unknown(),
        }
    }

    fn anthropic(&mut self, method: &str, rest: &str, request: &ReceivedRequest) -> Reply {
        let id = rest.trim_start_matches('/');
        if let Some(id) = id.strip_suffix("/results") {
            let id = format!("out-{id}");
            return self.content(&id);
        }
        match (method, id.strip_suffix("/cancel")) {
            ("POST", None) if id.is_empty() => {
                let body = request.json().unwrap_or_default();
                let requests = body["requests"].as_array().cloned().unwrap_or_default();
                let requests = requests.iter().map(|request| {
                    let name = request["custom_id"].as_str().unwrap_or_default();
                    (name.to_owned(), request["params"].clone())
                });
                let endpoint = "/v1/messages".to_owned();
                self.take("anthropic", endpoint, Value::Null, requests.collect())
            }
            ("GET", None) => self.reported(id),
            ("POST", Some(id)) => self.cancelled(id),
            ("DELETE", None) => {
                self.files.remove(&format!("out-{id}"));
                ok(&json!({"id": id, "type": "message_batch_deleted"}))
            }
            _ => unknown(),
        }
    }

    fn take(
        &mut self,
        wire: &'static str,
        endpoint: String,
        metadata: Value,
        requests: Vec<(String, Value)>,
    ) -> Reply {
        self.submissions += 1;
        let fault = self.faults.pop_front();
        if let Some(BatchFault::Refused(status)) = fault {
            return Reply::error(status, "not_allowed", "No batches here.");
        }
        let made = Batched {
            id: format!("batch_{}", self.made.len() + 1),
            wire,
            endpoint,
            metadata,
            requests,
            fault,
            polls: 0,
            is_cancelled: false,
        };
        let reply = ok(&object(&made));
        self.made.push(made);
        match fault {
            Some(BatchFault::TakenThenError) => Reply::error(500, "server_error", "Sorry."),
            Some(BatchFault::TakenThenSilent) => Reply::hang(),
            _ => reply,
        }
    }

    fn reported(&mut self, id: &str) -> Reply {
        let polls = self.polls;
        let found = self.made.iter_mut().find(|made| made.id == id);
        let Some(made) = found.filter(|made| made.fault != Some(BatchFault::Lost)) else {
            return unknown();
        };
        made.polls += 1;
        let is_endless = made.fault == Some(BatchFault::Endless) && !made.is_cancelled;
        if made.polls <= polls || is_endless {
            return ok(&object(made));
        }
        let (output, errors) = results(made);
        let mut reported = object(made);
        let is_failed = made.fault == Some(BatchFault::Fails);
        match made.wire {
            "openai" if is_failed => {
                reported["status"] = json!("failed");
                reported["errors"] =
                    json!({"object": "list", "data": [{"code": "invalid_json_line", "line": 1}]});
            }
            "openai" => {
                reported["status"] = json!(ended(made));
                reported["output_file_id"] = json!(format!("out-{id}"));
                reported["error_file_id"] = json!(format!("err-{id}"));
                self.files.insert(format!("err-{id}"), errors.into_bytes());
                self.files.insert(format!("out-{id}"), output.into_bytes());
            }
            _ => {
                reported["processing_status"] = json!("ended");
                reported["results_url"] = json!(format!("/v1/messages/batches/{id}/results"));
                self.files
                    .insert(format!("out-{id}"), (output + &errors).into_bytes());
            }
        }
        ok(&reported)
    }

    fn cancelled(&mut self, id: &str) -> Reply {
        match self.made.iter_mut().find(|made| made.id == id) {
            Some(made) => {
                made.is_cancelled = true;
                ok(&object(made))
            }
            None => unknown(),
        }
    }
}

fn object(made: &Batched) -> Value {
    match made.wire {
        "openai" => openai_object(made),
        _ => json!({
            "id": made.id,
            "type": "message_batch",
            "processing_status": if made.is_cancelled { "canceling" } else { "in_progress" },
            "results_url": null,
            "cancel_initiated_at": made.is_cancelled.then_some("2026-01-01T00:00:00Z"),
        }),
    }
}

fn openai_object(made: &Batched) -> Value {
    json!({
        "id": made.id,
        "object": "batch",
        "endpoint": made.endpoint,
        "status": if made.is_cancelled { "cancelling" } else { "in_progress" },
        "output_file_id": null,
        "error_file_id": null,
        "metadata": made.metadata,
    })
}

fn ended(made: &Batched) -> &'static str {
    match (made.is_cancelled, made.fault) {
        (true, _) => "cancelled",
        (_, Some(BatchFault::Expires)) => "expired",
        _ => "completed",
    }
}

/// Returns the output lines and the error lines of a batch, in reverse order of the requests.
fn results(made: &Batched) -> (String, String) {
    let (mut output, mut errors) = (String::new(), String::new());
    let half = made.requests.len() / 2;
    let is_half = matches!(made.fault, Some(BatchFault::Expires | BatchFault::Endless));
    for (position, (name, body)) in made.requests.iter().enumerate().rev() {
        if made.fault == Some(BatchFault::Missing) && position == 0 {
            continue;
        }
        if is_half && position >= half {
            errors.push_str(&undone(made, name));
            continue;
        }
        if last_prompt(body).contains("refuse me") {
            errors.push_str(&refused(made, name));
            continue;
        }
        let line = answered(made, name, body);
        match made.fault {
            Some(BatchFault::Twice) => {
                output.push_str(&line);
                output.push_str(&line);
                output.push_str(&answered(made, "r999999", body));
                output.push_str(&answered(made, "nobody", body));
            }
            Some(BatchFault::Malformed) => {
                output.push_str(&line);
                output.push_str("{\"custom_id\": \"r0\", \"resp\nnot json\n\n");
            }
            _ => output.push_str(&line),
        }
    }
    (output, errors)
}

/// Returns the text of the last message, or of `input` if there are no messages. Of several parts,
/// only the first is read.
fn last_prompt(body: &Value) -> String {
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    let content = last.map_or(&body["input"], |message| &message["content"]);
    match content {
        Value::String(text) => text.clone(),
        other => other
            .pointer("/0/text")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    }
}

fn answered(made: &Batched, name: &str, body: &Value) -> String {
    let (input, output) = BATCH_TOKENS;
    let text = format!("You said: {}", last_prompt(body));
    let answer = match made.endpoint.as_str() {
        "/v1/messages" => json!({"id": format!("msg_{name}"), "type": "message", "role": "assistant",
            "model": body["model"], "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "stop_sequence": null, "usage": {"input_tokens": input, "output_tokens": output}}),
        "/v1/embeddings" => json!({"object": "list", "model": body["model"],
            "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
            "usage": {"prompt_tokens": input, "total_tokens": input}}),
        _ => json!({"id": format!("chatcmpl-{name}"), "object": "chat.completion", "created": 1_790_000_000,
            "model": body["model"], "choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}}),
    };
    let line = match made.wire {
        "openai" => json!({"id": format!("batch_req_{name}"), "custom_id": name, "error": null,
            "response": {"status_code": 200, "request_id": "r", "body": answer}}),
        _ => json!({"custom_id": name, "result": {"type": "succeeded", "message": answer}}),
    };
    format!("{line}\n")
}

fn refused(made: &Batched, name: &str) -> String {
    let line = match made.wire {
        "openai" => json!({"id": "x", "custom_id": name, "error": null, "response": {"status_code": 400,
            "request_id": "r", "body": {"error": {"message": "No.", "type": "invalid_request_error"}}}}),
        _ => json!({"custom_id": name, "result": {"type": "errored", "error": {"type": "error",
            "error": {"type": "invalid_request_error", "message": "No."}}}}),
    };
    format!("{line}\n")
}

fn undone(made: &Batched, name: &str) -> String {
    let (code, kind) = match made.is_cancelled {
        true => ("batch_cancelled", "canceled"),
        false => ("batch_expired", "expired"),
    };
    let line = match made.wire {
        "openai" => json!({"id": "x", "custom_id": name, "response": null,
            "error": {"code": code, "message": "Not done."}}),
        _ => json!({"custom_id": name, "result": {"type": kind}}),
    };
    format!("{line}\n")
}
