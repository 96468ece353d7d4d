//! Crashes at every event of a session.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually, nanos};

use super::client::{Handshake, SECOND, Session, silence, speech};
use crate::scene::{GRANTED, Scene};

/// Reads this many events of a response, or all of it. Returns them.
async fn events(session: &mut Session, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    while events.len() < count {
        let event = session.event().await;
        let is_last = event["type"] == "response.done";
        events.push(event);
        if is_last {
            break;
        }
    }
    events
}

#[tokio::test]
async fn a_crash_at_any_event_leaves_no_hold_and_charges_only_what_was_done() {
    let mut scene = Scene::start().await;
    let audio = speech(&scene, "good morning").await;
    let mut credits = scene.settled().await.credits;
    let mut crashed = 0;
    for count in [1, 2, 3, 5, 8, 12, 20, usize::MAX] {
        let mut session = Session::voice(&scene).await;
        session.append(&audio).await;
        session.commit().await;
        session
            .write("[[sim pace=60]] One two three four five six. Seven eight nine.")
            .await;
        session.send(&json!({"type": "response.create"})).await;
        let events = events(&mut session, count).await;
        scene.gateway.kill().await;
        drop(session);
        scene.gateway.restart().await;
        let balance = scene.settled().await.credits;
        let row = scene.rows().await.swap_remove(0);
        let cost = nanos(&row["cost"]);
        assert_eq!(balance, credits - cost, "{row}");
        credits = balance;
        let last = events.last().unwrap();
        let is_done = last["type"] == "response.done";
        // The gateway may be ahead of the events that the client has read.
        if row["outcome"] == "crashed" {
            assert!(!is_done && cost == 0, "after {last}: {row}");
            crashed += 1;
        } else {
            assert_eq!(row["outcome"], "ok", "after {last}: {row}");
        }
        if is_done {
            assert_eq!(row["request_id"], last["response"]["request_id"]);
            assert_eq!(cost, nanos(&last["response"]["usage"]["cost"]), "{row}");
        }
    }
    assert!(crashed > 0);
    let check = scene.finish().await;
    assert_eq!(check.crashed, crashed);
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_turn_leaves_no_hold() {
    let mut scene = Scene::start().await;
    let turn = [
        speech(&scene, "Good morning to all of you.").await,
        silence(1_000),
    ]
    .concat();
    let before = scene.settled().await;
    let detection = json!({"turn_detection": {"type": "server_vad", "silence_duration_ms": 900}});
    // The hold is taken in the silence.
    for missing_ms in [900, 600, 300, 100] {
        let mut session = Session::voice_with(&scene, detection.clone()).await;
        let end = turn.len() - SECOND * missing_ms / 1_000;
        session.append(&turn[..end]).await;
        session.until("input_audio_buffer.speech_started").await;
        session.update(json!({})).await;
        scene.gateway.kill().await;
        drop(session);
        scene.gateway.restart().await;
        assert_eq!(scene.settled().await, before, "{missing_ms} ms before the end");
    }
    scene.finish().await;
}

/// On PostgreSQL, the holds of a dead process are released once they expire, at the next start or
/// by another node.
#[tokio::test]
async fn a_crash_on_postgres_gives_all_holds_back() {
    let config = "[timeouts]\ntotal_ms = 1000\n[drain]\ntime_ms = 500\n[retries]\nextra_attempts = 0\n";
    let mut scene = Scene::start_on(Storage::Postgres, config).await;
    let mut talking = Session::voice(&scene).await;
    talking
        .write(&"One two three four five six seven. ".repeat(20))
        .await;
    talking.send(&json!({"type": "response.create"})).await;
    talking.until("response.output_audio.delta").await;
    let mut transcribing = Session::open(Handshake::new(&scene, "?model=sim/transcribe")).await;
    transcribing.append(&silence(1_500)).await;
    transcribing.pending().await;
    assert!(scene.balance().await.held > 0);
    scene.gateway.kill().await;
    drop((talking, transcribing));
    scene.gateway.restart().await;
    eventually("no hold is left", async || {
        let held = scene.balance().await.held;
        if held > 0 {
            scene.gateway.stop().await;
            scene.gateway.restart().await;
        }
        held == 0
    })
    .await;
    let rows = scene.rows().await;
    let outcomes: Vec<_> = rows.iter().map(|row| (&row["outcome"], &row["cost"])).collect();
    assert_eq!(outcomes, [(&json!("crashed"), &json!("0")); 2]);
    assert_eq!(scene.balance().await.credits, GRANTED);
    let mut session = Session::voice(&scene).await;
    let reply = session.ask("all is well").await.completed();
    let cost = nanos(&reply.response["usage"]["cost"]);
    drop(session);
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    let check = scene.finish().await;
    assert_eq!((check.clean, check.crashed, check.revenue), (true, 2, cost));
}
