//! Accounts, keys, credits and subscriptions.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_storage::Role;
use tollgate_types::Timestamp;

use super::Office;
use crate::app::{MODELS, Tenant};

#[tokio::test]
async fn an_account_from_its_making_to_its_statement() {
    let office = Office::open().await;
    let account = office.account().await;
    let of = |rest: &str| format!("{account}{rest}");
    let id = account.rsplit('/').next().unwrap();
    let key = office
        .done("POST", &of("/keys"), json!({"name": "ci", "compat": "lenient"}))
        .await;
    let last_use = async || office.get(&of("/keys")).await["data"][0]["last_used_at"].clone();
    assert_eq!(last_use().await, Value::Null);
    office
        .done(
            "POST",
            &of("/grants"),
            json!({"amount": "10", "kind": "promotion", "expires_in_days": 30}),
        )
        .await;
    let tenant = Tenant {
        id: id.parse().unwrap(),
        key: key["key"].as_str().unwrap().to_owned(),
    };
    let body =
        json!({"model": MODELS[0], "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]});
    let call = || office.scene.post(&tenant, "/v1/chat/completions", &body);
    let called = call().await;
    assert_eq!(called.status, 200, "{}", called.text);
    let request = called.request_id.unwrap();

    let usage = office.get(&of("/usage?limit=1")).await;
    let row = &usage["data"][0];
    assert_eq!(
        (&row["request_id"], &usage["has_more"]),
        (&json!(request), &json!(false))
    );
    let cost = row["cost"].as_str().unwrap();
    assert_ne!(cost, "0");
    assert_eq!(last_use().await, row["created_at"]);
    let other = office.account().await;
    let refund = json!({"request_id": request, "reason": "wrong language"});
    let elsewhere = office
        .send(Role::Billing, "POST", &format!("{other}/refunds"), &refund)
        .await;
    assert_eq!(elsewhere.status, 404, "{}", elsewhere.text);
    for repeated in [false, true] {
        let given = office.done("POST", &of("/refunds"), refund.clone()).await;
        assert_eq!(
            (&given["credits"], &given["repeated"]),
            (&json!(cost), &json!(repeated))
        );
    }
    assert_eq!(office.get(&of("/balance")).await["credits"], "10");
    let month = &row["created_at"].as_str().unwrap()[..7];
    let statement = office.get(&of(&format!("/statement?month={month}"))).await;
    assert_eq!(statement["promotions"], "10");
    assert_eq!(
        (&statement["refunds"], &statement["charged"]),
        (&json!(cost), &json!(cost))
    );
    assert_eq!(statement["faults"], json!([]));

    office
        .done("PATCH", &account, json!({"state": "suspended"}))
        .await;
    assert_eq!(
        call().await.status,
        401,
        "the keys of a suspended account do not work"
    );
    office
        .done("PATCH", &account, json!({"state": "active", "rpm": 1000}))
        .await;
    assert_eq!(call().await.status, 200);
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().unwrap());
    assert_eq!(
        office.done("PATCH", &path, json!({"compat": "strict"})).await["compat"],
        "strict"
    );
    let waiting = office.done("PATCH", &path, json!({"sync": true})).await;
    assert_eq!(
        (&waiting["sync"], &waiting["compat"]),
        (&json!(true), &json!("strict"))
    );
    for (change, param) in [(json!({}), "compat"), (json!({"sync": "yes"}), "sync")] {
        let refused = office.send(Role::Owner, "PATCH", &path, &change).await;
        assert_eq!(
            (refused.status, &refused.body["error"]["param"]),
            (400, &json!(param)),
            "{change}"
        );
    }
    assert_eq!(
        office.done("DELETE", &path, Value::Null).await["state"],
        "revoked"
    );
    assert_eq!(call().await.status, 401, "a revoked key does not work");
    assert_eq!(office.get(&of("/keys")).await["data"][0]["name"], "ci");
    office.close().await;
}

#[tokio::test]
async fn accounts_have_their_names_beside_their_ids() {
    let office = Office::open().await;
    let account = office.account().await;
    let of = |rest: &str| format!("{account}{rest}");
    let key = office.done("POST", &of("/keys"), json!({})).await;
    office
        .done("POST", &of("/grants"), json!({"amount": "1000"}))
        .await;
    let tenant = Tenant {
        id: account.rsplit('/').next().unwrap().parse().unwrap(),
        key: key["key"].as_str().unwrap().to_owned(),
    };
    let body =
        json!({"model": MODELS[0], "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]});
    let called = office.scene.post(&tenant, "/v1/chat/completions", &body).await;
    let refund = json!({"request_id": called.request_id.unwrap()});
    let refund = office.done("POST", &of("/refunds"), refund).await;
    let plans = office.get("/admin/v1/plans").await;
    let plan = json!({"plan": plans["data"][0]["name"]});
    let made = office.done("POST", &of("/subscriptions"), plan).await;
    let month = &refund["created_at"].as_str().unwrap()[..7];
    let statement = office.get(&of(&format!("/statement?month={month}"))).await;
    for view in [&refund, &made, &statement] {
        assert_eq!(
            (&view["account"], &view["account_name"]),
            (&json!(tenant.id), &json!("acme"))
        );
    }

    // Responses show the current name, and the audit log stores no names.
    office.done("PATCH", &account, json!({"name": "Acme Ltd"})).await;
    let log = office.get("/admin/v1/audit-log?limit=100").await;
    for line in log["data"].as_array().unwrap() {
        assert_eq!(line["account_name"], "Acme Ltd", "{line}");
        assert!(!line["after"].to_string().contains("account_name"), "{line}");
    }
    let listed = office.get(&of("/subscriptions")).await;
    assert_eq!(listed["data"][0]["account_name"], "Acme Ltd");
    office.close().await;
}

#[tokio::test]
async fn limits_are_held_to_and_taken_away() {
    let office = Office::open().await;
    let account = office.account().await;
    let keys = format!("{account}/keys");
    let limits = json!({"rpm": 2, "tpm": 9_000_000_000_u64, "keys": 1, "gpus": 0, "agents": 2, "chats": 3,
        "files": 0, "files_gib": 5, "batch_tokens": 9_000_000_000_u64});
    let changed = office.done("PATCH", &account, limits.clone()).await;
    for (name, value) in limits.as_object().unwrap() {
        assert_eq!(&changed[name], value);
    }
    office.done("POST", &keys, json!({})).await;
    let refused = office.send(Role::Support, "POST", &keys, &json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["error"]["code"]),
        (422, &json!("key_limit_reached"))
    );
    let changed = office
        .done("PATCH", &account, json!({"keys": null, "gpus": null}))
        .await;
    assert_eq!(
        (&changed["keys"], &changed["gpus"], &changed["rpm"]),
        (&Value::Null, &Value::Null, &json!(2))
    );
    office
        .done("POST", &keys, json!({"mode": "test", "expires_in_days": 1}))
        .await;
    let listed = office.get("/admin/v1/accounts?limit=1").await;
    assert_eq!(
        (&listed["data"][0]["chats"], &listed["has_more"]),
        (&json!(3), &json!(false))
    );
    office.account().await;
    let listed = office.get("/admin/v1/accounts?limit=1").await;
    assert_eq!(listed["has_more"], true);
    let after = listed["data"][0]["id"].as_str().unwrap();
    let rest = office.get(&format!("/admin/v1/accounts?after={after}")).await;
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
    office.close().await;
}

#[tokio::test]
async fn a_grant_under_an_id_happens_once() {
    let office = Office::open().await;
    let account = office.account().await;
    let grants = format!("{account}/grants");
    let grant =
        json!({"id": "invoice-17", "amount": "2.5", "priority": 3, "expires_in_days": 9, "note": "paid"});
    let first = office.done("POST", &grants, grant.clone()).await;
    assert_eq!(
        (&first["repeated"], &first["credits"]),
        (&json!(false), &json!("2.5"))
    );
    let again = office.done("POST", &grants, grant.clone()).await;
    assert_eq!(
        (&again["repeated"], &again["credits"]),
        (&json!(true), &json!("2.5"))
    );
    assert_eq!(
        (&again["id"], &again["expires_at"]),
        (&first["id"], &first["expires_at"])
    );
    for (name, value) in [
        ("amount", json!("2.6")),
        ("priority", json!(4)),
        ("kind", json!("promotion")),
        ("note", json!("")),
        ("expires_in_days", Value::Null),
    ] {
        let mut other = grant.clone();
        other[name] = value;
        let answer = office.send(Role::Billing, "POST", &grants, &other).await;
        assert_eq!(answer.status, 409, "{name}: {}", answer.text);
    }
    // Grant ids are unique within an account. A request without an id always creates another grant.
    let other = format!("{}/grants", office.account().await);
    assert_eq!(office.done("POST", &other, grant).await["repeated"], false);
    for credits in ["3.5", "4.5"] {
        let plain = office.done("POST", &grants, json!({"amount": "1"})).await;
        assert_eq!(plain["credits"], credits);
    }
    let listed = office.get(&grants).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 3);
    assert_eq!(listed["data"][0]["priority"], 3);
    let path = format!("/admin/v1/grants/{}/withdraw", first["id"].as_str().unwrap());
    assert_eq!(office.done("POST", &path, Value::Null).await["withdrawn"], "2.5");
    assert_eq!(office.get(&format!("{account}/balance")).await["credits"], "2");
    office.close().await;
}

#[tokio::test]
async fn a_plan_is_subscribed_to_canceled_and_resumed() {
    let office = Office::open().await;
    let account = office.account().await;
    let plans = office.get("/admin/v1/plans").await;
    let plan = &plans["data"][0];
    let subscriptions = format!("{account}/subscriptions");
    let change = json!({"plan": plan["name"]});
    let poor = office.send(Role::Billing, "POST", &subscriptions, &change).await;
    assert_eq!(poor.status, 402, "{}", poor.text);
    office
        .done("POST", &format!("{account}/grants"), json!({"amount": "1000"}))
        .await;
    let made = office.done("POST", &subscriptions, change).await;
    assert_eq!(
        (&made["state"], &made["subject"]),
        (&json!("active"), &plan["name"])
    );
    let path = format!("/admin/v1/subscriptions/{}", made["id"].as_str().unwrap());
    for (change, ends) in [("cancel", true), ("resume", false)] {
        let changed = office
            .done("POST", &format!("{path}/{change}"), Value::Null)
            .await;
        assert_eq!(changed["cancel_at_period_end"], ends);
    }
    let events = office.get(&path).await;
    assert_eq!(events["events"].as_array().unwrap().len(), 3);
    assert_eq!(
        office.get(&subscriptions).await["data"].as_array().unwrap().len(),
        1
    );
    let log = office.get("/admin/v1/audit-log?action=subscription.cancel").await;
    assert_eq!(log["data"][0]["account"], account.rsplit('/').next().unwrap());
    office.close().await;
}

#[tokio::test]
async fn a_test_clock_is_advanced() {
    let office = Office::open().await;
    let made = office
        .done(
            "POST",
            "/admin/v1/accounts",
            json!({"name": "clocked", "test_clock": true}),
        )
        .await;
    assert_eq!(made["test_clock"], 0);
    let account = format!("/admin/v1/accounts/{}", made["id"].as_str().unwrap());
    let path = format!("{account}/advance");
    let created = Timestamp::parse(made["created_at"].as_str().unwrap()).unwrap();
    let to = json!({"to": created.plus(Duration::from_secs(90 * 24 * 60 * 60)).to_rfc3339()});
    let support = office.send(Role::Support, "POST", &path, &to).await;
    assert_eq!(support.status, 403, "{}", support.text);
    let advanced = office.done("POST", &path, to.clone()).await;
    assert!(
        advanced["test_clock"].as_u64().unwrap() > 80 * 24 * 60 * 60,
        "{advanced}"
    );
    assert_eq!(office.get(&account).await["test_clock"], advanced["test_clock"]);
    for (path, body) in [
        (&path, to.clone()),
        (&path, json!({})),
        (&format!("{}/advance", office.account().await), to),
    ] {
        let refused = office.send(Role::Owner, "POST", path, &body).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains("\"param\":\"to\""), "{}", refused.text);
    }
    let id = made["id"].as_str().unwrap();
    let log = office
        .get(&format!(
            "/admin/v1/audit-log?action=account.advance&account={id}"
        ))
        .await;
    let entries = log["data"].as_array().unwrap();
    let done = entries.iter().filter(|entry| entry["outcome"] == "done");
    assert_eq!(done.count(), 1, "{log}");
    office.close().await;
}

