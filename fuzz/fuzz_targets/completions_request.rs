//! Completions requests: a valid one can be decoded, unless it has members of this format alone,
//! and is forwarded as the same request to another model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_formats::openai_completions::{
    COMPLETIONS_ONLY, DEFAULT_MAX_TOKENS, Field, RequestEdits, check_unknown, check_unsupported,
    decode_request, splice_request, validate,
};
use tollgate_fuzz::tree;

fuzz_target!(|body: &[u8]| {
    let decoded = decode_request(body);
    let head = match validate(body) {
        Ok(head) => head,
        Err(error) => {
            assert_eq!(decoded.err(), Some(error));
            return;
        }
    };
    assert!(head.prompts > 0 && head.best_of >= head.n && head.choices() >= head.prompts);
    let lacking = check_unsupported(&head, COMPLETIONS_ONLY);
    assert_eq!(decoded.as_ref().err(), lacking.as_ref().err());
    if let Ok(request) = decoded {
        assert_eq!((request.n, request.max_tokens), (head.n, Some(head.max_tokens)));
    }
    let _ = check_unknown(&head, &["top_k"]);

    let before = tree(body);
    for remove in [&[][..], &["user", "stream_options", "prompt"][..]] {
        let edits = RequestEdits {
            model: "up\"stream",
            clamp_output: Some(7),
            remove,
            vendor_fields: &["top_k"],
        };
        let out = splice_request(body, &head, &edits);
        let again = validate(&out).expect("the forwarded request is valid");
        assert_eq!(again.model, edits.model);
        assert_eq!((again.prompts, again.tokens), (head.prompts, head.tokens));
        assert_eq!(again.max_tokens, head.max_tokens.min(7));
        let (Some(before), Some(after)) = (&before, tree(&out)) else {
            continue;
        };
        assert_eq!(after["prompt"], before["prompt"]);
        assert_eq!(after.get("top_k"), before.get("top_k"));
        assert_eq!(
            after.get("user").is_some(),
            remove.is_empty() && head.has(Field::User)
        );
        if !head.has(Field::MaxTokens) {
            assert_eq!(after["max_tokens"], DEFAULT_MAX_TOKENS.min(7));
        }
    }
});
