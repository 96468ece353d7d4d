//! Templates: the lists, their previews, and their effect on a request.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};

use crate::scene::{GRANTED, Scene, assert_error, with};

const IMAGES: &str = "/v1/images/generations";
const VIDEOS: &str = "/v1/videos/generations";
/// Models of a provider, templates of the operator, and an input policy.
const CONFIG: &str = r#"
[models."acme/images"]
type = "image"
targets = ["northwind/images-v1"]
prices = { image = "0.5" }
media = { aspect_ratios = ["1:1"] }

[templates."poster"]
enabled = false

[templates."ours"]
type = "image"
category = "house"
prompt = "A lantern in the rain, beside it {prompt}."
subject = "a plum"
recommended_models = ["acme/*"]

[templates."narrow"]
type = "image"
category = "house"
prompt = "A lantern."
supported_models = ["acme/*"]

[templates."scripted"]
type = "image"
category = "house"
prompt = "[[sim refuse]] {prompt}"
subject = "a plum"
supported_models = ["sim/*"]
params = { aspect_ratio = "3:1", resolution = "4k", quality = "best" }

[policy.rules.fruit]
apply = "input"
words = ["forbidden plum"]

[policy.rules.lamps]
apply = "input"
words = ["lantern in the rain, beside it a pear"]
"#;

impl Scene {
    async fn listed(&self, path: &str, key: &str) -> Value {
        let response = self.client().get(path, key).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        let list = response.json();
        assert_eq!(list["object"], "list");
        list["data"].clone()
    }

    async fn make(&self, path: &str, body: &Value) -> Response {
        self.client().post_json(path, &self.key.secret, body).await
    }

    /// Generates an image with the simulator and returns its entry in the response.
    async fn image(&self, body: Value) -> Value {
        let members = json!({"model": "sim/image", "sync": true});
        let response = self.make(IMAGES, &with(members, body)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["data"][0].clone()
    }
}

fn slugs(list: &Value) -> Vec<String> {
    let slug = |template: &Value| template["slug"].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(slug).collect()
}

fn find<'t>(list: &'t Value, slug: &str) -> &'t Value {
    let mut templates = list.as_array().unwrap().iter();
    templates.find(|template| template["slug"] == slug).unwrap()
}

