//! `POST /v1/images/generations` before the simulator.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Storage, eventually};

use super::{BOTH, IDLE, PICTURES, picture, png, simulated};
use crate::scene::{GRANTED, Scene, assert_error};

/// Half a plain picture of the simulator's, in nano-credits.
const HALF: i64 = 5_000_000;

#[tokio::test]
async fn a_picture_is_accepted_polled_and_opened() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let body = picture(json!({"num_images": 2, "metadata": {"for": "the wall"}}));
        let accepted = scene.post(PICTURES, &body).await;
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
            (&json!("0.01"), &json!({"image_millionths": 1_000_000}))
        );
        assert_eq!(job["request_id"].as_str(), Some(accepted.request_id()));
        assert!(job["result"]["created"].is_i64(), "{job}");
        let data = job["result"]["data"].as_array().unwrap();
        assert_eq!(data.len(), 2);
        let mut seen = Vec::new();
        for piece in data {
            assert_eq!(
                (&piece["width"], &piece["height"], &piece["mime_type"]),
                (&json!(512), &json!(512), &json!("image/png"))
            );
            assert!(piece["expires_at"].as_str().unwrap() >= job["expires_at"].as_str().unwrap());
            let opened = scene.open_address(piece["url"].as_str().unwrap()).await;
            assert_eq!(
                (opened.status, opened.header("content-type")),
                (200, Some("image/png"))
            );
            assert_eq!(opened.header("x-content-type-options"), Some("nosniff"));
            seen.push(opened.body());
        }
        assert_ne!(seen[0], seen[1], "each picture is another one");
        let row = scene.row(accepted.request_id()).await;
        assert_eq!(
            (&row["cost"], &row["endpoint"], &row["outcome"]),
            (&json!("0.01"), &json!(PICTURES), &json!("ok"))
        );
        assert_eq!(row["usage"]["image_millionths"], 1_000_000);
        assert_eq!(scene.settled().await.credits, GRANTED - 2 * HALF);
        scene.finish().await;
    }
}

#[tokio::test]
async fn who_waits_gets_the_pictures_themselves() {
    let scene = simulated("").await;
    for (member, header) in [("sync", None), ("wait", None), ("prompt", Some("wait=60"))] {
        let mut body = picture(json!({"n": 2, "response_format": "b64_json", "output_format": "webp"}));
        if header.is_none() {
            body[member] = json!(true);
        }
        let mut request = Request::json(PICTURES, &body).key(&scene.key.secret);
        if let Some(value) = header {
            request = request.header("prefer", value);
        }
        let answered = scene.client().send(&request).await;
        assert_eq!(answered.status, 200, "{}", answered.text());
        assert_eq!(answered.header("x-tollgate-cost"), Some("0.01"));
        let pictures = answered.json();
        assert!(pictures["created"].is_i64(), "{member} {pictures}");
        assert_eq!(
            (
                &pictures["usage"]["cost"],
                pictures["data"].as_array().unwrap().len()
            ),
            (&json!("0.01"), 2)
        );
        let piece = &pictures["data"][0];
        assert!(piece["url"].is_null());
        let bytes = STANDARD.decode(piece["b64_json"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&bytes[..4], &bytes[8..12], &piece["mime_type"]),
            (&b"RIFF"[..], &b"WEBP"[..], &json!("image/webp"))
        );
    }
    // Who does not wait long enough gets the reference, and the job goes on.
    let body = picture(json!({"prompt": "a cat [[sim delay=200]]"}));
    let request = Request::json(PICTURES, &body)
        .key(&scene.key.secret)
        .header("prefer", "wait=0");
    let reference = scene.client().send(&request).await.json();
    assert_eq!(reference["object"], "job", "{reference}");
    assert_eq!(
        scene.ended(reference["job_id"].as_str().unwrap()).await["status"],
        "completed"
    );
    scene.finish().await;
}

/// A key can wait in place of its requests, for clients that know no jobs.
#[tokio::test]
async fn a_key_waits_for_pictures_unless_the_request_says_otherwise() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let command = scene.gateway.command_line();
        let waiting = command
            .run(&["keys", "create", "--account", &scene.account, "--sync"])
            .await;
        let is_picture = async |key: &str, members: Value| {
            let response = scene.client().post_json(PICTURES, key, &picture(members)).await;
            assert_eq!(response.status, 200, "{}", response.text());
            let answer = response.json();
            assert_ne!(answer["created"].is_i64(), answer["object"] == "job", "{answer}");
            answer["created"].is_i64()
        };
        let key = waiting["key"].as_str().unwrap();
        assert!(is_picture(key, json!({})).await);
        assert!(!is_picture(key, json!({"sync": false})).await);
        let films = scene
            .client()
            .post_json(super::FILMS, key, &super::film(json!({})))
            .await;
        assert!(films.json()["job_id"].is_string(), "{}", films.text());
        let plain = &scene.key;
        assert!(!is_picture(&plain.secret, json!({})).await);
        // The change counts at once where it is made or heard of.
        for (switch, waits) in [("on", true), ("off", false)] {
            let shown = command.run(&["keys", "set-sync", &plain.id, switch]).await;
            assert_eq!(
                (&shown["sync"], &shown["compat"]),
                (&json!(waits), &json!("strict")),
                "{shown}"
            );
            eventually("the key waits as it is to", async || {
                is_picture(&plain.secret, json!({})).await == waits
            })
            .await;
        }
        scene.cancel_all().await;
        scene.settled().await;
        scene.finish().await;
    }
}

