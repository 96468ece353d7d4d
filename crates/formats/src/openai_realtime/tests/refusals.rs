//! Refusals that the golden file of refusals cannot contain: large values, and texts that are not
//! valid events.

use serde_json::{Map, Value, json};
use tollgate_types::ErrorCode::{InvalidJson, InvalidParameter};

use super::super::*;

#[test]
fn lists_and_texts_have_a_maximum_size() {
    let pairs = |count: usize| -> Map<String, Value> {
        (0..count).map(|n| (n.to_string(), Value::from("x"))).collect()
    };
    let update = |key: &str, value: Value| json!({"type": "session.update", "session": {key: value}});
    let create = |value: Value| json!({"type": "response.create", "response": {"metadata": value}});
    let instructions = |bytes: usize| update("instructions", json!("a".repeat(bytes)));
    let tools = |count: usize| update("tools", json!(vec![json!({"name": "a"}); count]));
    for (largest, too_large, param) in [
        (
            instructions(MAX_INSTRUCTIONS_BYTES),
            instructions(MAX_INSTRUCTIONS_BYTES + 1),
            "session.instructions",
        ),
        (tools(MAX_TOOLS), tools(MAX_TOOLS + 1), "session.tools"),
        (
            create(pairs(16).into()),
            create(pairs(17).into()),
            "response.metadata",
        ),
    ] {
        let parse = |event: &Value| parse(&event.to_string(), SessionKind::Voice);
        assert!(parse(&largest).is_ok(), "{param}");
        let refused = parse(&too_large).expect_err(param).error;
        assert_eq!(
            (refused.code, refused.param.as_deref()),
            (InvalidParameter, Some(param))
        );
    }
}

#[test]
fn duplicate_members_are_invalid_json() {
    for (text, event_id) in [
        (
            r#"{"type":"input_audio_buffer.clear","type":"input_audio_buffer.commit","event_id":"a"}"#,
            Some("a"),
        ),
        (
            r#"{"event_id":"a","type":"input_audio_buffer.append","audio":"","audio":"AAAA"}"#,
            Some("a"),
        ),
        (
            r#"{"event_id":"a","event_id":"a","type":"input_audio_buffer.clear"}"#,
            None,
        ),
        (r#"{"event_id":"a","x":1,"x":2}"#, Some("a")),
        (
            r#"{"event_id":"a","type":"session.update","session":{"speed":1,"spe\u0065d":1}}"#,
            Some("a"),
        ),
        (
            r#"{"event_id":"a","type":"session.update","session":{"tools":[{"name":"f","parameters":{"a":[{"b":1,"b":1}]}}]}}"#,
            Some("a"),
        ),
    ] {
        let refused = parse(text, SessionKind::Voice).expect_err(text);
        assert_eq!(
            (refused.error.code, refused.error.param),
            (InvalidJson, None),
            "{text}"
        );
        assert_eq!(refused.event_id.as_deref(), event_id, "{text}");
    }
}

#[test]
fn a_duplicate_among_many_members_is_found() {
    let members: Vec<String> = (0..100).map(|n| format!("\"{n}\":0")).collect();
    let text = format!("{{{},\"57\":0}}", members.join(","));
    let refused = parse(&text, SessionKind::Voice).expect_err(&text);
    assert_eq!(refused.error.code, InvalidJson);
    assert!(
        refused.error.message.contains("'57'"),
        "{}",
        refused.error.message
    );
}

#[test]
fn texts_that_are_no_events_are_refused() {
    for (text, code) in [
        ("", InvalidJson),
        ("{", InvalidJson),
        (r#"{"type":"input_audio_buffer.clear"} {}"#, InvalidJson),
        (
            r#"{"type":"input_audio_buffer.append","audio":"AAAA""#,
            InvalidJson,
        ),
        ("[]", InvalidParameter),
        ("null", InvalidParameter),
    ] {
        let refused = parse(text, SessionKind::Voice).expect_err(text);
        assert_eq!((refused.error.code, refused.error.param), (code, None), "{text}");
        assert_eq!(refused.event_id, None, "{text}");
    }
}

#[test]
fn ids_of_events_are_short_texts() {
    for (id, expected) in [
        (json!("a".repeat(512)), Ok(Some("a".repeat(512)))),
        (json!("ä".repeat(512)), Ok(Some("ä".repeat(512)))),
        (json!(null), Ok(None)),
        (json!("a".repeat(513)), Err(())),
        (json!(1), Err(())),
    ] {
        for event in [
            json!({"type": "input_audio_buffer.clear", "event_id": id}),
            json!({"type": "input_audio_buffer.append", "audio": "AAAA", "event_id": id}),
        ] {
            let parsed = parse(&event.to_string(), SessionKind::Voice);
            let found = parsed.map(|parsed| parsed.event_id).map_err(|refused| {
                assert_eq!(refused.error.param.as_deref(), Some("event_id"));
                assert_eq!(refused.event_id, None);
            });
            assert_eq!(found, expected, "{event}");
        }
    }
}
