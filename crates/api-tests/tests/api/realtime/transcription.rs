//! Live transcription.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually, nanos};

use super::client::{CHUNK, Handshake, SECOND, Session, error_of, message, silence, speech};
use crate::scene::{Scene, credits};

const QUERY: &str = "?model=sim/transcribe";
/// Price of the simulator's transcription model, in nano-credits per second.
const PER_SECOND: i64 = 100_000;
const DELTA: &str = "conversation.item.input_audio_transcription.delta";
const COMPLETED: &str = "conversation.item.input_audio_transcription.completed";

async fn open(scene: &Scene) -> Session {
    Session::open(Handshake::new(scene, QUERY)).await
}

/// Returns the microseconds and the nano-credits of all rows of a session, once nothing is held.
async fn charged(scene: &Scene, session: &str) -> (i64, i64, usize) {
    scene.settled().await;
    let usage = scene.usage_of(session).await;
    let rows = usage["data"].as_array().unwrap();
    let micros = rows
        .iter()
        .map(|row| row["usage"]["audio_microseconds"].as_i64().unwrap());
    let cost = rows.iter().map(|row| nanos(&row["cost"]));
    for row in rows {
        assert_eq!(
            (&row["endpoint"], &row["model"], &row["outcome"]),
            (&json!("/v1/realtime"), &json!("sim/transcribe"), &json!("ok")),
            "{row}"
        );
    }
    (micros.sum(), cost.sum(), rows.len())
}

#[tokio::test]
async fn audio_is_transcribed_while_it_arrives_and_charged_to_the_microsecond() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let spoken = speech(&scene, "The lighthouse stands on a rock in the sea. ").await;
        let mut audio: Vec<u8> = Vec::new();
        while audio.len() < SECOND * 191 / 2 {
            audio.extend(&spoken);
            audio.extend(silence(1_000));
        }
        audio.truncate(SECOND * 191 / 2);
        let mut session = open(&scene).await;
        let chunks: Vec<&[u8]> = audio.chunks(CHUNK).collect();
        assert_eq!(chunks.len(), 955);
        let (mut sent, mut delta) = (0, None);
        // Words appear while the speaker talks.
        while delta.is_none() {
            session.append(chunks[sent]).await;
            sent += 1;
            assert!(sent < 500, "no words after 50 s of audio");
            // Two transcriptions of the first four seconds have to end.
            let wait = if sent < 40 { 5 } else { 100 };
            if let Some(event) = session.event_within(Duration::from_millis(wait)).await {
                assert_eq!(event["type"], DELTA, "{event}");
                delta = Some(event);
            }
        }
        for chunk in &chunks[sent..] {
            session.append(chunk).await;
        }
        session.send(&json!({"type": "input_audio_buffer.commit"})).await;
        let delta = delta.unwrap();
        let mut words = delta["delta"].as_str().unwrap().to_owned();
        let (mut seconds, mut completed) = (0.0, Vec::new());
        while completed.len() < 2 {
            let event = session.event().await;
            assert_ne!(event["type"], "error", "{event}");
            if event["type"] == DELTA && event["item_id"] == delta["item_id"] {
                words.push_str(event["delta"].as_str().unwrap());
            }
            if event["type"] == COMPLETED {
                assert_eq!(event["usage"]["type"], "duration", "{event}");
                seconds += event["usage"]["seconds"].as_f64().unwrap();
                completed.push(event);
            }
        }
        assert!((seconds - 95.5).abs() < 1e-9, "{seconds} s in {completed:?}");
        let first = completed
            .iter()
            .find(|event| event["item_id"] == delta["item_id"])
            .unwrap();
        assert!(
            first["transcript"]
                .as_str()
                .unwrap()
                .starts_with(delta["delta"].as_str().unwrap()),
            "{words:?} {first}"
        );
        let id = session.request_id.clone();
        session.close().await;
        assert_eq!(
            charged(&scene, &id).await,
            (95_500_000, 95_500_000 * PER_SECOND / 1_000_000, 4)
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_commit_is_transcribed_exactly() {
    let scene = Scene::start().await;
    let audio = speech(&scene, "good morning").await;
    let mut session = open(&scene).await;
    session.append(&audio).await;
    session
        .send(&json!({"type": "input_audio_buffer.commit", "event_id": "mine"}))
        .await;
    let mut kinds = Vec::new();
    let completed = loop {
        let event = session.event().await;
        kinds.push(event["type"].as_str().unwrap().to_owned());
        if event["type"] == COMPLETED {
            break event;
        }
    };
    kinds.retain(|kind| kind != DELTA);
    assert_eq!(
        kinds,
        [
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            COMPLETED
        ]
    );
    assert_eq!(completed["transcript"], "good morning");
    let micros = (audio.len() / 2) as i64 * 1_000_000 / 24_000;
    let cost = nanos(&completed["usage"]["cost"]);
    assert!(cost > 0, "{completed}");
    session
        .send(&json!({"type": "input_audio_buffer.commit", "event_id": "mine"}))
        .await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("input_audio_buffer_commit_empty", None, Some("mine"))
    );
    let id = session.request_id.clone();
    session.close().await;
    let (charged_micros, charged_cost, rows) = charged(&scene, &id).await;
    assert_eq!((charged_micros, charged_cost, rows), (micros, cost, 1));
    scene.finish().await;
}

