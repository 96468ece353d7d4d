//! Pictures and films: jobs that are accepted, polled and opened, before the simulator and before a provider that counts.

mod compositions;
mod crash;
mod disk;
mod films;
mod pictures;
mod polls;
mod providers;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};

use crate::scene::{PROVIDER, Scene};

const PICTURES: &str = "/v1/images/generations";
const FILMS: &str = "/v1/videos/generations";
/// A model of the provider's that makes pictures, and what one costs in nano-credits.
const PICTURE: &str = "acme/picture";
const PICTURE_PRICE: i64 = 40_000_000;
/// The same for films, by the second.
const FILM: &str = "acme/film";
const SECOND_PRICE: i64 = 100_000_000;
const BOTH: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];
/// A node that accepts and leaves the rest to others.
const IDLE: &str = "[jobs]\nconcurrency = 0\n";

/// The settings of models whose provider makes pictures and films.
fn models() -> String {
    format!(
        r#"
[models."{PICTURE}"]
type = "image"
targets = ["{PROVIDER}/picture-v1"]
prices = {{ image = "0.04" }}
media = {{ sizes = ["64x64", "128x64"], max_images = 4, max_input_images = 3, masks = true }}

[models."{FILM}"]
type = "video"
targets = ["{PROVIDER}/film-v1"]
prices = {{ video = "0.1" }}
media = {{ sizes = ["64x64", "128x64"], durations = [2, 4], negative_prompts = false }}
"#
    )
}

impl Scene {
    /// Before a provider that makes pictures and films.
    async fn studio(storage: Storage, config: &str) -> Self {
        Self::start_on(storage, &(models() + config)).await
    }

    async fn get(&self, path: &str) -> Response {
        self.client().get(path, &self.key.secret).await
    }

    /// Accepts a job; answers its id.
    async fn accept(&self, path: &str, body: &Value) -> String {
        let response = self.post(path, body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["job_id"].as_str().unwrap().to_owned()
    }

    async fn job(&self, id: &str) -> Value {
        job(&self.gateway, &self.key.secret, id).await
    }

    /// The job once it has ended.
    async fn ended(&self, id: &str) -> Value {
        ended(&self.gateway, &self.key.secret, id).await
    }

    /// What a job was accepted for that has ended in this way.
    async fn made(&self, path: &str, body: &Value) -> Value {
        let id = self.accept(path, body).await;
        let job = self.ended(&id).await;
        assert_eq!(job["status"], "completed", "{job}");
        job
    }

    /// Cancels every job of the account.
    async fn cancel_all(&self) {
        let jobs = self.get("/v1/jobs?limit=100").await.json();
        for job in jobs["data"].as_array().unwrap() {
            let path = self.path(job["cancel_url"].as_str().unwrap()).to_owned();
            let request = Request::new("POST", &path).key(&self.key.secret);
            assert_eq!(self.client().send(&request).await.status, 200);
        }
    }

    /// What is at an address of this gateway.
    async fn open_address(&self, url: &str) -> Response {
        self.client().send(&Request::get(self.path(url))).await
    }

    /// The path of an address of this gateway, which clients here call so.
    fn path<'u>(&self, url: &'u str) -> &'u str {
        let path = url.strip_prefix("http://gateway");
        path.unwrap_or_else(|| panic!("{url} is not here"))
    }
}

async fn job(node: &Gateway, key: &str, id: &str) -> Value {
    waited(node, key, id, "").await
}

async fn waited(node: &Gateway, key: &str, id: &str, query: &str) -> Value {
    let response = node.client().get(&format!("/v1/jobs/{id}{query}"), key).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

async fn ended(node: &Gateway, key: &str, id: &str) -> Value {
    let mut seen = Value::Null;
    eventually("the job has ended", async || {
        seen = waited(node, key, id, "?wait=20").await;
        !["queued", "in_progress"].contains(&seen["status"].as_str().unwrap())
    })
    .await;
    seen
}

/// A gateway with the simulator alone.
async fn simulated(config: &str) -> Scene {
    Scene::start_with(config).await
}

fn picture(members: Value) -> Value {
    crate::scene::with(
        json!({"model": "sim/image", "prompt": "a lighthouse", "resolution": "0.5k"}),
        members,
    )
}

fn film(members: Value) -> Value {
    let plain = json!({"model": "sim/video", "prompt": "waves", "duration": 1, "resolution": "360p"});
    crate::scene::with(plain, members)
}

/// A PNG that really is one, as a data URL.
fn png(width: u32, height: u32) -> String {
    use base64::Engine as _;
    let bytes = tollgate_testkit::upstream::media::picture(width, height, 7);
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("data:image/png;base64,{text}")
}
