//! Answers and events of Bedrock's Converse are parsed or refused without a panic. An event is its
//! name, a tab and its JSON; a stream has one on each line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate_formats::bedrock_converse::{StreamDecoder, decode_response, inspect_event};

fuzz_target!(|data: &[u8]| {
    let _ = decode_response(data, "id", 7, "maker/model");
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut decoder = StreamDecoder::new("id", 7, "maker/model");
    for line in text.lines() {
        let Some((name, event)) = line.split_once('\t') else {
            continue;
        };
        let Ok(event) = serde_json::from_str::<Value>(event) else {
            continue;
        };
        let (_, _, bytes) = inspect_event(name, &event);
        assert!(bytes <= 3 * line.len() as u64);
        let _ = decoder.decode(name, &event);
    }
});
