//! Classifies error responses of upstreams by status and machine-readable codes. Messages are only
//! a fallback, because providers change them: if no known code is present, the message determines
//! whether a token limit was exceeded. The log and callers receive a message only if the provider's
//! settings allow it, with keys redacted.

mod exceeded;

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tollgate_formats::openai_chat::read_error;
use tollgate_types::Retry;
use tollgate_upstream::{RejectedPart, UpstreamCause, UpstreamError, UpstreamErrorKind};

use self::exceeded::{Exceeded, exceeded};
use crate::http::{ErrorTexts, HttpSettings, Response};

/// Error kinds by code: OpenAI's codes unless a comment names another provider. Some statuses take
/// precedence over the code; see [`of_status`].
const ERROR_KINDS: &[(UpstreamErrorKind, &[&str])] = &[
    (
        UpstreamErrorKind::ContextLength,
        &[
            "context_length_exceeded",
            // llama.cpp, as the type.
            "exceed_context_size_error",
        ],
    ),
    (
        UpstreamErrorKind::ContentBlocked,
        &[
            "content_filter",
            "content_policy_violation",
            "moderation_blocked",
            // Replicate, at the end of its message.
            "E005",
            // Azure, as the code of the inner error.
            "ResponsibleAIPolicyViolation",
        ],
    ),
    (
        // The operator's account has no credit or is closed. As for an invalid key, the operator
        // must act.
        UpstreamErrorKind::Credentials,
        &[
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "account_deactivated",
            "invalid_api_key",
            // Anthropic, as the type.
            "authentication_error",
            "billing_error",
            "permission_error",
            // Google, as the reason or the status: an invalid key has status 400.
            "API_KEY_INVALID",
            "API_KEY_SERVICE_BLOCKED",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
            "FAILED_PRECONDITION",
        ],
    ),
    (
        UpstreamErrorKind::Unavailable,
        &[
            "model_not_found",
            // Azure.
            "DeploymentNotFound",
            // Groq.
            "model_decommissioned",
            "model_terms_required",
            // Mistral, as the type.
            "invalid_model",
            // Anthropic, as the type.
            "not_found_error",
            "overloaded_error",
            // Google, as the status.
            "NOT_FOUND",
            "UNAVAILABLE",
            // OpenAI's realtime sessions.
            "conversation_already_has_active_response",
            "session_expired",
        ],
    ),
    (
        UpstreamErrorKind::RateLimited,
        &[
            "rate_limit_exceeded",
            // Anthropic, as the type.
            "rate_limit_error",
            // Google, as the status.
            "RESOURCE_EXHAUSTED",
        ],
    ),
];

/// The field of the chat and completions formats that requests the usage of a stream.
pub(crate) const STREAM_OPTIONS: &str = "stream_options";
/// Maximum size of a code, type or parameter name, in bytes.
const MAX_WORD_BYTES: usize = 96;
/// Maximum retry delay. A longer delay in a response is reduced to this value.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Converts a response with an error status to an error.
pub(crate) async fn from_response(response: Response, settings: &HttpSettings) -> UpstreamError {
    read(response, settings).await.0
}

/// Like [`from_response`], but also returns the first bytes of the body.
pub(crate) async fn read(response: Response, settings: &HttpSettings) -> (UpstreamError, Bytes) {
    let status = response.status;
    let in_header = retry_after(&response);
    let media_type = word(response.media_type()).unwrap_or_default();
    let error_texts = response.error_texts();
    let body = response.read_prefix(settings).await;
    let report = ErrorReport::read(&body);
    let retry_after = in_header.or(report.retry_delay);
    let mut error = of_status(status, &report);
    error.detail = report.describe(&media_type, &body);
    error.upstream_text = error_texts.read(&body);
    error.is_reported = status == 500 && report.is_object;
    if matches!(status, 400 | 422) && memchr::memmem::find(&body, STREAM_OPTIONS.as_bytes()).is_some() {
        error.rejected.get_or_insert(RejectedPart::StreamOptions);
    }
    error.retry = match (error.retry, retry_after) {
        (Retry::Safe, Some(wait)) => Retry::After(wait),
        (retry, _) => retry,
    };
    error.retry_after = retry_after;
    (error, body)
}

