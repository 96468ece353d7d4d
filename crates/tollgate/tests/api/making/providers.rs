//! A provider that makes pictures and films, and what goes wrong there: nobody pays for what is not there, and nothing is
//! asked for twice.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::upstream::{FakeUpstream, MediaFault};

use super::{BOTH, FILM, FILMS, PICTURE, PICTURE_PRICE, PICTURES, SECOND_PRICE, png};
use crate::scene::{GRANTED, Scene, assert_error, with};

#[tokio::test]
async fn pictures_and_films_come_from_a_provider() {
    for storage in BOTH {
        let scene = Scene::studio(storage, "").await;
        let body = json!({"model": PICTURE, "prompt": "a cat", "num_images": 2, "aspect_ratio": "2:1"});
        let job = scene.made(PICTURES, &body).await;
        let piece = &job["result"]["data"][1];
        assert_eq!((&piece["width"], &piece["height"]), (&json!(128), &json!(64)));
        assert_eq!(
            (&job["cost"], &job["usage"]["image_millionths"]),
            (&json!("0.08"), &json!(2_000_000))
        );
        let edit = json!({"model": PICTURE, "prompt": "a dog", "image": [png(64, 64)], "size": "64x64"});
        scene.made(PICTURES, &edit).await;

        scene.upstream.set_media_polls(2);
        let film = scene
            .made(FILMS, &json!({"model": FILM, "prompt": "waves", "duration": 2}))
            .await;
        assert_eq!(film["cost"], "0.2", "{film}");
        assert_eq!(film["result"]["width"], 64);
        let spent = 3 * PICTURE_PRICE + 2 * SECOND_PRICE;
        assert_eq!(scene.settled().await.credits, GRANTED - spent);
        let made = scene.upstream.made();
        assert_eq!(made.len(), 3);
        assert_eq!((made[0].count, made[0].size), (2, (128, 64)));
        assert!(
            made.iter().all(|making| making.key.is_some()),
            "each was asked for under a key"
        );
        scene.finish().await;
    }
}

/// Where a provider goes on with films itself, it is asked to; the result is both together whether it gives both or the new part
/// alone, and the new part is paid. Where it does not, a film is begun with the last frame.
#[tokio::test]
async fn a_provider_goes_on_with_a_film() {
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
        let first = scene.made(FILMS, &ask(json!({"duration": 2}))).await;
        let on = json!({"duration": 3, "extend_from": {"job_id": first["id"]}});
        let longer = scene.made(FILMS, &ask(on)).await;
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

#[tokio::test]
async fn what_fails_there_is_not_paid_and_not_asked_for_again() {
    let scene = Scene::studio(Storage::Sqlite, "").await;
    scene.upstream.set_media_polls(1);
    let picture = json!({"model": PICTURE, "prompt": "a cat"});
    let film = json!({"model": FILM, "prompt": "waves", "duration": 2});
    let mut expected = 0;
    for (path, body, fault, code) in [
        (PICTURES, &picture, MediaFault::ServerError, "upstream_error"),
        (PICTURES, &picture, MediaFault::BrokenJson, "upstream_error"),
        (PICTURES, &picture, MediaFault::Cut, "upstream_error"),
        (
            PICTURES,
            &picture,
            MediaFault::Refused,
            "content_policy_violation",
        ),
        (FILMS, &film, MediaFault::ServerError, "upstream_error"),
        (FILMS, &film, MediaFault::WrongSize, "upstream_error"),
        (FILMS, &film, MediaFault::Lost, "upstream_error"),
        (
            FILMS,
            &film,
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
async fn what_a_provider_did_not_take_is_tried_elsewhere() {
    let other = r#"
[models."acme/two"]
type = "image"
targets = ["northwind/first", "northwind/second"]
prices = { image = "0.04" }
"#;
    let scene = Scene::studio(Storage::Sqlite, other).await;
    scene.upstream.push_for_media(MediaFault::Busy);
    let job = scene
        .made(PICTURES, &json!({"model": "acme/two", "prompt": "a cat"}))
        .await;
    assert_eq!(job["cost"], "0.04");
    assert_eq!(scene.upstream.media_submissions(), 2);
    let made = scene.upstream.made();
    assert_eq!((made.len(), &*made[0].model), (1, "second"));
    scene.finish().await;
}

#[tokio::test]
async fn what_a_provider_cannot_do_is_refused_at_the_door() {
    let scene = Scene::studio(Storage::Sqlite, "").await;
    for (path, body, code, param) in [
        (
            PICTURES,
            json!({"model": PICTURE, "prompt": "p", "size": "32x32"}),
            "parameter_out_of_range",
            "size",
        ),
        (
            PICTURES,
            json!({"model": PICTURE, "prompt": "p", "image": vec![png(16, 16); 4]}),
            "parameter_out_of_range",
            "image",
        ),
        (
            FILMS,
            json!({"model": FILM, "prompt": "p", "duration": 3}),
            "parameter_out_of_range",
            "duration",
        ),
        (
            FILMS,
            json!({"model": FILM, "prompt": "p", "negative_prompt": "n"}),
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
