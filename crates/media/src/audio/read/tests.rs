use serde_json::json;

use super::*;

fn field(name: &str, content: &str) -> FormField {
    FormField {
        name: name.to_owned(),
        content: Bytes::copy_from_slice(content.as_bytes()),
        ..FormField::default()
    }
}

fn file(filename: &str, bytes: usize) -> FormField {
    FormField {
        name: "file".to_owned(),
        filename: Some(filename.to_owned()),
        content_type: Some("audio/wav".to_owned()),
        content: vec![0; bytes].into(),
    }
}

fn read(fields: &[(&str, &str)]) -> Result<Recording, Error> {
    let fields = fields.iter().map(|(name, content)| field(name, content));
    recording(std::iter::once(file("a.wav", 1)).chain(fields).collect(), false)
}

#[test]
fn speech_limits_are_checked_at_both_ends() {
    for (members, refused) in [
        (json!({}), None),
        (json!({"input": "é".repeat(4_096)}), None),
        (json!({"input": "é".repeat(4_097)}), Some("input")),
        (json!({"input": ""}), Some("input")),
        (json!({"input": 1}), Some("input")),
        (json!({"input": null}), Some("input")),
        (json!({"voice": {"id": "voice_1"}}), None),
        (json!({"voice": {"name": "x"}}), Some("voice.id")),
        (json!({"voice": ""}), Some("voice")),
        (json!({"voice": null}), Some("voice")),
        (json!({"voice": "v".repeat(200)}), None),
        (json!({"voice": "v".repeat(201)}), Some("voice")),
        (json!({"instructions": "i".repeat(4_096)}), None),
        (json!({"instructions": "i".repeat(4_097)}), Some("instructions")),
        (json!({"speed": 0.25}), None),
        (json!({"speed": 4}), None),
        (json!({"speed": 0.24}), Some("speed")),
        (json!({"speed": 4.01}), Some("speed")),
        (json!({"speed": "1"}), Some("speed")),
        (json!({"response_format": "pcm"}), None),
        (json!({"response_format": "ogg"}), Some("response_format")),
        (json!({"stream_format": "audio"}), None),
        (json!({"stream_format": "sse"}), Some("stream_format")),
        (json!({"stream_format": "x"}), Some("stream_format")),
        (json!({"model": 1}), Some("model")),
        (json!({"pitch": 1}), Some("pitch")),
    ] {
        let mut body = json!({"input": "Hello", "voice": "alloy"});
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        let found = speech(body.to_string().as_bytes());
        let param = found.as_ref().err().and_then(|error| error.param.as_deref());
        assert_eq!(param, refused, "{members} {found:?}");
        assert_eq!(found.is_ok(), refused.is_none(), "{members}");
    }
    let plain = speech(br#"{"input": "Hello", "voice": "alloy"}"#).unwrap();
    assert_eq!(
        (plain.format, plain.speed, plain.model),
        (AudioFormat::Mp3, None, None)
    );
}

#[test]
fn recording_limits_are_checked_at_both_ends() {
    let (long, longer) = ("p".repeat(8_192), "p".repeat(8_193));
    let verbose = ("response_format", "verbose_json");
    for (fields, refused) in [
        (&[][..], None),
        (
            &[("model", "m"), ("language", "en"), ("temperature", "0.5")],
            None,
        ),
        (&[("temperature", "0")], None),
        (&[("temperature", "1")], None),
        (&[("temperature", "1.01")], Some("temperature")),
        (&[("temperature", "-0.1")], Some("temperature")),
        (&[("temperature", "NaN")], Some("temperature")),
        (&[("language", "e")], Some("language")),
        (&[("language", "en\r\nx")], Some("language")),
        (&[("prompt", &long)], None),
        (&[("prompt", &longer)], Some("prompt")),
        (&[("response_format", "vtt")], None),
        (&[("response_format", "xml")], Some("response_format")),
        (&[("response_format", "diarized_json")], Some("response_format")),
        (&[("stream", "false")], None),
        (&[("stream", "true")], Some("stream")),
        (&[("include[]", "logprobs")], Some("include")),
        (&[("chunking_strategy", "auto")], None),
        (&[("chunking_strategy", "{}")], Some("chunking_strategy")),
        (&[verbose, ("timestamp_granularities[]", "word")], None),
        (
            &[verbose, ("timestamp_granularities[]", "line")],
            Some("timestamp_granularities"),
        ),
        (
            &[("timestamp_granularities[]", "word")],
            Some("timestamp_granularities"),
        ),
        (&[("model", "a"), ("model", "b")], Some("model")),
        (&[("voice", "x")], Some("voice")),
    ] {
        let found = read(fields);
        let param = found.as_ref().err().and_then(|error| error.param.as_deref());
        assert_eq!(param, refused, "{fields:?}");
    }
}

#[test]
fn recordings_have_a_maximum_size() {
    let code = |fields: Vec<FormField>| recording(fields, false).map(drop).map_err(|error| error.code);
    assert_eq!(code(vec![]), Err(ErrorCode::MissingRequiredParameter));
    assert_eq!(code(vec![field("file", "x")]), Err(ErrorCode::InvalidParameter));
    assert_eq!(code(vec![file("a", 0)]), Err(ErrorCode::InvalidParameter));
    assert_eq!(code(vec![file("a", MAX_AUDIO_BYTES)]), Ok(()));
    assert_eq!(
        code(vec![file("a", MAX_AUDIO_BYTES + 1)]),
        Err(ErrorCode::RequestTooLarge)
    );
    for (name, expected) in [
        ("a b.wav", "a b.wav"),
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.mp3", "y.mp3"),
        ("a\r\nb.wav", "ab.wav"),
        ("", "audio"),
    ] {
        let found = recording(vec![file(name, 1)], false).unwrap();
        assert_eq!(found.filename, expected);
    }
}

#[test]
fn timestamps_default_to_segments() {
    let granularities = |fields: &[(&str, &str)]| {
        let found = read(fields).unwrap().timestamps;
        (found.segments, found.words)
    };
    let verbose = ("response_format", "verbose_json");
    let (segment, word) = (
        ("timestamp_granularities[]", "segment"),
        ("timestamp_granularities[]", "word"),
    );
    assert_eq!(granularities(&[]), (false, false));
    assert_eq!(granularities(&[("response_format", "srt")]), (true, false));
    assert_eq!(granularities(&[verbose]), (true, false));
    assert_eq!(granularities(&[verbose, word]), (false, true));
    assert_eq!(granularities(&[verbose, word, segment]), (true, true));
}
