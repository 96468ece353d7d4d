//! The process is killed while a report is written. No step is lost or charged twice.

use std::time::Duration;

use serde_json::json;
use tollgate_testkit::gateway::{Storage, nanos};

use super::{QUESTION, minimal};
use crate::scene::{GRANTED, Scene};

#[tokio::test]
async fn reports_survive_the_death_of_their_process() {
    killed(Storage::Sqlite, 6, "minimal").await;
}

#[tokio::test]
#[ignore = "a proof: make prove"]
async fn prove_research_kill() {
    killed(Storage::Sqlite, 20, "low").await;
    // On PostgreSQL, a job continues when the lease of the dead process has expired.
    killed(Storage::Postgres, 3, "minimal").await;
}

/// Kills the process at different moments of a report, then compares its charge with its parts.
async fn killed(storage: Storage, times: u64, effort: &str) {
    let mut scene = Scene::start_on(storage, "").await;
    let body = minimal(json!({"query": format!("[[sim delay=150]] {QUESTION}"), "reasoning_effort": effort}));
    let id = scene.research(&body).await;
    for time in 0..times {
        // The moments are spread over the calls, which take 150 ms each. Each process has the time
        // to complete a call: a job is abandoned after three deaths without progress.
        tokio::time::sleep(Duration::from_millis(450 + 37 * (time % 5))).await;
        scene.gateway.kill().await;
        scene.gateway.restart().await;
    }
    let job = scene.researched(&id).await;
    assert_eq!(job["status"], "completed", "{job}");
    scene.assert_cited(&id, &job["result"]).await;
    let lost = job["result"]["stats"]["lost_calls"].as_u64().unwrap();
    assert!(lost <= times * 8, "{lost} calls were in flight at {times} deaths");
    let cost = nanos(&job["cost"]);
    let row = scene.row(job["request_id"].as_str().unwrap()).await;
    assert_eq!(nanos(&row["cost"]), cost);
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    let check = scene.finish().await;
    assert!(check.clean);
    assert_eq!((check.usage_rows, check.open_holds), (1, 0));
}
