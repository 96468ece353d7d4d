//! Whole answers: the caller gets the upstream's answer with the requested model name and the
//! caller's cost.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tollgate_formats::openai_chat::{decode_response, encode_usage, inspect_response, splice_response};
use tollgate_fuzz::tree;
use tollgate_types::{Credits, Usage};

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let _ = decode_response(&body);
    let Ok(head) = inspect_response(&body) else {
        return;
    };
    assert!(head.output_bytes <= body.len() as u64);
    let cost = Credits::from_nanos(6_800);
    let plain = splice_response(&body, &head, "maker/model", None);
    let priced = splice_response(&body, &head, "maker/model", Some((&Usage::ZERO, cost)));
    for out in [&plain, &priced] {
        let again = inspect_response(out).expect("the spliced output can be parsed");
        if head.report.usage.is_some() {
            assert_eq!(again.report, head.report);
        }
        assert_eq!(
            (again.choices, again.output_bytes),
            (head.choices, head.output_bytes)
        );
    }
    let Some(before) = tree(&body) else {
        return;
    };
    assert_eq!(tree(&plain), Some(expected(&before, None)));
    assert_eq!(tree(&priced), Some(expected(&before, Some(cost))));
});

fn expected(before: &Value, cost: Option<Credits>) -> Value {
    let mut out = before.clone();
    out["model"] = json!("maker/model");
    match out.get_mut("usage").filter(|usage| usage.is_object()) {
        Some(usage) => tollgate_fuzz::with_cost(usage, cost),
        None if cost.is_some() => out["usage"] = encode_usage(&Usage::ZERO, cost),
        None => {}
    }
    out
}
