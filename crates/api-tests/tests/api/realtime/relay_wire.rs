//! Sessions of a realtime model of a provider, over the provider's own wire.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{eventually, nanos};
use tollgate_testkit::upstream::{FakeUpstream, RealtimeFault, Reply};

use super::client::{Handshake, Session, error_of, silence, speech};
use crate::scene::{PROVIDER, PROVIDER_KEY, Scene, credits, provider};

const MODEL: &str = "house/realtime";
const QUERY: &str = "?model=house/realtime";

/// Returns the settings of the model, with these targets.
fn model(targets: &str) -> String {
    format!(
        "[models.\"{MODEL}\"]\ntype = \"realtime\"\ntargets = [{targets}]\n\
         prices = {{ input = \"1\", cache_read = \"0.1\", input_audio = \"4\", cache_read_audio = \"0.4\", output = \"2\", output_audio = \"8\" }}\n\
         limits = {{ context_window = 32000, max_output_tokens = 4096 }}\n"
    )
}

async fn scene() -> Scene {
    Scene::start_with(&model(&format!("\"{PROVIDER}/gpt-realtime-7\""))).await
}

async fn open(scene: &Scene) -> Session {
    Session::open(Handshake::new(scene, QUERY)).await
}

/// Returns the types of the events that the provider has received.
fn received(upstream: &FakeUpstream) -> Vec<String> {
    let events = upstream.realtime_events();
    events.iter().map(|event| event.kind().to_owned()).collect()
}

/// Returns the refusal of a handshake.
fn refusal() -> RealtimeFault {
    RealtimeFault::Refuse(Box::new(Reply::error(500, "server_error", "broken")))
}

