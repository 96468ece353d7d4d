//! Transcriptions: upstream requests and response formats.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::upstream::Reply;

use super::{EARS, TOKEN_EARS, form_of, form_to, scene, scene_on, scene_with, simulated, transcribe};
use crate::scene::{GRANTED, assert_error, assert_hides_provider};

const SAID: &str = "Good morning, harbour. How are you today?";

#[tokio::test]
async fn the_simulator_transcribes_its_own_speech() {
    let scene = scene().await;
    for format in ["mp3", "opus", "aac", "flac", "wav"] {
        let audio = simulated(&scene, SAID, format).await;
        let response = transcribe(&scene, &audio, &[("model", "sim/transcribe")]).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.json()["text"], SAID, "{format}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn transcripts_have_the_requested_response_format() {
    let scene = scene().await;
    let audio = simulated(&scene, SAID, "wav").await;
    let ask = async |format: &str| {
        let fields = [("model", "sim/transcribe"), ("response_format", format)];
        let response = transcribe(&scene, &audio, &fields).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(response.header("x-tollgate-cost").is_some());
        response
    };
    let text = ask("text").await;
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(text.text(), format!("{SAID}\n"));
    let srt = ask("srt").await.text();
    let lines: Vec<&str> = srt.lines().collect();
    assert_eq!(
        (lines[0], lines[2], lines[3]),
        ("1", "Good morning, harbour.", ""),
        "{srt}"
    );
    assert!(lines[1].starts_with("00:00:00,000 --> 00:00:0"), "{srt}");
    assert_eq!((lines[4], lines[6]), ("2", "How are you today?"), "{srt}");
    let vtt = ask("vtt").await;
    assert_eq!(vtt.header("content-type"), Some("text/vtt; charset=utf-8"));
    assert!(
        vtt.text().starts_with("WEBVTT\n\n00:00:00.000 --> "),
        "{}",
        vtt.text()
    );
    let verbose = ask("verbose_json").await.json();
    assert_eq!(
        (&verbose["task"], &verbose["text"]),
        (&json!("transcribe"), &json!(SAID))
    );
    assert_eq!(verbose["segments"].as_array().unwrap().len(), 2, "{verbose}");
    assert_eq!(verbose["segments"][1]["id"], 1);
    assert_eq!(verbose.get("words"), None, "words were not requested");
    assert!(verbose["duration"].as_f64().unwrap() > 1.0);
    let fields = [
        ("model", "sim/transcribe"),
        ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "word"),
    ];
    let words = transcribe(&scene, &audio, &fields).await.json();
    assert_eq!(words["words"].as_array().unwrap().len(), 7, "{words}");
    assert_eq!(words.get("segments"), None);
    scene.finish().await;
}

/// A translation is a transcript in English. Its endpoint has no `language` parameter.
#[tokio::test]
async fn recordings_are_translated() {
    const TRANSLATIONS: &str = "/v1/audio/translations";
    let scene = scene().await;
    let audio = simulated(&scene, SAID, "wav").await;
    let send = async |fields: &[(&str, &str)]| {
        let request = form_to(TRANSLATIONS, ("d1v1de", "a.wav"), &audio, fields);
        scene.client().send(&request.key(&scene.key.secret)).await
    };
    let verbose = send(&[("model", "sim/transcribe"), ("response_format", "verbose_json")]).await;
    assert_eq!(verbose.status, 200, "{}", verbose.text());
    assert_eq!(
        (&verbose.json()["task"], &verbose.json()["text"]),
        (&json!("translate"), &json!(SAID))
    );
    let heard = send(&[("model", EARS), ("prompt", "A harbour.")]).await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    let sent = scene.upstream.requests().pop().unwrap();
    assert!(sent.path.ends_with("/audio/translations"), "{}", sent.path);
    let row = scene.row(heard.request_id()).await;
    assert_eq!(row["endpoint"], TRANSLATIONS);
    let asked = scene.upstream.requests().len();
    for (fields, code, param) in [
        (vec![("model", TOKEN_EARS)], "unsupported_endpoint", "model"),
        (
            vec![("model", EARS), ("language", "de")],
            "unknown_parameter",
            "language",
        ),
    ] {
        assert_error(param, &send(&fields).await, code, Some(param));
    }
    assert_eq!(scene.upstream.requests().len(), asked);
    scene.finish().await;
}

#[tokio::test]
async fn a_provider_receives_the_recording_and_the_needed_fields() {
    let scene = scene().await;
    let audio = simulated(&scene, SAID, "wav").await;
    let fields = [
        ("model", EARS),
        ("response_format", "srt"),
        ("language", "de"),
        ("prompt", "Grüße"),
        ("temperature", "0.25"),
        ("stream", "false"),
    ];
    let request = form_of("b", "../höre zu.wav", &audio, &fields).key(&scene.key.secret);
    let response = scene.client().send(&request).await;
    assert_eq!(
        response.text(),
        "1\n00:00:00,000 --> 00:00:03,250\nHeard it.\n\n2\n00:00:03,250 --> 00:00:07,000\nAll of it.\n\n"
    );
    let sent = scene.upstream.requests().pop().unwrap().form().unwrap();
    let (file, fields) = sent.split_last().unwrap();
    let fields: Vec<(&str, &[u8])> = fields
        .iter()
        .map(|field| (field.name.as_str(), &field.body[..]))
        .collect();
    let expected: [(&str, &[u8]); 6] = [
        ("model", b"whisper-1"),
        ("response_format", b"verbose_json"),
        ("language", b"de"),
        ("prompt", "Grüße".as_bytes()),
        ("temperature", b"0.25"),
        ("timestamp_granularities[]", b"segment"),
    ];
    assert_eq!(fields, expected);
    assert_eq!(file.body, audio);
    assert_eq!(file.file_name.as_deref(), Some("höre zu.wav"));
    scene.finish().await;
}

