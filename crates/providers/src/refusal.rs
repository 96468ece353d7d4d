//! What an upstream's refusal means. Status and machine-readable codes decide; prose never does, because providers
//! change it, and never reaches the log, because some of them repeat the prompt or the key in it.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tollgate_formats::openai_chat::read_error;
use tollgate_types::Retry;
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::http::{HttpSettings, Response};

/// Codes of refusals, whatever the status: OpenAI's error codes unless another maker is named.
const MEANINGS: &[(UpstreamErrorKind, &[&str])] = &[
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
            // Replicate, at the end of what it says.
            "E005",
            // Azure, as the code of the inner error.
            "ResponsibleAIPolicyViolation",
        ],
    ),
    (
        // The operator's account is empty or closed. Like a bad key, it stays so until the operator acts.
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
            // Google, as the reason or the status: a key that is none comes with 400.
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

/// The longest code, type or parameter that is believed to be one.
const LONGEST_WORD: usize = 96;
/// The longest wait that an upstream can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The failure that a response with an error status tells of.
pub(crate) async fn from_response(response: Response, settings: &HttpSettings) -> UpstreamError {
    let status = response.status;
    let in_header = retry_after(&response);
    let media_type = word(response.media_type()).unwrap_or_default();
    let body = response.beginning(settings).await;
    let reported = Reported::read(&body);
    let retry_after = in_header.or(reported.retry_delay);
    let mut error = of_status(status, &reported);
    error.detail = reported.describe(&media_type, &body);
    error.retry = match (error.retry, retry_after) {
        (Retry::Safe, Some(wait)) => Retry::After(wait),
        (retry, _) => retry,
    };
    error.retry_after = retry_after;
    error
}

/// The failure that a status and a body tell of, without the rest of a response.
pub(crate) fn from_body(status: u16, body: &Bytes) -> UpstreamError {
    let reported = Reported::read(body);
    UpstreamError {
        detail: reported.describe("", body),
        ..of_status(status, &reported)
    }
}

/// The failure that an error object under a status of 200 tells of, alone or in a stream. The upstream may have worked.
pub(crate) fn from_object(body: &Bytes) -> UpstreamError {
    let reported = Reported::read(body);
    let kind = match reported.status {
        Some(status) => of_status(status, &reported).kind,
        None => reported.meaning().unwrap_or(UpstreamErrorKind::Unavailable),
    };
    let detail = format!("an error instead of an answer: {}", reported.describe("", body));
    UpstreamError {
        param: reported.param,
        status: reported.status,
        ..UpstreamError::new(kind, UpstreamCause::Protocol, detail)
    }
}

/// The failure that an object tells of in which something that was accepted is said to have failed.
pub(crate) fn from_failure(object: &Value) -> UpstreamError {
    let body = Bytes::from(object.to_string());
    let reported = Reported::read(&body);
    let kind = match reported.status {
        Some(status) => of_status(status, &reported).kind,
        None => reported.meaning().unwrap_or(UpstreamErrorKind::Unavailable),
    };
    let detail = format!("it was accepted and failed: {}", reported.describe("", &body));
    UpstreamError {
        param: reported.param,
        ..UpstreamError::new(kind, UpstreamCause::Status, detail)
    }
}

fn of_status(status: u16, reported: &Reported) -> UpstreamError {
    let meaning = reported.meaning();
    let kind = match status {
        401 | 402 => UpstreamErrorKind::Credentials,
        403 if reported.is_flagged => UpstreamErrorKind::ContentBlocked,
        403 => meaning.unwrap_or(UpstreamErrorKind::Credentials),
        429 if meaning == Some(UpstreamErrorKind::Credentials) => UpstreamErrorKind::Credentials,
        429 => UpstreamErrorKind::RateLimited,
        404 => UpstreamErrorKind::Unavailable,
        400 | 413 | 422 => meaning.unwrap_or(UpstreamErrorKind::Rejected),
        _ => UpstreamErrorKind::Unavailable,
    };
    let cause = match status {
        400..=404 | 408 | 409 | 413 | 422 | 429 | 500..=599 => UpstreamCause::Status,
        // A redirect, or a status that makes no sense as an answer to this request.
        _ => UpstreamCause::Protocol,
    };
    let retry = match (kind, status) {
        (UpstreamErrorKind::RateLimited, _) | (_, 408 | 409 | 500 | 502 | 503 | 529) => Retry::Safe,
        (UpstreamErrorKind::Unavailable, 500..=599) => Retry::Unknown,
        _ => Retry::Never,
    };
    UpstreamError {
        status: Some(status),
        param: reported.param.clone(),
        retry,
        ..UpstreamError::new(kind, cause, String::new())
    }
}

/// What an error body says in words for machines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reported {
    code: Option<String>,
    kind: Option<String>,
    inner: Option<String>,
    param: Option<String>,
    /// A status that stands in the body.
    status: Option<u16>,
    /// How long to wait (Google's `RetryInfo`).
    retry_delay: Option<Duration>,
    /// Whether it quotes what a moderation did not like (OpenRouter).
    is_flagged: bool,
}

