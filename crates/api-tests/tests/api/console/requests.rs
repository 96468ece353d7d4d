//! Rules of requests with a session: origin, host, scheme, headers and accounts.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::browser::API;
use super::owner;
use crate::scene::{CHAT, PLAIN, Scene, hello};

/// A rule: the headers that a request changes, and the expected status and parameter.
type Case = (&'static [(&'static str, Option<&'static str>)], u16, &'static str);

const CASES: &[Case] = &[
    (&[("sec-fetch-site", Some("cross-site"))], 401, ""),
    (&[("sec-fetch-site", Some("same-site"))], 401, ""),
    (&[("sec-fetch-site", Some("none"))], 401, ""),
    (&[("sec-fetch-site", None)], 401, ""),
    (
        &[
            ("sec-fetch-site", None),
            ("origin", Some("http://localhost:9999")),
        ],
        401,
        "",
    ),
    (&[("sec-fetch-site", None), ("origin", Some("null"))], 401, ""),
    (
        &[("sec-fetch-site", None), ("origin", Some("https://evil.example"))],
        401,
        "",
    ),
    (&[("x-tollgate-account", None)], 401, ""),
    (&[("cookie", None)], 401, ""),
    (&[("cookie", Some("tollgate=AAAA"))], 401, ""),
    (&[("authorization", Some("Bearer x"))], 401, ""),
    (&[("x-api-key", Some("x"))], 401, ""),
    (&[("host", Some("evil.example"))], 403, "host"),
    (&[("host", Some("evil.example:8080"))], 403, "host"),
    (&[("host", Some("10.1.2.3:8080"))], 403, "host"),
    (&[("host", Some("api.example.com"))], 403, "scheme"),
    (
        &[
            ("host", Some("api.example.com")),
            ("x-forwarded-proto", Some("https")),
        ],
        403,
        "scheme",
    ),
];