#[tokio::test]
async fn timestamps_that_a_model_does_not_report_are_refused() {
    let scene = scene().await;
    let audio = simulated(&scene, SAID, "wav").await;
    let before = scene.settled().await;
    let known = [("model", TOKEN_EARS), ("response_format", "vtt")];
    let response = transcribe(&scene, &audio, &known).await;
    assert_error(
        "known before",
        &response,
        "unsupported_parameter",
        Some("response_format"),
    );
    assert_eq!(scene.upstream.request_count(), 0);
    // Only the response of this model shows that the model returns no timestamps.
    scene
        .upstream
        .push(Reply::body(200, "application/json", r#"{"text": "Hello"}"#));
    let unknown = [("model", EARS), ("response_format", "vtt")];
    let response = transcribe(&scene, &audio, &unknown).await;
    assert_error(
        "found out",
        &response,
        "invalid_parameter",
        Some("response_format"),
    );
    assert_eq!(scene.settled().await, before, "it costs nothing");
    scene.finish().await;
}

#[tokio::test]
async fn idempotency_ignores_the_boundary_of_a_form() {
    let scene = scene().await;
    let audio = simulated(&scene, SAID, "wav").await;
    let before = scene.upstream.request_count();
    let send = async |boundary: &str, filename: &str| {
        let request: Request = form_of(boundary, filename, &audio, &[("model", EARS)])
            .key(&scene.key.secret)
            .header("idempotency-key", "form");
        scene.client().send(&request).await
    };
    let first = send("first-boundary", "a.wav").await;
    assert_eq!(first.status, 200, "{}", first.text());
    let again = send("drawn-anew", "a.wav").await;
    assert_eq!(
        again.header("idempotency-replayed"),
        Some("true"),
        "{}",
        again.text()
    );
    assert_eq!(again.body(), first.body());
    let other = send("first-boundary", "b.wav").await;
    assert_error(
        "another form",
        &other,
        "idempotency_key_reused",
        Some("Idempotency-Key"),
    );
    assert_eq!(scene.upstream.request_count(), before + 1);
    scene.finish().await;
}

#[tokio::test]
async fn blocked_transcripts_are_withheld_and_charged() {
    let config = "[policy.rules.words]\napply = \"output\"\nwords = [\"harbour\"]\n";
    let scene = scene_on(Default::default(), config).await;
    let audio = simulated(&scene, SAID, "wav").await;
    let before = scene.settled().await;
    let response = transcribe(&scene, &audio, &[("model", "sim/transcribe")]).await;
    assert_error("a rule", &response, "output_blocked", None);
    assert!(!response.text().contains("harbour"));
    assert!(scene.settled().await.credits < before.credits);
    scene.finish().await;
}

#[tokio::test]
async fn the_simulator_is_unavailable_without_its_programs_and_does_not_name_them() {
    let scene = scene_with(Default::default(), "", "/nowhere").await;
    let spoken = super::speak(&scene, &super::speech("sim/speech", SAID, json!({}))).await;
    let heard = transcribe(&scene, b"not looked at", &[("model", "sim/transcribe")]).await;
    let body = json!({"model": "sim/video", "prompt": "A harbour."});
    let video = scene.post("/v1/videos/generations", &body).await;
    for response in [spoken, heard, video] {
        let error = assert_error("no programs", &response, "model_unavailable", None);
        assert_hides_provider("no programs", &error.message);
        for program in ["ffmpeg", "ffprobe", "espeak"] {
            assert!(!error.message.contains(program), "{}", error.message);
        }
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn samples_of_the_simulator_need_no_program() {
    let scene = scene_with(Default::default(), "", "/nowhere").await;
    let wav = simulated(&scene, SAID, "wav").await;
    let pcm = simulated(&scene, SAID, "pcm").await;
    for audio in [wav, wav_of(&pcm), wav_of(&pcm[..pcm.len() / 2])] {
        let response = transcribe(&scene, &audio, &[("model", "sim/transcribe")]).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.json()["text"], SAID);
    }
    scene.finish().await;
}

/// Returns a WAV file of unknown length with these samples of 24 kHz.
fn wav_of(pcm: &[u8]) -> Vec<u8> {
    let mut file = b"RIFF\xFF\xFF\xFF\xFFWAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    file.extend(24_000_u32.to_le_bytes());
    file.extend(48_000_u32.to_le_bytes());
    file.extend(b"\x02\0\x10\0data\xFF\xFF\xFF\xFF");
    file.extend(pcm);
    file
}
