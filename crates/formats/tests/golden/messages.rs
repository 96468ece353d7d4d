//! Golden files of messages. `request.json` and `response.json` decode to `ir.json` and round-trip.
//! `upstream.sse` is a provider's stream: its events are in `ir.json`, and `relayed.sse` is the
//! stream for the caller.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use tollgate_formats::anthropic_messages::{
    Relay, StreamDecoder, decode_request, decode_response, encode_request, encode_response,
};
use tollgate_formats::reasoning_envelope::origin_of;

use super::{Case, ir, read};

#[test]
fn anthropic_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/anthropic_messages");
    let names: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|file| file.split('.').next().unwrap().to_owned())
        .collect();
    assert!(names.len() >= 5, "the cases are found");
    for name in names {
        check(&Case {
            folder: folder.clone(),
            name,
        });
    }
}

fn check(case: &Case) {
    let mut forms = Map::new();
    if let Some(body) = case.read("request.json") {
        let request = decode_request(&body).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let encoded = encode_request(&request, &Default::default(), 1);
        let again = decode_request(&encoded).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(again, request, "{}.request.json there and back", case.name);
        forms.insert("request".to_owned(), ir::request(&request));
    }
    if let Some(body) = case.read("response.json") {
        let response = decode_response(&body, 7).unwrap();
        let encoded = encode_response(&response, &response.model, None, true);
        let again = decode_response(&encoded, 7).unwrap();
        assert_eq!(again, response, "{}.response.json there and back", case.name);
        forms.insert("response".to_owned(), ir::response(&response));
    }
    if let Some(stream) = case.read("upstream.sse") {
        let (mut relay, mut decoder) = (
            Relay::new("maker/model", &origin_of("main")),
            StreamDecoder::new(7),
        );
        let (mut relayed, mut events) = (Vec::new(), Vec::new());
        for event in read(&stream) {
            relayed.extend(relay.pass(&event).unwrap().bytes.unwrap_or_default());
            events.extend(decoder.decode(&event.data).unwrap());
        }
        case.expect("relayed.sse", &String::from_utf8(relayed).unwrap());
        forms.insert("events".to_owned(), ir::events(&events));
    }
    let text = serde_json::to_string_pretty(&Value::Object(forms)).unwrap();
    case.expect("ir.json", &format!("{text}\n"));
}
