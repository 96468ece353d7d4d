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

async fn heard(file: impl Into<Bytes>) -> Transcript {
    let heard = simulator()
        .transcribe(&context(), &transcription(file.into()))
        .await;
    heard.unwrap()
}

/// Returns a simulator without any program.
fn without_programs() -> Simulator {
    let paths = ToolPaths {
        ffmpeg: Some("/missing".into()),
        ffprobe: Some("/missing".into()),
        espeak: Some("/missing".into()),
        font: Some("/missing".into()),
        max_concurrent: None,
    };
    Simulator::with("sim".into(), Tools::at(&paths), Arc::new(SystemClock::default()))
}

/// Returns the samples of a text that is spoken as PCM.
async fn pcm(speaker: &Simulator, text: &str) -> Vec<i16> {
    let call = speech(text, AudioFormat::Pcm);
    match speaker.speak(&context(), &call).await.unwrap().audio {
        AudioContent::Whole(bytes) => wav::samples(&bytes),
        AudioContent::Stream(_) => panic!("it comes in pieces"),
    }
}

fn file_of(samples: &[i16]) -> Vec<u8> {
    wav::encode(samples, "a recording of a client")
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
            // Raw samples are no file. A file with these samples is transcribed.
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
async fn raw_samples_contain_the_exact_text() {
    let long = "Good morning, harbour. ".repeat(87);
    let long = &long[..2_000];
    let texts = [
        "Good morning, harbour. How are you?",
        "x",
        "Grüße aus Köln – schön!",
        "Hello 🌍👩‍🚀 and more",
        "早上好，港口。你好吗？",
        "[ [sim]] \"quoted\"\nnext line",
        long,
    ];
    for speaker in [simulator(), without_programs()] {
        for text in texts {
            let samples = pcm(&speaker, text).await;
            let recording = transcription(file_of(&samples).into());
            let heard = speaker.transcribe(&context(), &recording).await.unwrap();
            assert_eq!(heard.text, text);
            let seconds = samples.len() as f64 / 24_000.0;
            assert!((heard.duration.unwrap().as_secs_f64() - seconds).abs() < 1e-5);
        }
    }
}

#[tokio::test]
async fn recordings_of_several_utterances_have_all_texts() {
    let speaker = without_programs();
    let first = pcm(&speaker, "Good morning.").await;
    let second = pcm(&speaker, "How are you?").await;
    let silence = vec![0; 12_345];
    let rest = first[first.len() / 3..].to_vec();
    let cut_mark: Vec<i16> = first[..50].iter().map(|sample| sample & 1).collect();
    for (parts, expected) in [
        (vec![&silence, &first, &silence], "Good morning."),
        (
            vec![&silence, &first, &silence, &second],
            "Good morning. How are you?",
        ),
        (vec![&first, &second], "Good morning. How are you?"),
        (vec![&first, &silence, &first], "Good morning. Good morning."),
        (vec![&rest, &silence, &second], "Good morning. How are you?"),
        (vec![&silence], ""),
        (vec![&silence, &cut_mark], ""),
    ] {
        let samples = parts.into_iter().flatten().copied().collect::<Vec<i16>>();
        assert_eq!(heard(file_of(&samples)).await.text, expected);
    }
}

#[tokio::test]
async fn lossless_conversions_retain_the_text() {
    let samples = pcm(&simulator(), "Good morning, harbour.").await;
    let converted = Tools::find()
        .encode_samples(&wav::raw(&samples), SpeechFormat::Flac, None)
        .await
        .unwrap();
    assert_eq!(heard(converted).await.text, "Good morning, harbour.");
    // The comment of a file is read if the samples contain no text.
    let note = format!("{NOTE}{}", URL_SAFE_NO_PAD.encode("Grüße"));
    let commented = wav::encode(&vec![100; 24_000], &note);
    assert_eq!(heard(commented).await.text, "Grüße");
}

#[tokio::test]
async fn wav_files_of_other_audio_report_their_duration() {
    let other = heard(file_of(&vec![100; 36_000])).await;
    assert_eq!(other.text, "[simulated transcription of 1.5 s of audio]");
    assert_eq!(other.duration, Some(Duration::from_millis(1_500)));
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
        panic!("the audio is not streamed");
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
    let mute = without_programs();
    let spoken = mute.speak(&context(), &speech("Hello", AudioFormat::Mp3)).await;
    let heard = mute
        .transcribe(&context(), &transcription(Bytes::from_static(b"x")))
        .await;
    for error in [spoken.err().unwrap(), heard.unwrap_err()] {
        assert_eq!(error.cause, UpstreamCause::Connect, "{error}");
        assert_eq!(error.kind, UpstreamErrorKind::Unavailable);
    }
}

#[tokio::test]
async fn a_tone_needs_no_program() {
    let speaker = without_programs();
    let wave = speaker
        .speak(&context(), &speech("Hello", AudioFormat::Wav))
        .await;
    let AudioContent::Whole(file) = wave.unwrap().audio else {
        panic!("it comes in pieces");
    };
    assert_eq!(heard(file).await.text, "Hello");
    let unspeakable = speech("…!?", AudioFormat::Pcm);
    let error = speaker.speak(&context(), &unspeakable).await.err().unwrap();
    assert_eq!(error.kind, UpstreamErrorKind::Rejected);
    assert_eq!(error.param.as_deref(), Some("input"));
    let long = speech(&"x".repeat(MAX_BUZZ_CHARS + 1), AudioFormat::Pcm);
    let error = speaker.speak(&context(), &long).await.err().unwrap();
    assert_eq!(error.kind, UpstreamErrorKind::Rejected);
    let cut = speech("Hello over there. [[sim cut=2]]", AudioFormat::Pcm);
    let AudioContent::Stream(stream) = speaker.speak(&context(), &cut).await.unwrap().audio else {
        panic!("the audio is not streamed");
    };
    assert_eq!(stream.collect::<Vec<_>>().await.len(), 3);
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
