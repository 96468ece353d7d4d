//! Tests of the client's side: commands are events that the server's side accepts, and events of
//! hostile servers are refused or ignored.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::{Unit, Usage};

use super::super::*;

fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn value(command: &UpstreamCommand<'_>) -> Value {
    let written = command.write("item_7");
    let value: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(value["type"].as_str(), Some(command.name()));
    assert_eq!(value["event_id"], "item_7");
    value
}

fn settings<'a>(tools: &'a [Tool], tool_choice: &'a ToolChoice) -> SessionSettings<'a> {
    SessionSettings {
        modality: OutputModality::Text,
        instructions: "Be \"kind\".",
        voice: Some("marin"),
        speed: Some(1.25),
        tools,
        tool_choice,
        parallel_tool_calls: Some(false),
        temperature: None,
    }
}

#[test]
fn a_session_is_written_in_both_shapes() {
    let tools = [Tool {
        name: text("weather"),
        description: Some(text("Returns the weather.")),
        parameters: Some(text(r#"{"type":"object"}"#)),
    }];
    let choice = ToolChoice::Function(text("weather"));
    let pcm = json!({"type": "audio/pcm", "rate": 24_000});
    let shared = json!({
        "output_modalities": ["text"],
        "instructions": "Be \"kind\".",
        "tools": [{"type": "function", "name": "weather", "description": "Returns the weather.",
            "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "weather"},
        "parallel_tool_calls": false,
    });
    let with_shared = |mut own: Value| {
        let members = own.as_object_mut().unwrap();
        members.extend(shared.as_object().unwrap().clone());
        own
    };
    for (shape, settings, expected) in [
        (
            SessionShape::Nested,
            Some(settings(&tools, &choice)),
            with_shared(json!({"type": "realtime", "audio": {
                "input": {"format": pcm, "transcription": null, "turn_detection": null},
                "output": {"format": pcm, "voice": "marin", "speed": 1.25}}})),
        ),
        (
            SessionShape::Flat,
            Some(settings(&tools, &choice)),
            with_shared(
                json!({"turn_detection": {"type": null}, "voice": "marin", "audio": {
                "input": {"format": pcm}, "output": {"format": pcm, "speed": 1.25}}}),
            ),
        ),
        (
            SessionShape::Nested,
            None,
            json!({"type": "realtime", "audio": {
                "input": {"format": pcm, "transcription": null, "turn_detection": null}, "output": {"format": pcm}}}),
        ),
    ] {
        let written = value(&UpstreamCommand::UpdateSession { shape, settings });
        assert_eq!(written["session"], expected, "{shape:?}");
    }
}

#[test]
fn written_items_are_read_by_the_server() {
    let audio = Bytes::from_static(&[1, 2, 3, 4]);
    let message = |role, part| ItemKind::Message {
        role,
        content: vec![part],
    };
    for item in [
        message(Role::User, ContentPart::InputText { text: text("Hi\n") }),
        message(Role::System, ContentPart::InputText { text: text("") }),
        message(Role::Assistant, ContentPart::OutputText { text: text("é") }),
        message(
            Role::User,
            ContentPart::InputAudio {
                audio,
                transcript: None,
            },
        ),
        ItemKind::FunctionCall {
            call_id: Some(text("call_1")),
            name: text("weather"),
            arguments: text("{\"a\":1}"),
        },
        ItemKind::FunctionCallOutput {
            call_id: text("call_1"),
            output: text("sunny"),
        },
    ] {
        for previous in [None, Some(Previous::Root), Some(Previous::After(text("item_0")))] {
            let command = UpstreamCommand::CreateItem {
                item_id: "tollgate_1",
                item: &item,
                previous: previous.as_ref(),
            };
            let parsed = parse(&command.write("item_1"), SessionKind::Voice).unwrap();
            let expected = Item {
                id: Some(text("tollgate_1")),
                kind: item.clone(),
            };
            assert_eq!(parsed.event_id.as_deref(), Some("item_1"));
            assert_eq!(
                parsed.event,
                ClientEvent::CreateItem {
                    item: Box::new(expected),
                    previous
                }
            );
        }
    }
}

#[test]
fn written_commands_are_read_by_the_server() {
    let read = |command: UpstreamCommand<'_>| parse(&command.write("x"), SessionKind::Voice).unwrap().event;
    let audio = [0, 1, 254, 255];
    assert_eq!(
        read(UpstreamCommand::AppendAudio { audio: &audio }),
        ClientEvent::AppendAudio {
            audio: Bytes::copy_from_slice(&audio)
        }
    );
    assert_eq!(read(UpstreamCommand::CommitAudio), ClientEvent::CommitAudio);
    assert_eq!(read(UpstreamCommand::ClearAudio), ClientEvent::ClearAudio);
    assert_eq!(
        read(UpstreamCommand::DeleteItem { item_id: "a" }),
        ClientEvent::DeleteItem { item_id: text("a") }
    );
    assert_eq!(
        read(UpstreamCommand::TruncateItem {
            item_id: "a",
            audio_end_ms: 1_500
        }),
        ClientEvent::TruncateItem {
            item_id: text("a"),
            content_index: 0,
            audio_end_ms: 1_500
        }
    );
    for response_id in [None, Some("resp_1")] {
        assert_eq!(
            read(UpstreamCommand::CancelResponse { response_id }),
            ClientEvent::CancelResponse {
                response_id: response_id.map(text)
            }
        );
    }
    let input = [
        ResponseInput::Reference(text("item_1")),
        ResponseInput::Item(ItemKind::FunctionCallOutput {
            call_id: text("c"),
            output: text("o"),
        }),
    ];
    let outside = UpstreamCommand::CreateResponse {
        max_output_tokens: 7,
        outside: Some(&input),
    };
    assert_eq!(
        value(&outside)["response"],
        json!({"max_output_tokens": 7, "conversation": "none", "input": [{"type": "item_reference", "id": "item_1"},
            {"type": "function_call_output", "call_id": "c", "output": "o"}]})
    );
    assert!(matches!(read(outside), ClientEvent::CreateResponse(_)));
}

#[test]
fn a_transcription_session_is_written_and_read_by_the_server() {
    let settings = Transcription {
        model: Some(text("public name")),
        language: Some(text("de")),
        prompt: Some(text("Kiel \"Förde\"")),
        languages: vec![text("de"), text("en")],
        keywords: vec![text("Hafen")],
        delay: TranscriptionDelay::parse("low"),
    };
    let pcm = json!({"type": "audio/pcm", "rate": 24_000});
    for (settings, transcription) in [
        (
            settings,
            json!({"model": "live-1", "language": "de", "prompt": "Kiel \"Förde\"", "languages": ["de", "en"],
                "keywords": ["Hafen"], "delay": "low"}),
        ),
        (Transcription::default(), json!({"model": "live-1"})),
    ] {
        let command = UpstreamCommand::UpdateTranscription {
            model: "live-1",
            settings: &settings,
        };
        assert_eq!(
            value(&command)["session"],
            json!({"type": "transcription", "audio": {"input": {"format": pcm, "transcription": transcription,
                "turn_detection": null}}})
        );
        let parsed = parse(&command.write("x"), SessionKind::Transcription).unwrap();
        assert!(matches!(parsed.event, ClientEvent::UpdateSession(_)));
    }
}

#[test]
fn transcripts_of_servers_are_read() {
    let event = |kind: &str, members: &str| {
        let kind = format!("conversation.item.input_audio_transcription.{kind}");
        UpstreamEvent::parse(&format!(r#"{{"type":"{kind}","content_index":0{members}}}"#))
    };
    let item_id = text("item_1");
    assert_eq!(
        event("delta", r#","item_id":"item_1","delta":" wört","logprobs":null"#).unwrap(),
        UpstreamEvent::InputTranscriptDelta {
            item_id: item_id.clone(),
            delta: " wört".to_owned()
        }
    );
    assert_eq!(
        event(
            "completed",
            r#","item_id":"item_1","transcript":"","usage":{"type":"duration"}"#
        )
        .unwrap(),
        UpstreamEvent::InputTranscriptCompleted {
            item_id: item_id.clone(),
            transcript: String::new()
        }
    );
    for (members, error) in [
        (r#","item_id":"item_1""#, r#"{"error":{}}"#),
        (
            r#","item_id":"item_1","error":{"code":"audio_unintelligible"}"#,
            r#"{"error":{"code":"audio_unintelligible"}}"#,
        ),
    ] {
        assert_eq!(
            event("failed", members).unwrap(),
            UpstreamEvent::InputTranscriptFailed {
                item_id: item_id.clone(),
                error: error.to_owned()
            }
        );
    }
    assert!(event("delta", r#","delta":"a""#).is_err());
    assert!(event("completed", r#","item_id":"item_1""#).is_err());
    assert!(event("completed", r#","item_id":7,"transcript":"a""#).is_err());
    for (kind, created) in [
        ("created", UpstreamEvent::Created),
        (
            "updated",
            UpstreamEvent::Updated {
                has_turn_detection: false,
            },
        ),
    ] {
        let text = format!(r#"{{"type":"transcription_session.{kind}","session":{{}}}}"#);
        assert_eq!(UpstreamEvent::parse(&text).unwrap(), created);
    }
}

/// Events that are the same in both dialects.
#[test]
fn events_of_servers_are_read_in_both_dialects() {
    let place = json!({"response_id": "resp_1", "item_id": "item_1", "output_index": 2, "content_index": 0});
    let at = OutputPlace {
        response_id: Some(text("resp_1")),
        item_id: Some(text("item_1")),
        output_index: 2,
    };
    let event = |kind: &str, members: Value| {
        let mut event = place.clone();
        let object = event.as_object_mut().unwrap();
        object.insert("type".to_owned(), kind.into());
        object.extend(members.as_object().unwrap().clone());
        event
    };
    let delta = || "so".to_owned();
    let call = || {
        Some(OutputCall {
            call_id: text("call_1"),
            name: text("weather"),
        })
    };
    for kind in ["response.output_text.delta", "response.text.delta"] {
        let expected = UpstreamEvent::TextDelta {
            place: at.clone(),
            delta: delta(),
        };
        check(&event(kind, json!({"delta": "so"})), &expected);
    }
    for kind in [
        "response.output_audio_transcript.delta",
        "response.audio_transcript.delta",
    ] {
        let expected = UpstreamEvent::TranscriptDelta {
            place: at.clone(),
            delta: delta(),
        };
        check(&event(kind, json!({"delta": "so"})), &expected);
    }
    for kind in ["response.output_audio.delta", "response.audio.delta"] {
        let expected = UpstreamEvent::AudioDelta {
            place: at.clone(),
            audio: Bytes::from_static(&[0, 1, 2, 255]),
        };
        check(&event(kind, json!({"delta": "AAEC/w=="})), &expected);
    }
    for kind in ["conversation.item.added", "conversation.item.created"] {
        let expected = UpstreamEvent::ItemAdded {
            item_id: text("item_9"),
            kind: AddedKind::System,
        };
        let item = json!({"id": "item_9", "type": "message", "role": "system"});
        check(&json!({"type": kind, "item": item}), &expected);
    }
    let done = json!({"call_id": "call_1", "name": "weather", "arguments": "{}"});
    let expected = UpstreamEvent::CallDone {
        place: at.clone(),
        call: call(),
        arguments: "{}".to_owned(),
    };
    check(
        &event("response.function_call_arguments.done", done.clone()),
        &expected,
    );
    let mut item = done;
    item["id"] = json!("item_1");
    item["type"] = json!("function_call");
    check(
        &event("response.output_item.done", json!({"item": item})),
        &expected,
    );
    let added = UpstreamEvent::OutputItemAdded {
        place: at,
        call: call(),
    };
    check(
        &event("response.output_item.added", json!({"item": item})),
        &added,
    );
}

fn check(event: &Value, expected: &UpstreamEvent) {
    let parsed = UpstreamEvent::parse(&event.to_string());
    assert_eq!(parsed.as_ref().ok(), Some(expected), "{event}: {parsed:?}");
}

#[test]
fn turn_detection_is_found_in_every_place() {
    for (session, has_turn_detection) in [
        (json!({"turn_detection": null}), false),
        (json!({"turn_detection": {"type": null}}), false),
        (json!({"turn_detection": {"type": "none"}}), false),
        (json!({"turn_detection": "server_vad"}), true),
        (json!({"turn_detection": {"type": "server_vad"}}), true),
        (
            json!({"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}),
            true,
        ),
        (json!({"audio": {"input": {"turn_detection": null}}}), false),
        (json!({}), false),
        (json!("odd"), false),
    ] {
        let event = json!({"type": "session.updated", "session": session});
        check(&event, &UpstreamEvent::Updated { has_turn_detection });
    }
}

#[test]
fn ends_of_responses_are_read() {
    let failed = |error: &str| EndedStatus::Failed {
        error: error.to_owned(),
    };
    for (status, details, expected) in [
        (json!("completed"), json!(null), EndedStatus::Completed),
        (json!(null), json!(null), EndedStatus::Completed),
        (
            json!("cancelled"),
            json!({"reason": "turn_detected"}),
            EndedStatus::Cancelled,
        ),
        (
            json!("incomplete"),
            json!({"reason": "content_filter"}),
            EndedStatus::ContentFilter,
        ),
        (
            json!("incomplete"),
            json!({"reason": "max_output_tokens"}),
            EndedStatus::MaxOutputTokens,
        ),
        (
            json!("failed"),
            json!({"error": {"code": "rate_limit_exceeded"}}),
            failed(r#"{"error":{"code":"rate_limit_exceeded"}}"#),
        ),
        (json!("failed"), json!("odd"), failed(r#"{"error":{}}"#)),
        (json!("strange"), json!(null), failed(r#"{"error":{}}"#)),
    ] {
        let response = json!({"id": "resp_1", "status": status, "status_details": details});
        let expected = UpstreamEvent::ResponseDone(Box::new(EndedResponse {
            response_id: Some(text("resp_1")),
            status: expected,
            usage: None,
        }));
        check(&json!({"type": "response.done", "response": response}), &expected);
    }
}

#[test]
fn usage_is_disjoint_and_never_exceeds_its_totals() {
    let usage = |report: Value| {
        let event = json!({"type": "response.done", "response": {"id": "r", "usage": report}});
        match UpstreamEvent::parse(&event.to_string()).unwrap() {
            UpstreamEvent::ResponseDone(ended) => ended.usage,
            other => panic!("{other:?}"),
        }
    };
    let tokens = Usage::tokens;
    for (report, expected) in [
        (
            json!({"input_tokens": 10, "output_tokens": 4}),
            Some(tokens(10, 4)),
        ),
        (
            json!({"input_tokens": 200, "output_tokens": 60,
                "input_token_details": {"text_tokens": 100, "audio_tokens": 80, "image_tokens": 20, "cached_tokens": 70,
                    "cached_tokens_details": {"text_tokens": 40, "audio_tokens": 25, "image_tokens": 5}},
                "output_token_details": {"text_tokens": 15, "audio_tokens": 45}}),
            Some(
                tokens(60, 15)
                    .with(Unit::InputAudio, 55)
                    .with(Unit::InputImage, 15)
                    .with(Unit::CacheRead, 45)
                    .with(Unit::CacheReadAudio, 25)
                    .with(Unit::OutputAudio, 45),
            ),
        ),
        (
            // Cached tokens without a modality are text first.
            json!({"input_tokens": 100, "output_tokens": 0,
                "input_token_details": {"audio_tokens": 60, "cached_tokens": 50}}),
            Some(
                tokens(0, 0)
                    .with(Unit::InputAudio, 50)
                    .with(Unit::CacheRead, 40)
                    .with(Unit::CacheReadAudio, 10),
            ),
        ),
        (
            // Details exceed the totals.
            json!({"input_tokens": 10, "output_tokens": 5,
                "input_token_details": {"text_tokens": 99, "audio_tokens": 999, "image_tokens": 99, "cached_tokens": 999,
                    "cached_tokens_details": {"text_tokens": 9, "audio_tokens": 999}},
                "output_token_details": {"audio_tokens": 999}}),
            Some(
                tokens(0, 0)
                    .with(Unit::CacheReadAudio, 10)
                    .with(Unit::OutputAudio, 5),
            ),
        ),
        (json!({"input_tokens": -1, "output_tokens": 4}), None),
        (json!({"input_tokens": 1.5, "output_tokens": 4}), None),
        (
            json!({"input_tokens": 99_999_999_999_u64, "output_tokens": 4}),
            None,
        ),
        (json!({"output_tokens": 4}), None),
        (json!(null), None),
        (json!([1]), None),
    ] {
        assert_eq!(usage(report.clone()), expected, "{report}");
    }
}

#[test]
fn errors_name_the_event_that_caused_them() {
    for (error, event_id, code) in [
        (
            json!({"type": "invalid_request_error", "code": "invalid_value", "event_id": "item_3"}),
            Some("item_3"),
            Some("invalid_value"),
        ),
        (
            json!({"type": "server_error", "code": null, "event_id": null}),
            None,
            Some("server_error"),
        ),
        (json!({"code": 7, "event_id": "x".repeat(600)}), None, None),
        (json!("odd"), None, None),
    ] {
        let expected = UpstreamEvent::Error {
            event_id: event_id.map(str::to_owned),
            code: code.map(str::to_owned),
        };
        check(&json!({"type": "error", "error": error}), &expected);
    }
}

#[test]
fn unknown_events_are_ignored_and_malformed_ones_refused() {
    for (event, expected) in [
        (r#"{"type":"response.magic.delta"}"#, UpstreamEvent::Unknown),
        (r#"{"type":"ping"}"#, UpstreamEvent::Unknown),
        (
            r#"{"type":"rate_limits.updated","rate_limits":7}"#,
            UpstreamEvent::Ignored,
        ),
        (
            r#"{"type":"response.content_part.added"}"#,
            UpstreamEvent::Ignored,
        ),
        (r#"{"type":"response.output_audio.done"}"#, UpstreamEvent::Ignored),
        (r#"{"type":"session.created"}"#, UpstreamEvent::Created),
    ] {
        assert_eq!(UpstreamEvent::parse(event).unwrap(), expected, "{event}");
    }
    let long = format!(
        r#"{{"type":"response.created","response":{{"id":"{}"}}}}"#,
        "x".repeat(513)
    );
    for event in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"type":7}"#,
        r#"{"type":"response.created"}"#,
        r#"{"type":"response.created","response":{}}"#,
        r#"{"type":"response.done"}"#,
        r#"{"type":"response.output_audio.delta","delta":"?"}"#,
        r#"{"type":"response.output_text.delta","delta":7}"#,
        r#"{"type":"response.output_item.added","item":{"type":"function_call","id":"a"}}"#,
        r#"{"type":"conversation.item.added","item":{}}"#,
        &long,
    ] {
        assert!(UpstreamEvent::parse(event).is_err(), "{event}");
    }
}
