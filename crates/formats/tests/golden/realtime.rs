//! Golden files of realtime sessions. Each line of `client.jsonl` is an event of a client in a
//! session of the kind that the case is named after. `parsed.txt` has the parsed events, and
//! `session.jsonl` the session after each update, in both dialects. `server.ga.jsonl` and
//! `server.beta.jsonl` have every event of the server, and `refusals.jsonl` invalid events with
//! their errors. `server.upstream.txt` has the events as a client of the server reads them, and
//! `upstream.jsonl` the commands of such a client.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use tollgate_formats::openai_realtime::{
    AudioFormat, CancelReason, ClientEvent, ContentPart, DEFAULT_SERVER_VAD, Dialect, EventError,
    IncompleteReason, Item, ItemKind, ItemStatus, OutputModality, Part, Previous, RateLimit, Response,
    ResponseInput, ResponseStatus, ResponseUsage, Role, ServerEvent, Session, SessionKind, SessionLimits,
    SessionSettings, SessionShape, SpokenPlace, TokenCounts, Tool, ToolChoice, TranscriptionUsage,
    UpstreamCommand, UpstreamEvent, WrittenItem, parse,
};

use super::{Case, cases};

#[test]
fn openai_realtime() {
    let cases = cases("openai_realtime");
    assert!(cases.len() >= 5, "the cases are found");
    for case in &cases {
        match &*case.name {
            "server" => check_server(case),
            "upstream" => check_commands(case),
            "refusals" => check_refusals(case),
            "transcription" => check_client(case, SessionKind::Transcription),
            _ => check_client(case, SessionKind::Voice),
        }
    }
}

fn check_client(case: &Case, kind: SessionKind) {
    let events = case.read("client.jsonl").unwrap();
    let mut session = Session::new("rtsess_1", kind, "house/voice");
    let (mut parsed, mut sessions) = (String::new(), String::new());
    for line in std::str::from_utf8(&events).unwrap().lines() {
        let event = parse(line, kind).unwrap_or_else(|refused| panic!("{line}: {}", refused.error));
        if let ClientEvent::UpdateSession(update) = &event.event {
            session = session.apply(update, &SessionLimits::default()).unwrap();
            for dialect in [Dialect::Ga, Dialect::Beta] {
                writeln!(sessions, "{}", session.to_json(dialect)).unwrap();
            }
        }
        writeln!(parsed, "{event:?}").unwrap();
    }
    case.expect("parsed.txt", &parsed);
    case.expect("session.jsonl", &sessions);
}

/// Checks that every event is refused with its code and parameter, and that its id is returned.
fn check_refusals(case: &Case) {
    let rows = case.read("jsonl").unwrap();
    for line in std::str::from_utf8(&rows).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let kinds = [SessionKind::Voice, SessionKind::Transcription];
        let kind = kinds.into_iter().find(|kind| row["session"] == kind.as_str());
        let Err(refused) = parse(&row["event"].to_string(), kind.unwrap()) else {
            panic!("accepted: {line}");
        };
        assert_eq!(
            row["code"],
            refused.error.code.as_str(),
            "{line}: {}",
            refused.error
        );
        assert_eq!(row["param"].as_str(), refused.error.param.as_deref(), "{line}");
        assert_eq!(refused.event_id.as_deref(), Some("mine"), "{line}");
    }
}

fn check_server(case: &Case) {
    for (dialect, kind) in [(Dialect::Ga, "ga.jsonl"), (Dialect::Beta, "beta.jsonl")] {
        let mut written = String::new();
        with_events(&mut |event| {
            if let Some(text) = event.write(dialect, "event_1") {
                let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(value["type"].as_str(), event.name(dialect));
                assert_eq!(value["event_id"], "event_1");
                writeln!(written, "{text}").unwrap();
            }
        });
        case.expect(kind, &written);
    }
    check_reading(case);
}

