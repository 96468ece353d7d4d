//! Events of a streamed response, each as the caller receives it.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tollgate_formats::openai_responses::{
    EventKind, Identity, Relay, StreamDecoder, apply_identity, response_in_event, sequence_number,
};
use tollgate_formats::sse::{Event, EventReader};
use tollgate_fuzz::tree;
use tollgate_types::{Credits, Usage};

fuzz_target!(|data: &[u8]| {
    let _ = StreamDecoder::default().decode(data);
    // A carriage return ends a line: it is never part of an event's data.
    if data.contains(&b'\r') {
        return;
    }
    let event = Event {
        name: None,
        id: None,
        data: Bytes::copy_from_slice(data),
        raw: None,
    };
    let Ok(relayed) = Relay::new("0123456789abcdef").pass(&event) else {
        return;
    };
    let Some(bytes) = relayed.bytes else {
        assert!(matches!(relayed.kind, EventKind::Error | EventKind::Ping));
        return;
    };
    let identity = Identity {
        number: 7,
        created_at: 7,
        model: "maker/\"model\"".to_owned(),
        store: true,
        background: false,
        previous_response_id: None,
    };
    let end = Some((&Usage::ZERO, Credits::from_nanos(6_800)));
    let dressed = apply_identity(&bytes, &identity, end);
    let _ = sequence_number(&dressed);
    // Line feeds in the type of an event would end its name.
    if data
        .windows(2)
        .any(|pair| pair == b"\\n" || pair == b"\\u" || pair == b"\\r")
        || data.contains(&b'\n')
    {
        return;
    }
    let mut reader = EventReader::default();
    reader.push(dressed.clone());
    let Ok(Some(shown)) = reader.next_event() else {
        return;
    };
    let (Some(before), Some(after)) = (tree(data), tree(&shown.data)) else {
        return;
    };
    assert_eq!(before.get("type"), after.get("type"));
    if relayed.kind == EventKind::End && response_in_event(&dressed).is_some() {
        assert_eq!(after["response"]["model"], json!(identity.model));
        assert_eq!(after["response"]["id"], json!(identity.id()));
        assert_eq!(after["response"]["usage"]["cost"], "0.0000068");
    }
});
