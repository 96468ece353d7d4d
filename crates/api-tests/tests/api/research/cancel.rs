//! Reports are cancelled while a call of each kind is unanswered.

use serde_json::json;
use tollgate_testkit::gateway::{eventually, nanos};

use super::server::{CALL_PRICE, Kind, QUERY_PRICE, ResearchServer, question};
use crate::scene::{GRANTED, Scene};

/// Kinds of calls with the phase, and the number of recorded calls of planner, reader and writer,
/// of queries, and of sources.
const PHASES: [(Kind, &str, i64, i64, usize); 10] = [
    (Kind::Plan, "planning", 0, 0, 0),
    (Kind::Search, "searching", 1, 0, 0),
    (Kind::Page, "reading", 1, 2, 0),
    (Kind::Notes, "reading", 1, 2, 2),
    (Kind::Reflection, "reflecting", 3, 2, 2),
    (Kind::Outline, "writing", 6, 3, 3),
    (Kind::Section, "writing", 7, 3, 3),
    (Kind::Judgement, "verifying", 9, 3, 3),
    (Kind::Corrections, "verifying", 9, 3, 3),
    (Kind::SecondJudgement, "verifying", 11, 3, 3),
];

/// The job is cancelled, its calls are dropped, and it is charged for the recorded calls.
#[tokio::test]
async fn reports_are_cancelled_in_each_phase() {
    let server = ResearchServer::start().await;
    let scene = Scene::start_with(&server.settings()).await;
    let mut charged = 0;
    for (kind, phase, calls, queries, sources) in PHASES {
        let unit = format!("Unit{kind:?}");
        server.hold(&unit, kind);
        let id = scene.research(&question(&unit, json!({}))).await;
        server.until_held(&unit, kind.count()).await;
        let job = scene.read(&format!("/v1/jobs/{id}")).await.json();
        assert_eq!(
            (&job["status"], &job["phase"]),
            (&json!("in_progress"), &json!(phase)),
            "{kind:?}: {job}"
        );
        let cancelled = scene.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.text());
        let job = scene.researched(&id).await;
        assert_eq!(job["status"], "cancelled", "{kind:?}: {job}");
        eventually("the calls are dropped", async || {
            server.server.open_connections() == 0
        })
        .await;
        server.release();
        let result = &job["result"];
        assert_eq!(result["partial"], true, "{kind:?}: {job}");
        assert_eq!(
            result["sources"].as_array().unwrap().len(),
            sources,
            "{kind:?}: {job}"
        );

        let row = scene.row(job["request_id"].as_str().unwrap()).await;
        let parts = row["parts"].as_array().cloned().unwrap_or_default();
        let sum = |judges: bool| -> i64 {
            let parts = parts.iter().filter(|part| (part["name"] == "judge") == judges);
            parts.map(|part| nanos(&part["cost"])).sum()
        };
        assert_eq!(
            sum(false),
            calls * CALL_PRICE + queries * QUERY_PRICE,
            "{kind:?}: {row}"
        );
        let is_judged = kind > Kind::Judgement;
        assert_eq!(sum(true) > 0, is_judged, "{kind:?}: {row}");
        let cost = nanos(&job["cost"]);
        assert_eq!(
            (cost, cost),
            (sum(true) + sum(false), nanos(&row["cost"])),
            "{kind:?}: {row}"
        );
        charged += cost;
        // No call is repeated after the cancellation.
        assert!(
            server.calls(&unit).values().all(|count| *count == 1),
            "{:?}",
            server.calls(&unit)
        );
    }
    assert_eq!(scene.settled().await.credits, GRANTED - charged);
    let check = scene.finish().await;
    assert!(check.clean);
    assert_eq!(check.usage_rows, PHASES.len() as u64);
}
