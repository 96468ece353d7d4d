use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::error::BoxedError;

/// Reads the whole text as a `serde_json` value, and checks that [`Node`] yields the same value.
fn tree(text: &[u8]) -> Result<Value, BoxedError> {
    let mut reader = Reader::new(text, MAX_NODES)?;
    let value = value(&mut reader)?;
    reader.finish()?;
    assert_eq!(
        Node::of_body(text, MAX_NODES)?.to_value(),
        value,
        "both readers see the same"
    );
    Ok(value)
}

fn value(reader: &mut Reader<'_>) -> Result<Value, BoxedError> {
    Ok(match reader.kind()? {
        Kind::Null => {
            reader.null()?;
            Value::Null
        }
        Kind::Bool => Value::Bool(reader.boolean()?),
        Kind::Number => serde_json::from_str(reader.number()?.token).unwrap(),
        Kind::String => {
            let text = reader.string()?;
            let decoded = text.decoded();
            assert_eq!(decoded.len(), text.len, "the length is that of the decoded text");
            Value::String(decoded.into_owned())
        }
        Kind::Array => {
            let mut items = Vec::new();
            reader.begin_array()?;
            while reader.item()? {
                items.push(value(reader)?);
            }
            Value::Array(items)
        }
        Kind::Object => {
            let mut fields = serde_json::Map::new();
            reader.begin_object()?;
            while let Some(key) = reader.key()? {
                fields.insert(key.name.into_owned(), value(reader)?);
            }
            Value::Object(fields)
        }
    })
}

fn skipped(text: &[u8]) -> Result<(), BoxedError> {
    let mut reader = Reader::new(text, MAX_NODES)?;
    reader.skip()?;
    reader.finish()
}

/// Checks that the reader accepts the same text as `serde_json`, whether it reads or skips the
/// values, and that it reads the same value.
fn check(text: &[u8]) {
    let expected = serde_json::from_slice::<Value>(text);
    let shown = String::from_utf8_lossy(text);
    match (&expected, tree(text)) {
        (Ok(expected), Ok(read)) => assert_eq!(*expected, read, "{shown}"),
        (Err(_), Err(_)) => {}
        (expected, read) => panic!("{shown}: serde_json {expected:?}, reader {read:?}"),
    }
    assert_eq!(expected.is_ok(), skipped(text).is_ok(), "{shown}");
}

#[test]
fn agrees_with_serde_json_on_corner_cases() {
    let cases = [
        "",
        " ",
        "{}",
        "[]",
        "{ }",
        "[ ]",
        "[1,]",
        "{\"a\":1,}",
        "{,}",
        "[,]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "0",
        "-0",
        "01",
        "-",
        "-01",
        "1.",
        ".1",
        "1.0",
        "1e",
        "1e+",
        "1e5",
        "1E-5",
        "1e400",
        "-1e400",
        "1e-400",
        "0e999999999",
        "123456789012345678901234567890",
        "1.5e308",
        "1.9e308",
        "+1",
        "Infinity",
        "NaN",
        "0x1",
        "true",
        "false",
        "null",
        "tru",
        "nul",
        "True",
        "truefalse",
        "[true false]",
        "\"\"",
        "\"a",
        "\"\\\"\"",
        "\"\\u0041\"",
        "\"\\u00e9\\u4e2d\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\u0041\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\\x\"",
        "\"\\",
        "\"\t\"",
        "\"\u{7f}\"",
        "\"é中😀\"",
        "\"long enough to need more than two words, and then a tab\there\"",
        "\"long enough to need more than two words, and then a quote\\\" here\"",
        "{\"a\":1}{",
        "{} x",
        "[[[[]]]]",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "{\"a\" 1}",
        "\u{feff}{}",
        "[\"a\",\"b\\n\"]",
        "{\"k\\u0065y\":{\"\":[null,{}]}}",
        "\n\t\r {\"a\" :\n1 , \"b\": [ 1 , 2 ] } \n",
    ];
    for text in cases {
        check(text.as_bytes());
    }
    for text in [
        &b"\"\xff\""[..],
        b"\xff",
        b"{\"a\":\"\xc3\"}",
        b"\"\xed\xa0\x80\"",
        b"\"\xf0\x9f\x98\x80\"",
    ] {
        check(text);
    }
}

