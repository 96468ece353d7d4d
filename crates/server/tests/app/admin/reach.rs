//! Endpoints for functions of the command line: exports, alerts, top-ups, models, plans.

use serde_json::{Value, json};
use tollgate_storage::Role;

use super::Office;
use crate::app::{MODELS, Tenant};

/// Sends a GET request as viewer, asserts status 200 and returns the body.
async fn text(office: &Office, path: &str) -> String {
    let answer = office.send(Role::Viewer, "GET", path, &Value::Null).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.text
}

#[tokio::test]
async fn rows_of_all_accounts_are_exported() {
    let office = Office::open().await;
    let mut ids = Vec::new();
    for calls in [1, 2] {
        let account = office.account().await;
        let id = account.rsplit('/').next().unwrap().to_owned();
        let key = office.done("POST", &format!("{account}/keys"), json!({})).await;
        let grants = format!("{account}/grants");
        office.done("POST", &grants, json!({"amount": "1"})).await;
        let tenant = Tenant {
            id: id.parse().unwrap(),
            key: key["key"].as_str().unwrap().to_owned(),
        };
        let body =
            json!({"model": MODELS[0], "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
        for _ in 0..calls {
            let called = office.scene.post(&tenant, "/v1/chat/completions", &body).await;
            assert_eq!(called.status, 200, "{}", called.text);
        }
        ids.push(id);
    }
    let (first, second) = (&ids[0], &ids[1]);

    let usage = "/admin/v1/usage/export";
    let csv = text(&office, usage).await;
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("account_id,id,request_id,"), "{csv}");
    let of = |id: &str| lines.iter().filter(|line| line.contains(id)).count();
    assert_eq!((lines.len(), of(first), of(second)), (4, 1, 2), "{csv}");
    let jsonl = text(&office, &format!("{usage}?format=jsonl&account={second}")).await;
    let rows: Vec<Value> = jsonl
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["account_id"] == **second), "{jsonl}");
    for nothing in ["from=2200-01-01", "to=2000-01-01"] {
        assert_eq!(
            text(&office, &format!("{usage}?{nothing}")).await,
            "",
            "{nothing}"
        );
    }

    // The account has more grants than a page can contain.
    let grants = format!("/admin/v1/accounts/{first}/grants");
    for _ in 0..501 {
        office.done("POST", &grants, json!({"amount": "0.001"})).await;
    }
    let ledger = format!("/admin/v1/ledger/export?format=jsonl&account={first}");
    let rows = text(&office, &ledger).await;
    let is_grant = |line: &&str| serde_json::from_str::<Value>(line).unwrap()["leg"] == "grant";
    assert_eq!(rows.lines().filter(is_grant).count(), 502);

    for (query, param) in [
        ("format=xml", "format"),
        ("from=yesterday", "from"),
        ("account=x", "account"),
    ] {
        let path = format!("{usage}?{query}");
        let refused = office.send(Role::Viewer, "GET", &path, &Value::Null).await;
        let found = (refused.status, &refused.body["error"]["param"]);
        assert_eq!(found, (400, &json!(param)), "{query}");
    }
    assert_eq!(
        office.get("/admin/v1/ledger/check?reprice=true").await["clean"],
        true
    );
    office.close().await;
}

#[tokio::test]
async fn accounts_are_found_by_name() {
    let office = Office::open().await;
    for name in ["Acme Ltd", "acme staging", "other", "Bäcker"] {
        office
            .done("POST", "/admin/v1/accounts", json!({"name": name}))
            .await;
    }
    for (query, expected, has_more) in [
        ("name=acme", &["Acme Ltd", "acme staging"][..], false),
        ("name=ACME%20l", &["Acme Ltd"], false),
        ("name=acme&limit=1", &["Acme Ltd"], true),
        ("name=b%C3%84cker", &["Bäcker"], false),
        ("name=nobody", &[], false),
    ] {
        let found = office.get(&format!("/admin/v1/accounts?{query}")).await;
        let names = found["data"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|account| account["name"].as_str().unwrap()).collect();
        assert_eq!(
            (&*names, &found["has_more"]),
            (expected, &json!(has_more)),
            "{query}"
        );
    }
    let first = office.get("/admin/v1/accounts?name=acme&limit=1").await;
    let after = first["data"][0]["id"].as_str().unwrap();
    let rest = office
        .get(&format!("/admin/v1/accounts?name=acme&after={after}"))
        .await;
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
    assert_eq!(rest["data"][0]["name"], "acme staging");
    office.close().await;
}

