//! The life cycle of a subscription, on the command line.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, execute_embedded};

use super::{plan_of, subscribe};
use crate::money::holds::account_with;
use crate::scene::{Scene, credits};

const CREDIT: i64 = 1_000_000_000;

#[tokio::test]
async fn three_plans_are_offered_without_settings() {
    let scene = Scene::start().await;
    let plans = scene.gateway.command_line().run(&["plans", "list"]).await;
    let seen: Vec<Value> = plans
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| json!([plan["name"], plan["price"], plan["allowance"], plan["cadence"]]))
        .collect();
    let expected = [
        json!(["lite", "15", "5", "monthly"]),
        json!(["max", "300", "100", "monthly"]),
        json!(["pro", "75", "25", "monthly"]),
    ];
    assert_eq!(seen, expected);
    scene.finish().await;
}

#[tokio::test]
async fn a_subscription_is_paid_cancelled_and_resumed() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 14 * CREDIT).await;
        let command_line = scene.gateway.command_line();
        let create = ["subscriptions", "create", "--account", &account, "--plan", "lite"];
        let before = scene.gateway.ledger_check().await;
        let refused = command_line.try_run(&create).await;
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("costs 15 credits"), "{refused:?}");
        assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");

        scene.gateway.grant(&account, &credits(20 * CREDIT)).await;
        let id = subscribe(&scene.gateway, &account, "lite").await;
        assert_eq!(scene.gateway.balance(&account).await.credits, 19 * CREDIT);
        let second = command_line.try_run(&create).await;
        assert!(
            second.code != 0 && second.stderr.contains("one plan at a time"),
            "{second:?}"
        );

        for (action, ends) in [("cancel", true), ("resume", false)] {
            let changed = command_line.run(&["subscriptions", action, &id]).await;
            assert_eq!(changed["cancel_at_period_end"], ends, "{action}");
            let again = command_line.try_run(&["subscriptions", action, &id]).await;
            assert_ne!(again.code, 0, "{action}: {again:?}");
        }
        let renewed = command_line.run(&["subscriptions", "renew", &id]).await;
        assert_eq!(
            (&renewed["period"], &renewed["state"]),
            (&json!(1), &json!("active"))
        );
        assert_eq!(scene.gateway.balance(&account).await.credits, 4 * CREDIT);
        let plan = plan_of(&scene.gateway, &key).await;
        assert_eq!(plan["paid_through"], renewed["paid_through"]);

        let shown = command_line.run(&["subscriptions", "show", &id]).await;
        let events = shown["events"].as_array().unwrap().iter();
        let kinds: Vec<&str> = events.map(|event| event["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["created", "cancel_requested", "resumed", "renewed"]);
        let listed = command_line
            .run(&["subscriptions", "list", "--account", &account])
            .await;
        assert_eq!(listed[0]["id"], id);
        let table = command_line
            .try_run(&["subscriptions", "list", "--account", &account])
            .await;
        let mut rows = table.stdout.lines().map(str::split_whitespace);
        let titles: Vec<&str> = rows.next().unwrap().take(3).collect();
        assert_eq!(titles, ["ID", "PLAN", "PRICE"]);
        let values: Vec<&str> = rows.next().unwrap().take(3).collect();
        assert_eq!(values, [&id, "lite", "15"]);
        scene.finish().await;
    }
}

