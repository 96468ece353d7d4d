//! Sign-in by link and by password, sessions, step-up and lockout.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;

use super::browser::{API, Browser};
use super::{PASSWORD, link, owner};
use crate::scene::Scene;

const JO: &str = "jo@example.com";

async fn a_link_signs_in_once(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let mut browser = Browser::new(scene.client());
    assert_eq!(browser.session().await, Value::Null);
    let replaced = link(&scene.gateway, &["--account", &scene.account]).await;
    let token = link(&scene.gateway, &["--account", &scene.account]).await;
    let path = format!("{API}/sign-in/link");
    let gone = (410, "gone".to_owned(), String::new());
    let refused = browser.refused("POST", &path, &json!({"token": replaced})).await;
    assert_eq!(refused, gone, "a new link replaces the earlier one");

    // Of simultaneous redemptions, one succeeds.
    let attempts = (0..8).map(|_| {
        let mut browser = browser.clone();
        let (path, body) = (path.clone(), json!({"token": token}));
        tokio::spawn(async move {
            let response = browser.send("POST", &path, &body).await;
            (response.status, browser)
        })
    });
    let mut signed_in = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        let (status, browser) = attempt.await.unwrap();
        match status {
            200 => signed_in.push(browser),
            status => assert_eq!(status, 410),
        }
    }
    assert_eq!(signed_in.len(), 1);
    let mut browser = signed_in.pop().unwrap();
    let session = browser.session().await;
    assert_eq!(session["accounts"][0]["id"], scene.account.as_str());
    assert_eq!(session["accounts"][0]["role"], "owner");
    assert_eq!(session["person"]["email"], Value::Null);
    assert_eq!(session["setup_required"], true);

    for token in ["", "x", &"A".repeat(43), &token] {
        let refused = browser.refused("POST", &path, &json!({"token": token})).await;
        assert_eq!(refused, gone, "{token}");
    }
    let signed_out = format!("{API}/sign-out");
    let cookies = browser.cookies.clone();
    browser.done("POST", &signed_out, &Value::Null).await;
    assert!(browser.cookies.is_empty());
    browser.cookies = cookies;
    assert_eq!(browser.session().await, Value::Null, "the old cookie is invalid");
    scene.finish().await;
}

#[tokio::test]
async fn a_link_signs_in_once_on_sqlite() {
    a_link_signs_in_once(Storage::Sqlite).await;
}

#[tokio::test]
async fn a_link_signs_in_once_on_postgres() {
    a_link_signs_in_once(Storage::Postgres).await;
}

async fn a_person_signs_in_by_password(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let mut browser = Browser::new(scene.client());
    let token = link(&scene.gateway, &["--account", &scene.account]).await;
    browser.redeem(&token).await;
    let password = format!("{API}/credentials/password");
    for (body, param) in [
        (json!({}), "password"),
        (json!({"password": 1}), "password"),
        (json!({"password": "elevenchars"}), "password"),
        (json!({"password": "a b".repeat(43)}), "password"),
        (json!({"password": "Qwerty123456"}), "password"),
        (json!({"password": PASSWORD, "x": 1}), "x"),
    ] {
        let (status, _, found) = browser.refused("PUT", &password, &body).await;
        assert_eq!((status, &*found), (400, param), "{body}");
    }
    let person = format!("{API}/person");
    for body in [json!({"email": "jo"}), json!({"email": "jo@example.com\u{e9}"})] {
        let (status, _, param) = browser.refused("PATCH", &person, &body).await;
        assert_eq!((status, &*param), (400, "email"), "{body}");
    }
    browser.set_up("Jo@Example.com").await;
    let session = browser.session().await;
    assert_eq!(session["person"]["email"], JO);
    assert_eq!(session["setup_required"], false);
    let (status, _, param) = browser
        .refused("PATCH", &person, &json!({"email": "al@example.com"}))
        .await;
    assert_eq!((status, &*param), (409, "email"), "an address is set once");

    let mut other = Browser::new(scene.client());
    let wrong = other.sign_in(JO, "correct horse batterie").await;
    assert_eq!((wrong.status, &*wrong.error().code), (403, "permission_denied"));
    let unknown = other.sign_in("unknown@example.com", PASSWORD).await;
    assert_eq!(unknown.error().message, wrong.error().message);
    assert_eq!(other.sign_in(" JO@example.com ", PASSWORD).await.status, 200);
    assert!(other.cookies.contains_key("tollgate"));
    assert!(other.cookies.contains_key("tollgate-device"));

    let sessions = format!("{API}/sessions");
    let listed = browser.done("GET", &sessions, &Value::Null).await;
    let current: Vec<&Value> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["current"])
        .collect();
    assert_eq!(current, [false, true], "the newest first: {listed}");
    assert_eq!(listed["data"][0]["client"], "Firefox on Linux");

    // A new password ends the other sessions, and replaces the cookie of this one.
    let before = browser.cookies.clone();
    browser.set_password("another correct horse").await;
    assert_ne!(before["tollgate"], browser.cookies["tollgate"]);
    assert_eq!(other.session().await, Value::Null);
    assert_eq!(other.sign_in(JO, PASSWORD).await.status, 403);
    assert_eq!(other.sign_in(JO, "another correct horse").await.status, 200);

    let listed = browser.done("GET", &sessions, &Value::Null).await;
    let id = listed["data"][0]["id"].as_str().unwrap();
    browser
        .done("DELETE", &format!("{sessions}/{id}"), &Value::Null)
        .await;
    assert_eq!(other.session().await, Value::Null);
    let again = browser
        .refused("DELETE", &format!("{sessions}/{id}"), &Value::Null)
        .await;
    assert_eq!(again.0, 404);
    assert_eq!(other.sign_in(JO, "another correct horse").await.status, 200);
    let ended = browser.done("DELETE", &sessions, &Value::Null).await;
    assert_eq!(ended["ended"], 1);
    assert_ne!(browser.session().await, Value::Null);
    scene.finish().await;
}

