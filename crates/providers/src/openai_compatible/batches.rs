//! OpenAI's batches: the gateway uploads a file of requests and creates a batch from it. The
//! results are an output file and an error file.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::Format;
use tollgate_upstream::{
    BatchAnswer, BatchEnd, BatchKind, BatchLimits, BatchProvider, BatchResult, BatchResults, BatchState,
    CallContext, EmbedAnswer, EmbedCall, EncodedRequest, Submission, TextAnswer, TextCall, TextReply,
    UpstreamError,
};

use super::adapter::OpenAiCompatible;
use super::presets::Batches;
use crate::batches::{results, to_single_line, without_retry};
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient, escape};
use crate::media::{Form, MAX_STATUS_BYTES, Request, Server};
use crate::refusal;

/// Metadata key under which a batch stores the idempotency key of the submission.
const METADATA_KEY: &str = "tollgate_batch";
/// Lifetime of an upload that is not deleted, in seconds.
const UPLOAD_LIFETIME_SECONDS: &str = "259200";
/// Maximum number of pages of batches to search for an idempotency key.
const MAX_PAGES: usize = 10;
/// Number of batches per page.
const PAGE_SIZE: usize = 100;

/// Endpoint and limits of the batch API.
#[derive(Debug)]
pub(super) struct BatchServer {
    row: &'static Batches,
    is_enabled: bool,
    server: Server,
}

impl BatchServer {
    pub(super) fn new(
        row: &'static Batches,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        Ok(Self {
            row,
            is_enabled: false,
            server: Server::new(base, credentials, http)?,
        })
    }

    fn batch(&self, id: &str, what: &str) -> String {
        self.server.path(&format!("/batches/{}{what}", escape(id, "")))
    }

    fn file(&self, id: &str, what: &str) -> String {
        self.server.path(&format!("/files/{}{what}", escape(id, "")))
    }
}

/// A batch object of the API.
#[derive(Deserialize)]
struct Batch {
    id: String,
    status: String,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    #[serde(default)]
    errors: Value,
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Batch>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct File {
    id: String,
}

impl Batch {
    fn state(self) -> BatchState {
        let end = match self.status.as_str() {
            "completed" => BatchEnd::Complete,
            "expired" => BatchEnd::Expired,
            "cancelled" => BatchEnd::Cancelled,
            "failed" => {
                let first = self.errors.pointer("/data/0").cloned().unwrap_or_default();
                return BatchState::Failed(refusal::from_failure(&json!({"error": first})));
            }
            // Any other status means that the batch has not ended.
            _ => return BatchState::Running,
        };
        let places = [self.output_file_id, self.error_file_id];
        BatchState::Ended(places.into_iter().flatten().collect(), end)
    }
}

/// A line of the output file or of the error file.
#[derive(Deserialize)]
struct Line<'l> {
    custom_id: String,
    #[serde(borrow)]
    response: Option<Response<'l>>,
    error: Option<LineError>,
}

#[derive(Deserialize)]
struct Response<'l> {
    status_code: u16,
    #[serde(borrow)]
    body: Option<&'l RawValue>,
}

#[derive(Deserialize)]
struct LineError {
    code: Option<String>,
}

fn read(line: &[u8]) -> Option<BatchResult> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let answer = match (line.response, line.error.and_then(|error| error.code)) {
        (Some(response), _) => BatchAnswer::Response {
            status: response.status_code,
            body: Bytes::copy_from_slice(response.body.map_or("", RawValue::get).as_bytes()),
        },
        (None, Some(code)) if code == "batch_expired" => BatchAnswer::Expired,
        (None, Some(code)) if code == "batch_cancelled" => BatchAnswer::Cancelled,
        (None, Some(code)) => BatchAnswer::Response {
            status: 500,
            body: json!({"error": {"code": code}}).to_string().into(),
        },
        (None, None) => return None,
    };
    Some(BatchResult {
        name: line.custom_id,
        answer,
    })
}

/// Encodes a request as a line of the input file. `path` is the endpoint's path below `/v1`.
fn line(name: &str, path: &str, body: &Bytes) -> EncodedRequest {
    let head = format!(
        "{{\"custom_id\":{},\"method\":\"POST\",\"url\":\"/v1{path}\",\"body\":",
        Value::from(name)
    );
    let text = [head.as_bytes(), &to_single_line(body), b"}"].concat();
    EncodedRequest {
        text: text.into(),
        dialect: Arc::from(""),
    }
}

