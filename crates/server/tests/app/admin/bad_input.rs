//! Invalid input is rejected with the parameter at fault and changes nothing.

use serde_json::{Value, json};
use tollgate_storage::Role;

use super::Office;

const UNKNOWN: &str = "019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a";

#[tokio::test]
async fn bodies_are_judged_by_their_members() {
    let office = Office::open().await;
    let account = office.account().await;
    let of = |rest: &str| format!("{account}{rest}");
    let text = |length: usize| "x".repeat(length);
    let (invalid, missing, unknown) = (
        "invalid_parameter",
        "missing_required_parameter",
        "unknown_parameter",
    );
    let accounts = "/admin/v1/accounts".to_owned();
    let cases: Vec<(&str, String, Value, &str, &str)> = vec![
        ("POST", accounts.clone(), json!({}), missing, "name"),
        ("POST", accounts.clone(), json!({"name": 7}), invalid, "name"),
        ("POST", accounts.clone(), json!({"name": ""}), invalid, "name"),
        (
            "POST",
            accounts.clone(),
            json!({"name": text(201)}),
            invalid,
            "name",
        ),
        ("POST", accounts.clone(), json!({"name": "a\nb"}), invalid, "name"),
        ("POST", accounts, json!({"name": "x", "rpm": 5}), unknown, "rpm"),
        ("PATCH", of(""), json!({"rpm": 0}), invalid, "rpm"),
        ("PATCH", of(""), json!({"tpm": 0}), invalid, "tpm"),
        ("PATCH", of(""), json!({"tpm": 1.5}), invalid, "tpm"),
        ("PATCH", of(""), json!({"keys": -1}), invalid, "keys"),
        ("PATCH", of(""), json!({"state": "closed"}), invalid, "state"),
        ("PATCH", of(""), json!({"id": "x"}), unknown, "id"),
        ("POST", of("/keys"), json!({"name": ""}), invalid, "name"),
        (
            "POST",
            of("/keys"),
            json!({"expires_in_days": 0}),
            invalid,
            "expires_in_days",
        ),
        (
            "POST",
            of("/keys"),
            json!({"expires_in_days": 36501}),
            invalid,
            "expires_in_days",
        ),
        ("POST", of("/keys"), json!({"mode": "real"}), invalid, "mode"),
        ("POST", of("/grants"), json!({}), missing, "amount"),
        ("POST", of("/grants"), json!({"amount": 5}), invalid, "amount"),
        ("POST", of("/grants"), json!({"amount": "0"}), invalid, "amount"),
        ("POST", of("/grants"), json!({"amount": "-1"}), invalid, "amount"),
        ("POST", of("/grants"), json!({"amount": "1e3"}), invalid, "amount"),
        (
            "POST",
            of("/grants"),
            json!({"amount": "0.0000000001"}),
            invalid,
            "amount",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "9223372037"}),
            invalid,
            "amount",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "kind": "refund"}),
            invalid,
            "kind",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "priority": 256}),
            invalid,
            "priority",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "expires_at": "tomorrow"}),
            invalid,
            "expires_at",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "expires_at": "2020-01-01"}),
            invalid,
            "expires_at",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "expires_in_days": 0}),
            invalid,
            "expires_in_days",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "expires_in_days": 1, "expires_at": "2200-01-01"}),
            invalid,
            "expires_at",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "note": text(201)}),
            invalid,
            "note",
        ),
        (
            "POST",
            of("/grants"),
            json!({"amount": "1", "id": text(201)}),
            invalid,
            "id",
        ),
        ("POST", of("/refunds"), json!({}), missing, "request_id"),
        (
            "POST",
            of("/refunds"),
            json!({"request_id": "x"}),
            invalid,
            "request_id",
        ),
        (
            "POST",
            of("/refunds"),
            json!({"request_id": format!("req_{UNKNOWN}"), "amount": "0"}),
            invalid,
            "amount",
        ),
        (
            "POST",
            of("/subscriptions"),
            json!({"plan": "none"}),
            invalid,
            "plan",
        ),
        (
            "POST",
            of("/subscriptions/open"),
            json!({"cadence": "monthly"}),
            missing,
            "plan",
        ),
        (
            "POST",
            of("/subscriptions/open"),
            json!({"plan": "pro"}),
            invalid,
            "payments.provider",
        ),
        (
            "POST",
            of("/members"),
            json!({"email": "jo@example.com"}),
            missing,
            "role",
        ),
        (
            "POST",
            "/admin/v1/admins".to_owned(),
            json!({"name": "cli", "role": "owner"}),
            invalid,
            "name",
        ),
        ("PUT", of("/alert"), json!({}), missing, "below"),
        ("PUT", of("/alert"), json!({"below": 5}), invalid, "below"),
        (
            "PUT",
            of("/alert"),
            json!({"below": "5", "webhook": "nonsense"}),
            invalid,
            "webhook",
        ),
        (
            "PUT",
            of("/alert"),
            json!({"below": "5", "webhook": "https://example.com/", "phone": "1"}),
            unknown,
            "phone",
        ),
        ("POST", of("/top-ups"), json!({}), missing, "credits"),
        (
            "POST",
            of("/top-ups"),
            json!({"credits": "x"}),
            invalid,
            "credits",
        ),
        (
            "PUT",
            of("/auto-top-up"),
            json!({"below": "1", "amount": "5"}),
            missing,
            "monthly_limit",
        ),
        (
            "POST",
            format!("/admin/v1/subscriptions/sub_{UNKNOWN}/change-plan"),
            json!({}),
            missing,
            "plan",
        ),
        (
            "POST",
            format!("/admin/v1/subscriptions/sub_{UNKNOWN}/change-plan"),
            json!({"plan": "none"}),
            invalid,
            "plan",
        ),
        (
            "POST",
            "/admin/v1/admins".to_owned(),
            json!({"name": "Jo", "role": "owner"}),
            invalid,
            "name",
        ),
        (
            "POST",
            "/admin/v1/admins".to_owned(),
            json!({"name": "jo", "role": "boss"}),
            invalid,
            "role",
        ),
    ];
    for (method, path, body, code, param) in cases {
        let answer = office.send(Role::Owner, method, &path, &body).await;
        let error = &answer.body["error"];
        assert_eq!(answer.status, 400, "{method} {path} {body}: {}", answer.text);
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!(code), &json!(param)),
            "{body}"
        );
    }
    for body in ["", "[]", "{", "null", "{\"name\":\"x\"}{"] {
        let token = Some(office.token(Role::Owner));
        let answer = office
            .send_text(token, "POST", "/admin/v1/accounts", body.to_owned())
            .await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (400, &json!("invalid_json"))
        );
    }
    // The sum of two maximum amounts exceeds the range of a balance.
    let largest = json!({"amount": "9223372036.854775807"});
    office.done("POST", &of("/grants"), largest.clone()).await;
    let answer = office.send(Role::Owner, "POST", &of("/grants"), &largest).await;
    assert_eq!(
        (answer.status, &answer.body["error"]["param"]),
        (400, &json!("amount"))
    );
    assert_eq!(
        office.get("/admin/v1/accounts").await["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    office.close().await;
}

#[tokio::test]
async fn what_is_not_there_is_a_404_and_what_cannot_be_done_there_a_405() {
    let office = Office::open().await;
    let account = office.account().await;
    let acct = format!("/admin/v1/accounts/acct_{UNKNOWN}");
    for (method, path, body) in [
        ("GET", acct.clone(), Value::Null),
        ("GET", "/admin/v1/accounts/x".to_owned(), Value::Null),
        ("PATCH", acct.clone(), json!({"rpm": 5})),
        ("GET", format!("{acct}/keys"), Value::Null),
        ("POST", format!("{acct}/keys"), json!({})),
        ("GET", format!("{acct}/balance"), Value::Null),
        ("GET", format!("{acct}/grants"), Value::Null),
        ("POST", format!("{acct}/grants"), json!({"amount": "1"})),
        (
            "POST",
            format!("{acct}/grants"),
            json!({"amount": "1", "id": "x"}),
        ),
        ("GET", format!("{acct}/usage"), Value::Null),
        ("GET", format!("{acct}/statement?month=2026-11"), Value::Null),
        ("GET", format!("{acct}/subscriptions"), Value::Null),
        ("GET", format!("{acct}/members"), Value::Null),
        ("GET", format!("{acct}/alert"), Value::Null),
        ("GET", format!("{acct}/alert/deliveries"), Value::Null),
        ("DELETE", format!("{acct}/alert"), Value::Null),
        ("GET", format!("{acct}/auto-top-up"), Value::Null),
        ("DELETE", format!("{acct}/auto-top-up"), Value::Null),
        (
            "GET",
            format!("/admin/v1/top-ups?account=acct_{UNKNOWN}"),
            Value::Null,
        ),
        (
            "GET",
            format!("/admin/v1/usage/export?account=acct_{UNKNOWN}"),
            Value::Null,
        ),
        (
            "POST",
            format!("{acct}/members"),
            json!({"email": "jo@example.com", "role": "owner"}),
        ),
        (
            "POST",
            format!("{account}/refunds"),
            json!({"request_id": format!("req_{UNKNOWN}")}),
        ),
        ("DELETE", format!("/admin/v1/keys/key_{UNKNOWN}"), Value::Null),
        ("DELETE", "/admin/v1/keys/x".to_owned(), Value::Null),
        (
            "POST",
            format!("/admin/v1/grants/xfer_{UNKNOWN}/withdraw"),
            Value::Null,
        ),
        (
            "GET",
            format!("/admin/v1/subscriptions/sub_{UNKNOWN}"),
            Value::Null,
        ),
        (
            "POST",
            format!("/admin/v1/subscriptions/sub_{UNKNOWN}/cancel"),
            Value::Null,
        ),
        ("DELETE", format!("/admin/v1/admins/adm_{UNKNOWN}"), Value::Null),
        (
            "GET",
            format!("/admin/v1/realtime/sessions?account=acct_{UNKNOWN}"),
            Value::Null,
        ),
        (
            "POST",
            format!("/admin/v1/realtime/sessions/rtsess_{UNKNOWN}/end"),
            Value::Null,
        ),
        ("GET", "/admin/v1/nothing".to_owned(), Value::Null),
        ("POST", "/admin/v1/nothing".to_owned(), Value::Null),
    ] {
        let answer = office.send(Role::Owner, method, &path, &body).await;
        let found = (answer.status, &answer.body["error"]["code"]);
        assert_eq!(
            found,
            (404, &json!("not_found")),
            "{method} {path}: {}",
            answer.text
        );
    }
    for (method, path) in [
        ("PUT", "/admin/v1/accounts"),
        ("DELETE", account.as_str()),
        ("PATCH", "/admin/v1/audit-log"),
    ] {
        let answer = office.send(Role::Owner, method, path, &Value::Null).await;
        let found = (answer.status, &answer.body["error"]["code"]);
        assert_eq!(found, (405, &json!("method_not_allowed")), "{method} {path}");
    }
    office.close().await;
}

#[tokio::test]
async fn queries_and_sizes_are_bounded() {
    let office = Office::open().await;
    let account = office.account().await;
    for (path, param) in [
        ("/admin/v1/accounts?limit=0".to_owned(), "limit"),
        ("/admin/v1/accounts?limit=101".to_owned(), "limit"),
        ("/admin/v1/accounts?limit=x".to_owned(), "limit"),
        ("/admin/v1/accounts?after=x".to_owned(), "after"),
        ("/admin/v1/accounts?colour=red".to_owned(), "colour"),
        ("/admin/v1/audit-log?since=yesterday".to_owned(), "since"),
        ("/admin/v1/audit-log?account=key_1".to_owned(), "account"),
        ("/admin/v1/realtime/sessions?limit=0".to_owned(), "limit"),
        ("/admin/v1/realtime/sessions?account=x".to_owned(), "account"),
        ("/admin/v1/realtime/sessions?after=req_1".to_owned(), "after"),
        (format!("{account}/usage?from=x"), "from"),
        (format!("{account}/statement?month=2026-13"), "month"),
        (format!("{account}/statement?month=2999-01"), "month"),
    ] {
        let answer = office.send(Role::Viewer, "GET", &path, &Value::Null).await;
        let found = (answer.status, &answer.body["error"]["param"]);
        assert_eq!(found, (400, &json!(param)), "{path}: {}", answer.text);
    }
    let large = json!({"name": "x".repeat(1024 * 1024)});
    let answer = office
        .send(Role::Owner, "POST", "/admin/v1/accounts", &large)
        .await;
    assert_eq!(
        (answer.status, &answer.body["error"]["code"]),
        (413, &json!("request_too_large"))
    );
    office.close().await;
}
