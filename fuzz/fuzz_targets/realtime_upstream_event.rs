//! Events of upstreams: a hostile one is refused or ignored, ids are short, and usage never exceeds
//! the totals of the report.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_formats::openai_realtime::{EndedStatus, OutputPlace, UpstreamEvent};
use tollgate_fuzz::tree;

/// Maximum length of an id, in characters.
const MAX_ID_CHARS: usize = 512;

fn check_id(id: Option<&str>) {
    assert!(id.is_none_or(|id| !id.is_empty() && id.chars().count() <= MAX_ID_CHARS));
}

fn check_place(place: &OutputPlace) {
    check_id(place.response_id.as_deref());
    check_id(place.item_id.as_deref());
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(event) = UpstreamEvent::parse(text) else {
        return;
    };
    match &event {
        UpstreamEvent::AudioCommitted { item_id }
        | UpstreamEvent::ItemAdded { item_id, .. }
        | UpstreamEvent::InputTranscriptDelta { item_id, .. }
        | UpstreamEvent::InputTranscriptCompleted { item_id, .. }
        | UpstreamEvent::InputTranscriptFailed { item_id, .. } => check_id(Some(item_id)),
        UpstreamEvent::ResponseCreated { response_id } => check_id(Some(response_id)),
        UpstreamEvent::OutputItemAdded { place, .. }
        | UpstreamEvent::TextDelta { place, .. }
        | UpstreamEvent::TranscriptDelta { place, .. }
        | UpstreamEvent::AudioDelta { place, .. }
        | UpstreamEvent::ArgumentsDelta { place, .. }
        | UpstreamEvent::CallDone { place, .. } => check_place(place),
        UpstreamEvent::ResponseDone(ended) => {
            check_id(ended.response_id.as_deref());
            if let EndedStatus::Failed { error } = &ended.status {
                serde_json::from_str::<serde_json::Value>(error).expect("the error is JSON");
            }
            // With duplicate members, the two readers may see different reports.
            if let (Some(usage), Some(event)) = (ended.usage, tree(data)) {
                let report = &event["response"]["usage"];
                assert_eq!(report["input_tokens"].as_u64(), Some(usage.total_input()));
                assert_eq!(report["output_tokens"].as_u64(), Some(usage.total_output()));
            }
        }
        _ => {}
    }
});
