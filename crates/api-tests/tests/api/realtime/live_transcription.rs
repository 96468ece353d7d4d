//! Live transcription by a provider, over the wires of OpenAI and of vLLM.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{FakeUpstream, RealtimeFault, RealtimeWire, Reply};

use super::client::{Handshake, SECOND, Session, error_of, silence, speech};
use crate::scene::{Scene, credits, provider};

const MODEL: &str = "house/ears";
const QUERY: &str = "?model=house/ears";
const DELTA: &str = "conversation.item.input_audio_transcription.delta";
const COMPLETED: &str = "conversation.item.input_audio_transcription.completed";
const FAILED: &str = "conversation.item.input_audio_transcription.failed";
/// Price of [`MODEL`], in nano-credits per second.
const PER_SECOND: i64 = 100_000;
/// Presets with live transcription, and their wires.
const WIRES: [(&str, RealtimeWire); 2] = [
    ("openai-compatible", RealtimeWire::OpenAi),
    ("vllm", RealtimeWire::Vllm),
];

/// Returns the settings of a provider named `ears` and of its live model.
fn ears(preset: &str, upstream: &FakeUpstream) -> String {
    let block = provider("ears", &upstream.base_url()).replace("openai-compatible", preset);
    format!(
        "{block}[models.\"{MODEL}\"]\ntype = \"transcription\"\nlive = true\n\
         targets = [\"ears/voxtral\"]\nprices = {{ audio = \"0.0001\" }}\n"
    )
}

async fn scene_on(preset: &str, wire: RealtimeWire) -> (FakeUpstream, Scene) {
    let upstream = FakeUpstream::start().await;
    upstream.set_realtime_wire(wire);
    let scene = Scene::start_with(&ears(preset, &upstream)).await;
    (upstream, scene)
}

/// Returns the microseconds and the nano-credits of the rows of a session.
async fn charged(scene: &Scene, session: &str) -> (i64, i64) {
    scene.settled().await;
    let usage = scene.usage_of(session).await;
    let rows = usage["data"].as_array().unwrap();
    for row in rows {
        assert_eq!(
            (&row["model"], &row["endpoint"]),
            (&json!(MODEL), &json!("/v1/realtime"))
        );
    }
    let micros = rows
        .iter()
        .map(|row| row["usage"]["audio_microseconds"].as_i64().unwrap());
    (micros.sum(), rows.iter().map(|row| nanos(&row["cost"])).sum())
}

/// Returns the kinds of the events that the provider has received.
fn received(upstream: &FakeUpstream) -> Vec<String> {
    let events = upstream.realtime_events();
    let mut kinds: Vec<String> = events.iter().map(|event| event.kind().to_owned()).collect();
    kinds.dedup();
    kinds
}

/// Commits the audio. Returns the event with the end of its transcription.
async fn transcribed(session: &mut Session) -> Value {
    session.send(&json!({"type": "input_audio_buffer.commit"})).await;
    loop {
        let event = session.event().await;
        if event["type"] == COMPLETED || event["type"] == FAILED {
            return event;
        }
    }
}

