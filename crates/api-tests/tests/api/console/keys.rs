//! API keys of an account: creation, rotation, revocation, and who may do it.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;

use super::browser::{API, Browser};
use super::owner;
use super::people::invited;
use crate::scene::{CHAT, PLAIN, Scene, hello};

const KEYS: &str = "/console/api/v1/keys";

/// Returns the status of a call with a key.
async fn call(scene: &Scene, key: &Value) -> u16 {
    let body = hello(json!({"model": PLAIN}));
    let client = scene.client();
    client.post_json(CHAT, key.as_str().unwrap(), &body).await.status
}

async fn create(browser: &mut Browser, name: &str) -> Value {
    browser.done("POST", KEYS, &json!({"name": name})).await
}

/// Returns a listed key.
async fn listed(browser: &mut Browser, id: &Value) -> Value {
    let keys = browser.done("GET", KEYS, &Value::Null).await;
    let keys = keys["data"].as_array().unwrap();
    keys.iter().find(|key| key["id"] == *id).unwrap().clone()
}

async fn a_key_is_created_rotated_and_revoked(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let member = jo.session().await["accounts"][0]["member_id"].clone();
    for (body, param) in [
        (json!({}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": "x".repeat(101)}), "name"),
        (json!({"name": "x", "expires_in_days": 0}), "expires_in_days"),
        (json!({"name": "x", "mode": "both"}), "mode"),
        (json!({"name": "x", "compat": "loose"}), "compat"),
        (json!({"name": "x", "account": "y"}), "account"),
    ] {
        let (status, _, found) = jo.refused("POST", KEYS, &body).await;
        assert_eq!((status, &*found), (400, param), "{body}");
    }
    let first = jo
        .done(
            "POST",
            KEYS,
            &json!({"name": "production", "expires_in_days": 30, "compat": "strict"}),
        )
        .await;
    assert_eq!(call(&scene, &first["key"]).await, 200);
    let shown = listed(&mut jo, &first["id"]).await;
    assert_eq!(shown["created_by"], member);
    assert_eq!(
        (&shown["name"], &shown["state"]),
        (&json!("production"), &json!("active"))
    );
    assert_ne!(shown["last_used_at"], Value::Null);
    assert!(!shown.to_string().contains(first["key"].as_str().unwrap()));

    let path = format!("{KEYS}/{}", first["id"].as_str().unwrap());
    let renamed = jo.done("PATCH", &path, &json!({"name": "prod"})).await;
    assert_eq!(renamed["name"], "prod");
    let rotate = format!("{path}/rotate");
    for (body, param) in [
        (json!({}), "overlap_hours"),
        (json!({"overlap_hours": -1}), "overlap_hours"),
        (json!({"overlap_hours": 721}), "overlap_hours"),
        (json!({"overlap_hours": 1.5}), "overlap_hours"),
    ] {
        let (status, _, found) = jo.refused("POST", &rotate, &body).await;
        assert_eq!((status, &*found), (400, param), "{body}");
    }
    let second = jo.done("POST", &rotate, &json!({"overlap_hours": 720})).await;
    assert_eq!(
        (
            call(&scene, &first["key"]).await,
            call(&scene, &second["key"]).await
        ),
        (200, 200)
    );
    let old = listed(&mut jo, &first["id"]).await;
    assert_eq!(old["replaced_by"], second["id"]);
    let new = listed(&mut jo, &second["id"]).await;
    assert_eq!((&new["name"], &new["compat"]), (&json!("prod"), &json!("strict")));
    assert_ne!(new["expires_at"], Value::Null);
    let again = jo.refused("POST", &rotate, &json!({"overlap_hours": 1})).await;
    assert_eq!(
        (again.0, &*again.1),
        (409, "conflict"),
        "a replaced key is not rotated again"
    );

    // A second rotation ends the first key, and without overlap the second one, too.
    let rotate = format!("{KEYS}/{}/rotate", second["id"].as_str().unwrap());
    let third = jo.done("POST", &rotate, &json!({"overlap_hours": 0})).await;
    let calls = [
        call(&scene, &first["key"]).await,
        call(&scene, &second["key"]).await,
        call(&scene, &third["key"]).await,
    ];
    assert_eq!(calls, [401, 401, 200]);

    let path = format!("{KEYS}/{}", third["id"].as_str().unwrap());
    let revoked = jo.done("DELETE", &path, &Value::Null).await;
    assert_eq!(revoked["state"], "revoked");
    assert_eq!(call(&scene, &third["key"]).await, 401);
    scene.finish().await;
}

#[tokio::test]
async fn a_key_is_created_rotated_and_revoked_on_sqlite() {
    a_key_is_created_rotated_and_revoked(Storage::Sqlite).await;
}

#[tokio::test]
async fn a_key_is_created_rotated_and_revoked_on_postgres() {
    a_key_is_created_rotated_and_revoked(Storage::Postgres).await;
}

#[tokio::test]
async fn an_account_with_all_its_keys_can_rotate_them() {
    let scene = Scene::start_with("[limits]\nkeys = 3\n").await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    // The account of a scene has one key.
    create(&mut jo, "second").await;
    let third = create(&mut jo, "third").await;
    let full = jo.refused("POST", KEYS, &json!({"name": "fourth"})).await;
    assert_eq!((full.0, &*full.1), (422, "key_limit_reached"));
    let rotate = format!("{KEYS}/{}/rotate", third["id"].as_str().unwrap());
    let fourth = jo.done("POST", &rotate, &json!({"overlap_hours": 24})).await;
    assert_eq!(call(&scene, &third["key"]).await, 200);
    assert_eq!(call(&scene, &fourth["key"]).await, 200);
    let full = jo.refused("POST", KEYS, &json!({"name": "fifth"})).await;
    assert_eq!(full.0, 422, "a rotation frees no place");
    jo.done(
        "DELETE",
        &format!("{KEYS}/{}", fourth["id"].as_str().unwrap()),
        &Value::Null,
    )
    .await;
    create(&mut jo, "fifth").await;
    scene.finish().await;
}

#[tokio::test]
async fn members_manage_their_own_keys() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut al = invited(&scene, &mut jo, "al@example.com", "member").await;
    let mut admin = invited(&scene, &mut jo, "ad@example.com", "admin").await;
    let (of_jo, of_al) = (create(&mut jo, "of jo").await, create(&mut al, "of al").await);
    let path = |key: &Value| format!("{KEYS}/{}", key["id"].as_str().unwrap());
    let rotation = json!({"overlap_hours": 1});
    let requests = |key: &Value| {
        [
            ("PATCH", path(key), json!({"name": "new"})),
            ("POST", format!("{}/rotate", path(key)), rotation.clone()),
            ("DELETE", path(key), Value::Null),
        ]
    };
    let denied = (403, "permission_denied".to_owned(), "role".to_owned());
    for (method, path, body) in requests(&of_jo) {
        assert_eq!(al.refused(method, &path, &body).await, denied, "{method} {path}");
    }
    for (method, path, body) in requests(&of_al) {
        al.done(method, &path, &body).await;
    }
    let of_al = create(&mut al, "of al").await;
    for (method, path, body) in requests(&of_al) {
        admin.done(method, &path, &body).await;
    }
    for role in ["billing", "viewer"] {
        let mut reader = invited(&scene, &mut jo, &format!("{role}@example.com"), role).await;
        reader.done("GET", KEYS, &Value::Null).await;
        assert_eq!(reader.refused("POST", KEYS, &json!({"name": "x"})).await, denied);
        for (method, path, body) in requests(&of_jo) {
            assert_eq!(
                reader.refused(method, &path, &body).await,
                denied,
                "{role} {method} {path}"
            );
        }
    }

    // Keys of other accounts do not exist.
    let foreign = scene.gateway.command_line().create_account("foreign").await;
    let mut eve = owner(&scene.gateway, &foreign, "eve@example.com").await;
    let missing = json!({"id": format!("key_{}", "0".repeat(32))});
    for ((method, path, body), (_, unknown, _)) in requests(&of_jo).into_iter().zip(requests(&missing)) {
        let answer = eve.send(method, &path, &body).await;
        let expected = eve.send(method, &unknown, &body).await;
        assert_eq!(
            (answer.status, answer.json()),
            (404, expected.json()),
            "{method} {path}"
        );
    }
    assert_eq!(call(&scene, &of_jo["key"]).await, 200);

    // The keys of a removed member are revoked, unless `keep_keys` is set.
    for (keep, status) in [("", 401), ("?keep_keys=true", 200)] {
        let email = format!("bo{status}@example.com");
        let mut bo = invited(&scene, &mut jo, &email, "member").await;
        let key = create(&mut bo, "of bo").await;
        let id = bo.session().await["accounts"][0]["member_id"].clone();
        let path = format!("{API}/members/{}{keep}", id.as_str().unwrap());
        jo.done("DELETE", &path, &Value::Null).await;
        assert_eq!(call(&scene, &key["key"]).await, status, "{keep}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn operators_rotate_keys() {
    let scene = Scene::start().await;
    let commands = scene.gateway.command_line();
    let rotated = commands
        .run(&[
            "keys",
            "rotate",
            &scene.key.id,
            "--account",
            &scene.account,
            "--overlap-hours",
            "2",
        ])
        .await;
    assert_eq!(call(&scene, &rotated["key"]).await, 200);
    assert_eq!(call(&scene, &json!(scene.key.secret)).await, 200);
    let foreign = commands.create_account("foreign").await;
    let id = rotated["id"].as_str().unwrap();
    let refused = commands
        .try_run(&["keys", "rotate", id, "--account", &foreign])
        .await;
    assert_eq!(refused.code, 1, "{refused:?}");
    let invalid = commands
        .try_run(&[
            "keys",
            "rotate",
            id,
            "--account",
            &foreign,
            "--overlap-hours",
            "721",
        ])
        .await;
    assert_eq!(invalid.code, 2);
    scene.finish().await;
}
