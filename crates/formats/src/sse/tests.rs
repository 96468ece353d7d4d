use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// Returns all events of a stream that arrives in these chunks.
fn read(chunks: &[&[u8]]) -> Vec<Event> {
    let mut reader = EventReader::default();
    let mut events = Vec::new();
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = reader.next_event().unwrap() {
            events.push(event);
        }
    }
    events
}

/// Returns name, id and data for comparison, without `raw`.
fn shown(events: &[Event]) -> Vec<String> {
    let text = |bytes: &Option<Bytes>| {
        bytes
            .as_ref()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    events
        .iter()
        .map(|event| {
            let data = String::from_utf8_lossy(&event.data);
            format!("{:?} {:?} {data:?}", text(&event.name), text(&event.id))
        })
        .collect()
}

fn check(stream: &str, expected: &[&str]) {
    let whole = shown(&read(&[stream.as_bytes()]));
    assert_eq!(whole, expected, "{stream:?}");
    for cut in 0..=stream.len() {
        let (start, end) = stream.as_bytes().split_at(cut);
        assert_eq!(shown(&read(&[start, end])), expected, "{stream:?} cut at {cut}");
    }
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(shown(&read(&bytes)), expected, "{stream:?} byte by byte");
}

#[test]
fn event_streams_follow_the_whatwg_standard() {
    check("data: a\n\ndata: b\n\n", &["None None \"a\"", "None None \"b\""]);
    check(
        "data: a\r\n\r\ndata: b\r\n\r\n",
        &["None None \"a\"", "None None \"b\""],
    );
    check("data: a\r\rdata: b\r\r", &["None None \"a\"", "None None \"b\""]);
    check(
        "data: a\r\n\ndata: b\n\r\n",
        &["None None \"a\"", "None None \"b\""],
    );
    check("data:a\n\n", &["None None \"a\""]);
    check("data:  a \n\n", &["None None \" a \""]);
    check(
        "data: a\ndata: b\ndata:\ndata: c\n\n",
        &["None None \"a\\nb\\n\\nc\""],
    );
    check("data\n\n", &["None None \"\""]);
    check("data:\n\n", &["None None \"\""]);
    check("event: x\nid: 7\ndata: a\n\n", &["Some(\"x\") Some(\"7\") \"a\""]);
    check("event: x\nevent: y\ndata: a\n\n", &["Some(\"y\") None \"a\""]);
    check("event:\ndata: a\n\n", &["None None \"a\""]);
    check("id: a\0b\ndata: a\n\n", &["None None \"a\""]);
    check("event: x\n\ndata: a\n\n", &["None None \"a\""]);
    check(": comment\ndata: a\n: more\n\n", &["None None \"a\""]);
    check(": ping\n\n: ping\n\ndata: a\n\n", &["None None \"a\""]);
    check("retry: 10\nunknown: x\ndata: a\n\n", &["None None \"a\""]);
    check("\n\n\r\n\rdata: a\n\n\n\n", &["None None \"a\""]);
    check("\u{feff}data: a\n\n", &["None None \"a\""]);
    check("\u{feff}\ndata: a\n\n", &["None None \"a\""]);
    check("data: a\n\n\u{feff}data: b\n\n", &["None None \"a\""]);
    check("data: a:b\n\n", &["None None \"a:b\""]);
    check("data: a\n\ndata: cut", &["None None \"a\""]);
    check("data: a\n\ndata: cut\n", &["None None \"a\""]);
    check("", &[]);
}

#[test]
fn plain_event_in_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"data: {\"a\":1}\n\ndata: [DONE]\n\n");
    let mut reader = EventReader::default();
    reader.push(chunk.clone());
    let event = reader.next_event().unwrap().unwrap();
    let raw = event.raw.clone().unwrap();
    assert_eq!(raw, chunk.slice(..15));
    assert_eq!(raw.as_ptr(), chunk.as_ptr());
    assert_eq!(event.data.as_ptr(), chunk[6..].as_ptr());
    assert_eq!(event.whole(), raw);
    assert_eq!(reader.next_event().unwrap().unwrap().data, DONE);
    assert!(!reader.is_mid_event());
}