#[tokio::test]
async fn the_provider_receives_the_turn_when_its_response_is_paid() {
    let scene = scene().await;
    let account = scene.gateway.account().await;
    let key = scene.gateway.key(&account).await.secret;
    let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key)).await;
    session.write("Hello there").await;
    session.append(&silence(200)).await;
    session.commit().await;
    session.send(&json!({"type": "response.create"})).await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused).0, "insufficient_credits", "{refused}");
    assert_eq!(received(&scene.upstream), ["session.update"]);
    let update = &scene.upstream.realtime_events()[0].event;
    assert_eq!(
        update["session"]["audio"]["input"]["turn_detection"],
        Value::Null,
        "{update}"
    );

    scene.gateway.grant(&account, &credits(10_000_000_000)).await;
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(scene.upstream.realtime_responses(), 1);
    let types = received(&scene.upstream);
    assert_eq!(
        types.last().map(String::as_str),
        Some("response.create"),
        "{types:?}"
    );
    for expected in [
        "conversation.item.create",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
    ] {
        assert!(types.iter().any(|kind| kind == expected), "{types:?}");
    }
    let usage = scene.gateway.usage(&key, "").await;
    assert_eq!(usage["data"].as_array().unwrap().len(), 1, "{usage}");
    assert_eq!(
        nanos(&usage["data"][0]["cost"]),
        nanos(&reply.response["usage"]["cost"]),
        "{usage}"
    );
    for event in &reply.events {
        let text = event.to_string();
        assert!(
            !text.contains("gpt-realtime-7") && !text.contains(PROVIDER),
            "{text}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_refused_connection_is_an_http_error_and_the_next_target_is_tried() {
    let upstream = FakeUpstream::start().await;
    let second = FakeUpstream::start().await;
    let config = format!(
        "{}{}{}",
        provider("first", &upstream.base_url()),
        provider("second", &second.base_url()),
        model("\"first/a\", \"second/b\"")
    );
    let scene = Scene::start_with(&config).await;
    upstream.push_for_realtime(refusal());
    let reply = open(&scene).await.ask("Hello").await.completed();
    assert!(!reply.transcript.is_empty());
    assert_eq!(
        (upstream.realtime_responses(), second.realtime_responses()),
        (0, 1)
    );

    for server in [&upstream, &second] {
        server.push_for_realtime(refusal());
    }
    let refused = Handshake::new(&scene, QUERY).open().await.err().unwrap();
    assert_eq!(refused.parts(), (502, "upstream_error", None), "{refused:?}");
    assert!(!format!("{refused:?}").contains("broken"), "{refused:?}");
    scene.finish().await;
}

#[tokio::test]
async fn a_connection_that_breaks_at_any_event_fails_the_response_and_leaves_no_hold() {
    let scene = scene().await;
    for event in [
        "response.created",
        "response.output_item.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
    ] {
        scene
            .upstream
            .push_for_realtime(RealtimeFault::CloseAfter(event, 1011));
        let mut session = open(&scene).await;
        session.write("Hello").await;
        session.send(&json!({"type": "response.create"})).await;
        let (code, events) = session.closed().await;
        assert_eq!(code, 1011, "{event}: {events:?}");
        let done = events.iter().find(|event| event["type"] == "response.done");
        let response = &done.unwrap_or_else(|| panic!("{event}: {events:?}"))["response"];
        assert_eq!(response["status"], "failed", "{event}: {response}");
        let row = scene.row(response["request_id"].as_str().unwrap()).await;
        assert_eq!(
            nanos(&row["cost"]),
            nanos(&response["usage"]["cost"]),
            "{event}: {row}"
        );
        assert_eq!(scene.balance().await.held, 0, "{event}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn an_idle_connection_that_breaks_closes_the_session() {
    let scene = scene().await;
    scene
        .upstream
        .push_for_realtime(RealtimeFault::CloseAfter("response.done", 1001));
    let mut session = open(&scene).await;
    let reply = session.ask("Hello").await.completed();
    let (code, events) = session.closed().await;
    assert_eq!(code, 1011, "{events:?}");
    assert_eq!(error_of(events.last().unwrap()).0, "upstream_error");
    assert!(nanos(&scene.row(reply.request_id()).await["cost"]) > 0);
    scene.finish().await;
}

#[tokio::test]
async fn an_interrupted_response_is_cancelled_at_the_provider_and_charged_by_its_usage() {
    let scene = scene().await;
    let turn = [
        speech(&scene, "Stop, please, I have another question.").await,
        silence(800),
    ]
    .concat();
    scene.upstream.set_realtime_audio(20_000);
    scene.upstream.push_for_realtime(RealtimeFault::WaitForCancel);
    let mut session = open(&scene).await;
    session.update(json!({"turn_detection": "server_vad"})).await;
    session.write("Tell me a long story").await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    session.append(&turn).await;
    session.until("input_audio_buffer.speech_started").await;
    let reply = session.reply().await;
    assert_eq!(reply.response["status"], "cancelled", "{}", reply.response);
    let row = scene.row(reply.request_id()).await;
    assert_eq!(
        (&row["outcome"], &row["estimated"]),
        (&json!("cancelled"), &json!(false)),
        "{row}"
    );
    assert_eq!(
        nanos(&row["cost"]),
        nanos(&reply.response["usage"]["cost"]),
        "{row}"
    );
    let next = session.reply().await.completed();
    let types = received(&scene.upstream);
    let place = |kind: &str| types.iter().position(|found| found == kind);
    assert!(
        place("response.cancel") < place("conversation.item.truncate"),
        "{types:?}"
    );
    assert!(place("conversation.item.truncate").is_some(), "{types:?}");
    assert_eq!(scene.upstream.realtime_responses(), 2);
    assert!(nanos(&scene.row(next.request_id()).await["cost"]) > 0);
    scene.finish().await;
}

#[tokio::test]
async fn a_client_that_leaves_pays_once_and_the_response_is_cancelled() {
    let scene = scene().await;
    scene.upstream.push_for_realtime(RealtimeFault::WaitForCancel);
    let mut session = open(&scene).await;
    session.write("Hello").await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    session.close().await;
    eventually("the response is cancelled", async || {
        received(&scene.upstream)
            .iter()
            .any(|kind| kind == "response.cancel")
    })
    .await;
    eventually("the hold is settled", async || scene.balance().await.held == 0).await;
    assert_eq!(scene.rows().await.len(), 1);
    scene.finish().await;
}

#[tokio::test]
async fn usage_that_the_provider_does_not_report_is_estimated() {
    let scene = scene().await;
    scene.upstream.push_for_realtime(RealtimeFault::NoUsage);
    let reply = open(&scene).await.ask("Hello").await.completed();
    let row = scene.row(reply.request_id()).await;
    assert_eq!(row["estimated"], true, "{row}");
    let usage = &reply.response["usage"]["output_token_details"];
    assert_eq!(usage["audio_tokens"], 20, "one second: {usage}");
    scene.finish().await;
}

#[tokio::test]
async fn hostile_events_of_the_provider_change_nothing() {
    let scene = scene().await;
    for fault in [
        RealtimeFault::Twice("response.done"),
        RealtimeFault::Before(
            "response.output_audio.delta",
            "{\"type\":\"no.such.event\"}".to_owned(),
        ),
        RealtimeFault::PingBefore("response.output_audio.delta"),
        RealtimeFault::OddAudio,
    ] {
        let name = format!("{fault:?}");
        scene.upstream.push_for_realtime(fault);
        let mut session = open(&scene).await;
        let reply = session.ask("Hello").await.completed();
        let next = session.ask("And again").await.completed();
        for reply in [&reply, &next] {
            let row = scene.row(reply.request_id()).await;
            assert_eq!(
                nanos(&row["cost"]),
                nanos(&reply.response["usage"]["cost"]),
                "{name}: {row}"
            );
        }
        session.close().await;
    }
    assert!(!format!("{:?}", scene.upstream.realtime_events()).contains(&scene.key.secret));
    let key = scene
        .upstream
        .requests()
        .iter()
        .any(|request| request.header("authorization") == Some(&format!("Bearer {PROVIDER_KEY}")));
    assert!(key, "the provider receives its own key");
    assert_eq!(scene.rows().await.len(), 8);
    scene.finish().await;
}
