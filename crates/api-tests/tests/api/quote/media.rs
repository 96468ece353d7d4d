//! Quotes of images, videos, compositions and speech.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use super::{QUOTE, ask, held, quoted};
use crate::audio::{SPEECH, TOKEN_VOICE, VOICE, scene_on as audio_scene, speech};
use crate::media_jobs::{BOTH, IDLE, IMAGE_MODEL, IMAGES, VIDEO_MODEL, VIDEOS, image, png, simulated, video};
use crate::money::holds::account_with;
use crate::scene::{PROVIDER, Scene, assert_error, credits, with};

const VIDEO_OBJECTS: &str = "/v1/videos";
const COMPOSE: &str = "/v1/videos/compose";
/// An image model that is priced by tokens.
const TOKEN_IMAGES: &str = "acme/token-image";
/// A URL in a private network, which the gateway refuses to fetch.
const PRIVATE: &str = "http://127.0.0.1/a.png";

/// Starts a scene that accepts jobs and runs none, so that their holds stay open.
async fn scene(storage: Storage) -> Scene {
    let tokens = format!(
        "[models.\"{TOKEN_IMAGES}\"]\ntype = \"image\"\ntargets = [\"{PROVIDER}/image-v2\"]\n\
         prices = {{ input = \"5\", output = \"40\" }}\nmedia = {{ max_images = 4, max_input_images = 4 }}\n"
    );
    Scene::studio(storage, &(IDLE.to_owned() + &tokens)).await
}

/// Returns a composition of two scenes.
fn board(mode: &str) -> Value {
    let scenes = json!([
        {"id": "first", "narration": "One small step.", "visual": {"prompt": "a step"}},
        {"id": "last", "visual": {"prompt": "a leap", "model": "sim/video"}, "duration": 1},
    ]);
    let board = json!({"scenes": scenes, "aspect_ratio": "1:1", "resolution": "480p", "voice": {"model": "sim/speech"}});
    json!({"mode": mode, "visual_model": "sim/image", "storyboard": board})
}

fn topic(mode: &str) -> Value {
    json!({"mode": mode, "recipe": "story", "topic": "The sea is wide.", "scenes": 2, "script_model": "sim/chat",
        "visual_model": "sim/image", "voice": {"model": "sim/speech"}})
}

/// Returns requests that create jobs, with the quantities and units of their quotes. The quantities
/// of `None` depend on the size of a prompt.
fn requests() -> Vec<(&'static str, Value, Option<Value>)> {
    let edit =
        json!({"model": IMAGE_MODEL, "prompt": "a hat", "image": [png(16, 16), png(8, 8)], "size": "64x64"});
    vec![
        (IMAGES, image(json!({})), Some(json!([["image", 0.5]]))),
        (
            IMAGES,
            image(json!({"num_images": 3, "resolution": "1k"})),
            Some(json!([["image", 3]])),
        ),
        (
            IMAGES,
            json!({"prompt": "a lake", "template": "poster", "n": 2}),
            None,
        ),
        (
            IMAGES,
            json!({"model": IMAGE_MODEL, "prompt": "a lake", "size": "64x64", "num_images": 4}),
            Some(json!([["image", 4]])),
        ),
        (IMAGES, edit, Some(json!([["image", 1]]))),
        (
            IMAGES,
            json!({"model": TOKEN_IMAGES, "prompt": "a lake", "n": 2, "image": png(8, 8)}),
            None,
        ),
        (VIDEOS, video(json!({})), None),
        (
            VIDEOS,
            json!({"model": VIDEO_MODEL, "prompt": "waves", "duration": 4, "size": "64x64"}),
            Some(json!([["video", 4]])),
        ),
        (
            VIDEOS,
            json!({"template": "fashion-walk", "model": "sim/video"}),
            None,
        ),
        (
            VIDEO_OBJECTS,
            json!({"model": VIDEO_MODEL, "prompt": "waves", "seconds": "2", "size": "64x64", "input_reference": png(8, 8)}),
            Some(json!([["video", 2]])),
        ),
        (COMPOSE, board("render"), None),
        (COMPOSE, topic("render"), None),
        (COMPOSE, topic("plan"), None),
    ]
}

