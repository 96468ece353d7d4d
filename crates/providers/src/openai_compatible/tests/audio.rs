//! Tests of speech and transcriptions.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tollgate_testkit::upstream::{At, Framing, How, Reply, speech_audio};
use tollgate_types::{ErrorCode, Unit, Usage};
use tollgate_upstream::{
    AudioContent, AudioFormat, Provider, Source, SpeechCall, Timestamps, Transcript, TranscriptFormat,
    TranscriptionCall, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::{KEY, context, context_with_short_timeout, provider_at, started};

fn speech() -> SpeechCall {
    SpeechCall {
        upstream_model: "tts-1".into(),
        input: "Hello \"there\"".into(),
        voice: "alloy".into(),
        has_own_voice: false,
        instructions: None,
        format: AudioFormat::Mp3,
        speed: None,
    }
}

fn transcription() -> TranscriptionCall {
    TranscriptionCall {
        upstream_model: "whisper-1".into(),
        audio: Source {
            bytes: Bytes::from_static(b"\r\n--not-its-end--\r\n\0sound"),
            mime_type: "audio/wav".into(),
        },
        duration: None,
        filename: "a \"b\"\r\nx: y.wav".into(),
        language: None,
        prompt: None,
        temperature: None,
        format: TranscriptFormat::Json,
        timestamps: Timestamps::default(),
        translate: false,
    }
}

/// Returns all bytes of the audio, and whether they arrived as one complete response.
async fn spoken(provider: &dyn Provider, call: &SpeechCall) -> Result<(Bytes, bool), UpstreamError> {
    match provider.speech().unwrap().speak(&context(), call).await?.audio {
        AudioContent::Whole(bytes) => Ok((bytes, true)),
        AudioContent::Stream(mut stream) => {
            let mut all = BytesMut::new();
            while let Some(chunk) = stream.next().await {
                all.extend_from_slice(&chunk?);
            }
            Ok((all.freeze(), false))
        }
    }
}

async fn heard(provider: &dyn Provider, call: &TranscriptionCall) -> Result<Transcript, UpstreamError> {
    provider
        .transcriptions()
        .unwrap()
        .transcribe(&context(), call)
        .await
}

#[tokio::test]
async fn speech_requests_follow_the_format() {
    let (upstream, provider) = started().await;
    let full = SpeechCall {
        voice: "voice_1".into(),
        has_own_voice: true,
        instructions: Some("Whisper.".into()),
        format: AudioFormat::Flac,
        speed: Some(1.25),
        ..speech()
    };
    for (call, body) in [
        (
            speech(),
            json!({"model": "tts-1", "input": "Hello \"there\"", "voice": "alloy", "response_format": "mp3"}),
        ),
        (
            full,
            json!({"model": "tts-1", "input": "Hello \"there\"", "voice": {"id": "voice_1"}, "response_format": "flac",
                "instructions": "Whisper.", "speed": 1.25}),
        ),
    ] {
        let (bytes, is_whole) = spoken(&*provider, &call).await.unwrap();
        assert_eq!(bytes, speech_audio(call.format.as_str(), &call.input));
        assert!(!is_whole, "it comes in chunks");
        let request = upstream.requests().pop().unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/v1/audio/speech")
        );
        assert_eq!(request.json().unwrap(), body);
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("accept"), Some("*/*"));
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
    }
    upstream.push(Reply::body(200, "audio/mpeg", "abc"));
    let (bytes, is_whole) = spoken(&*provider, &speech()).await.unwrap();
    assert_eq!((&bytes[..], is_whole), (&b"abc"[..], true), "its length is known");
}

