//! Golden files of completions. `request.json` decodes to `ir.json`, and `forwarded.json` is the
//! request for an upstream of the same format. `upstream.sse` and `response.json` are from such an
//! upstream; `relayed.sse` (without requested usage) and `relayed.json` are the results for the
//! caller.

use serde_json::{Map, Value};
use tollgate_formats::openai_chat::{
    EventEdits, inspect_event, inspect_response, splice_event, splice_response,
};
use tollgate_formats::openai_completions::{RequestEdits, decode_request, splice_request, validate};
use tollgate_types::{Credits, Usage};

use super::{Case, cases, ir, read};

#[test]
fn openai_completions() {
    let cases = cases("openai_completions");
    assert!(cases.len() >= 3, "the cases are found");
    cases.iter().for_each(check);
}

fn check(case: &Case) {
    let mut forms = Map::new();
    if let Some(body) = case.read("request.json") {
        let edits = RequestEdits {
            model: "up",
            ..RequestEdits::default()
        };
        let sent = splice_request(&body, &validate(&body).unwrap(), &edits);
        case.expect("forwarded.json", std::str::from_utf8(&sent).unwrap());
        if let Ok(request) = decode_request(&body) {
            forms.insert("request".to_owned(), ir::request(&request));
        }
    }
    if let Some(body) = case.read("response.json") {
        let head = inspect_response(&body).unwrap();
        assert!(head.choices > 0 && head.output_bytes > 0 && head.report.usage.is_some());
        let cost = Credits::from_nanos(1_500);
        let relayed = splice_response(&body, &head, "maker/model", Some((&Usage::ZERO, cost)));
        case.expect("relayed.json", std::str::from_utf8(&relayed).unwrap());
    }
    if let Some(stream) = case.read("upstream.sse") {
        let edits = EventEdits::new("maker/model", false);
        let (mut relayed, mut output_bytes, mut reports) = (Vec::new(), 0, 0);
        for event in read(&stream) {
            let head = inspect_event(&event.data).unwrap();
            output_bytes += head.output_bytes;
            reports += u32::from(head.report.usage.is_some());
            relayed.extend(splice_event(&event, &head, &edits, None).unwrap_or_default());
        }
        assert!(output_bytes > 0 && reports > 0, "{}", case.name);
        case.expect("relayed.sse", &String::from_utf8(relayed).unwrap());
    }
    let text = serde_json::to_string_pretty(&Value::Object(forms)).unwrap();
    case.expect("ir.json", &format!("{text}\n"));
}
