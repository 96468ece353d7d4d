//! Plans: usage that the allowance covers costs no credits. Other calls are paid or refused as a
//! whole.

mod crash;
mod subscriptions;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollgate_testkit::gateway::{Gateway, Storage, nanos};

use crate::money::holds::account_with;
use crate::scene::{CHAT, MODEL, PLAIN, PROVIDER, Scene, assert_error, credits, flat_bound, hello, with};

/// Price of a token of [`PLAIN`], in nano-credits.
const PRICE: i64 = 1_000;
/// Cost of the upstream's default answer.
const COST: i64 = 6 * PRICE;

fn body() -> Value {
    with(hello(json!({"model": PLAIN})), json!({"max_tokens": 100}))
}

/// Returns the hold of [`body`], in nano-credits.
fn bound() -> i64 {
    flat_bound(&body(), PRICE, 100)
}

/// Returns the settings of a free plan that covers [`PLAIN`], with this weekly allowance in
/// nano-credits.
fn plan(name: &str, allowance: i64) -> String {
    let allowance = credits(allowance);
    format!("[plans.{name}]\nprice = \"0\"\nallowance = \"{allowance}\"\nmodels = [\"*/plain\"]\n")
}

/// Subscribes the account and returns the id of the subscription.
async fn subscribe(gateway: &Gateway, account: &str, plan: &str) -> String {
    let create = ["subscriptions", "create", "--account", account, "--plan", plan];
    let created = gateway.command_line().run(&create).await;
    assert_eq!(created["state"], "active", "{created}");
    created["id"].as_str().unwrap().to_owned()
}

/// Returns the `plan` object of an account's usage.
async fn plan_of(gateway: &Gateway, key: &str) -> Value {
    gateway.usage(key, "").await["plan"].clone()
}

/// Returns the part of the weekly allowance that is used or held, in nano-credits.
async fn used(gateway: &Gateway, key: &str) -> i64 {
    nanos(&plan_of(gateway, key).await["weekly_window"]["used"])
}

#[tokio::test]
async fn without_credits_only_covered_calls_run() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, &plan("week", bound())).await;
        let (account, key) = account_with(&scene, 0).await;
        let response = scene.client().post_json(CHAT, &key, &body()).await;
        assert_error("without a plan", &response, "insufficient_credits", None);
        assert_eq!(plan_of(&scene.gateway, &key).await, Value::Null);

        subscribe(&scene.gateway, &account, "week").await;
        let response = scene.client().post_json(CHAT, &key, &body()).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let cost = response.header("x-tollgate-cost").unwrap();
        assert_eq!(nanos(&json!(cost)), COST);
        let rows = scene.gateway.usage(&key, "").await["data"].clone();
        assert_eq!(rows[0]["coverage"], "fully");
        assert_eq!(rows[0]["plan_name"], "week");
        assert_eq!(
            ["cost", "included"].map(|name| nanos(&rows[0][name])),
            [COST, COST]
        );

        // The rest of the week no longer covers the hold: neither allowance nor credits are used.
        let before = scene.gateway.ledger_check().await;
        for balance in [0, COST - 1] {
            if balance > 0 {
                scene.gateway.grant(&account, &credits(balance)).await;
            }
            let before = scene.gateway.ledger_check().await;
            let response = scene.client().post_json(CHAT, &key, &body()).await;
            assert_error("partly covered", &response, "insufficient_credits", None);
            assert_eq!(scene.gateway.ledger_check().await, before);
            assert_eq!(used(&scene.gateway, &key).await, COST);
            assert_eq!(scene.gateway.balance(&account).await.credits, balance);
        }
        assert_eq!(before.revenue, COST);
        assert_eq!(scene.upstream.request_count(), 1, "refused calls are not sent");

        scene.gateway.grant(&account, &credits(1)).await;
        let response = scene.client().post_json(CHAT, &key, &body()).await;
        assert_eq!(
            response.status,
            200,
            "the balance covers the rest: {}",
            response.text()
        );
        assert_eq!(
            scene.gateway.balance(&account).await.credits,
            COST,
            "the allowance paid for all"
        );
        let other = with(body(), json!({"model": MODEL}));
        let response = scene.client().post_json(CHAT, &key, &other).await;
        assert_error(
            "a model that the plan does not cover",
            &response,
            "insufficient_credits",
            None,
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn credits_pay_for_calls_beyond_the_allowance() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, &plan("tiny", COST - 2 * PRICE)).await;
        let (account, key) = account_with(&scene, bound()).await;
        subscribe(&scene.gateway, &account, "tiny").await;
        for (coverage, included) in [("partly", COST - 2 * PRICE), ("none", 0)] {
            scene.gateway.grant(&account, &credits(COST)).await;
            let response = scene.client().post_json(CHAT, &key, &body()).await;
            assert_eq!(response.status, 200, "{}", response.text());
            let row = scene.gateway.usage(&key, "").await["data"][0].clone();
            assert_eq!(row["coverage"], coverage, "{row}");
            assert_eq!(
                ["cost", "included"].map(|name| nanos(&row[name])),
                [COST, included]
            );
            assert_eq!(row["plan_name"], "tiny");
        }
        let usage = scene.gateway.usage(&key, "").await;
        assert_eq!(
            nanos(&usage["totals"]["cost"]),
            2 * COST,
            "included usage is a cost, too"
        );
        let left = bound() + (COST - 2 * PRICE);
        assert_eq!(nanos(&usage["balance"]["credits"]), left);
        scene.finish().await;
    }
}