#[tokio::test]
async fn speech_failures_are_reported() {
    let (upstream, provider) = started().await;
    let error = |code| Reply::error(500, code, "The server had an error.");
    use UpstreamCause::{Protocol, Status};
    use UpstreamErrorKind::{RateLimited, Rejected, Unavailable};
    for (reply, kind, cause) in [
        (error("server_error"), Unavailable, Status),
        (
            Reply::error(429, "rate_limit_exceeded", "Slow down."),
            RateLimited,
            Status,
        ),
        (
            Reply::error(400, "invalid_value", "No such voice."),
            Rejected,
            Status,
        ),
        (Reply::html(200), Unavailable, Protocol),
        (
            Reply::body(
                200,
                "application/json",
                "{\"error\": {\"code\": \"rate_limit_exceeded\"}}",
            ),
            RateLimited,
            Protocol,
        ),
        (
            Reply::body(200, "audio/mpeg", "abcdef")
                .framing(Framing::Chunked)
                .cut(At::Bytes(3), How::Close),
            Unavailable,
            Protocol,
        ),
        (
            Reply::body(200, "audio/mpeg", "abcdef").cut(At::Bytes(3), How::Reset),
            Unavailable,
            Protocol,
        ),
        (
            Reply::body(200, "audio/mpeg", "abc").gzip(),
            Unavailable,
            Protocol,
        ),
    ] {
        let what = format!("{reply:?}");
        upstream.push(reply);
        let before = upstream.request_count();
        let failure = spoken(&*provider, &speech()).await.unwrap_err();
        assert_eq!((failure.kind, failure.cause), (kind, cause), "{what}: {failure}");
        assert_eq!(upstream.request_count(), before + 1, "{what}");
    }
}

#[tokio::test]
async fn silent_upstreams_time_out() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::hang());
    let speaker = provider.speech().unwrap();
    let failure = speaker
        .speak(&context_with_short_timeout(), &speech())
        .await
        .err()
        .unwrap();
    assert_eq!(failure.cause, UpstreamCause::Timeout);
    upstream.push(
        Reply::body(200, "audio/mpeg", "abcdef")
            .framing(Framing::Chunked)
            .cut(At::Bytes(3), How::Hang),
    );
    let AudioContent::Stream(stream) = speaker
        .speak(&context_with_short_timeout(), &speech())
        .await
        .unwrap()
        .audio
    else {
        panic!("its length is not known");
    };
    let chunks: Vec<_> = stream.collect().await;
    assert_eq!(chunks[0].as_ref().unwrap(), "abc");
    assert_eq!(chunks[1].as_ref().unwrap_err().cause, UpstreamCause::Timeout);
    assert_eq!(chunks.len(), 2, "nothing follows an error");
    upstream.push(Reply::hang());
    let writer = provider.transcriptions().unwrap();
    let failure = writer
        .transcribe(&context_with_short_timeout(), &transcription())
        .await;
    assert_eq!(failure.unwrap_err().cause, UpstreamCause::Timeout);
}

#[tokio::test]
async fn a_recording_is_sent_as_a_form() {
    let (upstream, provider) = started().await;
    let timed = TranscriptionCall {
        language: Some("en".into()),
        prompt: Some("Tollgate".into()),
        temperature: Some(0.5),
        format: TranscriptFormat::Srt,
        timestamps: Timestamps {
            segments: true,
            words: true,
        },
        ..transcription()
    };
    for (call, fields) in [
        (
            transcription(),
            &[("model", "whisper-1"), ("response_format", "json")][..],
        ),
        (
            timed,
            &[
                ("model", "whisper-1"),
                ("response_format", "verbose_json"),
                ("language", "en"),
                ("prompt", "Tollgate"),
                ("temperature", "0.5"),
                ("timestamp_granularities[]", "segment"),
                ("timestamp_granularities[]", "word"),
            ],
        ),
    ] {
        let transcript = heard(&*provider, &call).await.unwrap();
        let length = call.audio.bytes.len();
        assert_eq!(transcript.text, format!("Heard {length} bytes. All of them."));
        assert_eq!(transcript.duration, Some(Duration::from_secs(7)));
        assert_eq!(transcript.usage, None, "seconds are no tokens");
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.path, "/v1/audio/transcriptions");
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
        let form = request.form().unwrap();
        let (file, texts) = form.split_last().unwrap();
        let texts: Vec<(&str, &str)> = texts
            .iter()
            .map(|part| (part.name.as_str(), std::str::from_utf8(&part.body).unwrap()))
            .collect();
        assert_eq!(texts, fields);
        assert_eq!(file.body, call.audio.bytes);
        assert_eq!(file.file_name.as_deref(), Some("a %22b%22%0D%0Ax: y.wav"));
        assert_eq!(file.content_type.as_deref(), Some("audio/wav"));
        let is_timed = call.format.is_timed();
        assert_eq!(
            (transcript.segments.len(), transcript.words.len()),
            if is_timed { (2, 1) } else { (0, 0) }
        );
    }
}

