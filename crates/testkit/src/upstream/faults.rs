//! Every fault of an upstream by name, for tables of tests and for directives in a prompt.

use std::time::Duration;

use serde_json::json;

use super::answer::{Answer, Usage, UsagePosition};
use super::delivery::{At, Framing, How, LineEnd, Writes};
use super::reply::Reply;

/// A named fault.
#[derive(Debug)]
pub struct Fault {
    /// The name, as in `[[fault=hang]]`.
    pub name: &'static str,
    /// The outcome for a correct reader.
    pub outcome: Outcome,
    make: fn() -> Reply,
}

/// The outcome of a reply for a correct HTTP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A complete answer with unusual bytes or usage.
    Answer,
    /// An error, or a response that is not an answer.
    Failure,
    /// No more bytes, or endless bytes: the client needs a timeout or a limit.
    Endless,
}

impl Fault {
    /// Returns the reply with this fault.
    pub fn reply(&self) -> Reply {
        (self.make)()
    }
}

/// Finds a fault by name.
pub fn fault(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|fault| fault.name == name)
}

const fn answer(name: &'static str, make: fn() -> Reply) -> Fault {
    Fault {
        name,
        outcome: Outcome::Answer,
        make,
    }
}

const fn failure(name: &'static str, make: fn() -> Reply) -> Fault {
    Fault {
        name,
        outcome: Outcome::Failure,
        make,
    }
}

const fn endless(name: &'static str, make: fn() -> Reply) -> Fault {
    Fault {
        name,
        outcome: Outcome::Endless,
        make,
    }
}

fn usage(usage: Usage) -> Reply {
    Reply::answer(
        Answer::words(4)
            .usage(usage)
            .usage_position(UsagePosition::Always),
    )
}

fn raw_usage(prompt: &str, completion: &str) -> Reply {
    let text = format!(
        r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{completion}}}"#
    );
    usage(Usage::Raw(text))
}

fn position(position: UsagePosition) -> Reply {
    Reply::answer(Answer::words(4).usage_position(position))
}

/// Returns a reply of ten words, which is long enough to break off in the middle.
fn words() -> Reply {
    Reply::words(10)
}

fn chunks(bytes: usize, milliseconds: u64) -> Writes {
    Writes::Chunks {
        bytes,
        pause: Duration::from_millis(milliseconds),
    }
}