#[test]
fn only_canonical_events_keep_their_raw_bytes() {
    for stream in [
        "data:a\n\n",
        "data: a\r\n\r\n",
        "data: a\rb\n\n",
        ": x\ndata: a\n\n",
        "id: 1\ndata: a\n\n",
    ] {
        let events = read(&[stream.as_bytes()]);
        assert_eq!(events[0].raw, None, "{stream:?}");
        assert!(events[0].whole().starts_with(b"data: "), "{stream:?}");
    }
}

#[test]
fn truncated_event_is_detected() {
    let mut reader = EventReader::default();
    for (chunk, mid_event) in [
        ("data: a\n\n", false),
        ("data: b", true),
        ("\n", true),
        ("\r\n", false),
    ] {
        reader.push(Bytes::copy_from_slice(chunk.as_bytes()));
        while reader.next_event().unwrap().is_some() {}
        assert_eq!(reader.is_mid_event(), mid_event, "after {chunk:?}");
    }
}

#[test]
fn events_are_bounded() {
    let fits = format!("data: {}\n\n", "x".repeat(92));
    for cut in [0, 1, 50, 99] {
        let mut reader = EventReader::new(100);
        let (start, end) = fits.as_bytes().split_at(cut);
        reader.push(Bytes::copy_from_slice(start));
        assert_eq!(reader.next_event(), Ok(None));
        reader.push(Bytes::copy_from_slice(end));
        assert_eq!(reader.next_event().unwrap().unwrap().data.len(), 92);

        let mut reader = EventReader::new(99);
        reader.push(Bytes::copy_from_slice(start));
        assert_eq!(reader.next_event(), Ok(None));
        reader.push(Bytes::copy_from_slice(end));
        assert_eq!(reader.next_event(), Err(EventTooLarge { limit: 99 }));
        assert_eq!(reader.next_event(), Err(EventTooLarge { limit: 99 }));
    }
    let mut endless = EventReader::new(1000);
    let outcome = (0..).find_map(|_| {
        endless.push(Bytes::from_static(b": and so on"));
        endless.next_event().err()
    });
    assert_eq!(outcome, Some(EventTooLarge { limit: 1000 }));
}

#[test]
fn chunks_may_be_pushed_ahead() {
    let mut reader = EventReader::default();
    for chunk in ["data: a\n", "\ndata", ": b\n\n"] {
        reader.push(Bytes::copy_from_slice(chunk.as_bytes()));
    }
    assert_eq!(reader.next_event().unwrap().unwrap().data, "a");
    assert_eq!(reader.next_event().unwrap().unwrap().data, "b");
    assert_eq!(reader.next_event(), Ok(None));
}

#[test]
fn written_events_are_read_back() {
    for (name, data) in [(None, "{}"), (Some("x"), "{}"), (None, "a\nb"), (Some("x"), "")] {
        let event = write_event(name.map(str::as_bytes), data.as_bytes());
        let read = read(&[&event]);
        assert_eq!(read[0].data, data);
        assert_eq!(read[0].name.as_deref(), name.map(str::as_bytes));
        assert_eq!(read.len(), 1);
    }
    assert_eq!(write_event(None, DONE), DONE_EVENT);
}

proptest! {
    #[test]
    fn events_do_not_depend_on_chunk_boundaries(
        stream in "([a-c:\\r\\n ]|data|data: |event: |id: |\\n\\n|\\r\\n\\r\\n){0,60}",
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = shown(&read(&[stream.as_bytes()]));
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.sort_unstable();
        let mut chunks = Vec::new();
        let mut start = 0;
        for place in places {
            chunks.push(&stream.as_bytes()[start..place]);
            start = place;
        }
        chunks.push(&stream.as_bytes()[start..]);
        prop_assert_eq!(shown(&read(&chunks)), whole);
    }
}
