use serde_json::{Value, json};
use tollgate_types::ErrorCode;

use super::*;

fn read(body: &Value) -> Result<Request, Error> {
    request(body.to_string().as_bytes())
}

fn with(name: &str, value: Value) -> Value {
    let mut body = json!({"mode": "render", "topic": "tea"});
    body[name] = value;
    body
}

fn board(scene: Value) -> Value {
    json!({"mode": "render", "storyboard": {"scenes": [scene]}})
}

fn param(body: &Value) -> String {
    read(body).unwrap_err().param.unwrap_or_default()
}

#[test]
fn invalid_input_is_reported_with_its_path() {
    let visited = json!({"prompt": "a cup"});
    for (body, expected) in [
        (json!({"topic": "tea"}), "mode"),
        (json!({"mode": "make", "topic": "tea"}), "mode"),
        (json!({"mode": "plan"}), "topic"),
        (
            json!({"mode": "plan", "topic": "tea", "script": "Tea."}),
            "script",
        ),
        (
            json!({"mode": "plan", "topic": "tea", "storyboard": {"scenes": [{"visual": visited}]}}),
            "storyboard",
        ),
        (with("scenes", json!(0)), "scenes"),
        (with("scenes", json!(21)), "scenes"),
        (with("topic", json!("x".repeat(2_001))), "topic"),
        (json!({"mode": "plan", "script": "x".repeat(12_001)}), "script"),
        (json!({"mode": "plan", "script": "Tea.", "scenes": 2}), "scenes"),
        (with("aspect_ratio", json!("2:1")), "aspect_ratio"),
        (with("resolution", json!("8k")), "resolution"),
        (with("images", json!(["ftp://example.com/a.png"])), "images[0]"),
        (
            with("images", json!(["https://example.com/a.png", "here"])),
            "images[1]",
        ),
        (with("voice", json!("loud")), "voice"),
        (with("voice", json!({"speed": 2.1})), "voice.speed"),
        (with("voice", json!({"speed": 0.4})), "voice.speed"),
        (with("voice", json!({"pitch": 1})), "voice.pitch"),
        (
            with("captions", json!({"words_per_line": 9})),
            "captions.words_per_line",
        ),
        (
            with("captions", json!({"words_per_line": 0})),
            "captions.words_per_line",
        ),
        (with("captions", json!({"style": "neon"})), "captions.style"),
        (with("captions", json!({"position": "left"})), "captions.position"),
        (with("music", json!({"mood": "sad"})), "music.mood"),
        (with("music", json!({"volume": 1.1})), "music.volume"),
        (with("music", json!({"duck_db": 31})), "music.duck_db"),
        (
            with(
                "music",
                json!({"mood": "calm", "url": "https://example.com/a.mp3"}),
            ),
            "music.mood",
        ),
        (with("colour", json!("red")), "colour"),
        (json!({"mode": "render", "storyboard": {}}), "storyboard.scenes"),
        (
            json!({"mode": "render", "storyboard": {"scenes": []}}),
            "storyboard.scenes",
        ),
        (
            json!({"mode": "render", "storyboard": {"scenes": vec![json!({"visual": visited}); 21]}}),
            "storyboard.scenes",
        ),
        (
            json!({"mode": "render", "storyboard": {"scenes": [{"id": "a", "visual": visited}, {"id": "a", "visual": visited}]}}),
            "storyboard.scenes[1].id",
        ),
        (board(json!({})), "storyboard.scenes[0].visual"),
        (board(json!({"visual": {}})), "storyboard.scenes[0].visual.prompt"),
        (
            board(json!({"visual": {"prompt": "a", "image": "https://example.com/a.png"}})),
            "storyboard.scenes[0].visual.prompt",
        ),
        (
            board(json!({"visual": {"image": "a.png"}})),
            "storyboard.scenes[0].visual.image",
        ),
        (
            board(json!({"visual": {"image": "https://example.com/a.png", "model": "m"}})),
            "storyboard.scenes[0].visual.model",
        ),
        (
            board(json!({"visual": {"prompt": "a", "motion": "up"}})),
            "storyboard.scenes[0].visual.motion",
        ),
        (
            board(json!({"visual": visited, "narration": "x".repeat(601)})),
            "storyboard.scenes[0].narration",
        ),
        (
            board(json!({"visual": visited, "duration": 0.9})),
            "storyboard.scenes[0].duration",
        ),
        (
            board(json!({"visual": visited, "duration": 30.1})),
            "storyboard.scenes[0].duration",
        ),
        (
            board(json!({"visual": visited, "transition": "spin"})),
            "storyboard.scenes[0].transition",
        ),
        (
            board(json!({"visual": visited, "sound": 1})),
            "storyboard.scenes[0].sound",
        ),
    ] {
        assert_eq!(param(&body), expected, "{body}");
    }
    let error = read(&board(json!({"visual": {"prompt": "a", "motion": "up"}}))).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidParameter);
    assert!(
        error
            .message
            .starts_with("'storyboard.scenes[0].visual.motion' must be one of: "),
        "{}",
        error.message
    );
}

#[test]
fn every_limit_can_be_reached() {
    let visited = json!({"prompt": "a cup"});
    for body in [
        with("scenes", json!(1)),
        with("scenes", json!(20)),
        with("topic", json!("é".repeat(2_000))),
        json!({"mode": "plan", "script": "x".repeat(12_000)}),
        with("voice", json!({"speed": 2})),
        with("voice", json!({"speed": 0.5})),
        with("captions", json!({"words_per_line": 8})),
        with("captions", json!({"words_per_line": 1})),
        with("music", json!({"volume": 0, "duck_db": 30})),
        with("music", json!({"volume": 1, "duck_db": 0})),
        board(json!({"visual": visited, "narration": "é".repeat(600), "duration": 30})),
        board(json!({"visual": visited, "duration": 1})),
    ] {
        read(&body).unwrap_or_else(|error| panic!("{body}: {}", error.message));
    }
}

#[test]
fn disabled_parts_are_none() {
    for nothing in [json!(false), json!("none")] {
        let request = read(&json!({
            "mode": "render", "topic": "tea", "voice": nothing, "captions": nothing, "music": nothing,
        }))
        .unwrap();
        assert_eq!(
            (request.voice, request.captions, request.music),
            (Choice::Disabled, Choice::Disabled, Choice::Disabled)
        );
    }
    let fallback = read(&json!({"mode": "plan", "topic": "tea", "music": null})).unwrap();
    assert_eq!(fallback.music, Choice::FromRecipe);
}

#[test]
fn inline_bytes_are_not_stored_as_text() {
    let mut board = json!({"mode": "render", "storyboard": {
        "scenes": [{"visual": {"image": "data:image/png;base64,AAAA"}}, {"visual": {"video": "https://example.com/a.mp4"}}],
        "music": {"url": "data:audio/wav;base64,AAAA"},
    }});
    board["seed"] = json!(7);
    let Content::Board(read) = read(&board).unwrap().content else {
        panic!("no storyboard")
    };
    let stripped = read.without_inline();
    assert_eq!(stripped.scenes[0].visual.image.as_deref(), Some(INLINE));
    assert_eq!(
        stripped.scenes[1].visual.video.as_deref(),
        Some("https://example.com/a.mp4")
    );
    assert_eq!(stripped.music.unwrap().url.as_deref(), Some(INLINE));
}
