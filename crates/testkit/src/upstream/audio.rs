//! The answers to `POST …/audio/speech` and `POST …/audio/transcriptions`: audio whose length
//! follows from the text, and a transcript that reports the size of the upload.

use serde_json::{Value, json};

use super::delivery::Framing;
use super::received::ReceivedRequest;
use super::reply::Reply;

/// Bytes of audio per character of the text.
const BYTES_PER_CHARACTER: usize = 16;
/// Reported duration of every recording, in seconds.
pub const HEARD_SECONDS: u64 = 7;

/// Returns the audio of a text. Its size depends on the number of characters, and its content on
/// the format.
pub fn speech_audio(format: &str, text: &str) -> Vec<u8> {
    let mark = format!("{format}:{text}|");
    let length = text.chars().count() * BYTES_PER_CHARACTER;
    mark.bytes().cycle().take(length.max(1)).collect()
}

/// Whether a path is an audio endpoint.
pub(super) fn is_audio(path: &str) -> bool {
    ["/audio/speech", "/audio/transcriptions", "/audio/translations"]
        .iter()
        .any(|known| path.ends_with(known))
}

/// Returns the reply if no other reply is scripted.
pub(super) fn reply(request: &ReceivedRequest) -> Reply {
    if request.bare_path().ends_with("/speech") {
        return spoken(&request.body);
    }
    heard(request)
}

fn spoken(body: &[u8]) -> Reply {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let (Some(text), Some(_), true) = (
        request["input"].as_str(),
        request["model"].as_str(),
        request["voice"].is_string() || request["voice"]["id"].is_string(),
    ) else {
        return Reply::error(400, "invalid_request", "model, input and voice are needed.");
    };
    let format = request["response_format"].as_str().unwrap_or("mp3");
    let media_type = match format {
        "mp3" => "audio/mpeg".to_owned(),
        "opus" => "audio/ogg".to_owned(),
        other => format!("audio/{other}"),
    };
    Reply::body(200, &media_type, speech_audio(format, text)).framing(Framing::Chunked)
}

fn heard(request: &ReceivedRequest) -> Reply {
    let Some(form) = request.form() else {
        return Reply::error(400, "invalid_request", "The body is no form.");
    };
    let text_of = |name: &str| {
        let part = form.iter().find(|part| part.name == name)?;
        Some(String::from_utf8_lossy(&part.body).into_owned())
    };
    let file = form
        .iter()
        .find(|part| part.name == "file" && part.file_name.is_some());
    let (Some(file), Some(_)) = (file, text_of("model")) else {
        return Reply::error(400, "invalid_request", "file and model are needed.");
    };
    let text = format!("Heard {} bytes. All of them.", file.body.len());
    let usage = json!({"type": "duration", "seconds": HEARD_SECONDS});
    let answer = match text_of("response_format").as_deref() {
        None | Some("json") => json!({"text": text, "usage": usage}),
        Some("verbose_json") => {
            let segment = |id: usize, start: f64, end: f64, words: &str| {
                json!({"id": id, "seek": 0, "start": start, "end": end, "text": words, "tokens": [1, 2], "temperature": 0.0,
                    "avg_logprob": -0.25, "compression_ratio": 1.5, "no_speech_prob": 0.01})
            };
            let words = form
                .iter()
                .filter(|part| part.name == "timestamp_granularities[]")
                .any(|part| &part.body[..] == b"word");
            let words = words.then(|| json!([{"word": "Heard", "start": 0.0, "end": 0.5}]));
            json!({"task": "transcribe", "language": "english", "duration": 7.0, "text": text, "usage": usage,
                "segments": [segment(0, 0.0, 3.25, " Heard it."), segment(1, 3.25, 7.0, " All of it.")], "words": words})
        }
        Some(_) => return Reply::error(400, "unsupported_value", "Unsupported response_format."),
    };
    Reply::body(200, "application/json", answer.to_string())
}
