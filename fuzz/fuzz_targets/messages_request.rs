//! Requests in the format of messages: a valid one is forwarded as a valid request, and every
//! member that the common form supports survives.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tollgate_formats::anthropic_messages::{
    Purpose, Version, decode_request, encode_request, splice_request, validate,
};

const ORIGIN: &str = "0123456789abcdef";

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let _ = validate(&body, Version::V2026_10_21, Purpose::Generate);
    let _ = validate(&body, Version::V2023_06_01, Purpose::Count);
    let decoded = decode_request(&body);
    let Ok(head) = validate(&body, Version::V2023_06_01, Purpose::Generate) else {
        return;
    };
    let decoded = decoded.expect("a valid request can be decoded");
    let spliced = splice_request(&body, &head, "up\"stream", ORIGIN, Some(7));
    // A conversation with only reasoning of other providers becomes empty.
    if let Ok(again) = validate(&spliced, Version::V2023_06_01, Purpose::Generate) {
        assert_eq!(&*again.model, "up\"stream");
        assert_eq!(again.max_tokens, head.max_tokens.map(|asked| asked.min(7)));
        assert_eq!((again.tools, again.stream), (head.tools, head.stream));
    }
    if let Ok(again) = decode_request(&encode_request(&decoded, &Default::default(), 100)) {
        assert_eq!(again.tools, decoded.tools);
        assert_eq!(again.stop, decoded.stop);
    }
});
