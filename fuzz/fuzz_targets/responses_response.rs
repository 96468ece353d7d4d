//! Whole responses: the caller gets the upstream's with the gateway's id, model and cost, and every
//! other member unchanged.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tollgate_formats::openai_responses::{Identity, decode_response, inspect_response, splice_response};
use tollgate_fuzz::tree;
use tollgate_types::{Credits, Usage};

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let _ = decode_response(&body);
    let Ok(head) = inspect_response(&body, "0123456789abcdef") else {
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
    let out = splice_response(&body, &head, &identity, &Usage::ZERO, Credits::from_nanos(6_800));
    inspect_response(&out, "0123456789abcdef").expect("the spliced output can be parsed");
    let (Some(before), Some(after)) = (tree(data), tree(&out)) else {
        return;
    };
    assert_eq!(after["id"], json!(identity.id()));
    assert_eq!(after["model"], json!(identity.model));
    assert_eq!(after["usage"]["cost"], "0.0000068");
    for name in ["object", "status", "error", "metadata", "tools"] {
        assert_eq!(before.get(name), after.get(name), "{name}");
    }
});
