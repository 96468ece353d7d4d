//! Workers: processes that run the jobs of nodes on the same PostgreSQL database.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_testkit::upstream::MediaFault;

use crate::scene::{GRANTED, MODEL, Scene, metrics, until_metric};

const VIDEOS: &str = "/v1/videos/generations";
/// Price of two seconds, in nano-credits.
const VIDEO_PRICE: i64 = 200_000_000;
const MODELS: &str = r#"
[models."acme/video"]
type = "video"
targets = ["northwind/video-v1"]
prices = { video = "0.1" }
media = { sizes = ["64x64"], durations = [2] }
"#;
const ACCEPTS_ONLY: &str = "\n[jobs]\nrun_here = false\n";
/// Statement that ends all leases, such as those of dead processes.
const NO_LEASE: &str = "UPDATE job SET lease_until = 0 WHERE lease_until IS NOT NULL";

/// Starts a node that accepts jobs and runs none.
async fn node() -> Scene {
    Scene::start_on(Storage::Postgres, &(MODELS.to_owned() + ACCEPTS_ONLY)).await
}

impl Scene {
    async fn worker(&self) -> Gateway {
        // A worker ignores `run_here` and may share the settings file of the node.
        let settings = MODELS.to_owned() + ACCEPTS_ONLY;
        let options = Scene::options(&self.upstream, Storage::Postgres, &settings);
        self.gateway.start_worker(options).await
    }

    async fn video_job(&self) -> String {
        let body = json!({"model": "acme/video", "prompt": "waves", "duration": 2});
        let response = self.post(VIDEOS, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["job_id"].as_str().unwrap().to_owned()
    }

    async fn look(&self, path: &str) -> Value {
        let response = self.client().get(path, &self.key.secret).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    async fn until_ended(&self, id: &str) -> Value {
        let mut job = Value::Null;
        eventually("the job has ended", async || {
            job = self.look(&format!("/v1/jobs/{id}?wait=20")).await;
            !job["completed_at"].is_null()
        })
        .await;
        job
    }

    /// Waits until this number of videos was submitted and each was polled.
    async fn until_followed(&self, count: usize) {
        eventually("the videos are polled", async || {
            let made = self.upstream.made();
            made.len() == count && made.iter().all(|video| video.polls > 0)
        })
        .await;
    }
}

#[tokio::test]
async fn a_worker_runs_the_jobs_of_a_node() {
    let scene = node().await;
    let id = scene.video_job().await;
    let waiting = scene.look(&format!("/v1/jobs/{id}?wait=2")).await;
    assert_eq!(waiting["status"], "queued", "{waiting}");
    let body = json!({"model": MODEL, "input": "Hi there", "background": true});
    let response = scene.post("/v1/responses", &body).await.json();
    assert_eq!(response["status"], "queued", "{response}");
    assert_eq!(scene.upstream.media_submissions(), 0);

    let worker = scene.worker().await;
    let job = scene.until_ended(&id).await;
    assert_eq!(
        (&job["status"], &job["cost"]),
        (&json!("completed"), &json!("0.2")),
        "{job}"
    );
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    eventually("the response exists", async || {
        scene.look(&path).await["status"] == "completed"
    })
    .await;

    // The worker is notified of a later job, and the node of its result.
    until_metric(&worker, "tollgate_notifications_up 1").await;
    let later = scene.video_job().await;
    let end = scene.until_ended(&later).await;
    assert_eq!(end["status"], "completed", "{end}");
    for (process, kind) in [(&worker, "job_due"), (&scene.gateway, "job_changed")] {
        let line = format!("tollgate_notifications_total{{kind=\"{kind}\"}} ");
        let heard = async || {
            let metrics = metrics(process).await;
            metrics.lines().any(|shown| shown.starts_with(&line))
        };
        eventually(&line, heard).await;
    }

    // A worker serves no API requests.
    for (path, status) in [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/v1/models", 404),
        ("/admin/accounts", 404),
    ] {
        let answer = worker.client().send(&Request::get(path)).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    worker.finish().await;
    scene.finish().await;
}

/// While notifications fail, a worker still finds new jobs by polling the database.
#[tokio::test]
async fn without_notifications_workers_poll_for_jobs() {
    let scene = node().await;
    let worker = scene.worker().await;
    let silence = scene.gateway.database().unwrap().silence().await;
    until_metric(&worker, "tollgate_notifications_up 0").await;
    until_metric(&scene.gateway, "tollgate_notifications_up 0").await;
    let job = scene.until_ended(&scene.video_job().await).await;
    assert_eq!(job["status"], "completed", "{job}");
    silence.end().await;
    worker.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn another_worker_resumes_the_jobs_of_a_dead_one() {
    let scene = node().await;
    scene.upstream.set_media_polls(2);
    let mut first = scene.worker().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(scene.video_job().await);
    }
    scene.until_followed(3).await;
    first.kill().await;
    scene.gateway.database().unwrap().execute(NO_LEASE).await;
    let second = scene.worker().await;
    for id in &ids {
        let job = scene.until_ended(id).await;
        assert_eq!(job["status"], "completed", "{job}");
    }
    assert_eq!(scene.upstream.media_submissions(), 3, "each was submitted once");
    assert_eq!(scene.settled().await.credits, GRANTED - 3 * VIDEO_PRICE);
    second.finish().await;
    first.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_stopping_worker_finishes_its_jobs() {
    let scene = node().await;
    scene.upstream.set_media_polls(2);
    let mut worker = scene.worker().await;
    let running = scene.video_job().await;
    scene.until_followed(1).await;
    worker.signal("TERM").await;
    eventually("readiness reports 503", async || {
        worker.client().send(&Request::get("/readyz")).await.status == 503
    })
    .await;
    let later = scene.video_job().await;
    assert_eq!(worker.wait_for_exit().await, Some(0), "{}", worker.log());
    assert_eq!(
        scene.look(&format!("/v1/jobs/{running}")).await["status"],
        "completed"
    );
    assert_eq!(scene.look(&format!("/v1/jobs/{later}")).await["status"], "queued");
    let next = scene.worker().await;
    assert_eq!(scene.until_ended(&later).await["status"], "completed");
    next.finish().await;
    worker.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_second_signal_hands_jobs_to_the_next_worker() {
    let scene = node().await;
    scene.upstream.push_for_media(MediaFault::Endless);
    let mut first = scene.worker().await;
    let id = scene.video_job().await;
    scene.until_followed(1).await;
    let second = scene.worker().await;
    first.signal("TERM").await;
    first.wait_for_log("stopping", 0).await;
    first.signal("TERM").await;
    assert_eq!(first.wait_for_exit().await, Some(0), "{}", first.log());
    let polls = scene.upstream.made()[0].polls;
    eventually("the second one follows it", async || {
        scene.upstream.made()[0].polls > polls
    })
    .await;
    let cancel = Request::new("POST", &format!("/v1/jobs/{id}/cancel")).key(&scene.key.secret);
    assert_eq!(scene.client().send(&cancel).await.status, 200);
    assert_eq!(scene.until_ended(&id).await["status"], "cancelled");
    assert_eq!(scene.upstream.media_submissions(), 1);
    assert_eq!(scene.settled().await.credits, GRANTED);
    second.finish().await;
    first.finish().await;
    scene.finish().await;
}