impl Reported {
    /// Reads an error body, and what some makers add to it. Anything else says nothing.
    fn read(body: &[u8]) -> Self {
        let report = read_error(body);
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let said = |text: &Option<String>| text.as_deref().and_then(word);
        let status = report.code.as_deref().and_then(|code| code.parse().ok());
        // Google's details are a list of objects.
        let listed = |name: &str| -> Option<&Value> {
            let list = value.pointer("/error/details")?.as_array()?;
            list.iter().find_map(|detail| detail.get(name))
        };
        // Azure's place for it, Anthropic's, or Google's.
        let inner = value
            .pointer("/error/innererror/code")
            .or_else(|| value.pointer("/error/details/error_code"))
            .or_else(|| listed("reason"))
            // FastAPI's, which fal has for codes of its own.
            .or_else(|| value.pointer("/detail/0/type"));
        let kind = said(&report.kind).or_else(|| word(value.pointer("/error/status")?.as_str()?));
        let violation = listed("fieldViolations").and_then(|list| word(list.pointer("/0/field")?.as_str()?));
        let details = [value.get("detail"), value.pointer("/message/detail")];
        Self {
            code: said(&report.code),
            kind,
            inner: inner.and_then(Value::as_str).and_then(word),
            param: said(&report.param)
                .or_else(|| details.into_iter().flatten().find_map(location))
                .or(violation),
            retry_delay: listed("retryDelay").and_then(|delay| seconds(delay.as_str()?)),
            status: status.filter(|status| (400..600).contains(status)),
            is_flagged: value.pointer("/error/metadata/flagged_input").is_some(),
        }
    }

    fn meaning(&self) -> Option<UpstreamErrorKind> {
        let said = [&self.inner, &self.code, &self.kind];
        let said = |codes: &[&str]| {
            said.into_iter()
                .flatten()
                .any(|word| codes.contains(&word.as_str()))
        };
        MEANINGS
            .iter()
            .find(|(_, codes)| said(codes))
            .map(|(kind, _)| *kind)
    }

    /// For the log.
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
        if words.is_empty() {
            format!("no error code in {} bytes of {media_type}", body.len())
        } else {
            words.join(" ")
        }
    }
}

/// A duration of protocol buffers: `34.5s`.
fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.strip_suffix('s')?.parse::<f64>().ok()?;
    Some(Duration::try_from_secs_f64(seconds).ok()?.min(LONGEST_WAIT))
}

/// The place that FastAPI names in `[{"loc": ["body", "messages", 0, "role"]}]`.
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

/// The text, if it is a word for machines and not prose.
pub(crate) fn word(text: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/[]".contains(&byte);
    let is_word = !text.is_empty() && text.len() <= LONGEST_WORD && text.bytes().all(fits);
    is_word.then(|| text.to_owned())
}

/// How long the upstream asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date (RFC 9110, section
/// 10.2.3). A date is compared with the response's own, so that no two clocks have to agree.
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
    Some(wait.min(LONGEST_WAIT))
}

/// Seconds since the epoch of `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(zoned.timestamp().as_second())
}
