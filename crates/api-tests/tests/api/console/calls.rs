//! The calls of an account and their costs over time.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};
use tollgate_testkit::upstream::Reply;

use super::browser::{API, Browser};
use super::owner;
use super::people::invited;
use crate::scene::{CHAT, MODEL, PLAIN, Scene, hello};

const CALLS: &str = "/console/api/v1/calls";

async fn get(browser: &mut Browser, path: &str) -> Value {
    browser.done("GET", path, &Value::Null).await
}

fn ids(list: &Value) -> Vec<&str> {
    let rows = list["data"].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap()).collect()
}

/// Makes five calls of the account, and one of another account.
async fn with_calls(storage: Storage) -> (Scene, Browser) {
    let scene = Scene::start_on(storage, "").await;
    let client = scene.client();
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let commands = scene.gateway.command_line();
    let second = commands.create_key(&scene.account).await;
    for (key, model) in [(&scene.key, PLAIN), (&second, PLAIN), (&scene.key, "large")] {
        let call = client
            .post_json(CHAT, &key.secret, &hello(json!({"model": model})))
            .await;
        assert_eq!(call.status, 200, "{}", call.text());
    }
    let call = json!({"model": "sim/chat", "messages": [{"role": "user", "content": "Hi"}]});
    jo.done("POST", "/console/v1/chat/completions", &call).await;
    let failed = hello(json!({"model": PLAIN}));
    scene.upstream.push(Reply::error(400, "x", "no"));
    let failed = client.post_json(CHAT, &scene.key.secret, &failed).await;
    assert_ne!(failed.status, 200);
    let foreign = commands.create_account("foreign").await;
    scene.gateway.grant(&foreign, "10").await;
    let foreign = commands.create_key(&foreign).await;
    let call = client
        .post_json(CHAT, &foreign.secret, &hello(json!({"model": PLAIN})))
        .await;
    assert_eq!(call.status, 200);
    (scene, jo)
}

