//! Embeddings requests: a valid one can be decoded, and is forwarded as the same request to another
//! model.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tollgate_formats::embeddings::{
    Encoding, RequestEdits, check_unknown, decode_request, encode_request, splice_request, validate,
};
use tollgate_fuzz::tree;

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
    assert_eq!(decoded.inputs.len(), head.inputs as usize);
    let _ = check_unknown(&head, &["input_type"]);
    let encoded = encode_request(&decoded, Encoding::Base64);
    let again = decode_request(&encoded).expect("a re-encoded request is valid");
    assert_eq!(again.inputs, decoded.inputs);

    let before = tree(&body);
    for (remove, dimensions_name) in [(&[][..], None), (&["user", "encoding_format"][..], Some("size"))] {
        let edits = RequestEdits {
            model: "up\"stream",
            remove,
            vendor_fields: &["input_type"],
            dimensions_name,
        };
        let out = splice_request(&body, &head, &edits);
        let again = validate(&out).expect("the forwarded request is valid");
        assert_eq!(again.model, edits.model);
        assert_eq!((again.text_bytes, again.tokens), (head.text_bytes, head.tokens));
        if let Some(before) = &before {
            assert_eq!(tree(&out), Some(expected(before, &edits)));
        }
    }
});

/// Returns the tree after the same edits.
fn expected(before: &Value, edits: &RequestEdits<'_>) -> Value {
    let sent = before.as_object().expect("a request is an object");
    let known = [
        "model",
        "input",
        "encoding_format",
        "dimensions",
        "user",
        "input_type",
    ];
    let members = sent
        .iter()
        .filter(|(name, _)| known.contains(&name.as_str()) && !edits.remove.contains(&name.as_str()))
        .map(|(name, value)| match (name.as_str(), edits.dimensions_name) {
            ("model", _) => (name.clone(), json!(edits.model)),
            ("dimensions", Some(other)) => (other.to_owned(), value.clone()),
            _ => (name.clone(), value.clone()),
        });
    Value::Object(members.collect())
}
