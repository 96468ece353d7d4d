//! Client secrets that members create in the console, and the sessions that they open.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;

use super::browser::{API, Browser};
use super::people::invited;
use super::{PASSWORD, owner};
use crate::realtime::client::{Handshake, Session};
use crate::scene::Scene;

const SECRETS: &str = "/console/v1/realtime/client_secrets";
/// Address of the page in the test browsers.
const PAGE: &str = "http://localhost:8080";

fn body() -> Value {
    json!({
        "expires_after": {"anchor": "created_at", "seconds": 600},
        "session": {"type": "realtime", "model": "sim/voice"},
        "allowed_origins": [PAGE]
    })
}

/// Creates a secret with the session of a browser, and returns its handshake without an origin.
async fn secret(scene: &Scene, browser: &mut Browser) -> Handshake {
    let secret = browser.done("POST", SECRETS, &body()).await;
    let protocol = format!(
        "realtime, openai-insecure-api-key.{}",
        secret["value"].as_str().unwrap()
    );
    Handshake::anonymous(scene, "").header("sec-websocket-protocol", protocol)
}

/// Returns a handshake of a page of an origin.
fn from(handshake: &Handshake, origin: &str) -> Handshake {
    handshake.clone().header("origin", origin)
}

async fn assert_refused(handshake: Handshake) {
    let refused = handshake.open().await.err().unwrap();
    assert_eq!(refused.parts(), (401, "invalid_api_key", None));
}

/// Checks that a member's session pays as the member's other calls, and that its secret ends with
/// the session of the console and with the membership.
async fn members_talk_in_the_console(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut al = invited(&scene, &mut jo, "al@example.com", "member").await;
    let members = jo.done("GET", &format!("{API}/members"), &Value::Null).await;
    let al_id = members["data"][1]["id"].as_str().unwrap().to_owned();

    let first = secret(&scene, &mut al).await;
    let mut session = Session::open(from(&first, PAGE)).await;
    let reply = session.ask("Good morning.").await.completed();
    assert_eq!(reply.transcript, "Good morning.");
    let row = scene.row(reply.request_id()).await;
    assert_eq!((&row["member_id"], &row["key_id"]), (&json!(al_id), &Value::Null));
    assert_eq!(row["cost"], reply.response["usage"]["cost"]);

    // The end of the session in this browser ends its secrets, and no secret of another browser.
    let mut elsewhere = Browser::new(scene.client());
    assert_eq!(elsewhere.sign_in("al@example.com", PASSWORD).await.status, 200);
    elsewhere.account = scene.account.clone();
    let second = secret(&scene, &mut elsewhere).await;
    al.done("POST", &format!("{API}/sign-out"), &Value::Null).await;
    assert_refused(from(&first, PAGE)).await;
    Session::open(from(&second, PAGE)).await.close().await;
    let _ = session.ask("The open session continues.").await.completed();
    session.close().await;

    jo.done("DELETE", &format!("{API}/members/{al_id}"), &Value::Null)
        .await;
    assert_refused(from(&second, PAGE)).await;
    scene.finish().await;
}

#[tokio::test]
async fn members_talk_in_the_console_on_sqlite() {
    members_talk_in_the_console(Storage::Sqlite).await;
}

#[tokio::test]
async fn members_talk_in_the_console_on_postgres() {
    members_talk_in_the_console(Storage::Postgres).await;
}

#[tokio::test]
async fn only_members_who_make_calls_create_secrets() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    for (role, status) in [("viewer", 403), ("billing", 403), ("member", 200), ("admin", 200)] {
        let mut browser = invited(&scene, &mut jo, &format!("{role}@example.com"), role).await;
        let response = browser.send("POST", SECRETS, &body()).await;
        assert_eq!(response.status, status, "{role}: {}", response.text());
        if status == 403 {
            assert_eq!(response.error().code, "permission_denied");
        }
    }
    // Another account is unknown to the person.
    let foreign = scene.gateway.command_line().create_account("foreign").await;
    jo.account = foreign;
    assert_eq!(jo.refused("POST", SECRETS, &body()).await.0, 404);
    jo.account = scene.account.clone();

    // A role without calls ends the secrets of the member.
    let mut kim = invited(&scene, &mut jo, "kim@example.com", "member").await;
    let handshake = secret(&scene, &mut kim).await;
    Session::open(from(&handshake, PAGE)).await.close().await;
    let refused = from(&handshake, "https://evil.example")
        .open()
        .await
        .err()
        .unwrap();
    assert_eq!(refused.parts(), (403, "permission_denied", None));
    let members = jo.done("GET", &format!("{API}/members"), &Value::Null).await;
    let is_kim = |member: &&Value| member["email"] == "kim@example.com";
    let kim = members["data"].as_array().unwrap().iter().find(is_kim).unwrap();
    let path = format!("{API}/members/{}", kim["id"].as_str().unwrap());
    jo.done("PATCH", &path, &json!({"role": "viewer"})).await;
    assert_refused(from(&handshake, PAGE)).await;
    scene.finish().await;
}
