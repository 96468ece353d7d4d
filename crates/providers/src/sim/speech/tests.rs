use std::sync::Arc;

use futures_util::StreamExt;
use tollgate_media_tools::{ToolPaths, Tools};
use tollgate_types::clock::SystemClock;
use tollgate_upstream::{Source, Timestamps, TranscriptFormat, UpstreamCause, UpstreamErrorKind};

use super::super::tests::context;
use super::*;

fn simulator() -> Simulator {
    Simulator::new("sim".into())
}

fn speech(input: &str, format: AudioFormat) -> SpeechCall {
    SpeechCall {
        upstream_model: "speech".into(),
        input: input.into(),
        voice: "alloy".into(),
        has_own_voice: false,
        instructions: None,
        format,
        speed: None,
    }
}

fn transcription(bytes: Bytes) -> TranscriptionCall {
    TranscriptionCall {
        upstream_model: "transcribe".into(),
        audio: Source {
            bytes,
            mime_type: "audio/mpeg".into(),
        },
        duration: None,
        filename: "a.mp3".into(),
        language: None,
        prompt: None,
        temperature: None,
        format: TranscriptFormat::VerboseJson,
        timestamps: Timestamps::default(),
        translate: false,
    }
}

async fn whole(call: &SpeechCall) -> Bytes {
    match simulator().speak(&context(), call).await.unwrap().audio {
        AudioContent::Whole(bytes) => bytes,
        AudioContent::Stream(_) => panic!("it comes in pieces"),
    }
}

#[tokio::test]
async fn simulated_speech_is_transcribed() {
    let texts = [
        "Good morning, harbour. How are you?",
        "Grüße; = # \\ „x“\nline two 🌍 [ [x]]",
    ];
    for format in AudioFormat::ALL {
        for text in texts {
            let audio = whole(&speech(text, format)).await;
            let heard = simulator().transcribe(&context(), &transcription(audio)).await;
            // PCM samples have no metadata that could contain the text.
            if format == AudioFormat::Pcm {
                let error = heard.unwrap_err();
                assert_eq!(error.kind, UpstreamErrorKind::Rejected, "{error}");
                assert_eq!(error.param.as_deref(), Some("file"));
                continue;
            }
            let heard = heard.unwrap();
            assert_eq!(heard.text, text, "{format:?}");
            assert!(heard.duration.unwrap() > Duration::from_millis(500), "{heard:?}");
        }
    }
}

#[tokio::test]
async fn other_audio_reports_only_its_duration() {
    let spec = SpeechSpec::new(SpeechFormat::Flac);
    let other = Tools::find()
        .speak("Something else entirely.", &spec)
        .await
        .unwrap();
    let heard = simulator()
        .transcribe(&context(), &transcription(other.bytes))
        .await
        .unwrap();
    let seconds = heard.duration.unwrap().as_secs_f64();
    assert_eq!(
        heard.text,
        format!("[simulated transcription of {seconds:.1} s of audio]")
    );
    assert_eq!(heard.segments.len(), 1);
}

#[tokio::test]
async fn equal_calls_give_equal_speech() {
    let call = speech("The same.", AudioFormat::Mp3);
    let first = whole(&call).await;
    assert_eq!(first, whole(&call).await);
    let by_another = SpeechCall {
        voice: "nova".into(),
        ..call.clone()
    };
    assert_ne!(first, whole(&by_another).await, "voices differ");
    let quick = SpeechCall {
        speed: Some(4.0),
        ..call
    };
    assert!(whole(&quick).await.len() < first.len(), "it is shorter");
}

#[tokio::test]
async fn scripts_are_played() {
    let ctx = context();
    let failing = speech("[[sim error=overloaded]] Hello", AudioFormat::Wav);
    let error = simulator().speak(&ctx, &failing).await.err().unwrap();
    assert_eq!(error.kind, UpstreamErrorKind::Simulated(ErrorCode::Overloaded));
    let wrong = speech("[[sim nonsense]]", AudioFormat::Wav);
    let error = simulator().speak(&ctx, &wrong).await.err().unwrap();
    assert_eq!(error.param.as_deref(), Some("input"));
    let silent = speech("[[sim delay=0]] …", AudioFormat::Wav);
    let error = simulator().speak(&ctx, &silent).await.err().unwrap();
    assert_eq!(error.kind, UpstreamErrorKind::Rejected);

    let cut = speech("Hello over there. [[sim cut=2]]", AudioFormat::Wav);
    let AudioContent::Stream(stream) = simulator().speak(&ctx, &cut).await.unwrap().audio else {
        panic!("it comes at once");
    };
    let chunks: Vec<_> = stream.collect().await;
    assert_eq!(chunks.len(), 3);
    assert!(chunks[0].is_ok() && chunks[1].is_ok() && chunks[2].is_err());

    let call = TranscriptionCall {
        prompt: Some("[[sim error=rate_limit_exceeded]]".into()),
        ..transcription(Bytes::from_static(b"x"))
    };
    let error = simulator().transcribe(&ctx, &call).await.unwrap_err();
    assert_eq!(
        error.kind,
        UpstreamErrorKind::Simulated(ErrorCode::RateLimitExceeded)
    );
}

#[tokio::test]
async fn missing_programs_fail_as_unreachable() {
    let paths = ToolPaths {
        ffmpeg: Some("/missing".into()),
        ffprobe: Some("/missing".into()),
        espeak: Some("/missing".into()),
        font: Some("/missing".into()),
        max_concurrent: None,
    };
    let mute = Simulator::with("sim".into(), Tools::at(&paths), Arc::new(SystemClock::default()));
    let spoken = mute.speak(&context(), &speech("Hello", AudioFormat::Mp3)).await;
    let heard = mute
        .transcribe(&context(), &transcription(Bytes::from_static(b"x")))
        .await;
    for error in [spoken.err().unwrap(), heard.unwrap_err()] {
        assert_eq!(error.cause, UpstreamCause::Connect, "{error}");
        assert_eq!(error.kind, UpstreamErrorKind::Unavailable);
    }
}

#[test]
fn word_times_increase_to_the_end_of_the_audio() {
    let text = format!("One two. Three four! {}", "word ".repeat(40));
    let heard = timed(text, Duration::from_secs(10));
    assert!(heard.words.is_sorted_by(|a, b| a.end <= b.start + 1e-9));
    assert_eq!(heard.words.last().unwrap().end, 10.0);
    let texts: Vec<&str> = heard.segments.iter().map(|segment| &*segment.text).collect();
    assert_eq!(&texts[..2], ["One two.", "Three four!"]);
    assert!(
        texts.len() > 3 && texts.iter().all(|text| text.len() <= MAX_SEGMENT_CHARS + 5),
        "{texts:?}"
    );
    let empty = timed(String::new(), Duration::from_secs(1));
    assert!(empty.words.is_empty() && empty.segments.is_empty());
}
