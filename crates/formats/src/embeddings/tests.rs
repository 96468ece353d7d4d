//! Byte-exact tests of forwarded requests and returned responses.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::embed::{EmbedInput, EmbedResponse};
use tollgate_types::{Credits, ErrorCode, Unit, Usage};

use super::*;

const COST: Credits = Credits::from_nanos(12_500_000);

fn charged(tokens: u64) -> Usage {
    Usage::ZERO.with(Unit::Input, tokens)
}

#[test]
fn heads_count_inputs_and_tokens() {
    // Input, number of inputs, bytes of text, number of tokens.
    for (input, expected) in [
        (r#""abc""#, (1, 3, 0)),
        (r#"["abc","\u00e4\n"]"#, (2, 6, 0)),
        ("[1,2,3]", (1, 0, 3)),
        ("[[1,2],[3]]", (2, 0, 3)),
        (" [ [ 1 ] ] ", (1, 0, 1)),
    ] {
        let body = format!(r#"{{"model":"m","input":{input}}}"#);
        let head = validate(body.as_bytes()).unwrap();
        assert_eq!((head.inputs, head.text_bytes, head.tokens), expected, "{input}");
        assert_eq!((head.encoding, head.dimensions), (Encoding::Float, None));
        let decoded = decode_request(body.as_bytes()).unwrap();
        assert_eq!(decoded.inputs.len(), expected.0 as usize, "{input}");
        let bytes: usize = decoded
            .inputs
            .iter()
            .map(|input| match input {
                EmbedInput::Text(text) => text.len(),
                EmbedInput::Tokens(_) => 0,
            })
            .sum();
        assert_eq!(bytes as u64, expected.1, "{input}");
    }
}

#[test]
fn bounds_hold_on_both_sides() {
    let of = |input: Value| json!({"model": "m", "input": input}).to_string();
    let several = |count: usize| of(Value::from(vec!["a"; count]));
    let lists = |count: usize| of(Value::from(vec![json!([1]); count]));
    for body in [
        several(1),
        several(2_048),
        lists(2_048),
        of(json!([u32::MAX])),
        of(json!([0])),
    ] {
        validate(body.as_bytes()).unwrap();
    }
    for body in [several(0), several(2_049), lists(2_049)] {
        let error = validate(body.as_bytes()).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (ErrorCode::InvalidParameter, Some("input"))
        );
    }
    // A body that is not JSON is `invalid_json`, even if it also breaks another rule before that
    // position.
    let error = validate(br#"{"model":"m","input":["", }"#).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidJson);
}

#[test]
fn forwarded_requests_change_only_in_the_model() {
    let body = "{ \"input\" : [\"a\\u0041\", \"b\"],\n\t\"model\":\"x/y\" , \"encoding_format\":\"base64\", \"dimensions\": 8 }";
    let bytes = Bytes::from_static(body.as_bytes());
    let head = validate(&bytes).unwrap();
    let edits = RequestEdits {
        model: "up",
        ..RequestEdits::default()
    };
    let sent = splice_request(&bytes, &head, &edits);
    assert_eq!(std::str::from_utf8(&sent).unwrap(), body.replace("x/y", "up"));
    let same = RequestEdits {
        model: "x/y",
        ..edits
    };
    let unchanged = splice_request(&bytes, &head, &same);
    assert_eq!(
        unchanged.as_ptr(),
        bytes.as_ptr(),
        "nothing to do, nothing copied"
    );
}

#[test]
fn fields_are_dropped_renamed_and_forwarded() {
    let edits = RequestEdits {
        model: "up",
        remove: &["user", "encoding_format"],
        vendor_fields: &["input_type"],
        dimensions_name: Some("output_dimension"),
    };
    for (body, sent) in [
        (
            r#"{"user":"u", "model":"m","input_type" : "query","dimensions":3,"input":"a","store":true}"#,
            r#"{"model":"up","input_type" : "query","output_dimension":3,"input":"a"}"#,
        ),
        (
            r#"{"input":"a","model":"m","labels":{}}"#,
            r#"{"input":"a","model":"up"}"#,
        ),
        (
            r#"{"input":[1, 2],"model":"m"}"#,
            r#"{"input":[1, 2],"model":"up"}"#,
        ),
    ] {
        let bytes = Bytes::from_static(body.as_bytes());
        let head = validate(&bytes).unwrap();
        let out = splice_request(&bytes, &head, &edits);
        assert_eq!(std::str::from_utf8(&out).unwrap(), sent);
    }
    let head = validate(br#"{"model":"m","input":"a","metadata":{},"input_type":"q","x":1}"#).unwrap();
    assert_eq!(head.ignored_hints(&[]).collect::<Vec<_>>(), ["metadata"]);
    assert_eq!(check_unknown(&head, &["x", "input_type"]), Ok(()));
    let error = check_unknown(&head, &["x"]).unwrap_err();
    assert_eq!(
        (error.code, error.param.as_deref()),
        (ErrorCode::UnknownParameter, Some("input_type"))
    );
}

#[test]
fn responses_change_only_in_model_and_usage() {
    let data = r#""data" : [{"index":0,"object":"embedding","embedding":[ 0.10, -1e-7 ]}]"#;
    for (body, expected) in [
        (
            format!(
                r#"{{"id":"e","model":"up-v1",{data},"usage":{{"prompt_tokens":3,"cost":9,"total_tokens":3}}}}"#
            ),
            format!(
                r#"{{"id":"e","model":"a/b",{data},"usage":{{"prompt_tokens":3,"total_tokens":3,"cost":"0.0125"}}}}"#
            ),
        ),
        (
            format!(r#"{{{data},"usage":null}}"#),
            format!(
                r#"{{"model":"a/b",{data},"usage":{{"prompt_tokens":2,"total_tokens":2,"cost":"0.0125"}}}}"#
            ),
        ),
        (
            format!(r#"{{{data}}}"#),
            format!(
                r#"{{"model":"a/b","usage":{{"prompt_tokens":2,"total_tokens":2,"cost":"0.0125"}},{data}}}"#
            ),
        ),
        (
            "{ }".to_owned(),
            r#"{"model":"a/b","usage":{"prompt_tokens":2,"total_tokens":2,"cost":"0.0125"} }"#.to_owned(),
        ),
    ] {
        let bytes = Bytes::from(body);
        let head = inspect_response(&bytes).unwrap();
        let spliced = splice_response(&bytes, &head, "a/b", &charged(2), COST).unwrap();
        assert_eq!(std::str::from_utf8(&spliced).unwrap(), expected);
    }
}

#[test]
fn vector_encoding_and_dimensions_are_detected() {
    // Data, number of vectors, encoding.
    for (data, vectors, encoding) in [
        (
            r#"[{"embedding":[1]},{"embedding":[2.5]}]"#,
            2,
            Some(Encoding::Float),
        ),
        (r#"[{"embedding":"AACAPw=="}]"#, 1, Some(Encoding::Base64)),
        (r#"[{"embedding":"AAD\/Ow=="}]"#, 1, Some(Encoding::Base64)),
        (r#"[{"embedding":[1]},{"embedding":"AACAPw=="}]"#, 2, None),
        (r#"[{"embedding":[]}]"#, 1, None),
        (r#"[{"embedding":[1,"2"]}]"#, 1, None),
        (r#"[{"embedding":""}]"#, 1, None),
        (r#"[{"embedding":"===="}]"#, 1, None),
        (r#"[{"embedding":"AACA"}]"#, 1, None),
        (r#"[{"embedding":"AACAPw="}]"#, 1, None),
        (r#"[{"embedding":"AA-APw=="}]"#, 1, None),
        (r#"[{"index":0}]"#, 1, None),
        ("[7]", 1, None),
        ("[]", 0, None),
        ("{}", 0, None),
    ] {
        let body = format!(r#"{{"data":{data}}}"#);
        let head = inspect_response(body.as_bytes()).unwrap();
        assert_eq!((head.vectors, head.encoding), (vectors, encoding), "{data}");
        if encoding.is_some() {
            assert!(head.output_bytes > 0, "{data}");
            assert_eq!(
                decode_response(body.as_bytes()).unwrap().vectors.len(),
                vectors as usize
            );
        }
    }
    assert!(inspect_response(b"[]").is_err());
    let error = inspect_response(br#"{"error":{"message":"no"}}"#).unwrap();
    assert!(error.is_error);
    // Base64 can encode values that JSON cannot: infinity and NaN.
    for odd in ["AACAfw==", "AADAfw=="] {
        let body = format!(r#"{{"data":[{{"embedding":"{odd}"}}]}}"#);
        assert!(decode_response(body.as_bytes()).is_err(), "{odd}");
    }
}

#[test]
fn the_common_form_is_written_in_both_encodings() {
    let response = EmbedResponse {
        vectors: vec![vec![0.1, -2.0], vec![f32::MIN_POSITIVE, 1.0]],
        usage: None,
    };
    let floats = encode_response(&response, "a/\"b\"", Encoding::Float, &charged(4), COST);
    assert_eq!(
        String::from_utf8(floats).unwrap(),
        r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2.0]},{"object":"embedding","index":1,"embedding":[1.1754944e-38,1.0]}],"model":"a/\"b\"","usage":{"prompt_tokens":4,"total_tokens":4,"cost":"0.0125"}}"#
    );
    let base64 = encode_response(&response, "m", Encoding::Base64, &charged(4), COST);
    let value: Value = serde_json::from_slice(&base64).unwrap();
    assert_eq!(value["data"][0]["embedding"], "zczMPQAAAMA=");
}