#[tokio::test]
async fn a_closed_account_keeps_its_ledger_and_accepts_no_calls() {
    let office = Office::open().await;
    let account = office.account().await;
    let of = |rest: &str| format!("{account}{rest}");
    let key = office.done("POST", &of("/keys"), json!({})).await;
    let tenant = Tenant {
        id: account.rsplit('/').next().unwrap().parse().unwrap(),
        key: key["key"].as_str().unwrap().to_owned(),
    };
    office.done("POST", &of("/grants"), json!({"amount": "10"})).await;
    let body =
        json!({"model": MODELS[0], "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]});
    let called = office.scene.post(&tenant, "/v1/chat/completions", &body).await;
    assert_eq!(called.status, 200, "{}", called.text);
    let active = office
        .send(Role::Owner, "POST", &of("/close"), &Value::Null)
        .await;
    assert_eq!(
        (active.status, &active.body["error"]["code"]),
        (409, &json!("conflict"))
    );
    assert!(active.text.contains("Suspend it first"), "{}", active.text);
    office
        .done("PATCH", &account, json!({"state": "suspended"}))
        .await;
    let balance = office.get(&of("/balance")).await;
    let closed = office.done("POST", &of("/close"), Value::Null).await;
    assert_eq!(
        (&closed["state"], &closed["name"]),
        (&json!("closed"), &json!("closed account"))
    );
    assert_eq!(office.get(&of("/balance")).await, balance);
    assert_eq!(
        office.get(&of("/usage")).await["data"].as_array().unwrap().len(),
        1
    );
    assert_eq!(office.get(&of("/keys")).await["data"][0]["state"], "revoked");
    for (method, path, body) in [
        ("PATCH", of(""), json!({"state": "active"})),
        ("PATCH", of(""), json!({"name": "again"})),
        ("POST", of("/keys"), json!({})),
        ("POST", of("/grants"), json!({"amount": "1"})),
        (
            "POST",
            of("/members"),
            json!({"email": "a@example.com", "role": "owner"}),
        ),
        ("POST", of("/subscriptions"), json!({"plan": "lite"})),
    ] {
        let refused = office.send(Role::Owner, method, &path, &body).await;
        assert_eq!(refused.status, 409, "{method} {path}: {}", refused.text);
        assert!(
            refused.text.contains("The account is closed."),
            "{}",
            refused.text
        );
    }
    let log = office.get("/admin/v1/audit-log?action=account.close").await;
    let lines = log["data"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "{log}");
    assert_eq!(
        (&lines[0]["outcome"], &lines[0]["before"]),
        (&json!("done"), &Value::Null)
    );
    office.close().await;
}
