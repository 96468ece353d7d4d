//! Tests of the refusals, of updates and of the writer. The golden files have the events.

mod refusals;
mod sessions;
mod upstream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollgate_types::ErrorCode;

use super::*;

#[test]
fn codes_are_distinct() {
    let mut names: Vec<&str> = RealtimeCode::ALL.iter().map(|code| code.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RealtimeCode::ALL.len());
    let public: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert!(names.iter().all(|name| !public.contains(name)));
}

#[test]
fn appended_audio_is_decoded_in_every_order_of_the_members() {
    for text in [
        r#"{"type":"input_audio_buffer.append","audio":"AAEC/w=="}"#,
        r#"{"audio":"AAEC/w==","type":"input_audio_buffer.append"}"#,
        r#"{"event_id":null,"audio":"AAEC/w==","type":"input_audio_buffer.append"}"#,
        r#" { "audio" : "AAEC\/w==", "type" : "input\u005faudio_buffer.append" } "#,
    ] {
        for kind in [SessionKind::Voice, SessionKind::Transcription] {
            let parsed = parse(text, kind).unwrap();
            let audio = bytes::Bytes::from_static(&[0, 1, 2, 255]);
            assert_eq!(parsed.event, ClientEvent::AppendAudio { audio }, "{text}");
            assert_eq!(parsed.event_id, None);
        }
    }
}

#[test]
fn audio_has_a_maximum_size() {
    let event = |base64: &str| format!(r#"{{"type":"input_audio_buffer.append","audio":"{base64}"}}"#);
    let largest = "A".repeat(MAX_AUDIO_BYTES / 3 * 4);
    assert!(parse(&event(&largest), SessionKind::Voice).is_ok());
    for more in ["AA==", "AAA=", "AAAA"] {
        let refused = parse(&event(&format!("{largest}{more}")), SessionKind::Voice);
        let error = refused.unwrap_err().error;
        assert_eq!(error.code, ErrorCode::RequestTooLarge, "{more}");
        assert_eq!(error.param.as_deref(), Some("audio"));
    }
}

#[test]
fn half_a_sample_is_refused() {
    for (format, bytes, is_whole) in [
        (AudioFormat::Pcm, 4, true),
        (AudioFormat::Pcm, 0, true),
        (AudioFormat::Pcm, 3, false),
        (AudioFormat::Pcmu, 3, true),
        (AudioFormat::Pcma, 1, true),
    ] {
        let checked = format.check_samples(&vec![0; bytes], "audio");
        assert_eq!(checked.is_ok(), is_whole, "{format:?} {bytes}");
        if let Err(error) = checked {
            assert_eq!(error.param.as_deref(), Some("audio"));
        }
    }
}

#[test]
fn audio_is_written_as_it_was_read() {
    let place = SpokenPlace {
        response_id: "resp_1",
        item_id: "item_1",
        output_index: 0,
        content_index: 0,
    };
    for length in 0..50_u8 {
        let audio: Vec<u8> = (0..length).collect();
        let event = ServerEvent::AudioDelta { place, audio: &audio };
        let text = event.write(Dialect::Ga, "event_1").unwrap();
        let event: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(STANDARD.decode(event["delta"].as_str().unwrap()).unwrap(), audio);
    }
}

#[test]
fn durations_are_decimal_seconds() {
    for (micros, expected) in [
        (0, "0"),
        (1, "0.000001"),
        (1_500_000, "1.5"),
        (95_500_000, "95.5"),
        (2_000_000, "2"),
        (u64::MAX, "18446744073709.551615"),
    ] {
        let event = ServerEvent::TranscriptionCompleted {
            item_id: "item_1",
            content_index: 0,
            transcript: "",
            usage: TranscriptionUsage::Duration { micros, cost: None },
            logprobs: None,
        };
        let text = event.write(Dialect::Ga, "event_1").unwrap();
        assert!(text.contains(&format!("\"seconds\":{expected}}}")), "{text}");
    }
}
