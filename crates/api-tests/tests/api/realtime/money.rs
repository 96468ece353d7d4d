//! Holds, limits and charges of voice sessions.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use super::client::{Handshake, Session, error_of, message, speech};
use super::{PRICES, VOICE};
use crate::scene::{GRANTED, Scene, credits};

const QUERY: &str = "?model=sim/voice";

/// Parameters of a response whose hold does not depend on the balance.
fn capped() -> Value {
    json!({"max_output_tokens": 50})
}

/// Creates an account with these nano-credits. Returns its id and its key.
async fn account(scene: &Scene, nanos: i64) -> (String, String) {
    let account = scene.gateway.account().await;
    if nanos > 0 {
        scene.gateway.grant(&account, &credits(nanos)).await;
    }
    let key = scene.gateway.key(&account).await.secret;
    (account, key)
}

/// Returns the hold of a capped response to this text.
async fn hold_of(scene: &Scene, text: &str) -> i64 {
    let mut session = Session::voice(scene).await;
    session.write(text).await;
    session
        .send(&json!({"type": "response.create", "response": capped()}))
        .await;
    session.until("response.created").await;
    let held = scene.balance().await.held;
    assert!(held > 0, "{text:?} holds nothing");
    session.reply().await;
    session.close().await;
    held
}

#[tokio::test]
async fn a_response_without_credits_is_refused_and_the_session_continues() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let text = "[[sim delay=1000]] Hello there";
        let hold = hold_of(&scene, text).await;
        let (poor, key) = account(&scene, hold).await;
        let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key)).await;
        session.write(text).await;
        let first = session.respond(capped()).await.completed();
        let paid = nanos(&first.response["usage"]["cost"]);
        assert!(paid > 0);
        let item = session.write(text).await;
        session
            .send(&json!({"type": "response.create", "event_id": "mine", "response": capped()}))
            .await;
        let refused = session.event().await;
        assert_eq!(error_of(&refused), ("insufficient_credits", None, Some("mine")));
        assert_eq!(refused["error"]["type"], "billing_error");
        let request = refused["error"]["request_id"].as_str().unwrap();
        assert!(request.starts_with("req_"), "{refused}");
        assert_eq!(
            session.retrieve(&item["id"]).await["id"],
            item["id"],
            "the item stays"
        );
        assert_eq!(
            scene.gateway.usage(&key, "?limit=10").await["data"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let balance = scene.gateway.balance(&poor).await;
        assert_eq!((balance.credits, balance.held), (hold - paid, 0));
        scene.gateway.grant(&poor, "1").await;
        let _ = session.respond(capped()).await.completed();
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_spoken_turn_without_credits_is_heard_by_the_next_response() {
    let scene = Scene::start().await;
    let audio = speech(&scene, "good morning").await;
    let (poor, key) = account(&scene, 0).await;
    let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key)).await;
    session.append(&audio).await;
    let item_id = session.commit().await;
    session.send(&json!({"type": "response.create"})).await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused).0, "insufficient_credits");
    assert_eq!(
        session.retrieve(&item_id).await["content"][0]["transcript"],
        Value::Null
    );
    scene.gateway.grant(&poor, "1").await;
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(
        reply.events[0]["transcript"], "good morning",
        "{}",
        reply.events[0]
    );
    scene.finish().await;
}

#[tokio::test]
async fn each_response_counts_against_the_requests_per_minute() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 1, 1_000_000).await;
    let mut session = Session::voice(&scene).await;
    let reply = session.ask("Hello there").await.completed();
    let limits = &reply.events[1]["rate_limits"];
    assert_eq!(
        (&limits[0]["name"], &limits[0]["limit"], &limits[0]["remaining"]),
        (&json!("requests"), &json!(1), &json!(0)),
        "{limits}"
    );
    assert_eq!(
        (&limits[1]["name"], &limits[1]["limit"]),
        (&json!("tokens"), &json!(1_000_000))
    );
    session.write("Hello again").await;
    session
        .send(&json!({"type": "response.create", "event_id": "mine"}))
        .await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused), ("rate_limit_exceeded", None, Some("mine")));
    let wait = refused["error"]["retry_after_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait), "{refused}");
    assert_eq!(scene.rows().await.len(), 1);
    scene.finish().await;
}

#[tokio::test]
async fn a_cancelled_response_is_charged_once_audio_was_delivered() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    session.write("[[sim delay=20000]] Hello").await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("rate_limits.updated").await;
    session.send(&json!({"type": "response.cancel"})).await;
    let early = session.reply().await;
    assert_eq!(early.types(), ["response.done"]);
    assert_eq!(early.response["output"], json!([]));
    assert_eq!(early.response["usage"]["cost"], "0", "{}", early.response);
    let row = scene.row(early.request_id()).await;
    assert_eq!(
        (&row["cost"], &row["outcome"]),
        (&json!("0"), &json!("cancelled")),
        "{row}"
    );
    assert_eq!(scene.settled().await.credits, GRANTED);

    session
        .write(&"One two three four five six seven eight nine ten. ".repeat(20))
        .await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    session.send(&json!({"type": "response.cancel"})).await;
    let late = session.reply().await;
    assert_eq!(late.response["status"], "cancelled");
    let cost = nanos(&late.response["usage"]["cost"]);
    let audio = late.response["usage"]["output_token_details"]["audio_tokens"]
        .as_i64()
        .unwrap();
    assert!(
        audio > 0 && cost >= audio * PRICES.output_audio,
        "{}",
        late.response
    );
    let row = scene.row(late.request_id()).await;
    assert_eq!(
        (nanos(&row["cost"]), &row["outcome"]),
        (cost, &json!("cancelled")),
        "{row}"
    );
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    scene.finish().await;
}

