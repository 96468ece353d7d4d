//! Uploaded files as media: a file gives the same answers as its inline bytes, and an unknown file
//! is refused without a charge.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use super::DECISIONS;
use super::limits::{audio_url, image_url, video_url};
use crate::scene::{Scene, assert_error};

fn ask(state: Value) -> Value {
    let question = json!({"type": "noul", "instructions": "Is it?"});
    json!({"model": "sim/decide-audio", "state": state, "questions": {"q": question}})
}

/// Decodes the base64 data of a data URL.
fn bytes(url: &str) -> Vec<u8> {
    use base64::Engine;
    let (_, data) = url.split_once(',').unwrap();
    base64::engine::general_purpose::STANDARD.decode(data).unwrap()
}

#[tokio::test]
async fn an_uploaded_file_gives_the_same_answers_as_inline_data() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        for (name, url, ways) in [
            (
                "a.png",
                image_url(),
                &[
                    |id: &str| json!({"type": "input_image", "file_id": id}),
                    |id: &str| json!({"type": "image", "source": {"type": "file", "file_id": id}}),
                    |id: &str| json!({"fileData": {"mimeType": "image/png", "fileUri": format!("files/{id}")}}),
                ][..],
            ),
            (
                "a.wav",
                audio_url(),
                &[|id: &str| json!({"type": "input_audio", "file_id": id})],
            ),
            (
                "a.mp4",
                video_url(),
                &[|id: &str| json!({"type": "video_url", "file_id": id})],
            ),
        ] {
            let inline = scene.post(DECISIONS, &ask(json!(["See:", url]))).await;
            assert_eq!(inline.status, 200, "{name}: {}", inline.text());
            let inline = inline.json();
            let id = scene.file(name, &bytes(&url), "user_data").await;
            let says_nothing: [fn(&str) -> Value; 2] = [
                |id| json!({"type": "file", "file": {"file_id": id}}),
                |id| json!({"type": "input_file", "file_id": id}),
            ];
            for way in ways.iter().chain(&says_nothing) {
                let part = way(&id);
                let response = scene.post(DECISIONS, &ask(json!(["See:", part]))).await;
                assert_eq!(response.status, 200, "{part}: {}", response.text());
                let body = response.json();
                assert_eq!(body["answers"], inline["answers"], "{part}");
                assert_eq!(body["usage"], inline["usage"], "{part}");
                let row = scene.row(response.request_id()).await;
                assert_eq!(nanos(&row["cost"]), nanos(&inline["usage"]["cost"]), "{part}");
            }
        }
        scene.finish().await;
    }
}

#[tokio::test]
async fn the_content_of_a_file_determines_its_media_type() {
    let scene = Scene::start().await;
    let id = scene.file("a.wav", &bytes(&audio_url()), "user_data").await;
    let file = json!({"type": "file", "file": {"file_id": id}});
    let quoted = json!({"endpoint": DECISIONS, "request": ask(json!([image_url(), file]))});
    let quote = scene.post("/v1/quote", &quoted).await;
    assert_eq!(quote.status, 200, "{}", quote.text());
    let uploaded = scene
        .post(DECISIONS, &ask(json!([image_url(), file])))
        .await
        .json();
    let inline = scene
        .post(DECISIONS, &ask(json!([image_url(), audio_url()])))
        .await
        .json();
    assert_eq!(uploaded["usage"], inline["usage"]);
    assert_eq!(uploaded["answers"], inline["answers"]);
    // A model without audio input refuses the file, although the request does not declare its type.
    let mut deaf = ask(json!([file]));
    deaf["model"] = json!("sim/decide");
    let response = scene.post(DECISIONS, &deaf).await;
    assert_error(
        "deaf",
        &response,
        "unsupported_parameter",
        Some("state[0].file.file_id"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn foreign_files_and_other_content_are_refused_without_a_charge() {
    let scene = Scene::start().await;
    let other = scene.gateway.account().await;
    let key = scene.gateway.key(&other).await;
    let theirs = scene.file("a.png", &bytes(&image_url()), "user_data").await;
    let text = scene.file("a.txt", b"no image", "user_data").await;
    let heard = scene.file("a.wav", &bytes(&audio_url()), "user_data").await;
    let image = |id: &str| ask(json!([{"type": "input_image", "file_id": id}]));
    let never = format!("file-{}", "0".repeat(32));
    for (what, body, code, param) in [
        ("none", image(&never), "not_found", "state[0].file_id"),
        ("no id", image("../etc"), "not_found", "state[0].file_id"),
        ("a text", image(&text), "invalid_parameter", "state[0].file_id"),
        ("audio", image(&heard), "invalid_parameter", "state[0].file_id"),
        (
            "a text that is anything",
            ask(json!({"m": {"type": "file", "file": {"file_id": text}}})),
            "invalid_parameter",
            "state.m.file.file_id",
        ),
        (
            "17 files",
            ask(Value::from(vec![
                json!({"type": "file", "file": {"file_id": theirs}});
                17
            ])),
            "invalid_parameter",
            "state[16].file.file_id",
        ),
    ] {
        let response = scene.post(DECISIONS, &body).await;
        assert_error(what, &response, code, Some(param));
    }
    scene.nothing_happened().await;
    // An account without credits is refused before any file is read.
    let part = json!({"type": "image", "source": {"type": "file", "file_id": theirs}});
    let request = ask(json!([part]));
    let response = scene.client().post_json(DECISIONS, &key.secret, &request).await;
    assert_error("no credits", &response, "insufficient_credits", None);
    scene.gateway.grant(&other, "10").await;
    let response = scene.client().post_json(DECISIONS, &key.secret, &request).await;
    assert_error(
        "another account's",
        &response,
        "not_found",
        Some("state[0].source.file_id"),
    );
    scene.nothing_happened().await;
    let usage = scene.gateway.usage(&key.secret, "?limit=10").await;
    assert_eq!(usage["data"], json!([]), "{usage}");
    scene.finish().await;
}
