//! `POST /v1/audio/speech` and `POST /v1/audio/transcriptions`: what is spoken and heard, and what it costs.

mod bad_input;
mod heard;
mod money;
mod spoken;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, PROVIDER, PROVIDER_KEY, Scene, with};

const SPEECH: &str = "/v1/audio/speech";
const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
/// A model that speaks, a nano-credit for a thousandth of a character.
const VOICE: &str = "acme/voice";
/// Nano-credits for a character of it.
const PER_CHARACTER: i64 = 1_000;
/// A model that hears.
const EARS: &str = "acme/ears";
/// Nano-credits for a second of it.
const PER_SECOND: i64 = 500_000;
/// The same, priced by tokens.
const TOKEN_VOICE: &str = "acme/token-voice";
const TOKEN_EARS: &str = "acme/token-ears";

/// A scene with these models besides.
async fn scene() -> Scene {
    scene_on(Storage::Sqlite, "").await
}

/// The same on this engine, with these settings more.
async fn scene_on(storage: Storage, config: &str) -> Scene {
    let path = std::env::var("PATH").unwrap_or_default();
    scene_with(storage, config, &path).await
}

/// The same with the programs that are at this path.
async fn scene_with(storage: Storage, config: &str, path: &str) -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let mut options = Scene::options(&upstream, storage, &(models() + config));
    options.env.push(("PATH".to_owned(), path.to_owned()));
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    Scene {
        gateway,
        upstream,
        account,
        key,
    }
}

fn models() -> String {
    let model = |name: &str, kind: &str, target: &str, prices: &str| {
        format!(
            "[models.\"{name}\"]\ntype = \"{kind}\"\ntargets = [\"{PROVIDER}/{target}\"]\nprices = {{ {prices} }}\n\n"
        )
    };
    [
        model(VOICE, "speech", "tts-1", "character = \"1\""),
        model(EARS, "transcription", "whisper-1", "audio = \"0.0005\""),
        model(
            TOKEN_VOICE,
            "speech",
            "gpt-4o-mini-tts",
            "input = \"1\", output = \"2\"",
        ),
        model(
            TOKEN_EARS,
            "transcription",
            "gpt-4o-transcribe",
            "input = \"1\", input_audio = \"3\", output = \"2\"",
        ),
    ]
    .concat()
}

/// A request to speak.
fn speech(model: &str, input: &str, members: Value) -> Value {
    with(json!({"model": model, "input": input, "voice": "alloy"}), members)
}

async fn speak(scene: &Scene, body: &Value) -> Response {
    scene.client().post_json(SPEECH, &scene.key.secret, body).await
}

/// The sound of the simulator.
async fn simulated(scene: &Scene, input: &str, format: &str) -> Vec<u8> {
    let body = speech("sim/speech", input, json!({"response_format": format}));
    let response = speak(scene, &body).await;
    assert_eq!(response.status, 200, "{format}: {}", response.text());
    response.body()
}

/// A form with a recording and these fields, divided by this.
fn form_of(boundary: &str, filename: &str, audio: &[u8], fields: &[(&str, &str)]) -> Request {
    let mut body = Vec::new();
    for (name, value) in fields {
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(audio);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    let media_type = format!("multipart/form-data; boundary={boundary}");
    Request::post(TRANSCRIPTIONS, body).header("content-type", media_type)
}

fn form(audio: &[u8], fields: &[(&str, &str)]) -> Request {
    form_of("7f83b1657ff1fc53", "a.wav", audio, fields)
}

async fn transcribe(scene: &Scene, audio: &[u8], fields: &[(&str, &str)]) -> Response {
    let request = form(audio, fields).key(&scene.key.secret);
    scene.client().send(&request).await
}
