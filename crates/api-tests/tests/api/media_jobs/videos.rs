//! `POST /v1/videos/generations` with the simulator.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::{BOTH, IDLE, IMAGES, VIDEOS, image, png, simulated, video};
use crate::scene::{GRANTED, PROVIDER, Scene, assert_error, with};

#[tokio::test]
async fn a_video_is_generated_and_extended() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let first = scene.made(VIDEOS, &video(json!({}))).await;
        let result = &first["result"];
        assert_eq!(
            (&result["width"], &result["height"], &result["duration"]),
            (&json!(640), &json!(360), &json!(1.0))
        );
        assert_eq!(
            (&result["url"], &result["video_url"]),
            (&result["data"][0]["url"], &result["url"])
        );
        // One second at 360p counts half, and audio adds a quarter: 0.02 × 0.5 × 1.25.
        assert_eq!(
            (&first["cost"], &first["usage"]),
            (&json!("0.0125"), &json!({"video_seconds": 0.625}))
        );
        let opened = scene.open_address(result["url"].as_str().unwrap()).await;
        assert_eq!(
            (opened.status, opened.header("content-type")),
            (200, Some("video/mp4"))
        );

        let on = json!({"prompt": "and on", "extend_from": {"job_id": first["id"]}});
        let longer = scene.made(VIDEOS, &video(on)).await;
        assert_eq!(longer["result"]["duration"], 2.0, "both are included");
        assert_eq!(longer["cost"], "0.0125", "only the new part is paid");
        let on = json!({"prompt": null, "generate_audio": false, "extend_from": {"video_url": longer["result"]["url"]}});
        let longest = scene.made(VIDEOS, &video(on)).await;
        assert_eq!(
            (&longest["result"]["duration"], &longest["cost"]),
            (&json!(3.0), &json!("0.01"))
        );
        assert_eq!(scene.settled().await.credits, GRANTED - 35_000_000);
        scene.finish().await;
    }
}

/// An extended video has the size of its source, regardless of the model's default and of
/// templates, and is paid in that size.
#[tokio::test]
async fn an_extended_video_keeps_its_size_and_is_paid_in_it() {
    let scene = simulated("").await;
    let first = scene.made(VIDEOS, &video(json!({}))).await;
    let by_job = json!({"job_id": first["id"]});
    let by_address = json!({"video_url": first["result"]["url"]});
    let mut spent = 12_500_000;
    for (members, before) in [
        (json!({"resolution": null}), &by_job),
        (json!({"resolution": null}), &by_address),
        (json!({"aspect_ratio": "16:9"}), &by_job),
        (json!({"resolution": null, "size": "640x360"}), &by_address),
        // The template alone would set 720p and the portrait format.
        (json!({"resolution": null, "template": "fashion-walk"}), &by_job),
    ] {
        let on = with(video(members), json!({"extend_from": before}));
        let request = Request::json(VIDEOS, &on).key(&scene.key.secret);
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
            let on = with(video(members), json!({"extend_from": before}));
            let refused = scene.post(VIDEOS, &on).await;
            let error = assert_error(&on.to_string(), &refused, "parameter_out_of_range", Some(param));
            assert!(error.message.contains("640x360"), "{error:?}");
        }
    }
    assert_eq!(scene.settled().await.credits, credits);
    scene.finish().await;
}

#[tokio::test]
async fn images_start_videos_or_appear_in_them() {
    let scene = simulated("").await;
    let made = scene.made(IMAGES, &image(json!({"aspect_ratio": "9:16"}))).await;
    let url = made["result"]["data"][0]["url"].as_str().unwrap();
    for (members, width, height) in [
        (json!({"image": url}), 640, 360),
        (json!({"image_url": url, "mode": "i2v"}), 640, 360),
        (json!({"images": [url]}), 640, 360),
        (json!({"images": [url, png(16, 16)]}), 640, 360),
        (json!({"reference_images": [url], "mode": "r2v"}), 640, 360),
        (json!({"mode": "t2v", "aspect_ratio": "1:1"}), 360, 360),
        // A video that extends an image has the aspect ratio of the image.
        (json!({"extend_from": {"job_id": made["id"]}}), 360, 640),
    ] {
        let video = scene.made(VIDEOS, &video(members.clone())).await;
        let size = (&video["result"]["width"], &video["result"]["height"]);
        assert_eq!(size, (&json!(width), &json!(height)), "{members}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_without_side_effects() {
    let scene = simulated(IDLE).await;
    let waiting = scene.accept(VIDEOS, &video(json!({}))).await;
    let cancelled = scene.accept(VIDEOS, &video(json!({}))).await;
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
        let refused = scene.post(VIDEOS, &video(members.clone())).await;
        assert_error(&members.to_string(), &refused, code, Some(param));
    }
    let foreign = scene
        .client()
        .post_json(VIDEOS, &stranger.secret, &video(on(&waiting)))
        .await;
    assert_error("foreign job", &foreign, "not_found", Some("extend_from.job_id"));
    assert_eq!(scene.balance().await, held);
    scene.cancel_all().await;
    scene.finish().await;
}

#[tokio::test]
async fn the_model_record_shows_its_limits() {
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

/// An operator's model has the capabilities of its target. With an unknown target it lists no modes
/// and accepts no reference images.
#[tokio::test]
async fn custom_models_have_the_modes_and_references_of_their_targets() {
    let prices = "type = \"video\"\nprices = { video = \"0.02\" }\n";
    let settings = format!(
        "[models.\"acme/likewise\"]\ntargets = [\"sim/video\"]\n{prices}\
         [models.\"acme/likewise\".media]\nresolutions = [\"360p\"]\ndurations = [1]\n\
         [models.\"acme/blank\"]\ntargets = [\"{PROVIDER}/nothing-known\"]\n{prices}"
    );
    let scene = simulated(&settings).await;
    let record = scene.get("/v1/models/acme/likewise").await.json();
    assert_eq!(record["modes"], json!(["t2v", "i2v", "r2v"]));
    let limits = &record["limits"];
    assert_eq!(
        (&limits["max_references"], &limits["durations"]),
        (&json!(4), &json!([1])),
        "{record}"
    );
    let record = scene.get("/v1/models/acme/blank").await.json();
    assert_eq!((&record["modes"], &record["limits"]), (&json!([]), &json!({})));
    let one = png(16, 16);
    for (model, members, code, param) in [
        (
            "acme/likewise",
            json!({"mode": "zzz"}),
            "parameter_out_of_range",
            "mode",
        ),
        (
            "acme/likewise",
            json!({"reference_images": [one, one, one, one, one]}),
            "parameter_out_of_range",
            "reference_images",
        ),
        ("acme/blank", json!({"mode": "zzz"}), "invalid_parameter", "mode"),
        (
            "acme/blank",
            json!({"reference_images": [one]}),
            "parameter_out_of_range",
            "reference_images",
        ),
        (
            "acme/blank",
            json!({"images": [one, one]}),
            "parameter_out_of_range",
            "images",
        ),
        (
            "acme/blank",
            json!({"mode": "r2v", "image": one}),
            "parameter_out_of_range",
            "mode",
        ),
        ("acme/blank", json!({"mode": "i2v"}), "invalid_parameter", "mode"),
    ] {
        let body = video(with(json!({"model": model}), members));
        let response = scene.post(VIDEOS, &body).await;
        assert_error(model, &response, code, Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
