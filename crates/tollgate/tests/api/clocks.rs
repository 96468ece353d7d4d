//! Nodes whose clocks are wrong: they go by the database's.

use serde_json::json;
use tollgate_testkit::clock::FakeClock;
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_testkit::upstream::{Gate, Reply};

use crate::scene::{CHAT, Scene, hello, metrics};

/// Longer than any call.
const WRONG: i64 = 7_200;

async fn wrong_node(scene: &Scene, ahead: i64) -> (Gateway, FakeClock) {
    let clock = FakeClock::make().unwrap_or_else(|| panic!("scripts/with-services.sh installs libfaketime"));
    clock.set(ahead);
    let mut options = Scene::options(&scene.upstream, Storage::Postgres, "");
    options.env.extend(clock.env());
    (scene.gateway.start_node(options).await, clock)
}

/// Makes a call that is held up, does something, and lets the call end: it is paid as ever.
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

/// A node that starts looks for holds whose time is over.
#[tokio::test]
async fn a_wrong_clock_ends_nobodys_call() {
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

/// `doctor` says how wrong the clock is.
#[tokio::test]
async fn doctor_compares_the_clocks() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let (node, _clock) = wrong_node(&scene, WRONG).await;
    let found = node.command_line().try_run(&["doctor"]).await;
    assert!(found.stdout.contains("s ahead of the database's"), "{found:?}");
    node.finish().await;
    scene.finish().await;
}
