//! Admin tokens and the permissions of roles.

use serde_json::{Value, json};
use tollgate_storage::Role;

use super::Office;

#[tokio::test]
async fn only_a_token_that_works_opens_it() {
    let office = Office::open().await;
    let tenant = office.scene.tenant(1).await;
    let token = office.token(Role::Owner).to_owned();
    let mut mistyped = token.clone();
    mistyped.replace_range(20..21, if &token[20..21] == "x" { "y" } else { "x" });
    let unknown = office.scene.app_state.admins.shape().generate().unwrap();
    for (sent, code) in [
        (None, "missing_api_key"),
        (Some(""), "missing_api_key"),
        (Some(tenant.key.as_str()), "invalid_api_key"),
        (Some(mistyped.as_str()), "invalid_api_key"),
        (Some(unknown.reveal()), "invalid_api_key"),
        (Some("x"), "invalid_api_key"),
    ] {
        for (method, path) in [
            ("GET", "/admin/v1/me"),
            ("GET", "/admin/v1/accounts"),
            ("POST", "/admin/v1/accounts"),
            ("DELETE", "/admin/v1/keys/key_x"),
        ] {
            let answer = office.send_text(sent, method, path, "{".to_owned()).await;
            assert_eq!(answer.status, 401, "{sent:?} {path}: {}", answer.text);
            assert_eq!(answer.body["error"]["code"], code);
            assert_eq!(answer.body["error"]["type"], "authentication_error");
            assert!(answer.request_id.is_some());
        }
    }
    let me = office.get("/admin/v1/me").await;
    assert_eq!((&me["name"], &me["role"]), (&json!("viewer"), &json!("viewer")));

    // An admin token is not an API key.
    let body = json!({"model": "sim/chat", "messages": [{"role": "user", "content": "x"}]});
    let stranger = crate::app::Tenant {
        id: tenant.id,
        key: token.clone(),
    };
    let answer = office.scene.post(&stranger, "/v1/chat/completions", &body).await;
    assert_eq!(
        (answer.status, &answer.body["error"]["code"]),
        (401, &json!("invalid_api_key"))
    );
    let answer = office.scene.post(&tenant, "/v1/chat/completions", &body).await;
    assert_eq!(answer.status, 200);

    // The OpenAPI document needs no token.
    let answer = office
        .send_text(None, "GET", "/admin/openapi.json", String::new())
        .await;
    assert_eq!(answer.status, 200);
    assert!(answer.body["paths"]["/admin/v1/me"].is_object());
    office.close().await;
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_any_more() {
    let office = Office::open().await;
    let path = format!("/admin/v1/admins/{}", office.id(Role::Support));
    let revoked = office.done("DELETE", &path, Value::Null).await;
    assert_eq!(revoked["state"], "revoked");
    let answer = office
        .send(Role::Support, "GET", "/admin/v1/me", &Value::Null)
        .await;
    assert_eq!(answer.status, 401, "{}", answer.text);
    let again = office.done("DELETE", &path, Value::Null).await;
    assert_eq!(again["revoked_at"], revoked["revoked_at"]);

    let new = json!({"name": "jo", "role": "support"});
    let made = office.done("POST", "/admin/v1/admins", new.clone()).await;
    let token = made["token"].as_str().unwrap();
    let answer = office
        .send_text(Some(token), "GET", "/admin/v1/me", String::new())
        .await;
    assert_eq!((answer.status, &answer.body["name"]), (200, &json!("jo")));
    let answer = office.send(Role::Owner, "POST", "/admin/v1/admins", &new).await;
    assert_eq!(
        (answer.status, &answer.body["error"]["param"]),
        (409, &json!("name"))
    );
    let listed = office.get("/admin/v1/admins").await;
    assert!(!listed.to_string().contains(token) && listed.to_string().contains("jo"));
    office.close().await;
}

#[tokio::test]
async fn a_role_may_what_its_table_says() {
    let office = Office::open().await;
    let account = office.account().await;
    let key = office.done("POST", &format!("{account}/keys"), json!({})).await;
    let key = format!("/admin/v1/keys/{}", key["id"].as_str().unwrap());
    let nothing = Value::Null;
    let unknown = "00000000000000000000000000000001";
    let of = |rest: &str| format!("{account}{rest}");
    // A request that fails for another reason has passed the permission check.
    let cases: Vec<(&str, String, Value, &str)> = vec![
        ("GET", "/admin/v1/accounts".to_owned(), nothing.clone(), "vsbo"),
        ("GET", of(""), nothing.clone(), "vsbo"),
        ("GET", of("/keys"), nothing.clone(), "vsbo"),
        ("GET", of("/grants"), nothing.clone(), "vsbo"),
        ("GET", of("/usage"), nothing.clone(), "vsbo"),
        ("GET", of("/members"), nothing.clone(), "vsbo"),
        ("GET", "/admin/v1/audit-log".to_owned(), nothing.clone(), "vsbo"),
        ("GET", "/admin/v1/admins".to_owned(), nothing.clone(), "vsbo"),
        ("POST", "/admin/v1/accounts".to_owned(), json!({"name": "x"}), "o"),
        ("PATCH", of(""), json!({"name": "x"}), "o"),
        ("PATCH", of(""), json!({"state": "active"}), "so"),
        ("POST", of("/close"), nothing.clone(), "o"),
        ("PATCH", of(""), json!({"rpm": 5}), "so"),
        ("PATCH", of(""), json!({"rpm": 5, "name": "x"}), "o"),
        (
            "GET",
            "/admin/v1/realtime/sessions".to_owned(),
            nothing.clone(),
            "vsbo",
        ),
        (
            "POST",
            format!("/admin/v1/realtime/sessions/rtsess_{unknown}/end"),
            nothing.clone(),
            "so",
        ),
        ("POST", of("/keys"), json!({}), "so"),
        ("PATCH", key.clone(), json!({"compat": "lenient"}), "so"),
        ("DELETE", key, nothing.clone(), "so"),
        ("POST", of("/grants"), json!({"amount": "1"}), "bo"),
        (
            "POST",
            format!("/admin/v1/grants/xfer_{unknown}/withdraw"),
            nothing.clone(),
            "bo",
        ),
        (
            "POST",
            of("/refunds"),
            json!({"request_id": format!("req_{unknown}")}),
            "bo",
        ),
        ("POST", of("/subscriptions"), json!({"plan": "none"}), "bo"),
        ("POST", of("/subscriptions/open"), json!({"plan": "none"}), "bo"),
        (
            "POST",
            format!("/admin/v1/subscriptions/sub_{unknown}/cancel"),
            nothing.clone(),
            "bo",
        ),
        (
            "POST",
            format!("/admin/v1/subscriptions/sub_{unknown}/change-plan"),
            json!({"plan": "none"}),
            "bo",
        ),
        ("GET", "/admin/v1/models".to_owned(), nothing.clone(), "vsbo"),
        ("GET", "/admin/v1/top-ups".to_owned(), nothing.clone(), "vsbo"),
        (
            "GET",
            "/admin/v1/usage/export".to_owned(),
            nothing.clone(),
            "vsbo",
        ),
        (
            "GET",
            "/admin/v1/ledger/export".to_owned(),
            nothing.clone(),
            "vsbo",
        ),
        (
            "GET",
            "/admin/v1/ledger/check".to_owned(),
            nothing.clone(),
            "vsbo",
        ),
        ("POST", "/admin/v1/top-ups/run".to_owned(), nothing.clone(), "bo"),
        ("POST", of("/top-ups"), json!({"credits": "5"}), "bo"),
        ("POST", of("/top-ups/portal"), nothing.clone(), "bo"),
        ("GET", of("/auto-top-up"), nothing.clone(), "vsbo"),
        (
            "PUT",
            of("/auto-top-up"),
            json!({"below": "1", "amount": "5", "monthly_limit": "50"}),
            "bo",
        ),
        ("DELETE", of("/auto-top-up"), nothing.clone(), "bo"),
        // The response contains the secret of the alert's webhook.
        ("GET", of("/alert"), nothing.clone(), "o"),
        ("GET", of("/alert/deliveries"), nothing.clone(), "vsbo"),
        (
            "PUT",
            of("/alert"),
            json!({"below": "1", "webhook": "https://example.com/hook"}),
            "o",
        ),
        ("DELETE", of("/alert"), nothing.clone(), "o"),
        ("POST", "/admin/v1/alerts/send".to_owned(), nothing.clone(), "o"),
        (
            "POST",
            of("/members"),
            json!({"email": "x", "role": "owner"}),
            "o",
        ),
        (
            "PATCH",
            of(&format!("/members/mem_{unknown}")),
            json!({"role": "owner"}),
            "o",
        ),
        (
            "DELETE",
            of(&format!("/members/mem_{unknown}")),
            nothing.clone(),
            "o",
        ),
        (
            "POST",
            "/admin/v1/admins".to_owned(),
            json!({"name": "X", "role": "viewer"}),
            "o",
        ),
        ("DELETE", format!("/admin/v1/admins/adm_{unknown}"), nothing, "o"),
    ];
    for (method, path, body, allowed) in cases {
        for role in [Role::Viewer, Role::Support, Role::Billing, Role::Owner] {
            let answer = office.send(role, method, &path, &body).await;
            let may = allowed.contains(&role.as_str()[..1]);
            let place = format!("{} {method} {path} {body}: {}", role.as_str(), answer.text);
            assert_eq!(answer.status != 403, may, "{place}");
            assert!(answer.status < 500 && answer.status != 401, "{place}");
            if !may {
                let error = &answer.body["error"];
                let found = (&error["code"], &error["type"]);
                assert_eq!(found, (&json!("permission_denied"), &json!("permission_error")));
            }
        }
    }
    // The refused requests changed nothing.
    let balance = office.get(&format!("{account}/balance")).await;
    assert_eq!(balance["credits"], "2");
    let denied = office.get("/admin/v1/audit-log?actor=viewer&limit=100").await;
    let denied = denied["data"].as_array().unwrap();
    assert_eq!(denied.len(), 29);
    assert!(denied.iter().all(|line| line["outcome"] == "permission_denied"));
    office.close().await;
}