/// Converts a status and an error body to an error, without the upstream's message.
pub(crate) fn from_body(status: u16, body: &Bytes) -> UpstreamError {
    let report = ErrorReport::read(body);
    UpstreamError {
        detail: report.describe("", body),
        ..of_status(status, &report)
    }
}

/// Converts the error object of a response with status 200, or of a stream. A retry is not marked
/// as safe, because the upstream may already have processed the request.
pub(crate) fn from_object(body: &Bytes) -> UpstreamError {
    let report = ErrorReport::read(body);
    let kind = match report.status {
        Some(status) => of_status(status, &report).kind,
        None => report.known_kind().unwrap_or(UpstreamErrorKind::Unavailable),
    };
    let detail = format!("the response is an error: {}", report.describe("", body));
    UpstreamError {
        param: report.param,
        status: report.status,
        ..UpstreamError::new(kind, UpstreamCause::Protocol, detail)
    }
}

/// Like [`from_object`], but includes the upstream's message if `error_texts` allows it.
pub(crate) fn from_object_of(error_texts: &ErrorTexts, body: &Bytes) -> UpstreamError {
    UpstreamError {
        upstream_text: error_texts.read(body),
        ..from_object(body)
    }
}

/// Converts the error of an event, `{"error": {…}}`, of a connection that remains open. An error of
/// the type `invalid_request_error` has the meaning of status 400.
pub(crate) fn from_event(error_texts: &ErrorTexts, body: &Bytes) -> UpstreamError {
    let report = ErrorReport::read(body);
    let status = report.status.or(match report.kind.as_deref() {
        Some("invalid_request_error") if report.known_kind().is_none() => Some(400),
        _ => None,
    });
    let kind = match status {
        Some(status) => of_status(status, &report).kind,
        None => report.known_kind().unwrap_or(UpstreamErrorKind::Unavailable),
    };
    let retry = match kind {
        UpstreamErrorKind::RateLimited => Retry::Safe,
        UpstreamErrorKind::Unavailable => Retry::Unknown,
        _ => Retry::Never,
    };
    UpstreamError {
        kind,
        retry,
        upstream_text: error_texts.read(body),
        ..from_object(body)
    }
}

/// Converts the error object of a job that was accepted and failed later.
pub(crate) fn from_failure(object: &Value) -> UpstreamError {
    let body = Bytes::from(object.to_string());
    let report = ErrorReport::read(&body);
    let kind = match report.status {
        Some(status) => of_status(status, &report).kind,
        None => report.known_kind().unwrap_or(UpstreamErrorKind::Unavailable),
    };
    let detail = format!(
        "the provider accepted the job, which then failed: {}",
        report.describe("", &body)
    );
    UpstreamError {
        param: report.param,
        ..UpstreamError::new(kind, UpstreamCause::Status, detail)
    }
}