/// All faults. In a stream of ten words, event 0 is the role, events 1 to 10 are the words, and
/// event 11 is the finish.
pub const FAULTS: &[Fault] = &[
    // Faults of the connection.
    endless("hang", Reply::hang),
    endless("hang-after-headers", || words().cut(At::Head, How::Hang)),
    endless("hang-mid-body", || {
        words().cut(At::Events(5), How::Hang).framing(Framing::Chunked)
    }),
    failure("reset", Reply::reset),
    failure("reset-after-headers", || words().cut(At::Head, How::Reset)),
    failure("reset-mid-body", || {
        words()
            .cut(At::InsideEvent(5), How::Reset)
            .framing(Framing::Chunked)
    }),
    failure("reset-before-body-is-read", || {
        words().cut(At::Start, How::Reset).before_body()
    }),
    failure("close", || words().cut(At::Start, How::Close)),
    failure("close-inside-headers", || words().cut(At::InsideHead, How::Close)),
    failure("close-after-headers", || words().cut(At::Head, How::Close)),
    failure("close-mid-body", || words().cut(At::Bytes(100), How::Close)),
    failure("close-short-of-content-length", || {
        words().cut(At::End, How::Close).framing(Framing::ContentLength)
    }),
    failure("close-without-last-chunk", || {
        words().cut(At::End, How::Close).framing(Framing::Chunked)
    }),
    answer("close-as-end-of-body", || words().framing(Framing::UntilClose)),
    answer("close-after-answer", || words().close()),
    // Invalid or incomplete HTTP.
    failure("garbage", || {
        Reply::raw(&b"\x16\x03\x01\x02\x00 not http at all \xff\xfe\r\n\r\n"[..])
    }),
    failure("bad-status-line", || {
        Reply::raw("HTTP/1.1 two-hundred OK\r\n\r\n")
    }),
    failure("bad-chunk-size", || {
        Reply::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        )
    }),
    failure("endless-header", || {
        Reply::raw(format!(
            "HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n",
            "a".repeat(1 << 20)
        ))
    }),
    failure("many-headers", || {
        Reply::raw(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-one: 1\r\n".repeat(5_000)))
    }),
    failure("redirect", || {
        Reply::body(302, "text/plain", "").header("location", "http://127.0.0.1:9/v1/chat/completions")
    }),
    // A status of 200 without an answer.
    failure("empty", || Reply::body(200, "application/json", "")),
    failure("no-content", || Reply::body(204, "application/json", "")),
    failure("html", || Reply::html(200)),
    failure("truncated-json", || {
        Reply::body(
            200,
            "application/json",
            r#"{"id":"chatcmpl-1","object":"chat.completion","choices":[{"ind"#,
        )
    }),
    failure("invalid-json", || {
        Reply::body(200, "application/json", "{id: 'chatcmpl-1', choices: []}")
    }),
    failure("other-json", || {
        Reply::body(200, "application/json", r#"{"hello":"world"}"#)
    }),
    failure("json-array", || Reply::body(200, "application/json", "[]")),
    failure("no-choices", || {
        let body = json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": []});
        Reply::body(200, "application/json", body.to_string())
    }),
    failure("error-body-200", || {
        words().error_after(0, "server_error", "The server had an error.")
    }),
    answer("wrong-content-type", || words().content_type("text/html")),
    failure("gzip", || words().gzip()),
    // Faults of streams. If the request has no `stream`, scripted answers are sent as ordinary
    // answers.
    failure("empty-stream", || Reply::events::<&str>([])),
    failure("only-done", || Reply::events(["[DONE]"])),
    failure("invalid-event", || {
        Reply::events([r#"{"id":"chatcmpl-1","choices":[{"#, "[DONE]"])
    }),
    failure("sse-cut-mid-event", || {
        words()
            .cut(At::InsideEvent(5), How::Close)
            .framing(Framing::UntilClose)
    }),
    failure("sse-cut-between-events", || {
        words()
            .cut(At::Events(5), How::Close)
            .framing(Framing::UntilClose)
    }),
    answer("no-done", || words().without_done()),
    failure("error-event", || {
        words().error_after(5, "server_error", "The server had an error.")
    }),
    failure("role-then-error", || {
        words().error_after(1, "server_error", "The server had an error.")
    }),
    failure("error-first", || {
        words().error_after(0, "server_error", "The server had an error.")
    }),
    endless("endless", || words().endless()),
    answer("drip", || Reply::words(3).writes(chunks(1, 1))),
    answer("split", || words().writes(chunks(7, 0))),
    answer("whole", || words().writes(Writes::Whole)),
    answer("crlf", || words().line_end(LineEnd::CrLf)),
    answer("cr", || words().line_end(LineEnd::Cr)),
    answer("comments", || words().comments()),
    answer("event-lines", || words().event_lines()),
    answer("no-space", || words().no_space()),
    answer("several-lines", || words().several_lines()),
    answer("byte-order-mark", || words().byte_order_mark()),
    answer("long-event", || Reply::answer(Answer::long_token(1 << 20))),
    // Faults of the usage.
    answer("usage-missing", || usage(Usage::Missing)),
    answer("usage-null", || usage(Usage::Null)),
    answer("usage-zero", || {
        usage(Usage::Fixed {
            prompt: 0,
            completion: 0,
        })
    }),
    answer("usage-huge", || {
        raw_usage("18446744073709551615", "18446744073709551615")
    }),
    answer("usage-beyond-u64", || {
        raw_usage("7", "99999999999999999999999999")
    }),
    answer("usage-negative", || raw_usage("-5", "-7")),
    answer("usage-float", || raw_usage("5.5", "1e3")),
    answer("usage-string", || raw_usage("\"12\"", "\"34\"")),
    answer("usage-inconsistent", || {
        usage(Usage::Raw(
            r#"{"prompt_tokens":5,"completion_tokens":4,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":50}}"#
                .to_owned(),
        ))
    }),
    answer("usage-always", || position(UsagePosition::Always)),
    answer("usage-with-finish", || position(UsagePosition::WithFinish)),
    answer("usage-every-chunk", || position(UsagePosition::EveryChunk)),
    answer("usage-twice", || position(UsagePosition::Twice)),
    // Error statuses.
    failure("400", || {
        Reply::error(400, "invalid_value", "Invalid value for 'temperature'.")
    }),
    failure("401", || {
        Reply::error(401, "invalid_api_key", "Incorrect API key provided: sk-secret.")
    }),
    failure("403", || {
        Reply::error(403, "unsupported_country", "Country not supported.")
    }),
    failure("404", || {
        Reply::error(404, "model_not_found", "The model does not exist.")
    }),
    failure("408", || {
        Reply::error(408, "request_timeout", "Request timed out.")
    }),
    failure("429", || {
        Reply::error(429, "rate_limit_exceeded", "Rate limit reached.").header("retry-after", "1")
    }),
    failure("429-long", || {
        Reply::error(429, "rate_limit_exceeded", "Rate limit.").header("retry-after", "3600")
    }),
    failure("429-quota", || {
        Reply::error(429, "insufficient_quota", "You exceeded your current quota.")
    }),
    failure("500", || {
        Reply::error(500, "server_error", "The server had an error.")
    }),
    failure("502", || Reply::error(502, "bad_gateway", "Bad gateway.")),
    failure("503", || {
        Reply::error(503, "overloaded", "The engine is overloaded.").header("retry-after", "1")
    }),
    failure("529", || Reply::error(529, "overloaded", "Overloaded.")),
    failure("html-404", || Reply::html(404)),
    failure("html-429", || Reply::html(429)),
    failure("html-502", || Reply::html(502)),
    failure("html-503", || Reply::html(503)),
    failure("empty-500", || Reply::body(500, "text/plain", "")),
    failure("context-length", || {
        Reply::error(
            400,
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens.",
        )
    }),
    failure("content-policy", || {
        Reply::error(
            400,
            "content_policy_violation",
            "Your request was rejected by our safety system.",
        )
    }),
];
