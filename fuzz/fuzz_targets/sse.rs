//! Event streams: the same events however the stream is cut. The first bytes of the input say where.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tollgate_formats::sse::{DEFAULT_MAX_EVENT, Event, EventReader};

const SMALL: usize = 48;

fuzz_target!(|data: &[u8]| {
    let Some((cuts, stream)) = data.split_first_chunk::<4>() else {
        return;
    };
    let (whole, finished) = read(&[stream], DEFAULT_MAX_EVENT);
    assert!(finished);
    let mut pieces = Vec::new();
    let mut rest = stream;
    for length in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(usize::from(length % 32 + 1).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    let (cut, finished) = read(&pieces, DEFAULT_MAX_EVENT);
    assert!(finished);
    assert_eq!(shown(&cut), shown(&whole));

    // Each event reads the same when it is written again.
    for event in &whole {
        let (again, _) = read(&[&event.whole()], DEFAULT_MAX_EVENT);
        assert_eq!(again.len(), 1);
        assert_eq!((&again[0].name, &again[0].data), (&event.name, &event.data));
    }
    // A bound ends the stream early and changes nothing before that.
    let (bounded, finished) = read(&pieces, SMALL);
    assert!(shown(&whole).starts_with(&shown(&bounded)));
    assert!(!finished || bounded.len() == whole.len());
    assert!(bounded.iter().all(|event| event.data.len() <= SMALL));
});

/// The events of these pieces, and whether the bound let the stream be read to its end.
fn read(pieces: &[&[u8]], limit: usize) -> (Vec<Event>, bool) {
    let mut reader = EventReader::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        reader.push(Bytes::copy_from_slice(piece));
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

/// What an event says; how it came does not matter.
fn shown(events: &[Event]) -> Vec<(Option<&[u8]>, Option<&[u8]>, &[u8])> {
    events
        .iter()
        .map(|event| (event.name.as_deref(), event.id.as_deref(), &event.data[..]))
        .collect()
}