#[tokio::test]
async fn a_media_quote_equals_the_hold() {
    for storage in BOTH {
        let scene = scene(storage).await;
        let key = &scene.key.secret;
        for (path, body, quantities) in requests() {
            let what = format!("{path} {body}");
            let before = scene.balance().await;
            let quote = quoted(&scene, path, &body).await;
            let limit = nanos(&quote["most"]);
            assert!(limit > 0, "{what}: {quote}");
            let items = quote["items"].as_array().unwrap();
            let sum: i64 = items.iter().map(|item| nanos(&item["cost"])).sum();
            assert_eq!(sum, limit, "{what}: {quote}");
            if let Some(expected) = quantities {
                let shown = items.iter().map(|item| json!([item["class"], item["quantity"]]));
                assert_eq!(Value::from_iter(shown), expected, "{what}");
            }
            assert_eq!(
                (&quote["object"], &quote["endpoint"], &quote["sufficient"]),
                (&json!("quote"), &json!(path), &json!(true)),
                "{quote}"
            );
            // Fewer tokens lower the cap of a model that is priced by tokens; other requests fail.
            if body["model"] != TOKEN_IMAGES {
                let less = ask(&scene, key, path, &body, Some(limit - 1)).await;
                assert_error(&what, &less, "parameter_out_of_range", Some("x-max-cost"));
                assert!(less.text().contains(quote["most"].as_str().unwrap()), "{what}");
            }
            let lowest = ask(&scene, key, path, &body, Some(1)).await;
            assert_error(&what, &lowest, "parameter_out_of_range", Some("x-max-cost"));
            let enough = ask(&scene, key, path, &body, Some(limit)).await;
            assert_eq!(enough.json()["most"], quote["most"], "{what}: {}", enough.text());
            assert_eq!(scene.balance().await, before, "{what}: a quote holds nothing");

            let made = scene.post(path, &body).await;
            assert_eq!(made.status, 200, "{what}: {}", made.text());
            assert_eq!(scene.balance().await.held - before.held, limit, "{what}");
        }
        scene.cancel_all().await;
        scene.settled().await;
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_quote_of_a_token_priced_image_lowers_its_cap() {
    let scene = scene(Storage::Sqlite).await;
    let body = json!({"model": TOKEN_IMAGES, "prompt": "a lake", "n": 2});
    let quote = quoted(&scene, IMAGES, &body).await;
    let classes: Vec<&Value> = quote["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["class"])
        .collect();
    assert_eq!(classes, ["input", "output"], "{quote}");
    assert_eq!(
        (&quote["answers"], &quote["input_tokens"], &quote["counting"]),
        (&json!(2), &quote["items"][0]["tokens"], &json!("upper_bound"))
    );
    assert_eq!(
        quote["output_cap"].as_u64().unwrap() * 2,
        quote["items"][1]["tokens"].as_u64().unwrap()
    );
    let allowed = nanos(&quote["most"]) / 2;
    let lower = ask(&scene, &scene.key.secret, IMAGES, &body, Some(allowed))
        .await
        .json();
    assert!(nanos(&lower["most"]) <= allowed, "{lower}");
    assert!(
        lower["output_cap"].as_u64() < quote["output_cap"].as_u64(),
        "{lower}"
    );
    let request = crate::max_cost::allowing(IMAGES, &scene.key.secret, &body, allowed);
    assert_eq!(scene.client().send(&request).await.status, 200);
    assert_eq!(scene.balance().await.held, nanos(&lower["most"]));
    scene.cancel_all().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_composition_is_quoted_by_step() {
    let scene = scene(Storage::Sqlite).await;
    let quote = quoted(&scene, COMPOSE, &board("render")).await;
    let steps: Vec<Value> = quote["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!([item["step"], item["model"], item["class"]]))
        .collect();
    assert_eq!(
        steps,
        [
            json!(["first voice", "sim/speech", "character"]),
            json!(["first visual", "sim/image", "image"]),
            json!(["last visual", "sim/video", "video"]),
        ],
        "{quote}"
    );
    assert_eq!(
        (&quote["model"], &quote["answers"]),
        (&json!("compose"), &json!(1))
    );
    let plan = quoted(&scene, COMPOSE, &topic("plan")).await;
    let items = plan["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["step"] == "script"), "{plan}");
    assert_eq!(plan["output_cap"], items[1]["tokens"], "{plan}");
    let free = quoted(&scene, COMPOSE, &board("plan")).await;
    assert_eq!((&free["most"], &free["items"]), (&json!("0"), &json!([])));
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_quote_of_speech_equals_the_hold() {
    for storage in BOTH {
        let scene = audio_scene(storage, "").await;
        for (model, text) in [(VOICE, "Grüße, 🌍!"), (TOKEN_VOICE, "Good morning.")] {
            let body = speech(model, text, json!({}));
            let quote = quoted(&scene, SPEECH, &body).await;
            let limit = nanos(&quote["most"]);
            assert!(limit > 0, "{quote}");
            assert_eq!(
                held(&scene, &scene.key.secret, SPEECH, &body, None).await,
                limit,
                "{model}"
            );
            let refused = ask(&scene, &scene.key.secret, SPEECH, &body, Some(1)).await;
            assert_error(model, &refused, "parameter_out_of_range", Some("x-max-cost"));
        }
        let body = speech("sim/speech", "Hello", json!({"response_format": "wav"}));
        let quote = quoted(&scene, SPEECH, &body).await;
        let expected =
            json!([{"class": "character", "tokens": 0, "quantity": 5, "price": "15", "cost": "0.000075"}]);
        assert_eq!(quote["items"], expected);
        assert_eq!(
            (&quote["input_tokens"], &quote["output_cap"], &quote["answers"]),
            (&json!(0), &json!(0), &json!(1))
        );
        let spoken = scene.post(SPEECH, &body).await;
        assert_eq!(spoken.header("x-tollgate-cost"), quote["most"].as_str());
        scene.settled().await;
        scene.finish().await;
    }
}

/// The price of an extended video is that of the size of its source, which is fetched.
#[tokio::test]
async fn an_extended_video_is_quoted_in_its_size() {
    let scene = simulated("").await;
    let first = scene.made(VIDEOS, &video(json!({}))).await;
    let on = video(json!({"resolution": null, "extend_from": {"job_id": first["id"]}}));
    let quote = quoted(&scene, VIDEOS, &on).await;
    let longer = scene.made(VIDEOS, &on).await;
    assert_eq!(quote["most"], longer["cost"], "{quote}");
    let (_, poor) = account_with(&scene, 1).await;
    let public = json!({"resolution": null, "extend_from": {"video_url": first["result"]["url"]}});
    let refused = ask(&scene, &poor, VIDEOS, &video(public), None).await;
    assert_error(
        "without funds, nothing is fetched",
        &refused,
        "insufficient_credits",
        None,
    );
    let larger = with(on, json!({"resolution": "720p"}));
    let refused = ask(&scene, &scene.key.secret, VIDEOS, &larger, None).await;
    assert_error(
        "size",
        &refused,
        "parameter_out_of_range",
        Some("request.resolution"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_media_quote_writes_nothing() {
    for storage in BOTH {
        let scene = scene(storage).await;
        let before = scene.gateway.ledger_check().await;
        for (path, body, _) in requests() {
            let quote = quoted(&scene, path, &body).await;
            let limit = nanos(&quote["most"]);
            let (account, key) = account_with(&scene, limit - 1).await;
            let poor = ask(&scene, &key, path, &body, None).await.json();
            assert_eq!(poor["sufficient"], false, "{path} {body}: {poor}");
            assert_eq!((&poor["most"], &poor["items"]), (&quote["most"], &quote["items"]));
            let refused = scene.client().post_json(path, &key, &body).await;
            assert_error(path, &refused, "insufficient_credits", None);
            scene.gateway.grant(&account, &credits(1)).await;
            assert_eq!(
                ask(&scene, &key, path, &body, None).await.json()["sufficient"],
                true
            );
            assert_eq!(scene.gateway.balance(&account).await.credits, limit);
        }
        let after = scene.gateway.ledger_check().await;
        assert_eq!(after.usage_rows, before.usage_rows);
        assert_eq!(after.open_holds, 0);
        let jobs = scene.with_path("/v1/jobs").await;
        assert_eq!(jobs["data"], json!([]));
        let file_count = std::fs::read_dir(scene.gateway.data().join("media")).map_or(0, Iterator::count);
        assert_eq!(file_count, 0, "no input was stored");
        scene.nothing_happened().await;
        scene.finish().await;
    }
}

impl Scene {
    async fn with_path(&self, path: &str) -> Value {
        self.client().get(path, &self.key.secret).await.json()
    }
}

/// A plan pays for a composition only if it covers all of its models.
#[tokio::test]
async fn a_media_quote_names_the_payer() {
    let plan =
        "[plans.week]\nprice = \"0\"\nallowance = \"0.004\"\nmodels = [\"sim/image\", \"sim/speech\"]\n";
    let scene = Scene::studio(Storage::Sqlite, &(IDLE.to_owned() + plan)).await;
    let create = [
        "subscriptions",
        "create",
        "--account",
        &scene.account,
        "--plan",
        "week",
    ];
    scene.gateway.command_line().run(&create).await;
    for (path, body, included, paid) in [
        (IMAGES, image(json!({})), "0.004", "0.001"),
        (SPEECH, speech("sim/speech", "Hello", json!({})), "0.000075", "0"),
        (VIDEOS, video(json!({})), "0", "0.0125"),
    ] {
        let quote = quoted(&scene, path, &body).await;
        assert_eq!(
            (&quote["included"], &quote["credits"]),
            (&json!(included), &json!(paid)),
            "{quote}"
        );
    }
    let quote = quoted(&scene, COMPOSE, &board("render")).await;
    assert_eq!(
        (&quote["included"], &quote["credits"]),
        (&json!("0"), &quote["most"])
    );
    let mut covered = board("render");
    covered["storyboard"]["scenes"][1]["visual"]["model"] = json!("sim/image");
    let quote = quoted(&scene, COMPOSE, &covered).await;
    assert_eq!(quote["included"], "0.004", "{quote}");
    scene.nothing_happened().await;
    scene.finish().await;
}

/// The number of input images determines the price, so they are not fetched.
#[tokio::test]
async fn input_images_are_not_fetched() {
    let scene = scene(Storage::Sqlite).await;
    for (path, body) in [
        (IMAGES, image(json!({"image": [PRIVATE]}))),
        (VIDEOS, video(json!({"image": PRIVATE}))),
        (
            COMPOSE,
            json!({"mode": "render", "storyboard": {"scenes": [{"visual": {"image": PRIVATE}}]}}),
        ),
    ] {
        quoted(&scene, path, &body).await;
        let refused = scene.post(path, &body).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_media_quote_fails_like_its_request() {
    let scene = scene(Storage::Sqlite).await;
    for (path, body, param) in [
        (IMAGES, image(json!({"num_images": 5})), "num_images"),
        (IMAGES, image(json!({"n": 9})), "n"),
        (IMAGES, image(json!({"prompt": ""})), "prompt"),
        (IMAGES, image(json!({"colour": 1})), "colour"),
        (IMAGES, image(json!({"model": "no/such"})), "model"),
        (IMAGES, image(json!({"model": "sim/chat"})), "model"),
        (IMAGES, image(json!({"template": "none"})), "template"),
        (IMAGES, image(json!({"aspect_ratio": "99:1"})), "aspect_ratio"),
        (
            IMAGES,
            image(json!({"webhook_url": "http://127.0.0.1/"})),
            "webhook_url",
        ),
        (VIDEOS, video(json!({"duration": 7})), "duration"),
        (VIDEOS, video(json!({"mode": "i2v"})), "mode"),
        (
            VIDEOS,
            video(json!({"extend_from": {"job_id": "nothing"}})),
            "extend_from.job_id",
        ),
        (
            VIDEO_OBJECTS,
            json!({"model": "sim/video", "prompt": "p", "seconds": "7"}),
            "seconds",
        ),
        (
            VIDEO_OBJECTS,
            json!({"model": "sim/video", "prompt": "p", "input_reference": {}}),
            "input_reference",
        ),
        (COMPOSE, json!({"topic": "tea"}), "mode"),
        (
            COMPOSE,
            with(topic("plan"), json!({"script_model": "sim/image"})),
            "script_model",
        ),
        (
            COMPOSE,
            with(topic("render"), json!({"recipe": "soup"})),
            "recipe",
        ),
        (SPEECH, speech("sim/speech", "Hi", json!({"speed": 9})), "speed"),
        (SPEECH, json!({"model": "sim/speech", "voice": "alloy"}), "input"),
        (SPEECH, speech("sim/image", "Hi", json!({})), "model"),
    ] {
        let what = format!("{path} {body}");
        let response = scene.post(path, &body).await;
        let error = response.error();
        assert_eq!(error.param.as_deref(), Some(param), "{what}: {error:?}");
        let quote = ask(&scene, &scene.key.secret, path, &body, None).await;
        let param = format!("request.{param}");
        assert_error(&what, &quote, &error.code, Some(&param));
    }
    for path in [
        "/v1/images/edits",
        "/v1/images/variations",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
    ] {
        let response = ask(&scene, &scene.key.secret, path, &json!({}), None).await;
        let error = assert_error(path, &response, "invalid_parameter", Some("endpoint"));
        assert!(error.message.contains("JSON bodies"), "{}", error.message);
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

/// A key that is limited to models quotes only these, and needs no scope for a quote.
#[tokio::test]
async fn limited_keys_quote_their_models() {
    let scene = scene(Storage::Sqlite).await;
    let key = scene.gateway.key(&scene.account).await;
    let rights = [
        "keys",
        "set-rights",
        &key.id,
        "--model",
        IMAGE_MODEL,
        "--scope",
        "text",
    ];
    scene.gateway.command_line().run(&rights).await;
    let body = json!({"model": IMAGE_MODEL, "prompt": "a lake"});
    let quote = json!({"endpoint": IMAGES, "request": body});
    let allowed = scene.client().post_json(QUOTE, &key.secret, &quote).await;
    assert_eq!(allowed.status, 200, "{}", allowed.text());
    let refused = ask(&scene, &key.secret, IMAGES, &image(json!({})), None).await;
    assert_error(
        "another model",
        &refused,
        "model_not_found",
        Some("request.model"),
    );
    scene.nothing_happened().await;
    scene.finish().await;
}
