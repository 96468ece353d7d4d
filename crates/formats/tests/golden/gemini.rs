//! Golden files of `generateContent`. `request.json` and `response.json` decode to `ir.json` and
//! round-trip. `upstream.sse` is a provider's stream: its events are in `ir.json`, and
//! `relayed.sse` is the stream for the caller.

use serde_json::{Map, Value};
use tollgate_formats::gemini::{
    Relay, StreamDecoder, decode_request, decode_response, encode_request, encode_response,
};
use tollgate_formats::reasoning_envelope::origin_of;
use tollgate_types::generate::{GenerateResponse, Part, Reasoning};

use super::{Case, cases, ir, read};

#[test]
fn gemini() {
    let cases = cases("gemini");
    assert!(cases.len() >= 5, "the cases are found");
    cases.iter().for_each(check);
}

fn check(case: &Case) {
    let mut forms = Map::new();
    if let Some(body) = case.read("request.json") {
        let request = decode_request(&body).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let encoded = encode_request(&request, &Default::default(), None);
        let again = decode_request(&encoded).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(again, request, "{}.request.json there and back", case.name);
        forms.insert("request".to_owned(), ir::request(&request));
    }
    if let Some(body) = case.read("response.json") {
        let mut response = decode_response(&body, 7, "fallback").unwrap();
        mark(&mut response);
        let encoded = encode_response(&response, &response.model, None, true);
        let again = decode_response(&encoded, 7, "fallback").unwrap();
        assert_eq!(again, response, "{}.response.json there and back", case.name);
        forms.insert("response".to_owned(), ir::response(&response));
    }
    if let Some(stream) = case.read("upstream.sse") {
        let mut relay = Relay::new("maker/model", &origin_of("main"));
        let mut decoder = StreamDecoder::new(7, "fallback");
        let (mut relayed, mut events) = (Vec::new(), Vec::new());
        for event in read(&stream) {
            relayed.extend(relay.pass(&event).unwrap().bytes.unwrap_or_default());
            events.extend(decoder.decode(&event.data).unwrap());
        }
        assert!(relay.is_finished(), "{}", case.name);
        case.expect("relayed.sse", &String::from_utf8(relayed).unwrap());
        forms.insert("events".to_owned(), ir::events(&events));
    }
    let text = serde_json::to_string_pretty(&Value::Object(forms)).unwrap();
    case.expect("ir.json", &format!("{text}\n"));
}

/// Sets the origin of the signatures, as an adapter does.
fn mark(response: &mut GenerateResponse) {
    for part in response.choices.iter_mut().flat_map(|choice| &mut choice.parts) {
        if let Part::Reasoning(Reasoning { seal: Some(seal), .. }) = part {
            seal.origin = origin_of("main");
        }
    }
}
