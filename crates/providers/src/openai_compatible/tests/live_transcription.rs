//! Tests of live transcription, on the wires of OpenAI and of vLLM.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, RealtimeFault, RealtimeWire, Reply};
use tollgate_types::HoldId;
use tollgate_upstream::{
    CallContext, LiveTranscriptionCall, LiveTranscriptionLink, Permit, TranscriptEvent,
    TranscriptionSettings, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::{KEY, context, context_with_short_timeout, provider_at};

const PRESETS: [&str; 2] = ["openai", "vllm"];

fn paid() -> CallContext {
    with_hold(context())
}

fn with_hold(ctx: CallContext) -> CallContext {
    CallContext {
        permit: Permit::Hold(HoldId::from_u128(1)),
        ..ctx
    }
}

fn settings() -> TranscriptionSettings {
    TranscriptionSettings {
        language: Some("en".into()),
        delay: Some("low"),
        ..TranscriptionSettings::default()
    }
}

async fn upstream_of(preset: &str) -> FakeUpstream {
    let upstream = FakeUpstream::start().await;
    upstream.set_realtime_wire(match preset {
        "vllm" => RealtimeWire::Vllm,
        _ => RealtimeWire::OpenAi,
    });
    upstream
}

async fn open_with(
    preset: &str,
    upstream: &FakeUpstream,
    ctx: &CallContext,
) -> Result<Box<dyn LiveTranscriptionLink>, UpstreamError> {
    let provider = provider_at(preset, &upstream.base_url());
    let call = LiveTranscriptionCall {
        upstream_model: "live-1".into(),
        settings: settings(),
    };
    provider.live_transcriptions().unwrap().open(ctx, &call).await
}

async fn opened(preset: &str) -> (FakeUpstream, Box<dyn LiveTranscriptionLink>) {
    let upstream = upstream_of(preset).await;
    let link = open_with(preset, &upstream, &context()).await.unwrap();
    (upstream, link)
}

/// Sends audio of this duration in parts of 100 ms, with what is left at the end.
async fn speak(link: &mut dyn LiveTranscriptionLink, audio_ms: usize) {
    let bytes = link.rate() as usize / 1_000 * 2;
    for part in vec![1; bytes * audio_ms].chunks(bytes * 100) {
        link.append(&paid(), part).await.unwrap();
    }
}

/// Returns the deltas and the transcript of a turn.
async fn transcript(link: &mut dyn LiveTranscriptionLink, turn: u64) -> (String, String) {
    let mut deltas = String::new();
    loop {
        match link.next().await.unwrap() {
            TranscriptEvent::Delta { turn: of, text } => {
                assert_eq!(of, turn, "{text}");
                deltas.push_str(&text);
            }
            TranscriptEvent::Completed { turn: of, text } => {
                assert_eq!(of, turn, "{text}");
                return (deltas, text);
            }
            TranscriptEvent::Failed { error, .. } => panic!("{error}"),
        }
    }
}

fn kinds(upstream: &FakeUpstream) -> Vec<String> {
    let events = upstream.realtime_events();
    events.iter().map(|event| event.kind().to_owned()).collect()
}

#[tokio::test]
async fn text_arrives_while_the_audio_is_sent() {
    for preset in PRESETS {
        let (upstream, mut link) = opened(preset).await;
        speak(&mut *link, 1_100).await;
        for word in ["w1", " w2"] {
            match link.next().await.unwrap() {
                TranscriptEvent::Delta { turn: 0, text } => assert_eq!(text, word, "{preset}"),
                other => panic!("{preset}: {other:?}"),
            }
        }
        link.commit().await.unwrap();
        let (deltas, text) = transcript(&mut *link, 0).await;
        assert_eq!((&*deltas, &*text), ("", "w1 w2 in 1100 ms"), "{preset}");
        // The next turn begins anew.
        speak(&mut *link, 500).await;
        link.commit().await.unwrap();
        assert_eq!(
            transcript(&mut *link, 1).await,
            ("w1".to_owned(), "w1 in 500 ms".to_owned()),
            "{preset}"
        );
        let request = upstream.requests().pop().unwrap();
        let query = if preset == "openai" {
            "?intent=transcription"
        } else {
            ""
        };
        assert_eq!(request.path, format!("/v1/realtime{query}"));
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
    }
}

#[tokio::test]
async fn the_session_has_the_settings_and_no_turn_detection() {
    let (upstream, mut link) = opened("openai").await;
    let transcription = |upstream: &FakeUpstream| {
        let update = upstream.realtime_events().pop().unwrap().event;
        assert_eq!(update["session"]["type"], "transcription", "{update}");
        let input = update["session"]["audio"]["input"].clone();
        assert_eq!(input["format"], json!({"type": "audio/pcm", "rate": 24_000}));
        assert_eq!(input["turn_detection"], Value::Null);
        input["transcription"].clone()
    };
    let first = json!({"model": "live-1", "language": "en", "delay": "low"});
    assert_eq!(transcription(&upstream), first);
    link.configure(&settings()).await.unwrap();
    let changed = TranscriptionSettings {
        prompt: Some("names".into()),
        languages: vec!["en".into(), "de".into()],
        keywords: vec!["Kiel".into()],
        ..TranscriptionSettings::default()
    };
    link.configure(&changed).await.unwrap();
    speak(&mut *link, 100).await;
    link.commit().await.unwrap();
    transcript(&mut *link, 0).await;
    let kinds = kinds(&upstream);
    assert_eq!(
        kinds,
        [
            "session.update",
            "session.update",
            "input_audio_buffer.append",
            "input_audio_buffer.commit"
        ]
    );
    let update = &upstream.realtime_events()[1].event;
    assert_eq!(
        update["session"]["audio"]["input"]["transcription"],
        json!({"model": "live-1", "prompt": "names", "languages": ["en", "de"], "keywords": ["Kiel"]})
    );
}

#[tokio::test]
async fn short_empty_and_dropped_turns_are_possible() {
    for preset in PRESETS {
        let (_upstream, mut link) = opened(preset).await;
        link.commit().await.unwrap();
        assert_eq!(transcript(&mut *link, 0).await.1, "", "{preset}");
        speak(&mut *link, 40).await;
        link.commit().await.unwrap();
        let heard = transcript(&mut *link, 1).await.1;
        let expected = if preset == "openai" {
            "in 100 ms"
        } else {
            "in 40 ms"
        };
        assert_eq!(heard, expected, "{preset}");
        speak(&mut *link, 700).await;
        link.clear().await.unwrap();
        link.clear().await.unwrap();
        speak(&mut *link, 200).await;
        link.commit().await.unwrap();
        let mut last = None;
        while last.is_none() {
            match link.next().await.unwrap() {
                // The text of the dropped audio may have arrived.
                TranscriptEvent::Delta { turn: 2, .. } => {}
                TranscriptEvent::Completed { turn: 2, text } => last = Some(text),
                other => panic!("{preset}: {other:?}"),
            }
        }
        assert_eq!(last.as_deref(), Some("in 200 ms"), "{preset}");
    }
}

#[tokio::test]
async fn turns_can_follow_before_their_transcripts() {
    for preset in PRESETS {
        let (upstream, mut link) = opened(preset).await;
        // The transcript of the first turn follows a pong, which the link sends when it reads.
        upstream.push_for_realtime(RealtimeFault::PingBefore(match preset {
            "vllm" => "transcription.done",
            _ => "input_audio_buffer.committed",
        }));
        for audio_ms in [500, 1_000, 1_500] {
            speak(&mut *link, audio_ms).await;
            link.commit().await.unwrap();
        }
        for (turn, text) in [
            (0, "w1 in 500 ms"),
            (1, "w1 w2 in 1000 ms"),
            (2, "w1 w2 w3 in 1500 ms"),
        ] {
            assert_eq!(transcript(&mut *link, turn).await.1, text, "{preset}");
        }
    }
}

#[tokio::test]
async fn audio_needs_a_hold() {
    for preset in PRESETS {
        let (upstream, mut link) = opened(preset).await;
        let refused = link.append(&context(), &[0; 3_200]).await.unwrap_err();
        assert_eq!(refused.cause, UpstreamCause::Connect, "{preset}");
        speak(&mut *link, 100).await;
        link.commit().await.unwrap();
        assert_eq!(transcript(&mut *link, 0).await.1, "in 100 ms", "{preset}");
        let appended = kinds(&upstream);
        let appended = appended
            .iter()
            .filter(|kind| *kind == "input_audio_buffer.append");
        assert_eq!(appended.count(), 1, "{preset}");
    }
}

#[tokio::test]
async fn a_failed_turn_leaves_the_others() {
    let (upstream, mut link) = opened("openai").await;
    upstream.push_for_realtime(RealtimeFault::Fail("server_error"));
    speak(&mut *link, 200).await;
    link.commit().await.unwrap();
    match link.next().await.unwrap() {
        TranscriptEvent::Failed { turn: 0, error } => {
            assert_eq!(error.kind, UpstreamErrorKind::Unavailable, "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    upstream.push_for_realtime(RealtimeFault::ErrorFor {
        event: "input_audio_buffer.commit",
        kind: "invalid_request_error",
        code: "input_audio_buffer_commit_empty",
        has_event_id: true,
    });
    speak(&mut *link, 200).await;
    link.commit().await.unwrap();
    assert!(matches!(
        link.next().await.unwrap(),
        TranscriptEvent::Failed { turn: 1, .. }
    ));
}

#[tokio::test]
async fn faults_end_the_connection_with_an_error() {
    for preset in PRESETS {
        let last = match preset {
            "vllm" => "transcription.done",
            _ => "conversation.item.input_audio_transcription.completed",
        };
        let refuses_audio = RealtimeFault::ErrorFor {
            event: "input_audio_buffer.append",
            kind: "invalid_request_error",
            code: "invalid_audio",
            has_event_id: true,
        };
        for fault in [
            RealtimeFault::Before(last, "no JSON".to_owned()),
            RealtimeFault::Before(last, "[1]".to_owned()),
            RealtimeFault::Omit(last),
            refuses_audio,
        ] {
            let upstream = upstream_of(preset).await;
            let mut link = open_with(preset, &upstream, &context()).await.unwrap();
            upstream.push_for_realtime(fault.clone());
            let ctx = with_hold(context_with_short_timeout());
            let audio = vec![0; link.rate() as usize / 5];
            let mut end = link.append(&ctx, &audio).await.and(link.commit().await).err();
            while end.is_none() {
                end = match link.next().await {
                    Ok(TranscriptEvent::Completed { .. }) => panic!("{preset}: {fault:?}"),
                    // The commit of refused audio fails, too.
                    Ok(_) => None,
                    Err(error) => Some(error),
                };
            }
            // The error remains.
            assert!(link.next().await.is_err() && link.commit().await.is_err());
        }
        for fault in [
            RealtimeFault::HangAfter(""),
            RealtimeFault::Refuse(Box::new(Reply::error(500, "server_error", "No."))),
            RealtimeFault::CloseAfter("session.created", 1008),
        ] {
            let upstream = upstream_of(preset).await;
            upstream.push_for_realtime(fault.clone());
            let ctx = context_with_short_timeout();
            match open_with(preset, &upstream, &ctx).await {
                Err(_) => {}
                // vLLM confirms no settings.
                Ok(mut link) => assert!(link.next().await.is_err(), "{preset}: {fault:?}"),
            }
        }
    }
    let upstream = upstream_of("openai").await;
    upstream.push_for_realtime(RealtimeFault::KeepTurnDetection);
    assert!(open_with("openai", &upstream, &context()).await.is_err());
}

#[tokio::test]
async fn an_idle_connection_waits_and_reports_its_end() {
    for preset in PRESETS {
        let upstream = upstream_of(preset).await;
        let mut link = open_with(preset, &upstream, &context_with_short_timeout())
            .await
            .unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(600), link.next()).await;
        assert!(waited.is_err(), "{preset}");
        drop(upstream);
        assert!(link.next().await.is_err(), "{preset}");
    }
}

#[tokio::test]
async fn an_utterance_that_ends_early_keeps_its_text() {
    let (upstream, mut link) = opened("vllm").await;
    let done = json!({"type": "transcription.done", "text": "early", "usage": null});
    upstream.push_for_realtime(RealtimeFault::Before("transcription.delta", done.to_string()));
    speak(&mut *link, 600).await;
    // The rest of the turn is lost.
    assert!(
        tokio::time::timeout(Duration::from_millis(300), link.next())
            .await
            .is_err()
    );
    link.commit().await.unwrap();
    assert_eq!(transcript(&mut *link, 0).await.1, "early");
}
