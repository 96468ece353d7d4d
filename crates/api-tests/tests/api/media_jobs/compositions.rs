//! `POST /v1/videos/compose`: plans, edits, renders, and renders that resume after a crash of the
//! process.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_testkit::gateway::eventually;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::upstream::{Answer, MediaFault, Reply, Usage};

use super::{BOTH, IDLE, IMAGE_MODEL, IMAGE_PRICE, IMAGES, VIDEOS, image, png, simulated, video};
use crate::scene::{GRANTED, MODEL, Scene, assert_error, with};

const COMPOSE: &str = "/v1/videos/compose";

/// Returns a render request for two short scenes.
fn board(members: Value) -> Value {
    let scenes = json!([
        {"id": "first", "narration": "One small step.", "visual": {"prompt": "a step"}},
        {"id": "last", "visual": {"prompt": "a leap", "motion": "out"}, "duration": 1, "transition": "fade"},
    ]);
    let board = json!({"scenes": scenes, "aspect_ratio": "1:1", "resolution": "480p", "voice": {"model": "built-in"}});
    json!({"mode": "render", "storyboard": with(board, members)})
}

#[tokio::test]
async fn a_topic_becomes_a_storyboard_and_a_video() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let topic = json!({
            "mode": "plan", "recipe": "story", "topic": "The sea is wide.", "scenes": 2,
            "script_model": "sim/chat", "visual_model": "sim/image", "voice": {"model": "sim/speech"},
            "aspect_ratio": "1:1", "resolution": "480p", "metadata": {"for": "us"},
        });
        let planned = scene.made(COMPOSE, &topic).await;
        let plan = &planned["result"];
        assert_eq!(
            (&plan["object"], &planned["metadata"]["for"]),
            (&json!("storyboard"), &json!("us"))
        );
        let scenes = plan["storyboard"]["scenes"].as_array().unwrap();
        assert_eq!(scenes.len(), 2);
        assert_eq!(scenes[0]["narration"], "The sea is wide.");
        let items = plan["price"]["items"].as_array().unwrap();
        assert_eq!(items.len(), 4, "a voice and an image for each scene: {plan}");

        // The planned storyboard can be sent back unchanged or edited.
        let mut storyboard = plan["storyboard"].clone();
        storyboard["scenes"][1]["narration"] = json!("And deep.");
        let rendered = scene
            .made(
                COMPOSE,
                &json!({"mode": "render", "recipe": "story", "storyboard": storyboard}),
            )
            .await;
        let result = &rendered["result"];
        assert_eq!((&result["width"], &result["height"]), (&json!(480), &json!(480)));
        let frames = result["measured"]["frames"].as_u64().unwrap() as f64;
        assert!(
            (frames / 30.0 - result["duration"].as_f64().unwrap()).abs() < 0.04,
            "{result}"
        );
        let loudness = result["measured"]["loudness_lufs"].as_f64().unwrap();
        assert!((-17.0..=-11.0).contains(&loudness), "{loudness}");
        let opened = scene.open_address(result["url"].as_str().unwrap()).await;
        assert_eq!(
            (opened.status, opened.header("content-type")),
            (200, Some("video/mp4"))
        );
        let vtt = scene
            .open_address(result["subtitles"]["vtt"].as_str().unwrap())
            .await;
        assert_eq!((vtt.status, vtt.header("content-type")), (200, Some("text/vtt")));
        assert!(
            vtt.text().starts_with("WEBVTT") && vtt.text().contains("And deep."),
            "{}",
            vtt.text()
        );
        let srt = scene
            .open_address(result["subtitles"]["srt"].as_str().unwrap())
            .await;
        assert!(
            srt.text().contains("The sea is wide.") && srt.text().contains(" --> "),
            "{}",
            srt.text()
        );
        scene.has_one_entry(&rendered, 4).await;

        // The composed video can be extended.
        let on =
            json!({"prompt": "and on", "resolution": null, "extend_from": {"job_id": rendered["job_id"]}});
        let longer = scene.made(VIDEOS, &video(on)).await;
        let whole = longer["result"]["duration"].as_f64().unwrap();
        assert!(
            (whole - result["duration"].as_f64().unwrap() - 1.0).abs() < 0.1,
            "{longer}"
        );
        scene.finish().await;
    }
}