#[tokio::test]
async fn turns_are_transcribed_separately() {
    let scene = Scene::start().await;
    let texts = ["Good morning to all of you.", "The weather is fine today."];
    let mut session = open(&scene).await;
    session
        .update(json!({"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}))
        .await;
    let (mut previous, mut sent, mut seconds) = (Value::Null, 0, 0.0);
    for text in texts {
        let audio = [speech(&scene, text).await, silence(800)].concat();
        sent += audio.len();
        session.append(&audio).await;
        let started = session.until("input_audio_buffer.speech_started").await;
        session.until("input_audio_buffer.speech_stopped").await;
        let committed = session.until("input_audio_buffer.committed").await;
        assert_eq!(
            (&committed["item_id"], &committed["previous_item_id"]),
            (&started["item_id"], &previous)
        );
        let completed = session.until(COMPLETED).await;
        assert_eq!(completed["item_id"], started["item_id"]);
        assert_eq!(completed["transcript"], text);
        seconds += completed["usage"]["seconds"].as_f64().unwrap();
        previous = started["item_id"].clone();
    }
    let id = session.request_id.clone();
    session.close().await;
    let (micros, _, rows) = charged(&scene, &id).await;
    assert_eq!((micros, rows), ((sent / 2) as i64 * 1_000_000 / 24_000, 1));
    assert!(seconds <= micros as f64 / 1e6, "{seconds} s of {micros} µs");
    scene.finish().await;
}

#[tokio::test]
async fn a_session_without_a_model_uses_the_default_one() {
    let scene = Scene::start().await;
    let mut session = Session::open(Handshake::new(&scene, "?intent=transcription")).await;
    let shown = session.update(json!({"type": "transcription"})).await;
    assert_eq!(
        (
            &shown["type"],
            &shown["object"],
            &shown["audio"]["input"]["transcription"]["model"]
        ),
        (
            &json!("transcription"),
            &json!("realtime.transcription_session"),
            &json!("sim/transcribe")
        ),
        "{shown}"
    );
    session.append(&silence(1_000)).await;
    session.send(&json!({"type": "input_audio_buffer.commit"})).await;
    let completed = session.until(COMPLETED).await;
    assert_eq!(completed["usage"]["seconds"].as_f64(), Some(1.0), "{completed}");
    scene.finish().await;
}

#[tokio::test]
async fn a_transcription_session_has_only_its_own_events_and_settings() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    for (event, code, param) in [
        (json!({"type": "response.create"}), "invalid_parameter", "type"),
        (json!({"type": "response.cancel"}), "invalid_parameter", "type"),
        (
            json!({"type": "conversation.item.create", "item": message("x")}),
            "invalid_parameter",
            "type",
        ),
        (
            json!({"type": "session.update", "session": {"instructions": "x"}}),
            "unsupported_parameter",
            "session.instructions",
        ),
        (
            json!({"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": "no/model"}}}}}),
            "model_not_found",
            "session.audio.input.transcription.model",
        ),
        (
            json!({"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": "sim/chat"}}}}}),
            "invalid_parameter",
            "session.audio.input.transcription.model",
        ),
    ] {
        let mut event = event;
        event["event_id"] = json!("mine");
        session.send(&event).await;
        let events = session.pending().await;
        assert_eq!(events.len(), 1, "{event}: {events:?}");
        assert_eq!(error_of(&events[0]), (code, Some(param), Some("mine")), "{event}");
    }
    session.close().await;
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn the_beta_dialect_names_its_session_events_differently() {
    let scene = Scene::start().await;
    let handshake = Handshake::new(&scene, "?intent=transcription").header("openai-beta", "realtime=v1");
    let mut session = handshake.open().await.unwrap();
    assert_eq!(session.event().await["type"], "transcription_session.created");
    session
        .send(&json!({"type": "transcription_session.update", "session": {
            "input_audio_format": "pcm16", "input_audio_transcription": {"model": "sim/transcribe", "language": "en"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 300}
        }}))
        .await;
    let updated = session.until("transcription_session.updated").await["session"].clone();
    assert_eq!(
        (
            &updated["input_audio_transcription"]["language"],
            &updated["turn_detection"]["silence_duration_ms"]
        ),
        (&json!("en"), &json!(300)),
        "{updated}"
    );
    scene.finish().await;
}

