//! Workers: processes that carry out what nodes accept, on the same PostgreSQL database.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_testkit::upstream::MediaFault;

use crate::scene::{GRANTED, MODEL, Scene, metrics, until_metric};

const FILMS: &str = "/v1/videos/generations";
/// Two seconds of it, in nano-credits.
const FILM_PRICE: i64 = 200_000_000;
const MODELS: &str = r#"
[models."acme/film"]
type = "video"
targets = ["northwind/film-v1"]
prices = { video = "0.1" }
media = { sizes = ["64x64"], durations = [2] }
"#;
const ACCEPTS_ONLY: &str = "\n[jobs]\nrun_here = false\n";
/// The leases of whoever died are over.
const NO_LEASE: &str = "UPDATE job SET lease_until = 0 WHERE lease_until IS NOT NULL";

/// A node that accepts jobs and carries none out.
async fn node() -> Scene {
    Scene::start_on(Storage::Postgres, &(MODELS.to_owned() + ACCEPTS_ONLY)).await
}

impl Scene {
    async fn worker(&self) -> Gateway {
        // The same settings file as the node's: a worker works all the same.
        let settings = MODELS.to_owned() + ACCEPTS_ONLY;
        let options = Scene::options(&self.upstream, Storage::Postgres, &settings);
        self.gateway.start_worker(options).await
    }

    async fn film_job(&self) -> String {
        let body = json!({"model": "acme/film", "prompt": "waves", "duration": 2});
        let response = self.post(FILMS, &body).await;
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

    /// Waits until so many films were submitted and each was asked for.
    async fn until_followed(&self, films: usize) {
        eventually("the films are followed", async || {
            let made = self.upstream.made();
            made.len() == films && made.iter().all(|film| film.polls > 0)
        })
        .await;
    }
}

#[tokio::test]
async fn what_a_node_accepts_a_worker_carries_out() {
    let scene = node().await;
    let id = scene.film_job().await;
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
    eventually("the response is there", async || {
        scene.look(&path).await["status"] == "completed"
    })
    .await;

    // What is accepted later, the worker is told of, and the node of what becomes of it.
    until_metric(&worker, "tollgate_news_up 1").await;
    let told = scene.film_job().await;
    let end = scene.until_ended(&told).await;
    assert_eq!(end["status"], "completed", "{end}");
    for (process, kind) in [(&worker, "job_due"), (&scene.gateway, "job_changed")] {
        let line = format!("tollgate_news_total{{kind=\"{kind}\"}} ");
        let heard = async || {
            let metrics = metrics(process).await;
            metrics.lines().any(|shown| shown.starts_with(&line))
        };
        eventually(&line, heard).await;
    }

    // It serves nobody.
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

/// When nobody can be told of jobs, they are looked for.
#[tokio::test]
async fn without_news_jobs_are_looked_for() {
    let scene = node().await;
    let worker = scene.worker().await;
    let silence = scene.gateway.database().unwrap().silence().await;
    until_metric(&worker, "tollgate_news_up 0").await;
    until_metric(&scene.gateway, "tollgate_news_up 0").await;
    let job = scene.until_ended(&scene.film_job().await).await;
    assert_eq!(job["status"], "completed", "{job}");
    silence.end().await;
    worker.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn another_worker_goes_on_with_the_jobs_of_one_that_died() {
    let scene = node().await;
    scene.upstream.set_media_polls(2);
    let mut first = scene.worker().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(scene.film_job().await);
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
    assert_eq!(scene.settled().await.credits, GRANTED - 3 * FILM_PRICE);
    second.finish().await;
    first.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_worker_that_is_asked_to_stop_finishes_what_it_has_begun() {
    let scene = node().await;
    scene.upstream.set_media_polls(2);
    let mut worker = scene.worker().await;
    let begun = scene.film_job().await;
    scene.until_followed(1).await;
    worker.signal("TERM").await;
    eventually("it says that it is not ready", async || {
        worker.client().send(&Request::get("/readyz")).await.status == 503
    })
    .await;
    let later = scene.film_job().await;
    assert_eq!(worker.wait_for_exit().await, Some(0), "{}", worker.log());
    assert_eq!(
        scene.look(&format!("/v1/jobs/{begun}")).await["status"],
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
async fn a_second_signal_gives_jobs_to_the_next_worker() {
    let scene = node().await;
    scene.upstream.push_for_media(MediaFault::Endless);
    let mut first = scene.worker().await;
    let id = scene.film_job().await;
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
