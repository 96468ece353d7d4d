//! Refused handshakes, invalid events, failures and crashes.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;

use super::VOICE;
use super::client::{Handshake, Session, error_of, message, silence, speech};
use crate::scene::{GRANTED, Scene, assert_error, hello};

const QUERY: &str = "?model=sim/voice";

#[tokio::test]
async fn an_invalid_event_has_one_error_with_its_id_and_the_session_continues() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    for (text, code, param, id) in [
        (
            r#"{"type":"response.cancel","type":"response.create","event_id":"twice"}"#,
            "invalid_json",
            None,
            Some("twice"),
        ),
        (
            r#"{"type":"input_audio_buffer.append","audio":"AAA*","event_id":"letters"}"#,
            "invalid_parameter",
            Some("audio"),
            Some("letters"),
        ),
        (
            r#"{"type":"input_audio_buffer.append","audio":"AQID","event_id":"three bytes"}"#,
            "invalid_parameter",
            Some("audio"),
            Some("three bytes"),
        ),
        (
            r#"{"type":"response.steer","event_id":"unknown"}"#,
            "invalid_parameter",
            Some("type"),
            Some("unknown"),
        ),
        (
            r#"{"type":"input_audio_buffer.commit","event_id":"empty"}"#,
            "input_audio_buffer_commit_empty",
            None,
            Some("empty"),
        ),
        (
            r#"{"event_id":"typeless"}"#,
            "missing_required_parameter",
            Some("type"),
            Some("typeless"),
        ),
        ("{", "invalid_json", None, None),
        ("[]", "invalid_parameter", None, None),
        (
            r#"{"type":"response.create","response":{"input":[{"type":"item_reference","id":"none"}]},"event_id":"ref"}"#,
            "invalid_parameter",
            Some("response.input[0].id"),
            Some("ref"),
        ),
        (
            r#"{"type":"response.create","response":{"max_output_tokens":0},"event_id":"cap"}"#,
            "invalid_parameter",
            Some("response.max_output_tokens"),
            Some("cap"),
        ),
    ] {
        session.send_text(text).await;
        let events = session.pending().await;
        assert_eq!(events.len(), 1, "{text}: {events:?}");
        assert_eq!(error_of(&events[0]), (code, param, id), "{text}");
    }
    let _ = session.ask("still here").await.completed();
    scene.finish().await;
}

#[tokio::test]
async fn a_commit_needs_100_ms_of_audio() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let commit = json!({"type": "input_audio_buffer.commit", "event_id": "mine"});
    session.append(&silence(99)).await;
    session.send(&commit).await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("input_audio_buffer_commit_empty", None, Some("mine"))
    );
    session.append(&silence(1)).await;
    session.commit().await;
    session.append(&silence(500)).await;
    session.send(&json!({"type": "input_audio_buffer.clear"})).await;
    session.until("input_audio_buffer.cleared").await;
    session.send(&commit).await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused).0, "input_audio_buffer_commit_empty");
    scene.finish().await;
}

#[tokio::test]
async fn uncommitted_audio_has_a_limit() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    session.append_chunks(&silence(180_000), 480_000).await;
    session
        .send(&json!({"type": "input_audio_buffer.append", "audio": "AAA=", "event_id": "more"}))
        .await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("request_too_large", Some("audio"), Some("more"))
    );
    session.commit().await;
    session.append(&silence(100)).await;
    session.commit().await;
    scene.finish().await;
}

