//! Batches across crashes of the gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::gateway::{Storage, eventually, nanos};
use tollgate_testkit::upstream::Reply;

use super::lines;
use crate::scene::{CHAT, GRANTED, PLAIN, Scene};

/// Asserts that each request is in exactly one result file and was sent at most once, and that the
/// charge is the cost of the results.
async fn assert_each_once(scene: &Scene, done: &Value, total: usize) {
    let answered = scene.results(&done["output_file_id"]).await;
    let errors = scene.results(&done["error_file_id"]).await;
    assert_eq!(answered.len() + errors.len(), total);
    assert!(answered.keys().all(|name| !errors.contains_key(name)));
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    for request in scene.upstream.requests() {
        let body = request.json().unwrap();
        *asked
            .entry(body["messages"][0]["content"].to_string())
            .or_default() += 1;
    }
    let twice: Vec<_> = asked.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let cost: i64 = answered
        .values()
        .map(|line| nanos(&line["response"]["body"]["usage"]["cost"]))
        .sum();
    assert_eq!(nanos(&done["cost"]), cost);
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    assert_eq!(scene.rows().await.len(), 1);
}

/// Kills the process repeatedly. Each request has one result and is sent at most once.
#[tokio::test]
async fn each_line_has_one_result_despite_crashes() {
    // On PostgreSQL, the lease of the dead process must expire before the batch continues.
    for (storage, deaths) in [
        (Storage::Sqlite, &[5, 15, 25, 35, 45][..]),
        (Storage::Postgres, &[5]),
    ] {
        let mut scene = Scene::start_on(storage, "").await;
        let slowly = Reply::words(2).delay(Duration::from_millis(20));
        scene.upstream.set_for_model("plain-v1", slowly);
        let input = scene.input(&lines(PLAIN, 200)).await;
        let batch = scene.batch(&input, CHAT).await;
        for min_completed in deaths.iter().copied() {
            eventually("some have ended", async || {
                let counts = &scene.shown(&batch).await["request_counts"];
                counts["completed"].as_u64().unwrap() >= min_completed
            })
            .await;
            scene.gateway.kill().await;
            let before = scene.upstream.request_count();
            scene.gateway.restart().await;
            // Counts upstream requests, because polling the batch would exceed the rate limit.
            eventually("it resumes", async || scene.upstream.request_count() > before).await;
        }
        let done = scene.until(&batch, "completed").await;
        assert_each_once(&scene, &done, 200).await;
        scene.finish().await;
    }
}

/// Kills the process at random points of a batch of 10,000 lines, within lines and between them.
#[tokio::test]
#[ignore = "runs for a minute"]
async fn prove_each_of_ten_thousand_lines_has_one_result_despite_crashes() {
    const LINES: u64 = 10_000;
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("SEED={seed}");
    let mut dice = seed.wrapping_mul(2).wrapping_add(1);
    let mut throw = |sides: u64| {
        // Knuth's multiplier: this test needs no better randomness.
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let mut scene = Scene::start_with("").await;
    scene
        .upstream
        .set_for_model("plain-v1", Reply::words(2).delay(Duration::from_millis(2)));
    let input = scene.input(&lines(PLAIN, usize::try_from(LINES).unwrap())).await;
    let batch = scene.batch(&input, CHAT).await;
    let mut deaths = 0;
    while scene.upstream.request_count() < LINES - 600 {
        let next = scene.upstream.request_count() + 20 + throw(500);
        eventually("some were sent", async || scene.upstream.request_count() >= next).await;
        scene.gateway.kill().await;
        deaths += 1;
        scene.gateway.restart().await;
    }
    let mut done = scene.shown(&batch).await;
    while done["status"] != "completed" {
        let count = scene.upstream.request_count();
        eventually("it resumes", async || {
            done = scene.shown(&batch).await;
            done["status"] == "completed" || scene.upstream.request_count() > count
        })
        .await;
    }
    println!(
        "{deaths} deaths, {} lines cut off",
        done["request_counts"]["failed"]
    );
    assert!(deaths >= 15, "{deaths}");
    assert_each_once(&scene, &done, usize::try_from(LINES).unwrap()).await;
    scene.finish().await;
}
