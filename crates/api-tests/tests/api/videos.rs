//! `/v1/videos`: videos in the format of OpenAI's clients.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};

use crate::scene::{GRANTED, Scene, assert_error, with};

const VIDEOS: &str = "/v1/videos";
/// A PNG of two by two pixels, in base64.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGP8z8DAwMDAxMDAwMDAAAANHQEDasKb6QAAAABJRU5ErkJggg==";

/// Builds a request for a short video.
fn short_video(members: Value) -> Value {
    let usual =
        json!({"model": "sim/video", "prompt": "a fox in the snow", "seconds": "1", "size": "320x180"});
    with(usual, members)
}

impl Scene {
    async fn short_video(&self, members: Value) -> Value {
        let response = self
            .client()
            .post_json(VIDEOS, &self.key.secret, &short_video(members))
            .await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    /// Waits for the end of a video job and returns the video.
    async fn ended_video(&self, video: &Value) -> Value {
        let id = video["id"].as_str().unwrap();
        let job = self.with_key("GET", &format!("/v1/jobs/{id}?wait=60")).await;
        assert!(!job.json()["completed_at"].is_null(), "{}", job.text());
        self.with_key("GET", &format!("{VIDEOS}/{id}")).await.json()
    }

    async fn with_key(&self, method: &str, path: &str) -> Response {
        let request = Request::new(method, path).key(&self.key.secret);
        self.client().send(&request).await
    }
}

fn ids(list: &Value) -> Vec<&str> {
    let videos = list["data"].as_array().unwrap().iter();
    videos.map(|video| video["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_video_is_created_read_and_deleted() {
    let scene = Scene::start().await;
    let accepted = scene.short_video(json!({})).await;
    let id = accepted["id"].as_str().unwrap();
    assert!(id.starts_with("job_"), "{accepted}");
    for (name, expected) in [
        ("object", json!("video")),
        ("model", json!("sim/video")),
        ("size", json!("320x180")),
        ("seconds", json!("1")),
        ("prompt", json!("a fox in the snow")),
        ("error", json!(null)),
        ("remixed_from_video_id", json!(null)),
    ] {
        assert_eq!(accepted[name], expected, "{name}");
    }
    assert!(["queued", "in_progress"].contains(&accepted["status"].as_str().unwrap()));
    assert!(accepted["created_at"].is_i64());

    let path = format!("{VIDEOS}/{id}");
    let made = scene.ended_video(&accepted).await;
    assert_eq!(
        (&made["status"], &made["progress"]),
        (&json!("completed"), &json!(100)),
        "{made}"
    );
    assert!(
        made["expires_at"].as_i64() > made["completed_at"].as_i64(),
        "{made}"
    );

    let whole = scene.with_key("GET", &format!("{path}/content")).await;
    assert_eq!(
        (whole.status, whole.header("content-type")),
        (200, Some("video/mp4"))
    );
    let bytes = whole.body();
    assert_eq!(&bytes[4..8], b"ftyp");
    let part = Request::get(&format!("{path}/content?variant=video")).key(&scene.key.secret);
    let part = scene.client().send(&part.header("range", "bytes=4-7")).await;
    assert_eq!((part.status, part.body()), (206, b"ftyp".to_vec()));
    for variant in ["thumbnail", "spritesheet"] {
        let image = scene
            .with_key("GET", &format!("{path}/content?variant={variant}"))
            .await;
        assert_eq!(
            (image.status, image.header("content-type")),
            (200, Some("image/jpeg")),
            "{variant}"
        );
        assert!(image.body().starts_with(&[0xff, 0xd8, 0xff]), "{variant}");
    }
    let other = scene
        .with_key("GET", &format!("{path}/content?variant=sound"))
        .await;
    assert_error("variant", &other, "invalid_parameter", Some("variant"));

    let deleted = scene.with_key("DELETE", &path).await;
    assert_eq!(
        deleted.json(),
        json!({"id": id, "object": "video.deleted", "deleted": true})
    );
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("GET", format!("{path}/content")),
    ] {
        let gone = scene.with_key(method, &path).await;
        assert_error(&path, &gone, "not_found", Some("video_id"));
    }
    assert_eq!(
        ids(&scene.with_key("GET", VIDEOS).await.json()),
        Vec::<&str>::new()
    );
    // The cost of the deleted video stays in the job record, and the URL of the video no longer
    // works.
    let job = scene.with_key("GET", &format!("/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&job["status"], &job["cost"]),
        (&json!("completed"), &json!("0.0125")),
        "{job}"
    );
    let url = job["result"]["url"].as_str().unwrap();
    let (_, address) = url.split_once("/v1/").unwrap();
    let nothing = scene
        .client()
        .send(&Request::get(&format!("/v1/{address}")))
        .await;
    assert!([404, 410].contains(&nothing.status), "{}", nothing.text());
    scene.settled().await;
    scene.finish().await;
}

#[tokio::test]
async fn an_extended_video_is_recorded_in_the_size_of_the_first() {
    let scene = Scene::start().await;
    let first = scene.short_video(json!({})).await;
    scene.ended_video(&first).await;
    let on = json!({"size": null, "extend_from": {"job_id": first["id"]}});
    let accepted = scene.short_video(on.clone()).await;
    assert_eq!(accepted["size"], "320x180");
    let longer = scene.ended_video(&accepted).await;
    assert_eq!(
        (&longer["status"], &longer["size"], &longer["seconds"]),
        (&json!("completed"), &json!("320x180"), &json!("2")),
        "{longer}"
    );
    let before = scene.settled().await;
    assert_eq!(before.credits, GRANTED - 25_000_000);
    let larger = short_video(with(on, json!({"size": "1280x720"})));
    let refused = scene.client().post_json(VIDEOS, &scene.key.secret, &larger).await;
    assert_error("a larger one", &refused, "parameter_out_of_range", Some("size"));
    assert_eq!(scene.settled().await, before);
    scene.finish().await;
}

#[tokio::test]
async fn a_form_with_a_file_starts_with_it() {
    let scene = Scene::start().await;
    let mut body = Vec::new();
    for (name, value) in [
        ("model", "sim/video"),
        ("prompt", "it moves"),
        ("seconds", "1"),
        ("size", "320x180"),
    ] {
        let head = format!("--edge\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(head.as_bytes());
    }
    let file = "--edge\r\ncontent-disposition: form-data; name=\"input_reference\"; filename=\"a.png\"\r\n\
                content-type: image/png\r\n\r\n";
    let form = |image: &[u8]| {
        let mut whole = body.clone();
        whole.extend_from_slice(file.as_bytes());
        whole.extend_from_slice(image);
        whole.extend_from_slice(b"\r\n--edge--\r\n");
        let request = Request::post(VIDEOS, whole)
            .key(&scene.key.secret)
            .without("content-type");
        request.header("content-type", "multipart/form-data; boundary=edge")
    };
    let response = scene.client().send(&form(&STANDARD.decode(PNG).unwrap())).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(scene.ended_video(&response.json()).await["status"], "completed");
    let none = scene.client().send(&form(b"no image")).await;
    assert_error("no image", &none, "invalid_parameter", Some("input_reference"));
    let cut = Request::post(VIDEOS, body.clone())
        .key(&scene.key.secret)
        .without("content-type");
    let cut = scene
        .client()
        .send(&cut.header("content-type", "multipart/form-data; boundary=edge"))
        .await;
    assert_error("cut", &cut, "invalid_parameter", None);
    scene.finish().await;
}

#[tokio::test]
async fn videos_are_listed_from_either_end() {
    let scene = Scene::start().await;
    let mut made = Vec::new();
    for number in 0..3 {
        let slow = json!({"prompt": format!("[[sim delay=600000]] number {number}")});
        made.push(scene.short_video(slow).await["id"].as_str().unwrap().to_owned());
    }
    let [first, second, third] = [&made[0], &made[1], &made[2]].map(String::as_str);
    for (query, expected, has_more) in [
        (String::new(), vec![third, second, first], false),
        ("?limit=2".to_owned(), vec![third, second], true),
        (format!("?limit=2&after={second}"), vec![first], false),
        ("?order=asc&limit=2".to_owned(), vec![first, second], true),
        (
            format!("?order=asc&limit=2&after={first}"),
            vec![second, third],
            false,
        ),
        (format!("?order=asc&after={third}"), vec![], false),
    ] {
        let list = scene.with_key("GET", &format!("{VIDEOS}{query}")).await.json();
        assert_eq!(
            (ids(&list), &list["has_more"]),
            (expected.clone(), &json!(has_more)),
            "{query}"
        );
        assert_eq!(list["last_id"].as_str(), expected.last().copied(), "{query}");
    }
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("order=up", "order"),
        ("after=x", "after"),
    ] {
        let refused = scene.with_key("GET", &format!("{VIDEOS}?{query}")).await;
        assert_error(query, &refused, "invalid_parameter", Some(param));
    }
    // A deleted video is cancelled and not listed. A cancelled video has failed.
    assert_eq!(
        scene
            .with_key("DELETE", &format!("{VIDEOS}/{second}"))
            .await
            .status,
        200
    );
    scene.with_key("POST", &format!("/v1/jobs/{first}/cancel")).await;
    let cancelled = scene.ended_video(&json!({"id": first})).await;
    assert_eq!(
        (&cancelled["status"], &cancelled["error"]["code"]),
        (&json!("failed"), &json!("cancelled"))
    );
    let gone = scene.with_key("GET", &format!("{VIDEOS}/{second}")).await;
    assert_error("deleted", &gone, "not_found", Some("video_id"));
    assert_eq!(ids(&scene.with_key("GET", VIDEOS).await.json()), [third, first]);
    let early = scene.with_key("GET", &format!("{VIDEOS}/{third}/content")).await;
    assert_error("early", &early, "conflict", Some("video_id"));
    assert_eq!(
        scene
            .with_key("DELETE", &format!("{VIDEOS}/{third}"))
            .await
            .status,
        200
    );
    assert_eq!(scene.settled().await.credits, GRANTED, "nothing was made");
    scene.finish().await;
}

#[tokio::test]
async fn a_video_is_remixed_with_another_prompt() {
    let scene = Scene::start().await;
    let image = format!("data:image/png;base64,{PNG}");
    let members = json!({"input_reference": {"image_url": image}, "generate_audio": false});
    let first = scene.short_video(members).await;
    let id = first["id"].as_str().unwrap().to_owned();
    scene.ended_video(&first).await;
    let path = format!("{VIDEOS}/{id}/remix");
    let again = scene
        .client()
        .post_json(&path, &scene.key.secret, &json!({"prompt": "in the rain"}))
        .await;
    assert_eq!(again.status, 200, "{}", again.text());
    let again = scene.ended_video(&again.json()).await;
    for (name, expected) in [
        ("status", json!("completed")),
        ("prompt", json!("in the rain")),
        ("size", first["size"].clone()),
        ("seconds", first["seconds"].clone()),
        ("remixed_from_video_id", json!(id)),
    ] {
        assert_eq!(again[name], expected, "{name}");
    }
    let empty = scene
        .client()
        .post_json(&path, &scene.key.secret, &json!({}))
        .await;
    assert_error("no prompt", &empty, "missing_required_parameter", Some("prompt"));
    scene.finish().await;
}

#[tokio::test]
async fn videos_of_others_and_other_jobs_are_not_found() {
    let scene = Scene::start().await;
    let mine = scene.short_video(json!({})).await;
    let id = mine["id"].as_str().unwrap().to_owned();
    let account = scene.gateway.account().await;
    let stranger = scene.gateway.key(&account).await;
    let body = json!({"model": "sim/image", "prompt": "a fox"});
    let image = scene
        .client()
        .post_json("/v1/images/generations", &scene.key.secret, &body)
        .await;
    let image = image.json()["job_id"].as_str().unwrap().to_owned();
    for (id, key) in [
        (&id, &stranger.secret),
        (&image, &scene.key.secret),
        (&"nothing".to_owned(), &scene.key.secret),
    ] {
        for (method, rest) in [
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/content"),
            ("POST", "/remix"),
        ] {
            let path = format!("{VIDEOS}/{id}{rest}");
            let request = match method {
                "POST" => Request::json(&path, &json!({"prompt": "p"})),
                method => Request::new(method, &path),
            };
            let response = scene.client().send(&request.key(key)).await;
            assert_error(&path, &response, "not_found", Some("video_id"));
        }
    }
    let keyless = scene
        .client()
        .send(&Request::get(&format!("{VIDEOS}/{id}")))
        .await;
    assert_error("no key", &keyless, "missing_api_key", None);
    for (members, code, param) in [
        (json!({"seconds": "7"}), "parameter_out_of_range", "seconds"),
        (json!({"size": "4096x4096"}), "parameter_out_of_range", "size"),
        (json!({"fps": 24}), "unknown_parameter", "fps"),
    ] {
        let refused = scene
            .client()
            .post_json(VIDEOS, &scene.key.secret, &short_video(members.clone()))
            .await;
        assert_error(&members.to_string(), &refused, code, Some(param));
    }
    scene.ended_video(&mine).await;
    scene.settled().await;
    scene.finish().await;
}
