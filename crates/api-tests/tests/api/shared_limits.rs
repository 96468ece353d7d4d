//! Account limits across two gateways that share a Redis server, including while Redis is down.

use serde_json::json;
use tollgate_testkit::gateway::http::{Client, Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_testkit::redis::RedisServer;
use tollgate_testkit::upstream::{Gate, Reply};

use crate::scene::{CHAT, Scene, assert_error, hello, metrics, until_metric};

/// The password in the Redis URL, which must not appear in any output.
const PASSWORD: &str = "r3d1s-c4n4ry";

/// Two nodes and the Redis server that they share.
struct Shared {
    scene: Scene,
    second: Gateway,
    redis: RedisServer,
}

impl Shared {
    async fn start() -> Self {
        let redis = RedisServer::start().await;
        redis.execute(&["CONFIG", "SET", "requirepass", PASSWORD]).await;
        let config = settings(&redis);
        let scene = Scene::start_on(Storage::Postgres, &config).await;
        let options = Scene::options(&scene.upstream, Storage::Postgres, &config);
        let second = scene.gateway.start_node(options).await;
        let shared = Self { scene, second, redis };
        for node in shared.nodes() {
            until_metric(node, "tollgate_limit_store_up 1").await;
            until_metric(node, "tollgate_limit_nodes 2").await;
        }
        shared
    }

    fn nodes(&self) -> [&Gateway; 2] {
        [&self.scene.gateway, &self.second]
    }

    fn clients(&self) -> [Client; 2] {
        self.nodes().map(Gateway::client)
    }

    /// Sets the account's limits and waits until both nodes apply them.
    async fn set_limits(&self, rpm: u64, tpm: u64) {
        self.scene.gateway.set_limits(&self.scene.account, rpm, tpm).await;
        for client in self.clients() {
            eventually("the limits are known", async || {
                let looked = client
                    .post_json(CHAT, &self.scene.key.secret, &hello(json!({"n": 0})))
                    .await;
                looked.header("x-ratelimit-limit-requests") == Some(&rpm.to_string())
            })
            .await;
        }
    }

    /// Creates an account with these limits and no counted requests. Returns its key.
    async fn account(&self, rpm: u64, tpm: u64) -> String {
        let account = self.scene.gateway.account().await;
        self.scene.gateway.grant(&account, "1").await;
        self.scene.gateway.set_limits(&account, rpm, tpm).await;
        self.scene.gateway.key(&account).await.secret
    }

    async fn finish(self) {
        for node in self.nodes() {
            assert!(!node.log().contains(PASSWORD), "{}", node.log());
        }
        self.second.finish().await;
        self.scene.finish().await;
    }
}

fn settings(redis: &RedisServer) -> String {
    let url = redis.url().replace("://", &format!("://:{PASSWORD}@"));
    format!("[redis]\nurl = \"{url}\"\ntimeout_ms = 1000\n")
}

fn number(response: &Response, name: &str) -> u64 {
    let value = response
        .header(name)
        .unwrap_or_else(|| panic!("{name} in {:?}", response.head));
    value.parse().unwrap()
}

#[tokio::test]
async fn requests_of_an_account_are_limited_over_all_nodes() {
    let shared = Shared::start().await;
    let key = shared.account(20, 1_000_000).await;
    let mut calls = tokio::task::JoinSet::new();
    for call in 0..60 {
        let [first, second] = shared.clients();
        let client = if call % 2 == 0 { first } else { second };
        let request = Request::json(CHAT, &hello(json!({"max_tokens": 5}))).key(&key);
        calls.spawn(async move { client.send(&request).await });
    }
    let answers = calls.join_all().await;
    let mut left: Vec<u64> = Vec::new();
    for answer in &answers {
        assert_eq!(number(answer, "x-ratelimit-limit-requests"), 20);
        if answer.status == 200 {
            left.push(number(answer, "x-ratelimit-remaining-requests"));
        } else {
            assert_error("beyond", answer, "rate_limit_exceeded", None);
            assert!((1..=60).contains(&number(answer, "retry-after")));
        }
    }
    left.sort_unstable();
    assert_eq!(left, (0..20).collect::<Vec<_>>(), "each place is given once");
    // Reads have a separate limit, which is also shared.
    for (client, before) in shared.clients().iter().zip([600, 599]) {
        let models = client.get("/v1/models", &key).await;
        assert_eq!(number(&models, "x-ratelimit-remaining-requests"), before - 1);
    }
    shared.finish().await;
}

#[tokio::test]
async fn tokens_of_an_account_are_limited_over_all_nodes() {
    let shared = Shared::start().await;
    // Below and above the limit from which nodes receive a part of the budget in advance.
    for (limit, cap) in [(2_500, 1_500), (5_000, 3_000)] {
        let key = shared.account(1_000, limit).await;
        let [first, second] = shared.clients();
        let body = hello(json!({"max_tokens": cap}));
        let reserved = cap + body.to_string().len().div_ceil(4) as u64;
        let gate = Gate::new();
        shared.scene.upstream.push(Reply::words(3).hold_head(&gate));
        let before = shared.scene.upstream.request_count();
        let request = Request::json(CHAT, &body).key(&key);
        let running = tokio::spawn(async move { first.send(&request).await });
        shared.scene.upstream.wait_for_requests(before + 1).await;
        let refused = second.post_json(CHAT, &key, &body).await;
        assert_error("beside the first", &refused, "rate_limit_exceeded", None);
        assert_eq!(number(&refused, "x-ratelimit-remaining-tokens"), limit - reserved);
        gate.open();
        assert_eq!(running.await.unwrap().status, 200);
        // The call used five tokens. The other node receives this count shortly afterwards.
        let mut answer = None;
        eventually("the rest is free", async || {
            let sent = second.post_json(CHAT, &key, &body).await;
            let fits = sent.status == 200;
            answer = Some(sent);
            fits
        })
        .await;
        let left = number(&answer.unwrap(), "x-ratelimit-remaining-tokens");
        assert_eq!(left, limit - 5 - reserved);
    }
    shared.finish().await;
}

#[tokio::test]
async fn without_redis_each_node_enforces_its_share() {
    let mut shared = Shared::start().await;
    shared.set_limits(200, 1_000_000).await;
    shared.redis.kill().await;
    for node in shared.nodes() {
        until_metric(node, "tollgate_limit_store_up 0").await;
        let ready = node.client().send(&Request::get("/readyz")).await;
        assert_eq!(ready.status, 200, "readiness does not depend on Redis");
    }
    let key = shared.account(9, 1_000_000).await;
    for client in shared.clients() {
        let mut statuses = Vec::new();
        for _ in 0..6 {
            let answer = client.post_json(CHAT, &key, &hello(json!({}))).await;
            assert_eq!(number(&answer, "x-ratelimit-limit-requests"), 9);
            statuses.push(answer.status);
        }
        assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    }
    let alone = "tollgate_limit_decisions_total{by=\"node\"} ";
    for node in shared.nodes() {
        let metrics = metrics(node).await;
        let count = metrics.lines().find_map(|line| line.strip_prefix(alone)).unwrap();
        assert!(count.parse::<u64>().unwrap() >= 6, "{metrics}");
    }
    shared.redis.restart().await;
    shared
        .redis
        .execute(&["CONFIG", "SET", "requirepass", PASSWORD])
        .await;
    for node in shared.nodes() {
        until_metric(node, "tollgate_limit_store_up 1").await;
    }
    // Eight of nine requests are counted as used.
    let [first, second] = shared.clients();
    let last = first.post_json(CHAT, &key, &hello(json!({}))).await;
    assert_eq!(
        (last.status, number(&last, "x-ratelimit-remaining-requests")),
        (200, 0)
    );
    let refused = second.post_json(CHAT, &key, &hello(json!({}))).await;
    assert_error("beyond", &refused, "rate_limit_exceeded", None);
    shared.finish().await;
}

#[tokio::test]
async fn a_gateway_starts_without_redis_and_reports_it() {
    let mut redis = RedisServer::start().await;
    redis.kill().await;
    let mut scene = Scene::start_on(Storage::Postgres, &settings(&redis)).await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    assert!(
        scene.gateway.log().contains("Redis is unreachable"),
        "{}",
        scene.gateway.log()
    );
    let doctor = scene.gateway.command_line().try_run(&["doctor"]).await;
    assert_eq!(doctor.code, 3, "{doctor:?}");
    assert!(doctor.stdout.contains("Redis cannot be used"), "{doctor:?}");
    assert!(
        !format!("{doctor:?}{}", scene.gateway.log()).contains(PASSWORD),
        "{doctor:?}"
    );
    redis.restart().await;
    redis.execute(&["CONFIG", "SET", "requirepass", PASSWORD]).await;
    until_metric(&scene.gateway, "tollgate_limit_store_up 1").await;
    let doctor = scene.gateway.command_line().try_run(&["doctor"]).await;
    assert!(
        doctor.stdout.contains("share the limits through Redis"),
        "{doctor:?}"
    );
    scene.gateway.stop().await;
    scene.gateway.change_config("");
    scene.gateway.restart().await;
    assert!(
        scene.gateway.log().contains("set redis.url to share limits"),
        "{}",
        scene.gateway.log()
    );
    scene.finish().await;
}