#[tokio::test]
async fn the_cost_limit_of_the_handshake_applies_to_every_response() {
    let scene = Scene::start().await;
    let allowed = 100_000;
    let handshake = Handshake::new(&scene, QUERY).header("x-max-cost", credits(allowed));
    let mut session = Session::open(handshake).await;
    session.update(json!({"output_modalities": ["text"]})).await;
    let input = json!([message("[[sim tokens=400]]")]);
    for params in [
        json!({"input": input}),
        json!({"input": input, "max_output_tokens": 4_096}),
    ] {
        let reply = session.respond(params).await;
        let cost = nanos(&reply.response["usage"]["cost"]);
        assert!(cost > 0 && cost <= allowed, "{}", reply.response);
        let details = &reply.response["status_details"];
        assert_eq!(details["reason"], "max_output_tokens", "{}", reply.response);
    }
    session.write(&"long ".repeat(1_000)).await;
    session
        .send(&json!({"type": "response.create", "event_id": "mine"}))
        .await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("parameter_out_of_range", Some("x-max-cost"), Some("mine"))
    );
    let reply = session
        .respond(json!({"input": [message("short")]}))
        .await
        .completed();
    assert!(nanos(&reply.response["usage"]["cost"]) <= allowed);
    scene.finish().await;
}

#[tokio::test]
async fn a_revoked_key_ends_the_session_at_its_next_response() {
    let scene = Scene::start().await;
    let key = scene.gateway.key(&scene.account).await;
    let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key.secret)).await;
    let _ = session.ask("Hello there").await.completed();
    scene
        .gateway
        .command_line()
        .run(&["keys", "revoke", &key.id])
        .await;
    session.write("Hello again").await;
    // The gateway may know a key for some seconds after another process has revoked it.
    let refused = loop {
        session
            .send(&json!({"type": "response.create", "event_id": "mine"}))
            .await;
        match session.event().await {
            event if event["type"] == "error" => break event,
            _ => drop(session.reply().await),
        }
    };
    assert_eq!(error_of(&refused), ("invalid_api_key", None, Some("mine")));
    assert_eq!(session.closed().await, (1008, Vec::new()));
    scene.finish().await;
}

#[tokio::test]
async fn concurrent_responses_never_overdraw_the_balance() {
    let scene = Scene::start().await;
    let text = "[[sim delay=500]] Hello there";
    let hold = hold_of(&scene, text).await;
    let (poor, key) = account(&scene, 3 * hold).await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let mut session = Session::open(Handshake::with_key(&scene, QUERY, &key)).await;
        session.write(text).await;
        sessions.push(session);
    }
    for session in &mut sessions {
        session
            .send(&json!({"type": "response.create", "response": capped()}))
            .await;
    }
    let (mut served, mut refused) = (0, 0);
    for session in &mut sessions {
        let event = session.event().await;
        if event["type"] == "error" {
            assert_eq!(error_of(&event).0, "insufficient_credits");
            refused += 1;
        } else {
            let _ = session.reply().await.completed();
            served += 1;
        }
    }
    assert!(served >= 3 && refused >= 1, "{served} served, {refused} refused");
    let balance = scene.gateway.balance(&poor).await;
    assert!(balance.credits >= 0 && balance.held == 0, "{balance:?}");
    drop(sessions);
    scene.finish().await;
}

#[tokio::test]
async fn test_keys_talk_for_free() {
    let scene = Scene::start().await;
    let create = ["keys", "create", "--account", &scene.account, "--test"];
    let created = scene.gateway.command_line().run(&create).await;
    let key = created["key"].as_str().unwrap();
    let mut session = Session::open(Handshake::with_key(&scene, QUERY, key)).await;
    let reply = session.ask("Hello there").await.completed();
    assert_eq!(reply.response["usage"]["cost"], "0", "{}", reply.response);
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn a_key_that_may_use_only_the_voice_model_can_talk() {
    let scene = Scene::start().await;
    let create = ["keys", "create", "--account", &scene.account, "--model", VOICE];
    let created = scene.gateway.command_line().run(&create).await;
    let key = created["key"].as_str().unwrap();
    let mut session = Session::open(Handshake::with_key(&scene, QUERY, key)).await;
    let _ = session.ask("Hello there").await.completed();
    let Err(refused) = Handshake::with_key(&scene, "?model=sim/transcribe", key)
        .open()
        .await
    else {
        panic!("the key may not use this model")
    };
    assert_eq!(refused.status, 404, "{refused:?}");
    scene.finish().await;
}
