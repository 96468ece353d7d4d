//! Properties of all embeddings requests and vectors.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tollgate_formats::embeddings::{
    Encoding, RequestEdits, decode_request, decode_response, encode_request, encode_response,
    inspect_response, splice_request, splice_response, validate,
};
use tollgate_types::embed::{EmbedInput, EmbedRequest, EmbedResponse};
use tollgate_types::{Credits, Unit, Usage};

/// Generates any finite number, including subnormal numbers and both zeros.
fn finite() -> impl Strategy<Value = f32> {
    any::<u32>()
        .prop_map(f32::from_bits)
        .prop_filter("finite", |value| value.is_finite())
}

fn encoding() -> impl Strategy<Value = Encoding> {
    select(vec![Encoding::Float, Encoding::Base64])
}

fn inputs() -> impl Strategy<Value = Vec<EmbedInput>> {
    let texts = vec(".{1,20}", 1..6).prop_map(|texts| texts.into_iter().map(EmbedInput::Text).collect());
    let tokens = vec(vec(any::<u32>(), 1..6), 1..6)
        .prop_map(|lists| lists.into_iter().map(EmbedInput::Tokens).collect());
    prop_oneof![texts, tokens]
}

fn bits(vectors: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let of = |vector: &Vec<f32>| vector.iter().map(|value| value.to_bits()).collect();
    vectors.iter().map(of).collect()
}

/// Generates values of all types, to insert anywhere. Most of them are invalid there.
fn stray() -> impl Strategy<Value = Value> {
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(4_294_967_296_u64),
        json!(""),
        json!("a"),
        json!("base64"),
        json!([]),
        json!([""]),
        json!(["a", 1]),
        json!([1, 2]),
        json!([[1], []]),
        json!([["a"]]),
        json!([[[1]]]),
        json!({}),
    ];
    select(values.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Conversion between the encodings preserves every bit.
    #[test]
    fn vectors_survive_both_encodings(
        vectors in vec(vec(finite(), 1..40), 1..5),
        encodings in vec(encoding(), 1..4),
        tokens in 0..1_000_000_u64,
    ) {
        let usage = Usage::ZERO.with(Unit::Input, tokens);
        let mut response = EmbedResponse { vectors: vectors.clone(), usage: Some(usage) };
        for target_encoding in encodings {
            let body = Bytes::from(encode_response(&response, "up", target_encoding, &usage, Credits::ZERO));
            let head = inspect_response(&body).unwrap();
            prop_assert_eq!((head.vectors as usize, head.encoding), (vectors.len(), Some(target_encoding)));
            prop_assert_eq!(head.report.usage, Some(usage));
            let spliced = splice_response(&body, &head, "a/b", &usage, Credits::from_nanos(1)).unwrap();
            let value: Value = serde_json::from_slice(&spliced).unwrap();
            prop_assert_eq!(&value["model"], "a/b");
            prop_assert_eq!(&value["usage"]["cost"], "0.000000001");
            response = decode_response(&spliced).unwrap();
            prop_assert_eq!(bits(&response.vectors), bits(&vectors));
        }
    }

    /// An encoded request is valid, decodes to the same request, and has correct counts.
    #[test]
    fn requests_round_trip(
        inputs in inputs(),
        dimensions in proptest::option::of(1..=u32::MAX),
        user in proptest::option::of(".{0,8}"),
        target_encoding in encoding(),
        model in "[a-z/]{1,9}",
    ) {
        let request = EmbedRequest { model: "m".to_owned(), inputs, dimensions, user, extra: Default::default() };
        let body = Bytes::from(encode_request(&request, target_encoding));
        let head = validate(&body).unwrap();
        prop_assert_eq!((head.inputs as usize, head.encoding), (request.inputs.len(), target_encoding));
        prop_assert_eq!(head.dimensions, dimensions);
        let (text, tokens) = request.inputs.iter().fold((0, 0), |(text, tokens), input| match input {
            EmbedInput::Text(more) => (text + more.len() as u64, tokens),
            EmbedInput::Tokens(more) => (text, tokens + more.len() as u64),
        });
        prop_assert_eq!((head.text_bytes, head.tokens), (text, tokens));
        prop_assert_eq!(&decode_request(&body).unwrap(), &request);
        // Removed and renamed fields do not change the input.
        for remove in [&[][..], &["user", "encoding_format"][..]] {
            let edits = RequestEdits { model: &model, remove, vendor_fields: &[], dimensions_name: None };
            let sent = splice_request(&body, &head, &edits);
            let again = decode_request(&sent).unwrap();
            prop_assert_eq!((&again.model, &again.inputs), (&model, &request.inputs));
        }
    }

    /// Both parsers accept the same requests.
    #[test]
    fn validated_requests_can_be_decoded(
        field in select(vec!["model", "input", "encoding_format", "dimensions", "user", "other"]),
        value in stray(),
    ) {
        let mut body = json!({"model": "m", "input": ["a"], "encoding_format": "float", "dimensions": 2, "user": "u"});
        body[field] = value;
        let text = body.to_string();
        prop_assert_eq!(validate(text.as_bytes()).is_ok(), decode_request(text.as_bytes()).is_ok(), "{}", text);
    }

    /// No request or response makes a parser panic.
    #[test]
    fn hostile_bytes_only_cause_errors(bytes in vec(any::<u8>(), 0..60), cut in 0..150_usize) {
        let _ = (validate(&bytes).is_ok(), inspect_response(&bytes).is_ok(), decode_response(&bytes).is_ok());
        let whole = br#"{"object":"list","data":[{"index":0,"embedding":"AACAPw=="}],"usage":{"prompt_tokens":1,"cost":2}}"#;
        let mut part = whole[..cut.min(whole.len())].to_vec();
        part.extend_from_slice(&bytes);
        if let Ok(head) = inspect_response(&part) {
            let body = Bytes::from(part);
            let _ = splice_response(&body, &head, "m", &Usage::ZERO, Credits::ZERO);
            let _ = decode_response(&body);
        }
    }
}