#[tokio::test]
async fn an_alert_is_set_shown_and_removed() {
    let office = Office::open().await;
    let account = office.account().await;
    let alert = format!("{account}/alert");
    let missing = office.send(Role::Owner, "GET", &alert, &Value::Null).await;
    assert_eq!(missing.status, 404, "{}", missing.text);
    let set = json!({"below": "5", "webhook": "https://example.com/hook"});
    let made = office.done("PUT", &alert, set.clone()).await;
    assert_eq!(
        (&made["below"], &made["webhook"]),
        (&set["below"], &set["webhook"])
    );
    assert_eq!(office.done("GET", &alert, Value::Null).await, made);
    let renewed = json!({"below": "6", "webhook": "https://example.com/hook", "new_secret": true});
    let renewed = office.done("PUT", &alert, renewed).await;
    assert_eq!(renewed["below"], "6");
    assert_ne!(renewed["webhook_secret"], made["webhook_secret"]);
    let deliveries = office.get(&format!("{alert}/deliveries")).await;
    assert_eq!(deliveries["data"], json!([]));
    assert_eq!(
        office.done("DELETE", &alert, Value::Null).await,
        json!({"done": true})
    );
    let gone = office.send(Role::Owner, "GET", &alert, &Value::Null).await;
    assert_eq!(gone.status, 404);
    let log = office.get("/admin/v1/audit-log?limit=100").await;
    let secret = made["webhook_secret"].as_str().unwrap();
    assert!(!log.to_string().contains(secret), "no secret is in the audit log");
    for action in ["alert.set", "alert.remove"] {
        let found = office.get(&format!("/admin/v1/audit-log?action={action}")).await;
        assert!(!found["data"].as_array().unwrap().is_empty(), "{action}");
    }
    office.close().await;
}

#[tokio::test]
async fn a_plan_is_changed_over_http() {
    let office = Office::open().await;
    let account = office.account().await;
    let grants = format!("{account}/grants");
    office.done("POST", &grants, json!({"amount": "500"})).await;
    let subscriptions = format!("{account}/subscriptions");
    let made = office.done("POST", &subscriptions, json!({"plan": "pro"})).await;
    let of = |made: &Value| format!("/admin/v1/subscriptions/{}", made["id"].as_str().unwrap());
    let change = format!("{}/change-plan", of(&made));
    let billing = async |plan: &str| {
        let answer = office
            .send(Role::Billing, "POST", &change, &json!({"plan": plan}))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body
    };
    assert_eq!(billing("lite").await["next_plan"], json!(["lite", "monthly"]));
    assert_eq!(billing("pro").await["next_plan"], Value::Null, "taken back");
    let larger = billing("max").await;
    assert_eq!(
        (&larger["subject"], &larger["state"]),
        (&json!("max"), &json!("active"))
    );
    assert_ne!(larger["id"], made["id"]);
    office.close().await;
}

#[tokio::test]
async fn models_and_top_ups_are_listed() {
    let office = Office::open().await;
    let models = office.get("/admin/v1/models").await;
    let models = models["data"].as_array().unwrap();
    let image = models.iter().find(|model| model["id"] == "sim/image").unwrap();
    assert_eq!(image["prices"], json!({"image": "0.01"}));
    assert!(models.iter().any(|model| model["id"] == MODELS[0]));
    assert_eq!(
        office.get("/admin/v1/top-ups").await,
        json!({"data": [], "has_more": false})
    );
    let bounded = office
        .send(Role::Viewer, "GET", "/admin/v1/top-ups?limit=101", &Value::Null)
        .await;
    assert_eq!(
        (bounded.status, &bounded.body["error"]["param"]),
        (400, &json!("limit"))
    );
    // No payment provider is configured.
    let account = office.account().await;
    let refused = office
        .send(
            Role::Billing,
            "POST",
            &format!("{account}/top-ups"),
            &json!({"credits": "5"}),
        )
        .await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    office.close().await;
}
