//! Requests for generated content: a valid one is forwarded as a valid request, and every member
//! that the common form supports survives.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tollgate_formats::gemini::{
    Purpose, decode_count, decode_request, embed_request, embed_requests, encode_request, for_vertex,
    splice_request, validate,
};

const ORIGIN: &str = "0123456789abcdef";

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let _ = decode_count(&body);
    let _ = embed_request(&body);
    let _ = embed_requests(&body);
    let decoded = decode_request(&body);
    let head = match validate(&body, Purpose::Generate) {
        Ok(head) => head,
        Err(error) => {
            assert_eq!(decoded.err(), Some(error));
            return;
        }
    };
    let spliced = splice_request(&body, &head, "gemini-3-x", ORIGIN, Some(7));
    let again = validate(&spliced, Purpose::Generate).expect("the forwarded request is valid");
    assert_eq!(again.max_tokens, Some(head.max_tokens.unwrap_or(7).min(7)));
    assert_eq!((again.contents, again.tools), (head.contents, head.tools));
    let elsewhere = for_vertex(&spliced).expect("the forwarded request can be parsed");
    match validate(&elsewhere, Purpose::Generate) {
        Ok(again) => assert_eq!((again.contents, again.tools), (head.contents, head.tools)),
        // A result may have the id of a call and another name; without the id it matches no call.
        Err(error) => assert!(error.param.is_some_and(|param| param.ends_with(".name"))),
    }
    let Ok(decoded) = decoded else { return };
    // A request without a conversation cannot be encoded.
    if let Ok(again) = decode_request(&encode_request(&decoded, &Default::default(), None)) {
        assert_eq!(again.tools, decoded.tools);
        assert_eq!(again.response_format, decoded.response_format);
    }
});
