//! Golden files: the results of each format for payloads that follow the SDKs' types and the
//! providers' documentation.
//!
//! A case is a name in the folder of its format. The tests check the files that exist for a case:
//! `request.json`, `response.json` and `stream.sse` decode to `ir.json` and round-trip,
//! `stream.sse` byte for byte. `upstream.sse` is a provider's stream: its events are in `ir.json`,
//! and `relayed.sse` is the stream for a caller who did not request usage. The modules of other
//! formats describe their files. `UPDATE_GOLDEN=1` writes the derived files, such as `ir.json` and
//! `relayed.sse`: review them before you commit them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod completions;
mod decisions;
mod embeddings;
mod gemini;
mod gemini_live;
mod ir;
mod messages;
mod realtime;
mod responses;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::{Map, Value};
use tollgate_formats::openai_chat::{
    self, CapName, EventEdits, StreamDecoder, StreamEncoder, inspect_event, inspect_response, splice_event,
};
use tollgate_formats::sse::{Event, EventReader};
use tollgate_types::stream::StreamEvent;

#[test]
fn openai_chat() {
    let cases = cases("openai_chat");
    assert!(cases.len() >= 10, "the cases are found");
    cases.iter().for_each(check);
}

/// Returns the cases of a format.
fn cases(format: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format);
    let names: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|file| file.split('.').next().unwrap().to_owned())
        .collect();
    let case = |name| Case {
        folder: folder.clone(),
        name,
    };
    names.into_iter().map(case).collect()
}

struct Case {
    folder: PathBuf,
    name: String,
}

impl Case {
    fn path(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    fn read(&self, kind: &str) -> Option<Bytes> {
        fs::read(self.path(kind)).ok().map(Bytes::from)
    }

    #[expect(clippy::disallowed_methods, reason = "a test has no configuration")]
    fn expect(&self, kind: &str, found: &str) {
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            fs::write(self.path(kind), found).unwrap();
        }
        let expected = fs::read_to_string(self.path(kind)).unwrap_or_default();
        assert_eq!(expected, found, "{}.{kind}", self.name);
    }
}

fn check(case: &Case) {
    let mut forms = Map::new();
    if let Some(body) = case.read("request.json") {
        forms.insert("request".to_owned(), check_request(case, &body));
    }
    if let Some(body) = case.read("response.json") {
        forms.insert("response".to_owned(), check_response(case, &body));
    }
    if let Some(stream) = case.read("stream.sse") {
        forms.insert("events".to_owned(), check_stream(case, &stream));
    }
    if let Some(stream) = case.read("upstream.sse") {
        forms.insert("events".to_owned(), check_upstream(case, &stream));
    }
    let text = serde_json::to_string_pretty(&Value::Object(forms)).unwrap();
    case.expect("ir.json", &format!("{text}\n"));
}

fn check_request(case: &Case, body: &[u8]) -> Value {
    let request = openai_chat::decode_request(body).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let encoded = openai_chat::encode_request(&request, CapName::AsSent);
    let mut again = openai_chat::decode_request(&encoded).unwrap();
    // The encoder always requests usage.
    again.include_usage = request.include_usage;
    assert_eq!(again, request, "{}.request.json there and back", case.name);
    ir::request(&request)
}

fn check_response(case: &Case, body: &[u8]) -> Value {
    let response = openai_chat::decode_response(body).unwrap();
    let encoded = openai_chat::encode_response(&response, &response.model, None);
    let again = openai_chat::decode_response(&encoded).unwrap();
    assert_eq!(again, response, "{}.response.json there and back", case.name);
    let head = inspect_response(body).unwrap();
    assert_eq!(head.report.usage, response.usage, "{}", case.name);
    assert_eq!(head.choices as usize, response.choices.len(), "{}", case.name);
    assert_eq!(
        head.output_bytes,
        inspect_response(&encoded).unwrap().output_bytes,
        "{}",
        case.name
    );
    ir::response(&response)
}

/// Checks a stream in the gateway's own encoding.
fn check_stream(case: &Case, stream: &Bytes) -> Value {
    let events = decoded(&read(stream));
    let Some(StreamEvent::Start { model, .. }) = events.first() else {
        panic!("{} begins with no Start", case.name);
    };
    let include_usage = events.iter().any(|event| matches!(event, StreamEvent::Usage(_)));
    let mut encoder = StreamEncoder::new(model, include_usage);
    let mut written: Vec<u8> = Vec::new();
    for event in &events {
        written.extend(encoder.encode(event, None).unwrap_or_default());
    }
    written.extend(StreamEncoder::done());
    let written = String::from_utf8(written).unwrap();
    assert_eq!(
        String::from_utf8_lossy(stream),
        written,
        "{}.stream.sse there and back",
        case.name
    );
    ir::events(&events)
}

/// Checks a stream in a provider's encoding.
fn check_upstream(case: &Case, stream: &Bytes) -> Value {
    let events = read(stream);
    let edits = EventEdits::new("maker/model", false);
    let mut relayed = Vec::new();
    for event in &events {
        let head = inspect_event(&event.data).unwrap();
        relayed.extend(splice_event(event, &head, &edits, None).unwrap_or_default());
    }
    case.expect("relayed.sse", &String::from_utf8(relayed).unwrap());
    ir::events(&decoded(&events))
}

fn read(stream: &Bytes) -> Vec<Event> {
    let mut reader = EventReader::default();
    reader.push(stream.clone());
    let events = std::iter::from_fn(|| reader.next_event().unwrap()).collect();
    assert!(!reader.is_mid_event(), "the stream is whole");
    events
}

fn decoded(events: &[Event]) -> Vec<StreamEvent> {
    let mut decoder = StreamDecoder::new();
    events
        .iter()
        .flat_map(|event| {
            let stream_events = decoder.decode(&event.data).unwrap();
            let head = inspect_event(&event.data).unwrap();
            let usage = stream_events.iter().find_map(|event| match event {
                StreamEvent::Usage(usage) => Some(*usage),
                _ => None,
            });
            assert_eq!(head.report.usage, usage, "both ways read the same usage");
            stream_events
        })
        .collect()
}