fn of_status(status: u16, report: &ErrorReport) -> UpstreamError {
    let known_kind = report.known_kind();
    let kind = match status {
        401 | 402 => UpstreamErrorKind::Credentials,
        403 if report.is_flagged => UpstreamErrorKind::ContentBlocked,
        403 => known_kind.unwrap_or(UpstreamErrorKind::Credentials),
        429 if known_kind == Some(UpstreamErrorKind::Credentials) => UpstreamErrorKind::Credentials,
        429 => UpstreamErrorKind::RateLimited,
        404 => UpstreamErrorKind::Unavailable,
        // vLLM names these parameters if a prompt is too long. No format has parameters with these
        // names.
        400 | 422 if matches!(report.param.as_deref(), Some("input_tokens" | "input_text")) => {
            UpstreamErrorKind::ContextLength
        }
        400 | 413 | 422 => known_kind.unwrap_or(match report.exceeded {
            Some(Exceeded::Context) => UpstreamErrorKind::ContextLength,
            _ => UpstreamErrorKind::Rejected,
        }),
        _ => UpstreamErrorKind::Unavailable,
    };
    let cause = match status {
        400..=404 | 408 | 409 | 413 | 422 | 429 | 500..=599 => UpstreamCause::Status,
        // A redirect or an unexpected status.
        _ => UpstreamCause::Protocol,
    };
    let retry = match (kind, status) {
        (UpstreamErrorKind::RateLimited, _) | (_, 408 | 409 | 500 | 502 | 503 | 529) => Retry::Safe,
        (UpstreamErrorKind::Unavailable, 500..=599) => Retry::Unknown,
        _ => Retry::Never,
    };
    UpstreamError {
        status: Some(status),
        param: report.param.clone(),
        rejected: (kind == UpstreamErrorKind::Rejected && report.exceeded == Some(Exceeded::OutputCap))
            .then_some(RejectedPart::OutputCap),
        retry,
        ..UpstreamError::new(kind, cause, String::new())
    }
}

/// Machine-readable parts of an error body.
#[derive(Debug, Default, PartialEq, Eq)]
struct ErrorReport {
    code: Option<String>,
    kind: Option<String>,
    inner: Option<String>,
    param: Option<String>,
    /// HTTP status in the error object.
    status: Option<u16>,
    /// Retry delay, from Google's `RetryInfo`.
    retry_delay: Option<Duration>,
    /// Whether the error contains input that moderation has flagged (OpenRouter).
    is_flagged: bool,
    /// Token limit that the request exceeds according to the message.
    exceeded: Option<Exceeded>,
    /// Whether the body is a JSON object that contains an error.
    is_object: bool,
}

impl ErrorReport {
    /// Parses an error body, including fields that some providers add. Any other body yields an
    /// empty report.
    fn read(body: &[u8]) -> Self {
        let report = read_error(body);
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let upstream_text = |text: &Option<String>| text.as_deref().and_then(word);
        let status = report.code.as_deref().and_then(|code| code.parse().ok());
        // The details in Google's errors are an array of objects.
        let listed = |name: &str| -> Option<&Value> {
            let list = value.pointer("/error/details")?.as_array()?;
            list.iter().find_map(|detail| detail.get(name))
        };
        // Paths in Azure's, Anthropic's and Google's errors.
        let inner = value
            .pointer("/error/innererror/code")
            .or_else(|| value.pointer("/error/details/error_code"))
            .or_else(|| listed("reason"))
            // Path in FastAPI's errors. fal returns its codes there.
            .or_else(|| value.pointer("/detail/0/type"));
        let kind = upstream_text(&report.kind).or_else(|| word(value.pointer("/error/status")?.as_str()?));
        let violation = listed("fieldViolations").and_then(|list| word(list.pointer("/0/field")?.as_str()?));
        let details = [value.get("detail"), value.pointer("/message/detail")];
        Self {
            code: upstream_text(&report.code),
            kind,
            inner: inner.and_then(Value::as_str).and_then(word),
            param: upstream_text(&report.param)
                .or_else(|| details.into_iter().flatten().find_map(location))
                .or(violation),
            exceeded: exceeded(match value.pointer("/detail/0/msg").and_then(Value::as_str) {
                Some(text) => text,
                None => &report.message,
            }),
            retry_delay: listed("retryDelay").and_then(|delay| seconds(delay.as_str()?)),
            status: status.filter(|status| (400..600).contains(status)),
            is_object: value
                .get("error")
                .is_some_and(|error| error.is_object() || error.is_string()),
            is_flagged: value.pointer("/error/metadata/flagged_input").is_some(),
        }
    }

