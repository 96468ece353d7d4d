//! Image and video jobs: accepted, polled and downloaded, with the simulator and with a scripted
//! provider that counts its submissions.

mod compositions;
mod crash;
mod disk;
mod images;
mod polls;
mod providers;
mod videos;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};

use crate::scene::{PROVIDER, Scene};

pub const IMAGES: &str = "/v1/images/generations";
pub const VIDEOS: &str = "/v1/videos/generations";
/// An image model of the scripted provider. One image costs `IMAGE_PRICE` nano-credits.
pub const IMAGE_MODEL: &str = "acme/image";
const IMAGE_PRICE: i64 = 40_000_000;
/// A video model of the scripted provider. One second costs `SECOND_PRICE` nano-credits.
pub const VIDEO_MODEL: &str = "acme/video";
const SECOND_PRICE: i64 = 100_000_000;
pub const BOTH: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];
/// Settings of a node that accepts jobs and runs none.
pub const IDLE: &str = "[jobs]\nconcurrency = 0\n";

/// Returns the settings of one image model and one video model of the scripted provider.
fn models() -> String {
    format!(
        r#"
[models."{IMAGE_MODEL}"]
type = "image"
targets = ["{PROVIDER}/image-v1"]
prices = {{ image = "0.04" }}
media = {{ sizes = ["64x64", "128x64"], max_images = 4, max_input_images = 3, masks = true }}

[models."{VIDEO_MODEL}"]
type = "video"
targets = ["{PROVIDER}/video-v1"]
prices = {{ video = "0.1" }}
media = {{ sizes = ["64x64", "128x64"], durations = [2, 4], negative_prompts = false }}
"#
    )
}

impl Scene {
    /// Starts a scene whose scripted provider generates images and videos.
    pub async fn studio(storage: Storage, config: &str) -> Self {
        Self::start_on(storage, &(models() + config)).await
    }

    async fn get(&self, path: &str) -> Response {
        self.client().get(path, &self.key.secret).await
    }

    /// Submits a job and returns its id.
    async fn accept(&self, path: &str, body: &Value) -> String {
        let response = self.post(path, body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["job_id"].as_str().unwrap().to_owned()
    }

    async fn job(&self, id: &str) -> Value {
        job(&self.gateway, &self.key.secret, id).await
    }

    /// Waits for the end of a job and returns its record.
    async fn ended(&self, id: &str) -> Value {
        ended(&self.gateway, &self.key.secret, id).await
    }

    /// Submits a job, waits until it has completed, and returns its record.
    pub async fn made(&self, path: &str, body: &Value) -> Value {
        let id = self.accept(path, body).await;
        let job = self.ended(&id).await;
        assert_eq!(job["status"], "completed", "{job}");
        job
    }

    /// Cancels every job of the account.
    pub async fn cancel_all(&self) {
        let jobs = self.get("/v1/jobs?limit=100").await.json();
        for job in jobs["data"].as_array().unwrap() {
            let path = self.path(job["cancel_url"].as_str().unwrap()).to_owned();
            let request = Request::new("POST", &path).key(&self.key.secret);
            assert_eq!(self.client().send(&request).await.status, 200);
        }
    }

    /// Requests a URL of this gateway without a key.
    async fn open_address(&self, url: &str) -> Response {
        self.client().send(&Request::get(self.path(url))).await
    }

    /// Returns the path of a URL of this gateway, whose host is `gateway` in these tests.
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

/// Starts a scene whose jobs run on the simulator only.
pub async fn simulated(config: &str) -> Scene {
    Scene::start_with(config).await
}

pub fn image(members: Value) -> Value {
    crate::scene::with(
        json!({"model": "sim/image", "prompt": "a lighthouse", "resolution": "0.5k"}),
        members,
    )
}

pub fn video(members: Value) -> Value {
    let plain = json!({"model": "sim/video", "prompt": "waves", "duration": 1, "resolution": "360p"});
    crate::scene::with(plain, members)
}

/// Returns a valid PNG as a data URL.
pub fn png(width: u32, height: u32) -> String {
    use base64::Engine as _;
    let bytes = tollgate_testkit::upstream::media::image(width, height, 7);
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("data:image/png;base64,{text}")
}
