//! Audio requests that are refused before credits are held or the upstream is called.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;

use super::{EARS, SPEECH, TRANSCRIPTIONS, VOICE, form, scene, speak, speech, transcribe};
use crate::scene::{MODEL, assert_error};

#[tokio::test]
async fn invalid_speech_requests_name_the_parameter() {
    let scene = scene().await;
    let long = "x".repeat(4_097);
    for (members, code, param) in [
        (json!({"input": null}), "missing_required_parameter", "input"),
        (json!({"input": long}), "invalid_parameter", "input"),
        (json!({"voice": null}), "missing_required_parameter", "voice"),
        (json!({"voice": 1}), "invalid_parameter", "voice"),
        (json!({"speed": 5}), "invalid_parameter", "speed"),
        (
            json!({"response_format": "midi"}),
            "invalid_parameter",
            "response_format",
        ),
        (
            json!({"stream_format": "sse"}),
            "unsupported_parameter",
            "stream_format",
        ),
        (json!({"pitch": 1}), "unknown_parameter", "pitch"),
        (json!({"model": "acme/none"}), "model_not_found", "model"),
        (json!({"model": MODEL}), "unsupported_endpoint", "model"),
        (json!({"model": EARS}), "unsupported_endpoint", "model"),
    ] {
        let response = speak(&scene, &speech(VOICE, "Hello", members.clone())).await;
        assert_error(&members.to_string(), &response, code, Some(param));
    }
    let unspeakable = speech("sim/speech", "…!?", json!({}));
    let response = speak(&scene, &unspeakable).await;
    assert_error("nothing to say", &response, "invalid_parameter", Some("input"));
    for (body, code) in [("[1]", "invalid_json"), ("{", "invalid_json")] {
        let request = Request::post(SPEECH, body)
            .header("content-type", "application/json")
            .key(&scene.key.secret);
        assert_error(body, &scene.client().send(&request).await, code, None);
    }
    assert_eq!(scene.upstream.request_count(), 0);
    scene.settled().await;
    scene.finish().await;
}

#[tokio::test]
async fn invalid_transcription_forms_name_the_field() {
    let scene = scene().await;
    let noise = b"this is no recording";
    let fields = |more: &[(&'static str, &'static str)]| [&[("model", EARS)], more].concat();
    for (more, code, param) in [
        (&[("temperature", "2")][..], "invalid_parameter", "temperature"),
        (&[("language", "?")], "invalid_parameter", "language"),
        (
            &[("response_format", "xml")],
            "invalid_parameter",
            "response_format",
        ),
        (&[("stream", "true")], "unsupported_parameter", "stream"),
        (&[("voice", "alloy")], "unknown_parameter", "voice"),
        (
            &[("timestamp_granularities[]", "word")],
            "invalid_parameter",
            "timestamp_granularities",
        ),
        // The file is checked last, because that check runs a program.
        (&[], "invalid_parameter", "file"),
    ] {
        let response = transcribe(&scene, noise, &fields(more)).await;
        assert_error(&format!("{more:?}"), &response, code, Some(param));
    }
    for (model, code) in [("acme/none", "model_not_found"), (VOICE, "unsupported_endpoint")] {
        let response = transcribe(&scene, noise, &[("model", model)]).await;
        assert_error(model, &response, code, Some("model"));
    }
    let empty = transcribe(&scene, b"", &fields(&[])).await;
    assert_error("empty", &empty, "invalid_parameter", Some("file"));
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn malformed_and_oversized_forms_are_refused() {
    let scene = scene().await;
    let send = async |content_type: &str, body: &[u8]| {
        let request = Request::post(TRANSCRIPTIONS, body)
            .header("content-type", content_type)
            .key(&scene.key.secret);
        scene.client().send(&request).await
    };
    for content_type in [
        "application/json",
        "multipart/form-data",
        "multipart/mixed; boundary=x",
    ] {
        let response = send(content_type, b"{}").await;
        assert_error(content_type, &response, "unsupported_media_type", None);
    }
    for body in [&b""[..], b"--x\r\n", b"model=m"] {
        let response = send("multipart/form-data; boundary=x", body).await;
        assert_error("no form", &response, "invalid_parameter", None);
    }
    let model = b"--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n";
    let response = send("multipart/form-data; boundary=x", model).await;
    assert_error("no file", &response, "missing_required_parameter", Some("file"));
    let response = transcribe(&scene, &vec![0; (25 << 20) + 1], &[("model", EARS)]).await;
    assert_error("a byte too many", &response, "request_too_large", Some("file"));
    let response = transcribe(&scene, &vec![0; 27 << 20], &[("model", EARS)]).await;
    assert_error("far too many", &response, "request_too_large", None);
    let no_key = scene.client().send(&form(b"x", &[])).await;
    assert_error("no key", &no_key, "missing_api_key", None);
    scene.nothing_happened().await;
    scene.finish().await;
}
