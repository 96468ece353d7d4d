//! A raw HTTP/1 client that shares no code with the upstream, and reports exactly how a response
//! ended.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::FakeUpstream;

/// Time without bytes that counts as a hang. It is far longer than any scripted pause.
const SILENCE: Duration = Duration::from_secs(6);
/// Maximum size of a response, in bytes. A larger response counts as endless.
const LONGEST: usize = 4 << 20;

/// Outcome of reading a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The response ended where its framing specifies.
    Whole,
    /// The connection ended before the end that the framing specifies.
    Short,
    /// The connection was reset.
    Reset,
    /// No more bytes arrived, or too many.
    Endless,
    /// The bytes are not an HTTP response.
    NotHttp,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub ended: Ended,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Parses the payloads of an event stream by the rules of WHATWG HTML.
    pub fn events(&self) -> Vec<String> {
        let text = self.text().replace("\r\n", "\n").replace('\r', "\n");
        let mut events = Vec::new();
        let mut data: Vec<&str> = Vec::new();
        for line in text.trim_start_matches('\u{feff}').split('\n') {
            if let Some(value) = line.strip_prefix("data:") {
                data.push(value.strip_prefix(' ').unwrap_or(value));
            } else if line.is_empty() && !data.is_empty() {
                events.push(data.join("\n"));
                data.clear();
            }
        }
        events
    }

    /// Returns the chunks of a streamed answer, without `[DONE]`.
    pub fn chunks(&self) -> Vec<Value> {
        let events = self.events();
        events
            .iter()
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub async fn to(upstream: &FakeUpstream) -> Self {
        Self {
            stream: TcpStream::connect(upstream.address()).await.unwrap(),
            buffer: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub async fn send_chat(&mut self, body: &Value) {
        self.send(&post("/v1/chat/completions", &body.to_string())).await;
    }

    pub async fn chat(&mut self, body: &Value) -> Response {
        self.send_chat(body).await;
        self.read().await
    }

    pub async fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: upstream\r\n\r\n").as_bytes())
            .await;
        self.read().await
    }

    /// Whether the upstream has closed the connection in order.
    pub async fn closed(&mut self) -> bool {
        assert!(self.buffer.is_empty());
        matches!(self.stream.read(&mut [0; 16]).await, Ok(0))
    }

    /// Reads until the buffer contains this text; the connection stays open.
    pub async fn read_until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.buffer).contains(text) {
            assert_eq!(self.more().await, None);
        }
    }

    /// Reads more bytes. Returns the reason if no more bytes arrive.
    async fn more(&mut self) -> Option<Ended> {
        self.buffer.reserve(65_536);
        match timeout(SILENCE, self.stream.read_buf(&mut self.buffer)).await {
            Err(_) => Some(Ended::Endless),
            Ok(Ok(0)) => Some(Ended::Short),
            Ok(Ok(_)) if self.buffer.len() > LONGEST => Some(Ended::Endless),
            Ok(Ok(_)) => None,
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionReset => Some(Ended::Reset),
            Ok(Err(error)) => panic!("{error}"),
        }
    }

    pub async fn read(&mut self) -> Response {
        let mut response = Response {
            status: 0,
            headers: Vec::new(),
            body: Vec::new(),
            ended: Ended::Whole,
        };
        let head = loop {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut parsed = httparse::Response::new(&mut headers);
            match parsed.parse(&self.buffer) {
                Ok(httparse::Status::Complete(size)) => {
                    response.status = parsed.code.unwrap();
                    response.headers = parsed
                        .headers
                        .iter()
                        .map(|header| {
                            (
                                header.name.to_lowercase(),
                                String::from_utf8(header.value.to_vec()).unwrap(),
                            )
                        })
                        .collect();
                    break size;
                }
                Ok(httparse::Status::Partial) => {
                    if let Some(ended) = self.more().await {
                        response.ended = ended;
                        return response;
                    }
                }
                Err(_) => {
                    response.ended = Ended::NotHttp;
                    return response;
                }
            }
        };
        self.buffer.drain(..head);
        (response.body, response.ended) = if response.status == 204 {
            (Vec::new(), Ended::Whole)
        } else if response.header("transfer-encoding") == Some("chunked") {
            self.read_chunked().await
        } else if let Some(length) = response.header("content-length") {
            self.read_counted(length.parse().unwrap()).await
        } else {
            self.read_to_end().await
        };
        response
    }

    async fn read_counted(&mut self, length: usize) -> (Vec<u8>, Ended) {
        while self.buffer.len() < length {
            if let Some(ended) = self.more().await {
                return (std::mem::take(&mut self.buffer), ended);
            }
        }
        (self.buffer.drain(..length).collect(), Ended::Whole)
    }

    async fn read_to_end(&mut self) -> (Vec<u8>, Ended) {
        let ended = loop {
            match self.more().await {
                None => {}
                Some(Ended::Short) => break Ended::Whole,
                Some(ended) => break ended,
            }
        };
        (std::mem::take(&mut self.buffer), ended)
    }

    async fn read_chunked(&mut self) -> (Vec<u8>, Ended) {
        let mut body = Vec::new();
        loop {
            while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let digits = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                let Ok(size) = usize::from_str_radix(&digits, 16) else {
                    return (body, Ended::NotHttp);
                };
                if self.buffer.len() < end + 2 + size + 2 {
                    break;
                }
                body.extend_from_slice(&self.buffer[end + 2..end + 2 + size]);
                self.buffer.drain(..end + 2 + size + 2);
                if size == 0 {
                    return (body, Ended::Whole);
                }
                if body.len() > LONGEST {
                    return (body, Ended::Endless);
                }
            }
            if let Some(ended) = self.more().await {
                return (body, ended);
            }
        }
    }
}

pub fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: upstream\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
