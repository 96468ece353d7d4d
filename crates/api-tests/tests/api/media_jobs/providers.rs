//! Images and videos of a provider, and its failures: missing results are not charged, and no
//! submission is repeated.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually};
use tollgate_testkit::upstream::{FakeUpstream, MediaFault};

use super::{BOTH, IMAGE_MODEL, IMAGE_PRICE, IMAGES, SECOND_PRICE, VIDEO_MODEL, VIDEOS, png};
use crate::scene::{GRANTED, Scene, assert_error, files_in, with};

#[tokio::test]
async fn images_and_videos_come_from_a_provider() {
    for storage in BOTH {
        let scene = Scene::studio(storage, "").await;
        let body = json!({"model": IMAGE_MODEL, "prompt": "a cat", "num_images": 2, "aspect_ratio": "2:1"});
        let job = scene.made(IMAGES, &body).await;
        let item = &job["result"]["data"][1];
        assert_eq!((&item["width"], &item["height"]), (&json!(128), &json!(64)));
        assert_eq!(
            (&job["cost"], &job["usage"]["images"]),
            (&json!("0.08"), &json!(2))
        );
        let edit = json!({"model": IMAGE_MODEL, "prompt": "a dog", "image": [png(64, 64)], "size": "64x64"});
        scene.made(IMAGES, &edit).await;

        scene.upstream.set_media_polls(2);
        let video = scene
            .made(
                VIDEOS,
                &json!({"model": VIDEO_MODEL, "prompt": "waves", "duration": 2}),
            )
            .await;
        assert_eq!(video["cost"], "0.2", "{video}");
        assert_eq!(video["result"]["width"], 64);
        let spent = 3 * IMAGE_PRICE + 2 * SECOND_PRICE;
        assert_eq!(scene.settled().await.credits, GRANTED - spent);
        let made = scene.upstream.made();
        assert_eq!(made.len(), 3);
        assert_eq!((made[0].count, made[0].size), (2, (128, 64)));
        assert!(
            made.iter().all(|making| making.key.is_some()),
            "each submission has an idempotency key"
        );
        scene.finish().await;
    }
}

