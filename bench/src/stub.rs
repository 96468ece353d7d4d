//! The stub upstream: the cheapest model server that still speaks the format, so that the measured
//! cost is the gateway's.
//!
//! `POST …/chat/completions`, streamed and not, and `GET …/models`. A directive in the prompt
//! determines the answer ([`crate::payload`]); every event of a stream is one write, and every
//! content chunk contains a clock stamp.

use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::payload::{COMPLETION_TOKENS, PROMPT_TOKENS, Plan};
use crate::wire::{ChunkedBody, Framing, framing, has_header_value};
use crate::{clock, stamp};

/// Command line of the stub.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Where to listen; port 0 picks a free one. The bound address is the first line on stdout.
    #[arg(long, default_value = "127.0.0.1:9100")]
    pub listen: SocketAddr,
    /// Number of worker threads.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

/// Serves until the process ends.
///
/// # Errors
/// When the address cannot be bound.
pub fn run(options: &Options) -> anyhow::Result<()> {
    crate::accounting::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = bind(options.listen)?;
        println!("{}", listener.local_addr()?);
        // The accept loop runs on a worker: on the main thread every connection would move to
        // another thread.
        tokio::spawn(accept(listener)).await?;
        Ok(())
    })
}

/// Binds with a backlog that is enough for the ramp of the largest phase.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

async fn accept(listener: TcpListener) {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            continue;
        };
        let _ = socket.set_nodelay(true);
        tokio::spawn(async move { Connection::new(socket).serve().await });
    }
}

/// The parsed request.
enum Ask {
    Models,
    Whole(Plan),
    Stream { plan: Plan, usage: bool },
    Unknown,
}

struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    fn new(socket: TcpStream) -> Connection {
        Connection {
            socket,
            input: Vec::with_capacity(4096),
            output: Vec::with_capacity(1024),
        }
    }

    async fn serve(mut self) -> io::Result<()> {
        while let Some(ask) = self.read().await? {
            match ask {
                Ask::Models => self.socket.write_all(&MODELS).await?,
                Ask::Whole(plan) => {
                    pause(plan.first_ms).await;
                    self.socket.write_all(&COMPLETION).await?;
                }
                Ask::Stream { plan, usage } => self.stream(plan, usage).await?,
                Ask::Unknown => self.socket.write_all(&NOT_FOUND).await?,
            }
        }
        Ok(())
    }

    /// Reads one request; `None` when the client has closed or does not speak HTTP.
    async fn read(&mut self) -> io::Result<Option<Ask>> {
        let (head_length, kind, framing, expects) = loop {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&self.input) {
                Ok(httparse::Status::Complete(length)) => {
                    let kind = Kind::of(request.method, request.path);
                    let expects = has_header_value(request.headers, "expect", "100-continue");
                    break (length, kind, framing(request.headers), expects);
                }
                Ok(httparse::Status::Partial) => {}
                Err(_) => return Ok(None),
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        };
        if expects {
            self.socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let (ask, end) = match framing {
            Framing::Chunked => {
                let Some((body, end)) = self.read_chunked(head_length).await? else {
                    return Ok(None);
                };
                (kind.ask(&body), end)
            }
            Framing::Length(length) => {
                let end = head_length + length;
                if !self.read_until(end).await? {
                    return Ok(None);
                }
                (kind.ask(&self.input[head_length..end]), end)
            }
            Framing::Unstated => (kind.ask(&[]), head_length),
        };
        self.input.drain(..end);
        Ok(Some(ask))
    }

    async fn read_until(&mut self, end: usize) -> io::Result<bool> {
        self.input.reserve(end.saturating_sub(self.input.len()));
        while self.input.len() < end {
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn read_chunked(&mut self, start: usize) -> io::Result<Option<(Vec<u8>, usize)>> {
        let mut body = Vec::new();
        let mut decoder = ChunkedBody::default();
        let mut at = start;
        loop {
            let mut fresh = &self.input[at..];
            while let Some(data) = decoder.take(&mut fresh) {
                body.extend_from_slice(data);
            }
            at = self.input.len() - fresh.len();
            if decoder.ended() {
                return Ok(Some((body, at)));
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn stream(&mut self, plan: Plan, usage: bool) -> io::Result<()> {
        pause(plan.first_ms).await;
        self.output.extend_from_slice(&EVENTS.opening);
        self.flush().await?;
        for chunk in 0..plan.chunks {
            if chunk > 0 {
                pause(plan.pace_ms).await;
            }
            self.output.extend_from_slice(&EVENTS.content);
            stamp::write_instant(&mut self.output, EVENTS.stamp_at, clock::now_ns());
            self.flush().await?;
        }
        self.output.extend_from_slice(&EVENTS.finish);
        self.flush().await?;
        if usage {
            let event = chunk_event(&format!("[],{}", usage_member(plan.chunks)));
            self.output.extend_from_slice(&http_chunk(&event));
            self.flush().await?;
        }
        self.output
            .extend_from_slice(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }
}

async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Chat,
    Models,
    Unknown,
}

impl Kind {
    fn of(method: Option<&str>, path: Option<&str>) -> Kind {
        let path = path.unwrap_or_default().split('?').next().unwrap_or_default();
        match method {
            Some("POST") if path.ends_with("/chat/completions") => Kind::Chat,
            Some("GET") if path.ends_with("/models") => Kind::Models,
            _ => Kind::Unknown,
        }
    }

    fn ask(self, body: &[u8]) -> Ask {
        match self {
            Kind::Models => Ask::Models,
            Kind::Unknown => Ask::Unknown,
            Kind::Chat => {
                let plan = Plan::of_body(body);
                if is_true(body, b"\"stream\"") {
                    Ask::Stream {
                        plan,
                        usage: is_true(body, b"\"include_usage\""),
                    }
                } else {
                    Ask::Whole(plan)
                }
            }
        }
    }
}

/// Returns whether the body has this member with the value `true`. A member name inside a prompt
/// has its quotes escaped, so a search for the bytes is enough.
fn is_true(body: &[u8], member: &[u8]) -> bool {
    let Some(at) = memmem::find(body, member) else {
        return false;
    };
    let value = body[at + member.len()..]
        .iter()
        .position(|byte| !matches!(byte, b' ' | b':' | b'\n' | b'\r' | b'\t'));
    value.is_some_and(|skip| body[at + member.len() + skip..].starts_with(b"true"))
}

const CHUNK_HEAD: &str = r#""id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1763600000,"model":"stub-model","system_fingerprint":"fp_stub""#;
const ANSWER: &str =
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog again.";

static MODELS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    json_answer(
        "200 OK",
        r#"{"object":"list","data":[{"id":"stub-model","object":"model","created":1763600000,"owned_by":"stub"}]}"#,
    )
});

static NOT_FOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    json_answer(
        "404 Not Found",
        r#"{"error":{"message":"no such path","type":"invalid_request_error","code":"not_found","param":null}}"#,
    )
});

static COMPLETION: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let body = format!(
        r#"{{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1763600000,"model":"stub-model","choices":[{{"index":0,"message":{{"role":"assistant","content":"{ANSWER}","refusal":null}},"logprobs":null,"finish_reason":"stop"}}],{},"system_fingerprint":"fp_stub"}}"#,
        usage_member(COMPLETION_TOKENS)
    );
    json_answer("200 OK", &body)
});