impl Scene {
    /// Asserts that a composition has one usage row with this number of parts, which costs the
    /// quoted total.
    async fn has_one_entry(&self, job: &Value, parts: usize) {
        let row = self.row(job["request_id"].as_str().unwrap()).await;
        assert_eq!(
            (&row["endpoint"], &row["model"]),
            (&json!(COMPOSE), &json!("compose")),
            "{row}"
        );
        let listed = row["parts"].as_array().unwrap();
        assert_eq!(listed.len(), parts, "{row}");
        assert_eq!(
            (&row["cost"], &job["result"]["price"]["total"]),
            (&job["cost"], &job["cost"])
        );
    }
}

#[tokio::test]
async fn own_images_videos_and_music_are_used() {
    let scene = simulated("").await;
    let clip = scene.made(VIDEOS, &video(json!({}))).await;
    let still = scene.made(IMAGES, &image(json!({}))).await;
    let before = scene.settled().await.credits;
    let music = tone();
    let body = board(json!({
        "scenes": [
            {"narration": "Mine.", "visual": {"image": png(64, 64)}},
            {"visual": {"video": clip["result"]["url"]}, "transition": "wipe"},
            {"visual": {"image": still["result"]["data"][0]["url"], "motion": "still"}, "duration": 1},
        ],
        "music": {"url": music, "volume": 0.3, "duck_db": 6},
        "captions": "none",
    }));
    let made = scene.made(COMPOSE, &body).await;
    assert_eq!(made["cost"], "0", "no part was generated by a model");
    assert_eq!(scene.settled().await.credits, before);
    let shown = &made["result"]["storyboard"];
    assert_eq!(shown["captions"], "none");
    // Files of the request now have URLs that later requests can use.
    for address in [&shown["scenes"][0]["visual"]["image"], &shown["music"]["url"]] {
        let opened = scene.open_address(address.as_str().unwrap()).await;
        assert_eq!(opened.status, 200, "{address}");
    }
    let again = json!({"mode": "plan", "storyboard": shown});
    let planned = scene.made(COMPOSE, &again).await;
    assert_eq!(planned["result"]["price"], json!({"total": "0", "items": []}));
    scene.finish().await;
}

/// Returns two seconds of a tone as a WAV data URL.
fn tone() -> String {
    use base64::Engine;
    let (rate, samples) = (16_000_u32, 32_000_u32);
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + samples * 2).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    wav.extend([1_u16, 1].into_iter().flat_map(u16::to_le_bytes));
    wav.extend([rate, rate * 2].into_iter().flat_map(u32::to_le_bytes));
    wav.extend([2_u16, 16].into_iter().flat_map(u16::to_le_bytes));
    wav.extend(b"data");
    wav.extend((samples * 2).to_le_bytes());
    // A sawtooth wave of 250 Hz.
    wav.extend((0..samples).flat_map(|n| ((n % 64) as i16 * 256 - 8_192).to_le_bytes()));
    format!(
        "data:audio/wav;base64,{}",
        base64::engine::general_purpose::STANDARD.encode(wav)
    )
}

