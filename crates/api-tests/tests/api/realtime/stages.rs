//! A voice model of the operator, whose stages are served by a scripted upstream.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, Gate, Reply, Usage};

use super::client::{CHUNK, Handshake, SECOND, Session, silence};
use crate::scene::{GRANTED, MODEL, PROVIDER, Scene, assert_hides_provider};

const QUERY: &str = "?model=acme/assistant";

async fn scene() -> Scene {
    let config = format!(
        r#"
[retries]
extra_attempts = 0

[models."acme/ears"]
type = "transcription"
targets = ["{PROVIDER}/whisper-1"]
prices = {{ audio = "0.0005" }}

[models."acme/mouth"]
type = "speech"
targets = ["{PROVIDER}/tts-1"]
prices = {{ character = "1" }}

[models."acme/assistant"]
type = "realtime"
voice = {{ hear = "acme/ears", think = "{MODEL}", speak = "acme/mouth", voice = "nova" }}
prices = {{ input = "1", output = "2", input_audio = "3", output_audio = "4" }}
limits = {{ context_window = 32000, max_output_tokens = 4096 }}
"#
    );
    Scene::start_with(&config).await
}

async fn open(scene: &Scene) -> Session {
    Session::open(Handshake::new(scene, QUERY)).await
}

/// Commits a second of audio.
async fn say(session: &mut Session) -> Value {
    session.append(&silence(1_000)).await;
    session.commit().await
}

fn heard(text: &str) -> Reply {
    Reply::body(200, "application/json", json!({"text": text}).to_string())
}

fn answer(text: &str) -> Reply {
    Reply::answer(Answer::text(text).usage(Usage::Fixed {
        prompt: 40,
        completion: 30,
    }))
}

/// Returns half a second of audio.
fn spoken() -> Reply {
    Reply::body(200, "audio/pcm", vec![1; SECOND / 2])
}

#[tokio::test]
async fn the_stages_receive_the_conversation_and_the_voice_models_prices_apply() {
    let scene = scene().await;
    let mut session = open(&scene).await;
    session.update(json!({"instructions": "Be kind."})).await;
    let item_id = say(&mut session).await;
    assert_eq!(scene.upstream.request_count(), 0, "a commit starts nothing");
    for reply in [heard("Where are we?"), answer("We are in Bonn."), spoken()] {
        scene.upstream.push(reply);
    }
    let reply = session
        .respond(json!({"max_output_tokens": 100}))
        .await
        .completed();
    assert_eq!(reply.events[0]["transcript"], "Where are we?");
    assert_eq!(reply.events[0]["item_id"], item_id);
    assert_eq!(reply.transcript, "We are in Bonn.");
    assert_eq!(reply.audio, vec![1; SECOND / 2]);

    let requests = scene.upstream.requests();
    assert_eq!(requests.len(), 3);
    let form = requests[0].form().unwrap();
    let recording = form.iter().find(|part| part.name == "file").unwrap();
    assert!(recording.body.starts_with(b"RIFF"), "a WAV file");
    assert_eq!(recording.body.len(), SECOND + 44);
    let prompt = requests[1].json().unwrap();
    assert_eq!(
        prompt["messages"],
        json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Where are we?"}])
    );
    assert_eq!(
        (&prompt["stream"], &prompt["max_tokens"]),
        (&json!(true), &json!(100)),
        "{prompt}"
    );
    let speech = requests[2].json().unwrap();
    assert_eq!(
        (&speech["input"], &speech["voice"], &speech["response_format"]),
        (&json!("We are in Bonn."), &json!("nova"), &json!("pcm"))
    );

    // Ten tokens of each second heard, twenty of each second spoken.
    let cost = 40 * 1_000 + 30 * 2_000 + 10 * 3_000 + 10 * 4_000;
    assert_eq!(
        nanos(&reply.response["usage"]["cost"]),
        cost,
        "{}",
        reply.response
    );
    let row = scene.row(reply.request_id()).await;
    assert_eq!(
        (nanos(&row["cost"]), &row["model"]),
        (cost, &json!("acme/assistant"))
    );
    assert_eq!(scene.rows().await.len(), 1, "the stages have no rows");
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    let check = scene.finish().await;
    assert_eq!((check.revenue, check.overrun), (cost, 0));
}

