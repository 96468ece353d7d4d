//! Notifications between three gateways on one database: a change applies immediately on every node
//! that is notified of it, and within seconds on other nodes.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tollgate_testkit::gateway::{Database, Gateway, Storage, eventually};

use crate::scene::{CHAT, Scene, hello, metrics, until_metric};

struct Nodes {
    scene: Scene,
    others: Vec<Gateway>,
}

impl Nodes {
    async fn start() -> Self {
        let scene = Scene::start_on(Storage::Postgres, "").await;
        let mut others = Vec::new();
        for _ in 0..2 {
            let options = Scene::options(&scene.upstream, Storage::Postgres, "");
            others.push(scene.gateway.start_node(options).await);
        }
        let nodes = Self { scene, others };
        nodes.until_all("tollgate_notifications_up 1").await;
        nodes
            .until_all("tollgate_notifications_total{kind=\"everything\"} 1")
            .await;
        nodes
    }

    fn all(&self) -> impl Iterator<Item = &Gateway> {
        std::iter::once(&self.scene.gateway).chain(&self.others)
    }

    fn database(&self) -> &Database {
        self.scene.gateway.database().unwrap()
    }

    async fn until_all(&self, line: &str) {
        join_all(self.all().map(|node| until_metric(node, line))).await;
    }

    /// Returns the number of notifications of this kind that each node received.
    async fn notified(&self, kind: &str) -> Vec<u64> {
        let line = format!("tollgate_notifications_total{{kind=\"{kind}\"}} ");
        let count = async |node| {
            let metrics = metrics(node).await;
            let shown = metrics.lines().find_map(|shown| shown.strip_prefix(&line));
            shown.map_or(0, |count| count.parse().unwrap())
        };
        join_all(self.all().map(count)).await
    }

    /// Makes a change and waits until every node was notified.
    async fn after(&self, kind: &str, change: impl Future) {
        let before = self.notified(kind).await;
        change.await;
        eventually(&format!("every node is notified: {kind}"), async || {
            let now = self.notified(kind).await;
            before.iter().zip(now).all(|(before, now)| *before < now)
        })
        .await;
    }

    async fn run(&self, command: &[&str]) {
        self.scene.gateway.command_line().run(command).await;
    }

    /// Returns the status of a request for the models on each node.
    async fn statuses(&self, key: &str) -> Vec<u16> {
        let look = async |node: &Gateway| node.client().get("/v1/models", key).await.status;
        join_all(self.all().map(look)).await
    }

    async fn finish(self) {
        for node in self.others {
            node.finish().await;
        }
        self.scene.finish().await;
    }
}

const REFUSED: [u16; 3] = [401; 3];
const SERVED: [u16; 3] = [200; 3];

/// Without notifications a change applies within five seconds. The test waits three times as long,
/// for busy machines.
const LATE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn every_node_is_notified() {
    let nodes = Nodes::start().await;
    let key = nodes.scene.gateway.key(&nodes.scene.account).await;
    assert_eq!(nodes.statuses(&key.secret).await, SERVED);
    nodes
        .after("account", nodes.run(&["keys", "revoke", &key.id]))
        .await;
    assert_eq!(nodes.statuses(&key.secret).await, REFUSED);

    let secret = &nodes.scene.key.secret;
    assert_eq!(nodes.statuses(secret).await, SERVED);
    let account = &nodes.scene.account;
    nodes
        .after("account", nodes.scene.gateway.set_limits(account, 90, 9_000))
        .await;
    for node in nodes.all() {
        let response = node
            .client()
            .post_json(CHAT, secret, &hello(json!({"n": 0})))
            .await;
        assert_eq!(response.header("x-ratelimit-limit-requests"), Some("90"));
    }
    nodes
        .after("account", nodes.run(&["accounts", "suspend", account]))
        .await;
    assert_eq!(nodes.statuses(secret).await, REFUSED);
    nodes
        .after(
            "account",
            nodes.run(&["accounts", "suspend", account, "--resume"]),
        )
        .await;
    assert_eq!(nodes.statuses(secret).await, SERVED);
    nodes.finish().await;
}

#[tokio::test]
async fn an_unknown_key_works_once_it_exists() {
    let nodes = Nodes::start().await;
    let secret = &nodes.scene.key.secret;
    nodes
        .database()
        .execute("CREATE TABLE aside AS SELECT * FROM api_key; DELETE FROM api_key")
        .await;
    assert_eq!(nodes.statuses(secret).await, REFUSED);
    let back = "INSERT INTO api_key SELECT * FROM aside; DROP TABLE aside";
    nodes.after("keys", nodes.database().execute(back)).await;
    assert_eq!(nodes.statuses(secret).await, SERVED);
    nodes.finish().await;
}

#[tokio::test]
async fn a_node_that_is_cut_off_listens_again() {
    let nodes = Nodes::start().await;
    let key = nodes.scene.gateway.key(&nodes.scene.account).await;
    assert_eq!(nodes.statuses(&key.secret).await, SERVED);
    nodes.after("everything", nodes.database().cut_listeners()).await;
    nodes
        .after("account", nodes.run(&["keys", "revoke", &key.id]))
        .await;
    assert_eq!(nodes.statuses(&key.secret).await, REFUSED);
    nodes.finish().await;
}

#[tokio::test]
async fn changes_without_notification_apply_within_seconds() {
    let nodes = Nodes::start().await;
    let secret = &nodes.scene.key.secret;
    assert_eq!(nodes.statuses(secret).await, SERVED);
    let mut silence = nodes.database().silence().await;
    nodes.until_all("tollgate_notifications_up 0").await;
    silence.execute("UPDATE account SET state = 'suspended'").await;
    let refused = eventually("the account is suspended everywhere", async || {
        nodes.statuses(secret).await == REFUSED
    });
    tokio::time::timeout(LATE, refused).await.unwrap();
    nodes
        .after("everything", async {
            silence.execute("UPDATE account SET state = 'active'").await;
            silence.end().await;
        })
        .await;
    assert_eq!(nodes.statuses(secret).await, SERVED);
    for node in nodes.all() {
        assert!(
            node.log().contains("cannot listen for changes by other nodes"),
            "{}",
            node.log()
        );
        assert!(
            node.log().contains("notification listener reconnected"),
            "{}",
            node.log()
        );
    }
    nodes.finish().await;
}
