//! Answers and events of generated content: the caller gets the upstream's with the requested model
//! name and the caller's cost.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tollgate_formats::gemini::{
    StreamDecoder, decode_embeddings, decode_response, inspect_response, splice_response,
};
use tollgate_types::Credits;

const ORIGIN: &str = "0123456789abcdef";

fuzz_target!(|data: &[u8]| {
    let body = Bytes::copy_from_slice(data);
    let _ = decode_response(&body, 0, "id");
    let _ = decode_embeddings(&body);
    let _ = StreamDecoder::new(0, "id").decode(&body);
    let Ok(head) = inspect_response(&body, ORIGIN) else {
        return;
    };
    assert!(head.output_bytes <= body.len() as u64);
    for cost in [None, Some(Credits::from_nanos(6_800))] {
        let out = splice_response(&body, &head, "maker/model", cost);
        let again = inspect_response(&out, ORIGIN).expect("the spliced output can be parsed");
        assert_eq!(again.usage, head.usage);
        assert_eq!(
            (again.candidates, again.finished),
            (head.candidates, head.finished)
        );
        assert_eq!(
            (again.output_bytes, again.is_error),
            (head.output_bytes, head.is_error)
        );
    }
});
