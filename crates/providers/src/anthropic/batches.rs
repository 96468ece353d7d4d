//! Message batches: the submission contains all requests, and the results are one file. Anthropic
//! accepts no batch name from the client, so a batch cannot be found if the response to its
//! submission is lost.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_formats::anthropic_messages::Version;
use tollgate_upstream::{
    BatchAnswer, BatchEnd, BatchKind, BatchLimits, BatchProvider, BatchResult, BatchResults, BatchState,
    CallContext, EmbedAnswer, EmbedCall, EncodedRequest, Submission, TextAnswer, TextCall, TextReply,
    UpstreamError,
};

use super::adapter::{Anthropic, Versions};
use crate::batches::{results, to_single_line, without_retry};
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient, RequestBody, Timeouts, escape};
use crate::media::{MAX_STATUS_BYTES, Request, Server};
use crate::refusal;

const PATH: &str = "/messages/batches";
/// Limits from <https://docs.claude.com/en/docs/build-with-claude/batch-processing>.
const LIMITS: BatchLimits = BatchLimits {
    requests: 100_000,
    bytes: 256_000_000,
};

/// Endpoints of the batch API, and whether the gateway uses them.
#[derive(Debug)]
pub(super) struct BatchServer {
    create_endpoints: Versions,
    is_enabled: bool,
    server: Server,
}

impl BatchServer {
    pub(super) fn new(
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let version = SecretString::from(Version::default().as_str());
        let version = Credential::header("anthropic-version", &version)?;
        Ok(Self {
            create_endpoints: Versions::new(base, PATH, credentials)?,
            is_enabled: false,
            server: Server::new(base, &[&[version], credentials].concat(), http)?,
        })
    }

    fn path(&self, id: &str, what: &str) -> String {
        self.server.path(&format!("{PATH}/{}{what}", escape(id, "")))
    }
}

/// A batch object of the API.
#[derive(Deserialize)]
struct Batch {
    id: String,
    processing_status: String,
    results_url: Option<String>,
    cancel_initiated_at: Option<String>,
}

/// A line of the results file.
#[derive(Deserialize)]
struct Line<'l> {
    custom_id: String,
    #[serde(borrow)]
    result: LineResult<'l>,
}

#[derive(Deserialize)]
struct LineResult<'l> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    message: Option<&'l RawValue>,
    error: Option<Value>,
}

fn read(line: &[u8]) -> Option<BatchResult> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let answer = match line.result.kind.as_str() {
        "succeeded" => BatchAnswer::Response {
            status: 200,
            body: Bytes::copy_from_slice(line.result.message?.get().as_bytes()),
        },
        "errored" => {
            let error = line.result.error?;
            BatchAnswer::Response {
                status: status_of(&error),
                body: error.to_string().into(),
            }
        }
        "canceled" => BatchAnswer::Cancelled,
        "expired" => BatchAnswer::Expired,
        _ => return None,
    };
    Some(BatchResult {
        name: line.custom_id,
        answer,
    })
}

/// Returns the HTTP status that a single request with this error would have had.
fn status_of(error: &Value) -> u16 {
    match error
        .pointer("/error/type")
        .and_then(Value::as_str)
        .unwrap_or_default()
    {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "overloaded_error" => 529,
        _ => 500,
    }
}

impl Anthropic {
    /// Sets whether the provider executes batches with Anthropic's batch API.
    pub fn with_batches(mut self, are_wanted: bool) -> Self {
        self.batches.is_enabled = are_wanted;
        self
    }
}

#[async_trait]
impl BatchProvider for Anthropic {
    fn is_enabled(&self) -> bool {
        self.batches.is_enabled
    }

    fn limits(&self) -> BatchLimits {
        LIMITS
    }

    fn supports(&self, kind: BatchKind) -> bool {
        kind == BatchKind::Text
    }

    /// Encodes a request. The dialect consists of the format version and the previews, separated by
    /// spaces.
    fn write_text(&self, call: &TextCall, name: &str) -> Result<EncodedRequest, UpstreamError> {
        let (body, version) = self.prepare(call)?;
        let head = format!("{{\"custom_id\":{},\"params\":", Value::from(name));
        let text = [head.as_bytes(), &to_single_line(&body), b"}"].concat();
        let dialect = [&[version.as_str()], &call.previews[..]].concat();
        Ok(EncodedRequest {
            text: text.into(),
            dialect: dialect.join(" ").into(),
        })
    }

    fn write_embed(&self, _: &EmbedCall, _: &str) -> Result<EncodedRequest, UpstreamError> {
        Err(UpstreamError::connect("the provider does not support embeddings"))
    }

