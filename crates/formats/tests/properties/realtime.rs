//! Properties of realtime sessions and of the events of their clients.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use tollgate_formats::openai_realtime::{
    ClientEvent, Dialect, Item, ItemStatus, ServerEvent, Session, SessionKind, SessionLimits, SessionUpdate,
    Truncation, UpstreamEvent, WrittenItem, parse,
};

use super::{Change, altered, change};

const KINDS: [SessionKind; 2] = [SessionKind::Voice, SessionKind::Transcription];

/// Returns the events of the golden files, which have all features.
fn events() -> impl Strategy<Value = Value> {
    let texts = concat!(
        include_str!("../golden/openai_realtime/voice.client.jsonl"),
        include_str!("../golden/openai_realtime/transcription.client.jsonl"),
    );
    let events: Vec<Value> = texts
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    select(events)
}

fn changes() -> impl Strategy<Value = Vec<(Index, Change)>> {
    prop::collection::vec((any::<Index>(), change()), 0..4)
}

/// Returns the events of servers in the golden files.
fn server_events() -> impl Strategy<Value = Value> {
    let texts = concat!(
        include_str!("../golden/openai_realtime/server.ga.jsonl"),
        include_str!("../golden/openai_realtime/server.beta.jsonl"),
    );
    let events: Vec<Value> = texts
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    select(events)
}

/// Reads a written session back into a new session.
fn reread(session: &Session, dialect: Dialect) -> Session {
    let mut written: Value = serde_json::from_str(&session.to_json(dialect)).unwrap();
    let members = written.as_object_mut().unwrap();
    for server_only in ["id", "object", "expires_at"] {
        members.remove(server_only);
    }
    // Null is off in updates of voice sessions alone.
    let input = match dialect {
        Dialect::Ga => &mut written["audio"]["input"],
        Dialect::Beta => &mut written,
    };
    if session.transcription.is_none() {
        let input = input.as_object_mut().unwrap();
        input.remove("transcription");
        input.remove("input_audio_transcription");
    }
    let update = SessionUpdate::parse(&written.to_string(), session.kind, None).unwrap();
    let new = Session::new(session.id.clone(), session.kind, session.model.clone());
    new.apply(&update, &SessionLimits::default()).unwrap()
}

fn check_session(session: &Session) {
    let mut ga = session.clone();
    ga.temperature = None;
    assert_eq!(reread(session, Dialect::Ga), ga);
    let beta = Session {
        truncation: Truncation::Auto,
        parallel_tool_calls: None,
        reasoning: None,
        ..session.clone()
    };
    assert_eq!(reread(session, Dialect::Beta), beta);
}

fn check_item(item: &Item) {
    let mut item = item.clone();
    item.id.get_or_insert(Arc::from("item_1"));
    for dialect in [Dialect::Ga, Dialect::Beta] {
        let written = WrittenItem {
            item: &item,
            status: ItemStatus::Completed,
        };
        let event = ServerEvent::ItemRetrieved { item: written };
        let text = event.write(dialect, "event_1").unwrap();
        let mut event: Value = serde_json::from_str(&text).unwrap();
        event["type"] = json!("conversation.item.create");
        let again = parse(&event.to_string(), SessionKind::Voice).unwrap();
        let again = match again.event {
            ClientEvent::CreateItem { item, .. } => Some(*item),
            _ => None,
        };
        assert_eq!(again.as_ref(), Some(&item), "{dialect:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn accepted_events_round_trip(event in events(), changes in changes()) {
        let text = altered(event, &changes).to_string();
        for kind in KINDS {
            let Ok(parsed) = parse(&text, kind) else { continue };
            match &parsed.event {
                ClientEvent::UpdateSession(update) => {
                    let model = update.model.as_ref().map_or("house/voice", |model| &*model.value);
                    let session = Session::new("rtsess_1", kind, model);
                    let session = session.apply(update, &SessionLimits::default()).unwrap();
                    check_session(&session);
                }
                ClientEvent::CreateItem { item, .. } => check_item(item),
                _ => {}
            }
        }
    }

    #[test]
    fn refusals_name_a_parameter_or_the_whole_event(event in events(), changes in changes()) {
        let event = altered(event, &changes);
        let Err(refused) = parse(&event.to_string(), SessionKind::Voice) else { return Ok(()) };
        prop_assert!(refused.error.param.is_some() || !event.is_object(), "{event}: {}", refused.error);
        let id = event.get("event_id").and_then(Value::as_str);
        prop_assert_eq!(refused.event_id.as_deref(), id);
    }

    #[test]
    fn altered_events_of_servers_have_bounded_usage(event in server_events(), changes in changes()) {
        let event = altered(event, &changes);
        let Ok(UpstreamEvent::ResponseDone(ended)) = UpstreamEvent::parse(&event.to_string()) else {
            return Ok(());
        };
        let report = &event["response"]["usage"];
        if let Some(usage) = ended.usage {
            prop_assert_eq!(report["input_tokens"].as_u64(), Some(usage.total_input()));
            prop_assert_eq!(report["output_tokens"].as_u64(), Some(usage.total_output()));
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in any::<String>(), event in events(), at in any::<Index>()) {
        let event = event.to_string();
        let place = event.floor_char_boundary(at.index(event.len()));
        let (start, end) = event.split_at(place);
        for text in [&text, start, &format!("{start}{text}{end}")] {
            for kind in KINDS {
                let _ = parse(text, kind);
                let _ = SessionUpdate::parse(text, kind, None);
            }
            let _ = SessionUpdate::kind_in(text);
            let _ = UpstreamEvent::parse(text);
        }
    }

    #[test]
    fn both_parsers_of_appended_audio_agree(audio in "[A-Za-z0-9+/=\\\\\" ]{0,12}", id in "[a-z\"é]{0,4}") {
        let (audio, id) = (json!(audio), json!(id));
        let fast = format!(r#"{{"type":"input_audio_buffer.append","audio":{audio},"event_id":{id}}}"#);
        // Only the general parser decodes an escaped type.
        let general = fast.replace("input_audio", "input\\u005faudio");
        prop_assert_ne!(&fast, &general);
        for kind in KINDS {
            prop_assert_eq!(parse(&fast, kind), parse(&general, kind));
        }
    }
}
