//! One keep-alive connection that sends a request and reads the whole answer, in a separate thread.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::report::Tally;
use crate::clock::now_ns;
use crate::stamp::StampReader;
use crate::wire::{ChunkedBody, Framing, framing, has_header_value};

/// Timeout of every read; a server that stalls for so long counts as bad.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an answer that are stored, to check it and to quote it when it is bad.
const MAX_CAPTURED_BYTES: usize = 4096;

/// Properties of a complete answer.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Content chunks of the stream; 0 for an answer that is not streamed.
    pub chunks: u64,
}

/// A connection to the server under load.
pub struct Connection {
    address: SocketAddr,
    socket: Option<TcpStream>,
    buffer: Vec<u8>,
    head: Vec<u8>,
}

/// The parsed head of an answer.
struct Head {
    status: u16,
    framing: Framing,
    closes: bool,
    streams: bool,
}

/// The body of one answer as it arrives.
struct Body<'a> {
    head: Head,
    decoder: ChunkedBody,
    received: usize,
    stamps: StampReader,
    captured: Vec<u8>,
    tally: &'a mut Tally,
}

impl Connection {
    /// Returns a connection that connects at the first request.
    pub fn new(address: SocketAddr) -> Connection {
        Connection {
            address,
            socket: None,
            buffer: vec![0; 32 * 1024],
            head: Vec::with_capacity(1024),
        }
    }

    /// Sends one request that is not measured.
    ///
    /// # Errors
    /// When the answer is not complete with status 200.
    pub fn probe(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.exchange(request, now_ns(), Expected { chunks: 0 }, &mut Tally::new())
    }

    /// Sends one request, whose latency counts from `since` (of [`now_ns`]).
    pub(super) fn exchange(
        &mut self,
        request: &[u8],
        since: u64,
        expected: Expected,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        // The socket is stored again only after a complete answer: after an error the next request
        // connects anew.
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.connect()?,
        };
        socket.write_all(request).context("writing the request")?;
        let (head, start) = self.read_head(&mut socket)?;
        let mut body = Body::new(head, tally);
        let arrived = self.head.split_off(start);
        body.receive(&arrived, since);
        while !body.ended() {
            let length = socket.read(&mut self.buffer).context("reading the body")?;
            if length == 0 {
                ensure!(
                    body.head.framing == Framing::Unstated,
                    "closed in the middle of the body"
                );
                break;
            }
            body.receive(&self.buffer[..length], since);
        }
        let took = now_ns().saturating_sub(since);
        if !body.head.closes && body.head.framing != Framing::Unstated {
            self.socket = Some(socket);
        }
        body.judge(expected)?;
        tally.latency.record(took);
        Ok(())
    }

    fn connect(&self) -> anyhow::Result<TcpStream> {
        let socket = TcpStream::connect(self.address).context("connecting")?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(socket)
    }

    /// Reads the head into `self.head`; returns it with the offset of the body in `self.head`.
    fn read_head(&mut self, socket: &mut TcpStream) -> anyhow::Result<(Head, usize)> {
        self.head.clear();
        loop {
            let length = socket.read(&mut self.buffer).context("reading the head")?;
            ensure!(length > 0, "closed before the head");
            self.head.extend_from_slice(&self.buffer[..length]);
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut answer = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(start) = answer.parse(&self.head).context("parsing the head")?
            else {
                continue;
            };
            let sse = |header: &&mut httparse::Header<'_>| {
                header.name.eq_ignore_ascii_case("content-type")
                    && header.value.starts_with(b"text/event-stream")
            };
            let head = Head {
                status: answer.code.unwrap_or_default(),
                framing: framing(answer.headers),
                closes: has_header_value(answer.headers, "connection", "close"),
                streams: answer.headers.iter_mut().any(|header| sse(&header)),
            };
            return Ok((head, start));
        }
    }
}

impl<'a> Body<'a> {
    fn new(head: Head, tally: &'a mut Tally) -> Body<'a> {
        let (decoder, stamps) = (ChunkedBody::default(), StampReader::default());
        Body {
            head,
            decoder,
            received: 0,
            stamps,
            captured: Vec::new(),
            tally,
        }
    }

    fn receive(&mut self, mut bytes: &[u8], since: u64) {
        if bytes.is_empty() {
            return;
        }
        let now = now_ns();
        if self.received == 0 && self.head.streams {
            self.tally.first_byte.record(now.saturating_sub(since));
        }
        self.received += bytes.len();
        if self.head.framing == Framing::Chunked {
            while let Some(payload) = self.decoder.take(&mut bytes) {
                Body::read(
                    &self.head,
                    &mut self.stamps,
                    &mut self.captured,
                    self.tally,
                    payload,
                    now,
                );
            }
        } else {
            Body::read(
                &self.head,
                &mut self.stamps,
                &mut self.captured,
                self.tally,
                bytes,
                now,
            );
        }
    }

    fn read(
        head: &Head,
        stamps: &mut StampReader,
        captured: &mut Vec<u8>,
        tally: &mut Tally,
        payload: &[u8],
        now: u64,
    ) {
        if head.streams {
            stamps.feed(payload, |sent| {
                tally.transit.record(now.saturating_sub(sent));
                tally.chunks += 1;
            });
        } else if captured.len() < MAX_CAPTURED_BYTES {
            captured.extend_from_slice(payload);
        }
    }

    fn ended(&self) -> bool {
        match self.head.framing {
            Framing::Chunked => self.decoder.ended(),
            Framing::Length(length) => self.received >= length,
            Framing::Unstated => false,
        }
    }

    fn judge(&self, expected: Expected) -> anyhow::Result<()> {
        if self.head.status != 200 {
            let quote: String = String::from_utf8_lossy(&self.captured)
                .chars()
                .take(300)
                .collect();
            bail!("status {}: {quote}", self.head.status);
        }
        if expected.chunks == 0 {
            // Members of chat completions, and of messages.
            let marks: [&[u8]; 2] = [b"\"choices\"", b"\"stop_reason\""];
            let answered = |mark: &&[u8]| memchr::memmem::find(&self.captured, mark).is_some();
            ensure!(marks.iter().any(answered), "the response has no choices");
            return Ok(());
        }
        let seen = self.stamps.stamps();
        ensure!(
            seen == expected.chunks,
            "{seen} content chunks of {}",
            expected.chunks
        );
        ensure!(self.stamps.done(), "the stream has no [DONE]");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
