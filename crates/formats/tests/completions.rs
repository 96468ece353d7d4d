//! Properties of all completions requests.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tollgate_formats::openai_chat::{encode_request, validate as validate_chat};
use tollgate_formats::openai_completions::{
    COMPLETIONS_ONLY, Field, RequestEdits, check_unknown, check_unsupported, decode_request, splice_request,
    validate,
};

fn rich() -> Value {
    json!({
        "model": "maker/model", "prompt": "Once \"upon\"\n😀", "max_tokens": 7, "stream": true,
        "stream_options": {"include_usage": true}, "temperature": 0.5, "top_p": 1, "n": 2, "best_of": null,
        "stop": ["a", "b"], "seed": -7, "suffix": null, "echo": false, "logprobs": null,
        "frequency_penalty": -1.5, "presence_penalty": 2, "logit_bias": {"1": -100},
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        "user": "u", "top_k": 4,
    })
}

/// Generates values of all types, to insert anywhere. Most of them are invalid there.
fn stray() -> impl Strategy<Value = Value> {
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(3),
        json!(21),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("a"),
        json!([]),
        json!([""]),
        json!(["a"]),
        json!(["a", "b"]),
        json!(["a", 1]),
        json!([1, 2]),
        json!([[1], [2]]),
        json!([[1], []]),
        json!({}),
        json!({"type": "text"}),
        json!({"include_usage": true}),
    ];
    select(values.to_vec())
}

fn fields() -> Vec<&'static str> {
    let known = Field::ALL.iter().map(|field| field.as_str());
    known.chain(["top_k", "messages"]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Every valid request that uses none of the fields in [`COMPLETIONS_ONLY`] can be decoded. If
    /// it has no unknown fields and generates tokens, the decoded request is a valid chat request.
    #[test]
    fn validated_requests_can_be_decoded(changes in vec((select(fields()), stray()), 0..4)) {
        let mut body = rich();
        for (field, value) in changes {
            body[field] = value;
        }
        let text = body.to_string();
        let valid = validate(text.as_bytes());
        let fits = valid.as_ref().is_ok_and(|head| check_unsupported(head, COMPLETIONS_ONLY).is_ok());
        let decoded = decode_request(text.as_bytes());
        prop_assert_eq!(decoded.is_ok(), fits, "{}", text);
        // The API crate refuses unknown fields earlier.
        let known = valid.as_ref().is_ok_and(|head| check_unknown(head, &["top_k"]).is_ok());
        if let Ok(request) = decoded.as_ref() && known && request.max_tokens != Some(0) {
            let chat = encode_request(request, Default::default());
            let head = validate_chat(&chat);
            prop_assert!(head.is_ok(), "{}: {:?}", text, head.err());
        }
        if let Ok(head) = valid {
            let edits = RequestEdits { model: "up\"stream", clamp_output: None, remove: &["user", "n"], vendor_fields: &["top_k"] };
            let sent = splice_request(text.as_bytes(), &head, &edits);
            let again = validate(&sent).unwrap();
            prop_assert_eq!(&again.model, "up\"stream");
            prop_assert_eq!((again.prompts, again.tokens, again.max_tokens), (head.prompts, head.tokens, head.max_tokens));
            let tree: Value = serde_json::from_slice(&sent).unwrap();
            prop_assert_eq!(&tree["prompt"], &body["prompt"]);
            prop_assert!(tree.get("user").is_none() && tree.get("n").is_none() && tree.get("messages").is_none());
            prop_assert_eq!(tree.get("top_k"), body.get("top_k"));
        }
    }

    /// No request body makes a parser panic.
    #[test]
    fn hostile_bytes_only_cause_errors(bytes in vec(any::<u8>(), 0..60), cut in 0..400_usize) {
        let mut part = rich().to_string().into_bytes();
        part.truncate(cut);
        part.extend_from_slice(&bytes);
        for bytes in [&part, &bytes] {
            prop_assert!(validate(bytes).is_ok() || decode_request(bytes).is_err());
        }
    }
}
