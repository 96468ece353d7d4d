//! Event streams: the same events however the stream is split. The first bytes of the input
//! determine the splits.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tollgate_formats::sse::{DEFAULT_MAX_EVENT_BYTES, Event, EventReader};

const SMALL: usize = 48;

fuzz_target!(|data: &[u8]| {
    let Some((cuts, stream)) = data.split_first_chunk::<4>() else {
        return;
    };
    let (whole, finished) = read(&[stream], DEFAULT_MAX_EVENT_BYTES);
    assert!(finished);
    let mut chunks = Vec::new();
    let mut rest = stream;
    for length in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at(usize::from(length % 32 + 1).min(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    let (cut, finished) = read(&chunks, DEFAULT_MAX_EVENT_BYTES);
    assert!(finished);
    assert_eq!(shown(&cut), shown(&whole));

    // Each event parses to the same event after it is written.
    for event in &whole {
        let (again, _) = read(&[&event.whole()], DEFAULT_MAX_EVENT_BYTES);
        assert_eq!(again.len(), 1);
        assert_eq!((&again[0].name, &again[0].data), (&event.name, &event.data));
    }
    // A limit ends the stream early and changes no event before that.
    let (bounded, finished) = read(&chunks, SMALL);
    assert!(shown(&whole).starts_with(&shown(&bounded)));
    assert!(!finished || bounded.len() == whole.len());
    assert!(bounded.iter().all(|event| event.data.len() <= SMALL));
});

/// Returns the events of these chunks, and whether the whole stream was within the limit.
fn read(chunks: &[&[u8]], limit: usize) -> (Vec<Event>, bool) {
    let mut reader = EventReader::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        loop {
            match reader.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, false),
            }
        }
    }
    (events, true)
}

/// Returns the content of each event, without its raw bytes.
fn shown(events: &[Event]) -> Vec<(Option<&[u8]>, Option<&[u8]>, &[u8])> {
    events
        .iter()
        .map(|event| (event.name.as_deref(), event.id.as_deref(), &event.data[..]))
        .collect()
}