/// A plan, a cadence, and the price, or nothing if the plan has no such price.
#[tokio::test]
async fn a_year_of_a_monthly_plan_costs_twelve_months() {
    let config = "[plans.month]\nprice = \"2\"\n[plans.year]\nprice = \"20\"\ncadence = \"yearly\"\n\
                  [plans.house]\nprice = \"9\"\npayer = \"provider\"\n";
    let scene = Scene::start_with(config).await;
    for (plan, cadence, price) in [
        ("month", Some("yearly"), Some(24)),
        ("month", Some("monthly"), Some(2)),
        ("year", None, Some(20)),
        ("year", Some("monthly"), None),
        ("house", None, Some(0)),
        ("lite", None, None),
    ] {
        let (account, _) = account_with(&scene, 30 * CREDIT).await;
        let mut create = vec!["subscriptions", "create", "--account", &account, "--plan", plan];
        create.extend(cadence.iter().flat_map(|cadence| ["--cadence", cadence]));
        let done = scene.gateway.command_line().try_run(&create).await;
        assert_eq!(done.code == 0, price.is_some(), "{plan} {cadence:?}: {done:?}");
        let left = 30 - price.unwrap_or(0);
        assert_eq!(
            scene.gateway.balance(&account).await.credits,
            left * CREDIT,
            "{plan} {cadence:?}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn unknown_ids_are_refused_with_a_hint() {
    let scene = Scene::start().await;
    let nothing = "sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c";
    let unknown = "acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a";
    for (arguments, advice) in [
        (&["subscriptions", "show", nothing][..], "subscriptions list"),
        (&["subscriptions", "cancel", nothing], "subscriptions list"),
        (&["subscriptions", "list", "--account", unknown], "accounts list"),
        (
            &["subscriptions", "create", "--account", unknown, "--plan", "lite"],
            "accounts list",
        ),
        (
            &["subscriptions", "create", "--account", unknown, "--plan", "gold"],
            "plans list",
        ),
    ] {
        let done = scene.gateway.command_line().try_run(arguments).await;
        assert!(
            done.code != 0 && done.stderr.contains(advice),
            "{arguments:?}: {done:?}"
        );
    }
    scene.finish().await;
}

/// Stops the gateway, changes its database, and restarts it.
async fn while_stopped(scene: &mut Scene, statements: &str) {
    scene.gateway.stop().await;
    match scene.gateway.database() {
        Some(database) => database.execute(statements).await,
        None => execute_embedded(&scene.gateway.data().join("tollgate.db"), statements).await,
    }
    scene.gateway.restart().await;
}

/// A start processes due subscriptions: it renews the first, marks the second as past due and later
/// expires it, and ends the third.
#[tokio::test]
async fn due_subscriptions_are_renewed_or_end() {
    const MONTH_AND_A_WEEK: i64 = 38 * 24 * 3600 * 1_000_000;
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let config = "[plans.month]\nprice = \"2\"\nallowance = \"1\"\n";
        let mut scene = Scene::start_on(storage, config).await;
        let mut plans = Vec::new();
        for balance in [5, 3, 5] {
            let (account, key) = account_with(&scene, balance * CREDIT).await;
            let id = subscribe(&scene.gateway, &account, "month").await;
            plans.push((account, key, id));
        }
        let cancel = ["subscriptions", "cancel", &plans[2].2];
        scene.gateway.command_line().run(&cancel).await;
        let earlier = format!(
            "UPDATE subscription SET anchor = anchor - {MONTH_AND_A_WEEK}, paid_through = paid_through - {MONTH_AND_A_WEEK}"
        );
        while_stopped(&mut scene, &earlier).await;
        for ((account, key, _), (state, balance, has_week)) in
            plans
                .iter()
                .zip([("active", 1, true), ("past_due", 1, true), ("canceled", 3, false)])
        {
            let plan = plan_of(&scene.gateway, key).await;
            assert_eq!(plan["status"], state, "{plan}");
            assert_eq!(plan["weekly_window"].is_object(), has_week, "{plan}");
            assert_eq!(
                scene.gateway.balance(account).await.credits,
                balance * CREDIT,
                "{state}"
            );
        }

        // Renewals are not repeated, and debts of more than a week expire.
        let owed =
            "UPDATE subscription SET past_due_since = past_due_since - 604800000000 WHERE state = 'past_due'";
        while_stopped(&mut scene, owed).await;
        let mut seen = Vec::new();
        for (account, _, id) in &plans {
            let shown = scene
                .gateway
                .command_line()
                .run(&["subscriptions", "show", id])
                .await;
            let events = shown["events"].as_array().unwrap().iter();
            let kinds: Vec<&str> = events
                .skip(1)
                .map(|event| event["kind"].as_str().unwrap())
                .collect();
            seen.push((
                kinds.join(" "),
                scene.gateway.balance(account).await.credits / CREDIT,
            ));
        }
        let expected = [
            ("renewed", 1),
            ("past_due expired", 1),
            ("cancel_requested canceled", 3),
        ];
        assert_eq!(seen, expected.map(|(kinds, credits)| (kinds.to_owned(), credits)));
        scene.finish().await;
    }
}

/// Moves all times of a subscription into the past, and restarts the gateway so that due renewals
/// run.
async fn pass(scene: &mut Scene, days: i64) {
    let statement = format!(
        "UPDATE subscription SET anchor = anchor - {days} * 86400000000, paid_through = paid_through - {days} * 86400000000"
    );
    scene.gateway.stop().await;
    match scene.gateway.database() {
        Some(database) => database.execute(&statement).await,
        None => execute_embedded(&scene.gateway.data().join("tollgate.db"), &statement).await,
    }
    scene.gateway.restart().await;
}

#[tokio::test]
async fn an_upgrade_applies_immediately_less_the_rest_of_the_old_plan() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 90 * CREDIT).await;
        let command_line = scene.gateway.command_line();
        let lite = subscribe(&scene.gateway, &account, "lite").await;
        let change = ["subscriptions", "change-plan", &lite, "--plan", "pro"];
        let changed = command_line.run(&change).await;
        assert_eq!(
            (&changed["subject"], &changed["state"]),
            (&json!("pro"), &json!("active"))
        );
        assert_ne!(changed["id"], lite);
        // A week of four and more is used. The refund of 15 credits is 11.25 to 11.62, by the
        // length of the month. The account had 90 credits above both prices, so its balance is the
        // refund.
        let credit = scene.gateway.balance(&account).await.credits;
        assert!((11 * CREDIT..12 * CREDIT).contains(&credit), "{credit}");
        let plan = plan_of(&scene.gateway, &key).await;
        assert_eq!(
            (&plan["tier"], &plan["weekly_window"]["limit"]),
            (&json!("pro"), &json!("25"))
        );
        let old = command_line.run(&["subscriptions", "show", &lite]).await;
        assert_eq!(old["state"], "canceled");
        assert_eq!(
            old["events"].as_array().unwrap().last().unwrap()["kind"],
            "replaced"
        );
        let again = command_line.try_run(&change).await;
        assert!(
            again.code == 2 && again.stderr.contains("not active"),
            "{again:?}"
        );
        let id = changed["id"].as_str().unwrap();
        let before = scene.gateway.ledger_check().await;
        let too_much = command_line
            .try_run(&["subscriptions", "change-plan", id, "--plan", "max"])
            .await;
        assert!(
            too_much.code == 1 && too_much.stderr.contains("the account has"),
            "{too_much:?}"
        );
        assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");
        for (plan, said) in [("pro", "already has this plan"), ("gold", "plan does not exist")] {
            let refused = command_line
                .try_run(&["subscriptions", "change-plan", id, "--plan", plan])
                .await;
            assert!(refused.code == 2 && refused.stderr.contains(said), "{refused:?}");
        }
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_downgrade_applies_with_the_next_period_unless_cancelled() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let mut scene = Scene::start_on(storage, "").await;
        let (account, key) = account_with(&scene, 200 * CREDIT).await;
        let command_line = scene.gateway.command_line();
        let pro = subscribe(&scene.gateway, &account, "pro").await;
        let change = async |plan: &'static str| {
            let command = ["subscriptions", "change-plan", &pro, "--plan", plan];
            command_line.run(&command).await
        };
        let wanted = change("lite").await;
        assert_eq!((&wanted["id"], &wanted["subject"]), (&json!(pro), &json!("pro")));
        assert_eq!(wanted["next_plan"], json!(["lite", "monthly"]));
        assert_eq!(change("pro").await["next_plan"], Value::Null);
        change("lite").await;
        assert_eq!(scene.gateway.balance(&account).await.credits, 125 * CREDIT);
        pass(&mut scene, 32).await;
        let plan = plan_of(&scene.gateway, &key).await;
        assert_eq!(
            (&plan["tier"], &plan["weekly_window"]["limit"]),
            (&json!("lite"), &json!("5"))
        );
        assert_eq!(scene.gateway.balance(&account).await.credits, 110 * CREDIT);
        let command_line = scene.gateway.command_line();
        let old = command_line.run(&["subscriptions", "show", &pro]).await;
        assert_eq!(old["state"], "canceled");
        let kinds: Vec<&str> = old["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["kind"].as_str().unwrap())
            .collect();
        let asked = "plan_change_requested";
        assert_eq!(
            kinds,
            ["created", asked, "plan_change_withdrawn", asked, "replaced"]
        );
        scene.finish().await;
    }
}