#[tokio::test]
async fn usage_shows_the_plan() {
    let scene = Scene::start_with(&plan("week", bound())).await;
    let (account, key) = account_with(&scene, 0).await;
    let id = subscribe(&scene.gateway, &account, "week").await;
    let plan = plan_of(&scene.gateway, &key).await;
    let window = &plan["weekly_window"];
    assert_eq!(
        (&plan["tier"], &plan["status"]),
        (&json!("week"), &json!("active"))
    );
    assert_eq!(
        (&plan["cadence"], &plan["cancel_at_period_end"]),
        (&json!("monthly"), &json!(false))
    );
    assert_eq!(["limit", "used"].map(|name| nanos(&window[name])), [bound(), 0]);
    let shown = scene
        .gateway
        .command_line()
        .run(&["subscriptions", "show", &id])
        .await;
    assert_eq!(shown["week"]["start"], window["start"]);
    assert_eq!(
        shown["started_at"], window["start"],
        "the first week begins with the subscription"
    );
    assert_eq!(shown["paid_through"], plan["paid_through"]);
    scene
        .gateway
        .command_line()
        .run(&["subscriptions", "cancel", &id])
        .await;
    assert_eq!(plan_of(&scene.gateway, &key).await["cancel_at_period_end"], true);
    scene.finish().await;
}

/// Concurrent calls on two nodes, with an allowance for ten of them and no credits.
#[tokio::test]
async fn several_nodes_never_exceed_the_allowance() {
    let config = format!("{}[limits]\nrpm = 1000\n", plan("week", 10 * bound() + 3));
    let scene = Scene::start_on(Storage::Postgres, &config).await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, &config);
    let node = scene.gateway.start_node(options).await;
    let (account, key) = account_with(&scene, 0).await;
    subscribe(&scene.gateway, &account, "week").await;
    let mut calls = JoinSet::new();
    for number in 0..40 {
        let client = if number % 2 == 0 {
            scene.client()
        } else {
            node.client()
        };
        let key = key.clone();
        calls.spawn(async move { client.post_json(CHAT, &key, &body()).await.status });
    }
    let statuses = calls.join_all().await;
    let served = i64::try_from(statuses.iter().filter(|status| **status == 200).count()).unwrap();
    assert!(
        statuses.iter().all(|status| [200, 402].contains(status)),
        "{statuses:?}"
    );
    assert!(served >= 10, "{served}");
    assert_eq!(used(&scene.gateway, &key).await, served * COST);
    node.finish().await;
    scene.finish().await;
}

/// The models that a plan covers, and the plans on offer, follow the settings while the server
/// runs.
#[tokio::test]
async fn coverage_follows_the_settings() {
    let mut scene = Scene::start_with(&plan("week", bound())).await;
    let (account, key) = account_with(&scene, 0).await;
    subscribe(&scene.gateway, &account, "week").await;
    let without = plan("week", bound()).replace("*/plain", &format!("{PROVIDER}/*"));
    let changed = format!("{without}{}", crate::scene::settings(&scene.upstream));
    scene.gateway.change_config(&changed);
    scene.gateway.signal("HUP").await;
    scene.gateway.wait_for_log("settings reloaded", 1).await;
    let response = scene.client().post_json(CHAT, &key, &body()).await;
    assert_error("not covered any more", &response, "insufficient_credits", None);
    scene.finish().await;
}
