//! Balance, lots, statements, plans, limits and the audit log of the account of a session.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;

use super::browser::{API, Browser};
use super::owner;
use super::people::invited;
use crate::scene::{CHAT, PLAIN, Scene, hello};

async fn get(browser: &mut Browser, path: &str) -> Value {
    browser.done("GET", &format!("{API}{path}"), &Value::Null).await
}

async fn refused(browser: &mut Browser, path: &str) -> (u16, String, String) {
    browser
        .refused("GET", &format!("{API}{path}"), &Value::Null)
        .await
}

async fn members_read_the_money_of_their_account(storage: Storage) {
    let plans = "[plans.pro]\nprice = \"20\"\nallowance = \"25\"\n";
    let scene = Scene::start_on(storage, plans).await;
    let commands = scene.gateway.command_line();
    let (foreign, secret_note) = (commands.create_account("foreign").await, "ask Bob first");
    let grant = [
        "credits",
        "grant",
        &scene.account,
        "5",
        "--kind",
        "promotion",
        "--note",
        secret_note,
    ];
    commands.run(&grant).await;
    commands.run(&["credits", "grant", &foreign, "77"]).await;
    commands
        .run(&[
            "subscriptions",
            "create",
            "--account",
            &scene.account,
            "--plan",
            "pro",
        ])
        .await;
    let call = hello(json!({"model": PLAIN}));
    let call = scene.client().post_json(CHAT, &scene.key.secret, &call).await;
    assert_eq!(call.status, 200);
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut viewer = invited(&scene, &mut jo, "vi@example.com", "viewer").await;
    let cli = commands.run(&["credits", "balance", &scene.account]).await;
    for browser in [&mut jo, &mut viewer] {
        let balance = get(browser, "/balance").await;
        assert_eq!(balance, cli, "as the command line");
        let lots = get(browser, "/lots").await;
        let kinds: Vec<&str> = lots["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lot| lot["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds.len(), 2, "{lots}");
        assert!(
            kinds.contains(&"promotion") && kinds.contains(&"purchase"),
            "{lots}"
        );
        assert!(!lots.to_string().contains(secret_note), "a note is for operators");
        let offered = get(browser, "/plans").await;
        assert_eq!(offered["data"][0]["name"], "pro");
        assert_eq!(offered["subscriptions"][0]["subject"], "pro");
        assert_eq!(offered["subscriptions"][0]["state"], "active");
    }
    let lots = get(&mut jo, "/lots").await;
    let month = &lots["data"][0]["created_at"].as_str().unwrap()[..7];
    let statement = get(&mut viewer, &format!("/statements/{month}")).await;
    assert_eq!(statement["promotions"], "5");
    assert_eq!(statement["plan_fees"], "20");
    assert_eq!(statement["faults"], json!([]));
    for (month, param) in [("2026-13", "month"), ("2999-01", "month"), ("x", "month")] {
        let (status, _, found) = refused(&mut jo, &format!("/statements/{month}")).await;
        assert_eq!((status, &*found), (400, param), "{month}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn members_read_the_money_of_their_account_on_sqlite() {
    members_read_the_money_of_their_account(Storage::Sqlite).await;
}

#[tokio::test]
async fn members_read_the_money_of_their_account_on_postgres() {
    members_read_the_money_of_their_account(Storage::Postgres).await;
}

#[tokio::test]
async fn limits_show_their_present_use() {
    let scene = Scene::start_with("[limits]\nrpm = 30\nkeys = 7\n").await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let limit = |limits: &Value, name: &str| {
        let found = limits["data"].as_array().unwrap().iter();
        let found = found.clone().find(|limit| limit["name"] == name).unwrap();
        (found["limit"].as_u64().unwrap(), found["used"].as_u64())
    };
    let before = get(&mut jo, "/limits").await;
    assert_eq!(
        limit(&before, "rpm"),
        (30, Some(0)),
        "reads of the console do not count"
    );
    assert_eq!(limit(&before, "keys"), (7, Some(1)));
    assert_eq!(limit(&before, "files").1, Some(0));
    let call = hello(json!({"model": PLAIN}));
    assert_eq!(
        scene
            .client()
            .post_json(CHAT, &scene.key.secret, &call)
            .await
            .status,
        200
    );
    jo.done("POST", &format!("{API}/keys"), &json!({"name": "second"}))
        .await;
    let after = get(&mut jo, "/limits").await;
    assert_eq!(limit(&after, "rpm"), (30, Some(1)));
    assert_eq!(limit(&after, "keys"), (7, Some(2)));
    assert!(limit(&after, "tpm").1 > Some(0), "{after}");
    scene.finish().await;
}

#[tokio::test]
async fn the_audit_log_shows_changes_without_the_words_of_operators() {
    let scene = Scene::start().await;
    let commands = scene.gateway.command_line();
    let foreign = commands.create_account("foreign").await;
    commands
        .run(&["credits", "grant", &scene.account, "5", "--note", "between us"])
        .await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    jo.done("POST", &format!("{API}/keys"), &json!({"name": "second"}))
        .await;
    let mut eve = owner(&scene.gateway, &foreign, "eve@example.com").await;
    eve.done("POST", &format!("{API}/keys"), &json!({"name": "of eve"}))
        .await;

    let log = get(&mut jo, "/audit-log").await;
    let entries = log["data"].as_array().unwrap();
    let created = &entries[0];
    assert_eq!(
        (&created["action"], &created["actor"], &created["outcome"]),
        (&json!("key.create"), &json!("jo@example.com"), &json!("done"))
    );
    assert_ne!(created["member_id"], Value::Null);
    let grant = entries
        .iter()
        .find(|entry| entry["action"] == "credits.grant")
        .unwrap();
    assert_eq!(
        (&grant["actor"], &grant["after"]),
        (&json!("operator"), &Value::Null)
    );
    assert!(
        !log.to_string().contains("between us") && !log.to_string().contains("\"cli\""),
        "{log}"
    );
    assert!(
        !log.to_string().contains("of eve") && !log.to_string().contains(&foreign),
        "{log}"
    );

    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = get(&mut jo, &format!("/audit-log?limit=1{after}")).await;
        let id = page["data"][0]["id"].as_str().unwrap().to_owned();
        after = format!("&after={id}");
        seen.push(id);
        if page["has_more"] == false {
            break;
        }
    }
    let ids: Vec<&str> = entries
        .iter()
        .map(|entry| entry["id"].as_str().unwrap())
        .collect();
    assert_eq!(seen, ids);
    let keys = get(&mut jo, "/audit-log?action=key.create").await;
    assert!(
        keys["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|entry| entry["action"] == "key.create")
    );
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("after=x", "after"),
        ("x=1", "x"),
    ] {
        let (_, _, found) = refused(&mut jo, &format!("/audit-log?{query}")).await;
        assert_eq!(found, param, "{query}");
    }
    assert_eq!(get(&mut jo, "/audit-log?limit=200").await["has_more"], false);
    for role in ["billing", "member", "viewer"] {
        let mut browser = invited(&scene, &mut jo, &format!("{role}@example.com"), role).await;
        for path in ["/audit-log", "/deliveries", "/alerts/deliveries"] {
            let found = refused(&mut browser, path).await;
            assert_eq!((found.0, &*found.2), (403, "role"), "{role} {path}");
        }
    }
    assert_eq!(get(&mut jo, "/alerts/deliveries").await["data"], json!([]));
    scene.finish().await;
}
