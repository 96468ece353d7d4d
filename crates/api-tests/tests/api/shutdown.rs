//! The end of the process: graceful, forced, and without warning.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Balance, Storage, eventually};
use tollgate_testkit::upstream::{Answer, Gate, Reply, Usage};

use crate::scene::{CHAT, Classes, GRANTED, PRICES, Scene, hello, saying};

#[tokio::test]
async fn running_calls_are_finished() {
    let mut scene = Scene::start_with("[timeouts]\ndrain_delay_ms = 600000\n").await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(6).hold_event(3, &gate));
    let mut answer = scene.open(&saying("Hi there", true)).await;
    answer.next_json().await;
    let mut idle = scene.client().connect().await;
    assert_eq!(idle.respond(&Request::get("/readyz")).await.status, 200);

    scene.gateway.signal("TERM").await;
    eventually("readiness reports 503", async || {
        scene.client().send(&Request::get("/readyz")).await.status == 503
    })
    .await;
    // Until load balancers notice, the gateway still accepts connections and calls.
    assert_eq!(scene.client().send(&Request::get("/healthz")).await.status, 200);
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);

    // The second signal ends this phase.
    scene.gateway.signal("TERM").await;
    assert!(idle.closes().await, "idle connections are closed");
    gate.open();
    let rest = answer.rest().await;
    assert!(
        rest.whole && rest.events().last().unwrap().is_done(),
        "{}",
        rest.text()
    );
    assert_eq!(
        scene.gateway.wait_for_exit().await,
        Some(0),
        "{}",
        scene.gateway.log()
    );
    assert!(
        tokio::net::TcpStream::connect(scene.gateway.address())
            .await
            .is_err(),
        "the port is closed"
    );
    let check = scene.finish().await;
    let cost = |words: i64| 2 * PRICES.input + words * PRICES.output;
    assert_eq!((check.usage_rows, check.crashed), (2, 0));
    // `You said: Hi there` is four tokens of the upstream.
    assert!(check.revenue >= cost(6) + cost(1), "{check:?}");
}

/// Operator commands work while the gateway drains.
#[tokio::test]
async fn commands_are_served_until_the_last_call_has_ended() {
    let mut scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(6).hold_event(3, &gate));
    let mut answer = scene.open(&saying("Hi there", true)).await;
    answer.next_json().await;
    scene.gateway.signal("TERM").await;
    scene.gateway.wait_for_log("stopping", 0).await;
    let check = scene.gateway.ledger_check().await;
    assert_eq!((check.clean, check.open_holds), (true, 1));
    gate.open();
    assert!(answer.rest().await.whole);
    assert_eq!(scene.gateway.wait_for_exit().await, Some(0));
    scene.finish().await;
}