impl OpenAiCompatible {
    /// Sets whether the provider executes batches with its batch API.
    pub fn with_batches(mut self, are_wanted: bool) -> Self {
        if let Some(batches) = &mut self.batches {
            batches.is_enabled = are_wanted;
        }
        self
    }

    fn batch_server(&self) -> Result<&BatchServer, UpstreamError> {
        let none = || UpstreamError::connect("the provider does not support batches");
        self.batches.as_ref().ok_or_else(none)
    }

    fn path_of(&self, kind: BatchKind) -> Result<&'static str, UpstreamError> {
        let embeddings = self.preset.embeddings.as_ref().map(|row| row.path);
        let path = match kind {
            BatchKind::Text => Some(self.preset.chat_path),
            BatchKind::Embeddings => embeddings,
        };
        path.ok_or_else(|| UpstreamError::connect("the provider does not support embeddings"))
    }
}

#[async_trait]
impl BatchProvider for OpenAiCompatible {
    fn is_enabled(&self) -> bool {
        self.batches.as_ref().is_some_and(|batches| batches.is_enabled)
    }

    fn limits(&self) -> BatchLimits {
        let row = self.batches.as_ref().map(|batches| batches.row);
        BatchLimits {
            requests: row.map_or(0, |row| row.max_requests),
            bytes: row.map_or(0, |row| row.max_bytes),
        }
    }

    fn supports(&self, kind: BatchKind) -> bool {
        self.path_of(kind).is_ok()
    }

    fn write_text(&self, call: &TextCall, name: &str) -> Result<EncodedRequest, UpstreamError> {
        let prepared = self.prepare(call, &self.removed())?;
        Ok(line(name, prepared.path, &prepared.body.joined()))
    }

    fn write_embed(&self, call: &EmbedCall, name: &str) -> Result<EncodedRequest, UpstreamError> {
        let path = self.path_of(BatchKind::Embeddings)?;
        let body = self.with_embed_head(call, |row, head| Ok(self.embed_body(row, call, head)))?;
        Ok(line(name, path, &body))
    }

    async fn stage(
        &self,
        ctx: &CallContext,
        submission: &Submission,
    ) -> Result<Option<String>, UpstreamError> {
        let BatchServer { server, .. } = self.batch_server()?;
        let mut form = Form::new()?;
        form.text("purpose", "batch");
        form.text("expires_after[anchor]", "created_at");
        form.text("expires_after[seconds]", UPLOAD_LIFETIME_SECONDS);
        let requests = submission.requests.iter();
        let lines = requests.flat_map(|request| [request.clone(), Bytes::from_static(b"\n")]);
        form.file_chunks("file", "requests.jsonl", "application/jsonl", lines);
        let path = server.path("/files");
        let file: File = server
            .read(ctx, Request::form(&path, form), MAX_STATUS_BYTES)
            .await?;
        Ok(Some(file.id))
    }

    async fn submit(&self, ctx: &CallContext, submission: &Submission) -> Result<String, UpstreamError> {
        let BatchServer { server, .. } = self.batch_server()?;
        let body = json!({
            "input_file_id": submission.staged,
            "endpoint": format!("/v1{}", self.path_of(submission.kind)?),
            "completion_window": "24h",
            "metadata": {METADATA_KEY: submission.key},
        });
        let path = server.path("/batches");
        let batch: Batch = server
            .read(ctx, Request::json(&path, &body), MAX_STATUS_BYTES)
            .await?;
        Ok(batch.id)
    }

    fn can_find(&self) -> bool {
        true
    }

    async fn find(&self, ctx: &CallContext, key: &str) -> Result<Option<String>, UpstreamError> {
        let BatchServer { server, .. } = self.batch_server()?;
        let mut after = String::new();
        for _ in 0..MAX_PAGES {
            let path = server.path(&format!("/batches?limit={PAGE_SIZE}{after}"));
            let listed: Listed = server.read(ctx, Request::get(&path), MAX_STATUS_BYTES).await?;
            let named = listed
                .data
                .iter()
                .find(|batch| batch.metadata[METADATA_KEY] == key);
            if let Some(found) = named {
                return Ok(Some(found.id.clone()));
            }
            match listed.data.last() {
                Some(last) if listed.has_more => after = format!("&after={}", escape(&last.id, "")),
                _ => break,
            }
        }
        Ok(None)
    }

