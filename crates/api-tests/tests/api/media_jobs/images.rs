//! `POST /v1/images/generations` with the simulator.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Storage, eventually};

use super::{BOTH, IDLE, IMAGES, image, png, simulated};
use crate::scene::{GRANTED, Scene, assert_error};

/// Price of a 0.5k image of the simulator (half a standard image), in nano-credits.
const HALF: i64 = 5_000_000;

#[tokio::test]
async fn an_image_is_accepted_polled_and_downloaded() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let body = image(json!({"num_images": 2, "metadata": {"for": "the wall"}}));
        let accepted = scene.post(IMAGES, &body).await;
        assert_eq!(accepted.status, 200, "{}", accepted.text());
        let reference = accepted.json();
        assert_eq!(
            (&reference["object"], &reference["type"]),
            (&json!("job"), &json!("image.generation"))
        );
        assert_eq!(accepted.header("location"), reference["poll_url"].as_str());
        assert_eq!(accepted.header("retry-after"), Some("2"));
        assert_eq!(
            scene.path(reference["poll_url"].as_str().unwrap()),
            format!("/v1/jobs/{}", reference["job_id"].as_str().unwrap())
        );

        let job = scene.ended(reference["job_id"].as_str().unwrap()).await;
        assert_eq!(job["status"], "completed", "{job}");
        assert_eq!(
            (&job["progress"], &job["error"], &job["phase"]),
            (&json!(100), &Value::Null, &Value::Null)
        );
        assert_eq!(
            (&job["model"], &job["metadata"]),
            (&json!("sim/image"), &json!({"for": "the wall"}))
        );
        assert_eq!(
            (&job["cost"], &job["usage"]),
            (&json!("0.01"), &json!({"images": 1}))
        );
        assert_eq!(job["request_id"].as_str(), Some(accepted.request_id()));
        assert!(job["result"]["created"].is_i64(), "{job}");
        let data = job["result"]["data"].as_array().unwrap();
        assert_eq!(data.len(), 2);
        let mut seen = Vec::new();
        for item in data {
            assert_eq!(
                (&item["width"], &item["height"], &item["mime_type"]),
                (&json!(512), &json!(512), &json!("image/png"))
            );
            assert!(item["expires_at"].as_str().unwrap() >= job["expires_at"].as_str().unwrap());
            let opened = scene.open_address(item["url"].as_str().unwrap()).await;
            assert_eq!(
                (opened.status, opened.header("content-type")),
                (200, Some("image/png"))
            );
            assert_eq!(opened.header("x-content-type-options"), Some("nosniff"));
            seen.push(opened.body());
        }
        assert_ne!(seen[0], seen[1], "the images differ");
        let row = scene.row(accepted.request_id()).await;
        assert_eq!(
            (&row["cost"], &row["endpoint"], &row["outcome"]),
            (&json!("0.01"), &json!(IMAGES), &json!("ok"))
        );
        assert_eq!(
            (&row["usage"]["images"], &row["usage"]["image_millionths"]),
            (&json!(1.0), &json!(1_000_000))
        );
        assert_eq!(scene.settled().await.credits, GRANTED - 2 * HALF);
        scene.finish().await;
    }
}

#[tokio::test]
async fn synchronous_requests_return_the_images() {
    let scene = simulated("").await;
    for (member, header) in [("sync", None), ("wait", None), ("prompt", Some("wait=60"))] {
        let mut body = image(json!({"n": 2, "response_format": "b64_json", "output_format": "webp"}));
        if header.is_none() {
            body[member] = json!(true);
        }
        let mut request = Request::json(IMAGES, &body).key(&scene.key.secret);
        if let Some(value) = header {
            request = request.header("prefer", value);
        }
        let answered = scene.client().send(&request).await;
        assert_eq!(answered.status, 200, "{}", answered.text());
        assert_eq!(answered.header("x-tollgate-cost"), Some("0.01"));
        assert_eq!(answered.header("preference-applied"), header);
        let images = answered.json();
        assert!(images["created"].is_i64(), "{member} {images}");
        assert_eq!(
            (&images["usage"]["cost"], images["data"].as_array().unwrap().len()),
            (&json!("0.01"), 2)
        );
        let item = &images["data"][0];
        assert!(item["url"].is_null());
        let bytes = STANDARD.decode(item["b64_json"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&bytes[..4], &bytes[8..12], &item["mime_type"]),
            (&b"RIFF"[..], &b"WEBP"[..], &json!("image/webp"))
        );
    }
    // After a shorter wait the response is a job reference, and the job continues.
    let body = image(json!({"prompt": "a cat [[sim delay=200]]"}));
    let request = Request::json(IMAGES, &body)
        .key(&scene.key.secret)
        .header("prefer", "wait=0");
    let answered = scene.client().send(&request).await;
    let reference = answered.json();
    assert_eq!(reference["object"], "job", "{reference}");
    assert_eq!(
        (
            answered.header("preference-applied"),
            answered.header("retry-after")
        ),
        (Some("wait=0"), Some("2"))
    );
    assert_eq!(
        scene.ended(reference["job_id"].as_str().unwrap()).await["status"],
        "completed"
    );
    scene.finish().await;
}