#[tokio::test]
async fn other_pages_cannot_use_a_session() {
    let settings = "[server]\npublic_url = \"http://api.example.com\"\n";
    let scene = Scene::start_with(settings).await;
    let mut browser = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let before = scene.balance().await;
    let requests: [(&str, &str, Value); 4] = [
        (
            "POST",
            "/console/v1/chat/completions",
            hello(json!({"model": PLAIN})),
        ),
        (
            "POST",
            &format!("{API}/invitations"),
            json!({"email": "a@example.com", "role": "member"}),
        ),
        ("PATCH", &format!("{API}/account"), json!({"name": "stolen"})),
        ("GET", "/console/v1/account/usage", Value::Null),
    ];
    for (method, path, body) in &requests {
        for (changes, status, param) in CASES {
            let mut request = browser.request(method, path, body);
            for (name, value) in *changes {
                request = request.without(name);
                if let Some(value) = value {
                    request = request.header(name, *value);
                }
            }
            let response = scene.client().send(&request).await;
            let error = response.error();
            assert_eq!(
                response.status,
                *status,
                "{path} {changes:?}: {}",
                response.text()
            );
            assert_eq!(error.param.unwrap_or_default(), *param, "{path} {changes:?}");
            let expected = if *status == 401 {
                "invalid_session"
            } else {
                "permission_denied"
            };
            assert_eq!(error.code, expected, "{path} {changes:?}");
        }
    }
    // The public API ignores cookies.
    for path in [CHAT, "/v1/account/usage"] {
        let method = if path == CHAT { "POST" } else { "GET" };
        let refused = browser.refused(method, path, &Value::Null).await;
        assert_eq!((refused.0, &*refused.1), (401, "missing_api_key"), "{path}");
    }
    let members = browser.done("GET", &format!("{API}/members"), &Value::Null).await;
    assert_eq!(members["data"].as_array().unwrap().len(), 1);
    assert_eq!(scene.balance().await, before);
    assert_eq!(scene.upstream.requests().len(), 0);
    // An older browser sends the origin only.
    let request = browser
        .request("GET", "/console/v1/account/usage", &Value::Null)
        .without("sec-fetch-site")
        .header("origin", "http://localhost:8080");
    assert_eq!(scene.client().send(&request).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn behind_a_proxy_with_tls_the_cookie_is_secure() {
    let settings = "[server]\npublic_url = \"https://api.example.com/\"\n";
    let scene = Scene::start_with(settings).await;
    let account = &scene.account;
    let link = scene
        .gateway
        .command_line()
        .run(&["console", "link", "--account", account])
        .await;
    let url = link["url"].as_str().unwrap();
    let (page, token) = url.split_once('#').unwrap();
    assert_eq!(page, "https://api.example.com/console/sign-in");
    let request = Request::json(&format!("{API}/sign-in/link"), &json!({"token": token}))
        .without("host")
        .header("host", "api.example.com")
        .header("sec-fetch-site", "same-origin")
        .header("x-tollgate-account", "-");
    let response = scene.client().send(&request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let cookie = response.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-tollgate="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
    scene.finish().await;
}

#[tokio::test]
async fn calls_with_a_session_are_charged_to_the_member() {
    let scene = Scene::start().await;
    let mut browser = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let member = browser.session().await["accounts"][0]["member_id"].clone();
    let response = browser
        .send(
            "POST",
            "/console/v1/chat/completions",
            &hello(json!({"model": PLAIN})),
        )
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let row = scene.row(response.request_id()).await;
    assert_eq!(row["key_id"], Value::Null, "{row}");
    assert_eq!(row["member_id"], member, "{row}");
    assert_ne!(row["cost"], "0");
    // The limits of the account apply.
    scene.gateway.set_limits(&scene.account, 1, 1_000_000).await;
    let limited = browser
        .send(
            "POST",
            "/console/v1/chat/completions",
            &hello(json!({"model": PLAIN})),
        )
        .await;
    assert_eq!(limited.status, 429, "{}", limited.text());
    scene.finish().await;
}

#[tokio::test]
async fn other_accounts_answer_like_missing_ones() {
    let scene = Scene::start().await;
    let mut browser = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let foreign = scene.gateway.command_line().create_account("foreign").await;
    let mut other = owner(&scene.gateway, &foreign, "al@example.com").await;
    let invited = other
        .done(
            "POST",
            &format!("{API}/invitations"),
            &json!({"email": "bo@example.com", "role": "member"}),
        )
        .await;
    let member = invited["member"]["id"].as_str().unwrap();
    let session = other.session().await["id"].clone();
    let session = session.as_str().unwrap();
    let missing = "0".repeat(32);
    for (method, path, body, own, missing) in [
        (
            "PATCH",
            "members",
            json!({"role": "viewer"}),
            member,
            format!("mem_{missing}"),
        ),
        ("DELETE", "members", Value::Null, member, format!("mem_{missing}")),
        (
            "DELETE",
            "sessions",
            Value::Null,
            session,
            format!("sess_{missing}"),
        ),
    ] {
        let foreign = browser.send(method, &format!("{API}/{path}/{own}"), &body).await;
        let unknown = browser
            .send(method, &format!("{API}/{path}/{missing}"), &body)
            .await;
        assert_eq!(foreign.status, 404, "{method} {path}");
        assert_eq!(foreign.json(), unknown.json(), "{method} {path}");
        let malformed = browser.send(method, &format!("{API}/{path}/x"), &body).await;
        assert_eq!(malformed.status, 404);
    }
    let renew = format!("{API}/invitations/{member}/renew");
    assert_eq!(browser.refused("POST", &renew, &Value::Null).await.0, 404);
    for path in [
        "/console/v1/account/usage",
        "/console/api/v1/account",
        "/console/api/v1/members",
    ] {
        browser.account = foreign.clone();
        let answer = browser.send("GET", path, &Value::Null).await;
        browser.account = format!("acct_{missing}");
        let unknown = browser.send("GET", path, &Value::Null).await;
        assert_eq!((answer.status, answer.json()), (404, unknown.json()), "{path}");
        browser.account = "acct_x".to_owned();
        assert_eq!(
            browser.send("GET", path, &Value::Null).await.json(),
            unknown.json()
        );
        browser.account = "-".to_owned();
        let none = browser.refused("GET", path, &Value::Null).await;
        assert_eq!((none.0, &*none.2), (400, "x-tollgate-account"), "{path}");
    }
    assert_ne!(other.session().await, Value::Null);
    scene.finish().await;
}

#[tokio::test]
async fn a_suspended_account_can_only_be_read() {
    let scene = Scene::start().await;
    let mut browser = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let commands = scene.gateway.command_line();
    commands.run(&["accounts", "suspend", &scene.account]).await;
    browser
        .done("GET", "/console/v1/account/usage", &Value::Null)
        .await;
    browser.done("GET", &format!("{API}/members"), &Value::Null).await;
    let denied = (403, "permission_denied".to_owned(), "account".to_owned());
    for (method, path, body) in [
        (
            "POST",
            "/console/v1/chat/completions",
            hello(json!({"model": PLAIN})),
        ),
        ("PATCH", "/console/api/v1/account", json!({"name": "new"})),
        (
            "POST",
            "/console/api/v1/invitations",
            json!({"email": "a@example.com", "role": "member"}),
        ),
    ] {
        assert_eq!(browser.refused(method, path, &body).await, denied, "{path}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_console_has_pages_with_a_strict_policy() {
    let scene = Scene::start().await;
    let client = scene.client();
    for path in ["/console", "/console/", "/console/sign-in", "/console/people/x"] {
        let page = client.send(&Request::get(path)).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("cross-origin-opener-policy"), Some("same-origin"));
        let etag = page.header("etag").unwrap();
        let cached = client
            .send(&Request::get(path).header("if-none-match", etag))
            .await;
        assert_eq!(cached.status, 304);
    }
    for path in [
        "/console/assets/x.js",
        "/console/api/v1/x",
        "/console/v1/x",
        "/console/admin/v1/session",
    ] {
        let missing = client.send(&Request::get(path)).await;
        assert_eq!(
            (missing.status, &*missing.error().code),
            (404, "not_found"),
            "{path}"
        );
    }
    let post = client.send(&Request::post("/console/people", "")).await;
    assert_eq!((post.status, post.header("allow")), (405, Some("GET,HEAD")));
    let root = client
        .send(&Request::get("/").header("accept", "text/html"))
        .await;
    assert_eq!((root.status, root.header("location")), (303, Some("/console")));
    assert_eq!(client.send(&Request::get("/")).await.status, 404);
    scene.finish().await;

    let scene = Scene::start_with("[console]\nenabled = false\n").await;
    for path in ["/console", "/console/api/v1/session", "/console/v1/models"] {
        assert_eq!(
            scene.client().send(&Request::get(path)).await.status,
            404,
            "{path}"
        );
    }
    let root = scene
        .client()
        .send(&Request::get("/").header("accept", "text/html"))
        .await;
    assert_eq!(root.header("location"), Some("/docs"));
    scene.finish().await;
}