#[tokio::test]
async fn three_paths_list_the_templates() {
    let scene = Scene::start_with(CONFIG).await;
    let key = &scene.key.secret;
    let all = scene.listed("/v1/templates", key).await;
    let images = scene.listed("/v1/images/templates", key).await;
    let videos = scene.listed("/v1/videos/templates", key).await;
    for (list, kind) in [(&images, "image"), (&videos, "video")] {
        assert!(
            list.as_array()
                .unwrap()
                .iter()
                .all(|template| template["type"] == kind)
        );
    }
    let mut halves = [slugs(&images), slugs(&videos)].concat();
    halves.sort();
    assert_eq!(slugs(&all), halves);
    assert!(slugs(&all).contains(&"blueprint".to_owned()));
    assert!(!slugs(&all).contains(&"poster".to_owned()), "it is disabled");

    let ours = find(&images, "ours");
    assert_eq!(ours["object"], "template");
    assert_eq!(
        ours["canonical_prompt"],
        "A lantern in the rain, beside it {prompt}."
    );
    assert_eq!(ours["recommended_model"], "acme/images");
    assert_eq!(ours["supported_models"], json!(["acme/images", "sim/image"]));
    assert_eq!(ours["default_params"], json!({}));
    let turntable = find(&videos, "product-turntable");
    assert_eq!(turntable["recommended_model"], "sim/video");
    assert_eq!(turntable["default_params"]["duration"], 5);

    let house = scene.listed("/v1/templates?category=house", key).await;
    assert_eq!(slugs(&house), ["narrow", "ours", "scripted"]);
    assert_eq!(
        scene.listed("/v1/videos/templates?category=house", key).await,
        json!([])
    );
    let unknown = scene.client().get("/v1/templates?page=2", key).await;
    assert_error("page", &unknown, "invalid_parameter", Some("page"));
    for path in ["/v1/templates", "/v1/images/templates", "/v1/videos/templates"] {
        let response = scene.client().send(&Request::get(path)).await;
        assert_error(path, &response, "missing_api_key", None);
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_test_key_sees_simulated_models_alone() {
    let scene = Scene::start_with(CONFIG).await;
    let create = ["keys", "create", "--account", &scene.account, "--test"];
    let created = scene.gateway.command_line().run(&create).await;
    let key = created["key"].as_str().unwrap();
    let images = scene.listed("/v1/images/templates", key).await;
    for template in images.as_array().unwrap() {
        let (recommended, supported) = match template["slug"].as_str().unwrap() {
            "narrow" => (json!(null), json!([])),
            _ => (json!("sim/image"), json!(["sim/image"])),
        };
        assert_eq!(template["recommended_model"], recommended, "{template}");
        assert_eq!(template["supported_models"], supported, "{template}");
    }
    // Without a model in the request, the default is a model that the key can use, not the model
    // that is recommended for live keys.
    let body = json!({"template": "ours", "sync": true});
    let response = scene.client().post_json(IMAGES, key, &body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    scene.nothing_happened_but_rows().await;
    scene.finish().await;
}

impl Scene {
    /// Asserts that nothing was charged or sent upstream.
    async fn nothing_happened_but_rows(&self) {
        assert_eq!(self.settled().await.credits, GRANTED);
        assert_eq!(self.upstream.request_count(), 0);
    }
}

#[tokio::test]
async fn a_preview_needs_no_key_and_may_be_cached() {
    let scene = Scene::start_with(CONFIG).await;
    let images = scene.listed("/v1/images/templates", &scene.key.secret).await;
    let url = find(&images, "ours")["preview_url"].as_str().unwrap().to_owned();
    let (_, path) = url.split_once("//").unwrap().1.split_once('/').unwrap();
    let get = Request::get(&format!("/{path}"));
    let first = scene.client().send(&get).await;
    assert_eq!(
        (first.status, first.header("content-type")),
        (200, Some("image/jpeg"))
    );
    assert!(first.header("cache-control").unwrap().starts_with("public"));
    assert!(first.body().starts_with(&[0xff, 0xd8, 0xff]));
    let tag = first.header("etag").unwrap();
    assert_eq!(scene.client().send(&get).await.body(), first.body());
    let known = scene
        .client()
        .send(&Request::get(&format!("/{path}")).header("if-none-match", tag))
        .await;
    assert_eq!((known.status, known.body().len()), (304, 0));
    for slug in ["poster", "nothing"] {
        let none = Request::get(&format!("/v1/templates/{slug}/preview"));
        assert_error(slug, &scene.client().send(&none).await, "not_found", Some("slug"));
    }
    scene.finish().await;
}

#[tokio::test]
async fn template_parameters_are_defaults() {
    let scene = Scene::start_with(CONFIG).await;
    let size = |image: &Value| {
        let side = |name: &str| image[name].as_u64().unwrap();
        (side("width"), side("height"))
    };
    for (body, expected, mime_type) in [
        (json!({"template": "book-cover"}), (2, 3), "image/png"),
        (
            json!({"template": "book-cover", "aspect_ratio": "16:9"}),
            (16, 9),
            "image/png",
        ),
        (
            json!({"template": "book-cover", "size": "320x320"}),
            (1, 1),
            "image/png",
        ),
        (
            json!({"template": "line-art-colouring", "resolution": "0.5k"}),
            (3, 4),
            "image/png",
        ),
        (
            json!({"template": "line-art-colouring", "output_format": "webp"}),
            (3, 4),
            "image/webp",
        ),
    ] {
        let image = scene.image(with(body.clone(), json!({"prompt": "a fox"}))).await;
        let (width, height) = size(&image);
        let (wanted, found) = (
            expected.0 as f64 / expected.1 as f64,
            width as f64 / height as f64,
        );
        assert!((wanted / found - 1.0).abs() < 0.04, "{body}: {width}x{height}");
        assert_eq!(image["mime_type"], mime_type, "{body}");
    }
    let video =
        json!({"model": "sim/video", "template": "social-story", "duration": 1, "resolution": "360p"});
    let accepted = scene.make(VIDEOS, &video).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    let path = format!("/v1/jobs/{}?wait=60", accepted.json()["job_id"].as_str().unwrap());
    let job = scene.client().get(&path, &scene.key.secret).await.json();
    assert_eq!(job["status"], "completed", "{job}");
    assert_eq!(job["result"]["duration"], json!(1.0), "{job}");
    assert!(
        job["result"]["height"].as_u64() > job["result"]["width"].as_u64(),
        "{job}"
    );
    scene.finish().await;
}

#[tokio::test]
async fn policy_and_provider_receive_the_blended_prompt() {
    let scene = Scene::start_with(CONFIG).await;
    let members = json!({"model": "sim/image", "sync": true});
    for (body, refused) in [
        // The caller's words in the blended prompt, and the prompt as a whole.
        (
            json!({"template": "ours", "prompt": "a forbidden plum"}),
            Some("content_policy_violation"),
        ),
        (
            json!({"template": "ours", "prompt": "a pear"}),
            Some("content_policy_violation"),
        ),
        (json!({"prompt": "a pear"}), None),
        (json!({"template": "ours"}), None),
        // The simulator receives the template's script. Parameters of the template that the model
        // does not support are dropped.
        (
            json!({"template": "scripted", "prompt": "a pear"}),
            Some("output_blocked"),
        ),
    ] {
        let response = scene.make(IMAGES, &with(members.clone(), body.clone())).await;
        match refused {
            None => assert_eq!(response.status, 200, "{body}: {}", response.text()),
            Some(code) => assert_eq!(response.error().code, code, "{body}"),
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_without_side_effects() {
    let scene = Scene::start_with(CONFIG).await;
    for (path, body, code, param) in [
        (
            IMAGES,
            json!({"template": "nothing"}),
            "invalid_parameter",
            "template",
        ),
        (
            IMAGES,
            json!({"template": "poster"}),
            "invalid_parameter",
            "template",
        ),
        (
            IMAGES,
            json!({"template": "unboxing"}),
            "invalid_parameter",
            "template",
        ),
        (
            VIDEOS,
            json!({"template": "blueprint"}),
            "invalid_parameter",
            "template",
        ),
        (
            IMAGES,
            json!({"template": "narrow", "model": "sim/image"}),
            "invalid_parameter",
            "model",
        ),
        (
            IMAGES,
            json!({"template": "scripted", "model": "acme/images"}),
            "invalid_parameter",
            "model",
        ),
        // Parameters of the caller are never dropped.
        (
            IMAGES,
            json!({"template": "ours", "model": "sim/image", "aspect_ratio": "3:1"}),
            "parameter_out_of_range",
            "aspect_ratio",
        ),
        (
            VIDEOS,
            json!({"template": "unboxing", "model": "sim/video", "duration": 7}),
            "parameter_out_of_range",
            "duration",
        ),
    ] {
        let response = scene.make(path, &body).await;
        assert_error(&body.to_string(), &response, code, Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