/// A setting of the key makes requests wait, for clients that do not support jobs.
#[tokio::test]
async fn a_sync_key_waits_for_images_unless_the_request_says_otherwise() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let command = scene.gateway.command_line();
        let waiting = command
            .run(&["keys", "create", "--account", &scene.account, "--sync"])
            .await;
        let is_synchronous = async |key: &str, members: Value| {
            let response = scene.client().post_json(IMAGES, key, &image(members)).await;
            assert_eq!(response.status, 200, "{}", response.text());
            let answer = response.json();
            assert_ne!(answer["created"].is_i64(), answer["object"] == "job", "{answer}");
            answer["created"].is_i64()
        };
        let key = waiting["key"].as_str().unwrap();
        assert!(is_synchronous(key, json!({})).await);
        assert!(!is_synchronous(key, json!({"sync": false})).await);
        let videos = scene
            .client()
            .post_json(super::VIDEOS, key, &super::video(json!({})))
            .await;
        assert!(videos.json()["job_id"].is_string(), "{}", videos.text());
        let plain = &scene.key;
        assert!(!is_synchronous(&plain.secret, json!({})).await);
        // A change applies on a node once the node makes it or is notified of it.
        for (switch, waits) in [("on", true), ("off", false)] {
            let shown = command.run(&["keys", "set-sync", &plain.id, switch]).await;
            assert_eq!(
                (&shown["sync"], &shown["compat"]),
                (&json!(waits), &json!("standard")),
                "{shown}"
            );
            eventually("the key follows its sync setting", async || {
                is_synchronous(&plain.secret, json!({})).await == waits
            })
            .await;
        }
        scene.cancel_all().await;
        scene.settled().await;
        scene.finish().await;
    }
}

