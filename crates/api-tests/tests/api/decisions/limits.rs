//! Requests on both sides of every limit: requests beyond it are refused with code and parameter,
//! and requests within it are answered.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tollgate_testkit::gateway::nanos;

use super::DECISIONS;
use crate::scene::{GRANTED, Scene, assert_error};

/// Rate limits that these tests do not reach.
const ROOMY: &str = "[limits]\nrpm = 100000\ntpm = 1000000000\n";
/// A PNG image of one pixel, in base64.
const PIXEL_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
const OF_QUESTION: &str = "questions.q";

fn ask(state: Value, questions: Value) -> Value {
    json!({"model": "sim/decide", "state": state, "questions": questions})
}

/// Builds a request with one question about a text.
fn one(question: Value) -> Value {
    ask(json!("It is."), json!({"q": question}))
}

fn noul() -> Value {
    json!({"type": "noul", "instructions": "Is it?"})
}

fn named(number: usize, item: impl Fn() -> Value) -> Value {
    let members: Map<String, Value> = (0..number).map(|place| (format!("k{place}"), item())).collect();
    Value::Object(members)
}

fn options(number: usize) -> Value {
    one(json!({"type": "choice", "instructions": "Which?", "criteria": named(number, || Value::Null)}))
}

fn levels(number: usize) -> Value {
    let levels: Vec<String> = (0..number).map(|place| format!("l{place}")).collect();
    one(json!({"type": "score", "instructions": "How far?", "criteria": levels}))
}

fn tool(function: Value) -> Value {
    one(
        json!({"type": "tool", "instructions": "What now?", "tools": [{"type": "function", "function": function}]}),
    )
}

/// Builds a request with `number` media in its state, for the model that accepts audio.
fn media(number: usize, url: &str) -> Value {
    json!({"model": "sim/decide-audio", "state": vec![url; number], "questions": {"q": noul()}})
}

/// Returns a tenth of a second of silence, as a data URL.
pub(super) fn audio_url() -> String {
    const BYTES: u32 = 800;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + BYTES).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(8_000_u32.to_le_bytes());
    wav.extend(8_000_u32.to_le_bytes());
    wav.extend(b"\x01\0\x08\0data");
    wav.extend(BYTES.to_le_bytes());
    wav.extend(vec![128; BYTES as usize]);
    format!("data:audio/wav;base64,{}", STANDARD.encode(wav))
}

/// Returns a red video of one second, as a data URL.
pub(super) fn video_url() -> String {
    let words =
        "-v error -f lavfi -i color=c=red:s=16x16:d=1:r=5 -movflags frag_keyframe+empty_moov -f mp4 -";
    let made = Command::new("ffmpeg").args(words.split(' ')).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    format!("data:video/mp4;base64,{}", STANDARD.encode(made.stdout))
}

pub(super) fn image_url() -> String {
    format!("data:image/png;base64,{PIXEL_PNG}")
}

