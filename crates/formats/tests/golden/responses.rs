//! Golden files of responses. `request.json` and `response.json` decode to `ir.json` and
//! round-trip. `upstream.sse` is a provider's stream: its events are in `ir.json`, `relayed.sse` is
//! the stream for a caller of this format, and `written.sse` is the stream if the upstream uses
//! another format.

use bytes::Bytes;
use serde_json::{Map, Value};
use tollgate_formats::openai_responses::{
    Echo, EventKind, Identity, Relay, StreamDecoder, StreamEncoder, apply_identity, decode_request,
    decode_response, encode_request, encode_response, response_in_event,
};
use tollgate_formats::reasoning_envelope::origin_of;
use tollgate_types::generate::{Choice, GenerateRequest, Part, Reasoning};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Usage};

use super::{Case, cases, ir, read};

#[test]
fn openai_responses() {
    let cases = cases("openai_responses");
    assert!(cases.len() >= 6, "the cases are found");
    cases.iter().for_each(check);
}

fn identity() -> Identity {
    Identity {
        number: 0x0197_0000_0000_7000_8000_0000_0000_00ff,
        created_at: 7,
        model: "maker/model".to_owned(),
        store: false,
        background: false,
        previous_response_id: None,
    }
}

fn check(case: &Case) {
    let mut forms = Map::new();
    if let Some(body) = case.read("request.json") {
        let request = decode_request(&body).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let encoded = encode_request(&request, None, false);
        let again = decode_request(&encoded).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(
            unsealed(again),
            unsealed(request.clone()),
            "{}.request.json there and back",
            case.name
        );
        forms.insert("request".to_owned(), ir::request(&request));
    }
    if let Some(body) = case.read("response.json") {
        let response = decode_response(&body).unwrap();
        let echo = Echo::of(&body).unwrap();
        let encoded = encode_response(&response, &identity(), &echo, 9, None, true);
        let mut again = decode_response(&encoded).unwrap();
        (again.id, again.created, again.model) =
            (response.id.clone(), response.created, response.model.clone());
        assert_eq!(
            again.choices.into_iter().map(without_seals).collect::<Vec<_>>(),
            response
                .choices
                .iter()
                .cloned()
                .map(without_seals)
                .collect::<Vec<_>>(),
            "{}.response.json there and back",
            case.name
        );
        assert_eq!(again.usage, response.usage, "{}", case.name);
        forms.insert("response".to_owned(), ir::response(&response));
    }
    if let Some(stream) = case.read("upstream.sse") {
        forms.insert("events".to_owned(), check_upstream(case, &stream));
    }
    let text = serde_json::to_string_pretty(&Value::Object(forms)).unwrap();
    case.expect("ir.json", &format!("{text}\n"));
}

fn check_upstream(case: &Case, stream: &Bytes) -> Value {
    let (mut relay, mut decoder) = (Relay::new(&origin_of("main")), StreamDecoder::default());
    let mut encoder = StreamEncoder::new(identity(), Echo::default(), true);
    let (mut relayed, mut written, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for event in read(stream) {
        let passed = relay.pass(&event).unwrap();
        let end = (&Usage::ZERO, Credits::ZERO);
        let end = (passed.kind == EventKind::End).then_some(end);
        if let Some(bytes) = &passed.bytes {
            relayed.extend(apply_identity(bytes, &identity(), end));
        }
        for event in decoder.decode(&event.data).unwrap() {
            written.extend(encoder.encode(&event));
            events.push(event);
        }
    }
    let usage = events.iter().find_map(|event| match event {
        StreamEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    let end = encoder.end(usage.as_ref(), Some(Credits::ZERO), 9);
    let last = end.slice(memchr::memmem::rfind(&end, b"event: ").unwrap()..);
    assert!(
        response_in_event(&last).is_some(),
        "{} ends with all of it",
        case.name
    );
    written.extend(end);
    case.expect("relayed.sse", &String::from_utf8(relayed).unwrap());
    case.expect("written.sse", &String::from_utf8(written).unwrap());
    ir::events(&events)
}

/// Returns the parts of a request that round-trip: without reasoning, whose encrypted content is
/// unwrapped for the upstream, and without `hide_reasoning`.
fn unsealed(mut request: GenerateRequest) -> GenerateRequest {
    request.hide_reasoning = false;
    for message in &mut request.messages {
        message.parts.retain(|part| !matches!(part, Part::Reasoning(_)));
    }
    request
}

fn without_seals(mut choice: Choice) -> Choice {
    for part in &mut choice.parts {
        if let Part::Reasoning(Reasoning { seal, .. }) = part {
            *seal = None;
        }
    }
    choice
}
