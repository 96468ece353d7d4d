//! The audit log records changes without secrets.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tollgate_operations::{Actor, CreateAccount};
use tollgate_storage::{AuditEntry, AuditFilter, AuditLog, Result, Role, StorageError, StorageErrorKind};
use tollgate_types::AuditId;

use super::Office;

#[tokio::test]
async fn every_change_is_a_line_and_none_has_a_secret() {
    let office = Office::open().await;
    let account = office.account().await;
    let id = account.rsplit('/').next().unwrap();
    let limits = json!({"rpm": 7, "state": "suspended"});
    let change = office.send(Role::Support, "PATCH", &account, &limits).await;
    let key = office.done("POST", &format!("{account}/keys"), json!({})).await;
    let token = office
        .done(
            "POST",
            "/admin/v1/admins",
            json!({"name": "jo", "role": "viewer"}),
        )
        .await;
    let grants = format!("{account}/grants");
    office
        .done("POST", &grants, json!({"amount": "5", "note": "launch"}))
        .await;
    let refused = office
        .send(Role::Billing, "POST", &grants, &json!({"amount": "-5"}))
        .await;
    assert_eq!(refused.status, 400);
    let by_command_line = CreateAccount {
        test_clock: false,
        name: "by hand".to_owned(),
    };
    let operations = &office.scene.app_state.operations;
    operations
        .execute(&Actor::command_line(), by_command_line)
        .await
        .unwrap();

    let log = office.get("/admin/v1/audit-log?limit=100").await;
    let lines = log["data"].as_array().unwrap();
    let reported = |line: &Value| {
        let word = |name: &str| line[name].as_str().unwrap().to_owned();
        [word("actor"), word("role"), word("action"), word("outcome")].join(" ")
    };
    let reported: Vec<String> = lines.iter().map(reported).collect();
    let expected = [
        "cli owner account.create done",
        "billing billing credits.grant invalid_parameter",
        "owner owner credits.grant done",
        "owner owner admin.create done",
        "owner owner key.create done",
        "support support account.change done",
        "owner owner account.create done",
    ];
    assert_eq!(reported, expected);
    for secret in [&key["key"], &token["token"]] {
        assert!(!log.to_string().contains(secret.as_str().unwrap()));
    }
    let changed = &lines[5];
    assert_eq!(
        (&changed["before"]["rpm"], &changed["after"]["rpm"]),
        (&Value::Null, &json!(7))
    );
    assert_eq!(changed["before"]["state"], "active");
    assert_eq!(changed["after"]["state"], "suspended");
    assert_eq!(
        (&changed["account"], &changed["object"]),
        (&json!(id), &json!(id))
    );
    assert_eq!(changed["request_id"].as_str(), change.request_id.as_deref());
    assert_eq!(changed["actor_id"], office.id(Role::Support).to_string());
    assert_eq!(lines[0]["request_id"], Value::Null);
    assert_eq!(lines[2]["after"]["amount"], "5");
    assert_eq!(lines[2]["after"]["note"], "launch");
    assert_eq!(lines[4]["object"], key["id"]);
    assert_eq!(lines[6]["account"], id);
    office.close().await;
}

#[tokio::test]
async fn it_is_read_in_pages_and_by_what_is_asked_for() {
    let office = Office::open().await;
    let one = office.account().await;
    let other = office.account().await;
    for account in [&one, &other, &one] {
        office.done("PATCH", account, json!({"rpm": 5})).await;
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = office.get(&format!("/admin/v1/audit-log?limit=2{after}")).await;
        let lines = page["data"].as_array().unwrap();
        seen.extend(lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()));
        assert_eq!(page["has_more"], seen.len() < 5);
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", seen.last().unwrap());
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted_by(|newer, older| newer > older));
    let id = one.rsplit('/').next().unwrap();
    for (query, count) in [
        (format!("account={id}"), 3),
        (format!("account={id}&action=account.change"), 2),
        ("action=account.create".to_owned(), 2),
        ("actor=owner".to_owned(), 5),
        ("actor=cli".to_owned(), 0),
        ("since=2020-01-01".to_owned(), 5),
        ("since=2200-01-01".to_owned(), 0),
    ] {
        let found = office.get(&format!("/admin/v1/audit-log?{query}")).await;
        assert_eq!(found["data"].as_array().unwrap().len(), count, "{query}");
    }
    office.close().await;
}

/// An audit log whose writes fail.
struct Full;

#[async_trait]
impl AuditLog for Full {
    async fn append(&self, _: AuditEntry) -> Result<()> {
        Err(StorageError::new(
            StorageErrorKind::Unavailable,
            "the disk is full",
        ))
    }

    async fn list(&self, _: AuditFilter, _: Option<AuditId>, _: u32) -> Result<Vec<AuditEntry>> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_written_down_is_no_success() {
    let office = Office::open_on(|storage| storage.audit_log = Arc::new(Full)).await;
    let new = json!({"name": "acme"});
    let made = office.send(Role::Owner, "POST", "/admin/v1/accounts", &new).await;
    assert_eq!(
        (made.status, &made.body["error"]["code"]),
        (500, &json!("internal_error"))
    );
    assert!(!made.text.contains("disk"), "{}", made.text);
    // A refused request returns its own error although its audit record cannot be written. A read
    // writes no audit record.
    let denied = office
        .send(Role::Viewer, "POST", "/admin/v1/accounts", &new)
        .await;
    assert_eq!(denied.status, 403);
    let listed = office.get("/admin/v1/accounts").await;
    assert_eq!(
        listed["data"].as_array().unwrap().len(),
        1,
        "the change itself was made"
    );
    office.close().await;
}
