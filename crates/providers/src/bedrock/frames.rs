//! Frames of `application/vnd.amazon.eventstream`. A frame contains two lengths and their checksum,
//! headers, a payload, and a checksum of all of them (Smithy, "Amazon Event Stream Specification").

use bytes::{Buf, Bytes, BytesMut};

/// Size of the two lengths and their checksum, in bytes.
const PRELUDE: usize = 12;
/// Size of the checksum at the end, in bytes.
const CHECKSUM: usize = 4;
/// Maximum size of a frame, in bytes. AWS allows 16 MiB of payload.
const MAX_FRAME_BYTES: usize = 17 << 20;

/// A frame of the event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Value of the header `:message-type`: `event`, `exception` or `error`.
    pub(super) kind: String,
    /// Value of the header `:event-type`, `:exception-type` or `:error-code`.
    pub(super) name: String,
    /// JSON text of the event or the error.
    pub(super) payload: Bytes,
}

/// Reason why the bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameError {
    /// A length is outside its bounds.
    Length,
    /// A checksum does not match.
    Checksum,
    /// The headers are malformed.
    Headers,
}

impl FrameError {
    /// Returns the text for the log.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            FrameError::Length => "a stream frame has an invalid length",
            FrameError::Checksum => "a stream frame has a wrong checksum",
            FrameError::Headers => "the headers of a stream frame are malformed",
        }
    }
}

/// Parses frames from chunks of any size.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    buffer: BytesMut,
}

impl FrameReader {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// Whether the buffer contains an incomplete frame.
    pub(super) fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Returns the next complete frame, or `None` if bytes are missing. After an error, the rest of
    /// the stream is unreadable.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prelude) = self.buffer.get(..PRELUDE) else {
            return Ok(None);
        };
        let (total, headers) = (number(prelude, 0), number(prelude, 4));
        // The checksum is verified first: with a corrupt length, the reader would wait for bytes
        // that never arrive.
        if crc32fast::hash(&prelude[..8]) != number(prelude, 8) {
            return Err(FrameError::Checksum);
        }
        let (total, headers) = (total as usize, headers as usize);
        if !(PRELUDE + CHECKSUM..=MAX_FRAME_BYTES).contains(&total) || headers > total - PRELUDE - CHECKSUM {
            return Err(FrameError::Length);
        }
        if self.buffer.len() < total {
            return Ok(None);
        }
        let mut message = self.buffer.split_to(total).freeze();
        let checksum = number(&message, total - CHECKSUM);
        if crc32fast::hash(&message[..total - CHECKSUM]) != checksum {
            return Err(FrameError::Checksum);
        }
        message.truncate(total - CHECKSUM);
        message.advance(PRELUDE);
        let mut frame = Frame::default();
        read_headers(message.split_to(headers), &mut frame).ok_or(FrameError::Headers)?;
        frame.payload = message;
        Ok(Some(frame))
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let digits = bytes.get(at..at + 4).and_then(|digits| digits.try_into().ok());
    u32::from_be_bytes(digits.unwrap_or_default())
}

/// Reads names and values alternately. The type of a value determines its length.
fn read_headers(mut rest: Bytes, frame: &mut Frame) -> Option<()> {
    while rest.has_remaining() {
        let name = take(&mut rest, 1)?;
        let kind = rest.try_get_u8().ok()?;
        let value = match kind {
            0 | 1 => Bytes::new(),
            2 => exactly(&mut rest, 1)?,
            3 => exactly(&mut rest, 2)?,
            4 => exactly(&mut rest, 4)?,
            5 | 8 => exactly(&mut rest, 8)?,
            6 | 7 => take(&mut rest, 2)?,
            9 => exactly(&mut rest, 16)?,
            _ => return None,
        };
        if kind != 7 {
            continue;
        }
        let text = || String::from_utf8(value.to_vec()).ok();
        match &*name {
            b":message-type" => frame.kind = text()?,
            b":event-type" | b":exception-type" | b":error-code" => frame.name = text()?,
            _ => {}
        }
    }
    Some(())
}

/// Reads a byte string and the length before it, which has `width` bytes: 1 or 2.
fn take(rest: &mut Bytes, width: usize) -> Option<Bytes> {
    let length = match width {
        1 => usize::from(rest.try_get_u8().ok()?),
        _ => usize::from(rest.try_get_u16().ok()?),
    };
    exactly(rest, length)
}

fn exactly(rest: &mut Bytes, length: usize) -> Option<Bytes> {
    (rest.len() >= length).then(|| rest.split_to(length))
}