/// The chunks of a stream in wire format.
struct Events {
    opening: Vec<u8>,
    content: Vec<u8>,
    stamp_at: usize,
    finish: Vec<u8>,
}

static EVENTS: LazyLock<Events> = LazyLock::new(|| {
    let choice = |delta: &str, finish: &str| {
        let choices = format!(r#"[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]"#);
        http_chunk(&chunk_event(&choices))
    };
    let mut opening = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    opening.extend_from_slice(&choice(r#"{"role":"assistant","content":""}"#, "null"));
    let content = choice(&format!(r#"{{"content":"{}"}}"#, stamp::BLANK), "null");
    let stamp_at = memmem::find(&content, stamp::BLANK.as_bytes()).unwrap_or_default();
    Events {
        opening,
        content,
        stamp_at,
        finish: choice("{}", r#""stop""#),
    }
});

fn chunk_event(choices: &str) -> String {
    format!("data: {{{CHUNK_HEAD},\"choices\":{choices}}}\n\n")
}

fn usage_member(completion: u64) -> String {
    format!(
        r#""usage":{{"prompt_tokens":{PROMPT_TOKENS},"completion_tokens":{completion},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":0}}}}"#,
        PROMPT_TOKENS + completion
    )
}

fn http_chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

fn json_answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_that_the_stub_sends_is_json() {
        let body = |answer: &[u8]| {
            let start = memmem::find(answer, b"\r\n\r\n").unwrap() + 4;
            serde_json::from_slice::<serde_json::Value>(&answer[start..]).unwrap()
        };
        assert_eq!(body(&COMPLETION)["usage"]["completion_tokens"], COMPLETION_TOKENS);
        assert_eq!(body(&MODELS)["data"][0]["id"], "stub-model");
        assert_eq!(body(&NOT_FOUND)["error"]["code"], "not_found");
        let usage = chunk_event(&format!("[],{}", usage_member(100)));
        let usage: serde_json::Value = serde_json::from_str(usage.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(usage["usage"]["total_tokens"], 220);
    }

    #[test]
    fn members_are_found_and_prompt_text_is_not() {
        assert!(is_true(br#"{"stream": true}"#, b"\"stream\""));
        assert!(is_true(
            br#"{"stream_options":{"include_usage":true},"stream":true}"#,
            b"\"include_usage\""
        ));
        assert!(!is_true(br#"{"stream":false}"#, b"\"stream\""));
        assert!(!is_true(br#"{"content":"say \"stream\": true"}"#, b"\"stream\""));
        assert!(!is_true(br#"{"stream""#, b"\"stream\""));
    }

    #[test]
    fn paths_are_distinguished() {
        let ask = |method, path| Kind::of(Some(method), Some(path)).ask(br#"{"stream":true}"#);
        assert!(matches!(
            ask("POST", "/v1/chat/completions"),
            Ask::Stream { usage: false, .. }
        ));
        assert!(matches!(ask("GET", "/v1/models?limit=1"), Ask::Models));
        assert!(matches!(ask("GET", "/v1/chat/completions"), Ask::Unknown));
    }
}