/// Builds a multipart form as OpenAI's clients send it.
fn form(path: &str, files: &[(&str, Vec<u8>)], fields: &[(&str, &str)]) -> Request {
    let boundary = "d1v1de";
    let mut body = Vec::new();
    for (name, value) in fields {
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    for (name, bytes) in files {
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.png\"\r\n\
             Content-Type: image/png\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let media_type = format!("multipart/form-data; boundary={boundary}");
    Request::post(path, body).header("content-type", media_type)
}

/// Forms create the same jobs and wait for them unless `sync` is `false`.
#[tokio::test]
async fn forms_create_edits_and_variations() {
    const EDITS: &str = "/v1/images/edits";
    const VARIATIONS: &str = "/v1/images/variations";
    let scene = simulated("").await;
    let file = || tollgate_testkit::upstream::media::image(32, 32, 7);
    let send = async |request: Request| scene.client().send(&request.key(&scene.key.secret)).await;
    let usual = [
        ("model", "sim/image"),
        ("size", "512x512"),
        ("response_format", "b64_json"),
    ];
    let edit = [&usual[..], &[("prompt", "a hat"), ("n", "2")]].concat();
    let mut before = scene.balance().await.credits;
    for (path, files, fields, count) in [
        (EDITS, vec![("image", file())], &edit[..], 2),
        (EDITS, vec![("image[]", file()), ("image[]", file())], &edit, 2),
        (EDITS, vec![("image", file()), ("mask", file())], &edit, 2),
        (VARIATIONS, vec![("image", file())], &usual, 1),
    ] {
        let made = send(form(path, &files, fields)).await;
        assert_eq!(made.status, 200, "{path}: {}", made.text());
        let images = made.json();
        assert_eq!(images["data"].as_array().unwrap().len(), count, "{path}");
        let bytes = STANDARD
            .decode(images["data"][0]["b64_json"].as_str().unwrap())
            .unwrap();
        assert!(bytes.starts_with(b"\x89PNG"));
        let row = scene.row(made.request_id()).await;
        assert_eq!(
            (&row["endpoint"], &row["cost"]),
            (&json!(path), &images["usage"]["cost"])
        );
        let now = scene.settled().await.credits;
        assert_eq!(before - now, HALF * count as i64);
        before = now;
    }
    let later = [&usual[..], &[("sync", "false")]].concat();
    let reference = send(form(VARIATIONS, &[("image", file())], &later)).await;
    let job = scene.ended(reference.json()["job_id"].as_str().unwrap()).await;
    assert_eq!(
        (&job["type"], &job["status"]),
        (&json!("image.generation"), &json!("completed"))
    );
    let before = scene.settled().await.credits;
    for (path, files, fields, code, param) in [
        (EDITS, vec![], &edit[..], "missing_required_parameter", "image"),
        (VARIATIONS, vec![], &usual, "missing_required_parameter", "image"),
        (
            EDITS,
            vec![("image", b"no image".to_vec())],
            &edit,
            "invalid_parameter",
            "image[0]",
        ),
        (
            VARIATIONS,
            vec![("image", b"no image".to_vec())],
            &usual,
            "invalid_parameter",
            "image",
        ),
        (
            EDITS,
            vec![("image", file())],
            &[("prompt", "p"), ("n", "5")],
            "invalid_parameter",
            "n",
        ),
        (
            EDITS,
            vec![("image", file())],
            &[("prompt", "p"), ("steps", "5")],
            "unknown_parameter",
            "steps",
        ),
    ] {
        let refused = send(form(path, &files, fields)).await;
        assert_error(&format!("{path} {param}"), &refused, code, Some(param));
    }
    let json = Request::json(EDITS, &json!({"prompt": "p"})).key(&scene.key.secret);
    assert_error(
        "json",
        &scene.client().send(&json).await,
        "unsupported_media_type",
        None,
    );
    assert_eq!(scene.settled().await.credits, before, "refused requests are free");
    scene.finish().await;
}

#[tokio::test]
async fn images_are_edited_inpainted_and_varied() {
    let scene = simulated("").await;
    let made = scene.made(IMAGES, &image(json!({}))).await;
    let url = made["result"]["data"][0]["url"].as_str().unwrap();
    for members in [
        json!({"image": [url]}),
        json!({"image": url}),
        json!({"image": [png(32, 32), url]}),
        json!({"image": [png(32, 32)], "mask": png(32, 32)}),
        json!({"variation_of": url, "prompt": null}),
        json!({"image_set": true, "num_images": 3}),
    ] {
        let job = scene.made(IMAGES, &image(members.clone())).await;
        assert_eq!(job["result"]["data"][0]["width"], 512, "{members} {job}");
    }
    // Another account cannot use the image, even with its URL.
    let stranger = scene.gateway.account().await;
    let key = scene.gateway.key(&stranger).await;
    scene.gateway.grant(&stranger, "10").await;
    let body = image(json!({"image": [url]}));
    let refused = scene.client().post_json(IMAGES, &key.secret, &body).await;
    assert_error(
        "image of another account",
        &refused,
        "invalid_parameter",
        Some("image[0]"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_without_side_effects() {
    let scene = simulated(IDLE).await;
    let images = |count: usize| vec![png(16, 16); count];
    for (members, code, param) in [
        (json!({"num_images": 0}), "invalid_parameter", "num_images"),
        (json!({"num_images": 5}), "invalid_parameter", "num_images"),
        (json!({"n": 5}), "invalid_parameter", "n"),
        (json!({"prompt": ""}), "missing_required_parameter", "prompt"),
        (json!({"image": images(15)}), "parameter_out_of_range", "image"),
        (json!({"image": images(17)}), "invalid_parameter", "image"),
        (
            json!({"image": ["http://127.0.0.1/a.png"]}),
            "invalid_parameter",
            "image[0]",
        ),
        (
            json!({"image": ["http://169.254.169.254/a.png"]}),
            "invalid_parameter",
            "image[0]",
        ),
        (
            json!({"image": ["http://[::1]/a.png"]}),
            "invalid_parameter",
            "image[0]",
        ),
        (
            json!({"image": ["file:///etc/passwd"]}),
            "invalid_parameter",
            "image[0]",
        ),
        (
            json!({"image": ["data:image/png;base64,!"]}),
            "invalid_parameter",
            "image[0]",
        ),
        (
            json!({"image": ["data:image/png;base64,iVBORw0KGgphYmM="]}),
            "invalid_parameter",
            "image[0]",
        ),
        (
            json!({"image": [png(16, 16)], "mask": png(32, 16)}),
            "invalid_parameter",
            "mask",
        ),
        (json!({"mask": png(16, 16)}), "invalid_parameter", "mask"),
        (
            json!({"aspect_ratio": "wide"}),
            "invalid_parameter",
            "aspect_ratio",
        ),
        (
            json!({"aspect_ratio": "5:1"}),
            "parameter_out_of_range",
            "aspect_ratio",
        ),
        (
            json!({"resolution": "4k"}),
            "parameter_out_of_range",
            "resolution",
        ),
        (json!({"quality": "best"}), "parameter_out_of_range", "quality"),
        (
            json!({"output_format": "gif"}),
            "invalid_parameter",
            "output_format",
        ),
        (
            json!({"response_format": "png"}),
            "invalid_parameter",
            "response_format",
        ),
        (
            json!({"webhook_url": "ftp://a.example/"}),
            "invalid_parameter",
            "webhook_url",
        ),
        (
            json!({"webhook_url": "http://127.0.0.1/"}),
            "invalid_parameter",
            "webhook_url",
        ),
        (json!({"metadata": {"a": 1}}), "invalid_parameter", "metadata.a"),
        (json!({"model": "sim/chat"}), "unsupported_endpoint", "model"),
        (json!({"model": "sim/nothing"}), "model_not_found", "model"),
        (json!({"steps": 5}), "unknown_parameter", "steps"),
    ] {
        let refused = scene.post(IMAGES, &image(members.clone())).await;
        assert_error(&members.to_string(), &refused, code, Some(param));
    }
    let torn = Request::post(IMAGES, "{\"prompt\": ")
        .key(&scene.key.secret)
        .header("content-type", "application/json");
    assert_error("torn", &scene.client().send(&torn).await, "invalid_json", None);
    scene.nothing_happened().await;
    assert_eq!(scene.get("/v1/jobs").await.json()["data"], json!([]));
    // Requests at the limits are accepted.
    for members in [
        json!({"num_images": 4}),
        json!({"image": images(14)}),
        json!({"n": 1, "quality": "high"}),
    ] {
        scene.accept(IMAGES, &image(members)).await;
    }
    // Held: four images at 0.5, one edit of 14 images at 0.5, and one high-quality image at 0.5 ×
    // 2.
    assert_eq!(scene.balance().await.held, 2 * HALF * 2 + HALF + 2 * HALF);
    scene.cancel_all().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_request_without_enough_credits_stores_nothing() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let poor = scene.gateway.account().await;
        let key = scene.gateway.key(&poor).await;
        scene.gateway.grant(&poor, "0.0099").await;
        let body = image(json!({"num_images": 2, "image": [png(16, 16)], "resolution": "1k"}));
        let refused = scene.client().post_json(IMAGES, &key.secret, &body).await;
        assert_error("too poor", &refused, "insufficient_credits", None);
        assert_eq!(scene.gateway.balance(&poor).await.held, 0);
        let file_count = std::fs::read_dir(scene.gateway.data().join("media")).map_or(0, Iterator::count);
        assert_eq!(file_count, 0, "no file was stored");
        let allowed = Request::json(IMAGES, &image(json!({}))).key(&scene.key.secret);
        let refused = scene.client().send(&allowed.header("x-max-cost", "0.001")).await;
        assert_error(
            "not allowed",
            &refused,
            "parameter_out_of_range",
            Some("x-max-cost"),
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn failed_jobs_are_free_and_withheld_images_are_paid() {
    let scene = simulated("").await;
    for (script, code) in [
        ("error=upstream_error", "upstream_error"),
        ("error=content_policy_violation", "content_policy_violation"),
        ("delay=50 cut=start", "upstream_error"),
        ("delay=50 cut=end", "upstream_error"),
        ("size=64x64", "upstream_error"),
        ("refuse", "output_blocked"),
    ] {
        let body = image(json!({"prompt": format!("a cat [[sim {script}]]")}));
        let job = scene.ended(&scene.accept(IMAGES, &body).await).await;
        assert_eq!(
            (&job["status"], &job["error"]["code"]),
            (&json!("failed"), &json!(code)),
            "{script} {job}"
        );
        assert_eq!(job["result"], Value::Null);
        let (cost, outcome) = match script {
            "refuse" => ("0.005", "blocked_output"),
            _ => ("0", "upstream_error"),
        };
        assert_eq!(job["cost"], cost, "{script}");
        let row = scene.row(job["request_id"].as_str().unwrap()).await;
        assert_eq!(row["cost"], cost, "{script}");
        if script == "refuse" {
            assert_eq!(row["outcome"], outcome);
        }
        let waited = crate::scene::with(body, json!({"sync": true}));
        assert_error(script, &scene.post(IMAGES, &waited).await, code, None);
    }
    assert_eq!(scene.settled().await.credits, GRANTED - 2 * HALF);
    scene.finish().await;
}

#[tokio::test]
async fn a_test_key_reaches_the_simulator_and_pays_nothing() {
    let scene = Scene::studio(Storage::Sqlite, "").await;
    let create = ["keys", "create", "--account", &scene.account, "--test"];
    let created = scene.gateway.command_line().run(&create).await;
    let key = created["key"].as_str().unwrap();
    let accepted = scene
        .client()
        .post_json(IMAGES, key, &json!({"prompt": "a cat", "sync": true}))
        .await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    assert_eq!(accepted.json()["usage"]["cost"], "0");
    let body = json!({"prompt": "a cat", "model": super::IMAGE_MODEL});
    let refused = scene.client().post_json(IMAGES, key, &body).await;
    assert_error("a live model", &refused, "model_not_found", Some("model"));
    assert_eq!(scene.upstream.media_submissions(), 0);
    scene.finish().await;
}
