//! Callers that disconnect: the call is billed by the upstream's report.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, End, FakeUpstream, Gate, Reply, Usage, UsagePosition};

use super::super::scene::{Classes, GRANTED, PRICES, Scene, hello, saying};

/// Returns the only usage row of the scene, once its call has ended.
async fn only_row(scene: &Scene) -> Value {
    scene.settled().await;
    let rows = scene.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

#[tokio::test]
async fn a_stream_is_read_to_its_end_after_its_caller_left() {
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
async fn without_a_report_the_received_output_is_estimated() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    let silent = Answer::deltas(["eight by"; 10])
        .usage(Usage::Missing)
        .usage_position(UsagePosition::Always);
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
async fn draining_a_stream_has_a_time_limit() {
    for settings in [
        "[drain]\ntime_ms = 300\n",
        "[drain]\nbytes = 1000\n",
        "[drain]\nmax_concurrent = 0\n",
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
        // The output that the upstream sent until then, estimated at four bytes a token: at most
        // twice the upstream's count.
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

/// The gateway closes the upstream connection immediately, unless the provider's settings specify
/// otherwise. The received output is charged by estimate.
#[tokio::test]
async fn a_self_hosted_upstream_is_stopped() {
    let own = FakeUpstream::start().await;
    let mut blocks = String::new();
    let cases = [
        ("vllm", "vllm", "", true),
        ("private", "openai-compatible", "", true),
        ("drained", "vllm", "on_disconnect = \"drain\"", false),
        ("stopped", "deepseek", "on_disconnect = \"stop\"", true),
        ("hosted", "deepseek", "", false),
    ];
    for (name, preset, setting, _) in cases {
        blocks += &format!(
            "[providers.{name}]\npreset = \"{preset}\"\nbase_url = \"{}\"\napi_key_env = \"PROVIDER_KEY\"\n{setting}\n\
             [models.\"own/{name}\"]\ntargets = [\"{name}/m\"]\nprices = {{ input = \"1\", output = \"2\" }}\n\
             limits = {{ context_window = 8000, max_output_tokens = 800 }}\n",
            own.base_url()
        );
    }
    let scene = Scene::start_with(&blocks).await;
    for (name, _, _, is_stopped) in cases {
        let gate = Gate::new();
        own.push(Reply::answer(Answer::deltas(["eight by"; 10])).hold_event(5, &gate));
        let mut body = saying("Hi there", true);
        body["model"] = json!(format!("own/{name}"));
        let mut answer = scene.open(&body).await;
        for _ in 0..3 {
            answer.next_json().await;
        }
        drop(answer);
        if is_stopped {
            own.wait_until("the upstream is hung up on", |own| own.open_connections() == 0)
                .await;
        }
        gate.open();
        scene.settled().await;
        let rows = scene.rows().await;
        let row = &rows[0];
        assert_eq!(
            (&row["outcome"], &row["estimated"]),
            (&json!("client_gone"), &json!(is_stopped)),
            "{name}: {row}"
        );
        let output = Classes::of_row(row).output;
        match is_stopped {
            // Two tokens for each received chunk.
            true => assert!((2..=10).contains(&output) && output % 2 == 0, "{name}: {row}"),
            false => assert_eq!(output, 10, "{name}: {row}"),
        }
        assert!(nanos(&row["cost"]) > 0, "{name}: {row}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_call_that_is_cut_off_before_its_answer_is_charged_for_its_input() {
    let scene = Scene::start_with("[drain]\nmax_concurrent = 0\n").await;
    for stream in [false, true] {
        let before = scene.rows().await.len();
        let gate = Gate::new();
        scene.upstream.push(Reply::words(3).hold_head(&gate));
        let body = saying("Hi there", stream);
        let mut connection = scene.client().connect().await;
        connection.write(&scene.request(&body).bytes()).await.unwrap();
        scene.upstream.wait_for_requests(before as u64 + 1).await;
        drop(connection);
        scene
            .upstream
            .wait_until("the upstream is cut off", |upstream| {
                upstream.open_connections() == 0
            })
            .await;
        scene.settled().await;
        let rows = scene.rows().await;
        assert_eq!(rows.len(), before + 1, "{rows:?}");
        let expected = Classes {
            input: i64::try_from(body.to_string().len().div_ceil(4)).unwrap(),
            ..Classes::default()
        };
        assert_eq!(Classes::of_row(&rows[0]), expected, "{}", rows[0]);
        assert_eq!(
            (&rows[0]["outcome"], &rows[0]["estimated"]),
            (&json!("client_gone"), &json!(true))
        );
    }
    scene.finish().await;
}