    async fn poll(&self, ctx: &CallContext, handle: &str) -> Result<BatchState, UpstreamError> {
        let batches = self.batch_server()?;
        let path = batches.batch(handle, "");
        let request = Request::get(&path);
        let batch: Option<Batch> = batches
            .server
            .read_if_found(ctx, request, MAX_STATUS_BYTES)
            .await?;
        Ok(batch.map_or(BatchState::Lost, Batch::state))
    }

    async fn results(&self, ctx: &CallContext, place: &str) -> Result<BatchResults, UpstreamError> {
        let batches = self.batch_server()?;
        let content = batches
            .server
            .download(ctx, &batches.file(place, "/content"))
            .await?;
        Ok(results(content, read))
    }

    async fn cancel(&self, ctx: &CallContext, handle: &str) -> Result<(), UpstreamError> {
        let batches = self.batch_server()?;
        let path = batches.batch(handle, "/cancel");
        batches.server.send_command(ctx, Request::post(&path)).await
    }

    async fn forget(
        &self,
        ctx: &CallContext,
        _: &str,
        staged: Option<&str>,
        places: &[String],
    ) -> Result<(), UpstreamError> {
        let batches = self.batch_server()?;
        for file in staged.into_iter().chain(places.iter().map(String::as_str)) {
            let path = batches.file(file, "");
            batches.server.send_command(ctx, Request::delete(&path)).await?;
        }
        Ok(())
    }

    fn read_text(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        status: u16,
        body: Bytes,
    ) -> Result<TextAnswer, UpstreamError> {
        if !(200..300).contains(&status) {
            return Err(without_retry(refusal::from_body(status, &body)));
        }
        match self.read_whole(ctx, call, Format::ChatCompletions, body, false)? {
            TextReply::Whole(answer) => Ok(answer),
            TextReply::Stream(_) => Err(UpstreamError::protocol("a batch result is a stream")),
        }
    }

    fn read_embed(
        &self,
        ctx: &CallContext,
        call: &EmbedCall,
        status: u16,
        body: Bytes,
    ) -> Result<EmbedAnswer, UpstreamError> {
        if !(200..300).contains(&status) {
            return Err(without_retry(refusal::from_body(status, &body)));
        }
        self.with_embed_head(call, |_, head| self.read_vectors(ctx, head, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read() {
        let response = |status, body: &str| BatchAnswer::Response {
            status,
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        for (text, expected) in [
            (
                r#"{"id":"b","custom_id":"7","response":{"status_code":200,"request_id":"r","body":{"a":1}},"error":null}"#,
                Some(response(200, r#"{"a":1}"#)),
            ),
            (
                r#"{"custom_id":"7","response":{"status_code":400,"body":{"error":{"code":"x"}}},"error":null}"#,
                Some(response(400, r#"{"error":{"code":"x"}}"#)),
            ),
            (
                r#"{"custom_id":"7","response":null,"error":{"code":"batch_expired","message":"late"}}"#,
                Some(BatchAnswer::Expired),
            ),
            (
                r#"{"custom_id":"7","response":null,"error":{"code":"batch_cancelled"}}"#,
                Some(BatchAnswer::Cancelled),
            ),
            (
                r#"{"custom_id":"7","response":null,"error":{"code":"server_error"}}"#,
                Some(response(500, r#"{"error":{"code":"server_error"}}"#)),
            ),
            (r#"{"custom_id":"7","response":null,"error":null}"#, None),
            (r#"{"custom_id":7}"#, None),
            (r#"{"custom_id":"7","response":{"status_code":200,"bo"#, None),
        ] {
            assert_eq!(
                read(text.as_bytes()).map(|result| result.answer),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn unknown_batch_statuses_count_as_running() {
        let state = |status: &str| {
            let batch = json!({"id": "b", "status": status, "output_file_id": "o", "error_file_id": null,
                "errors": {"data": [{"code": "token_limit_exceeded"}]}});
            serde_json::from_value::<Batch>(batch).unwrap().state()
        };
        for status in ["validating", "in_progress", "finalizing", "cancelling", "paused"] {
            assert!(matches!(state(status), BatchState::Running), "{status}");
        }
        assert!(matches!(state("failed"), BatchState::Failed(_)));
        for (status, end) in [
            ("completed", BatchEnd::Complete),
            ("expired", BatchEnd::Expired),
            ("cancelled", BatchEnd::Cancelled),
        ] {
            let BatchState::Ended(places, why) = state(status) else {
                panic!("{status}");
            };
            assert_eq!((places, why), (vec!["o".to_owned()], end));
        }
    }
}
