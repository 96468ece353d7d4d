//! Accounts with a test clock: time is advanced by months, events keep their order, and other
//! accounts are unaffected.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};

use crate::scene::{CHAT, PLAIN, Scene, assert_error, hello};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn instant(value: &Value) -> Timestamp {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no instant"));
    text.parse().unwrap()
}

/// An account with a test clock, credits, a plan and a key.
struct Clocked<'s> {
    gateway: &'s Gateway,
    id: String,
    key: String,
    subscription: String,
}

impl<'s> Clocked<'s> {
    async fn new(gateway: &'s Gateway, credits: &str) -> Self {
        let command_line = gateway.command_line();
        let made = command_line
            .run(&["accounts", "create", "clocked", "--test-clock"])
            .await;
        assert_eq!(made["test_clock"], 0, "{made}");
        let id = made["id"].as_str().unwrap().to_owned();
        gateway.grant(&id, credits).await;
        let create = ["subscriptions", "create", "--account", &id, "--plan", "lite"];
        let subscription = command_line.run(&create).await["id"].as_str().unwrap().to_owned();
        let key = gateway.key(&id).await.secret;
        Self {
            gateway,
            id,
            key,
            subscription,
        }
    }

    async fn advance(&self, to: Timestamp) {
        let to = to.to_string();
        let advanced = self.gateway.command_line();
        advanced.run(&["accounts", "advance", &self.id, &to]).await;
    }

    async fn refused(&self, id: &str, to: Timestamp) -> String {
        let to = to.to_string();
        let command_line = self.gateway.command_line();
        let finished = command_line.try_run(&["accounts", "advance", id, &to]).await;
        assert_ne!(finished.code, 0, "{finished:?}");
        finished.stderr
    }

    async fn plan(&self) -> Value {
        self.gateway.usage(&self.key, "").await["plan"].clone()
    }

    async fn credits(&self) -> i64 {
        self.gateway.balance(&self.id).await.credits
    }

    /// Returns the kinds of the subscription's events, oldest first.
    async fn events(&self) -> Vec<String> {
        let shown = self.gateway.command_line();
        let shown = shown.run(&["subscriptions", "show", &self.subscription]).await;
        let events = shown["events"].as_array().unwrap();
        events
            .iter()
            .map(|event| event["kind"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn whole(credits: i64) -> i64 {
    credits * 1_000_000_000
}

#[tokio::test]
async fn an_advanced_clock_renews_charges_and_ends_a_plan() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let clocked = Clocked::new(&scene.gateway, "50").await;
        assert_eq!(clocked.credits().await, whole(35));
        let body = hello(json!({"model": PLAIN, "max_tokens": 100}));
        let call = async || scene.client().post_json(CHAT, &clocked.key, &body).await;

        let first = clocked.plan().await;
        assert_eq!(call().await.status, 200);
        assert_ne!(clocked.plan().await["weekly_window"]["used"], "0");
        let week_end = instant(&first["weekly_window"]["end"]);
        clocked.advance(week_end).await;
        let second = clocked.plan().await["weekly_window"].clone();
        assert_eq!(
            (instant(&second["start"]), &second["used"]),
            (week_end, &json!("0"))
        );
        let called = call().await;
        assert_eq!(called.status, 200);
        assert_ne!(clocked.plan().await["weekly_window"]["used"], "0");
        let row = &clocked.gateway.usage(&clocked.key, "").await["data"][0];
        assert_eq!(row["coverage"], "fully");
        assert!(instant(&row["created_at"]) >= week_end, "{row}");
        assert_eq!(clocked.credits().await, whole(35), "the plan paid");

        // The months in between are paid one by one. The balance does not cover the third.
        let paid_through = instant(&first["paid_through"]);
        clocked.advance(paid_through).await;
        assert_eq!(clocked.credits().await, whole(20));
        assert_eq!(clocked.plan().await["status"], "active");
        clocked.advance(paid_through + DAY * 63).await;
        assert_eq!(clocked.credits().await, whole(5));
        assert_eq!(clocked.plan().await["status"], "past_due");
        let third = instant(&clocked.plan().await["paid_through"]);
        clocked.advance(third + DAY * 6).await;
        assert_eq!(clocked.plan().await["status"], "past_due");
        clocked.advance(third + DAY * 8).await;
        assert_eq!(clocked.plan().await["status"], "expired");
        assert_eq!(
            clocked.events().await,
            ["created", "renewed", "renewed", "past_due", "expired"]
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn credits_expire_and_a_cancelled_plan_ends_by_the_clock() {
    let scene = Scene::start().await;
    let clocked = Clocked::new(&scene.gateway, "15").await;
    let days = ["credits", "grant", &clocked.id, "7", "--expires-in-days", "10"];
    scene.gateway.command_line().run(&days).await;
    let start = instant(&clocked.plan().await["weekly_window"]["start"]);
    clocked.advance(start + DAY * 9).await;
    assert_eq!(clocked.credits().await, whole(7));
    clocked.advance(start + DAY * 11).await;
    assert_eq!(clocked.credits().await, 0);
    // The validity counts from the account's clock, not from the current date.
    scene.gateway.command_line().run(&days).await;
    assert_eq!(clocked.credits().await, whole(7));
    let cancel = ["subscriptions", "cancel", &clocked.subscription];
    scene.gateway.command_line().run(&cancel).await;
    clocked.advance(start + DAY * 32).await;
    assert_eq!(clocked.plan().await["status"], "canceled");
    assert_eq!(clocked.credits().await, 0);
    scene.finish().await;
}

#[tokio::test]
async fn a_clock_only_advances_and_is_set_at_creation() {
    let scene = Scene::start().await;
    let clocked = Clocked::new(&scene.gateway, "100").await;
    let start = instant(&clocked.plan().await["weekly_window"]["start"]);
    clocked.advance(start + DAY).await;
    for (id, to, why) in [
        (&clocked.id, start + DAY / 2, "only moves forward"),
        (&clocked.id, start + DAY * 400, "at most 366 days"),
        (&scene.account, start + DAY * 2, "has no test clock"),
    ] {
        let message = clocked.refused(id, to).await;
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(clocked.credits().await, whole(85), "nothing happened");
    scene.finish().await;
}

/// The time of a clock applies on every node.
#[tokio::test]
async fn a_clock_applies_on_every_node() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let second = scene.gateway.start_node(options).await;
    let clocked = Clocked::new(&scene.gateway, "15").await;
    let start = instant(&clocked.plan().await["weekly_window"]["start"]);
    let body = hello(json!({"model": PLAIN, "max_tokens": 100}));
    let call = async || second.client().post_json(CHAT, &clocked.key, &body).await;
    assert_eq!(call().await.status, 200);
    clocked.advance(start + DAY * 40).await;
    eventually("the plan is not paid any more", async || {
        call().await.status == 402
    })
    .await;
    assert_error("by the clock", &call().await, "insufficient_credits", None);
    second.finish().await;
    scene.finish().await;
}
