//! API keys: both headers, invalid keys, and the delay until a change applies.

use serde_json::json;
use tokio::task::JoinSet;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Gateway, Options, Storage};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, CHAT, MODEL, Scene, assert_error, assert_request_id, hello};

/// Returns one request to each kind of endpoint, without a key.
fn endpoints() -> Vec<(&'static str, Request)> {
    vec![
        ("chat", Request::json(CHAT, &hello(json!({})))),
        ("stream", Request::json(CHAT, &hello(json!({"stream": true})))),
        ("models", Request::get("/v1/models")),
        ("model", Request::get(&format!("/v1/models/{MODEL}"))),
        ("usage", Request::get("/v1/account/usage")),
    ]
}

/// Returns a well-formed key of another installation, which is unknown to this gateway.
async fn foreign_key() -> String {
    let other = Gateway::start(BINARY, Options::default()).await;
    let account = other.account().await;
    let key = other.key(&account).await.secret;
    other.finish().await;
    key
}

#[tokio::test]
async fn the_google_key_header_is_read_only_on_its_paths() {
    let scene = Scene::start().await;
    for (path, status) in [
        ("/v1/models", 200),
        ("/v1beta/models", 200),
        ("/v1/account/usage", 401),
    ] {
        let request = Request::get(path).header("x-goog-api-key", scene.key.secret.as_str());
        assert_eq!(scene.client().send(&request).await.status, status, "{path}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn every_endpoint_reads_both_key_headers() {
    let scene = Scene::start().await;
    let good = scene.key.secret.as_str();
    let bearer = |key: &str| ("authorization", format!("Bearer {key}"));
    let plain = |key: &str| ("x-api-key", key.to_owned());
    let cases = [
        (vec![], Some("missing_api_key")),
        (vec![bearer(good)], None),
        (vec![("Authorization", format!("bEaReR {good}"))], None),
        (vec![plain(good)], None),
        (vec![("X-API-Key", good.to_owned())], None),
        (vec![bearer(good), plain("sk-service-wrong")], None),
        (
            vec![bearer("sk-service-wrong"), plain(good)],
            Some("invalid_api_key"),
        ),
        (vec![bearer(""), plain(good)], None),
        (
            vec![("authorization", "Bearer".to_owned())],
            Some("missing_api_key"),
        ),
        (vec![plain("")], Some("missing_api_key")),
        (
            vec![("authorization", "Basic dXNlcjpwYXNz".to_owned())],
            Some("missing_api_key"),
        ),
        (vec![("authorization", good.to_owned())], Some("missing_api_key")),
        (
            vec![("authorization", "Basic dXNlcjpwYXNz".to_owned()), plain(good)],
            None,
        ),
    ];
    for (headers, refusal) in &cases {
        for (name, request) in endpoints() {
            let what = format!("{name} {headers:?}");
            let request = headers.iter().fold(request, |request, (name, value)| {
                request.header(name, value.as_str())
            });
            let response = scene.client().send(&request).await;
            assert_request_id(&what, &response);
            match refusal {
                Some(code) => drop(assert_error(&what, &response, code, None)),
                None => assert_eq!(response.status, 200, "{what}: {}", response.text()),
            }
        }
    }
    let served = cases.iter().filter(|(_, refusal)| refusal.is_none()).count();
    assert_eq!(scene.upstream.request_count() as usize, served * 2);
    assert_eq!(scene.rows().await.len(), served * 2);
    scene.finish().await;
}

#[tokio::test]
async fn invalid_keys_are_refused_by_every_endpoint() {
    let scene = Scene::start().await;
    let good = scene.key.secret.clone();
    let last = if good.ends_with('x') { "y" } else { "x" };
    let bad_checksum = format!("{}{last}", &good[..good.len() - 1]);
    let wrong_prefix = good.replace("sk-service-", "sk-other-");
    let cases = [
        ("another prefix", wrong_prefix.into_bytes()),
        ("a bad checksum", bad_checksum.into_bytes()),
        ("cut", good.as_bytes()[..good.len() - 1].to_vec()),
        ("one character more", format!("{good}a").into_bytes()),
        ("upper case", good.to_uppercase().into_bytes()),
        ("the prefix alone", b"sk-service-".to_vec()),
        ("very long", vec![b'a'; 20_000]),
        ("not UTF-8", vec![b's', b'k', 0xff, 0xfe]),
        ("two keys", format!("{good} {good}").into_bytes()),
        ("another installation's", foreign_key().await.into_bytes()),
    ];
    // The requests run concurrently, because each waits a second after too many failures from one
    // address.
    let mut tries = JoinSet::new();
    for (what, key) in cases {
        for header in ["authorization", "x-api-key"] {
            let value = if header == "authorization" {
                [b"Bearer ", key.as_slice()].concat()
            } else {
                key.clone()
            };
            for (name, request) in endpoints() {
                let (client, request) = (scene.client(), request.header(header, value.clone()));
                let what = format!("{what} in {header} of {name}");
                tries.spawn(async move { (what, client.send(&request).await) });
            }
        }
    }
    for (what, response) in tries.join_all().await {
        assert_error(&what, &response, "invalid_api_key", None);
    }
    // A key in the query is refused, although some services accept one there.
    let in_query = Request::get(&format!("/v1/models?key={good}"));
    assert_error(
        "in the query",
        &scene.client().send(&in_query).await,
        "missing_api_key",
        None,
    );
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn revocation_and_suspension_take_effect_immediately() {
    let scene = Scene::start().await;
    let command_line = scene.gateway.command_line();
    let second = scene.gateway.key(&scene.account).await;
    let status = async |key: &str| scene.client().post_json(CHAT, key, &hello(json!({}))).await;
    assert_eq!(status(&second.secret).await.status, 200);

    command_line.run(&["keys", "revoke", &second.id]).await;
    assert_error("revoked", &status(&second.secret).await, "invalid_api_key", None);
    assert_eq!(
        status(&scene.key.secret).await.status,
        200,
        "the account's other key still works"
    );

    command_line.run(&["accounts", "suspend", &scene.account]).await;
    assert_error(
        "suspended",
        &status(&scene.key.secret).await,
        "invalid_api_key",
        None,
    );
    command_line
        .run(&["accounts", "suspend", &scene.account, "--resume"])
        .await;
    assert_eq!(status(&scene.key.secret).await.status, 200);
    assert_error(
        "still revoked",
        &status(&second.secret).await,
        "invalid_api_key",
        None,
    );
    assert_eq!(scene.upstream.request_count(), 3);
    scene.finish().await;
}

#[tokio::test]
async fn an_expired_key_is_refused() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let command = [
        "keys",
        "create",
        "--account",
        &scene.account,
        "--expires-in-days",
        "1",
    ];
    let created = scene.gateway.command_line().run(&command).await;
    let (id, key) = (created["id"].as_str().unwrap(), created["key"].as_str().unwrap());
    // Moves the expiry of this key into the past instead of waiting for a day.
    let expire = format!(
        "UPDATE api_key SET expires_at = created_at + 1 WHERE id = decode('{}', 'hex')",
        id.trim_start_matches("key_")
    );
    scene.gateway.database().unwrap().execute(&expire).await;
    for (name, request) in endpoints() {
        assert_error(
            name,
            &scene.client().send(&request.key(key)).await,
            "invalid_api_key",
            None,
        );
    }
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    assert_eq!(scene.upstream.request_count(), 1);
    scene.finish().await;
}

#[tokio::test]
async fn invalid_keys_do_not_delay_valid_ones() {
    let scene = Scene::start().await;
    let mut tries = JoinSet::new();
    for number in 0..60 {
        let client = scene.client();
        tries.spawn(async move { client.get("/v1/models", &format!("sk-service-{number}")).await });
    }
    for _ in 0..20 {
        let response = scene.client().get("/v1/models", &scene.key.secret).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
    while let Some(response) = tries.join_next().await {
        assert_error("a failed key", &response.unwrap(), "invalid_api_key", None);
    }
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn an_account_is_limited_to_fifty_keys() {
    let scene = Scene::start().await;
    let mut made = JoinSet::new();
    // The scene's own key is the first of the fifty.
    for _ in 0..4 {
        let (command_line, account) = (scene.gateway.command_line(), scene.account.clone());
        made.spawn(async move {
            let mut ends = Vec::new();
            for _ in 0..13 {
                ends.push(
                    command_line
                        .try_run(&["keys", "create", "--account", &account, "--json"])
                        .await,
                );
            }
            ends
        });
    }
    let ends = made.join_all().await.concat();
    let refused: Vec<_> = ends.iter().filter(|end| end.code != 0).collect();
    assert_eq!((ends.len(), refused.len()), (52, 3), "{refused:?}");
    for end in refused {
        let error: serde_json::Value = serde_json::from_str(&end.stderr).unwrap();
        assert_eq!(
            (end.code, &error["error"]["code"]),
            (1, &json!("key_limit_reached"))
        );
    }
    // A revoked key does not count.
    scene
        .gateway
        .command_line()
        .run(&["keys", "revoke", &scene.key.id])
        .await;
    let key = scene.gateway.key(&scene.account).await;
    assert_eq!(scene.client().get("/v1/models", &key.secret).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn public_endpoints_need_no_key() {
    let scene = Scene::start().await;
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        for request in [Request::get(path), Request::get(path).key("sk-service-wrong")] {
            let response = scene.client().send(&request).await;
            assert_eq!(response.status, 200, "{path}: {}", response.text());
            assert_request_id(path, &response);
        }
    }
    for path in ["/metrics", "/admin/", "/v1", "/"] {
        assert_error(
            path,
            &scene.client().send(&Request::get(path)).await,
            "not_found",
            None,
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn keys_begin_with_the_service_slug() {
    let upstream = FakeUpstream::start().await;
    let options = Scene::options(&upstream, Storage::Sqlite, "[service]\nslug = \"acme\"\n");
    let gateway = Gateway::start(BINARY, options).await;
    let key = gateway.key(&gateway.account().await).await.secret;
    assert!(key.starts_with("sk-acme-"), "{key}");
    assert_eq!(gateway.client().get("/v1/models", &key).await.status, 200);
    let wrong = key.replace("sk-acme-", "sk-service-");
    assert_error(
        "the default prefix",
        &gateway.client().get("/v1/models", &wrong).await,
        "invalid_api_key",
        None,
    );
    gateway.finish().await;
}

/// A proxy in front of the gateway may read the other value. Ambiguous keys are refused, so that
/// both agree on the paying account.
#[tokio::test]
async fn two_different_keys_in_one_header_are_refused() {
    let scene = Scene::start().await;
    let other = scene.gateway.key(&scene.account).await.secret;
    let key = &scene.key.secret;
    let bearer = |key: &str| format!("Bearer {key}");
    for (headers, status) in [
        (
            vec![("authorization", bearer(key)), ("authorization", bearer(&other))],
            401,
        ),
        (
            vec![
                ("authorization", bearer(key)),
                ("authorization", "Basic x".to_owned()),
            ],
            401,
        ),
        (
            vec![("x-api-key", key.clone()), ("x-api-key", other.clone())],
            401,
        ),
        (
            vec![("authorization", bearer(key)), ("authorization", bearer(key))],
            200,
        ),
        (
            vec![("authorization", bearer(key)), ("x-api-key", "none".to_owned())],
            200,
        ),
        (
            vec![
                ("authorization", "Bearer ".to_owned()),
                ("x-api-key", key.clone()),
            ],
            200,
        ),
        (vec![("authorization", "Bearer ".to_owned())], 401),
    ] {
        let mut request = Request::get("/v1/models");
        for (name, value) in &headers {
            request = request.header(name, value.as_str());
        }
        let response = scene.client().send(&request).await;
        assert_eq!(response.status, status, "{headers:?}");
        let challenge = (status == 401).then_some("Bearer");
        assert_eq!(response.header("www-authenticate"), challenge, "{headers:?}");
    }
    scene.finish().await;
}
