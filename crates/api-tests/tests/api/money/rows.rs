//! `GET /v1/account/usage`: rows, filters, pages, totals.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};
use tollgate_testkit::upstream::Reply;

use crate::scene::{CHAT, FREE, MODEL, PLAIN, Scene, assert_error, hello};

/// Makes seven calls: three models, two keys, one failed call.
async fn used(scene: &Scene, second: &str) {
    for (number, (model, key)) in [
        (MODEL, scene.key.secret.as_str()),
        (PLAIN, &scene.key.secret),
        (MODEL, second),
        ("large", second),
        (FREE, &scene.key.secret),
        (PLAIN, second),
        (MODEL, &scene.key.secret),
    ]
    .into_iter()
    .enumerate()
    {
        let failed = number == 5;
        scene.upstream.push(if failed {
            Reply::error(400, "x", "no")
        } else {
            Reply::words(number + 1)
        });
        let response = scene
            .client()
            .post_json(CHAT, key, &hello(json!({"model": model})))
            .await;
        assert_eq!(
            response.status,
            if failed { 400 } else { 200 },
            "{}",
            response.text()
        );
    }
}

fn sum(rows: &[Value], of: impl Fn(&Value) -> i64) -> i64 {
    rows.iter().map(of).sum()
}

fn tokens(row: &Value) -> i64 {
    row["usage"]["total_tokens"].as_i64().unwrap()
}

#[tokio::test]
async fn rows_filters_and_totals() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let second = scene.gateway.key(&scene.account).await;
        used(&scene, &second.secret).await;
        let all = scene.rows().await;
        assert_eq!(all.len(), 7);
        let ask = async |query: &str| {
            scene
                .gateway
                .usage(&scene.key.secret, &format!("?limit=100&{query}"))
                .await
        };

        let row = &all[0];
        let names: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        for name in [
            "id",
            "request_id",
            "created_at",
            "model",
            "requested_model",
            "upstream_model",
            "key_id",
            "endpoint",
            "usage",
            "cost",
            "outcome",
            "estimated",
            "coverage",
            "plan_name",
            "price_version",
            "first_content_ms",
            "duration_ms",
            "resource_type",
            "resource_id",
            "parent_id",
            "period_start",
            "period_end",
        ] {
            assert!(names.contains(&name), "{name} in {row}");
        }
        assert_eq!(
            (&row["endpoint"], &row["coverage"], &row["plan_name"]),
            (&json!(CHAT), &json!("none"), &json!(null))
        );
        let whole = ask("").await;
        assert_eq!(
            (&whole["plan"], &whole["balance"]["held"]),
            (&json!(null), &json!("0"))
        );

        // Every filter returns exactly the rows that it describes, and totals over them.
        let (middle, id) = (
            all[3]["created_at"].as_str().unwrap(),
            all[2]["request_id"].as_str().unwrap(),
        );
        let created = |row: &Value| row["created_at"].as_str().unwrap().to_owned();
        let same = |name: &'static str, value: &str| {
            let value = json!(value);
            move |row: &Value| row[name] == value
        };
        let filters: Vec<(String, Box<dyn Fn(&Value) -> bool>)> = vec![
            (String::new(), Box::new(|_| true)),
            (format!("model={MODEL}"), Box::new(same("model", MODEL))),
            // Filters by an alias and by the provider's model name.
            ("model=large".to_owned(), Box::new(same("model", MODEL))),
            ("model=large-v1".to_owned(), Box::new(same("model", MODEL))),
            ("model=acme/none".to_owned(), Box::new(|_| false)),
            (
                format!("key_id={}", second.id),
                Box::new(same("key_id", &second.id)),
            ),
            (format!("key_id={}&model={PLAIN}", second.id), {
                let (key, model) = (same("key_id", &second.id), same("model", PLAIN));
                Box::new(move |row| key(row) && model(row))
            }),
            (format!("endpoint={CHAT}"), Box::new(|_| true)),
            ("endpoint=/v1/messages".to_owned(), Box::new(|_| false)),
            (format!("request_id={id}"), Box::new(same("request_id", id))),
            (
                format!("from={middle}"),
                Box::new(|row| created(row).as_str() >= middle),
            ),
            (
                format!("to={middle}"),
                Box::new(|row| created(row).as_str() < middle),
            ),
            ("from=2020-01-01&to=2020-01-02".to_owned(), Box::new(|_| false)),
        ];
        for (query, matches) in filters {
            let answer = ask(&query).await;
            let expected: Vec<Value> = all.iter().filter(|row| matches(row)).cloned().collect();
            assert_eq!(answer["data"], json!(expected), "{query}");
            let totals = &answer["totals"];
            assert_eq!(totals["requests"], expected.len(), "{query}");
            assert_eq!(
                nanos(&totals["cost"]),
                sum(&expected, |row| nanos(&row["cost"])),
                "{query}: {totals}"
            );
            assert_eq!(totals["usage"]["total_tokens"], sum(&expected, tokens), "{query}");
        }
        grouped(&all, &ask).await;
        scene.finish().await;
    }
}

