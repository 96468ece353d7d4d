//! The admin API lists unfinished research jobs of all accounts without their contents.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_storage::{JobAdvance, JobClaim, Role};
use tollgate_types::WorkerId;

use super::Office;

const JOBS: &str = "/admin/v1/research/jobs";

fn ids(list: &Value) -> Vec<Value> {
    let data = list["data"].as_array().unwrap();
    data.iter().map(|job| job["id"].clone()).collect()
}

#[tokio::test]
async fn research_of_every_account_is_listed_without_its_content() {
    let office = Office::open().await;
    let (tenant, other) = (office.scene.tenant(1_000).await, office.scene.tenant(1_000).await);
    let mut accepted = Vec::new();
    for (tenant, number) in [(&tenant, 1), (&other, 2), (&tenant, 3)] {
        let body = json!({
            "model": "sim/research", "query": format!("Where is the canary {number}?"),
            "metadata": {"canary": "x"}, "instructions": "Name the canary.",
        });
        let answer = office.scene.post(tenant, "/v1/research", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        accepted.insert(0, answer.body["job_id"].clone());
    }
    let [third, second, first] = &accepted[..] else {
        panic!("three jobs")
    };

    // A worker starts the oldest job of each account and reports a phase.
    let app_state = &office.scene.app_state;
    let now = app_state.clock.now();
    let claim = JobClaim {
        worker: WorkerId::from_u128(1),
        now,
        until: now.plus(Duration::from_secs(30)),
        limit: 10,
        per_account: 1,
        caps: Arc::default(),
    };
    let leased = app_state.storage.jobs.claim(claim).await.unwrap();
    assert_eq!(leased.len(), 2);
    for leased in leased {
        let advance = JobAdvance {
            phase: Some("searching".into()),
            progress: Some(20),
            ..JobAdvance::default()
        };
        let advanced = app_state.storage.jobs.advance(leased.lease, advance, now).await;
        advanced.unwrap();
    }

    let all = office.get(JOBS).await;
    assert_eq!((ids(&all), &all["has_more"]), (accepted.clone(), &json!(false)));
    assert!(!all.to_string().contains("canary"), "{all}");
    let shown = |at: usize, name: &str| all["data"][at][name].clone();
    for (at, account, status, phase, progress) in [
        (0, &tenant, "queued", Value::Null, Value::Null),
        (1, &other, "in_progress", json!("searching"), json!(20)),
        (2, &tenant, "in_progress", json!("searching"), json!(20)),
    ] {
        assert_eq!(shown(at, "account"), json!(account.id));
        assert_eq!(shown(at, "status"), status);
        assert_eq!((shown(at, "phase"), shown(at, "progress")), (phase, progress));
        assert_eq!(shown(at, "started_at").is_null(), status == "queued");
        assert_eq!(shown(at, "model"), "sim/research");
        assert_eq!(
            (shown(at, "cost"), shown(at, "cancel_requested")),
            (Value::Null, json!(false))
        );
        assert_eq!(shown(at, "account_name"), "tenant");
    }
    let held = office.scene.balance(&other).await.held;
    assert_eq!(shown(1, "held"), json!(held.to_string()));

    let page = office.get(&format!("{JOBS}?limit=1")).await;
    assert_eq!(
        (ids(&page), &page["has_more"]),
        (vec![third.clone()], &json!(true))
    );
    let rest = office
        .get(&format!("{JOBS}?after={}", third.as_str().unwrap()))
        .await;
    assert_eq!(ids(&rest), [second.clone(), first.clone()]);
    let theirs = office.get(&format!("{JOBS}?account={}", other.id)).await;
    assert_eq!(ids(&theirs), accepted[1..2]);

    // An ended job leaves the list, and is found by its id.
    let third = third.as_str().unwrap();
    let path = format!("/v1/jobs/{third}/cancel");
    let cancelled = office.scene.post(&tenant, &path, &json!({})).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    assert_eq!(ids(&office.get(JOBS).await), [second.clone(), first.clone()]);
    let ended = office.get(&format!("{JOBS}/{third}")).await;
    assert_eq!(
        (&ended["status"], &ended["cost"], &ended["phase"]),
        (&json!("cancelled"), &json!("0"), &Value::Null)
    );
    assert!(
        ended["ended_at"].is_string() && !ended.to_string().contains("canary"),
        "{ended}"
    );
    office.close().await;
}

#[tokio::test]
async fn invalid_queries_and_other_jobs_are_refused() {
    let office = Office::open().await;
    let tenant = office.scene.tenant(1_000).await;
    let body = json!({"model": "sim/image", "prompt": "a lake", "sync": false});
    let image = office.scene.post(&tenant, "/v1/images/generations", &body).await;
    assert_eq!(image.status, 200, "{}", image.text);
    let image = image.body["job_id"].as_str().unwrap();
    assert_eq!(office.get(JOBS).await["data"], json!([]));
    for (path, status) in [
        (format!("{JOBS}/{image}"), 404),
        (format!("{JOBS}/job_00000000000000000000000000000001"), 404),
        (format!("{JOBS}/x"), 404),
        (format!("{JOBS}?after=x"), 400),
        (format!("{JOBS}?account=x"), 400),
        (
            format!("{JOBS}?account=acct_00000000000000000000000000000001"),
            404,
        ),
        (format!("{JOBS}?limit=0"), 400),
        (format!("{JOBS}?limit=101"), 400),
        (format!("{JOBS}?status=queued"), 400),
    ] {
        let answer = office.send(Role::Viewer, "GET", &path, &Value::Null).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
    for path in [JOBS, "/admin/v1/research/sources"] {
        for token in [None, Some(tenant.key.as_str())] {
            let answer = office.send_text(token, "GET", path, String::new()).await;
            assert_eq!(answer.status, 401, "{path}: {}", answer.text);
        }
    }
    let sources = office.get("/admin/v1/research/sources").await;
    assert_eq!(sources, json!({"search": [], "corpora": []}));
    office.close().await;
}