#[tokio::test]
async fn words_arrive_while_the_audio_does_and_each_second_is_charged() {
    for (preset, wire) in WIRES {
        let (upstream, scene) = scene_on(preset, wire).await;
        let mut session = Session::open(Handshake::new(&scene, QUERY)).await;
        session
            .update(json!({"audio": {"input": {"transcription": {"language": "de"}}}}))
            .await;
        let listed = scene.gateway.command_line().run(&["sessions", "list"]).await;
        assert_eq!(listed[0]["way"], "relay", "{listed}");
        session.append(&silence(1_600)).await;
        let first = session.until(DELTA).await;
        let mut words = first["delta"].as_str().unwrap().to_owned();
        while words != "w1 w2 w3" {
            words.push_str(session.until(DELTA).await["delta"].as_str().unwrap());
        }
        let completed = transcribed(&mut session).await;
        assert_eq!(completed["transcript"], "w1 w2 w3 in 1600 ms", "{preset}");
        assert_eq!(completed["item_id"], first["item_id"], "{preset}");
        assert_eq!(nanos(&completed["usage"]["cost"]), 1_600 * PER_SECOND / 1_000);
        if wire == RealtimeWire::OpenAi {
            let events = upstream.realtime_events();
            let update = events.iter().rev().find(|event| event.kind() == "session.update");
            let input = &update.unwrap().event["session"]["audio"]["input"];
            assert_eq!(
                input["transcription"],
                json!({"model": "voxtral", "language": "de"}),
                "{input}"
            );
        }
        let id = session.request_id.clone();
        session.close().await;
        assert_eq!(
            charged(&scene, &id).await,
            (1_600_000, 1_600 * PER_SECOND / 1_000),
            "{preset}"
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn the_provider_hears_the_turns_alone() {
    for (preset, wire) in WIRES {
        let (upstream, scene) = scene_on(preset, wire).await;
        let spoken = speech(&scene, "Good morning to all of you.").await;
        let mut session = Session::open(Handshake::new(&scene, QUERY)).await;
        session
            .update(json!({"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}))
            .await;
        session.append(&silence(10_000)).await;
        assert!(session.pending().await.is_empty());
        assert!(!received(&upstream).contains(&"input_audio_buffer.append".to_owned()));
        for _ in 0..2 {
            session.append(&spoken).await;
            session.append(&silence(1_000)).await;
            let started = session.until("input_audio_buffer.speech_started").await;
            session.until("input_audio_buffer.speech_stopped").await;
            let committed = session.until("input_audio_buffer.committed").await;
            let completed = session.until(COMPLETED).await;
            assert_eq!(completed["item_id"], started["item_id"], "{preset}");
            assert_eq!(committed["item_id"], started["item_id"], "{preset}");
            let heard = completed["transcript"].as_str().unwrap();
            let heard_ms: usize = heard
                .strip_suffix(" ms")
                .and_then(|heard| heard.rsplit(' ').next())
                .and_then(|heard_ms| heard_ms.parse().ok())
                .unwrap_or_else(|| panic!("{heard}"));
            let spoken_ms = spoken.len() / 48;
            assert!(
                heard_ms.abs_diff(spoken_ms) < 1_000,
                "{heard_ms} of {spoken_ms} ms"
            );
        }
        let id = session.request_id.clone();
        session.close().await;
        let sent = 2 * (spoken.len() + SECOND) + 10 * SECOND;
        assert_eq!(
            charged(&scene, &id).await.0,
            (sent / 2) as i64 * 1_000_000 / 24_000
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn cleared_audio_has_no_transcript() {
    for (preset, wire) in WIRES {
        let (_upstream, scene) = scene_on(preset, wire).await;
        let mut session = Session::open(Handshake::new(&scene, QUERY)).await;
        session.append(&silence(900)).await;
        session.send(&json!({"type": "input_audio_buffer.clear"})).await;
        session.until("input_audio_buffer.cleared").await;
        session.append(&silence(300)).await;
        let completed = transcribed(&mut session).await;
        assert_eq!(completed["transcript"], "in 300 ms", "{preset}");
        // G.711 has another rate.
        session
            .update(json!({"audio": {"input": {"format": {"type": "audio/pcmu"}}}}))
            .await;
        session.append_chunks(&vec![0xff; 8_000], 800).await;
        let completed = transcribed(&mut session).await;
        assert_eq!(completed["transcript"], "w1 w2 in 1000 ms", "{preset}");
        session.close().await;
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_http_error() {
    for (preset, wire) in WIRES {
        let (upstream, scene) = scene_on(preset, wire).await;
        upstream.push_for_realtime(RealtimeFault::Refuse(Box::new(Reply::error(
            500,
            "server_error",
            "broken",
        ))));
        let refused = Handshake::new(&scene, QUERY).open().await.err().unwrap();
        assert_eq!(refused.parts(), (502, "upstream_error", None), "{preset}");
        assert!(!format!("{refused:?}").contains("broken"), "{refused:?}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_lost_connection_fails_its_turn_and_the_next_turn_has_another_one() {
    for (preset, wire) in WIRES {
        let (upstream, scene) = scene_on(preset, wire).await;
        let last = match wire {
            RealtimeWire::Vllm => "transcription.done",
            _ => "input_audio_buffer.committed",
        };
        let mut session = Session::open(Handshake::new(&scene, QUERY)).await;
        // The fake sends no event instead of the last one.
        upstream.push_for_realtime(RealtimeFault::Before(last, "broken".to_owned()));
        session.append(&silence(1_000)).await;
        let failed = transcribed(&mut session).await;
        assert_eq!(
            (&failed["type"], &failed["error"]["code"]),
            (&json!(FAILED), &json!("upstream_error")),
            "{preset}"
        );
        session.append(&silence(1_000)).await;
        let completed = transcribed(&mut session).await;
        assert_eq!(completed["transcript"], "w1 w2 in 1000 ms", "{preset}");
        let events = upstream.realtime_events();
        let connections: Vec<u64> = events.iter().map(|event| event.connection).collect();
        assert_ne!(connections.first(), connections.last(), "{preset}");
        let id = session.request_id.clone();
        session.close().await;
        // The turn that failed is free.
        assert_eq!(charged(&scene, &id).await, (1_000_000, PER_SECOND), "{preset}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_failed_turn_is_free() {
    let (upstream, scene) = scene_on("openai-compatible", RealtimeWire::OpenAi).await;
    let mut session = Session::open(Handshake::new(&scene, QUERY)).await;
    upstream.push_for_realtime(RealtimeFault::Fail("server_error"));
    session.append(&silence(500)).await;
    let failed = transcribed(&mut session).await;
    assert_eq!(failed["type"], FAILED, "{failed}");
    assert!(!failed.to_string().contains("The script"), "{failed}");
    let id = session.request_id.clone();
    session.close().await;
    assert_eq!(charged(&scene, &id).await, (0, 0));
    scene.finish().await;
}

#[tokio::test]
async fn the_provider_receives_nothing_that_is_not_paid() {
    for (preset, wire) in WIRES {
        let (upstream, scene) = scene_on(preset, wire).await;
        let account = scene.gateway.account().await;
        let key = scene.gateway.key(&account).await.secret;
        let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key)).await;
        session.append(&silence(200)).await;
        let refused = session.event().await;
        assert_eq!(error_of(&refused).0, "insufficient_credits", "{refused}");
        assert_eq!(received(&upstream), ["session.update"], "{preset}");
        session.close().await;
        scene.gateway.grant(&account, &credits(1_000_000_000)).await;
        let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key)).await;
        session.append(&silence(200)).await;
        assert_eq!(
            transcribed(&mut session).await["transcript"],
            "in 200 ms",
            "{preset}"
        );
        session.close().await;
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_session_can_change_between_live_and_other_models() {
    let (upstream, scene) = scene_on("openai-compatible", RealtimeWire::OpenAi).await;
    let spoken = speech(&scene, "good morning").await;
    let mut session = Session::open(Handshake::new(&scene, "?model=sim/transcribe")).await;
    let select = |model: &str| json!({"audio": {"input": {"transcription": {"model": model}}}});
    session.update(select(MODEL)).await;
    session.append(&silence(500)).await;
    // The transcript of the turn before arrives, although its model is replaced.
    session.send(&json!({"type": "input_audio_buffer.commit"})).await;
    session
        .send(&json!({"type": "session.update", "session": select("sim/transcribe")}))
        .await;
    assert_eq!(session.until(COMPLETED).await["transcript"], "w1 in 500 ms");
    session.append(&spoken).await;
    assert_eq!(transcribed(&mut session).await["transcript"], "good morning");
    upstream.push_for_realtime(RealtimeFault::Refuse(Box::new(Reply::error(500, "no", "No."))));
    session
        .send(&json!({"type": "session.update", "session": select(MODEL)}))
        .await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused).0, "upstream_error", "{refused}");
    let shown = session.update(json!({})).await;
    assert_eq!(
        shown["audio"]["input"]["transcription"]["model"],
        "sim/transcribe"
    );
    session.close().await;
    scene.finish().await;
}

#[tokio::test]
async fn the_content_policy_reads_the_words() {
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "{}[policy.rules.two]\napply = \"output\"\nwords = [\"w2\"]\n",
        ears("openai-compatible", &upstream)
    );
    let scene = Scene::start_with(&config).await;
    let mut session = Session::open(Handshake::new(&scene, QUERY)).await;
    session.append(&silence(400)).await;
    assert_eq!(transcribed(&mut session).await["transcript"], "in 400 ms");
    session.append(&silence(1_600)).await;
    let failed = transcribed(&mut session).await;
    assert_eq!(failed["error"]["code"], "content_policy_violation", "{failed}");
    session.append(&silence(100)).await;
    assert_eq!(transcribed(&mut session).await["transcript"], "in 100 ms");
    session.close().await;
    scene.finish().await;
}