#[tokio::test]
async fn pictures_are_edited_inpainted_and_varied() {
    let scene = simulated("").await;
    let made = scene.made(PICTURES, &picture(json!({}))).await;
    let url = made["result"]["data"][0]["url"].as_str().unwrap();
    for members in [
        json!({"image": [url]}),
        json!({"image": url}),
        json!({"image": [png(32, 32), url]}),
        json!({"image": [png(32, 32)], "mask": png(32, 32)}),
        json!({"variation_of": url, "prompt": null}),
        json!({"image_set": true, "num_images": 3}),
    ] {
        let job = scene.made(PICTURES, &picture(members.clone())).await;
        assert_eq!(job["result"]["data"][0]["width"], 512, "{members} {job}");
    }
    // Another account's picture is not there, also for who has its address.
    let stranger = scene.gateway.account().await;
    let key = scene.gateway.key(&stranger).await;
    scene.gateway.grant(&stranger, "10").await;
    let body = picture(json!({"image": [url]}));
    let refused = scene.client().post_json(PICTURES, &key.secret, &body).await;
    assert_error(
        "another's picture",
        &refused,
        "invalid_parameter",
        Some("image[0]"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_anything_happens() {
    let scene = simulated(IDLE).await;
    let pictures = |count: usize| vec![png(16, 16); count];
    for (members, code, param) in [
        (json!({"num_images": 0}), "invalid_parameter", "num_images"),
        (json!({"num_images": 5}), "invalid_parameter", "num_images"),
        (json!({"n": 5}), "invalid_parameter", "n"),
        (json!({"prompt": ""}), "missing_required_parameter", "prompt"),
        (json!({"image": pictures(15)}), "parameter_out_of_range", "image"),
        (json!({"image": pictures(17)}), "invalid_parameter", "image"),
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
        let refused = scene.post(PICTURES, &picture(members.clone())).await;
        assert_error(&members.to_string(), &refused, code, Some(param));
    }
    let torn = Request::post(PICTURES, "{\"prompt\": ")
        .key(&scene.key.secret)
        .header("content-type", "application/json");
    assert_error("torn", &scene.client().send(&torn).await, "invalid_json", None);
    scene.nothing_happened().await;
    assert_eq!(scene.get("/v1/jobs").await.json()["data"], json!([]));
    // What is just within the bounds is taken.
    for members in [
        json!({"num_images": 4}),
        json!({"image": pictures(14)}),
        json!({"n": 1, "quality": "high"}),
    ] {
        scene.accept(PICTURES, &picture(members)).await;
    }
    // The held jobs: 4 × 0.5, 14 pictures → 0.5, and a good one 0.5 × 2.
    assert_eq!(scene.balance().await.held, 2 * HALF * 2 + HALF + 2 * HALF);
    scene.cancel_all().await;
    scene.finish().await;
}

#[tokio::test]
async fn who_cannot_pay_gets_nothing_and_nothing_is_kept() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let poor = scene.gateway.account().await;
        let key = scene.gateway.key(&poor).await;
        scene.gateway.grant(&poor, "0.0099").await;
        let body = picture(json!({"num_images": 2, "image": [png(16, 16)], "resolution": "1k"}));
        let refused = scene.client().post_json(PICTURES, &key.secret, &body).await;
        assert_error("too poor", &refused, "insufficient_credits", None);
        assert_eq!(scene.gateway.balance(&poor).await.held, 0);
        let kept = std::fs::read_dir(scene.gateway.data().join("media")).map_or(0, Iterator::count);
        assert_eq!(kept, 0, "nothing was kept for it");
        let allowed = Request::json(PICTURES, &picture(json!({}))).key(&scene.key.secret);
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
async fn what_goes_wrong_costs_nothing_and_what_is_withheld_is_paid() {
    let scene = simulated("").await;
    for (script, code) in [
        ("error=upstream_error", "upstream_error"),
        ("error=content_policy_violation", "content_policy_violation"),
        ("delay=50 cut=start", "upstream_error"),
        ("delay=50 cut=end", "upstream_error"),
        ("size=64x64", "upstream_error"),
        ("refuse", "output_blocked"),
    ] {
        let body = picture(json!({"prompt": format!("a cat [[sim {script}]]")}));
        let job = scene.ended(&scene.accept(PICTURES, &body).await).await;
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
        assert_error(script, &scene.post(PICTURES, &waited).await, code, None);
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
        .post_json(PICTURES, key, &json!({"prompt": "a cat", "sync": true}))
        .await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    assert_eq!(accepted.json()["usage"]["cost"], "0");
    let body = json!({"prompt": "a cat", "model": super::PICTURE});
    let refused = scene.client().post_json(PICTURES, key, &body).await;
    assert_error("a live model", &refused, "model_not_found", Some("model"));
    assert_eq!(scene.upstream.media_submissions(), 0);
    scene.finish().await;
}