    async fn submit(&self, ctx: &CallContext, submission: &Submission) -> Result<String, UpstreamError> {
        let create_endpoints = &self.batches.create_endpoints;
        let mut words = submission.dialect.split(' ');
        let version = Version::parse(words.next()).unwrap_or_default();
        let previews: Vec<&str> = words.collect();
        let mut chunks = vec![Bytes::from_static(b"{\"requests\":[")];
        for (place, request) in submission.requests.iter().enumerate() {
            if place > 0 {
                chunks.push(Bytes::from_static(b","));
            }
            chunks.push(request.clone());
        }
        chunks.push(Bytes::from_static(b"]}"));
        let (endpoint, body) = (create_endpoints.of(version), RequestBody::from(chunks));
        let timeouts = Timeouts::of(ctx);
        let response = match self.previews(&previews, PATH)? {
            None => self.http.post(endpoint, body, timeouts).await?,
            Some(variant) => self.http.post_variant(endpoint, variant, body, timeouts).await?,
        };
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        let body = response.whole(MAX_STATUS_BYTES).await?;
        let batch: Result<Batch, _> = serde_json::from_slice(&body);
        let batch = batch.map_err(|_| UpstreamError::protocol("the batch has an unexpected shape"))?;
        Ok(batch.id)
    }

    fn can_find(&self) -> bool {
        false
    }

    async fn find(&self, _: &CallContext, _: &str) -> Result<Option<String>, UpstreamError> {
        Ok(None)
    }

    async fn poll(&self, ctx: &CallContext, handle: &str) -> Result<BatchState, UpstreamError> {
        let batches = &self.batches;
        let path = batches.path(handle, "");
        let request = Request::get(&path);
        let batch: Option<Batch> = batches
            .server
            .read_if_found(ctx, request, MAX_STATUS_BYTES)
            .await?;
        let Some(batch) = batch else {
            return Ok(BatchState::Lost);
        };
        if batch.processing_status != "ended" {
            return Ok(BatchState::Running);
        }
        let own = batch.results_url.and_then(|url| self.base.own_path(&url));
        let place = own.unwrap_or_else(|| batches.path(handle, "/results"));
        let end = match batch.cancel_initiated_at {
            Some(_) => BatchEnd::Cancelled,
            None => BatchEnd::Complete,
        };
        Ok(BatchState::Ended(vec![place], end))
    }

    async fn results(&self, ctx: &CallContext, place: &str) -> Result<BatchResults, UpstreamError> {
        let content = self.batches.server.download(ctx, place).await?;
        Ok(results(content, read))
    }

    async fn cancel(&self, ctx: &CallContext, handle: &str) -> Result<(), UpstreamError> {
        let batches = &self.batches;
        let path = batches.path(handle, "/cancel");
        batches.server.send_command(ctx, Request::post(&path)).await
    }

    async fn forget(
        &self,
        ctx: &CallContext,
        handle: &str,
        _: Option<&str>,
        _: &[String],
    ) -> Result<(), UpstreamError> {
        let batches = &self.batches;
        let path = batches.path(handle, "");
        batches.server.send_command(ctx, Request::delete(&path)).await
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
        match self.read_whole(ctx, call, body)? {
            TextReply::Whole(answer) => Ok(answer),
            TextReply::Stream(_) => Err(UpstreamError::protocol("a batch result is a stream")),
        }
    }

    fn read_embed(
        &self,
        _: &CallContext,
        _: &EmbedCall,
        _: u16,
        _: Bytes,
    ) -> Result<EmbedAnswer, UpstreamError> {
        Err(UpstreamError::connect("the provider does not support embeddings"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn result_lines_are_read() {
        let response = |status, body: &str| BatchAnswer::Response {
            status,
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        let error = r#"{"error":{"message":"m","type":"overloaded_error"},"type":"error"}"#;
        for (result, expected) in [
            (
                json!({"type": "succeeded", "message": {"id": "msg"}}),
                Some(response(200, r#"{"id":"msg"}"#)),
            ),
            (
                json!({"type": "errored", "error": serde_json::from_str::<Value>(error).unwrap()}),
                Some(response(529, error)),
            ),
            (json!({"type": "canceled"}), Some(BatchAnswer::Cancelled)),
            (json!({"type": "expired"}), Some(BatchAnswer::Expired)),
            (json!({"type": "succeeded"}), None),
            (json!({"type": "paused"}), None),
        ] {
            let line = json!({"custom_id": "7", "result": result}).to_string();
            let found = read(line.as_bytes());
            assert_eq!(found.map(|found| found.answer), expected, "{line}");
        }
    }
}
