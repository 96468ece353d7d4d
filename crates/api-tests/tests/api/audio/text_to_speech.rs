//! Speech: upstream requests and the relay of audio.

use serde_json::{Value, json};
use tollgate_testkit::gateway::eventually;
use tollgate_testkit::gateway::http::{End, Request};
use tollgate_testkit::upstream::{At, Framing, How, Reply, speech_audio};

use super::{PER_CHARACTER, SPEECH, VOICE, scene, simulated, speak, speech};
use crate::scene::{GRANTED, assert_error};

#[tokio::test]
async fn speech_is_relayed_in_the_requested_format() {
    let scene = scene().await;
    for (format, media_type) in [
        ("mp3", "audio/mpeg"),
        ("opus", "audio/ogg"),
        ("aac", "audio/aac"),
        ("flac", "audio/flac"),
        ("wav", "audio/wav"),
        ("pcm", "audio/pcm"),
    ] {
        let members = json!({"response_format": format, "speed": 1.5, "instructions": "Softly.", "stream_format": "audio"});
        let response = speak(&scene, &speech(VOICE, "Grüße", members)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header("content-type"), Some(media_type));
        assert_eq!(response.header("transfer-encoding"), Some("chunked"));
        assert_eq!(response.body(), speech_audio(format, "Grüße"));
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        let expected = json!({"model": "tts-1", "input": "Grüße", "voice": "alloy", "response_format": format,
            "speed": 1.5, "instructions": "Softly."});
        assert_eq!(sent, expected);
    }
    let own = speech(VOICE, "Hi", json!({"voice": {"id": "voice_1"}}));
    assert_eq!(
        speak(&scene, &own).await.header("content-type"),
        Some("audio/mpeg")
    );
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(sent["voice"], json!({"id": "voice_1"}));
    assert_eq!(sent.get("speed"), None, "an absent field is not sent");
    scene.finish().await;
}

#[tokio::test]
async fn speech_is_streamed_before_the_upstream_finishes() {
    let scene = scene().await;
    let partial = Reply::body(200, "audio/mpeg", "abcdef")
        .framing(Framing::Chunked)
        .cut(At::Bytes(3), How::Hang);
    scene.upstream.push(partial);
    let request = Request::json(SPEECH, &speech(VOICE, "Hello", json!({}))).key(&scene.key.secret);
    let mut answer = scene.client().open(&request).await;
    assert_eq!(answer.head.status, 200);
    assert_eq!(answer.next_chunk().await.as_deref(), Some(&b"abc"[..]));
    let request_id = answer.head.header("x-request-id").unwrap().to_owned();
    // A caller that disconnects now pays for the whole input.
    drop(answer);
    let row = scene.row(&request_id).await;
    assert_eq!(
        (&row["outcome"], &row["estimated"]),
        (&json!("client_gone"), &json!(false))
    );
    assert_eq!(row["usage"]["characters"], 5, "{row}");
    assert_eq!(scene.settled().await.credits, GRANTED - 5 * PER_CHARACTER);
    let upstream = &scene.upstream;
    eventually("the upstream connection closes", async || {
        upstream.open_connections() == 0
    })
    .await;
    scene.finish().await;
}

#[tokio::test]
async fn truncated_speech_has_no_proper_end_and_costs_nothing() {
    let scene = scene().await;
    for key in [None, Some("again")] {
        let broken = Reply::body(200, "audio/mpeg", "abcdef")
            .framing(Framing::Chunked)
            .cut(At::Bytes(3), How::Close);
        scene.upstream.push(broken);
        let request = Request::json(SPEECH, &speech(VOICE, "Hello", json!({}))).key(&scene.key.secret);
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let mut answer = scene.client().open(&request).await;
        let request_id = answer.head.header("x-request-id").unwrap().to_owned();
        // Bytes before the break may be lost with the connection.
        let mut audio = Vec::new();
        while let Some(chunk) = answer.next_chunk().await {
            audio.extend(chunk);
        }
        assert!(b"abc".starts_with(&audio[..]), "{audio:?}");
        assert_eq!(answer.end(), Some(End::Cut), "{key:?}");
        let row = scene.row(&request_id).await;
        assert_eq!(
            (&row["outcome"], &row["cost"]),
            (&json!("upstream_error"), &json!("0"))
        );
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn the_simulator_speaks_deterministically() {
    let scene = scene().await;
    let first = simulated(&scene, "Good morning.", "mp3").await;
    assert_eq!(simulated(&scene, "Good morning.", "mp3").await, first);
    assert_ne!(simulated(&scene, "Good evening.", "mp3").await, first);
    let paced = speech("sim/speech", "Good morning. [[sim pace=1]]", json!({}));
    let response = speak(&scene, &paced).await;
    assert_eq!(response.body(), first, "paced output is identical");
    assert!(response.chunks.len() > 1, "{}", response.chunks.len());
    // Without a model, the gateway uses its default speech model.
    let body: Value = json!({"input": "Good morning.", "voice": "alloy"});
    let usual = speak(&scene, &body).await;
    assert_eq!(
        usual.body(),
        speech_audio("mp3", "Good morning."),
        "the first of the operator's own"
    );
    scene.finish().await;
}

#[tokio::test]
async fn speech_is_replayed_for_its_idempotency_key() {
    let scene = scene().await;
    let body = speech(VOICE, "Hello", json!({}));
    let request = Request::json(SPEECH, &body)
        .key(&scene.key.secret)
        .header("idempotency-key", "speech");
    let first = scene.client().send(&request).await;
    let again = scene.client().send(&request).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.header("content-type"), Some("audio/mpeg"));
    assert_eq!((again.body(), again.status), (first.body(), 200));
    assert_eq!(scene.upstream.request_count(), 1);
    assert_eq!(scene.settled().await.credits, GRANTED - 5 * PER_CHARACTER);
    scene.finish().await;
}

#[tokio::test]
async fn text_that_a_policy_rule_blocks_is_not_spoken() {
    let scene = super::scene_on(
        Default::default(),
        "[policy.rules.words]\napply = \"input\"\nwords = [\"thermite\"]\n",
    )
    .await;
    for body in [
        speech(VOICE, "About thermite", json!({})),
        speech(VOICE, "Hello", json!({"instructions": "Like thermite."})),
    ] {
        let response = speak(&scene, &body).await;
        assert_error("a rule", &response, "content_policy_violation", None);
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