#[tokio::test]
async fn plausible_transcript_fields_are_read() {
    let (upstream, provider) = started().await;
    let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    let cases: [(Value, Option<Duration>, Option<Usage>); 9] = [
        (json!({"text": "a"}), None, None),
        (json!({"text": "a", "duration": 1.5}), seconds(1.5), None),
        (json!({"text": "a", "duration": "1.5"}), seconds(1.5), None),
        (json!({"text": "a", "duration": -1}), None, None),
        (json!({"text": "a", "duration": 1e300}), None, None),
        (
            json!({"text": "a", "usage": {"type": "duration", "seconds": 3}}),
            seconds(3.0),
            None,
        ),
        (
            json!({"text": "a", "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59,
                "input_token_details": {"text_tokens": 4, "audio_tokens": 10}}}),
            None,
            Some(Usage::tokens(4, 45).with(Unit::InputAudio, 10)),
        ),
        (
            json!({"text": "a", "usage": {"input_tokens": -1, "output_tokens": 45}}),
            None,
            None,
        ),
        (
            json!({"text": "a", "usage": {"input_tokens": 99999999999_u64, "output_tokens": 1}}),
            None,
            None,
        ),
    ];
    for (body, duration, usage) in cases {
        upstream.push(Reply::body(200, "application/json", body.to_string()));
        let transcript = heard(&*provider, &transcription()).await.unwrap();
        assert_eq!(
            (transcript.duration, transcript.usage),
            (duration, usage),
            "{body}"
        );
    }
    for (reply, kind) in [
        (
            Reply::body(200, "text/plain", "just text"),
            UpstreamErrorKind::Unavailable,
        ),
        (
            Reply::body(200, "application/json", "{}"),
            UpstreamErrorKind::Unavailable,
        ),
        (
            Reply::body(
                200,
                "application/json",
                "{\"error\": {\"code\": \"rate_limit_exceeded\"}}",
            ),
            UpstreamErrorKind::RateLimited,
        ),
        (
            Reply::error(429, "rate_limit_exceeded", ""),
            UpstreamErrorKind::RateLimited,
        ),
        (
            Reply::error(500, "server_error", ""),
            UpstreamErrorKind::Unavailable,
        ),
        (
            Reply::error(400, "invalid_value", ""),
            UpstreamErrorKind::Rejected,
        ),
    ] {
        upstream.push(reply);
        let error = heard(&*provider, &transcription()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[tokio::test]
async fn presets_select_speech_and_transcription() {
    let address = "http://127.0.0.1:9/v1";
    for (preset, speaks, hears) in [
        ("openai", true, true),
        ("groq", true, true),
        ("vllm", false, true),
        ("ollama", false, false),
        ("openai-compatible", true, true),
    ] {
        let provider = provider_at(preset, address);
        assert_eq!(
            (provider.speech().is_some(), provider.transcriptions().is_some()),
            (speaks, hears),
            "{preset}"
        );
    }
    let provider = provider_at("openai", address);
    let timed = TranscriptionCall {
        format: TranscriptFormat::Vtt,
        upstream_model: "gpt-4o-transcribe".into(),
        ..transcription()
    };
    let refused = provider.transcriptions().unwrap().check(&timed).unwrap_err();
    assert_eq!(
        (refused.code, refused.param.as_deref()),
        (ErrorCode::UnsupportedParameter, Some("response_format"))
    );
}
