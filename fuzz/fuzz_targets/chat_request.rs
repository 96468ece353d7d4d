//! Chat requests: a valid one can be decoded, and is forwarded as the same request to another
//! model.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tollgate_formats::openai_chat::{
    CapName, RequestEdits, check_unknown, decode_request, encode_request, splice_request, validate,
};
use tollgate_fuzz::tree;

const CAPS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

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
    let _ = check_unknown(&head, &["top_k"]);
    let encoded = encode_request(&decoded, CapName::AsSent);
    validate(&encoded).expect("a re-encoded request is valid");

    let before = tree(&body);
    for (cap_name, clamp_output) in [
        (CapName::AsSent, None),
        (CapName::AsSent, Some(7)),
        (CapName::MaxTokens, None),
        (CapName::MaxCompletionTokens, Some(9)),
    ] {
        let edits = RequestEdits {
            model: "up\"stream",
            clamp_output,
            cap_name,
            developer_as_system: clamp_output.is_some(),
            ..RequestEdits::default()
        };
        let out = splice_request(&body, &head, &edits).concat();
        let again = validate(&out).expect("the forwarded request is valid");
        assert_eq!(again.model, edits.model);
        assert_eq!(again.include_usage, head.stream);
        assert_eq!(again.unknown_fields().count(), 0);
        if let Some(before) = &before {
            let known = |name: &str| !head.unknown_fields().any(|unknown| unknown == name);
            assert_eq!(tree(&out).as_ref(), Some(&expected(before, &edits, known)));
        }
    }
});

/// Returns the tree after the same edits.
fn expected(before: &Value, edits: &RequestEdits<'_>, known: impl Fn(&str) -> bool) -> Value {
    let sent = before.as_object().expect("a request is an object");
    let wanted = match edits.cap_name {
        CapName::MaxCompletionTokens => CAPS[0],
        _ => CAPS[1],
    };
    // The gateway's cap replaces a larger cap of the caller.
    let smaller = |cap: &Value| match (cap.as_u64(), edits.clamp_output) {
        (Some(asked), Some(clamp)) if clamp < asked => json!(clamp),
        _ => cap.clone(),
    };
    let filled = |name: &str| sent.get(name).filter(|cap| !cap.is_null()).map(smaller);
    let cap = filled(wanted).or_else(|| CAPS.into_iter().find_map(filled));
    let as_sent = edits.cap_name == CapName::AsSent && (cap.is_some() || edits.clamp_output.is_none());
    let mut out: Map<String, Value> = sent.clone();
    out.retain(|name, _| known(name) && (as_sent || !CAPS.contains(&name.as_str())));
    for name in CAPS.iter().filter(|_| as_sent) {
        if let Some(cap) = out.get_mut(*name) {
            *cap = smaller(cap);
        }
    }
    if !as_sent && let Some(cap) = cap.or(edits.clamp_output.map(Value::from)) {
        out.insert(wanted.to_owned(), cap);
    }
    out.insert("model".to_owned(), json!(edits.model));
    if out.get("stream") == Some(&Value::Bool(true)) {
        let options = sent.get("stream_options").and_then(Value::as_object);
        let mut options = options.cloned().unwrap_or_default();
        options.insert("include_usage".to_owned(), Value::Bool(true));
        out.insert("stream_options".to_owned(), Value::Object(options));
    }
    let messages = out.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages
        .into_iter()
        .flatten()
        .filter(|_| edits.developer_as_system)
    {
        if message["role"] == "developer" {
            message["role"] = json!("system");
        }
    }
    Value::Object(out)
}
