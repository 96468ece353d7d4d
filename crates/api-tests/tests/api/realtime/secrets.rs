//! Client secrets, and the sessions that they open.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{eventually, nanos};

use super::VOICE;
use super::client::{Handshake, Session, error_of};
use crate::scene::{Scene, assert_error, credits};

const SECRETS: &str = "/v1/realtime/client_secrets";

/// Creates a secret. Returns the response.
pub async fn create(scene: &Scene, body: &Value) -> Value {
    let response = scene.post(SECRETS, body).await;
    assert_eq!(response.status, 200, "{response:?}");
    response.json()
}

pub fn voice(members: Value) -> Value {
    let mut body = json!({"session": {"type": "realtime", "model": VOICE}});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

pub fn handshake(scene: &Scene, secret: &Value, query: &str) -> Handshake {
    Handshake::with_key(scene, query, secret["value"].as_str().unwrap())
}

#[tokio::test]
async fn a_secret_opens_sessions_with_its_configuration() {
    let scene = Scene::start().await;
    let body = json!({"session": {
        "type": "realtime", "model": VOICE, "instructions": "Be friendly.", "output_modalities": ["text"]
    }});
    let secret = create(&scene, &body).await;
    let value = secret["value"].as_str().unwrap();
    assert!(value.starts_with("ek_") && value.len() == 43, "{secret}");
    assert_eq!(secret["session"]["instructions"], "Be friendly.");
    for query in ["", "?model=sim/voice"] {
        let mut session = Session::open(handshake(&scene, &secret, query)).await;
        session.write("hello there").await;
        let reply = session.respond(json!({})).await.completed();
        assert_eq!(reply.response["output"][0]["content"][0]["text"], "hello there");
        let row = scene.row(reply.request_id()).await;
        assert_eq!(
            row["key_id"],
            json!(scene.key.id),
            "the secret belongs to its key"
        );
        session.close().await;
    }
    let protocol = format!("realtime, openai-insecure-api-key.{value}");
    let by_protocol = Handshake::anonymous(&scene, "").header("sec-websocket-protocol", protocol);
    Session::open(by_protocol).await.close().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_secret_opens_only_what_it_names() {
    let scene = Scene::start().await;
    let secret = create(&scene, &voice(json!({}))).await;
    let other = handshake(&scene, &secret, "?model=sim/transcribe")
        .open()
        .await
        .err()
        .unwrap();
    assert_eq!(other.parts(), (400, "invalid_parameter", Some("model")));
    let text = json!({"model": "sim/chat", "messages": [{"role": "user", "content": "hi"}]});
    let key = secret["value"].as_str().unwrap();
    for (path, body) in [("/v1/chat/completions", &text), (SECRETS, &voice(json!({})))] {
        let response = scene.client().send(&Request::json(path, body).key(key)).await;
        assert_error(path, &response, "invalid_api_key", None);
    }
    let unknown = Handshake::with_key(&scene, "", "ek_0000000000000000000000000000000000000000");
    let refused = unknown.open().await.err().unwrap();
    assert_eq!(refused.parts(), (401, "invalid_api_key", None));
    scene.finish().await;
}

#[tokio::test]
async fn a_session_cannot_change_to_a_model_that_its_secret_does_not_name() {
    let config = "[models.\"acme/ears\"]\ntype = \"transcription\"\ntargets = [\"northwind/whisper-1\"]\n\
                  prices = { audio = \"0.0005\" }\n";
    let scene = Scene::start_with(config).await;
    let model =
        |name: &str| json!({"type": "transcription", "audio": {"input": {"transcription": {"model": name}}}});
    let secret = create(&scene, &json!({"session": model("sim/transcribe")})).await;
    let mut session = Session::open(handshake(&scene, &secret, "")).await;
    session.update(model("sim/transcribe")).await;
    session
        .send(&json!({"type": "session.update", "session": model("acme/ears")}))
        .await;
    let refused = session.event().await;
    let param = "session.audio.input.transcription.model";
    assert_eq!(error_of(&refused), ("invalid_parameter", Some(param), None));
    session.close().await;
    let mut session = Session::open(Handshake::new(&scene, "?model=sim/transcribe")).await;
    session.update(model("acme/ears")).await;
    session.close().await;
    scene.finish().await;
}

#[tokio::test]
async fn pages_of_other_origins_need_a_secret_that_allows_them() {
    let scene = Scene::start().await;
    let any = create(&scene, &voice(json!({}))).await;
    let listed = create(&scene, &voice(json!({"allowed_origins": ["https://a.example"]}))).await;
    for (secret, origin, is_open) in [
        (&any, Some("https://b.example"), true),
        (&any, None, true),
        (&listed, Some("https://a.example"), true),
        (&listed, Some("https://b.example"), false),
        (&listed, None, false),
    ] {
        let mut request = handshake(&scene, secret, "");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        match request.open().await {
            Ok(session) => {
                assert!(is_open, "{origin:?}");
                session.close().await;
            }
            Err(refused) => {
                assert!(!is_open, "{origin:?} {refused:?}");
                assert_eq!(refused.parts(), (403, "permission_denied", None));
            }
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn all_sessions_of_a_secret_share_its_budget() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let capped = json!({"max_output_tokens": 50});
    session.write("Hello there").await;
    session
        .send(&json!({"type": "response.create", "response": capped}))
        .await;
    session.until("response.created").await;
    let hold = scene.balance().await.held;
    let paid = nanos(&session.reply().await.completed().response["usage"]["cost"]);
    session.close().await;
    // The budget covers one response and one further hold.
    let budget = voice(json!({"max_cost": credits(hold + paid)}));
    let secret = create(&scene, &budget).await;
    for _ in 0..2 {
        let mut session = Session::open(handshake(&scene, &secret, "")).await;
        session.write("Hello there").await;
        let _ = session.respond(capped.clone()).await.completed();
        session.close().await;
    }
    let mut session = Session::open(handshake(&scene, &secret, "")).await;
    session.write("Hello there").await;
    session
        .send(&json!({"type": "response.create", "response": capped}))
        .await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("insufficient_credits", Some("max_cost"), None)
    );
    let rows = scene.gateway.usage(&scene.key.secret, "?limit=10").await;
    assert_eq!(
        rows["data"].as_array().unwrap().len(),
        3,
        "a refusal writes nothing"
    );
    session.close().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_session_ends_with_the_key_that_created_its_secret() {
    let scene = Scene::start().await;
    let secret = create(&scene, &voice(json!({}))).await;
    let mut session = Session::open(handshake(&scene, &secret, "")).await;
    session.write("Hello").await;
    let _ = session.respond(json!({})).await.completed();
    let command_line = scene.gateway.command_line();
    command_line.run(&["keys", "revoke", &scene.key.id]).await;
    session.send(&json!({"type": "response.create"})).await;
    let (code, events) = session.closed().await;
    assert_eq!(code, 1008, "{events:?}");
    assert_eq!(error_of(&events[0]).0, "invalid_api_key");
    let refused = handshake(&scene, &secret, "").open().await.err().unwrap();
    assert_eq!(refused.parts().0, 401);
    scene.finish().await;
}

#[tokio::test]
async fn the_longest_session_of_a_secret_is_limited() {
    let scene = Scene::start().await;
    let secret = create(&scene, &voice(json!({"max_seconds": 1}))).await;
    let mut session = Session::open(handshake(&scene, &secret, "")).await;
    let (code, events) = session.closed().await;
    assert_eq!(code, 1000, "{events:?}");
    assert_eq!(error_of(&events[0]).0, "session_expired");
    scene.finish().await;
}

#[tokio::test]
async fn invalid_requests_for_secrets_name_the_parameter() {
    let scene = Scene::start().await;
    for (body, code, param) in [
        (
            json!({"expires_after": {"seconds": 9}}),
            "invalid_parameter",
            "expires_after.seconds",
        ),
        (
            json!({"expires_after": {"seconds": 7201}}),
            "invalid_parameter",
            "expires_after.seconds",
        ),
        (
            json!({"expires_after": {"anchor": "now"}}),
            "invalid_parameter",
            "expires_after.anchor",
        ),
        (json!({"max_cost": "a lot"}), "invalid_parameter", "max_cost"),
        (json!({"max_cost": "-1"}), "invalid_parameter", "max_cost"),
        (json!({"max_seconds": 0}), "invalid_parameter", "max_seconds"),
        (
            json!({"allowed_origins": ["a.example"]}),
            "invalid_parameter",
            "allowed_origins[0]",
        ),
        (
            json!({"allowed_origins": "https://a.example"}),
            "invalid_parameter",
            "allowed_origins",
        ),
        (
            json!({"session": {"model": "sim/chat"}}),
            "unsupported_endpoint",
            "session.model",
        ),
        (
            json!({"session": {"model": "nope"}}),
            "model_not_found",
            "session.model",
        ),
        (
            json!({"session": {"speed": 9}}),
            "invalid_parameter",
            "session.speed",
        ),
        (
            json!({"session": {"colour": 1}}),
            "unknown_parameter",
            "session.colour",
        ),
        (json!({"session": []}), "invalid_parameter", "session"),
        (json!({"colour": 1}), "unknown_parameter", "colour"),
    ] {
        let response = scene.post(SECRETS, &body).await;
        assert_error(&body.to_string(), &response, code, Some(param));
    }
    for seconds in [10, 7200] {
        let secret = create(
            &scene,
            &json!({"expires_after": {"anchor": "created_at", "seconds": seconds}}),
        )
        .await;
        assert!(secret["expires_at"].is_i64(), "{secret}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_beta_endpoints_return_the_session_with_its_secret() {
    let scene = Scene::start().await;
    let body = json!({"model": VOICE, "modalities": ["text"]});
    let created = scene.post("/v1/realtime/sessions", &body).await.json();
    assert_eq!(created["modalities"], json!(["text"]), "{created}");
    let body = json!({"input_audio_transcription": {"model": "sim/transcribe"}});
    let live = scene
        .post("/v1/realtime/transcription_sessions", &body)
        .await
        .json();
    for (created, query) in [(&created, ""), (&live, "?intent=transcription")] {
        let value = created["client_secret"]["value"].as_str().unwrap();
        Session::open(Handshake::with_key(&scene, query, value))
            .await
            .close()
            .await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_secret_survives_a_crash_and_expires() {
    let mut scene = Scene::start().await;
    let secret = create(&scene, &voice(json!({"expires_after": {"seconds": 10}}))).await;
    scene.gateway.kill().await;
    scene.gateway.restart().await;
    let mut session = Session::open(handshake(&scene, &secret, "")).await;
    let mut status = 101;
    eventually("the secret expires", async || {
        status = match handshake(&scene, &secret, "").open().await {
            Ok(session) => {
                session.close().await;
                101
            }
            Err(refused) => refused.parts().0,
        };
        status != 101
    })
    .await;
    assert_eq!(status, 401);
    // The open session continues.
    session.write("Hello").await;
    let _ = session.respond(json!({})).await.completed();
    session.close().await;
    scene.finish().await;
}
