//! The process that extracts pages: reads requests and writes replies until its input ends.
//!
//! A frame is a length in four bytes, big endian, and its content. The process first writes its
//! greeting. A request has two frames, the head as JSON and the bytes of the page; a reply has one.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tollgate_upstream::page::EXTRACT_GREETING;
use tollgate_upstream::{ExtractError, ExtractedPage, MAX_PDF_BYTES, PageHead};

use crate::extract;

/// Maximum size of the head of a page, in bytes.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// Serves requests until the input ends. Aborts the process if a page takes longer than
/// `time_limit`: the caller may have died without killing it. Calls `after_page` after each reply.
///
/// # Errors
///
/// Returns the error of the input or output, and an error for a frame that is too long.
pub fn serve(
    mut input: impl Read,
    mut output: impl Write,
    time_limit: Duration,
    after_page: impl Fn(),
) -> io::Result<()> {
    let (page_events, received) = channel();
    std::thread::Builder::new().spawn(move || watch(&received, time_limit))?;
    write_frame(&mut output, EXTRACT_GREETING.as_bytes())?;
    while let Some(head) = read_frame(&mut input, MAX_HEAD_BYTES)? {
        let Some(bytes) = read_frame(&mut input, MAX_PDF_BYTES)? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        // The watching thread ends only after this one.
        let _ = page_events.send(PageEvent::Started);
        let head: PageHead = serde_json::from_slice(&head)?;
        let reply: Result<ExtractedPage, ExtractError> = extract(&head, &bytes);
        let _ = page_events.send(PageEvent::Ended);
        write_frame(&mut output, &serde_json::to_vec(&reply)?)?;
        drop((head, bytes, reply));
        after_page();
    }
    Ok(())
}

/// Event of a page, for the watching thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageEvent {
    Started,
    Ended,
}

/// Aborts the process when a page has started and does not end within the limit.
fn watch(events: &Receiver<PageEvent>, limit: Duration) {
    while let Ok(event) = events.recv() {
        if event == PageEvent::Started && events.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            std::process::abort();
        }
    }
}

/// Reads a frame; `None` at the end of the input.
fn read_frame(input: &mut impl Read, max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length);
    if u64::from(length) > max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    input.read_exact(&mut frame)?;
    Ok(Some(frame))
}

fn write_frame(output: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    output.write_all(&length.to_be_bytes())?;
    output.write_all(frame)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            write_frame(&mut bytes, frame).unwrap();
        }
        bytes
    }

    fn served(input: &[u8]) -> (io::Result<()>, Vec<Vec<u8>>) {
        let mut output = Vec::new();
        let ended = serve(input, &mut output, Duration::from_mins(1), || {});
        let mut written = output.as_slice();
        let mut replies = Vec::new();
        while let Some(frame) = read_frame(&mut written, u64::MAX).unwrap() {
            replies.push(frame);
        }
        (ended, replies)
    }

    #[test]
    fn pages_are_answered_in_order() {
        let head = |media_type: &str| {
            let text =
                format!(r#"{{"url":"https://a.example/","media_type":"{media_type}","today":"2026-11-29"}}"#);
            text.into_bytes()
        };
        let input = frames(&[&head("text/html"), b"<h1>A</h1><p>b", &head("image/png"), b"x"]);
        let (ended, replies) = served(&input);
        ended.unwrap();
        assert_eq!(replies[0], EXTRACT_GREETING.as_bytes());
        let page: Result<ExtractedPage, ExtractError> = serde_json::from_slice(&replies[1]).unwrap();
        assert_eq!(page.unwrap().text, "A\n\nb");
        let page: Result<ExtractedPage, ExtractError> = serde_json::from_slice(&replies[2]).unwrap();
        assert_eq!(page, Err(ExtractError::UnsupportedType));
    }

    #[test]
    fn malformed_requests_end_the_process() {
        for input in [
            &b"\xff\xff\xff\xff"[..],
            b"\0\0\0\x05ab",
            b"\0\0\0\x02{}",
            b"\0\0\0\x02{}\0\0\0\x01a",
        ] {
            let (ended, replies) = served(input);
            assert!(ended.is_err(), "{input:?}");
            assert_eq!(replies.len(), 1);
        }
        served(b"").0.unwrap();
    }
}