#[tokio::test]
async fn a_failing_stage_fails_the_response_and_hides_the_provider() {
    let scene = scene().await;
    let broken = || Reply::error(500, "server_error", "northwind: The server had an error.");
    let stages: [fn() -> Reply; 3] = [|| heard("Hello"), || answer("Hello there."), spoken];
    let mut before = GRANTED;
    for working in 0..3 {
        let mut session = open(&scene).await;
        let item_id = say(&mut session).await;
        for stage in &stages[..working] {
            scene.upstream.push(stage());
        }
        scene.upstream.push(broken());
        let reply = session.respond(json!({})).await;
        let details = &reply.response["status_details"];
        assert_eq!(
            (&reply.response["status"], &details["error"]["code"]),
            (&json!("failed"), &json!("upstream_error")),
            "stage {working}: {}",
            reply.response
        );
        let row = scene.row(reply.request_id()).await;
        assert_eq!(
            (&row["cost"], &row["outcome"]),
            (&json!("0"), &json!("upstream_error"))
        );
        for event in &reply.events {
            assert_hides_provider("an event", &event.to_string());
        }
        assert_eq!(scene.settled().await.credits, before);
        // The next response hears only what was not heard yet.
        let rest = if working == 0 { &stages[..] } else { &stages[1..] };
        for stage in rest {
            scene.upstream.push(stage());
        }
        let sent = scene.upstream.request_count();
        let reply = session.respond(json!({})).await.completed();
        assert_eq!(scene.upstream.request_count(), sent + rest.len() as u64);
        let item = session.retrieve(&item_id).await;
        assert_eq!(item["content"][0]["transcript"], "Hello", "{item}");
        before -= nanos(&reply.response["usage"]["cost"]);
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_voice_that_breaks_off_charges_the_audio_that_was_delivered() {
    let scene = scene().await;
    let mut session = open(&scene).await;
    session.write("Hello").await;
    let gate = Gate::new();
    for reply in [
        answer("This is the first sentence. And that is another one. "),
        spoken(),
        Reply::error(500, "server_error", "broken").hold_head(&gate),
    ] {
        scene.upstream.push(reply);
    }
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    gate.open();
    let reply = session.reply().await;
    assert_eq!(reply.response["status"], "failed", "{}", reply.response);
    assert_eq!(
        reply.response["output"][0]["status"], "incomplete",
        "{}",
        reply.response
    );
    let usage = &reply.response["usage"];
    let audio = usage["output_token_details"]["audio_tokens"].as_i64().unwrap();
    assert!((1..=10).contains(&audio), "{usage}");
    let cost = nanos(&usage["cost"]);
    assert!(cost >= audio * 4_000, "{usage}");
    let row = scene.row(reply.request_id()).await;
    assert_eq!(
        (nanos(&row["cost"]), &row["outcome"]),
        (cost, &json!("upstream_error")),
        "{row}"
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_crash_while_the_speaker_is_heard_gives_the_hold_back() {
    let mut scene = scene().await;
    let mut session = open(&scene).await;
    say(&mut session).await;
    let gate = Gate::new();
    scene.upstream.push(heard("Hello").hold_head(&gate));
    session.send(&json!({"type": "response.create"})).await;
    scene.upstream.wait_for_requests(1).await;
    assert!(scene.balance().await.held > 0);
    scene.gateway.kill().await;
    gate.open();
    drop(session);
    scene.gateway.restart().await;
    assert_eq!(scene.settled().await.credits, GRANTED);
    let rows = scene.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (&rows[0]["outcome"], &rows[0]["cost"]),
        (&json!("crashed"), &json!("0"))
    );
    scene.finish().await;
}

#[tokio::test]
async fn audio_of_an_odd_length_is_delivered_in_whole_samples() {
    let scene = scene().await;
    let mut session = open(&scene).await;
    session.write("Hello").await;
    scene.upstream.push(answer("Hello there."));
    scene
        .upstream
        .push(Reply::body(200, "audio/pcm", vec![1; CHUNK + 3]));
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(reply.audio, vec![1; CHUNK + 2]);
    scene.finish().await;
}