#[test]
fn unescaped_control_characters_are_refused() {
    for place in 0..80 {
        for control in [0_u8, 0x1f, b'\n'] {
            let mut text = vec![b'x'; 80];
            text[place] = control;
            let text = [b"\"", &*text, b"\""].concat();
            assert!(skipped(&text).is_err(), "{control} at {place}");
        }
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}1{}", "[{\"a\":".repeat(depth / 2), "}]".repeat(depth / 2));
    assert!(skipped(nested(64).as_bytes()).is_ok());
    let error = skipped(nested(66).as_bytes()).unwrap_err();
    assert!(error.message.contains("deeper than 64"), "{error}");
    assert!(skipped("[".repeat(10_000_000).as_bytes()).is_err());
}

#[test]
fn the_number_of_values_is_bounded() {
    let mut reader = Reader::new(b"[1,[2],\"3\"]", 5).unwrap();
    assert!(reader.skip().is_ok());
    let mut reader = Reader::new(b"[1,[2],\"3\",4]", 5).unwrap();
    let error = reader.skip().unwrap_err();
    assert!(error.message.contains("too many values"), "{error}");
}

#[test]
fn errors_name_the_position() {
    let cases: [(&[u8], &str); 6] = [
        (b"{\n  \"a\": tru\n}", "line 2, column 8, byte 9"),
        ("{\n  \"é\": x}".as_bytes(), "line 2, column 8, byte 10"),
        (b"{\"a\":1", "line 1, column 7, byte 6"),
        (b"{} {", "line 1, column 4, byte 3"),
        (b"\"ab\\q\"", "line 1, column 4, byte 3"),
        (b"[\"\xff\"]", "at byte 2"),
    ];
    for (text, place) in cases {
        let error = skipped(text).unwrap_err();
        assert_eq!(error.code, tollgate_types::ErrorCode::InvalidJson);
        assert!(error.message.contains(place), "{error}");
    }
}

#[test]
fn written_strings_are_read_back() {
    for text in [
        "",
        "plain",
        "q\"b\\n\nr\rt\tnul\0esc\u{1b}",
        "é中😀\u{7f}\u{2028}",
    ] {
        let mut out = Vec::new();
        write_string(&mut out, text);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        assert_eq!(
            out,
            serde_json::to_vec(text).unwrap(),
            "the same escapes as serde_json"
        );
    }
}

/// Generates random JSON text, mostly well formed, with all kinds of tokens.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
        json_string(),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let field = (json_string(), inner.clone()).prop_map(|(key, value)| format!("{key}: {value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(" ,"))),
            proptest::collection::vec(field, 0..5).prop_map(|fields| format!("{{{}}}", fields.join(","))),
        ]
    })
}

fn json_string() -> impl Strategy<Value = String> {
    let json_char = prop_oneof![
        4 => "[ -!#-\\[\\]-~]{0,30}",
        1 => Just("\\n".to_owned()),
        1 => Just("\\\"".to_owned()),
        1 => Just("\\\\".to_owned()),
        1 => "\\\\u[0-9a-fA-F]{4}",
        1 => Just("\\ud83d\\ude00".to_owned()),
        1 => "[é中😀]{1,3}",
    ];
    proptest::collection::vec(json_char, 0..4).prop_map(|json_chars| format!("\"{}\"", json_chars.concat()))
}

proptest! {
    #[test]
    fn agrees_with_serde_json(text in json_text()) {
        check(text.as_bytes());
    }

    #[test]
    fn agrees_with_serde_json_on_damaged_text(
        text in json_text(),
        place in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"{}[]\",:\\ntf0-.eu \n\x00\x7f\xff".to_vec()),
        insert in any::<bool>(),
    ) {
        let mut bytes = text.into_bytes();
        let place = place.index(bytes.len());
        if insert {
            bytes.insert(place, byte);
        } else {
            bytes[place] = byte;
        }
        check(&bytes);
        check(&bytes[..place]);
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = skipped(&bytes);
        let _ = tree(&bytes);
    }
}
