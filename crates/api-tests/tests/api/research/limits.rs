//! Research jobs beyond the limits of `[research]` stay queued and delay no other jobs.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually};

use super::{QUESTION, minimal};
use crate::scene::{MODEL, Scene};

impl Scene {
    /// Submits research that runs until it is cancelled.
    async fn endless_research(&self) -> String {
        let query = format!("[[sim delay=600000]] {QUESTION}");
        self.research(&minimal(json!({"query": query}))).await
    }

    async fn status_of(&self, id: &str) -> String {
        let job = self.read(&format!("/v1/jobs/{id}")).await.json();
        job["status"].as_str().unwrap().to_owned()
    }

    async fn until_running(&self, id: &str) {
        eventually("the research runs", async || {
            self.status_of(id).await == "in_progress"
        })
        .await;
    }

    /// Runs a job of another kind from acceptance to its end, so that the queue was read meanwhile.
    async fn run_another_job(&self) {
        let body = json!({"model": MODEL, "input": "Hi there", "background": true});
        let response = self.post("/v1/responses", &body).await.json();
        let id = response["id"].as_str().unwrap().to_owned();
        eventually("the response is complete", async || {
            let response = self.read(&format!("/v1/responses/{id}")).await.json();
            response["status"] == "completed"
        })
        .await;
    }

    async fn cancel_research(&self, id: &str) -> Value {
        let cancelled = self.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.text());
        self.researched(id).await
    }
}

#[tokio::test]
async fn an_account_runs_a_limited_number_of_research_jobs() {
    let scene = Scene::start_with("[research]\nper_account = 2\n").await;
    let first = scene.endless_research().await;
    scene.until_running(&first).await;
    let second = scene.endless_research().await;
    scene.until_running(&second).await;
    let third = scene.research(&minimal(json!({}))).await;
    scene.run_another_job().await;
    assert_eq!(scene.status_of(&third).await, "queued");
    assert_eq!(scene.cancel_research(&first).await["status"], "cancelled");
    assert_eq!(scene.researched(&third).await["status"], "completed");
    scene.cancel_research(&second).await;
    assert!(scene.finish().await.clean);
}

#[tokio::test]
async fn a_process_runs_a_limited_number_of_research_jobs() {
    let settings = "[research]\nmax_running = 1\n";
    let scene = Scene::start_on(Storage::Postgres, settings).await;
    let first = scene.endless_research().await;
    scene.until_running(&first).await;
    let second = scene.endless_research().await;
    scene.run_another_job().await;
    assert_eq!(scene.status_of(&second).await, "queued");
    let options = Scene::options(&scene.upstream, Storage::Postgres, settings);
    let worker = scene.gateway.start_worker(options).await;
    scene.until_running(&second).await;
    let third = scene.research(&minimal(json!({}))).await;
    scene.run_another_job().await;
    assert_eq!(scene.status_of(&third).await, "queued");
    scene.cancel_research(&first).await;
    assert_eq!(scene.researched(&third).await["status"], "completed");
    scene.cancel_research(&second).await;
    worker.finish().await;
    assert!(scene.finish().await.clean);
}