async fn calls_are_listed_filtered_and_shown(storage: Storage) {
    let (scene, mut jo) = with_calls(storage).await;
    let member = jo.session().await["accounts"][0]["member_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let all = get(&mut jo, CALLS).await;
    assert_eq!(all["data"].as_array().unwrap().len(), 5, "{all}");
    assert_eq!((&all["has_more"], &all["next"]), (&json!(false), &Value::Null));
    let mut sorted = ids(&all);
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(ids(&all), sorted, "newest first");

    let request = all["data"][4]["request_id"].as_str().unwrap();
    for (query, count) in [
        (format!("model={PLAIN}"), 3),
        ("model=large".to_owned(), 1),
        (format!("model={MODEL}"), 1),
        (format!("key_id={}", scene.key.id), 3),
        (format!("member_id={member}"), 1),
        (format!("endpoint={CHAT}"), 5),
        ("endpoint=/v1/embeddings".to_owned(), 0),
        ("outcome=ok".to_owned(), 4),
        ("outcome=error".to_owned(), 1),
        ("outcome=timeout".to_owned(), 0),
        (format!("request_id={request}"), 1),
        ("from=2026-01-01".to_owned(), 5),
        ("to=2026-01-01".to_owned(), 0),
        (format!("model={PLAIN}&outcome=ok"), 2),
    ] {
        let found = get(&mut jo, &format!("{CALLS}?{query}")).await;
        assert_eq!(found["data"].as_array().unwrap().len(), count, "{query}: {found}");
    }
    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = get(&mut jo, &format!("{CALLS}?limit=2{after}")).await;
        paged.extend(ids(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(paged, ids(&all));
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("after=x", "after"),
        ("key_id=x", "key_id"),
        ("member_id=x", "member_id"),
        ("outcome=maybe", "outcome"),
        ("from=x", "from"),
        ("request_id=x", "request_id"),
        ("x=1", "x"),
    ] {
        let (status, _, found) = jo.refused("GET", &format!("{CALLS}?{query}"), &Value::Null).await;
        assert_eq!((status, &*found), (400, param), "{query}");
    }

    // The receipt of each call adds up to its cost, and its transfers to its charge.
    for row in all["data"].as_array().unwrap() {
        let path = format!("{CALLS}/{}", row["id"].as_str().unwrap());
        let detail = get(&mut jo, &path).await;
        assert_eq!(detail["call"], *row);
        let receipt = &detail["receipt"];
        let sum: u128 = receipt["lines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| {
                let product: u128 = line["product"].as_str().unwrap().parse().unwrap();
                let (tokens, price) = (line["tokens"].as_u64().unwrap(), nanos(&line["price"]));
                assert_eq!(
                    product,
                    u128::from(tokens) * u128::try_from(price).unwrap(),
                    "{line}"
                );
                product
            })
            .sum();
        assert_eq!(
            nanos(&receipt["cost"]),
            i64::try_from(sum.div_ceil(1_000_000)).unwrap(),
            "{receipt}"
        );
        assert_eq!(receipt["charge"], row["cost"]);
        let settled = detail["transfers"].as_array().unwrap().iter();
        let settled: i64 = settled
            .filter(|leg| leg["leg"] == "settle")
            .map(|leg| nanos(&leg["amount"]))
            .sum();
        assert_eq!(settled, nanos(&receipt["paid"]), "{detail}");
        assert!(!detail.to_string().contains("overrun"), "{detail}");
    }

    let mut viewer = invited(&scene, &mut jo, "vi@example.com", "viewer").await;
    assert_eq!(ids(&get(&mut viewer, CALLS).await), ids(&all));
    let export = viewer
        .send("GET", &format!("{CALLS}.csv?model={PLAIN}"), &Value::Null)
        .await;
    assert_eq!(export.header("content-type"), Some("text/csv; charset=utf-8"));
    let lines: Vec<String> = export.text().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(
        lines[0].starts_with("request_id,created_at,ended_at,endpoint,model,requested_model,"),
        "{}",
        lines[0]
    );
    assert!(lines[1..].iter().all(|line| line.contains(PLAIN)), "{lines:?}");

    // Calls of other accounts do not exist.
    let path = format!("{CALLS}/{}", ids(&all)[0]);
    let foreign = scene.gateway.command_line().run(&["accounts", "list"]).await;
    let foreign = foreign
        .as_array()
        .unwrap()
        .iter()
        .find(|account| account["name"] == "foreign")
        .unwrap();
    let mut eve = owner(&scene.gateway, foreign["id"].as_str().unwrap(), "eve@example.com").await;
    let missing = format!("{CALLS}/hold_{}", "0".repeat(32));
    let answers = [
        eve.send("GET", &path, &Value::Null).await,
        eve.send("GET", &missing, &Value::Null).await,
    ];
    assert_eq!((answers[0].status, answers[0].json()), (404, answers[1].json()));
    assert_eq!(get(&mut eve, CALLS).await["data"].as_array().unwrap().len(), 1);
    assert_eq!(
        jo.refused("GET", &format!("{CALLS}/x"), &Value::Null).await.0,
        404
    );
    scene.finish().await;
}

#[tokio::test]
async fn calls_are_listed_filtered_and_shown_on_sqlite() {
    calls_are_listed_filtered_and_shown(Storage::Sqlite).await;
}

#[tokio::test]
async fn calls_are_listed_filtered_and_shown_on_postgres() {
    calls_are_listed_filtered_and_shown(Storage::Postgres).await;
}

async fn series_add_up_to_the_calls(storage: Storage) {
    let (scene, mut jo) = with_calls(storage).await;
    let all = get(&mut jo, CALLS).await;
    let cost: i64 = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| nanos(&row["cost"]))
        .sum();
    let series = format!("{API}/usage/series");
    for (by, groups) in [
        ("", 1),
        ("&by=model", 3),
        ("&by=key", 3),
        ("&by=member", 2),
        ("&by=endpoint", 1),
    ] {
        for step in ["hour", "day"] {
            let day = &all["data"][0]["created_at"].as_str().unwrap()[..10];
            let query = format!("{series}?from={day}&step={step}{by}");
            let found = get(&mut jo, &query).await;
            let found_groups = found["groups"].as_array().unwrap();
            assert_eq!(found_groups.len(), groups, "{query}: {found}");
            let total = |key: &str| -> i64 {
                found_groups
                    .iter()
                    .map(|group| match key {
                        "cost" => nanos(&group["cost"]),
                        _ => group[key].as_i64().unwrap(),
                    })
                    .sum()
            };
            assert_eq!((total("cost"), total("requests")), (cost, 5), "{query}");
            for group in found_groups {
                let points = group["points"].as_array().unwrap();
                let sum: i64 = points.iter().map(|point| nanos(&point["cost"])).sum();
                assert_eq!(sum, nanos(&group["cost"]), "{query}");
            }
            let costs: Vec<i64> = found_groups.iter().map(|group| nanos(&group["cost"])).collect();
            assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
        }
    }
    for (query, param) in [
        ("step=week", "step"),
        ("by=provider", "by"),
        ("from=x", "from"),
        ("from=2026-01-01&to=2025-01-01", "to"),
        ("from=2026-01-01&to=2026-02-02&step=hour", "from"),
        ("from=2025-01-01&to=2026-02-07&step=day", "from"),
        ("x=1", "x"),
    ] {
        let (status, _, found) = jo
            .refused("GET", &format!("{series}?{query}"), &Value::Null)
            .await;
        assert_eq!((status, &*found), (400, param), "{query}");
    }
    for query in [
        "from=2026-01-01&to=2026-02-01&step=hour",
        "from=2025-01-01&to=2026-02-05&step=day",
        "",
    ] {
        get(&mut jo, &format!("{series}?{query}")).await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn series_add_up_to_the_calls_on_sqlite() {
    series_add_up_to_the_calls(Storage::Sqlite).await;
}

#[tokio::test]
async fn series_add_up_to_the_calls_on_postgres() {
    series_add_up_to_the_calls(Storage::Postgres).await;
}
