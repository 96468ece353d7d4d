//! Accounts whose time is ahead: what takes months happens in a moment, in its order, and only to them.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_types::Timestamp;

use crate::scene::{CHAT, PLAIN, Scene, assert_error, hello};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn instant(value: &Value) -> Timestamp {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no instant"));
    Timestamp::parse(text).unwrap()
}

/// An account with a test clock, which has credits, a plan and a key.
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
        let to = to.to_rfc3339();
        let advanced = self.gateway.command_line();
        advanced.run(&["accounts", "advance", &self.id, &to]).await;
    }

    async fn refused(&self, id: &str, to: Timestamp) -> String {
        let to = to.to_rfc3339();
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

    /// What happened to the subscription.
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
async fn weeks_renewals_debts_and_the_end_take_a_moment() {
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

        // Months on the way are paid one by one; the third is not covered any more.
        let paid_through = instant(&first["paid_through"]);
        clocked.advance(paid_through).await;
        assert_eq!(clocked.credits().await, whole(20));
        assert_eq!(clocked.plan().await["status"], "active");
        clocked.advance(paid_through.plus(DAY * 63)).await;
        assert_eq!(clocked.credits().await, whole(5));
        assert_eq!(clocked.plan().await["status"], "past_due");
        let third = instant(&clocked.plan().await["paid_through"]);
        clocked.advance(third.plus(DAY * 6)).await;
        assert_eq!(clocked.plan().await["status"], "past_due");
        clocked.advance(third.plus(DAY * 8)).await;
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
    clocked.advance(start.plus(DAY * 9)).await;
    assert_eq!(clocked.credits().await, whole(7));
    clocked.advance(start.plus(DAY * 11)).await;
    assert_eq!(clocked.credits().await, 0);
    // From now on, and not from the day on which it is.
    scene.gateway.command_line().run(&days).await;
    assert_eq!(clocked.credits().await, whole(7));
    let cancel = ["subscriptions", "cancel", &clocked.subscription];
    scene.gateway.command_line().run(&cancel).await;
    clocked.advance(start.plus(DAY * 32)).await;
    assert_eq!(clocked.plan().await["status"], "canceled");
    assert_eq!(clocked.credits().await, 0);
    scene.finish().await;
}

#[tokio::test]
async fn a_clock_goes_forward_and_is_there_from_the_beginning() {
    let scene = Scene::start().await;
    let clocked = Clocked::new(&scene.gateway, "100").await;
    let start = instant(&clocked.plan().await["weekly_window"]["start"]);
    clocked.advance(start.plus(DAY)).await;
    for (id, to, why) in [
        (&clocked.id, start.plus(DAY / 2), "only goes forward"),
        (&clocked.id, start.plus(DAY * 400), "366 days at once"),
        (&scene.account, start.plus(DAY * 2), "has no test clock"),
    ] {
        let told = clocked.refused(id, to).await;
        assert!(told.contains(why), "{told}");
    }
    assert_eq!(clocked.credits().await, whole(85), "nothing happened");
    scene.finish().await;
}

/// What one node's clock shows, every node's does.
#[tokio::test]
async fn every_node_goes_by_the_clock() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let second = scene.gateway.start_node(options).await;
    let clocked = Clocked::new(&scene.gateway, "15").await;
    let start = instant(&clocked.plan().await["weekly_window"]["start"]);
    let body = hello(json!({"model": PLAIN, "max_tokens": 100}));
    let call = async || second.client().post_json(CHAT, &clocked.key, &body).await;
    assert_eq!(call().await.status, 200);
    clocked.advance(start.plus(DAY * 40)).await;
    eventually("the plan is not paid any more", async || {
        call().await.status == 402
    })
    .await;
    assert_error("by the clock", &call().await, "insufficient_credits", None);
    second.finish().await;
    scene.finish().await;
}
