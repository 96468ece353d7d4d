//! Open sessions as operators see them, and their end by an operator.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Client, Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually, nanos};

use super::client::{Handshake, Session, message, silence};
use super::{VOICE, secrets};
use crate::admin::{admin_of, send};
use crate::scene::{Scene, assert_error};

const SESSIONS: &str = "/admin/v1/realtime/sessions";
/// Words that no operator may see.
const CANARY: &str = "c4n4ry";

/// An administrator of a node.
struct Operator {
    admin: Client,
    token: String,
}

impl Operator {
    async fn new(scene: &Scene, name: &str, role: &str) -> Self {
        let create = ["admins", "create", name, "--role", role];
        let made = scene.gateway.command_line().run(&create).await;
        Self {
            admin: admin_of(&scene.gateway).await,
            token: made["token"].as_str().unwrap().to_owned(),
        }
    }

    /// Returns this administrator at another node of the same database.
    async fn at(&self, node: &Gateway) -> Self {
        Self {
            admin: admin_of(node).await,
            token: self.token.clone(),
        }
    }

    /// Returns the list of sessions.
    async fn list(&self, query: &str) -> Value {
        let path = format!("{SESSIONS}{query}");
        let answer = send(&self.admin, "GET", &path, &self.token, &Value::Null).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    async fn end(&self, id: &str) -> Response {
        let path = format!("{SESSIONS}/{id}/end");
        self.admin
            .send(&Request::new("POST", &path).key(&self.token))
            .await
    }
}

/// Returns the id of a session.
fn id_of(session: &Session) -> String {
    session.request_id.replacen("req_", "rtsess_", 1)
}

fn ids(list: &Value) -> Vec<String> {
    let data = list["data"].as_array().unwrap().iter();
    data.map(|session| session["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn operators_see_open_sessions_without_their_content() {
    let scene = Scene::start().await;
    let viewer = Operator::new(&scene, "vi", "viewer").await;
    assert_eq!(viewer.list("").await, json!({"data": [], "has_more": false}));
    let mut voice = Session::voice_with(&scene, json!({"instructions": CANARY})).await;
    let reply = voice.ask(CANARY).await.completed();
    let other = scene.gateway.account().await;
    let key = scene.gateway.key(&other).await;
    let transcription =
        Session::open(Handshake::with_key(&scene, "?model=sim/transcribe", &key.secret)).await;
    let secret = secrets::create(&scene, &secrets::voice(json!({}))).await;
    let from_page = Session::open(secrets::handshake(&scene, &secret, "")).await;

    let list = viewer.list("").await;
    let opened = [id_of(&from_page), id_of(&transcription), id_of(&voice)];
    assert_eq!(ids(&list), opened, "newest first: {list}");
    let [of_page, transcribing, talking] = &list["data"].as_array().unwrap()[..] else {
        panic!("three sessions: {list}")
    };
    for (shown, account, key, model, kind) in [
        (of_page, &scene.account, &scene.key.id, VOICE, "voice"),
        (transcribing, &other, &key.id, "sim/transcribe", "transcription"),
        (talking, &scene.account, &scene.key.id, VOICE, "voice"),
    ] {
        for (name, expected) in [
            ("account", json!(account)),
            ("key_id", json!(key)),
            ("member_id", Value::Null),
            ("model", json!(model)),
            ("kind", json!(kind)),
            ("way", json!("cascade")),
        ] {
            assert_eq!(shown[name], expected, "{name} of {shown}");
        }
        assert_eq!(
            shown["request_id"],
            shown["id"].as_str().unwrap().replacen("rtsess_", "req_", 1)
        );
        assert_eq!(shown["account_name"], "test", "{shown}");
        assert!(!shown["node"].as_str().unwrap().is_empty(), "{shown}");
        let times = ["opened_at", "last_activity_at"].map(|name| shown[name].as_str().unwrap());
        assert!(times[0] <= times[1], "{shown}");
    }
    assert!(
        of_page["client_secret_id"]
            .as_str()
            .unwrap()
            .starts_with("secret_")
    );
    assert_eq!(talking["client_secret_id"], Value::Null);
    assert_eq!(
        (&talking["charges"], nanos(&talking["charged"])),
        (&json!(1), nanos(&reply.response["usage"]["cost"])),
        "{talking}"
    );
    assert_eq!(
        (&transcribing["charges"], &transcribing["charged"]),
        (&json!(0), &json!("0"))
    );
    let text = list.to_string();
    for hidden in [CANARY, &scene.key.secret, secret["value"].as_str().unwrap()] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }

    let of_other = viewer.list(&format!("?account={other}")).await;
    assert_eq!(ids(&of_other), [id_of(&transcription)]);
    let page = viewer.list("?limit=1").await;
    assert_eq!(
        (ids(&page), &page["has_more"]),
        (vec![id_of(&from_page)], &json!(true))
    );
    let rest = viewer.list(&format!("?after={}", id_of(&from_page))).await;
    assert_eq!(ids(&rest), opened[1..]);
    let by_command = scene.gateway.command_line().run(&["sessions", "list"]).await;
    assert_eq!(ids(&json!({"data": by_command})), opened);

    for session in [voice, transcription, from_page] {
        session.close().await;
    }
    eventually("closed sessions are not listed", async || {
        viewer.list("").await["data"] == json!([])
    })
    .await;
    scene.finish().await;
}

#[tokio::test]
async fn an_operator_ends_a_session_whose_response_is_settled() {
    let scene = Scene::start().await;
    let [viewer, support] = [("vi", "viewer"), ("jo", "support")];
    let viewer = Operator::new(&scene, viewer.0, viewer.1).await;
    let support = Operator::new(&scene, support.0, support.1).await;
    let mut untouched = Session::voice(&scene).await;
    let mut session = Session::voice(&scene).await;
    session
        .write(&"One two three four five six seven. ".repeat(20))
        .await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    let id = id_of(&session);
    assert_error("viewer", &viewer.end(&id).await, "permission_denied", None);
    let ended = support.end(&id).await;
    assert_eq!(
        (ended.status, &ended.json()["id"]),
        (200, &json!(id)),
        "{}",
        ended.text()
    );
    let (code, events) = session.closed().await;
    assert_eq!(code, 1008);
    let done = &events.last().unwrap()["response"];
    assert_eq!(
        (&done["status"], &done["status_details"]["reason"]),
        (&json!("cancelled"), &json!("client_cancelled")),
        "{done}"
    );
    let row = scene.row(done["request_id"].as_str().unwrap()).await;
    assert_eq!(
        (&row["outcome"], nanos(&row["cost"])),
        (&json!("cancelled"), nanos(&done["usage"]["cost"])),
        "{row}"
    );
    assert!(nanos(&row["cost"]) > 0, "{row}");
    scene.settled().await;

    let _ = untouched.ask("still here").await.completed();
    let unknown = "rtsess_00000000000000000000000000000001";
    for id in [&*id, unknown, "rtsess_x", &scene.key.id] {
        assert_error(id, &support.end(id).await, "not_found", None);
    }
    let log = ["audit", "list", "--actor", "jo"];
    let log = scene.gateway.command_line().run(&log).await;
    let done = log.as_array().unwrap().last().unwrap();
    assert_eq!(
        (
            &done["action"],
            &done["outcome"],
            &done["object"],
            &done["account"]
        ),
        (
            &json!("realtime_session.end"),
            &json!("done"),
            &json!(id),
            &json!(scene.account)
        ),
        "{log}"
    );
    scene.finish().await;
}

#[tokio::test]
async fn the_audio_of_an_ended_transcription_is_settled() {
    let scene = Scene::start().await;
    let mut session = Session::open(Handshake::new(&scene, "?model=sim/transcribe")).await;
    session.append(&silence(1_500)).await;
    session.pending().await;
    let id = id_of(&session);
    let commands = scene.gateway.command_line();
    let ended = commands.run(&["sessions", "end", &id]).await;
    assert_eq!(ended["id"], json!(id), "{ended}");
    assert_eq!(session.closed().await.0, 1008);
    let row = scene.row(&session.request_id).await;
    assert_eq!(
        (&row["usage"]["audio_microseconds"], &row["outcome"]),
        (&json!(1_500_000), &json!("ok")),
        "{row}"
    );
    let again = commands.try_run(&["sessions", "end", &id]).await;
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stderr.contains("tollgate sessions list"), "{again:?}");
    scene.settled().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_session_whose_client_does_not_read_can_be_ended() {
    let scene = Scene::start().await;
    let support = Operator::new(&scene, "jo", "support").await;
    let mut session = Session::voice(&scene).await;
    // Each item is repeated by two events, which the client does not read.
    let long = message(&"x".repeat(900_000));
    for _ in 0..3 {
        session
            .send(&json!({"type": "conversation.item.create", "item": long}))
            .await;
    }
    let ended = support.end(&id_of(&session)).await;
    assert_eq!(ended.status, 200, "{}", ended.text());
    assert_eq!(session.closed().await.0, 1008);
    eventually("the session is not listed", async || {
        support.list("").await["data"] == json!([])
    })
    .await;
    scene.finish().await;
}

#[tokio::test]
async fn each_node_lists_its_own_sessions() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let node = scene.gateway.start_node(options).await;
    let here = Operator::new(&scene, "jo", "owner").await;
    let there = here.at(&node).await;
    let mine = Session::voice(&scene).await;
    let mut theirs = Session::open(Handshake::new(&scene, "?model=sim/voice").at(&node)).await;
    let (first, second) = (here.list("").await, there.list("").await);
    assert_eq!(
        (ids(&first), ids(&second)),
        (vec![id_of(&mine)], vec![id_of(&theirs)])
    );
    assert_ne!(first["data"][0]["node"], second["data"][0]["node"]);
    // Only the node that serves a session can end it.
    let id = id_of(&theirs);
    assert_error("another node", &here.end(&id).await, "not_found", None);
    assert_eq!(there.end(&id).await.status, 200);
    assert_eq!(theirs.closed().await.0, 1008);
    drop(mine);
    node.finish().await;
    scene.finish().await;
}
