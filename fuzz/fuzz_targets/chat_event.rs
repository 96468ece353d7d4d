//! Events of a streamed answer, each as the caller receives it.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tollgate_formats::openai_chat::{
    EventEdits, EventKind, StreamDecoder, event_with_cost, inspect_event, splice_event,
};
use tollgate_formats::sse::{DONE, Event, EventReader};
use tollgate_fuzz::tree;
use tollgate_types::Credits;

fuzz_target!(|data: &[u8]| {
    let _ = StreamDecoder::new().decode(data);
    let Ok(head) = inspect_event(data) else {
        return;
    };
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
    let cost = Credits::from_nanos(6_800);
    for include_usage in [false, true] {
        let edits = EventEdits::new("maker/model", include_usage);
        let Some(out) = splice_event(&event, &head, &edits, None) else {
            let is_hidden =
                head.kind == EventKind::Error || (head.kind == EventKind::Usage && !include_usage);
            assert!(is_hidden, "{:?} is not shown", head.kind);
            continue;
        };
        let shown = only_event(&out);
        if head.kind == EventKind::Done {
            assert_eq!(shown, DONE);
            continue;
        }
        let again = inspect_event(&shown).expect("the spliced output can be parsed");
        assert_eq!(again.output_bytes, head.output_bytes);
        let Some(before) = tree(data) else {
            continue;
        };
        assert_eq!(tree(&shown), Some(expected(&before, include_usage, None)));
        let priced = splice_event(&event, &head, &edits, Some(cost)).expect("a cost hides nothing");
        let priced = tree(&only_event(&priced));
        assert_eq!(priced, Some(expected(&before, include_usage, Some(cost))));
        let later = event_with_cost(&out, cost).expect("the spliced output can be parsed");
        assert_eq!(tree(&only_event(&later)), priced);
    }
});

/// Returns the data of the single event in these bytes.
fn only_event(bytes: &Bytes) -> Bytes {
    let mut reader = EventReader::default();
    reader.push(bytes.clone());
    let event = reader.next_event().expect("the event is small").expect("the event is complete");
    assert_eq!(reader.next_event(), Ok(None));
    assert!(!reader.is_mid_event());
    event.data
}

fn expected(before: &Value, include_usage: bool, cost: Option<Credits>) -> Value {
    let mut out = before.clone();
    out["model"] = json!("maker/model");
    let fields = out.as_object_mut().expect("an event is an object");
    if !include_usage {
        fields.shift_remove("usage");
    } else if let Some(usage) = fields.get_mut("usage") {
        tollgate_fuzz::with_cost(usage, cost);
    }
    out
}
