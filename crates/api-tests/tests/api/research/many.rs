//! Many concurrent reports of one account.

use serde_json::json;
use tollgate_testkit::gateway::nanos;

use super::{QUESTION, Scene, minimal};
use crate::scene::GRANTED;

/// Maximum growth of the process, in bytes.
const MAX_GROWTH: u64 = 400 << 20;

#[tokio::test]
async fn concurrent_reports_are_charged_exactly() {
    concurrent(6, "minimal").await;
}

#[tokio::test]
#[ignore = "a proof: make prove"]
async fn prove_a_hundred_concurrent_reports() {
    concurrent(100, "low").await;
}

async fn concurrent(count: usize, effort: &str) {
    let scene = Scene::start_with("[research]\nper_account = 100\n").await;
    let id = scene.research(&minimal(json!({}))).await;
    let first = scene.researched(&id).await;
    let before = scene.gateway.peak_memory();
    let body = minimal(json!({"reasoning_effort": effort}));
    let mut ids = Vec::new();
    // The first report is one of the rows.
    for _ in 1..count {
        ids.push(scene.research(&body).await);
    }
    let mut charged = nanos(&first["cost"]);
    for id in &ids {
        let job = scene.researched(id).await;
        assert_eq!(job["status"], "completed", "{job}");
        let result = &job["result"];
        assert!(
            result["report"].as_str().unwrap().contains("912,600"),
            "{QUESTION}: {result}"
        );
        assert_eq!(
            (&result["degraded"], &result["stats"]["lost_calls"]),
            (&json!(false), &json!(0))
        );
        charged += nanos(&job["cost"]);
    }
    let growth = scene.gateway.peak_memory() - before;
    println!("{count} reports: {} MiB more", growth >> 20);
    assert!(growth <= MAX_GROWTH, "{growth} bytes");
    let rows = scene.rows().await;
    assert_eq!(rows.len(), count);
    for row in &rows {
        let parts = row["parts"].as_array().unwrap().iter();
        assert_eq!(
            parts.map(|part| nanos(&part["cost"])).sum::<i64>(),
            nanos(&row["cost"]),
            "{row}"
        );
    }
    assert_eq!(scene.settled().await.credits, GRANTED - charged);
    let check = scene.finish().await;
    assert!(check.clean);
    assert_eq!(check.usage_rows, count as u64);
}