/// Lists refused requests: label, body, error code and parameter.
fn refused() -> Vec<(&'static str, Value, &'static str, String)> {
    let of_question = |member: &str| format!("{OF_QUESTION}.{member}");
    let twice = json!([{"id": "a", "type": "noul", "instructions": "Is it?"}, {"id": "a", "type": "noul", "instructions": "Is it?"}]);
    let of_one = json!({"type": "object", "properties": {"reason": {"enum": ["only"]}}});
    let parameters = "questions.q.tools[0].function.parameters";
    let typed = |url: &str| json!([{"type": "image_url", "image_url": {"url": url}}]);
    let place = "state[0].image_url.url".to_owned();
    let invalid = "invalid_parameter";
    vec![
        (
            "no questions",
            ask(json!("x"), json!({})),
            invalid,
            "questions".to_owned(),
        ),
        (
            "129 questions",
            ask(json!("x"), named(129, noul)),
            invalid,
            "questions".to_owned(),
        ),
        (
            "one id twice",
            ask(json!("x"), twice),
            invalid,
            "questions[1].id".to_owned(),
        ),
        ("one option", options(1), invalid, of_question("criteria")),
        ("256 options", options(256), invalid, of_question("criteria")),
        ("one level", levels(1), invalid, of_question("criteria")),
        ("11 levels", levels(11), invalid, of_question("criteria")),
        (
            "an empty state",
            ask(json!(""), json!({"q": noul()})),
            invalid,
            "state".to_owned(),
        ),
        (
            "a state of nothing",
            ask(json!([]), json!({"q": noul()})),
            invalid,
            "state".to_owned(),
        ),
        (
            "a function without a schema",
            tool(json!({"name": "f"})),
            "missing_required_parameter",
            parameters.to_owned(),
        ),
        (
            "an enumeration of one",
            tool(json!({"name": "f", "parameters": of_one})),
            invalid,
            format!("{parameters}.properties.reason"),
        ),
        (
            "17 images",
            media(17, &image_url()),
            invalid,
            "state[16]".to_owned(),
        ),
        ("9 clips", media(9, &audio_url()), invalid, "state[8]".to_owned()),
        (
            "5 videos",
            media(5, "data:video/mp4;base64,AAAA"),
            invalid,
            "state[4]".to_owned(),
        ),
        (
            "a private address",
            ask(typed("http://192.168.1.1/a.png"), json!({"q": noul()})),
            invalid,
            place.clone(),
        ),
        (
            "this machine",
            ask(typed("http://127.0.0.1/a.png"), json!({"q": noul()})),
            invalid,
            place.clone(),
        ),
        (
            "another scheme",
            ask(typed("file:///etc/passwd"), json!({"q": noul()})),
            invalid,
            place.clone(),
        ),
        (
            "an image that is audio",
            ask(typed(&audio_url()), json!({"q": noul()})),
            invalid,
            place.clone(),
        ),
        (
            "a data URL that is not base64",
            ask(typed("data:image/png,hello"), json!({"q": noul()})),
            invalid,
            place.clone(),
        ),
        (
            "a data URL with invalid base64",
            ask(typed("data:image/png;base64,!!!!"), json!({"q": noul()})),
            invalid,
            place.clone(),
        ),
        (
            "a text declared as an image",
            ask(typed("data:image/png;base64,aGVsbG8="), json!({"q": noul()})),
            invalid,
            place,
        ),
        (
            "invalid audio",
            media(1, "data:audio/wav;base64,aGVsbG8="),
            invalid,
            "state[0]".to_owned(),
        ),
        (
            "nine orders",
            with_options(json!({"permutations": 9})),
            invalid,
            "options.permutations".to_owned(),
        ),
        (
            "an unknown detail",
            with_options(json!({"detail": "most"})),
            invalid,
            "options.detail".to_owned(),
        ),
        (
            "an unknown option",
            with_options(json!({"depth": 1})),
            "unknown_parameter",
            "options.depth".to_owned(),
        ),
    ]
}

fn with_options(options: Value) -> Value {
    let mut body = one(noul());
    body["options"] = options;
    body
}

#[tokio::test]
async fn requests_beyond_a_limit_are_refused_without_a_charge() {
    let scene = Scene::start_with(ROOMY).await;
    for (what, body, code, param) in refused() {
        let response = scene.post(DECISIONS, &body).await;
        assert_error(what, &response, code, Some(&param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn requests_at_a_limit_are_answered() {
    let scene = Scene::start_with(ROOMY).await;
    let schema = json!({"type": "object", "properties": {"reason": {"enum": ["one", "other"]}}});
    for (what, body, answers) in [
        ("128 questions", ask(json!("x"), named(128, noul)), 128),
        ("2 options", options(2), 1),
        ("255 options", options(255), 1),
        ("2 levels", levels(2), 1),
        ("10 levels", levels(10), 1),
        (
            "an enumeration of two",
            tool(json!({"name": "f", "parameters": schema})),
            1,
        ),
        ("16 images", media(16, &image_url()), 1),
        ("8 clips", media(8, &audio_url()), 1),
        ("4 videos", media(4, &video_url()), 1),
        ("eight orders", with_options(json!({"permutations": 8})), 1),
    ] {
        let response = scene.post(DECISIONS, &body).await;
        assert_eq!(response.status, 200, "{what}: {}", response.text());
        let body = response.json();
        assert_eq!(
            body["answers"].as_object().unwrap().len(),
            answers,
            "{what}: {body}"
        );
        assert!(nanos(&body["usage"]["cost"]) > 0, "{what}: {body}");
    }
    scene.finish().await;
}

/// The limit applies to the state plus the longest question, exact to the token.
#[tokio::test]
async fn the_context_limit_is_one_million_tokens() {
    let scene = Scene::start_with(ROOMY).await;
    let of = |words: usize| ask(json!(" a".repeat(words)), json!({"q": noul()}));
    let small = scene.post(DECISIONS, &of(10)).await.json();
    let details = &small["usage"]["input_tokens_details"];
    assert_eq!(details["state"], 10, "a token for each word: {small}");
    let max_words = 1_000_000 - usize::try_from(details["questions"].as_u64().unwrap()).unwrap();
    let before = scene.settled().await;
    let beyond = scene.post(DECISIONS, &of(max_words + 1)).await;
    assert_error("beyond", &beyond, "context_length_exceeded", Some("state"));
    assert_eq!(scene.settled().await, before);
    let whole = scene.post(DECISIONS, &of(max_words)).await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    let whole = whole.json();
    assert_eq!(whole["usage"]["input_tokens"], 1_000_000, "{whole}");
    let charged = GRANTED - scene.settled().await.credits;
    assert_eq!(
        charged,
        nanos(&small["usage"]["cost"]) + nanos(&whole["usage"]["cost"])
    );
    scene.finish().await;
}