/// Checks that a client reads the same from both dialects.
fn check_reading(case: &Case) {
    let mut read = String::new();
    with_events(&mut |event| {
        let parsed = |dialect| {
            let text = event.write(dialect, "event_1")?;
            Some(UpstreamEvent::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
        };
        let (ga, beta) = (parsed(Dialect::Ga), parsed(Dialect::Beta));
        assert_ne!(ga, Some(UpstreamEvent::Unknown));
        // Only this dialect reports the modalities of cached tokens. The other one has other
        // names for transcription sessions, which a client does not read.
        if let (Some(ga), Some(beta)) = (&ga, &beta)
            && !matches!(ga, UpstreamEvent::ResponseDone(_))
            && *beta != UpstreamEvent::Unknown
        {
            assert_eq!(ga, beta);
        }
        for parsed in [ga, beta].into_iter().flatten() {
            writeln!(read, "{parsed:?}").unwrap();
        }
    });
    case.expect("upstream.txt", &read);
}

/// Checks that every command of a client is written and that the server's parser accepts those that
/// have OpenAI's form.
fn check_commands(case: &Case) {
    let text = |text: &str| -> Arc<str> { Arc::from(text) };
    let tools = [Tool {
        name: text("weather"),
        description: None,
        parameters: Some(text(r#"{"type":"object","properties":{}}"#)),
    }];
    let settings = SessionSettings {
        modality: OutputModality::Audio,
        instructions: "Be \"kind\".\n",
        voice: Some("marin"),
        speed: Some(1.5),
        tools: &tools,
        tool_choice: &ToolChoice::Required,
        parallel_tool_calls: Some(true),
        temperature: None,
    };
    let session = |shape, settings| UpstreamCommand::UpdateSession { shape, settings };
    let items = items();
    let previous = Previous::After(text("item_0"));
    let mut commands = vec![
        session(SessionShape::Nested, None),
        session(SessionShape::Nested, Some(settings)),
        session(SessionShape::Flat, Some(settings)),
        UpstreamCommand::AppendAudio { audio: &[0, 1, 254] },
        UpstreamCommand::CommitAudio,
    ];
    let places = [None, Some(&Previous::Root), Some(&previous)];
    commands.extend(
        items
            .iter()
            .zip(places.into_iter().cycle())
            .map(|(item, previous)| UpstreamCommand::CreateItem {
                item_id: "tollgate_1",
                item: &item.kind,
                previous,
            }),
    );
    let input: Vec<ResponseInput> = items
        .iter()
        .map(|item| ResponseInput::Item(item.kind.clone()))
        .chain([ResponseInput::Reference(text("item_1"))])
        .collect();
    let response = |outside| UpstreamCommand::CreateResponse {
        max_output_tokens: 4_096,
        outside,
    };
    commands.extend([
        UpstreamCommand::DeleteItem { item_id: "item_1" },
        UpstreamCommand::TruncateItem {
            item_id: "item_1",
            audio_end_ms: 1_500,
        },
        response(None),
        response(Some(&input)),
        UpstreamCommand::CancelResponse { response_id: None },
        UpstreamCommand::CancelResponse {
            response_id: Some("resp_1"),
        },
    ]);
    let mut written = String::new();
    for command in &commands {
        let line = command.write("tollgate_event");
        let is_flat = matches!(
            command,
            UpstreamCommand::UpdateSession {
                shape: SessionShape::Flat,
                ..
            }
        );
        if !is_flat {
            let parsed = parse(&line, SessionKind::Voice)
                .unwrap_or_else(|refused| panic!("{line}: {}", refused.error));
            assert_eq!(parsed.event_id.as_deref(), Some("tollgate_event"));
        }
        writeln!(written, "{line}").unwrap();
    }
    case.expect("jsonl", &written);
}

/// Calls the function with every event of the server.
fn with_events(take: &mut dyn FnMut(ServerEvent<'_>)) {
    let error = EventError {
        kind: "invalid_request_error",
        code: "invalid_parameter",
        message: "'session.speed' must be a number from 0.25 to 1.5.",
        param: Some("session.speed"),
        event_id: Some("mine"),
        ..EventError::default()
    };
    take(ServerEvent::Error(&error));
    take(ServerEvent::Error(&EventError {
        kind: "rate_limit_error",
        code: "rate_limit_exceeded",
        message: "Slow down.",
        request_id: Some("req_1"),
        retry_after_ms: Some(1_500),
        ..EventError::default()
    }));
    for kind in [SessionKind::Voice, SessionKind::Transcription] {
        let mut session = Session::new("rtsess_1", kind, "house/voice");
        session.expires_at = Some(1_800_000_000);
        take(ServerEvent::SessionCreated(&session));
        session.turn_detection = Some(DEFAULT_SERVER_VAD);
        take(ServerEvent::SessionUpdated(&session));
    }
    take(ServerEvent::ConversationCreated {
        conversation_id: "conv_1",
    });
    with_input_events(&error, take);
    with_item_events(take);
    with_response_events(&error, take);
    with_content_events(take);
    take(ServerEvent::RateLimitsUpdated(&[
        RateLimit {
            name: "requests",
            limit: 60,
            remaining: 59,
            reset_ms: 1_000,
        },
        RateLimit {
            name: "tokens",
            limit: 100_000,
            remaining: 0,
            reset_ms: 1_234,
        },
    ]));
}

fn with_input_events(error: &EventError<'_>, take: &mut dyn FnMut(ServerEvent<'_>)) {
    let item_id = "item_1";
    for previous_item_id in [None, Some("item_0")] {
        take(ServerEvent::AudioCommitted {
            item_id,
            previous_item_id,
        });
    }
    take(ServerEvent::AudioCleared);
    take(ServerEvent::SpeechStarted {
        audio_start_ms: 1_000,
        item_id,
    });
    take(ServerEvent::SpeechStopped {
        audio_end_ms: 2_000,
        item_id,
    });
    take(ServerEvent::TimeoutTriggered {
        audio_start_ms: 1_000,
        audio_end_ms: 7_000,
        item_id,
    });
    for logprobs in [None, Some(r#"[{"token":"good","bytes":[103],"logprob":-0.1}]"#)] {
        take(ServerEvent::TranscriptionDelta {
            item_id,
            content_index: 0,
            delta: "good",
            logprobs,
        });
    }
    let tokens = TranscriptionUsage::Tokens {
        input: TokenCounts {
            text: 2,
            audio: 30,
            image: 0,
        },
        output: 4,
        cost: None,
    };
    let seconds = TranscriptionUsage::Duration {
        micros: 3_250_000,
        cost: Some("0.0000325"),
    };
    for usage in [tokens, seconds] {
        take(ServerEvent::TranscriptionCompleted {
            item_id,
            content_index: 0,
            transcript: "good \"morning\"",
            usage,
            logprobs: None,
        });
    }
    take(ServerEvent::TranscriptionFailed {
        item_id,
        content_index: 0,
        error,
    });
}

fn with_item_events(take: &mut dyn FnMut(ServerEvent<'_>)) {
    let statuses = [
        ItemStatus::Completed,
        ItemStatus::InProgress,
        ItemStatus::Incomplete,
    ];
    for (item, status) in items().iter().zip(statuses.into_iter().cycle()) {
        let item = WrittenItem { item, status };
        take(ServerEvent::ItemAdded {
            previous_item_id: None,
            item,
        });
        take(ServerEvent::ItemDone {
            previous_item_id: Some("item_0"),
            item,
        });
        take(ServerEvent::ItemRetrieved { item });
        take(ServerEvent::OutputItemAdded {
            response_id: "resp_1",
            output_index: 0,
            item,
        });
        take(ServerEvent::OutputItemDone {
            response_id: "resp_1",
            output_index: 1,
            item,
        });
    }
    take(ServerEvent::ItemDeleted { item_id: "item_1" });
    take(ServerEvent::ItemTruncated {
        item_id: "item_1",
        content_index: 0,
        audio_end_ms: 1_500,
    });
}

fn with_response_events(error: &EventError<'_>, take: &mut dyn FnMut(ServerEvent<'_>)) {
    let created = Response {
        id: "resp_1",
        status: ResponseStatus::InProgress,
        output: &[],
        usage: None,
        conversation_id: Some("conv_1"),
        modality: OutputModality::Audio,
        output_format: AudioFormat::Pcm,
        voice: Some("ash"),
        max_output_tokens: None,
        metadata: &[],
        request_id: Some("req_1"),
    };
    take(ServerEvent::ResponseCreated(&created));
    let usage = ResponseUsage {
        input: TokenCounts {
            text: 100,
            audio: 40,
            image: 7,
        },
        cached: TokenCounts {
            text: 64,
            audio: 10,
            image: 0,
        },
        output: TokenCounts {
            text: 12,
            audio: 90,
            image: 0,
        },
        cost: Some("0.00125"),
    };
    let metadata = [("topic".to_owned(), "greeting".to_owned())];
    let items = items();
    let item = items.last().unwrap();
    for status in [
        ResponseStatus::Completed,
        ResponseStatus::Cancelled(CancelReason::TurnDetected),
        ResponseStatus::Cancelled(CancelReason::ClientCancelled),
        ResponseStatus::Incomplete(IncompleteReason::MaxOutputTokens),
        ResponseStatus::Incomplete(IncompleteReason::ContentFilter),
        ResponseStatus::Failed(error),
    ] {
        take(ServerEvent::ResponseDone(&Response {
            status,
            output: &[WrittenItem {
                item,
                status: ItemStatus::Completed,
            }],
            usage: Some(&usage),
            metadata: &metadata,
            max_output_tokens: Some(200),
            ..created
        }));
    }
    take(ServerEvent::ResponseDone(&Response {
        status: ResponseStatus::Completed,
        modality: OutputModality::Text,
        output_format: AudioFormat::Pcmu,
        voice: None,
        conversation_id: None,
        request_id: None,
        ..created
    }));
}

fn with_content_events(take: &mut dyn FnMut(ServerEvent<'_>)) {
    let place = SpokenPlace {
        response_id: "resp_1",
        item_id: "item_1",
        output_index: 1,
        content_index: 2,
    };
    let (text, call_id) = ("so \"it\" is\n", "call_1");
    for part in [Part::Text { text }, Part::Audio { transcript: text }] {
        take(ServerEvent::ContentPartAdded { place, part });
        take(ServerEvent::ContentPartDone { place, part });
    }
    take(ServerEvent::TextDelta { place, delta: text });
    take(ServerEvent::TextDone { place, text });
    take(ServerEvent::AudioDelta {
        place,
        audio: &[0, 1, 2, 255],
    });
    take(ServerEvent::AudioDone { place });
    take(ServerEvent::TranscriptDelta { place, delta: text });
    take(ServerEvent::TranscriptDone {
        place,
        transcript: text,
    });
    take(ServerEvent::ArgumentsDelta {
        place,
        call_id,
        delta: "{\"city\":",
    });
    take(ServerEvent::ArgumentsDone {
        place,
        call_id,
        name: "weather",
        arguments: "{\"city\":\"Bonn\"}",
    });
}

/// Returns items with every kind of content.
fn items() -> Vec<Item> {
    let text = |text: &str| -> Arc<str> { Arc::from(text) };
    let message = |role, content| ItemKind::Message { role, content };
    let audio = Bytes::from_static(&[1, 2, 3]);
    let kinds = [
        message(
            Role::User,
            vec![
                ContentPart::InputText { text: text("Hello") },
                ContentPart::InputAudio {
                    audio: audio.clone(),
                    transcript: None,
                },
                ContentPart::InputImage {
                    image_url: text("data:image/png;base64,iVBORw0KGgo="),
                    detail: Some("low"),
                },
            ],
        ),
        message(
            Role::System,
            vec![ContentPart::InputText {
                text: text("Be kind."),
            }],
        ),
        ItemKind::FunctionCall {
            call_id: Some(text("call_1")),
            name: text("weather"),
            arguments: text("{}"),
        },
        ItemKind::FunctionCallOutput {
            call_id: text("call_1"),
            output: text("sunny"),
        },
        message(
            Role::Assistant,
            vec![
                ContentPart::OutputText { text: text("Hi") },
                ContentPart::OutputAudio {
                    audio,
                    transcript: Some(text("Hi there")),
                },
            ],
        ),
    ];
    let item = |kind| Item {
        id: Some(text("item_1")),
        kind,
    };
    kinds.into_iter().map(item).collect()
}