#[tokio::test]
async fn invalid_requests_are_refused_without_side_effects() {
    let scene = simulated(IDLE).await;
    let recipes = scene.get("/v1/videos/compose/recipes").await.json();
    assert!(recipes["data"].as_array().unwrap().len() >= 8);
    assert!(
        recipes["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|recipe| recipe["available"] == true)
    );
    let topic = |members: Value| with(json!({"mode": "render", "topic": "tea"}), members);
    let visual = |visual: Value| board(json!({"scenes": [{"visual": visual}]}));
    let long = "word ".repeat(100);
    for (body, code, param) in [
        (json!({"topic": "tea"}), "missing_required_parameter", "mode"),
        (json!({"mode": "render"}), "missing_required_parameter", "topic"),
        (topic(json!({"recipe": "soup"})), "invalid_parameter", "recipe"),
        (
            topic(json!({"recipe": "slideshow"})),
            "invalid_parameter",
            "images",
        ),
        (
            topic(json!({"scenes": 1, "images": [png(8, 8), png(8, 8)]})),
            "invalid_parameter",
            "images",
        ),
        (
            topic(json!({"script_model": "nobody"})),
            "model_not_found",
            "script_model",
        ),
        (
            topic(json!({"script_model": "sim/image"})),
            "unsupported_endpoint",
            "script_model",
        ),
        (
            topic(json!({"visual_model": "sim/chat"})),
            "invalid_parameter",
            "visual_model",
        ),
        (
            topic(json!({"voice": {"model": "sim/chat"}})),
            "unsupported_endpoint",
            "voice.model",
        ),
        (
            board(json!({"voice": {"model": "built-in", "voice": "xx-none"}})),
            "invalid_parameter",
            "voice.voice",
        ),
        (
            topic(json!({"mode": "plan", "voice": {"model": "built-in", "voice": "xx-none"}})),
            "invalid_parameter",
            "voice.voice",
        ),
        (
            topic(json!({"images": ["http://127.0.0.1/a.png"]})),
            "invalid_parameter",
            "images[0]",
        ),
        // A plan refuses the same inputs as its render.
        (
            topic(json!({"mode": "plan", "images": ["http://127.0.0.1/a.png"]})),
            "invalid_parameter",
            "images[0]",
        ),
        (
            topic(json!({"mode": "plan", "music": {"url": "http://127.0.0.1/a.mp3"}})),
            "invalid_parameter",
            "music.url",
        ),
        (
            topic(json!({"music": {"url": "http://127.0.0.1/a.mp3"}})),
            "invalid_parameter",
            "music.url",
        ),
        (
            json!({"mode": "render", "script": "Tea.", "images": ["http://127.0.0.1/a.png"]}),
            "invalid_parameter",
            "images[0]",
        ),
        (
            topic(json!({"webhook_url": "http://127.0.0.1/"})),
            "invalid_parameter",
            "webhook_url",
        ),
        (
            json!({"mode": "render", "script": "\n\n"}),
            "invalid_parameter",
            "script",
        ),
        (
            json!({"mode": "render", "script": vec!["A scene."; 21].join("\n\n")}),
            "invalid_parameter",
            "script",
        ),
        (
            board(
                json!({"scenes": vec![json!({"visual": {"prompt": "p"}, "narration": long, "duration": 30}); 20]}),
            ),
            "invalid_parameter",
            "storyboard",
        ),
        (
            visual(json!({"prompt": "p", "model": "sim/speech"})),
            "invalid_parameter",
            "storyboard.scenes[0].visual.model",
        ),
        (
            visual(json!({"image": "http://127.0.0.1/a.png"})),
            "invalid_parameter",
            "storyboard.scenes[0].visual.image",
        ),
        (
            visual(json!({"image": tone()})),
            "invalid_parameter",
            "storyboard.scenes[0].visual.image",
        ),
        (
            visual(json!({"video": png(8, 8)})),
            "invalid_parameter",
            "storyboard.scenes[0].visual.video",
        ),
        (
            board(json!({"music": {"url": "http://169.254.169.254/a.mp3"}})),
            "invalid_parameter",
            "music.url",
        ),
        (
            board(json!({"music": {"url": png(8, 8)}})),
            "invalid_parameter",
            "music.url",
        ),
    ] {
        let refused = scene.post(COMPOSE, &body).await;
        let shown: String = body.to_string().chars().take(300).collect();
        assert_error(&shown, &refused, code, Some(param));
    }
    scene.nothing_happened().await;
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await;
    scene.gateway.grant(&poor, "0.01").await;
    let refused = scene
        .client()
        .post_json(COMPOSE, &key.secret, &board(json!({})))
        .await;
    assert_error("two images", &refused, "insufficient_credits", None);
    let refused = scene
        .client()
        .send(
            &Request::json(COMPOSE, &board(json!({})))
                .key(&scene.key.secret)
                .header("x-max-cost", "0.019"),
        )
        .await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn failed_scenes_are_free_and_withheld_scenes_are_paid() {
    let scene = Scene::studio(tollgate_testkit::gateway::Storage::Sqlite, "").await;
    let shown = |first: &str| {
        board(json!({"scenes": [
            {"visual": {"prompt": first, "model": IMAGE_MODEL}, "duration": 1},
            {"visual": {"prompt": "a leap", "model": IMAGE_MODEL}, "duration": 1},
        ]}))
    };
    scene.upstream.push_for_media(MediaFault::ServerError);
    let failed = scene.accept(COMPOSE, &shown("a step")).await;
    let failed = scene.ended(&failed).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"], &failed["cost"]),
        (&json!("failed"), &json!("upstream_error"), &json!("0"))
    );
    assert_eq!(scene.settled().await.credits, GRANTED);
    let mut refused = shown("a step [[sim refuse]]");
    for scene in refused["storyboard"]["scenes"].as_array_mut().unwrap() {
        scene["visual"]["model"] = json!("sim/image");
    }
    let withheld = scene.accept(COMPOSE, &refused).await;
    let withheld = scene.ended(&withheld).await;
    assert_eq!(
        (&withheld["status"], &withheld["error"]["code"], &withheld["cost"]),
        (&json!("failed"), &json!("output_blocked"), &json!("0.02"))
    );
    assert_eq!(scene.settled().await.credits, GRANTED - 20_000_000);
    scene.finish().await;
}

/// A script that a content filter withholds, or that the model refuses to write, is paid and not
/// requested again.
#[tokio::test]
async fn a_script_that_is_withheld_is_paid() {
    let rules = "[policy.rules.out]\napply = \"output\"\nwords = [\"forbiddenout\"]\n\
                 [policy.rules.in]\napply = \"input\"\nwords = [\"forbiddenin\"]\n";
    let scene = Scene::studio(tollgate_testkit::gateway::Storage::Sqlite, rules).await;
    let script = |words: &str| {
        let narration = format!("A boat goes out. {words}");
        json!({"title": "The boat", "scenes": [{"narration": narration, "visual": "a boat at dawn"}]})
            .to_string()
    };
    let usage = Usage::Fixed {
        prompt: 40,
        completion: 30,
    };
    let answers = [
        Answer::text(&script("forbiddenout")),
        // The input rules of the policy apply to the script of a model, too.
        Answer::text(&script("forbiddenin")),
        Answer::text("").finish_reason("content_filter"),
    ];
    let (mut paid, cost) = (0, 40 * 1_000 + 30 * 2_000);
    for mode in ["plan", "render"] {
        for answer in &answers {
            let before = scene.upstream.requests().len();
            scene
                .upstream
                .push(Reply::answer(answer.clone().usage(usage.clone())));
            let topic = json!({"mode": mode, "topic": "A boat.", "scenes": 1, "script_model": MODEL, "visual_model": IMAGE_MODEL});
            let job = scene.ended(&scene.accept(COMPOSE, &topic).await).await;
            assert_eq!(
                (&job["status"], &job["error"]["code"], &job["cost"]),
                (&json!("failed"), &json!("output_blocked"), &json!("0.0001")),
                "{job}"
            );
            let message = job["error"]["message"].as_str().unwrap();
            assert!(!message.contains("Send the request again"), "{message}");
            assert_eq!(
                scene.upstream.requests().len(),
                before + 1,
                "the script is requested once"
            );
            let row = scene.row(job["request_id"].as_str().unwrap()).await;
            assert_eq!(
                (
                    &row["outcome"],
                    &row["parts"][0]["name"],
                    &row["parts"][0]["cost"]
                ),
                (&json!("blocked_output"), &json!("script"), &json!("0.0001")),
                "{row}"
            );
            paid += cost;
        }
    }
    assert_eq!(scene.settled().await.credits, GRANTED - paid);
    assert!(scene.finish().await.clean);
}

/// The process dies during image generation, segment encoding and assembly. The render resumes from
/// stored results: no image is requested twice, and every image is charged once.
#[tokio::test]
async fn a_render_resumes_from_stored_results() {
    let mut scene = Scene::studio(tollgate_testkit::gateway::Storage::Sqlite, "").await;
    let body = board(json!({"scenes": [
        {"narration": "One.", "visual": {"prompt": "step 1", "model": IMAGE_MODEL}},
        {"narration": "Two.", "visual": {"prompt": "step 2", "model": IMAGE_MODEL}, "transition": "dissolve"},
        {"narration": "Three.", "visual": {"prompt": "step 3", "model": IMAGE_MODEL}, "transition": "cut"},
    ]}));
    let id = scene.accept(COMPOSE, &body).await;
    for bound in [31, 60, 76] {
        eventually("this phase is reached", async || {
            let job = scene.job(&id).await;
            job["status"] == "completed" || job["progress"].as_u64().is_some_and(|percent| percent >= bound)
        })
        .await;
        scene.gateway.kill().await;
        scene.gateway.restart().await;
    }
    let job = scene.ended(&id).await;
    assert_eq!(
        (&job["status"], &job["cost"]),
        (&json!("completed"), &json!("0.12")),
        "{job}"
    );
    let mut submitted: BTreeMap<String, usize> = BTreeMap::new();
    for making in scene.upstream.made() {
        *submitted.entry(making.prompt).or_default() += 1;
    }
    assert_eq!(submitted.into_values().collect::<Vec<_>>(), [1, 1, 1]);
    scene.has_one_entry(&job, 3).await;
    assert_eq!(scene.settled().await.credits, GRANTED - 3 * IMAGE_PRICE);
    let check = scene.finish().await;
    assert!(check.clean);
    assert_eq!((check.usage_rows, check.open_holds), (1, 0));
}

#[tokio::test]
async fn a_cancelled_composition_ends_and_costs_nothing() {
    let scene = simulated(IDLE).await;
    let id = scene.accept(COMPOSE, &board(json!({}))).await;
    assert_eq!(scene.balance().await.held, 20_000_000, "two images");
    scene.cancel_all().await;
    assert_eq!(scene.job(&id).await["status"], "cancelled");
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn a_script_that_cannot_be_read_costs_nothing() {
    let scene = Scene::studio(tollgate_testkit::gateway::Storage::Sqlite, "").await;
    let topic = json!({"mode": "plan", "topic": "A boat.", "scenes": 1, "script_model": MODEL, "visual_model": IMAGE_MODEL});
    let script = json!({"title": "The boat", "scenes": [{"narration": "A boat goes out.", "visual": "a boat at dawn"}]});
    scene.upstream.push(Reply::text(&script.to_string()));
    let planned = scene.made(COMPOSE, &topic).await;
    let board = &planned["result"]["storyboard"];
    assert_eq!(
        (&board["title"], &board["scenes"][0]["narration"]),
        (&json!("The boat"), &json!("A boat goes out."))
    );
    let seen = board["scenes"][0]["visual"]["prompt"].as_str().unwrap();
    assert!(seen.starts_with("a boat at dawn. Style: "), "{seen}");
    let row = scene.row(planned["request_id"].as_str().unwrap()).await;
    assert_eq!(
        (&row["parts"][0]["name"], &row["parts"][0]["model"]),
        (&json!("script"), &json!(MODEL))
    );
    assert_eq!(
        (&row["parts"][0]["cost"], &row["cost"]),
        (&planned["cost"], &planned["cost"])
    );
    let before = scene.settled().await.credits;
    assert!(before < GRANTED);

    // Two replies, because the gateway retries once when an answer has the wrong shape.
    scene.upstream.push(Reply::text("Once upon a time."));
    scene.upstream.push(Reply::text("There was a boat."));
    let failed = scene.ended(&scene.accept(COMPOSE, &topic).await).await;
    assert_eq!(
        (&failed["status"], &failed["cost"]),
        (&json!("failed"), &json!("0")),
        "{failed}"
    );
    assert_eq!(scene.settled().await.credits, before);
    scene.finish().await;
}

#[tokio::test]
async fn inputs_that_violate_the_content_policy_are_refused() {
    let scene = simulated("[policy.rules.words]\napply = \"input\"\nwords = [\"dragon\"]\n").await;
    let script = |text: &str| json!({"mode": "plan", "script": text});
    for body in [
        script("A dragon flies."),
        json!({"mode": "plan", "topic": "a dragon"}),
        board(json!({"scenes": [{"visual": {"prompt": "a dragon"}}]})),
        board(json!({"scenes": [{"narration": "a dragon", "visual": {"prompt": "a hill"}}]})),
    ] {
        let refused = scene.post(COMPOSE, &body).await;
        assert_error(&body.to_string(), &refused, "content_policy_violation", None);
    }
    scene.nothing_happened().await;
    scene.made(COMPOSE, &script("A bird flies.")).await;
    scene.finish().await;
}