#[tokio::test]
async fn audio_without_credits_is_dropped_and_not_charged() {
    let scene = Scene::start().await;
    let poor = scene.gateway.account().await;
    scene.gateway.grant(&poor, &credits(30 * PER_SECOND - 1)).await;
    let key = scene.gateway.key(&poor).await.secret;
    let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key)).await;
    session.append(&silence(2_000)).await;
    let events = session.pending().await;
    assert_eq!(events.len(), 1, "one error for all of the audio: {events:?}");
    assert_eq!(error_of(&events[0]).0, "insufficient_credits");
    assert_eq!(events[0]["error"]["request_id"], session.request_id.as_str());
    session.send(&json!({"type": "input_audio_buffer.commit"})).await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused).0,
        "input_audio_buffer_commit_empty",
        "{refused}"
    );
    assert_eq!(scene.gateway.usage(&key, "?limit=10").await["data"], json!([]));

    scene.gateway.grant(&poor, "1").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    session.append(&silence(1_500)).await;
    session.send(&json!({"type": "input_audio_buffer.commit"})).await;
    let completed = session.until(COMPLETED).await;
    assert_eq!(completed["usage"]["seconds"].as_f64(), Some(1.5), "{completed}");
    let id = session.request_id.clone();
    session.close().await;
    let mut rows = Value::Null;
    eventually("the row of the session", async || {
        rows = scene.gateway.usage(&key, &format!("?request_id={id}")).await["data"].clone();
        rows.as_array().is_some_and(|rows| !rows.is_empty())
    })
    .await;
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    assert_eq!(rows[0]["usage"]["audio_microseconds"], 1_500_000, "{rows}");
    scene.finish().await;
}

#[tokio::test]
async fn audio_that_is_too_long_is_refused_and_not_charged() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    // One event with more audio than the buffer may have.
    session.append_chunks(&silence(181_000), SECOND * 181).await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused), ("request_too_large", Some("audio"), None));
    session.append(&silence(1_500)).await;
    session.send(&json!({"type": "input_audio_buffer.commit"})).await;
    let completed = session.until(COMPLETED).await;
    assert_eq!(completed["usage"]["seconds"].as_f64(), Some(1.5), "{completed}");
    let id = session.request_id.clone();
    session.close().await;
    assert_eq!(charged(&scene, &id).await, (1_500_000, PER_SECOND * 3 / 2, 1));
    scene.finish().await;
}

#[tokio::test]
async fn a_crash_loses_only_the_open_block() {
    let mut scene = Scene::start().await;
    let mut session = open(&scene).await;
    session.append(&silence(40_000)).await;
    session.pending().await;
    assert!(scene.balance().await.held > 0);
    scene.gateway.kill().await;
    let id = session.request_id.clone();
    drop(session);
    scene.gateway.restart().await;
    scene.settled().await;
    let usage = scene.usage_of(&id).await;
    let mut outcomes: Vec<(&str, i64)> = usage["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["outcome"].as_str().unwrap(), nanos(&row["cost"])))
        .collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [("crashed", 0), ("ok", 30 * PER_SECOND)]);
    let check = scene.finish().await;
    assert_eq!((check.crashed, check.revenue), (1, 30 * PER_SECOND));
}
