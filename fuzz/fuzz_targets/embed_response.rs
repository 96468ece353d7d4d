//! Embeddings answers: the caller gets the upstream's answer with the requested model name and the
//! caller's cost, and vectors keep every bit in both encodings.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate_formats::embeddings::{
    Encoding, decode_response, encode_response, inspect_response, splice_response,
};
use tollgate_fuzz::tree;
use tollgate_types::{Credits, Unit, Usage};

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let cost = Credits::from_nanos(6_800);
    let charged = Usage::ZERO.with(Unit::Input, 3);
    if let Ok(response) = decode_response(&body) {
        for encoding in [Encoding::Float, Encoding::Base64] {
            let written = encode_response(&response, "maker/model", encoding, &charged, cost);
            let again = decode_response(&written).expect("the encoded output can be parsed");
            let bits = |vectors: &[Vec<f32>]| -> Vec<u32> {
                vectors.iter().flatten().map(|value| value.to_bits()).collect()
            };
            assert_eq!(bits(&again.vectors), bits(&response.vectors));
        }
    }
    let Ok(head) = inspect_response(&body) else {
        return;
    };
    let Some(before) = tree(&body) else {
        return;
    };
    let out = splice_response(&body, &head, "maker/model", &charged, cost).expect("the output can be parsed");
    let after = tree(&out).expect("the spliced output has no duplicate keys");
    assert_eq!(after["model"], "maker/model");
    assert_eq!(after["usage"]["cost"], "0.0000068");
    for (name, value) in before.as_object().into_iter().flatten() {
        if name != "model" && name != "usage" {
            assert_eq!(&after[name.as_str()], value, "{name}");
        }
    }
    let again = inspect_response(&out).expect("the spliced output can be parsed");
    assert_eq!((again.vectors, again.encoding), (head.vectors, head.encoding));
    let reported = head.report.usage.unwrap_or(charged);
    assert_eq!(again.report.usage, Some(reported));
    let count = |usage: &Value| usage.as_object().map_or(0, serde_json::Map::len);
    assert!(head.report.usage.is_none() || count(&after["usage"]) <= count(&before["usage"]) + 1);
});