#[tokio::test]
async fn refused_handshakes_have_an_error_body() {
    let scene = Scene::start().await;
    let key = &scene.key.secret;
    for (handshake, expected) in [
        (
            Handshake::new(&scene, ""),
            (400, "missing_required_parameter", Some("model")),
        ),
        (
            Handshake::new(&scene, "?model=no/model"),
            (404, "model_not_found", Some("model")),
        ),
        (
            Handshake::new(&scene, "?model=sim/chat"),
            (400, "unsupported_endpoint", Some("model")),
        ),
        (
            Handshake::new(&scene, "?model=sim/speech"),
            (400, "unsupported_endpoint", Some("model")),
        ),
        (
            Handshake::new(&scene, "?call_id=rtc_1"),
            (400, "unsupported_parameter", Some("call_id")),
        ),
        (
            Handshake::new(&scene, "?intent=translation"),
            (400, "invalid_parameter", Some("intent")),
        ),
        (
            Handshake::new(&scene, QUERY).header("x-max-cost", "much"),
            (400, "invalid_parameter", Some("x-max-cost")),
        ),
        (
            Handshake::anonymous(&scene, QUERY),
            (401, "missing_api_key", None),
        ),
        (
            Handshake::with_key(&scene, QUERY, "sk-service-x"),
            (401, "invalid_api_key", None),
        ),
        (
            Handshake::anonymous(&scene, &format!("{QUERY}&api_key={key}")),
            (401, "missing_api_key", None),
        ),
        (
            Handshake::new(&scene, QUERY).header("origin", "https://evil.example"),
            (403, "permission_denied", None),
        ),
    ] {
        let Err(refused) = handshake.open().await else {
            panic!("the session was opened instead of {expected:?}")
        };
        assert_eq!(refused.parts(), expected);
    }
    let plain = Request::get(&format!("/v1/realtime{QUERY}")).key(key);
    let plain = scene.client().send(&plain).await;
    assert_eq!(plain.status, 400, "{}", plain.text());
    assert_error("no upgrade", &plain, "invalid_parameter", Some("upgrade"));
    let own = format!("http://{}", scene.gateway.address());
    let session = Session::open(Handshake::new(&scene, QUERY).header("origin", own)).await;
    session.close().await;
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn an_account_has_up_to_twenty_sessions() {
    let scene = Scene::start().await;
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(Session::voice(&scene).await);
    }
    let Err(refused) = Handshake::new(&scene, QUERY).open().await else {
        panic!("a session too many was opened")
    };
    assert_eq!(refused.parts(), (429, "rate_limit_exceeded", None));
    open.pop().unwrap().close().await;
    let mut again = Session::voice(&scene).await;
    let _ = again.ask("Hi there").await.completed();
    drop((again, open));
    scene.finish().await;
}

#[tokio::test]
async fn a_binary_message_closes_the_session() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    session.message(Message::binary(vec![1, 2, 3])).await;
    assert_eq!(session.closed().await, (1003, Vec::new()));
    scene.finish().await;
}

#[tokio::test]
async fn twenty_invalid_events_close_the_session() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    // Clients cancel responses that have ended, which is no fault.
    for _ in 0..25 {
        session.send(&json!({"type": "response.cancel"})).await;
    }
    let harmless = session.pending().await;
    assert_eq!(harmless.len(), 25, "{harmless:?}");
    for _ in 0..19 {
        session.send_text("{").await;
    }
    assert_eq!(session.pending().await.len(), 19);
    session.send_text("{").await;
    let (code, events) = session.closed().await;
    assert_eq!((code, events.len()), (1008, 1), "{events:?}");
    scene.finish().await;
}

