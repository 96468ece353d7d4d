//! From the pieces of a response to the writes on the socket: breaking off, framing, joining and parting.

use std::time::Duration;

use bytes::Bytes;

use super::delivery::{At, Framing, Writes};
use super::plan::Piece;

/// Head and body as far as the cut; the flag says whether the body is whole.
pub(super) fn cut(head: Piece, mut body: Vec<Piece>, at: Option<At>) -> (Option<Piece>, Vec<Piece>, bool) {
    let half = |piece: &Piece| Piece {
        bytes: piece.bytes.slice(..piece.bytes.len() / 2),
        said: None,
        usage: None,
        ..piece.clone()
    };
    match at {
        None => (Some(head), body, true),
        Some(At::End) => (Some(head), body, false),
        Some(At::Start) => {
            // Delay and gates still come before whatever happens instead of the head.
            (
                Some(Piece {
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
            body.retain_mut(|piece| {
                if piece.bytes.len() > left {
                    piece.bytes.truncate(left);
                    (piece.said, piece.usage) = (None, None);
                }
                left -= piece.bytes.len();
                !piece.bytes.is_empty()
            });
            (Some(head), body, false)
        }
    }
}

/// The piece as it stands in a body of this framing.
pub(super) fn framed(piece: Piece, framing: Framing) -> Piece {
    if framing != Framing::Chunked || piece.bytes.is_empty() {
        return piece;
    }
    let mut chunk = format!("{:x}\r\n", piece.bytes.len()).into_bytes();
    chunk.extend_from_slice(&piece.bytes);
    chunk.extend_from_slice(b"\r\n");
    Piece {
        bytes: chunk.into(),
        ..piece
    }
}

/// The pieces in the writes that were asked for.
pub(super) fn regrouped(pieces: Vec<Piece>, writes: Writes) -> Vec<Piece> {
    match writes {
        Writes::PerEvent => pieces,
        Writes::Whole => vec![joined(&pieces)],
        Writes::Pieces { bytes, pause } => pieces
            .into_iter()
            .flat_map(|piece| parted(piece, bytes.max(1), pause))
            .collect(),
        Writes::SplitAt { offset, pause } => {
            let mut pieces = pieces.into_iter();
            let head = pieces.next();
            let rest = joined(&pieces.collect::<Vec<_>>());
            let offset = offset.min(rest.bytes.len());
            let first = Piece {
                bytes: rest.bytes.slice(..offset),
                gates: rest.gates.clone(),
                wait: rest.wait,
                ..Piece::default()
            };
            let second = Piece {
                bytes: rest.bytes.slice(offset..),
                gates: Vec::new(),
                wait: pause,
                ..rest
            };
            head.into_iter().chain([first, second]).collect()
        }
    }
}

/// The piece in parts of `size`; what it says is said by the last of them.
fn parted(piece: Piece, size: usize, pause: Duration) -> Vec<Piece> {
    let mut parts: Vec<Piece> = (0..piece.bytes.len())
        .step_by(size)
        .map(|start| {
            let end = (start + size).min(piece.bytes.len());
            Piece {
                bytes: piece.bytes.slice(start..end),
                wait: pause,
                ..Piece::default()
            }
        })
        .collect();
    if parts.is_empty() {
        return vec![piece];
    }
    if let Some(first) = parts.first_mut() {
        first.gates.clone_from(&piece.gates);
        first.wait = piece.wait.max(pause);
    }
    if let Some(last) = parts.last_mut() {
        (last.said, last.usage) = (piece.said, piece.usage);
    }
    parts
}

/// One piece that says and reports what these do together; its bytes are theirs in a row.
pub(super) fn joined(pieces: &[Piece]) -> Piece {
    Piece {
        gates: pieces.iter().flat_map(|piece| piece.gates.clone()).collect(),
        wait: pieces.first().map_or(Duration::ZERO, |piece| piece.wait),
        bytes: pieces
            .iter()
            .flat_map(|piece| piece.bytes.iter().copied())
            .collect(),
        said: pieces.iter().rev().find_map(|piece| piece.said),
        usage: pieces.iter().rev().find_map(|piece| piece.usage.clone()),
    }
}
