//! Responses requests: a valid one can be decoded, and is forwarded as the same request to another
//! model.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tollgate_formats::openai_responses::{
    Echo, RequestEdits, decode_request, encode_request, input_items, splice_request, validate, with_items,
};
use tollgate_fuzz::tree;

/// Members that are not forwarded to an upstream.
const GATEWAY_FIELDS: [&str; 8] = [
    "previous_response_id",
    "background",
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    "include",
];

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let decoded = decode_request(&body);
    let head = match validate(&body) {
        Ok(head) => head,
        Err(error) => {
            assert_eq!(decoded.err(), Some(error));
            return;
        }
    };
    let decoded = decoded.expect("a valid request can be decoded");
    Echo::of(&body).expect("a valid request can be echoed");
    let _ = decode_request(&encode_request(&decoded, Some(2_000), true));
    let items = input_items(&body).expect("a valid request has items");
    let joined = with_items(&body, &items).expect("a valid request can be continued");
    assert_eq!(input_items(&joined).expect("the joined request has items"), items);

    let edits = RequestEdits {
        reasons: true,
        model: "up\"stream",
        origin: "0123456789abcdef",
        clamp_output: None,
        stream: head.stream,
    };
    let out = splice_request(&body, &head, edits);
    let (Some(before), Some(after)) = (tree(&body), tree(&out)) else {
        return;
    };
    assert_eq!(after["model"], edits.model);
    assert_eq!(after["store"], json!(false));
    let sent = before.as_object().expect("a request is an object");
    for (name, value) in sent {
        let changed = ["model", "store", "input"].contains(&name.as_str());
        if !changed && !GATEWAY_FIELDS.contains(&name.as_str()) && !value.is_null() {
            assert_eq!(after.get(name), Some(value));
        }
    }
    let reasoning = |body: &Value| {
        let items = body["input"].as_array().into_iter().flatten();
        items.filter(|item| item["type"] == "reasoning").count()
    };
    if reasoning(&before) == 0 && sent.get("input").is_some_and(|input| !input.is_null()) {
        assert_eq!(after["input"], before["input"]);
    }
});