#[tokio::test]
async fn a_person_signs_in_by_password_on_sqlite() {
    a_person_signs_in_by_password(Storage::Sqlite).await;
}

#[tokio::test]
async fn a_person_signs_in_by_password_on_postgres() {
    a_person_signs_in_by_password(Storage::Postgres).await;
}

#[tokio::test]
async fn an_address_is_locked_after_ten_wrong_passwords() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let mut known = owner(&scene.gateway, &scene.account, JO).await;
    assert_eq!(known.sign_in(JO, PASSWORD).await.status, 200);
    for address in [JO, "unknown@example.com"] {
        let mut stranger = Browser::new(scene.client());
        for attempt in 1..=10 {
            let wrong = stranger.sign_in(address, "a wrong password").await;
            assert_eq!(wrong.status, 403, "{address} {attempt}");
        }
        let locked = stranger.sign_in(address, PASSWORD).await;
        assert_eq!(
            (locked.status, &*locked.error().code),
            (429, "rate_limit_exceeded")
        );
        let seconds: u64 = locked.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=900).contains(&seconds), "{seconds}");
    }
    // The browser of the person is not locked, until it fails as often itself.
    assert_eq!(known.sign_in(JO, PASSWORD).await.status, 200);
    let cookies = known.cookies.clone();
    for _ in 0..10 {
        known.cookies = cookies.clone();
        assert_eq!(known.sign_in(JO, "a wrong password").await.status, 403);
    }
    assert_eq!(known.sign_in(JO, PASSWORD).await.status, 429);

    let mut stranger = Browser::new(scene.client());
    let database = scene.gateway.database().unwrap();
    let shift = |seconds: u64| {
        format!(
            "UPDATE sign_in_failure SET began_at = began_at - {0}, ends_at = ends_at - {0}",
            seconds * 1_000_000
        )
    };
    database.execute(&shift(800)).await;
    assert_eq!(stranger.sign_in(JO, PASSWORD).await.status, 429);
    database.execute(&shift(101)).await;
    assert_eq!(stranger.sign_in(JO, PASSWORD).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn sessions_and_links_expire() {
    let settings = "[console]\nsession_idle_hours = 2\nsession_max_days = 1\n";
    let scene = Scene::start_on(Storage::Postgres, settings).await;
    let database = scene.gateway.database().unwrap();
    let hour: u64 = 3_600_000_000;
    let columns = ["created_at", "last_seen_at", "expires_at", "proved_at"];
    let shift = |micros: u64, columns: &[&str]| {
        let changes: Vec<String> = columns
            .iter()
            .map(|column| format!("{column} = {column} - {micros}"))
            .collect();
        format!("UPDATE session SET {}", changes.join(", "))
    };
    let mut browser = owner(&scene.gateway, &scene.account, JO).await;
    database.execute(&shift(2 * hour - 100_000_000, &columns)).await;
    assert_ne!(browser.session().await, Value::Null, "idle for less than 2 hours");
    database.execute(&shift(2 * hour - 100_000_000, &columns)).await;
    assert_ne!(
        browser.session().await,
        Value::Null,
        "the request before counted as use"
    );
    database.execute(&shift(2 * hour, &columns)).await;
    assert_eq!(browser.session().await, Value::Null, "idle for 2 hours");
    assert_eq!(browser.sign_in(JO, PASSWORD).await.status, 200);
    let others = ["created_at", "expires_at", "proved_at"];
    database.execute(&shift(24 * hour - 100_000_000, &others)).await;
    assert_ne!(browser.session().await, Value::Null);
    database.execute(&shift(100_000_000, &others)).await;
    assert_eq!(browser.session().await, Value::Null, "a day after the sign-in");

    let token = link(&scene.gateway, &["--account", &scene.account, "--minutes", "1"]).await;
    database
        .execute("UPDATE sign_in_link SET expires_at = expires_at - 60000000")
        .await;
    let path = format!("{API}/sign-in/link");
    let expired = browser.refused("POST", &path, &json!({"token": token})).await;
    assert_eq!(expired.0, 410);
    scene.finish().await;
}

#[tokio::test]
async fn sensitive_changes_require_a_recent_sign_in() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let database = scene.gateway.database().unwrap();
    let mut browser = owner(&scene.gateway, &scene.account, JO).await;
    let invitations = format!("{API}/invitations");
    let invite = |address: &str, role: &str| json!({"email": address, "role": role});
    let age = |seconds: u64| {
        format!(
            "UPDATE session SET proved_at = proved_at - {}",
            seconds * 1_000_000
        )
    };
    database.execute(&age(800)).await;
    assert_eq!(browser.session().await["step_up_required"], false);
    browser
        .done("POST", &invitations, &invite("a@example.com", "admin"))
        .await;
    database.execute(&age(101)).await;
    assert_eq!(browser.session().await["step_up_required"], true);
    let step_up = (403, "permission_denied".to_owned(), "step_up".to_owned());
    let members = browser.done("GET", &format!("{API}/members"), &Value::Null).await;
    let admin = members["data"][1]["id"].as_str().unwrap();
    let admin = format!("{API}/members/{admin}");
    let secret = "/console/v1/account/webhook_secret";
    for (method, path, body) in [
        ("POST", &*invitations, invite("b@example.com", "owner")),
        ("PATCH", &*admin, json!({"role": "viewer"})),
        ("DELETE", &*admin, Value::Null),
        ("GET", secret, Value::Null),
        (
            "PUT",
            "/console/api/v1/credentials/password",
            json!({"password": PASSWORD}),
        ),
    ] {
        assert_eq!(
            browser.refused(method, path, &body).await,
            step_up,
            "{method} {path}"
        );
    }
    browser
        .done("POST", &invitations, &invite("c@example.com", "member"))
        .await;
    let wrong = browser
        .refused(
            "POST",
            &format!("{API}/step-up"),
            &json!({"password": "a wrong password"}),
        )
        .await;
    assert_eq!((wrong.0, &*wrong.2), (403, "password"));
    let before = browser.cookies["tollgate"].clone();
    let stepped = browser
        .done("POST", &format!("{API}/step-up"), &json!({"password": PASSWORD}))
        .await;
    assert_eq!(stepped["session"]["step_up_required"], false);
    assert_ne!(
        before, browser.cookies["tollgate"],
        "a step-up replaces the cookie"
    );
    let read = browser.done("GET", secret, &Value::Null).await;
    assert!(read["secret"].as_str().unwrap().starts_with("whsec_"));
    browser.done("DELETE", &admin, &Value::Null).await;
    scene.finish().await;
}

#[tokio::test]
async fn the_end_of_a_session_applies_to_every_node() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let node = scene
        .gateway
        .start_node(Scene::options(&scene.upstream, Storage::Postgres, ""))
        .await;
    let mut here = owner(&scene.gateway, &scene.account, JO).await;
    let mut there = here.at(node.client());
    assert_ne!(there.session().await, Value::Null);
    there.done("POST", &format!("{API}/sign-out"), &Value::Null).await;
    assert_eq!(here.session().await, Value::Null);
    let mut stranger = Browser::new(node.client());
    for _ in 0..5 {
        assert_eq!(stranger.sign_in(JO, "a wrong password").await.status, 403);
    }
    let mut stranger = Browser::new(scene.client());
    for _ in 0..5 {
        assert_eq!(stranger.sign_in(JO, "a wrong password").await.status, 403);
    }
    assert_eq!(
        stranger.sign_in(JO, PASSWORD).await.status,
        429,
        "both nodes count"
    );
    node.finish().await;
    scene.finish().await;
}
