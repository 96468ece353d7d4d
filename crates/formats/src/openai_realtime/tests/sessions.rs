//! Updates of sessions.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_types::ErrorCode;

use super::super::*;

fn voice_session() -> Session {
    Session {
        voice: Some(Arc::from("ash")),
        ..Session::new("rtsess_1", SessionKind::Voice, "house/voice")
    }
}

fn update(session: &Session, change: &Value, limits: &SessionLimits) -> Result<Session, crate::DecodeError> {
    let update = SessionUpdate::parse(&change.to_string(), session.kind, Some("session"))?;
    session.apply(&update, limits)
}

fn updated(session: &Session, change: &Value) -> Session {
    update(session, change, &SessionLimits::default()).unwrap_or_else(|error| panic!("{change}: {error}"))
}

#[test]
fn turn_detection_has_three_places_and_two_forms() {
    let off = voice_session();
    let server = Session {
        turn_detection: Some(DEFAULT_SERVER_VAD),
        ..voice_session()
    };
    for change in [
        json!({"turn_detection": "server_vad"}),
        json!({"turn_detection": {"type": "server_vad"}}),
        json!({"turn_detection": {}}),
        json!({"audio": {"input": {"turn_detection": "server_vad"}}}),
        json!({"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 0.5}}}}),
    ] {
        assert_eq!(updated(&off, &change), server, "{change}");
    }
    for change in [
        json!({"turn_detection": null}),
        json!({"turn_detection": "none"}),
        json!({"turn_detection": {"type": "none"}}),
        json!({"audio": {"input": {"turn_detection": null}}}),
    ] {
        assert_eq!(updated(&server, &change), off, "{change}");
    }
    let semantic = updated(
        &off,
        &json!({"turn_detection": {"type": "semantic_vad", "create_response": false}}),
    );
    let rule = semantic.turn_detection.unwrap();
    assert!(!rule.create_response() && rule.interrupt_response());
}

#[test]
fn absent_and_null_fields_do_not_change() {
    let session = updated(
        &voice_session(),
        &json!({"instructions": "x", "speed": 1.5, "max_output_tokens": 7, "output_modalities": ["text"],
            "turn_detection": "server_vad", "input_audio_transcription": {"model": "w", "language": "de"},
            "tools": [{"name": "f"}], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
    );
    let nulls = json!({"instructions": null, "audio": {"input": null, "output": {"speed": null}}, "tools": null,
        "max_output_tokens": null, "output_modalities": null, "model": null, "type": null, "tracing": null,
        "prompt": null, "voice": null, "reasoning": null});
    assert_eq!(updated(&session, &json!({})), session);
    assert_eq!(updated(&session, &nulls), session);
    let translated = updated(
        &session,
        &json!({"audio": {"input": {"transcription": {"language": "fr"}}}}),
    );
    let transcription = translated.transcription.unwrap();
    assert_eq!(transcription.model.as_deref(), Some("w"));
    assert_eq!(transcription.language.as_deref(), Some("fr"));
    assert_eq!(
        updated(&session, &json!({"input_audio_transcription": null})).transcription,
        None
    );
}

#[test]
fn limits_of_the_caller_are_checked() {
    let session = voice_session();
    let limits = SessionLimits {
        voices: Some(vec![Arc::from("ash"), Arc::from("coral")]),
        is_voice_fixed: false,
        max_output_tokens: Some(1_024),
    };
    let fixed = SessionLimits {
        is_voice_fixed: true,
        ..limits.clone()
    };
    for (change, limits, param) in [
        (json!({"voice": "coral"}), &limits, None),
        (
            json!({"audio": {"output": {"voice": {"id": "coral"}}}}),
            &limits,
            None,
        ),
        (json!({"voice": "verse"}), &limits, Some("session.voice")),
        (
            json!({"audio": {"output": {"voice": "verse"}}}),
            &limits,
            Some("session.audio.output.voice"),
        ),
        (json!({"voice": "ash"}), &fixed, None),
        (
            json!({"audio": {"output": {"voice": "coral"}}}),
            &fixed,
            Some("session.audio.output.voice"),
        ),
        (json!({"max_output_tokens": 1_024}), &limits, None),
        (json!({"max_output_tokens": "inf"}), &limits, None),
        (
            json!({"max_output_tokens": 1_025}),
            &limits,
            Some("session.max_output_tokens"),
        ),
        (
            json!({"max_response_output_tokens": 1_025}),
            &limits,
            Some("session.max_response_output_tokens"),
        ),
        (json!({"model": "house/voice", "type": "realtime"}), &limits, None),
        (json!({"model": "other"}), &limits, Some("session.model")),
    ] {
        let found = update(&session, &change, limits);
        match (found, param) {
            (Ok(_), None) => {}
            (Err(error), Some(param)) => {
                assert_eq!(error.code, ErrorCode::InvalidParameter, "{change}");
                assert_eq!(error.param.as_deref(), Some(param), "{change}");
            }
            (found, _) => panic!("{change}: {found:?}"),
        }
    }
}

#[test]
fn response_parameters_are_checked_against_the_session() {
    let ash: Arc<str> = Arc::from("ash");
    let limits = SessionLimits {
        voices: None,
        is_voice_fixed: true,
        max_output_tokens: Some(10),
    };
    for (response, param) in [
        (json!({"voice": "ash"}), None),
        (json!({"max_output_tokens": 10}), None),
        (
            json!({"audio": {"output": {"voice": "coral"}}}),
            Some("response.audio.output.voice"),
        ),
        (
            json!({"max_output_tokens": 11}),
            Some("response.max_output_tokens"),
        ),
    ] {
        let event = json!({"type": "response.create", "response": response});
        let parsed = parse(&event.to_string(), SessionKind::Voice).unwrap();
        let ClientEvent::CreateResponse(params) = parsed.event else {
            panic!("{event}");
        };
        let checked = params.check(&limits, Some(&ash));
        assert_eq!(
            checked.err().and_then(|error| error.param).as_deref(),
            param,
            "{event}"
        );
    }
}

#[test]
fn a_body_without_a_parent_has_short_paths() {
    let parse = |text: &str| SessionUpdate::parse(text, SessionKind::Voice, None);
    assert_eq!(parse(r#"{"foo":1}"#).unwrap_err().param.as_deref(), Some("foo"));
    assert_eq!(
        parse(r#"{"speed":1,"speed":1}"#).unwrap_err().code,
        ErrorCode::InvalidJson
    );
    assert!(parse(r#"{"client_secret":{"expires_after":{"seconds":60}}}"#).is_ok());
    for (text, kind) in [
        (r#"{"type":"realtime"}"#, Some(SessionKind::Voice)),
        (r#"{"type":"transcription"}"#, Some(SessionKind::Transcription)),
        (r#"{"type":"x"}"#, None),
        ("{}", None),
        ("x", None),
    ] {
        assert_eq!(SessionUpdate::kind_in(text), kind, "{text}");
    }
}

#[test]
fn secrets_are_written_in_both_dialects() {
    let session = voice_session();
    let read = |dialect| -> Value { serde_json::from_str(&session.secret_json(dialect, "ek_1", 9)).unwrap() };
    let ga = read(Dialect::Ga);
    assert_eq!((&ga["value"], &ga["expires_at"]), (&json!("ek_1"), &json!(9)));
    assert_eq!(ga["session"]["type"], "realtime");
    let beta = read(Dialect::Beta);
    assert_eq!(beta["client_secret"], json!({"value": "ek_1", "expires_at": 9}));
    assert_eq!(beta["voice"], "ash");
}
