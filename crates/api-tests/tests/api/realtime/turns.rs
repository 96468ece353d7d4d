//! Turns that the gateway detects, and interruptions.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::eventually;

use super::client::{SECOND, Session, silence, speech};
use crate::scene::Scene;

const QUESTION: &str = "Good morning, what can you tell me about lighthouses?";
/// A reply of about half a minute.
const LONG: &str = "One two three four five six seven eight nine ten, eleven twelve thirteen fourteen. ";

/// Returns speech with the silence that ends its turn.
async fn turn(scene: &Scene) -> Vec<u8> {
    [speech(scene, QUESTION).await, silence(800)].concat()
}

/// Returns settings with these members of `turn_detection`.
fn detecting(members: &[(&str, bool)]) -> Value {
    let mut detection = json!({"type": "server_vad"});
    for (name, value) in members {
        detection[*name] = json!(value);
    }
    json!({"turn_detection": detection})
}

/// Returns settings of turns that end after two seconds of silence.
fn patient() -> Value {
    json!({"turn_detection": {"type": "server_vad", "silence_duration_ms": 2_000}})
}

/// Starts a long reply and reads its first audio.
async fn talk(session: &mut Session, times: usize) {
    session.write(&LONG.repeat(times)).await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
}

#[tokio::test]
async fn every_turn_is_answered_without_a_commit() {
    let scene = Scene::start().await;
    let turn = turn(&scene).await;
    let mut session = Session::voice_with(&scene, json!({"turn_detection": "server_vad"})).await;
    let mut previous = Value::Null;
    for _ in 0..2 {
        session.append(&turn).await;
        let started = session.until("input_audio_buffer.speech_started").await;
        let stopped = session.until("input_audio_buffer.speech_stopped").await;
        assert_eq!(started["item_id"], stopped["item_id"]);
        let (start, end) = (
            started["audio_start_ms"].as_u64().unwrap(),
            stopped["audio_end_ms"].as_u64().unwrap(),
        );
        assert!(end - start > 1_500, "{started} {stopped}");
        let committed = session.until("input_audio_buffer.committed").await;
        assert_eq!(
            (&committed["item_id"], &committed["previous_item_id"]),
            (&started["item_id"], &previous)
        );
        let reply = session.reply().await.completed();
        assert_eq!(
            reply.types()[..5],
            [
                "conversation.item.added",
                "conversation.item.done",
                "conversation.item.input_audio_transcription.completed",
                "response.created",
                "rate_limits.updated",
            ]
        );
        assert_eq!(reply.events[2]["transcript"], QUESTION);
        assert_eq!(reply.transcript, QUESTION);
        assert!(reply.audio.len() > SECOND, "{} bytes", reply.audio.len());
        previous = reply.response["output"][0]["id"].clone();
    }
    assert_eq!(
        scene.rows().await.len(),
        3,
        "the speech request and two responses"
    );
    scene.finish().await;
}

