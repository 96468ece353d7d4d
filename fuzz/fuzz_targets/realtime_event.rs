//! Events of realtime clients: an accepted update is written and read back without a change, and an
//! event with duplicate members is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_formats::openai_realtime::{
    ClientEvent, Dialect, ItemStatus, ServerEvent, Session, SessionKind, SessionLimits, SessionUpdate,
    WrittenItem, parse,
};
use tollgate_fuzz::tree;

fn check_update(update: &SessionUpdate, kind: SessionKind) {
    let model = update.model.as_ref().map_or("m", |model| &*model.value);
    let session = Session::new("rtsess_1", kind, model);
    let session = session
        .apply(update, &SessionLimits::default())
        .expect("the update was parsed");
    let session = Session {
        temperature: None,
        ..session
    };
    serde_json::from_str::<serde_json::Value>(&session.to_json(Dialect::Beta)).expect("the session is JSON");
    let mut written: serde_json::Value =
        serde_json::from_str(&session.to_json(Dialect::Ga)).expect("the session is JSON");
    let members = written.as_object_mut().expect("the session is an object");
    members.shift_remove("id");
    members.shift_remove("object");
    if session.transcription.is_none() {
        let input = written["audio"]["input"].as_object_mut();
        input
            .expect("the input is an object")
            .shift_remove("transcription");
    }
    let update = SessionUpdate::parse(&written.to_string(), kind, None).expect("a written session is valid");
    let again = Session::new("rtsess_1", kind, model)
        .apply(&update, &SessionLimits::default())
        .expect("a written session can be applied");
    // The numbers of a schema may be written in another form.
    let value = |session: &Session| -> serde_json::Value {
        serde_json::from_str(&session.to_json(Dialect::Ga)).expect("the session is JSON")
    };
    assert_eq!(value(&again), value(&session));
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for kind in [SessionKind::Voice, SessionKind::Transcription] {
        let Ok(parsed) = parse(text, kind) else {
            continue;
        };
        let event = tree(data).expect("an accepted event has unique members");
        assert_eq!(event["event_id"].as_str(), parsed.event_id.as_deref());
        match &parsed.event {
            ClientEvent::UpdateSession(update) => check_update(update, kind),
            ClientEvent::CreateItem { item, .. } => {
                let item = WrittenItem {
                    item,
                    status: ItemStatus::Completed,
                };
                for dialect in [Dialect::Ga, Dialect::Beta] {
                    let event = ServerEvent::ItemRetrieved { item };
                    let text = event.write(dialect, "event_1").expect("both dialects have it");
                    serde_json::from_str::<serde_json::Value>(&text).expect("the event is JSON");
                }
            }
            _ => {}
        }
    }
});