/// A provider that can extend videos is used for that, whether it returns the whole video or only
/// the new part. The result is the whole video, and the new part is charged. Without such a
/// provider, the last frame starts a new video.
#[tokio::test]
async fn a_provider_extends_a_video() {
    let upstream = FakeUpstream::start().await;
    upstream.set_media_polls(0);
    let mut config = format!(
        "[egress]\nallow = [\"{0}\"]\n[providers.queue]\npreset = \"fal\"\nbase_url = \"http://{0}\"\napi_key_env = \"PROVIDER_KEY\"\n",
        upstream.address()
    );
    for (name, others) in [
        ("whole", r#", "queue/fal-ai/ltx-2/extend-video""#),
        ("part", r#", "queue/fal-ai/pixverse/extend""#),
        ("frame", r#", "queue/fal-ai/ltx-2/image-to-video""#),
    ] {
        config += &format!(
            r#"
[models."acme/{name}"]
type = "video"
targets = ["queue/fal-ai/ltx-2/text-to-video"{others}]
prices = {{ video = "0.1" }}
media = {{ sizes = ["64x64"], durations = [2, 3] }}
"#
        );
    }
    let scene = Scene::start_with(&config).await;
    let mut spent = 0;
    for (name, endpoint, seconds) in [
        ("whole", "fal-ai/ltx-2/extend-video", 5),
        ("part", "fal-ai/pixverse/extend", 3),
        ("frame", "fal-ai/ltx-2/image-to-video", 3),
    ] {
        let ask = |more: Value| with(json!({"model": format!("acme/{name}"), "prompt": "waves"}), more);
        let first = scene.made(VIDEOS, &ask(json!({"duration": 2}))).await;
        let on = json!({"duration": 3, "extend_from": {"job_id": first["id"]}});
        let longer = scene.made(VIDEOS, &ask(on)).await;
        assert_eq!(
            (&longer["result"]["duration"], &longer["cost"]),
            (&json!(5.0), &json!("0.3")),
            "{name}: {longer}"
        );
        let made = upstream.made();
        let asked: Vec<_> = made
            .iter()
            .rev()
            .take(2)
            .map(|making| (&*making.model, making.seconds))
            .collect();
        assert_eq!(asked, [(endpoint, seconds), ("fal-ai/ltx-2/text-to-video", 2)]);
        spent += 5 * SECOND_PRICE;
    }
    assert_eq!(scene.settled().await.credits, GRANTED - spent);
    scene.finish().await;
}

/// The storage fails while the extended video is read, after the provider has generated the new
/// one. The gateway has paid for that, so it reads again and does not fail the job.
#[tokio::test]
async fn an_extension_outlasts_a_failure_of_the_storage() {
    let upstream = FakeUpstream::start().await;
    upstream.set_media_polls(0);
    let config = format!(
        r#"
[egress]
allow = ["{0}"]
[providers.queue]
preset = "fal"
base_url = "http://{0}"
api_key_env = "PROVIDER_KEY"
[models."acme/part"]
type = "video"
targets = ["queue/fal-ai/ltx-2/text-to-video", "queue/fal-ai/pixverse/extend"]
prices = {{ video = "0.1" }}
media = {{ sizes = ["64x64"], durations = [2, 3] }}
"#,
        upstream.address()
    );
    let scene = Scene::start_with(&config).await;
    let ask = |more: Value| with(json!({"model": "acme/part", "prompt": "waves"}), more);
    let first = scene.made(VIDEOS, &ask(json!({"duration": 2}))).await;

    upstream.set_media_polls(u32::MAX);
    let on = json!({"duration": 3, "extend_from": {"job_id": first["id"]}});
    let id = scene.accept(VIDEOS, &ask(on)).await;
    eventually("the provider has the second video", async || {
        upstream.media_submissions() == 2
    })
    .await;
    // Folders in place of the stored videos: they exist and cannot be read, not even by root.
    let videos: Vec<_> = files_in(&scene.gateway.data().join("media")).collect();
    assert!(!videos.is_empty());
    for video in &videos {
        std::fs::rename(video, video.with_extension("aside")).unwrap();
        std::fs::create_dir(video).unwrap();
    }
    upstream.set_media_polls(0);
    scene.gateway.wait_for_log("cannot store an output yet", 0).await;
    for video in &videos {
        std::fs::remove_dir(video).unwrap();
        std::fs::rename(video.with_extension("aside"), video).unwrap();
    }

    let longer = scene.ended(&id).await;
    assert_eq!(
        (&longer["status"], &longer["result"]["duration"], &longer["cost"]),
        (&json!("completed"), &json!(5.0), &json!("0.3")),
        "{longer}"
    );
    assert_eq!(upstream.media_submissions(), 2);
    assert_eq!(scene.settled().await.credits, GRANTED - 5 * SECOND_PRICE);
    scene.finish().await;
}

#[tokio::test]
async fn provider_failures_are_free_and_not_repeated() {
    let scene = Scene::studio(Storage::Sqlite, "").await;
    scene.upstream.set_media_polls(1);
    let image = json!({"model": IMAGE_MODEL, "prompt": "a cat"});
    let video = json!({"model": VIDEO_MODEL, "prompt": "waves", "duration": 2});
    let mut expected = 0;
    for (path, body, fault, code) in [
        (IMAGES, &image, MediaFault::ServerError, "upstream_error"),
        (IMAGES, &image, MediaFault::BrokenJson, "upstream_error"),
        (IMAGES, &image, MediaFault::Cut, "upstream_error"),
        (IMAGES, &image, MediaFault::Refused, "content_policy_violation"),
        (VIDEOS, &video, MediaFault::ServerError, "upstream_error"),
        (VIDEOS, &video, MediaFault::WrongSize, "upstream_error"),
        (VIDEOS, &video, MediaFault::Lost, "upstream_error"),
        (
            VIDEOS,
            &video,
            MediaFault::Fails("secret words".to_owned()),
            "upstream_error",
        ),
    ] {
        scene.upstream.push_for_media(fault.clone());
        let job = scene.ended(&scene.accept(path, body).await).await;
        assert_eq!(
            (&job["status"], &job["error"]["code"]),
            (&json!("failed"), &json!(code)),
            "{fault:?} {job}"
        );
        assert_eq!(
            (&job["cost"], &job["result"]),
            (&json!("0"), &Value::Null),
            "{fault:?}"
        );
        assert!(!job.to_string().contains("secret words"), "{job}");
        expected += 1;
        assert_eq!(scene.upstream.media_submissions(), expected, "{fault:?}");
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn a_submission_refused_by_a_busy_provider_is_tried_elsewhere() {
    let other = r#"
[models."acme/two"]
type = "image"
targets = ["northwind/first", "northwind/second"]
prices = { image = "0.04" }
"#;
    let scene = Scene::studio(Storage::Sqlite, other).await;
    scene.upstream.push_for_media(MediaFault::Busy);
    let job = scene
        .made(IMAGES, &json!({"model": "acme/two", "prompt": "a cat"}))
        .await;
    assert_eq!(job["cost"], "0.04");
    assert_eq!(scene.upstream.media_submissions(), 2);
    let made = scene.upstream.made();
    assert_eq!((made.len(), &*made[0].model), (1, "second"));
    scene.finish().await;
}

#[tokio::test]
async fn unsupported_parameters_are_refused_before_submission() {
    let scene = Scene::studio(Storage::Sqlite, "").await;
    for (path, body, code, param) in [
        (
            IMAGES,
            json!({"model": IMAGE_MODEL, "prompt": "p", "size": "32x32"}),
            "parameter_out_of_range",
            "size",
        ),
        (
            IMAGES,
            json!({"model": IMAGE_MODEL, "prompt": "p", "image": vec![png(16, 16); 4]}),
            "parameter_out_of_range",
            "image",
        ),
        (
            VIDEOS,
            json!({"model": VIDEO_MODEL, "prompt": "p", "duration": 3}),
            "parameter_out_of_range",
            "duration",
        ),
        (
            VIDEOS,
            json!({"model": VIDEO_MODEL, "prompt": "p", "negative_prompt": "n"}),
            "parameter_out_of_range",
            "negative_prompt",
        ),
    ] {
        assert_error(
            &body.to_string(),
            &scene.post(path, &body).await,
            code,
            Some(param),
        );
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
