//! Settings of the operator: defaults of sessions, their end, and the content policy.

use std::time::Instant;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;

use super::VOICE;
use super::client::{Handshake, SECOND, Session, error_of, silence, speech};
use crate::scene::{GRANTED, Scene};

#[tokio::test]
async fn an_idle_session_is_closed() {
    let scene = Scene::start_with("[realtime]\nidle_ms = 1000\n").await;
    let mut voice = Session::voice(&scene).await;
    let mut transcription = Session::open(Handshake::new(&scene, "?model=sim/transcribe")).await;
    assert_eq!(transcription.closed().await, (1001, Vec::new()));
    assert_eq!(voice.closed().await, (1001, Vec::new()));
    // A running response keeps the session open.
    let mut busy = Session::voice(&scene).await;
    let _ = busy.ask("[[sim delay=2000]] Hello there").await.completed();
    assert_eq!(busy.closed().await, (1001, Vec::new()));
    scene.finish().await;
}

#[tokio::test]
async fn the_default_turn_detection_is_a_setting() {
    let scene = Scene::start_with("[realtime]\ndefault_turn_detection = \"server_vad\"\n").await;
    let turn = [speech(&scene, "Good morning to all of you.").await, silence(800)].concat();
    let mut session = Session::voice(&scene).await;
    session.append(&turn).await;
    let reply = session.reply().await.completed();
    assert_eq!(reply.transcript, "Good morning to all of you.");
    let shown = session
        .update(json!({"audio": {"input": {"turn_detection": null}}}))
        .await;
    assert_eq!(shown["audio"]["input"]["turn_detection"], Value::Null);
    session.append(&turn).await;
    assert_eq!(session.pending().await, Vec::<Value>::new());
    scene.finish().await;
}

#[tokio::test]
async fn audio_is_not_sent_far_ahead_of_its_playback() {
    let text = "One two three four five six seven eight nine ten. Eleven twelve thirteen fourteen fifteen. \
                Sixteen seventeen eighteen nineteen twenty, and twenty one as well.";
    let mut took = Vec::new();
    for lead_ms in [0, 1_000] {
        let scene = Scene::start_with(&format!("[realtime]\nlead_ms = {lead_ms}\n")).await;
        let mut session = Session::voice(&scene).await;
        session.write(text).await;
        session.send(&json!({"type": "response.create"})).await;
        session.until("response.output_audio.delta").await;
        let start = Instant::now();
        let reply = session.reply().await.completed();
        took.push(start.elapsed().as_secs_f64());
        assert!(reply.audio.len() > 5 * SECOND, "{} bytes", reply.audio.len());
        if lead_ms > 0 {
            let played = reply.audio.len() as f64 / SECOND as f64;
            assert!(took[1] >= played - 1.5, "{} s for {played} s of audio", took[1]);
        }
        scene.finish().await;
    }
}

#[tokio::test]
async fn blocked_words_are_neither_answered_nor_spoken() {
    let rules = "[policy.rules.going-in]\napply = \"input\"\nwords = [\"thermite\"]\n\
                 [policy.rules.coming-out]\napply = \"output\"\nwords = [\"forbidden\"]\n";
    let scene = Scene::start_with(rules).await;
    let elsewhere = Scene::start().await;
    let audio = speech(&elsewhere, "how does thermite burn").await;
    elsewhere.finish().await;
    let before = scene.settled().await;
    let mut session = Session::voice(&scene).await;
    session.write("tell me about thermite").await;
    session
        .send(&json!({"type": "response.create", "event_id": "mine"}))
        .await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("content_policy_violation", None, Some("mine")),
        "{refused}"
    );
    session.close().await;

    let mut session = Session::voice(&scene).await;
    session.append(&audio).await;
    session.commit().await;
    let reply = session.respond(json!({})).await;
    let details = &reply.response["status_details"];
    assert_eq!(
        details["error"]["code"], "content_policy_violation",
        "{}",
        reply.response
    );
    assert!(reply.audio.is_empty());
    assert_eq!(nanos(&scene.row(reply.request_id()).await["cost"]), 0);
    assert_eq!(scene.settled().await, before);
    session.close().await;

    let mut session = Session::voice(&scene).await;
    let reply = session
        .ask("This sentence is harmless. But this one is forbidden. The end.")
        .await;
    assert_eq!(
        (
            &reply.response["status"],
            &reply.response["status_details"]["reason"]
        ),
        (&json!("incomplete"), &json!("content_filter")),
        "{}",
        reply.response
    );
    assert!(!reply.transcript.contains("forbidden"), "{}", reply.transcript);
    assert!(
        scene.settled().await.credits < GRANTED,
        "the withheld words are paid"
    );
    scene.finish().await;
}

#[tokio::test]
async fn the_models_list_shows_the_endpoint() {
    let scene = Scene::start().await;
    let list = scene
        .client()
        .send(&Request::get("/v1/models").key(&scene.key.secret))
        .await
        .json();
    for (id, is_realtime) in [(VOICE, true), ("sim/transcribe", true), ("sim/chat", false)] {
        let models = list["data"].as_array().unwrap();
        let model = models.iter().find(|model| model["id"] == id).unwrap();
        let endpoints = model["endpoints"].as_array().unwrap();
        assert_eq!(endpoints.contains(&json!("/v1/realtime")), is_realtime, "{model}");
    }
    scene.finish().await;
}
