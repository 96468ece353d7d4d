//! `POST /v1/audio/speech` and `POST /v1/audio/transcriptions`: requests, results and charges.

mod bad_input;
mod money;
mod text_to_speech;
mod transcripts;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, PROVIDER, PROVIDER_KEY, Scene, with};

pub const SPEECH: &str = "/v1/audio/speech";
const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
/// A speech model, priced per character.
pub const VOICE: &str = "acme/voice";
/// Price of [`VOICE`], in nano-credits per character.
const PER_CHARACTER: i64 = 1_000;
/// A transcription model, priced per second.
const EARS: &str = "acme/ears";
/// Price of [`EARS`], in nano-credits per second.
const PER_SECOND: i64 = 500_000;
/// A speech model, priced per token.
pub const TOKEN_VOICE: &str = "acme/token-voice";
const TOKEN_EARS: &str = "acme/token-ears";

/// Starts a scene with the models of this file.
async fn scene() -> Scene {
    scene_on(Storage::Sqlite, "").await
}

/// Starts a scene on this engine, with additional settings.
pub async fn scene_on(storage: Storage, config: &str) -> Scene {
    let path = std::env::var("PATH").unwrap_or_default();
    scene_with(storage, config, &path).await
}

/// Starts a scene whose gateway has this `PATH`, in which it looks for programs such as ffmpeg.
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

/// Returns the body of a speech request.
pub fn speech(model: &str, input: &str, members: Value) -> Value {
    with(json!({"model": model, "input": input, "voice": "alloy"}), members)
}

async fn speak(scene: &Scene, body: &Value) -> Response {
    scene.client().post_json(SPEECH, &scene.key.secret, body).await
}

/// Returns the simulator's speech in this format.
async fn simulated(scene: &Scene, input: &str, format: &str) -> Vec<u8> {
    let body = speech("sim/speech", input, json!({"response_format": format}));
    let response = speak(scene, &body).await;
    assert_eq!(response.status, 200, "{format}: {}", response.text());
    response.body()
}

/// Builds a transcription request: a form with a recording and these text fields.
fn form_of(boundary: &str, filename: &str, audio: &[u8], fields: &[(&str, &str)]) -> Request {
    form_to(TRANSCRIPTIONS, (boundary, filename), audio, fields)
}

/// Builds a form like [`form_of`], for another path.
fn form_to(path: &str, (boundary, filename): (&str, &str), audio: &[u8], fields: &[(&str, &str)]) -> Request {
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
    Request::post(path, body).header("content-type", media_type)
}

fn form(audio: &[u8], fields: &[(&str, &str)]) -> Request {
    form_of("7f83b1657ff1fc53", "a.wav", audio, fields)
}

async fn transcribe(scene: &Scene, audio: &[u8], fields: &[(&str, &str)]) -> Response {
    let request = form(audio, fields).key(&scene.key.secret);
    scene.client().send(&request).await
}
