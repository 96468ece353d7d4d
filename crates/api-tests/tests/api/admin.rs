//! The admin API of the built binary, together with the command line.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Client, Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};

use crate::scene::{MODEL, Scene, hello, settings};

/// Returns a client of the admin listener, whose address the gateway prints when it starts.
pub async fn admin_of(gateway: &Gateway) -> Client {
    eventually("the start message is printed", async || {
        gateway.stdout().contains("/metrics\n")
    })
    .await;
    let stdout = gateway.stdout();
    let (before, _) = stdout.split_once("/metrics\n").unwrap();
    let (_, address) = before.rsplit_once("http://").unwrap();
    Client::new(address.parse().unwrap())
}

/// Sends a request with a token. A null body sends no body.
pub async fn send(admin: &Client, method: &str, path: &str, token: &str, body: &Value) -> Response {
    let request = match body {
        Value::Null => Request::new(method, path),
        body => Request::json(path, body).with_method(method),
    };
    admin.send(&request.key(token)).await
}

async fn a_token_works_until_it_is_revoked(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let commands = scene.gateway.command_line();
    let made = commands
        .run(&["admins", "create", "jo", "--role", "support"])
        .await;
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let admin = admin_of(&scene.gateway).await;
    let account = format!("/admin/v1/accounts/{}", scene.account);
    let shown = send(&admin, "GET", &account, token, &Value::Null).await;
    assert_eq!(shown.status, 200, "{}", shown.text());
    assert_eq!(shown.json()["id"], scene.account.as_str());
    let as_key = scene.gateway.client().get("/v1/models", token).await;
    assert_eq!(as_key.status, 401, "a token is no key");
    let as_token = send(&admin, "GET", &account, &scene.key.secret, &Value::Null).await;
    assert_eq!(as_token.status, 401, "a key is no token");

    let suspended = send(&admin, "PATCH", &account, token, &json!({"state": "suspended"})).await;
    assert_eq!(suspended.status, 200, "{}", suspended.text());
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 401);
    let resumed = send(&admin, "PATCH", &account, token, &json!({"state": "active"})).await;
    assert_eq!(resumed.status, 200);
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    let grants = format!("{account}/grants");
    let denied = send(&admin, "POST", &grants, token, &json!({"amount": "5"})).await;
    assert_eq!(denied.status, 403, "{}", denied.text());
    assert_eq!(denied.error().code, "permission_denied");

    let log = commands
        .run(&["audit", "list", "--account", &scene.account, "--actor", "jo"])
        .await;
    let actions: Vec<String> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|line| format!("{} {}", line["action"], line["outcome"]).replace('"', ""))
        .collect();
    let expected = [
        "credits.grant permission_denied",
        "account.change done",
        "account.change done",
    ];
    assert_eq!(actions, expected);
    assert_eq!(log[0]["request_id"], denied.request_id());

    // A revocation takes effect immediately, even if the command line opens the database itself.
    commands.run(&["admins", "revoke", id]).await;
    let refused = send(&admin, "GET", &account, token, &Value::Null).await;
    assert_eq!(refused.status, 401);
    let log = commands
        .run(&["audit", "list", "--actor", "cli", "--limit", "1"])
        .await;
    assert_eq!(log[0]["action"], "admin.revoke");
    assert!(!scene.gateway.log().contains(token), "the token is in the log");
    scene.finish().await;
}

#[tokio::test]
async fn a_token_works_until_it_is_revoked_on_sqlite() {
    a_token_works_until_it_is_revoked(Storage::Sqlite).await;
}

#[tokio::test]
async fn a_token_works_until_it_is_revoked_on_postgres() {
    a_token_works_until_it_is_revoked(Storage::Postgres).await;
}

#[tokio::test]
async fn the_last_owner_of_an_account_cannot_be_demoted_or_removed() {
    let scene = Scene::start().await;
    let commands = scene.gateway.command_line();
    let add = [
        "members",
        "add",
        &scene.account,
        "Jo@Example.com",
        "--role",
        "owner",
    ];
    let owner = commands.run(&add).await;
    assert_eq!(owner["email"], "jo@example.com");
    let id = owner["id"].as_str().unwrap();
    for words in [
        vec!["members", "set-role", &scene.account, id, "viewer"],
        vec!["members", "remove", &scene.account, id],
    ] {
        let refused = commands.try_run(&words).await;
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("last owner"), "{refused:?}");
    }
    let listed = commands.run(&["members", "list", &scene.account]).await;
    assert_eq!(listed, json!([owner]));
    scene.finish().await;
}

#[tokio::test]
async fn implausible_price_changes_are_refused_at_reload_and_start() {
    let mut scene = Scene::start().await;
    let config = settings(&scene.upstream).replace("input = \"1\", cache_read", "input = \"11\", cache_read");
    scene.gateway.change_config(&config);
    let refusal = format!("{MODEL} input from 1 to 11");
    scene.gateway.wait_for_log(&refusal, 0).await;
    let check = scene.gateway.command_line().try_run(&["prices", "check"]).await;
    assert_eq!(check.code, 3, "{check:?}");
    scene.gateway.stop().await;
    let started = scene.gateway.command_line().try_run(&["serve"]).await;
    assert_eq!(started.code, 2, "{started:?}");
    assert!(
        started.stderr.contains(&refusal) && started.stderr.contains("--force"),
        "{started:?}"
    );
    let forced = scene
        .gateway
        .command_line()
        .run(&["prices", "check", "--force"])
        .await;
    assert_eq!(
        (&forced["clean"], &forced["forced"]),
        (&json!(false), &json!(true))
    );
    scene.gateway.restart().await;
    let history = scene.gateway.command_line().run(&["prices", "show", MODEL]).await;
    assert_eq!(
        (&history[0]["actor"], &history[0]["prices"]["input"]),
        (&json!("cli"), &json!("11"))
    );
    assert_eq!(
        (&history[1]["actor"], &history[1]["prices"]["input"]),
        (&json!("settings"), &json!("1"))
    );
    let listed = scene.gateway.command_line().run(&["providers", "list"]).await;
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .any(|provider| provider["name"] == "sim")
    );
    assert!(!listed.to_string().contains(crate::scene::PROVIDER_KEY));
    scene.finish().await;
}
