//! Media that are uploaded files: a file is decided about as its bytes would be, and who has none is told so for nothing.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use super::DECISIONS;
use super::limits::{film, picture, sound};
use crate::scene::{Scene, assert_error};

fn ask(state: Value) -> Value {
    let question = json!({"type": "noul", "instructions": "Is it?"});
    json!({"model": "sim/decide-audio", "state": state, "questions": {"q": question}})
}

/// The bytes of a data URL.
fn bytes(url: &str) -> Vec<u8> {
    use base64::Engine;
    let (_, data) = url.split_once(',').unwrap();
    base64::engine::general_purpose::STANDARD.decode(data).unwrap()
}

#[tokio::test]
async fn a_file_is_decided_about_as_its_bytes_are() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        for (name, url, ways) in [
            (
                "a.png",
                picture(),
                &[
                    |id: &str| json!({"type": "input_image", "file_id": id}),
                    |id: &str| json!({"type": "image", "source": {"type": "file", "file_id": id}}),
                    |id: &str| json!({"fileData": {"mimeType": "image/png", "fileUri": format!("files/{id}")}}),
                ][..],
            ),
            (
                "a.wav",
                sound(),
                &[|id: &str| json!({"type": "input_audio", "file_id": id})],
            ),
            (
                "a.mp4",
                film(),
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
async fn what_a_file_is_decides_its_marker() {
    let scene = Scene::start().await;
    let id = scene.file("a.wav", &bytes(&sound()), "user_data").await;
    let file = json!({"type": "file", "file": {"file_id": id}});
    let quoted = json!({"endpoint": DECISIONS, "request": ask(json!([picture(), file]))});
    let quote = scene.post("/v1/quote", &quoted).await;
    assert_eq!(quote.status, 200, "{}", quote.text());
    let told = scene.post(DECISIONS, &ask(json!([picture(), file]))).await.json();
    let inline = scene
        .post(DECISIONS, &ask(json!([picture(), sound()])))
        .await
        .json();
    assert_eq!(told["usage"], inline["usage"]);
    assert_eq!(told["answers"], inline["answers"]);
    // A model that does not hear says so, whoever has said that it is a sound.
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
async fn a_file_that_is_none_of_the_account_or_no_medium_is_refused_for_nothing() {
    let scene = Scene::start().await;
    let other = scene.gateway.account().await;
    let key = scene.gateway.key(&other).await;
    let theirs = scene.file("a.png", &bytes(&picture()), "user_data").await;
    let text = scene.file("a.txt", b"no picture", "user_data").await;
    let heard = scene.file("a.wav", &bytes(&sound()), "user_data").await;
    let image = |id: &str| ask(json!([{"type": "input_image", "file_id": id}]));
    let never = format!("file-{}", "0".repeat(32));
    for (what, body, code, param) in [
        ("none", image(&never), "not_found", "state[0].file_id"),
        ("no id", image("../etc"), "not_found", "state[0].file_id"),
        ("a text", image(&text), "invalid_parameter", "state[0].file_id"),
        ("a sound", image(&heard), "invalid_parameter", "state[0].file_id"),
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
    // An account without credits is told so before any file is read.
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
