//! Nodes with wrong clocks, which use the database's clock instead.

use serde_json::json;
use tollgate_testkit::clock::FakeClock;
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_testkit::upstream::{FakeUpstream, Gate, Reply};

use crate::scene::{BINARY, CHAT, Scene, hello, metrics};

/// Clock error in seconds, longer than any call.
const WRONG: i64 = 7_200;
/// Log message after the clock of a running node was changed.
const JUMPED: &str = "the time jumped";

async fn wrong_node(scene: &Scene, ahead: i64) -> (Gateway, FakeClock) {
    let clock = FakeClock::make().unwrap_or_else(|| panic!("scripts/with-services.sh installs libfaketime"));
    clock.set(ahead);
    let mut options = Scene::options(&scene.upstream, Storage::Postgres, "");
    options.env.extend(clock.env());
    (scene.gateway.start_node(options).await, clock)
}

/// Runs `during` while a call waits, and then lets the call complete. Asserts that the call is
/// charged as usual.
async fn call_during(scene: &Scene, node: &Gateway, during: impl Future) {
    let gate = Gate::new();
    scene.upstream.push(Reply::words(3).hold_head(&gate));
    let asked = scene.upstream.request_count();
    let call = async {
        node.client()
            .post_json(CHAT, &scene.key.secret, &hello(json!({})))
            .await
    };
    let then = async {
        eventually("the call is under way", async || {
            scene.upstream.request_count() > asked
        })
        .await;
        during.await;
        gate.open();
    };
    let (response, ()) = tokio::join!(call, then);
    assert_eq!(response.status, 200, "{response:?}");
    let row = scene.row(response.request_id()).await;
    assert_eq!(row["outcome"], "ok", "{row}");
    assert_eq!(row["cost"], response.json()["usage"]["cost"], "{row}");
    assert_ne!(row["cost"], "0", "{row}");
}

/// A starting node releases expired holds, but not those of running calls.
#[tokio::test]
async fn a_node_with_a_wrong_clock_ends_no_running_call() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let mut early = None;
    call_during(&scene, &scene.gateway, async {
        early = Some(wrong_node(&scene, WRONG).await)
    })
    .await;
    let (early, _its_clock) = early.unwrap();
    let shown = metrics(&early).await;
    let ahead = shown
        .lines()
        .find_map(|line| line.strip_prefix("tollgate_clock_ahead_seconds "));
    let ahead: f64 = ahead.unwrap().parse().unwrap();
    assert!((7_100.0..7_300.0).contains(&ahead), "{ahead}");

    let (late, _its_clock) = wrong_node(&scene, -WRONG).await;
    let mut right = None;
    call_during(&scene, &late, async {
        let options = Scene::options(&scene.upstream, Storage::Postgres, "");
        right = Some(scene.gateway.start_node(options).await);
    })
    .await;
    for node in [early, late, right.unwrap()] {
        node.finish().await;
    }
    let check = scene.finish().await;
    assert_eq!(check.crashed, 0, "{check:?}");
}

/// A clock that was temporarily ahead does not delay jobs afterwards, even across a restart.
#[tokio::test]
async fn a_temporarily_wrong_clock_delays_no_job() {
    for (ahead, restarts) in [(3_600, true), (30 * 24 * 3_600, false)] {
        let clock =
            FakeClock::make().unwrap_or_else(|| panic!("scripts/with-services.sh installs libfaketime"));
        let upstream = FakeUpstream::start().await;
        let mut options = Scene::options(&upstream, Storage::Sqlite, "");
        options.env.extend(clock.env());
        let mut gateway = Gateway::start(BINARY, options).await;
        let account = gateway.account().await;
        let key = gateway.key(&account).await;
        gateway.grant(&account, "10").await;
        let jumps = async |gateway: &Gateway| {
            let so_far = gateway.log().matches(JUMPED).count();
            gateway.wait_for_log(JUMPED, so_far).await;
        };
        clock.set(ahead);
        jumps(&gateway).await;
        let body = json!({"model": "sim/image", "prompt": "a lake [[sim delay=4000 pace=100]]", "resolution": "0.5k"});
        let date = async |gateway: &Gateway| {
            let response = gateway.client().get("/v1/models", &key.secret).await;
            // The date without the time of day.
            response.header("date").unwrap()[..16].to_owned()
        };
        let wrong_date = date(&gateway).await;
        let mut jobs = Vec::new();
        for _ in 0..4 {
            let accepted = gateway
                .client()
                .post_json("/v1/images/generations", &key.secret, &body)
                .await;
            assert_eq!(accepted.status, 200, "{}", accepted.text());
            jobs.push(accepted.json()["job_id"].as_str().unwrap().to_owned());
        }
        clock.set(0);
        match restarts {
            true => {
                gateway.kill().await;
                gateway.restart().await;
            }
            false => {
                jumps(&gateway).await;
                assert_ne!(date(&gateway).await, wrong_date, "the date is corrected");
            }
        }
        for job in &jobs {
            let path = format!("/v1/jobs/{job}?wait=20");
            eventually("the job has ended", async || {
                let shown = gateway.client().get(&path, &key.secret).await.json();
                shown["status"] == "completed"
            })
            .await;
        }
        assert_eq!(gateway.balance(&account).await.held, 0);
        gateway.finish().await;
    }
}

/// A clock that is temporarily ahead by more than the maximum duration of a job does not end or
/// delay running jobs.
#[tokio::test]
async fn a_temporarily_wrong_clock_ends_no_running_job() {
    for ahead in [3 * 3_600, 30 * 24 * 3_600] {
        let clock =
            FakeClock::make().unwrap_or_else(|| panic!("scripts/with-services.sh installs libfaketime"));
        let upstream = FakeUpstream::start().await;
        let mut options = Scene::options(&upstream, Storage::Sqlite, "");
        options.env.extend(clock.env());
        let gateway = Gateway::start(BINARY, options).await;
        let account = gateway.account().await;
        let key = gateway.key(&account).await;
        gateway.grant(&account, "10").await;
        let body = json!({"model": "sim/image", "prompt": "a lake [[sim delay=12000 pace=100]]", "resolution": "0.5k"});
        let accepted = gateway
            .client()
            .post_json("/v1/images/generations", &key.secret, &body)
            .await;
        assert_eq!(accepted.status, 200, "{}", accepted.text());
        let job = accepted.json()["job_id"].as_str().unwrap().to_owned();
        let path = format!("/v1/jobs/{job}");
        let show = async || gateway.client().get(&path, &key.secret).await.json();
        eventually("the job is running", async || {
            show().await["status"] == "in_progress"
        })
        .await;

        for offset in [ahead, 0] {
            let so_far = gateway.log().matches(JUMPED).count();
            clock.set(offset);
            gateway.wait_for_log(JUMPED, so_far).await;
        }
        eventually("the job is completed", async || {
            let shown = show().await;
            assert_ne!(shown["status"], "failed", "{shown}");
            shown["status"] == "completed"
        })
        .await;
        assert_eq!(gateway.balance(&account).await.held, 0);
        gateway.finish().await;
    }
}

/// `doctor` reports the difference between the node's clock and the database's clock.
#[tokio::test]
async fn doctor_reports_a_wrong_clock() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let (node, _clock) = wrong_node(&scene, WRONG).await;
    let found = node.command_line().try_run(&["doctor"]).await;
    assert!(found.stdout.contains("s from that of the database"), "{found:?}");
    node.finish().await;
    scene.finish().await;
}
