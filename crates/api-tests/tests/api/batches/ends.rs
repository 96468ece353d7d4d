//! Ends of batches, and the webhooks about them.

use serde_json::{Value, json};
use tollgate_testkit::clock::FakeClock;
use tollgate_testkit::gateway::{Gateway, Storage, eventually, nanos};
use tollgate_testkit::upstream::{FakeUpstream, Gate, Reply};

use super::lines;
use crate::files::FILES;
use crate::scene::{BINARY, CHAT, GRANTED, PLAIN, PROVIDER_KEY, Scene};

/// Seconds in a day, plus five minutes.
const A_DAY: i64 = 86_400 + 300;
const HOOK: &str = "/hooks/batches";

/// The webhook receives the batch as the API shows it, with OpenAI's event names.
#[tokio::test]
async fn the_end_of_a_batch_is_posted_to_its_webhook() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let hook = FakeUpstream::start().await;
        hook.set_hook(HOOK, []);
        let scene = Scene::start_on(storage, &format!("[egress]\nallow = [\"{}\"]\n", hook.address())).await;
        let url = format!("http://{}{HOOK}", hook.address());
        let create = async |content: &str| {
            let input = scene.input(content).await;
            let created = scene
                .create(&json!({"input_file_id": input, "endpoint": CHAT, "completion_window": "24h", "webhook_url": url}))
                .await;
            assert_eq!(created.status, 200, "{}", created.text());
            created.json()
        };
        let completed = create(&lines(PLAIN, 2)).await;
        let completed = scene.until(&completed, "completed").await;
        let failed = create("{").await;
        let failed = scene.until(&failed, "failed").await;
        let gate = Gate::new();
        for _ in 0..16 {
            scene.upstream.push(Reply::words(2).hold_head(&gate));
        }
        let asked = scene.upstream.request_count();
        let cancelled = create(&lines(PLAIN, 20)).await;
        eventually("the concurrency limit is reached", async || {
            scene.upstream.request_count() == asked + 16
        })
        .await;
        assert_eq!(scene.cancel_batch(&cancelled).await.status, 200);
        gate.open();
        let cancelled = scene.until(&cancelled, "cancelled").await;

        hook.wait_for_requests(3).await;
        let secret = scene.ask("GET", "/v1/account/webhook_secret", &[]).await.json();
        let secret = secret["secret"].as_str().unwrap().to_owned();
        for (batch, kind) in [
            (&completed, "batch.completed"),
            (&failed, "batch.failed"),
            (&cancelled, "batch.cancelled"),
        ] {
            let posts = hook.requests();
            let of_batch = |body: &Value| body["data"]["id"] == batch["id"];
            let found: Vec<_> = posts
                .iter()
                .filter(|post| post.path == HOOK && of_batch(&post.json().unwrap()))
                .collect();
            assert_eq!(found.len(), 1, "{kind}");
            crate::alerts::assert_signed(found[0], &secret);
            let body = found[0].json().unwrap();
            assert_eq!((&body["type"], &body["object"]), (&json!(kind), &json!("event")));
            assert_eq!(body["id"].as_str(), found[0].header("webhook-id"));
            assert!(
                body["created_at"].is_i64() && body["timestamp"].is_string(),
                "{body}"
            );
            assert_eq!(&body["data"], batch, "as the API shows it");
        }
        assert_eq!(hook.request_count(), 3, "each once");
        scene.finish().await;
    }
}

