//! Callers that leave: what the upstream did for them is billed by its report.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, End, Gate, Reply, Usage, UsagePlace};

use super::super::scene::{Classes, GRANTED, PRICES, Scene, hello, saying};

/// The one row of the scene, once its call has ended.
async fn only_row(scene: &Scene) -> Value {
    scene.settled().await;
    let rows = scene.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

#[tokio::test]
async fn a_stream_whose_caller_left_is_read_to_its_end() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(50).hold_event(5, &gate));
    let mut answer = scene.open(&saying("Hi there", true)).await;
    for _ in 0..3 {
        answer.next_json().await;
    }
    drop(answer);
    gate.open();
    let row = only_row(&scene).await;
    assert_eq!(
        (&row["outcome"], &row["estimated"]),
        (&json!("client_gone"), &json!(false))
    );
    assert_eq!(
        Classes::of_row(&row),
        Classes {
            input: 2,
            output: 50,
            ..Classes::default()
        }
    );
    assert_eq!(scene.upstream.served()[0].end, End::Complete);
    assert_eq!(
        scene.balance().await.credits,
        GRANTED - 2 * PRICES.input - 50 * PRICES.output
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_caller_that_resets_its_connection_is_billed_like_one_that_closes_it() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(20).hold_event(5, &gate));
    let mut answer = scene.open(&saying("Hi there", true)).await;
    answer.next_json().await;
    answer.into_connection().reset();
    gate.open();
    let row = only_row(&scene).await;
    assert_eq!(Classes::of_row(&row).output, 20);
    scene.finish().await;
}

#[tokio::test]
async fn a_caller_that_leaves_before_the_answer_is_billed_for_it() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    for stream in [false, true] {
        scene.upstream.push(Reply::words(7).hold_head(&gate));
        let mut connection = scene.client().connect().await;
        connection
            .write(&scene.request(&hello(json!({"stream": stream}))).bytes())
            .await
            .unwrap();
        scene.upstream.wait_for_requests(1 + u64::from(stream)).await;
        drop(connection);
    }
    gate.open();
    scene.settled().await;
    let rows = scene.rows().await;
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(
            (&row["outcome"], &row["estimated"]),
            (&json!("client_gone"), &json!(false)),
            "{row}"
        );
        assert_eq!(
            Classes::of_row(&row),
            Classes {
                input: 2,
                output: 7,
                ..Classes::default()
            }
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn without_a_report_what_came_is_estimated() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    let silent = Answer::deltas(["eight by"; 10])
        .usage(Usage::Missing)
        .usage_place(UsagePlace::Always);
    scene.upstream.push(Reply::answer(silent).hold_event(5, &gate));
    let body = saying("Hi there", true);
    let mut answer = scene.open(&body).await;
    answer.next_json().await;
    drop(answer);
    gate.open();
    let row = only_row(&scene).await;
    let input = i64::try_from(body.to_string().len().div_ceil(4)).unwrap();
    assert_eq!(
        Classes::of_row(&row),
        Classes {
            input,
            output: 20,
            ..Classes::default()
        }
    );
    assert_eq!(
        (&row["outcome"], &row["estimated"]),
        (&json!("client_gone"), &json!(true))
    );
    scene.finish().await;
}

#[tokio::test]
async fn nobody_is_drained_for_ever() {
    for settings in [
        "[drain]\ntime_ms = 300\n",
        "[drain]\nbytes = 1000\n",
        "[drain]\nmost = 0\n",
    ] {
        let scene = Scene::start_with(settings).await;
        // Five bytes every few milliseconds, without end.
        scene.upstream.push(
            Reply::words(3)
                .endless()
                .pace(std::time::Duration::from_millis(3)),
        );
        let mut answer = scene.open(&saying("Hi there", true)).await;
        for _ in 0..4 {
            answer.next_json().await;
        }
        drop(answer);
        scene
            .upstream
            .wait_until("the upstream is cut off", |upstream| {
                upstream.open_connections() == 0
            })
            .await;
        let row = only_row(&scene).await;
        assert_eq!(
            (&row["outcome"], &row["estimated"]),
            (&json!("client_gone"), &json!(true)),
            "{settings}: {row}"
        );
        // What the upstream generated until then, at a token for each four bytes: never more than it says itself.
        let used = i64::try_from(scene.upstream.served()[0].used.completion).unwrap();
        let charged = Classes::of_row(&row).output;
        assert!(
            (1..=used * 2).contains(&charged),
            "{settings}: {charged} charged, {used} generated"
        );
        assert!(nanos(&row["cost"]) > 0);
        scene.finish().await;
    }
}
