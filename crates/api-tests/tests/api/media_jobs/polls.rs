//! `/v1/jobs` and `/v1/media`: job records for their owners, and stored objects for every caller
//! with a signed URL.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Storage, eventually};
use tollgate_testkit::upstream::{FakeUpstream, Reply};

use super::{IDLE, IMAGES, VIDEOS, image, png, simulated, video};
use crate::scene::{Scene, assert_error};

#[tokio::test]
async fn jobs_are_listed_in_pages_and_belong_to_their_account() {
    let scene = simulated(IDLE).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(
            scene
                .accept(IMAGES, &image(json!({"metadata": {"n": n.to_string()}})))
                .await,
        );
    }
    ids.push(scene.accept(VIDEOS, &video(json!({}))).await);
    ids.reverse();
    let listed = |page: &Value| -> Vec<String> {
        let jobs = page["data"].as_array().unwrap().iter();
        jobs.map(|job| job["job_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let page = scene.get("/v1/jobs?limit=3").await.json();
    assert_eq!(
        (listed(&page), &page["has_more"]),
        (ids[..3].to_vec(), &json!(true))
    );
    let rest = scene
        .get(&format!("/v1/jobs?after={}", page["last_id"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(
        (listed(&rest), &rest["has_more"]),
        (ids[3..].to_vec(), &json!(false))
    );
    let videos = scene
        .get("/v1/jobs?type=video.generation&status=queued")
        .await
        .json();
    assert_eq!(listed(&videos), ids[..1].to_vec());
    let polled = scene.get(&format!("/v1/jobs/{}", ids[1])).await;
    assert_eq!(polled.header("retry-after"), Some("2"), "the job has not ended");
    let waiting = scene.job(&ids[1]).await;
    assert_eq!(
        (&waiting["status"], &waiting["phase"], &waiting["progress"]),
        (&json!("queued"), &json!("accepted"), &Value::Null)
    );
    assert_eq!(
        (&waiting["cost"], &waiting["usage"], &waiting["result"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(waiting["metadata"], json!({"n": "2"}));
    for (query, param) in [
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?status=done", "status"),
        ("?after=x", "after"),
        ("?page=2", "page"),
    ] {
        assert_error(
            query,
            &scene.get(&format!("/v1/jobs{query}")).await,
            "invalid_parameter",
            Some(param),
        );
    }

    let stranger = scene.gateway.key(&scene.gateway.account().await).await;
    for path in [
        format!("/v1/jobs/{}", ids[0]),
        format!("/v1/jobs/{}/events", ids[0]),
    ] {
        let foreign = scene.client().get(&path, &stranger.secret).await;
        assert_error(&path, &foreign, "not_found", Some("job_id"));
    }
    let cancel = |key: &str| Request::new("POST", &format!("/v1/jobs/{}/cancel", ids[0])).key(key);
    let foreign = scene.client().send(&cancel(&stranger.secret)).await;
    assert_error("foreign job", &foreign, "not_found", Some("job_id"));
    for unknown in [
        "/v1/jobs/nothing",
        "/v1/jobs/job_00000000000000000000000000000001",
    ] {
        assert_error(unknown, &scene.get(unknown).await, "not_found", Some("job_id"));
    }
    for expected in ["cancelled", "cancelled"] {
        let cancelled = scene.client().send(&cancel(&scene.key.secret)).await.json();
        assert_eq!(
            (&cancelled["status"], &cancelled["cost"]),
            (&json!(expected), &json!("0"))
        );
    }
    scene.cancel_all().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_poll_waits_and_event_streams_resume() {
    let scene = simulated("").await;
    let id = scene
        .accept(IMAGES, &image(json!({"prompt": "a cat [[sim delay=300]]"})))
        .await;
    let waited = scene.get(&format!("/v1/jobs/{id}?wait=60")).await.json();
    assert_eq!(waited["status"], "completed", "{waited}");
    for wait in ["61", "-1", "soon"] {
        let refused = scene.get(&format!("/v1/jobs/{id}?wait={wait}")).await;
        assert_error(wait, &refused, "invalid_parameter", Some("wait"));
    }
    let path = format!("/v1/jobs/{id}/events");
    let all = scene.get(&path).await;
    assert_eq!(
        all.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let text = all.text().to_owned();
    let kinds: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(
        (kinds.first(), kinds.last()),
        (Some(&"job.queued"), Some(&"job.completed")),
        "{text}"
    );
    assert!(kinds.contains(&"job.progress"), "{text}");
    let numbers: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .collect();
    let before_last = numbers[numbers.len() - 2];
    let request = Request::get(&path)
        .key(&scene.key.secret)
        .header("last-event-id", before_last);
    let rest = scene.client().send(&request).await;
    assert_eq!(rest.text().matches("event: ").count(), 1, "{}", rest.text());
    let request = Request::get(&path)
        .key(&scene.key.secret)
        .header("last-event-id", "x");
    assert_error(
        "no number",
        &scene.client().send(&request).await,
        "invalid_parameter",
        Some("last-event-id"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_started_job_is_cancelled_at_its_provider() {
    let scene = simulated("").await;
    let id = scene
        .accept(VIDEOS, &video(json!({"prompt": "waves [[sim delay=3600000]]"})))
        .await;
    eventually("the video is being generated", async || {
        scene.job(&id).await["phase"] == "running"
    })
    .await;
    let request = Request::new("POST", &format!("/v1/jobs/{id}/cancel")).key(&scene.key.secret);
    assert_eq!(scene.client().send(&request).await.status, 200);
    let job = scene.ended(&id).await;
    assert_eq!(
        (&job["status"], &job["cost"], &job["error"]),
        (&json!("cancelled"), &json!("0"), &Value::Null)
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_signed_url_opens_only_its_object() {
    let scene = simulated("").await;
    let job = scene.made(IMAGES, &image(json!({}))).await;
    let url = job["result"]["data"][0]["url"].as_str().unwrap().to_owned();
    let path = scene.path(&url).to_owned();
    let whole = scene.open_address(&url).await;
    let bytes = whole.body();
    let part = |range: &str| Request::get(&path).header("range", range);
    let answered = scene.client().send(&part("bytes=1-3")).await;
    assert_eq!((answered.status, answered.body()), (206, b"PNG".to_vec()));
    let said = format!("bytes 1-3/{}", bytes.len());
    assert_eq!(answered.header("content-range"), Some(said.as_str()));
    let answered = scene.client().send(&part("bytes=99999999-")).await;
    assert_eq!(answered.status, 416);
    let head = scene.client().send(&Request::new("HEAD", &path)).await;
    let length = bytes.len().to_string();
    assert_eq!(
        (head.status, head.header("content-length"), head.body().len()),
        (200, Some(length.as_str()), 0)
    );
    let tag = whole.header("etag").unwrap().to_owned();
    let known = scene
        .client()
        .send(&Request::get(&path).header("if-none-match", tag.as_str()))
        .await;
    assert_eq!((known.status, known.body().len()), (304, 0));
    let other = Request::get(&path)
        .header("range", "bytes=0-0")
        .header("if-range", "\"other\"");
    assert_eq!(scene.client().send(&other).await.status, 200);

    let (object, query) = path.split_once('?').unwrap();
    let (rest, last) = object.split_at(object.len() - 1);
    let other_object = format!("{rest}{}", if last == "0" { "1" } else { "0" });
    for wrong in [
        object.to_owned(),
        format!("{object}?{}", query.replace("exp=1", "exp=2")),
        format!("{path}A"),
        format!("{other_object}?{query}"),
        "/v1/media/nothing".to_owned(),
    ] {
        let refused = scene.client().send(&Request::get(&wrong)).await;
        assert_error(&wrong, &refused, "not_found", None);
    }
    // Each poll signs a new URL; the first one stays valid.
    let again = scene.job(job["id"].as_str().unwrap()).await;
    assert_eq!(
        scene
            .open_address(again["result"]["data"][0]["url"].as_str().unwrap())
            .await
            .status,
        200
    );
    scene.finish().await;
}

/// Objects past their retention, and objects whose bytes were deleted.
const GONE: [&str; 2] = [
    "UPDATE media SET expires_at = created_at",
    "UPDATE media SET deleted_at = created_at",
];

#[tokio::test]
async fn after_retention_the_record_stays_and_its_urls_are_gone() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let board = json!({
        "scenes": [{"narration": "One step.", "visual": {"image": png(64, 64)}}],
        "aspect_ratio": "1:1", "resolution": "480p", "voice": {"model": "built-in"},
    });
    let composition = json!({"mode": "render", "storyboard": board});
    let mut jobs = Vec::new();
    for (path, body, addresses) in [
        (IMAGES, image(json!({})), &["/data/0/url"][..]),
        (VIDEOS, video(json!({})), &["/url", "/video_url", "/data/0/url"]),
        (
            "/v1/videos/compose",
            composition,
            &[
                "/url",
                "/subtitles/srt",
                "/subtitles/vtt",
                "/storyboard/scenes/0/visual/image",
            ],
        ),
    ] {
        let job = scene.made(path, &body).await;
        jobs.push((job["job_id"].as_str().unwrap().to_owned(), addresses));
    }
    for gone in GONE {
        scene.gateway.database().unwrap().execute(gone).await;
        for (id, addresses) in &jobs {
            let job = scene.job(id).await;
            assert_eq!(job["status"], "completed");
            assert!(job["expires_at"].is_string(), "{job}");
            for address in *addresses {
                let url = job["result"].pointer(address).and_then(Value::as_str);
                let url = url.unwrap_or_else(|| panic!("{address}: {job}"));
                assert_error(address, &scene.open_address(url).await, "gone", None);
            }
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_webhook_of_a_job_contains_its_record() {
    let receiver = FakeUpstream::start().await;
    receiver.set_file("/hook", Reply::body(200, "text/plain", ""));
    let allow = format!("[egress]\nallow = [\"{}\"]\n", receiver.address());
    let scene = Scene::start_with(&allow).await;
    let url = format!("http://{}/hook", receiver.address());
    let body = image(json!({"webhook_url": url, "metadata": {"for": "me"}}));
    let id = scene.accept(IMAGES, &body).await;
    eventually("the webhook is delivered", async || receiver.request_count() > 0).await;
    let hook = receiver.requests().remove(0);
    let event = hook.json().unwrap();
    assert_eq!(
        (&event["type"], &event["data"]["id"]),
        (&json!("job.completed"), &json!(id))
    );
    assert_eq!(
        (&event["data"]["cost"], &event["data"]["metadata"]),
        (&json!("0.005"), &json!({"for": "me"}))
    );
    let opened = scene
        .open_address(event["data"]["result"]["data"][0]["url"].as_str().unwrap())
        .await;
    assert_eq!(opened.status, 200, "its URLs can be opened");
    assert!(
        hook.header("webhook-id").is_some() && hook.header("webhook-signature").unwrap().starts_with("v1,")
    );
    scene.finish().await;
}