    fn known_kind(&self) -> Option<UpstreamErrorKind> {
        let upstream_text = [&self.inner, &self.code, &self.kind];
        let upstream_text = |codes: &[&str]| {
            upstream_text
                .into_iter()
                .flatten()
                .any(|word| codes.contains(&word.as_str()))
        };
        ERROR_KINDS
            .iter()
            .find(|(_, codes)| upstream_text(codes))
            .map(|(kind, _)| *kind)
    }

    /// Returns the description of the error for the log.
    fn describe(&self, media_type: &str, body: &Bytes) -> String {
        let named = [
            ("code", &self.code),
            ("type", &self.kind),
            ("inner", &self.inner),
            ("param", &self.param),
        ];
        let words: Vec<String> = named
            .into_iter()
            .filter_map(|(name, word)| Some(format!("{name}={}", word.as_ref()?)))
            .collect();
        match (words.is_empty(), body.len(), media_type) {
            (false, _, _) => words.join(" "),
            (true, 0, _) => "the body is empty".to_owned(),
            (true, bytes, "") => format!("no error code in {bytes} bytes"),
            (true, bytes, _) => format!("no error code in {bytes} bytes of {media_type}"),
        }
    }
}

/// Parses a duration in the JSON format of Protocol Buffers, such as `34.5s`.
fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.strip_suffix('s')?.parse::<f64>().ok()?;
    Some(Duration::try_from_secs_f64(seconds).ok()?.min(MAX_RETRY_AFTER))
}

/// Returns the path of a parameter in FastAPI's `[{"loc": ["body", "messages", 0, "role"]}]`.
fn location(detail: &Value) -> Option<String> {
    let steps = detail.get(0)?.get("loc")?.as_array()?;
    let mut path = String::new();
    for step in steps.iter().skip_while(|step| *step == "body") {
        match step {
            Value::String(name) if path.is_empty() => path.push_str(name),
            Value::String(name) => path.push_str(&format!(".{name}")),
            Value::Number(index) => path.push_str(&format!("[{index}]")),
            _ => return None,
        }
    }
    word(&path)
}

/// Returns the text if it is a machine-readable word: 1 to [`MAX_WORD_BYTES`] ASCII letters, digits
/// or `_-.:/[]`.
pub(crate) fn word(text: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/[]".contains(&byte);
    let is_word = !text.is_empty() && text.len() <= MAX_WORD_BYTES && text.bytes().all(fits);
    is_word.then(|| text.to_owned())
}

/// Returns the retry delay of a response: `retry-after-ms`, or `retry-after` in seconds or as a
/// date (RFC 9110, section 10.2.3). A date is compared with the response's `date` header, so that
/// differences between the clocks have no effect.
fn retry_after(response: &Response) -> Option<Duration> {
    let number = |name: &str| response.header(name)?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms")
        .map(|millis| millis / 1_000.0)
        .or_else(|| number("retry-after"))
        .or_else(|| {
            let date = |name: &str| http_date(response.header(name)?);
            Some((date("retry-after")? - date("date")?) as f64)
        })?;
    let wait = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    Some(wait.min(MAX_RETRY_AFTER))
}

/// Parses an HTTP date, such as `Sun, 06 Nov 1994 08:49:37 GMT`, to Unix seconds.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(zoned.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_details_name_codes_or_the_size_of_the_body() {
        let detail = |body: &'static str, media_type: &str| {
            let body = Bytes::from_static(body.as_bytes());
            ErrorReport::read(&body).describe(media_type, &body)
        };
        assert_eq!(detail("", ""), "the body is empty");
        assert_eq!(detail("gone", ""), "no error code in 4 bytes");
        assert_eq!(
            detail("gone", "text/plain"),
            "no error code in 4 bytes of text/plain"
        );
        assert_eq!(
            detail(r#"{"error":{"code":"gone"}}"#, "application/json"),
            "code=gone"
        );
    }
}