#[tokio::test]
async fn speech_interrupts_the_reply_whose_item_has_the_words_that_were_heard() {
    let scene = Scene::start().await;
    let turn = turn(&scene).await;
    let mut session = Session::voice_with(&scene, json!({"turn_detection": "server_vad"})).await;
    talk(&mut session, 6).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    session.append(&turn).await;
    session.until("input_audio_buffer.speech_started").await;
    let reply = session.reply().await;
    assert_eq!(
        (&reply.response["status"], &reply.response["status_details"]),
        (
            &json!("cancelled"),
            &json!({"type": "cancelled", "reason": "turn_detected"})
        )
    );
    let item = session.retrieve(&reply.response["output"][0]["id"]).await;
    assert_eq!(item["status"], "incomplete", "{item}");
    let heard = item["content"][0]["transcript"].as_str().unwrap();
    let spoken = reply.response["output"][0]["content"][0]["transcript"]
        .as_str()
        .unwrap();
    assert!(
        !heard.is_empty() && heard.len() < spoken.len(),
        "{heard:?} of {spoken:?}"
    );
    assert!(LONG.repeat(6).starts_with(heard), "{heard:?}");
    assert!(
        heard.ends_with(char::is_alphabetic) || heard.ends_with(['.', ',']),
        "{heard:?}"
    );
    let next = session.reply().await.completed();
    assert_eq!(next.transcript, QUESTION);
    // The client's position replaces the estimate, in both directions.
    for (ms, is_longer) in [(100, false), (600_000, true)] {
        session
            .send(
                &json!({"type": "conversation.item.truncate", "item_id": item["id"], "content_index": 0,
                "audio_end_ms": ms}),
            )
            .await;
        session.until("conversation.item.truncated").await;
        let cut = session.retrieve(&item["id"]).await;
        let words = cut["content"][0]["transcript"].as_str().unwrap();
        assert_eq!(words.len() > heard.len(), is_longer, "{words:?} and {heard:?}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_turn_waits_for_the_reply_that_it_does_not_interrupt() {
    let scene = Scene::start().await;
    let turn = turn(&scene).await;
    let mut session = Session::voice_with(&scene, detecting(&[("interrupt_response", false)])).await;
    talk(&mut session, 1).await;
    session.append(&turn).await;
    session.until("input_audio_buffer.speech_started").await;
    session.until("input_audio_buffer.committed").await;
    let first = session.reply().await.completed();
    let spoken = &first.response["output"][0]["content"][0]["transcript"];
    assert_eq!(*spoken, LONG.trim());
    let second = session.reply().await.completed();
    assert_eq!(second.transcript, QUESTION);
    assert_eq!(session.pending().await, Vec::<Value>::new());
    scene.finish().await;
}

#[tokio::test]
async fn a_turn_without_create_response_is_only_committed() {
    let scene = Scene::start().await;
    let turn = turn(&scene).await;
    let mut session = Session::voice_with(&scene, detecting(&[("create_response", false)])).await;
    session.append(&turn).await;
    session.until("input_audio_buffer.committed").await;
    session.until("conversation.item.done").await;
    assert_eq!(session.pending().await, Vec::<Value>::new());
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(reply.transcript, QUESTION);
    scene.finish().await;
}

#[tokio::test]
async fn silence_starts_nothing() {
    let scene = Scene::start().await;
    let mut session = Session::voice_with(&scene, json!({"turn_detection": "server_vad"})).await;
    session.append(&silence(10_000)).await;
    assert_eq!(session.pending().await, Vec::<Value>::new());
    session.close().await;
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn silence_after_a_reply_starts_another_one() {
    const MAX_CHUNKS: usize = 20_000;
    let scene = Scene::start().await;
    let detection = json!({"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5_000}});
    let mut session = Session::voice_with(&scene, detection).await;
    session.append(&silence(20_000)).await;
    assert_eq!(
        session.pending().await,
        Vec::<Value>::new(),
        "there was no reply yet"
    );
    let first = session.ask("Hi.").await.completed();
    // Silence counts once the reply was played.
    let mut chunks = 0;
    let triggered = loop {
        session.append(&silence(100)).await;
        if let Some(event) = session.event_within(Duration::from_millis(1)).await {
            break event;
        }
        chunks += 1;
        assert!(chunks < MAX_CHUNKS, "the silence does not time out");
    };
    assert_eq!(
        triggered["type"], "input_audio_buffer.timeout_triggered",
        "{triggered}"
    );
    let [start, end] = ["audio_start_ms", "audio_end_ms"].map(|name| triggered[name].as_u64().unwrap());
    assert!((5_000..5_100).contains(&(end - start)), "{triggered}");
    assert!(start >= 20_000, "{triggered}");
    let committed = session.until("input_audio_buffer.committed").await;
    assert_eq!(
        (&committed["item_id"], &committed["previous_item_id"]),
        (&triggered["item_id"], &first.response["output"][0]["id"])
    );
    let second = session.reply().await.completed();
    let item = session.retrieve(&committed["item_id"]).await;
    assert_eq!(item["content"][0]["transcript"], "", "{item}");
    assert_eq!(scene.rows().await.len(), 2);
    assert_eq!(
        scene.row(second.request_id()).await["cost"],
        second.response["usage"]["cost"]
    );
    scene.finish().await;
}

#[tokio::test]
async fn telephone_audio_is_understood_and_returned() {
    let scene = Scene::start().await;
    let turn = turn(&scene).await;
    for (name, encode) in [("audio/pcmu", mu_law as fn(i16) -> u8), ("audio/pcma", a_law)] {
        let format = json!({"type": name});
        let settings = json!({"audio": {
            "input": {"format": format, "turn_detection": {"type": "server_vad"}}, "output": {"format": format}
        }});
        let mut session = Session::voice_with(&scene, settings).await;
        session.append_chunks(&telephone(&turn, encode), 800).await;
        session.until("input_audio_buffer.speech_started").await;
        let stopped = session.until("input_audio_buffer.speech_stopped").await;
        let end = stopped["audio_end_ms"].as_u64().unwrap();
        assert!((1_500..6_000).contains(&end), "{stopped}");
        let reply = session.reply().await.completed();
        assert!(!reply.transcript.is_empty());
        // 8,000 bytes per second, as long as the audio that is charged.
        let tokens = reply.response["usage"]["output_token_details"]["audio_tokens"]
            .as_u64()
            .unwrap();
        let length = reply.audio.len() as f64 / 8_000.0;
        assert!(
            (length - tokens as f64 / 20.0).abs() < 0.2,
            "{length} s, {tokens} tokens"
        );
        session.close().await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn turn_detection_can_be_turned_on_and_off() {
    let scene = Scene::start().await;
    let turn = turn(&scene).await;
    let mut session = Session::voice(&scene).await;
    session.append(&turn).await;
    assert_eq!(
        session.pending().await,
        Vec::<Value>::new(),
        "it is off by default"
    );
    session.send(&json!({"type": "input_audio_buffer.clear"})).await;
    session.until("input_audio_buffer.cleared").await;
    session.update(json!({"turn_detection": "server_vad"})).await;
    session.append(&turn).await;
    let reply = session.reply().await.completed();
    assert_eq!(reply.transcript, QUESTION);
    session.update(json!({"turn_detection": null})).await;
    session.append(&turn).await;
    assert_eq!(session.pending().await, Vec::<Value>::new());
    session.commit().await;
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(reply.transcript, QUESTION);
    scene.finish().await;
}

#[tokio::test]
async fn semantic_turns_end_after_a_complete_sentence() {
    let scene = Scene::start().await;
    let mut turn = turn(&scene).await;
    turn.extend(silence(9_000));
    let detection = json!({"turn_detection": {"type": "semantic_vad", "eagerness": "high"}});
    let mut session = Session::voice_with(&scene, detection).await;
    session.append(&turn).await;
    session.until("input_audio_buffer.speech_started").await;
    session.until("input_audio_buffer.speech_stopped").await;
    let reply = session.reply().await.completed();
    assert_eq!(reply.transcript, QUESTION);
    scene.finish().await;
}

/// Converts PCM at 24 kHz to G.711 at 8 kHz.
fn telephone(pcm: &[u8], encode: fn(i16) -> u8) -> Vec<u8> {
    let samples: Vec<i32> = pcm
        .chunks_exact(2)
        .map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]]).into())
        .collect();
    let means = samples.chunks_exact(3).map(|three| three.iter().sum::<i32>() / 3);
    means.map(|mean| encode(i16::try_from(mean).unwrap())).collect()
}

/// Encodes a sample by ITU-T G.711, µ-law.
fn mu_law(sample: i16) -> u8 {
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = (i32::from(sample).abs() + 132).min(32_767);
    let exponent = (0..8)
        .rev()
        .find(|exponent| magnitude & (128 << exponent) != 0)
        .unwrap_or(0);
    let mantissa = (magnitude >> (exponent + 3)) & 0x0f;
    !u8::try_from(sign | (exponent << 4) | mantissa).unwrap()
}

/// Encodes a sample by ITU-T G.711, A-law.
fn a_law(sample: i16) -> u8 {
    let sign = if sample < 0 { 0 } else { 0x80 };
    let magnitude = (i32::from(sample).abs() >> 3).min(4_095);
    let exponent = (1..8)
        .rev()
        .find(|exponent| magnitude & (16 << exponent) != 0)
        .unwrap_or(0);
    let mantissa = (magnitude >> exponent.max(1)) & 0x0f;
    u8::try_from(sign | (exponent << 4) | mantissa).unwrap() ^ 0x55
}

#[tokio::test]
async fn a_turn_that_does_not_end_holds_nothing_after_its_session() {
    let scene = Scene::start().await;
    let speech = speech(&scene, QUESTION).await;
    let before = scene.settled().await;
    let mut pausing = speech.clone();
    pausing.extend(silence(350));
    for end in ["close", "clear", "commit", "create"] {
        let mut session = Session::voice_with(&scene, patient()).await;
        session.append(&pausing).await;
        session.until("input_audio_buffer.speech_started").await;
        // The turn's hold is taken in the first silence.
        eventually("a hold is open", async || scene.balance().await.held > 0).await;
        match end {
            "clear" => session.send(&json!({"type": "input_audio_buffer.clear"})).await,
            "commit" => drop(session.commit().await),
            "create" => drop(session.respond(json!({})).await),
            _ => {}
        }
        if end == "close" {
            session.close().await;
            scene.settled().await;
        } else {
            scene.settled().await;
            let reply = session.ask("still here").await.completed();
            let added = reply
                .events
                .iter()
                .find(|event| event["type"] == "conversation.item.added");
            assert!(added.is_some(), "{end}");
        }
    }
    assert!(scene.settled().await.credits < before.credits);
    scene.finish().await;
}

#[tokio::test]
async fn a_pause_within_a_sentence_is_charged_once() {
    let scene = Scene::start().await;
    let parts = [speech(&scene, QUESTION).await, silence(350)].concat();
    scene.settled().await;
    let rows = scene.rows().await.len();
    let mut session = Session::voice_with(&scene, patient()).await;
    session.append(&parts).await;
    session.until("input_audio_buffer.speech_started").await;
    eventually("a hold is open", async || scene.balance().await.held > 0).await;
    session.append(&parts).await;
    session.append(&silence(2_000)).await;
    let reply = session.reply().await.completed();
    let heard = reply.response["usage"]["input_token_details"]["audio_tokens"]
        .as_u64()
        .unwrap();
    let max = (2 * parts.len() + 3 * SECOND).div_ceil(SECOND / 10) as u64;
    assert!(heard > 50 && heard <= max, "{heard} tokens of {max}");
    assert_eq!(scene.rows().await.len(), rows + 1);
    scene.settled().await;
    scene.finish().await;
}