#[cfg(test)]
mod tests {
    use tollgate_testkit::upstream::event_stream;

    use super::*;

    fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        event_stream::frame(headers, payload.as_bytes())
    }

    fn framed(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let total = (PRELUDE + headers.len() + payload.len() + CHECKSUM) as u32;
        let mut out = [total.to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out.extend_from_slice(headers);
        out.extend_from_slice(payload);
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out
    }

    fn read(bytes: &[u8], chunk: usize) -> Result<Vec<Frame>, FrameError> {
        let mut reader = FrameReader::default();
        let mut frames = Vec::new();
        for chunk in bytes.chunks(chunk) {
            reader.push(chunk);
            while let Some(frame) = reader.next_frame()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    #[test]
    fn frames_are_read_from_any_chunk_sizes() {
        let event = [
            (":event-type", "messageStart"),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ];
        let exception = [
            (":exception-type", "throttlingException"),
            (":message-type", "exception"),
        ];
        let bytes = [
            frame(&event, "{}"),
            frame(&exception, ""),
            frame(&event, r#"{"a":1}"#),
        ]
        .concat();
        for chunk in [1, 2, 3, 7, 11, 12, 13, 64, bytes.len()] {
            let frames = read(&bytes, chunk).unwrap();
            let found: Vec<_> = frames
                .iter()
                .map(|frame| (&*frame.kind, &*frame.name, &*frame.payload))
                .collect();
            let expected: [(&str, &str, &[u8]); 3] = [
                ("event", "messageStart", b"{}"),
                ("exception", "throttlingException", b""),
                ("event", "messageStart", br#"{"a":1}"#),
            ];
            assert_eq!(found, expected, "{chunk}");
        }
        let mut reader = FrameReader::default();
        reader.push(&bytes[..bytes.len() - 1]);
        while reader.next_frame().unwrap().is_some() {}
        assert!(reader.is_mid_frame(), "the incomplete frame was dropped");
    }

    #[test]
    fn headers_of_every_type_are_skipped() {
        let mut headers = Vec::new();
        for (kind, value) in [
            (0, &[][..]),
            (1, &[]),
            (2, &[1]),
            (3, &[1, 2]),
            (4, &[1, 2, 3, 4]),
            (5, &[0; 8]),
            (6, &[0, 2, 9, 9]),
            (8, &[0; 8]),
            (9, &[0; 16]),
        ] {
            headers.extend_from_slice(&[1, b'x', kind]);
            headers.extend_from_slice(value);
        }
        headers.extend_from_slice(b"\x0d:message-type\x07\x00\x05event");
        let frames = read(&framed(&headers, b"p"), 5).unwrap();
        assert_eq!((&*frames[0].kind, &*frames[0].payload), ("event", &b"p"[..]));
    }

    #[test]
    fn corrupt_frames_are_refused() {
        let whole = frame(
            &[(":message-type", "event"), (":event-type", "metadata")],
            r#"{"usage":{}}"#,
        );
        for at in 0..whole.len() {
            let mut error = whole.clone();
            error[at] ^= 0x20;
            assert_eq!(read(&error, whole.len()), Err(FrameError::Checksum), "byte {at}");
        }
    }

    #[test]
    fn impossible_lengths_and_headers_are_refused() {
        let prelude = |total: u32, headers: u32| {
            let mut out = [total.to_be_bytes(), headers.to_be_bytes()].concat();
            out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
            out
        };
        let largest = MAX_FRAME_BYTES as u32;
        for (total, headers, expected) in [
            (15, 0, Err(FrameError::Length)),
            (16, 1, Err(FrameError::Length)),
            (largest + 1, 0, Err(FrameError::Length)),
            (u32::MAX, u32::MAX, Err(FrameError::Length)),
            (largest, 0, Ok(Vec::new())),
            (17, 1, Ok(Vec::new())),
        ] {
            assert_eq!(read(&prelude(total, headers), 12), expected, "{total} {headers}");
        }
        for headers in [
            &b"\x05ab"[..],
            b"\x01x",
            b"\x01x\x0a",
            b"\x01x\x07\x00\x09short",
            b"\x01x\x09\x00",
            b"\x0d:message-type\x07\x00\x01\xff",
        ] {
            assert_eq!(
                read(&framed(headers, b""), 64),
                Err(FrameError::Headers),
                "{headers:?}"
            );
        }
        assert_eq!(read(&framed(b"", b""), 64), Ok(vec![Frame::default()]));
    }
}
