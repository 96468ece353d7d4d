//! `POST /v1/videos/generations` before the simulator.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::{BOTH, FILMS, IDLE, PICTURES, film, picture, png, simulated};
use crate::scene::{GRANTED, Scene, assert_error, with};

#[tokio::test]
async fn a_film_is_made_and_gone_on_with() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let first = scene.made(FILMS, &film(json!({}))).await;
        let result = &first["result"];
        assert_eq!(
            (&result["width"], &result["height"], &result["duration"]),
            (&json!(640), &json!(360), &json!(1.0))
        );
        assert_eq!(
            (&result["url"], &result["video_url"]),
            (&result["data"][0]["url"], &result["url"])
        );
        // A second of 360p counts for a half, with sound for a quarter more: 0.02 × 0.5 × 1.25.
        assert_eq!(
            (&first["cost"], &first["usage"]),
            (&json!("0.0125"), &json!({"video_microseconds": 625_000}))
        );
        let opened = scene.open_address(result["url"].as_str().unwrap()).await;
        assert_eq!(
            (opened.status, opened.header("content-type")),
            (200, Some("video/mp4"))
        );

        let on = json!({"prompt": "and on", "extend_from": {"job_id": first["id"]}});
        let longer = scene.made(FILMS, &film(on)).await;
        assert_eq!(longer["result"]["duration"], 2.0, "both are in it");
        assert_eq!(longer["cost"], "0.0125", "what is new is paid");
        let on = json!({"prompt": null, "generate_audio": false, "extend_from": {"video_url": longer["result"]["url"]}});
        let longest = scene.made(FILMS, &film(on)).await;
        assert_eq!(
            (&longest["result"]["duration"], &longest["cost"]),
            (&json!(3.0), &json!("0.01"))
        );
        assert_eq!(scene.settled().await.credits, GRANTED - 35_000_000);
        scene.finish().await;
    }
}

/// What is delivered is paid: the size of the film before it, whatever the model's usual one is and a template says.
#[tokio::test]
async fn a_film_that_goes_on_keeps_the_size_and_is_paid_in_it() {
    let scene = simulated("").await;
    let first = scene.made(FILMS, &film(json!({}))).await;
    let by_job = json!({"job_id": first["id"]});
    let by_address = json!({"video_url": first["result"]["url"]});
    let mut spent = 12_500_000;
    for (members, before) in [
        (json!({"resolution": null}), &by_job),
        (json!({"resolution": null}), &by_address),
        (json!({"aspect_ratio": "16:9"}), &by_job),
        (json!({"resolution": null, "size": "640x360"}), &by_address),
        // It would have 720p and the portrait format.
        (json!({"resolution": null, "template": "fashion-walk"}), &by_job),
    ] {
        let on = with(film(members), json!({"extend_from": before}));
        let request = Request::json(FILMS, &on).key(&scene.key.secret);
        let accepted = scene.client().send(&request.header("x-max-cost", "0.0125")).await;
        assert_eq!(accepted.status, 200, "{on} {}", accepted.text());
        let longer = scene.ended(accepted.json()["job_id"].as_str().unwrap()).await;
        let result = &longer["result"];
        assert_eq!(
            (&result["width"], &result["height"], &longer["cost"]),
            (&json!(640), &json!(360), &json!("0.0125")),
            "{on} {longer}"
        );
        spent += 12_500_000;
    }
    let credits = scene.settled().await.credits;
    assert_eq!(credits, GRANTED - spent);
    for before in [&by_job, &by_address] {
        for (members, param) in [
            (json!({"resolution": "720p"}), "resolution"),
            (json!({"resolution": "480p"}), "resolution"),
            (json!({"aspect_ratio": "9:16"}), "aspect_ratio"),
            (json!({"resolution": null, "size": "1280x720"}), "size"),
        ] {
            let on = with(film(members), json!({"extend_from": before}));
            let refused = scene.post(FILMS, &on).await;
            let error = assert_error(&on.to_string(), &refused, "parameter_out_of_range", Some(param));
            assert!(error.message.contains("640x360"), "{error:?}");
        }
    }
    assert_eq!(scene.settled().await.credits, credits);
    scene.finish().await;
}