/// After a day, completed lines are delivered and charged. Lines that were not started are free and
/// in the error file. Expired files of the account are deleted.
#[tokio::test]
async fn an_expired_batch_delivers_completed_lines() {
    let clock = FakeClock::make().unwrap_or_else(|| panic!("scripts/with-services.sh installs libfaketime"));
    let (upstream, hook) = (FakeUpstream::start().await, FakeUpstream::start().await);
    upstream.set_api_key(PROVIDER_KEY);
    hook.set_hook(HOOK, []);
    let config = format!(
        "[egress]\nallow = [\"{}\"]\n[jobs]\nper_account = 1\n",
        hook.address()
    );
    let mut options = Scene::options(&upstream, Storage::Sqlite, &config);
    options.env.extend(clock.env());
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    let mut scene = Scene {
        gateway,
        upstream,
        account,
        key,
    };
    let gate = Gate::new();
    for _ in 0..10 {
        scene.upstream.push(Reply::words(2));
    }
    for _ in 0..30 {
        scene.upstream.push(Reply::words(2).hold_head(&gate));
    }
    let short = scene.client().send(&short_lived().key(&scene.key.secret)).await;
    assert_eq!(short.status, 200, "{}", short.text());
    let short = format!("{FILES}/{}", short.json()["id"].as_str().unwrap());
    let input = scene.input(&lines(PLAIN, 40)).await;
    let body = json!({"input_file_id": input, "endpoint": CHAT, "completion_window": "24h",
        "webhook_url": format!("http://{}{HOOK}", hook.address())});
    let batch = scene.create(&body).await.json();
    let behind = scene.batch(&scene.input(&lines(PLAIN, 3)).await, CHAT).await;
    eventually(
        "ten have ended, and the concurrency limit is reached",
        async || {
            let counts = scene.shown(&batch).await["request_counts"].clone();
            counts["completed"] == 10 && scene.upstream.request_count() == 26
        },
    )
    .await;
    let before = scene.objects();
    assert_eq!(scene.ask("GET", &short, &[]).await.status, 200);

    // The process is down until the batch expires. The requests that ran at the crash may have been
    // executed.
    scene.gateway.kill().await;
    clock.set(A_DAY);
    scene.gateway.restart().await;
    let expired = scene.until(&batch, "expired").await;
    assert!(
        expired["expired_at"].is_i64() && expired["completed_at"].is_null(),
        "{expired}"
    );
    let answered = scene.results(&expired["output_file_id"]).await;
    let errors = scene.results(&expired["error_file_id"]).await;
    assert_eq!((answered.len(), errors.len()), (10, 30));
    assert_eq!(
        expired["request_counts"],
        json!({"total": 40, "completed": 10, "failed": 16}),
        "lines that were not started are in neither count"
    );
    let late = errors
        .values()
        .filter(|line| line["error"]["code"] == "batch_expired");
    assert!(late.clone().all(|line| line["response"].is_null()), "{errors:?}");
    let cut_off = errors
        .values()
        .filter(|line| line["response"]["status_code"] == 500);
    assert_eq!((late.count(), cut_off.count()), (14, 16));
    // A batch that was never started has an error file, too.
    let behind = scene.until(&behind, "expired").await;
    assert_eq!(behind["output_file_id"], Value::Null);
    assert_eq!(scene.results(&behind["error_file_id"]).await.len(), 3);
    assert_eq!(behind["cost"], "0");
    assert_eq!(scene.upstream.request_count(), 26, "nothing more was sent");
    let cost: i64 = answered
        .values()
        .map(|line| nanos(&line["response"]["body"]["usage"]["cost"]))
        .sum();
    assert_eq!(nanos(&expired["cost"]), cost);
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    hook.wait_for_requests(1).await;
    let post = hook.requests()[0].json().unwrap();
    assert_eq!(
        (&post["type"], &post["data"]["id"]),
        (&json!("batch.expired"), &batch["id"])
    );

    assert_eq!(
        scene.ask("GET", &short, &[]).await.status,
        404,
        "its hour is over"
    );
    // Two error files and one output file were added, and one object was deleted.
    eventually("its bytes are gone", async || scene.objects() == before + 3 - 1).await;
    scene.finish().await;
}

/// Returns an upload of a file that expires after an hour.
fn short_lived() -> tollgate_testkit::gateway::http::Request {
    crate::files::form(&[
        ("purpose", None, b"user_data"),
        ("expires_after[anchor]", None, b"created_at"),
        ("expires_after[seconds]", None, b"3600"),
        ("file", Some("a.txt"), b"short"),
    ])
}
