//! Divides the chunks of a response into writes to the socket: breaking off, framing, joining and
//! splitting.

use std::time::Duration;

use bytes::Bytes;

use super::delivery::{At, Framing, Writes};
use super::plan::Chunk;

/// Cuts head and body at a place. The flag is true if the body is complete.
pub(super) fn cut(head: Chunk, mut body: Vec<Chunk>, at: Option<At>) -> (Option<Chunk>, Vec<Chunk>, bool) {
    let half = |chunk: &Chunk| Chunk {
        bytes: chunk.bytes.slice(..chunk.bytes.len() / 2),
        tokens_sent: None,
        usage: None,
        ..chunk.clone()
    };
    match at {
        None => (Some(head), body, true),
        Some(At::End) => (Some(head), body, false),
        Some(At::Start) => {
            // Delays and gates still apply before the fault that replaces the head.
            (
                Some(Chunk {
                    bytes: Bytes::new(),
                    ..head
                }),
                Vec::new(),
                false,
            )
        }
        Some(At::InsideHead) => (Some(half(&head)), Vec::new(), false),
        Some(At::Head) => (Some(head), Vec::new(), false),
        Some(At::Events(count)) if count < body.len() => {
            body.truncate(count);
            (Some(head), body, false)
        }
        Some(At::Events(number) | At::InsideEvent(number)) => {
            body.truncate(number + 1);
            if let Some(last) = body.last_mut() {
                *last = half(last);
            }
            (Some(head), body, false)
        }
        Some(At::Bytes(bytes)) => {
            let mut left = bytes;
            body.retain_mut(|chunk| {
                if chunk.bytes.len() > left {
                    chunk.bytes.truncate(left);
                    (chunk.tokens_sent, chunk.usage) = (None, None);
                }
                left -= chunk.bytes.len();
                !chunk.bytes.is_empty()
            });
            (Some(head), body, false)
        }
    }
}

/// Frames a chunk of the body.
pub(super) fn framed(chunk: Chunk, framing: Framing) -> Chunk {
    if framing != Framing::Chunked || chunk.bytes.is_empty() {
        return chunk;
    }
    let mut framed = format!("{:x}\r\n", chunk.bytes.len()).into_bytes();
    framed.extend_from_slice(&chunk.bytes);
    framed.extend_from_slice(b"\r\n");
    Chunk {
        bytes: framed.into(),
        ..chunk
    }
}

/// Joins and splits the chunks into the requested writes.
pub(super) fn regrouped(chunks: Vec<Chunk>, writes: Writes) -> Vec<Chunk> {
    match writes {
        Writes::PerEvent => chunks,
        Writes::Whole => vec![joined(&chunks)],
        Writes::Chunks { bytes, pause } => chunks
            .into_iter()
            .flat_map(|chunk| parted(chunk, bytes.max(1), pause))
            .collect(),
        Writes::SplitAt { offset, pause } => {
            let mut chunks = chunks.into_iter();
            let head = chunks.next();
            let rest = joined(&chunks.collect::<Vec<_>>());
            let offset = offset.min(rest.bytes.len());
            let first = Chunk {
                bytes: rest.bytes.slice(..offset),
                gates: rest.gates.clone(),
                wait: rest.wait,
                ..Chunk::default()
            };
            let second = Chunk {
                bytes: rest.bytes.slice(offset..),
                gates: Vec::new(),
                wait: pause,
                ..rest
            };
            head.into_iter().chain([first, second]).collect()
        }
    }
}

/// Splits a chunk into parts of `size` bytes. The last part has the tokens and the usage.
fn parted(chunk: Chunk, size: usize, pause: Duration) -> Vec<Chunk> {
    let mut parts: Vec<Chunk> = (0..chunk.bytes.len())
        .step_by(size)
        .map(|start| {
            let end = (start + size).min(chunk.bytes.len());
            Chunk {
                bytes: chunk.bytes.slice(start..end),
                wait: pause,
                ..Chunk::default()
            }
        })
        .collect();
    if parts.is_empty() {
        return vec![chunk];
    }
    if let Some(first) = parts.first_mut() {
        first.gates.clone_from(&chunk.gates);
        first.wait = chunk.wait.max(pause);
    }
    if let Some(last) = parts.last_mut() {
        (last.tokens_sent, last.usage) = (chunk.tokens_sent, chunk.usage);
    }
    parts
}

/// Joins chunks into one chunk with their bytes, tokens and usage.
pub(super) fn joined(chunks: &[Chunk]) -> Chunk {
    Chunk {
        gates: chunks.iter().flat_map(|chunk| chunk.gates.clone()).collect(),
        wait: chunks.first().map_or(Duration::ZERO, |chunk| chunk.wait),
        bytes: chunks
            .iter()
            .flat_map(|chunk| chunk.bytes.iter().copied())
            .collect(),
        tokens_sent: chunks.iter().rev().find_map(|chunk| chunk.tokens_sent),
        usage: chunks.iter().rev().find_map(|chunk| chunk.usage.clone()),
    }
}
