//! Several gateways on one PostgreSQL database.

use std::time::Duration;

use serde_json::json;
use tollgate_testkit::gateway::{Balance, Gateway, Storage, eventually};
use tollgate_testkit::upstream::{Answer, Gate, Reply, Usage};

use crate::money::holds::send_concurrently;
use crate::scene::{CHAT, GRANTED, PLAIN, Scene, assert_error, credits, flat_bound, hello};

/// Starts a scene on PostgreSQL with a second node.
async fn two_nodes(config: &str) -> (Scene, Gateway) {
    let scene = Scene::start_on(Storage::Postgres, config).await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, config);
    let second = scene.gateway.start_node(options).await;
    (scene, second)
}

#[tokio::test]
async fn an_accounts_balance_is_shared_and_never_overspent() {
    let (scene, second) = two_nodes("").await;
    let body = hello(json!({"model": PLAIN, "max_tokens": 100}));
    let bound = flat_bound(&body, 1_000, 100);
    let account = scene.gateway.account().await;
    scene.gateway.grant(&account, &credits(10 * bound)).await;
    let key = scene.gateway.key(&account).await.secret;
    let prompt = u64::try_from(bound / 1_000 - 100).unwrap();
    let gate = Gate::new();
    let answer = Answer::words(3).usage(Usage::Fixed {
        prompt,
        completion: 100,
    });
    scene.upstream.set_default(Reply::answer(answer).hold_head(&gate));
    let nodes = [scene.client(), second.client()];
    let clients = (0..128).map(|caller| (nodes[caller % 2], key.clone())).collect();
    assert_eq!(send_concurrently(clients, &body, &scene, &gate, 10).await, 10);
    assert_eq!(
        scene.gateway.balance(&account).await,
        Balance { credits: 0, held: 0 }
    );
    assert_eq!(second.finish().await.revenue, 10 * bound);
    scene.finish().await;
}

#[tokio::test]
async fn usage_settled_on_one_node_is_shown_by_the_other() {
    let (scene, second) = two_nodes("").await;
    let there = second
        .client()
        .post_json(CHAT, &scene.key.secret, &hello(json!({})))
        .await;
    assert_eq!(there.status, 200, "{}", there.text());
    let row = scene.row(there.request_id()).await;
    assert_eq!(row["outcome"], "ok");
    let shown = second.usage(&scene.key.secret, "").await;
    assert_eq!(
        shown["balance"],
        scene.gateway.usage(&scene.key.secret, "").await["balance"]
    );
    second.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_change_applies_on_every_node_within_seconds() {
    let (scene, second) = two_nodes("").await;
    let key = scene.gateway.key(&scene.account).await;
    let nodes = [scene.client(), second.client()];
    let status = async |node: usize, key: &str| nodes[node].get("/v1/models", key).await.status;
    for node in [0, 1] {
        assert_eq!(
            status(node, &key.secret).await,
            200,
            "a new key works on every node"
        );
    }
    scene
        .gateway
        .command_line()
        .run(&["keys", "revoke", &key.id])
        .await;
    // Changes apply within five seconds. The test waits three times as long, for busy machines.
    let refused = async {
        for node in [0, 1] {
            eventually("the key is refused", async || {
                status(node, &key.secret).await == 401
            })
            .await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), refused)
        .await
        .unwrap();

    scene.gateway.set_limits(&scene.account, 9, 9_000).await;
    let limited = async {
        for node in nodes {
            eventually("the limit is known", async || {
                let response = node
                    .post_json(CHAT, &scene.key.secret, &hello(json!({"n": 0})))
                    .await;
                response.header("x-ratelimit-limit-requests") == Some("9")
            })
            .await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), limited)
        .await
        .unwrap();
    scene
        .gateway
        .command_line()
        .run(&["accounts", "suspend", &scene.account])
        .await;
    let suspended = async {
        for node in [0, 1] {
            eventually("the account is suspended", async || {
                status(node, &scene.key.secret).await == 401
            })
            .await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), suspended)
        .await
        .unwrap();
    second.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn the_holds_of_a_node_that_died_are_released() {
    // A hold lasts twice as long as the longest call.
    let (mut scene, mut second) = two_nodes("[timeouts]\ntotal_ms = 500\n[drain]\ntime_ms = 500\n").await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(3).hold_head(&gate));
    let mut connection = second.client().connect().await;
    connection
        .write(&scene.request(&hello(json!({}))).bytes())
        .await
        .unwrap();
    scene.upstream.wait_for_requests(1).await;
    assert!(scene.balance().await.held > 0);
    second.kill().await;
    // Every node releases expired holds when it starts, and periodically.
    eventually("the hold is released", async || {
        scene.gateway.stop().await;
        scene.gateway.restart().await;
        scene.balance().await.held == 0
    })
    .await;
    assert_eq!(scene.balance().await.credits, GRANTED);
    assert_eq!(scene.rows().await[0]["outcome"], "crashed");
    second.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_database_that_is_not_migrated_is_refused() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let database = scene.gateway.database().unwrap();
    // An empty database, as before the first `migrate`.
    database
        .execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        .await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    drop(options);
    let refused = scene.gateway.command_line().try_run(&["accounts", "list"]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("migrate"), "{}", refused.stderr);
}

#[tokio::test]
async fn without_its_database_the_gateway_sends_nothing() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    let database = scene.gateway.database().unwrap();
    database.execute("ALTER TABLE hold RENAME TO hold_away").await;
    let sent = scene.upstream.request_count();
    let response = scene.chat(&hello(json!({}))).await;
    let error = crate::scene::assert_any_error("no ledger", &response);
    assert!(
        matches!(error.code.as_str(), "internal_error" | "overloaded"),
        "{error:?}"
    );
    assert_eq!(scene.upstream.request_count(), sent, "no hold, no call");
    database.execute("ALTER TABLE hold_away RENAME TO hold").await;
    eventually("calls are served again", async || {
        scene.chat(&hello(json!({}))).await.status == 200
    })
    .await;
    assert_error(
        "bad input is still reported first",
        &scene.chat(&hello(json!({"n": 0}))).await,
        "invalid_parameter",
        Some("n"),
    );
    scene.finish().await;
}