#[tokio::test]
async fn a_failed_answer_fails_the_response_and_costs_nothing() {
    let scene = Scene::start_with("[retries]\nextra_attempts = 0\n").await;
    for modality in ["audio", "text"] {
        let mut session = Session::voice_with(&scene, json!({"output_modalities": [modality]})).await;
        for (text, code) in [
            ("[[sim error=upstream_error]] Hello", "upstream_error"),
            ("[[sim error=rate_limit_exceeded]] Hello", "rate_limit_exceeded"),
            ("[[sim cut=start]] Hello", "upstream_error"),
        ] {
            let reply = session.ask(text).await;
            let details = &reply.response["status_details"];
            assert_eq!(reply.response["status"], "failed", "{text}: {}", reply.response);
            assert_eq!(
                (&details["type"], &details["error"]["code"]),
                (&json!("failed"), &json!(code)),
                "{text}: {details}"
            );
            assert_eq!(reply.response["usage"]["cost"], "0", "{text}");
            let row = scene.row(reply.request_id()).await;
            assert_eq!(nanos(&row["cost"]), 0, "{row}");
            assert_ne!(row["outcome"], "ok", "{row}");
            assert_eq!(scene.settled().await.credits, GRANTED);
        }
        session
            .send(&json!({"type": "session.update", "session": {}}))
            .await;
        session.until("session.updated").await;
        session.close().await;
    }
    let mut session = Session::voice(&scene).await;
    let _ = session.ask("[[sim error=upstream_error]] Hello").await;
    let _ = session.ask("all is well").await.completed();
    scene.finish().await;
}

#[tokio::test]
async fn a_failure_after_the_first_audio_charges_what_was_delivered() {
    let scene = Scene::start_with("[retries]\nextra_attempts = 0\n").await;
    let mut session = Session::voice(&scene).await;
    // The first sentence is spoken after 0.7 s, and the answer breaks off after 4 s.
    let words = "One two three four five six. ".repeat(10);
    let reply = session.ask(&format!("[[sim cut=40 pace=100]] {words}")).await;
    assert_eq!(reply.response["status"], "failed", "{}", reply.response);
    let item = &reply.response["output"][0];
    assert_eq!(item["status"], "incomplete", "{item}");
    assert!(!reply.audio.is_empty());
    let cost = nanos(&reply.response["usage"]["cost"]);
    assert!(cost > 0, "{}", reply.response);
    assert_eq!(nanos(&scene.row(reply.request_id()).await["cost"]), cost);
    let types = reply.types();
    let closing = [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ];
    assert_eq!(types[types.len() - 6..], closing);
    let _ = session.ask("all is well").await.completed();
    scene.finish().await;
}

#[tokio::test]
async fn a_failed_transcription_fails_the_response_and_costs_nothing() {
    let scene = Scene::start_with("[retries]\nextra_attempts = 0\n").await;
    let audio = speech(&scene, "good morning").await;
    let before = scene.settled().await;
    let prompt = |text: &str| json!({"audio": {"input": {"transcription": {"prompt": text}}}});
    let mut session = Session::voice_with(&scene, prompt("[[sim error=upstream_error]]")).await;
    session.append(&audio).await;
    let item_id = session.commit().await;
    let reply = session.respond(json!({})).await;
    let failed = &reply.events[0];
    assert_eq!(
        (&failed["type"], &failed["item_id"], &failed["error"]["code"]),
        (
            &json!("conversation.item.input_audio_transcription.failed"),
            &item_id,
            &json!("upstream_error")
        )
    );
    assert_eq!(reply.response["status"], "failed", "{}", reply.response);
    assert_eq!(nanos(&scene.row(reply.request_id()).await["cost"]), 0);
    assert_eq!(scene.settled().await, before);
    scene.finish().await;
}