#[tokio::test]
async fn pictures_begin_films_or_appear_in_them() {
    let scene = simulated("").await;
    let made = scene
        .made(PICTURES, &picture(json!({"aspect_ratio": "9:16"})))
        .await;
    let url = made["result"]["data"][0]["url"].as_str().unwrap();
    for (members, width, height) in [
        (json!({"image": url}), 640, 360),
        (json!({"image_url": url, "mode": "i2v"}), 640, 360),
        (json!({"images": [url]}), 640, 360),
        (json!({"images": [url, png(16, 16)]}), 640, 360),
        (json!({"reference_images": [url], "mode": "r2v"}), 640, 360),
        (json!({"mode": "t2v", "aspect_ratio": "1:1"}), 360, 360),
        // The film of a picture has the picture's shape.
        (json!({"extend_from": {"job_id": made["id"]}}), 360, 640),
    ] {
        let film = scene.made(FILMS, &film(members.clone())).await;
        let size = (&film["result"]["width"], &film["result"]["height"]);
        assert_eq!(size, (&json!(width), &json!(height)), "{members}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_anything_happens() {
    let scene = simulated(IDLE).await;
    let waiting = scene.accept(FILMS, &film(json!({}))).await;
    let cancelled = scene.accept(FILMS, &film(json!({}))).await;
    let request = Request::new("POST", &format!("/v1/jobs/{cancelled}/cancel")).key(&scene.key.secret);
    assert_eq!(scene.client().send(&request).await.json()["status"], "cancelled");
    let strangers = scene.gateway.account().await;
    let stranger = scene.gateway.key(&strangers).await;
    scene.gateway.grant(&strangers, "10").await;
    let held = scene.balance().await;
    let on = |job: &str| json!({"extend_from": {"job_id": job}});
    for (members, code, param) in [
        (json!({"prompt": null}), "missing_required_parameter", "prompt"),
        (json!({"duration": 0}), "invalid_parameter", "duration"),
        (json!({"duration": 7}), "parameter_out_of_range", "duration"),
        (
            json!({"resolution": "1080p"}),
            "parameter_out_of_range",
            "resolution",
        ),
        (
            json!({"image": "i", "reference_images": ["r"]}),
            "invalid_parameter",
            "reference_images",
        ),
        (
            json!({"reference_images": [png(16, 16)], "resolution": "720p"}),
            "parameter_out_of_range",
            "resolution",
        ),
        (
            json!({"reference_images": vec![png(16, 16); 5]}),
            "parameter_out_of_range",
            "reference_images",
        ),
        (
            json!({"images": vec![png(16, 16); 5]}),
            "parameter_out_of_range",
            "images",
        ),
        (json!({"mode": "v2v"}), "parameter_out_of_range", "mode"),
        (
            json!({"mode": "t2v", "image": png(16, 16)}),
            "invalid_parameter",
            "mode",
        ),
        (json!({"mode": "i2v"}), "invalid_parameter", "mode"),
        (json!({"extend_from": {}}), "invalid_parameter", "extend_from"),
        (
            json!({"extend_from": {"job_id": "a", "video_url": "b"}}),
            "invalid_parameter",
            "extend_from",
        ),
        (
            json!({"extend_from": {"video_url": "http://127.0.0.1/v.mp4"}}),
            "invalid_parameter",
            "extend_from.video_url",
        ),
        (
            json!({"extend_from": {"video_url": "data:video/mp4;base64,AAAA"}}),
            "invalid_parameter",
            "extend_from.video_url",
        ),
        (on(&waiting), "conflict", "extend_from.job_id"),
        (on(&cancelled), "parameter_out_of_range", "extend_from.job_id"),
        (
            on("job_00000000000000000000000000000001"),
            "not_found",
            "extend_from.job_id",
        ),
        (on("nothing"), "not_found", "extend_from.job_id"),
        (json!({"model": "sim/image"}), "unsupported_endpoint", "model"),
        (json!({"num_images": 1}), "unknown_parameter", "num_images"),
    ] {
        let refused = scene.post(FILMS, &film(members.clone())).await;
        assert_error(&members.to_string(), &refused, code, Some(param));
    }
    let foreign = scene
        .client()
        .post_json(FILMS, &stranger.secret, &film(on(&waiting)))
        .await;
    assert_error("another's job", &foreign, "not_found", Some("extend_from.job_id"));
    assert_eq!(scene.balance().await, held);
    scene.cancel_all().await;
    scene.finish().await;
}

#[tokio::test]
async fn limits_are_told_by_the_model() {
    let scene = simulated("").await;
    let record = scene.get("/v1/models/sim/video").await.json();
    assert_eq!(record["modes"], json!(["t2v", "i2v", "r2v"]));
    let limits = &record["limits"];
    assert_eq!(
        (&limits["max_references"], &limits["max_reference_resolution"]),
        (&json!(4), &json!("480p"))
    );
    assert_eq!(limits["durations"][0], 4);
    assert_eq!(limits["factors"]["720p"], Value::from("2"));
    let record = scene.get("/v1/models/sim/image").await.json();
    assert_eq!(record["limits"]["max_input_images"], 14);
    assert_eq!(record["pricing"], json!({"image": "0.01"}));
    scene.finish().await;
}
