//! Messages of servers of Gemini's Live API, and texts in the gateway's messages, which are written
//! unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_formats::gemini::live::{LiveCommand, LiveEvent, LiveTurn, parse_live};

fuzz_target!(|data: &[u8]| {
    if let Ok(events) = parse_live(data) {
        assert!(events.len() <= data.len());
        for event in &events {
            match event {
                LiveEvent::Audio(audio) => assert!(!audio.is_empty() && audio.len() < data.len()),
                LiveEvent::Call(call) => {
                    serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).expect("arguments are JSON");
                }
                _ => {}
            }
        }
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let turns = [LiveTurn::User(text)];
    let content = LiveCommand::Content {
        turns: &turns,
        is_complete: true,
    };
    for (command, path) in [
        (content, "/clientContent/turns/0/parts/0/text"),
        (LiveCommand::Text(text), "/realtimeInput/text"),
    ] {
        let written: serde_json::Value = serde_json::from_str(&command.write()).expect("a message is JSON");
        assert_eq!(written.pointer(path).and_then(|text| text.as_str()), Some(text));
    }
});