/// Asserts that each group is the sum of its rows.
async fn grouped(all: &[Value], ask: &impl AsyncFn(&str) -> Value) {
    for (group, name) in [
        ("model", "model"),
        ("key", "key_id"),
        ("endpoint", "endpoint"),
        ("day", "created_at"),
    ] {
        let mut expected: BTreeMap<String, (u64, i64, i64)> = BTreeMap::new();
        for row in all {
            let value = row[name].as_str().unwrap();
            let value = if group == "day" { &value[..10] } else { value };
            let sums = expected.entry(value.to_owned()).or_default();
            *sums = (sums.0 + 1, sums.1 + nanos(&row["cost"]), sums.2 + tokens(row));
        }
        let answer = ask(&format!("group_by={group}")).await;
        let groups = answer["totals"]["groups"].as_array().unwrap();
        let found: BTreeMap<String, (u64, i64, i64)> = groups
            .iter()
            .map(|group| {
                let sums = (
                    group["requests"].as_u64().unwrap(),
                    nanos(&group["cost"]),
                    tokens(group),
                );
                (group["group"].as_str().unwrap().to_owned(), sums)
            })
            .collect();
        assert_eq!(found, expected, "{group}");
        assert_eq!(groups.len(), expected.len(), "{group}: each is listed once");
    }
}

#[tokio::test]
async fn pages_show_every_row_once() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        used(&scene, &scene.key.secret).await;
        let all = scene.rows().await;
        for limit in [1, 2, 3, 7, 8] {
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let page = scene
                    .gateway
                    .usage(&scene.key.secret, &format!("?limit={limit}{after}"))
                    .await;
                let rows = page["data"].as_array().unwrap();
                assert!(rows.len() <= limit);
                assert_eq!(
                    page["totals"]["requests"], 7,
                    "totals are over all rows that match, not over the page"
                );
                seen.extend(rows.iter().cloned());
                if page["has_more"] == false {
                    break;
                }
                after = format!("&after={}", seen.last().unwrap()["id"].as_str().unwrap());
            }
            assert_eq!(seen, all, "{limit}");
        }
        scene.finish().await;
    }
}

#[tokio::test]
async fn an_account_cannot_see_the_usage_of_another() {
    let scene = Scene::start().await;
    used(&scene, &scene.key.secret).await;
    let row = scene.rows().await[0].clone();
    let stranger = scene.gateway.key(&scene.gateway.account().await).await.secret;
    for query in [
        String::new(),
        format!("?key_id={}", scene.key.id),
        format!("?request_id={}", row["request_id"].as_str().unwrap()),
        format!("?after={}", row["id"].as_str().unwrap()),
        "?group_by=model".to_owned(),
    ] {
        let usage = scene.gateway.usage(&stranger, &query).await;
        assert_eq!(
            (&usage["data"], &usage["totals"]["requests"]),
            (&json!([]), &json!(0)),
            "{query}"
        );
        assert_eq!(usage["balance"]["credits"], "0", "{query}");
    }
    assert_error(
        "no key",
        &scene.client().get("/v1/account/usage", "").await,
        "missing_api_key",
        None,
    );
    scene.finish().await;
}
