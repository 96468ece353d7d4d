//! Reads heads, and bodies chunk by chunk.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

use super::response::Head;
use crate::gateway::wait::in_time;

const MAX_HEADERS: usize = 64;

/// The reading half of a connection.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) half: OwnedReadHalf,
    buffer: BytesMut,
}

/// Framing of a body: the way in which its end is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Empty,
    Counted(usize),
    Chunked,
    UntilClose,
}

impl Incoming {
    pub(super) fn new(half: OwnedReadHalf) -> Self {
        Self {
            half,
            buffer: BytesMut::with_capacity(16 * 1024),
        }
    }

    /// Reads more bytes. Returns false at the end of the connection, in order or not.
    async fn more(&mut self) -> bool {
        let read = in_time("bytes from the gateway", self.half.read_buf(&mut self.buffer)).await;
        read.is_ok_and(|count| count > 0)
    }

    /// Waits for the end of the connection. Returns true if it ended in order and no bytes came
    /// before the end.
    pub(super) async fn closes(&mut self) -> bool {
        let end = in_time("the end of the connection", self.half.read_buf(&mut self.buffer)).await;
        self.buffer.is_empty() && end.is_ok_and(|count| count == 0)
    }

    /// Reads the next head; `None` if the connection ends before the head is complete.
    ///
    /// # Panics
    /// If the bytes are not HTTP.
    pub(super) async fn head(&mut self) -> Option<Head> {
        loop {
            match parse_head(&mut self.buffer).unwrap_or_else(|error| panic!("{error}: {:?}", self.buffer)) {
                // Skips informational responses such as 100 Continue.
                Some(head) if head.status < 200 => {}
                Some(head) => return Some(head),
                None if self.more().await => {}
                None => return None,
            }
        }
    }

    /// Returns the next chunk of a body; `Ok(None)` at its proper end.
    ///
    /// # Errors
    /// The connection ended first; the bytes already read of a body with a length are lost.
    pub(super) async fn chunk(&mut self, framing: &mut Framing) -> io::Result<Option<Vec<u8>>> {
        let chunk = match *framing {
            Framing::Empty | Framing::Counted(0) => None,
            Framing::Counted(length) => Some(self.take(length).await?),
            Framing::Chunked => self.read_chunk().await?,
            Framing::UntilClose => {
                while self.more().await {}
                Some(self.buffer.split().to_vec())
            }
        };
        if *framing != Framing::Chunked || chunk.is_none() {
            *framing = Framing::Empty;
        }
        Ok(chunk)
    }

    async fn read_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line().await?;
        let size =
            usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("{line:?}: not a chunk size"));
        if size == 0 {
            while !self.line().await?.is_empty() {}
            return Ok(None);
        }
        let mut chunk = self.take(size + 2).await?;
        assert_eq!(chunk.split_off(size), b"\r\n", "a chunk ends with its line");
        Ok(Some(chunk))
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer.split_to(end);
                self.buffer.advance(2);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            self.need_more().await?;
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.need_more().await?;
        }
        Ok(self.buffer.split_to(length).to_vec())
    }

    async fn need_more(&mut self) -> io::Result<()> {
        if self.more().await {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Framing {
    pub(super) fn of(head: &Head) -> Self {
        if head
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
        {
            return Framing::Chunked;
        }
        match head.header("content-length") {
            Some(length) => Framing::Counted(length.parse().expect("a length is a number")),
            None if head.status == 204 || head.status == 304 => Framing::Empty,
            None => Framing::UntilClose,
        }
    }
}

fn parse_head(buffer: &mut BytesMut) -> Result<Option<Head>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(buffer)? else {
        return Ok(None);
    };
    let header = |header: &httparse::Header<'_>| {
        (
            header.name.to_ascii_lowercase(),
            String::from_utf8_lossy(header.value).into_owned(),
        )
    };
    let head = Head {
        status: parsed.code.unwrap_or_default(),
        headers: parsed.headers.iter().map(header).collect(),
    };
    buffer.advance(length);
    Ok(Some(head))
}
