//! Answers and events in the format of messages are parsed or refused without a panic.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tollgate_formats::anthropic_messages::{
    StreamDecoder, decode_response, encode_response, inspect_response, splice_response,
};
use tollgate_formats::sse::EventReader;
use tollgate_types::Credits;

const ORIGIN: &str = "0123456789abcdef";

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    if let Ok(head) = inspect_response(&body, ORIGIN) {
        let _ = splice_response(&body, &head, "public", Some(Credits::from_nanos(7)));
    }
    if let Ok(answer) = decode_response(&body, 0) {
        let written = encode_response(&answer, "public", None, true);
        decode_response(&written, 0).expect("the encoded output can be parsed");
    }
    let mut reader = EventReader::default();
    let mut decoder = StreamDecoder::new(0);
    reader.push(body);
    while let Ok(Some(event)) = reader.next_event() {
        let _ = decoder.decode(&event.data);
    }
});