#[tokio::test]
async fn calls_of_departed_callers_are_finished_and_billed() {
    let mut scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(6).hold_event(3, &gate));
    let mut answer = scene.open(&saying("Hi there", true)).await;
    answer.next_json().await;
    drop(answer);
    scene.gateway.signal("TERM").await;
    // No connection is left. Only this call keeps the process running, and it is not aborted.
    eventually("the port is closed", async || {
        tokio::net::TcpStream::connect(scene.gateway.address())
            .await
            .is_err()
    })
    .await;
    let cut_off = scene
        .upstream
        .wait_until("cut off", |upstream| upstream.open_connections() == 0);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(500), cut_off).await;
    assert!(waited.is_err(), "the upstream is read on");
    gate.open();
    assert_eq!(scene.gateway.wait_for_exit().await, Some(0));
    scene.gateway.restart().await;
    let rows = scene.rows().await;
    assert_eq!((rows.len(), &rows[0]["outcome"]), (1, &json!("client_gone")));
    assert_eq!(
        Classes::of_row(&rows[0]),
        Classes {
            input: 2,
            output: 6,
            ..Classes::default()
        }
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_second_signal_leaves_calls_to_the_next_start() {
    let mut scene = Scene::start().await;
    scene.upstream.push(
        Reply::words(3)
            .endless()
            .pace(std::time::Duration::from_millis(20)),
    );
    let mut answer = scene.open(&saying("Hi there", true)).await;
    answer.next_json().await;
    scene.gateway.signal("TERM").await;
    scene.gateway.wait_for_log("stopping", 0).await;
    scene.gateway.signal("TERM").await;
    assert_eq!(
        scene.gateway.wait_for_exit().await,
        Some(0),
        "{}",
        scene.gateway.log()
    );
    drop(answer);
    scene.gateway.restart().await;
    // The delivered output of the call is unknown, so the call costs nothing.
    assert_eq!(
        scene.settled().await,
        Balance {
            credits: GRANTED,
            held: 0
        }
    );
    let rows = scene.rows().await;
    assert_eq!(
        (rows.len(), &rows[0]["outcome"], &rows[0]["cost"]),
        (1, &json!("crashed"), &json!("0"))
    );
    scene.finish().await;
}

#[tokio::test]
async fn after_kill_9_holds_are_released_and_settled_calls_stay() {
    let mut scene = Scene::start().await;
    let body = hello(json!({}));
    // The call was settled before its response, so an immediate kill does not revert it.
    let answered = scene.chat(&body).await;
    let gate = Gate::new();
    let mut waiting = Vec::new();
    for (call, stream) in [(2, false), (3, true), (4, true)] {
        let reply = Reply::answer(Answer::words(6).usage(Usage::Fixed {
            prompt: 2,
            completion: 6,
        }));
        scene
            .upstream
            .push(reply.hold_event(usize::from(stream) * 3, &gate));
        let mut connection = scene.client().connect().await;
        let request = scene.request(&hello(json!({"stream": stream})));
        connection.write(&request.bytes()).await.unwrap();
        waiting.push(connection);
        scene
            .upstream
            .wait_until("the reply is taken", |upstream| upstream.served_count() >= call)
            .await;
    }
    assert!(scene.balance().await.held > 0);
    scene.gateway.kill().await;
    gate.open();
    scene.gateway.restart().await;

    let after = scene.balance().await;
    let row = scene.row(answered.request_id()).await;
    assert_eq!(row["outcome"], "ok");
    assert_eq!(
        after,
        Balance {
            credits: GRANTED - Classes::of_row(&row).at(PRICES),
            held: 0
        }
    );
    let rows = scene.rows().await;
    let crashed: Vec<_> = rows.iter().filter(|row| row["outcome"] == "crashed").collect();
    assert_eq!((rows.len(), crashed.len()), (4, 3));
    assert!(
        crashed
            .iter()
            .all(|row| row["cost"] == "0" && row["usage"]["total_tokens"] == 0),
        "{crashed:?}"
    );
    assert_eq!(scene.chat(&body).await.status, 200, "calls are served again");
    let check = scene.finish().await;
    assert_eq!(check.crashed, 3);
}

#[tokio::test]
async fn keys_limits_and_balances_outlive_the_process() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let mut scene = Scene::start_on(storage, "").await;
        let second = scene.gateway.key(&scene.account).await;
        scene.gateway.set_limits(&scene.account, 44, 44_000).await;
        scene
            .gateway
            .command_line()
            .run(&["keys", "revoke", &second.id])
            .await;
        assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
        let before = (scene.balance().await, scene.rows().await);
        for crash in [false, true] {
            if crash {
                scene.gateway.kill().await
            } else {
                scene.gateway.stop().await
            }
            scene.gateway.restart().await;
            assert_eq!(
                (scene.balance().await, scene.rows().await),
                before,
                "{storage:?} {crash}"
            );
            let response = scene
                .client()
                .post_json(CHAT, &second.secret, &hello(json!({})))
                .await;
            assert_eq!(response.status, 401);
            let refused = scene.chat(&hello(json!({"n": 0}))).await;
            assert_eq!(refused.header("x-ratelimit-limit-requests"), Some("44"));
        }
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let scene = Scene::start().await;
    let second = scene.gateway.command_line().try_run(&["serve"]).await;
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.stderr.contains("another"), "{}", second.stderr);
    assert_eq!(second.stdout, "");
    assert_eq!(
        scene.chat(&hello(json!({}))).await.status,
        200,
        "the first is not disturbed"
    );
    scene.gateway.balance(&scene.account).await;
    scene.finish().await;
}