#[tokio::test]
async fn a_client_that_disconnects_pays_for_the_audio_that_it_received() {
    let scene = Scene::start().await;
    for (text, awaited, is_charged) in [
        ("[[sim delay=20000]] Hello", "rate_limits.updated", false),
        (
            "One two three four five six seven eight nine ten. Eleven twelve. Thirteen fourteen fifteen. \
             Sixteen seventeen eighteen nineteen twenty. And so on.",
            "response.output_audio.delta",
            true,
        ),
    ] {
        let mut session = Session::voice(&scene).await;
        session.write(text).await;
        session.send(&json!({"type": "response.create"})).await;
        let created = session.until("response.created").await;
        let request = created["response"]["request_id"].as_str().unwrap().to_owned();
        session.until(awaited).await;
        drop(session);
        let row = scene.row(&request).await;
        assert_eq!(row["outcome"], "client_gone", "{row}");
        assert_eq!(nanos(&row["cost"]) > 0, is_charged, "{row}");
        scene.settled().await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_crash_in_a_response_gives_its_hold_back() {
    let mut scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let text = "One two three four five six seven eight nine ten. ".repeat(10);
    session.write(&text).await;
    session.send(&json!({"type": "response.create"})).await;
    let created = session.until("response.created").await;
    let request = created["response"]["request_id"].as_str().unwrap().to_owned();
    session.until("response.output_audio.delta").await;
    assert!(scene.balance().await.held > 0);
    scene.gateway.kill().await;
    drop(session);
    scene.gateway.restart().await;
    let row = scene.row(&request).await;
    assert_eq!(
        (&row["outcome"], &row["cost"]),
        (&json!("crashed"), &json!("0")),
        "{row}"
    );
    assert_eq!(scene.settled().await.credits, GRANTED);
    let mut session = Session::voice(&scene).await;
    let _ = session.ask("all is well").await.completed();
    drop(session);
    let check = scene.finish().await;
    assert_eq!((check.crashed, check.usage_rows), (1, 2));
}

#[tokio::test]
async fn a_stop_waits_for_the_response_and_closes_the_session() {
    let mut scene = Scene::start().await;
    let mut idle = Session::voice(&scene).await;
    let mut busy = Session::voice(&scene).await;
    busy.write("One two three four five six.").await;
    busy.send(&json!({"type": "response.create"})).await;
    busy.until("response.output_audio.delta").await;
    scene.gateway.signal("TERM").await;
    let reply = busy.reply().await.completed();
    assert_eq!(busy.closed().await.0, 1012);
    assert_eq!(idle.closed().await.0, 1012);
    assert_eq!(scene.gateway.wait_for_exit().await, Some(0));
    scene.gateway.restart().await;
    assert_eq!(
        nanos(&scene.row(reply.request_id()).await["cost"]),
        nanos(&reply.response["usage"]["cost"])
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_stop_cancels_a_response_that_exceeds_the_drain_time() {
    let mut scene = Scene::start_with("[drain]\ntime_ms = 500\n").await;
    let mut session = Session::voice(&scene).await;
    session
        .write(&"One two three four five six seven. ".repeat(60))
        .await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    scene.gateway.signal("INT").await;
    let (code, events) = session.closed().await;
    assert_eq!(code, 1012);
    let done = &events.last().unwrap()["response"];
    assert_eq!(
        (&done["status"], &done["status_details"]["reason"]),
        (&json!("cancelled"), &json!("client_cancelled")),
        "{done}"
    );
    assert_eq!(scene.gateway.wait_for_exit().await, Some(0));
    scene.gateway.restart().await;
    let row = scene.row(done["request_id"].as_str().unwrap()).await;
    assert_eq!(
        (&row["outcome"], nanos(&row["cost"])),
        (&json!("cancelled"), nanos(&done["usage"]["cost"])),
        "{row}"
    );
    assert!(nanos(&row["cost"]) > 0, "{row}");
    assert_eq!(scene.settled().await.credits, GRANTED - nanos(&row["cost"]));
    scene.finish().await;
}

#[tokio::test]
async fn errors_do_not_name_the_models_of_the_stages() {
    let scene = Scene::start_with("[retries]\nextra_attempts = 0\n").await;
    let mut session = Session::voice(&scene).await;
    session
        .send(&json!({"type": "response.create", "response": {"input": [message("[[sim error=model_unavailable]]")]}}))
        .await;
    let reply = session.reply().await;
    let details = reply.response["status_details"].to_string();
    assert!(
        !details.contains("sim/chat") && details.contains("model_unavailable"),
        "{details}"
    );
    let plain = scene.chat(&hello(json!({"model": VOICE}))).await;
    assert_error(
        "a voice model in a chat",
        &plain,
        "unsupported_endpoint",
        Some("model"),
    );
    scene.finish().await;
}
