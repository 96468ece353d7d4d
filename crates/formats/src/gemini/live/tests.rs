use serde_json::json;
use tollgate_types::Unit;

use super::*;

#[test]
fn usage_is_split_by_modality() {
    let report = json!({
        "promptTokenCount": 100, "cachedContentTokenCount": 30, "toolUsePromptTokenCount": 5,
        "responseTokenCount": 60, "thoughtsTokenCount": 11, "totalTokenCount": 176,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 30}, {"modality": "AUDIO", "tokenCount": 70}],
        "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 20}, {"modality": "TEXT", "tokenCount": 10}],
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 50}, {"modality": "TEXT", "tokenCount": 10}],
        "toolUsePromptTokensDetails": [{"modality": "TEXT", "tokenCount": 5}],
    });
    let usage = read_live_usage(&report).unwrap();
    let expected = [
        (Unit::Input, 25),
        (Unit::CacheRead, 10),
        (Unit::InputAudio, 50),
        (Unit::Output, 10),
        (Unit::Reasoning, 11),
        (Unit::OutputAudio, 50),
        (Unit::CacheReadAudio, 20),
    ];
    assert_eq!(usage.iter().collect::<Vec<_>>(), expected);
    assert_eq!(usage.total(), 176);
}

#[test]
fn implausible_usage_is_ignored() {
    for report in [
        json!({}),
        json!(null),
        json!({"promptTokenCount": -1}),
        json!({"promptTokenCount": 1, "responseTokenCount": 1.5}),
        json!({"responseTokenCount": 9}),
    ] {
        assert_eq!(read_live_usage(&report), None, "{report}");
    }
    // Details never add to the counts.
    let report = json!({"promptTokenCount": 3, "responseTokenCount": 2,
        "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 9}],
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 9}],
        "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 4}]});
    let usage = read_live_usage(&report).unwrap();
    assert_eq!((usage.total_input(), usage.total_output()), (3, 2));
}

#[test]
fn messages_with_wrong_types_or_audio_are_refused() {
    for message in [
        "",
        "[1",
        "{\"serverContent\": 7}",
        r#"{"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "image/png", "data": ""}}]}}}"#,
        r#"{"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=16000", "data": ""}}]}}}"#,
        r#"{"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": "?"}}]}}}"#,
    ] {
        assert!(parse_live(message.as_bytes()).is_err(), "{message}");
    }
    assert_eq!(
        parse_live(br#"{"voiceActivity": {"type": "START"}}"#).unwrap(),
        []
    );
}
