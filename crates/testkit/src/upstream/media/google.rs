//! Imagen, images as generated content, and Veo (ai.google.dev/gemini-api/docs/imagen,
//! …/image-generation, …/video), also in Vertex AI's format, whose operation contains the video.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Making, MediaFault, MediaServer, Order, Stage, as_json, not_found, number, own_url, text};

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    let (_, target) = path.split_once("/models/")?;
    if let Some((_, id)) = target.split_once("/operations/")
        && request.method == "GET"
    {
        return Some(operation(media_server, request, id));
    }
    let (model, action) = target.rsplit_once(':')?;
    match action {
        "predict" if model.starts_with("imagen") => Some(predict(media_server, request, model)),
        "generateContent" if model.ends_with("-image") => Some(generate(media_server, request, model)),
        "predictLongRunning" => Some(begin(media_server, request, model)),
        "fetchPredictOperation" => {
            let name = text(&request.json().unwrap_or_default()["operationName"]);
            let id = name.rsplit('/').next().unwrap_or_default().to_owned();
            Some(operation(media_server, request, &id))
        }
        _ => None,
    }
}

/// Returns the size of an aspect ratio, in pixels.
fn size_of(ratio: &Value) -> Option<(u32, u32)> {
    let (width, height) = ratio.as_str()?.split_once(':')?;
    Some((8 * width.parse::<u32>().ok()?, 8 * height.parse::<u32>().ok()?))
}

fn predict(media_server: &mut MediaServer, request: &ReceivedRequest, model: &str) -> Reply {
    let body = request.json().unwrap_or_default();
    let order = Order {
        model: model.to_owned(),
        prompt: text(&body["instances"][0]["prompt"]),
        count: number(&body["parameters"]["sampleCount"]).unwrap_or(4),
        size: size_of(&body["parameters"]["aspectRatio"]),
        ..Order::default()
    };
    media_server.submit("google", request, order, |making| {
        let shown = if making.fault == Some(MediaFault::Blocked) { 0 } else { making.count };
        let prediction =
            |index| json!({"mimeType": "image/png", "bytesBase64Encoded": STANDARD.encode(making.output(index))});
        as_json(200, &json!({"predictions": (0..shown).map(prediction).collect::<Vec<_>>()}))
    })
}

fn generate(media_server: &mut MediaServer, request: &ReceivedRequest, model: &str) -> Reply {
    let body = request.json().unwrap_or_default();
    let parts = body["contents"][0]["parts"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let order = Order {
        model: model.to_owned(),
        prompt: parts.iter().map(|part| text(&part["text"])).collect(),
        count: 1,
        size: size_of(&body["generationConfig"]["imageConfig"]["aspectRatio"]),
        ..Order::default()
    };
    media_server.submit("google", request, order, |making| {
        let usage = json!({"promptTokenCount": 20, "candidatesTokenCount": 1_290, "totalTokenCount": 1_310});
        let candidate = match making.fault {
            Some(MediaFault::Blocked) => json!({"content": {}, "finishReason": "IMAGE_SAFETY", "index": 0}),
            _ => {
                let data = STANDARD.encode(making.output(0));
                let parts =
                    json!([{"text": "Here it is"}, {"inlineData": {"mimeType": "image/png", "data": data}}]);
                json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0})
            }
        };
        as_json(
            200,
            &json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}),
        )
    })
}

fn begin(media_server: &mut MediaServer, request: &ReceivedRequest, model: &str) -> Reply {
    let body = request.json().unwrap_or_default();
    let parameters = &body["parameters"];
    let order = Order {
        is_video: true,
        model: model.to_owned(),
        prompt: text(&body["instances"][0]["prompt"]),
        count: 1,
        size: size_of(&parameters["aspectRatio"]),
        seconds: number(&parameters["durationSeconds"]).unwrap_or(8),
        ..Order::default()
    };
    media_server.submit("google", request, order, |making| {
        as_json(200, &json!({"name": name(request, making)}))
    })
}

fn is_vertex(request: &ReceivedRequest) -> bool {
    request.path.contains("/projects/")
}

fn name(request: &ReceivedRequest, making: &Making) -> String {
    let folder = match is_vertex(request) {
        true => "projects/p/locations/l/publishers/google/models",
        false => "models",
    };
    format!("{folder}/{}/operations/{}", making.model, making.id)
}

fn operation(media_server: &mut MediaServer, request: &ReceivedRequest, id: &str) -> Reply {
    let Some((making, stage)) = media_server.poll(id) else {
        return not_found();
    };
    let name = name(request, &making);
    let done = |outcome: Value| match is_vertex(request) {
        true => json!({"name": name, "done": true, "response": outcome}),
        false => json!({"name": name, "done": true, "response": {"generateVideoResponse": outcome}}),
    };
    let video = match is_vertex(request) {
        true => {
            json!({"videos": [{"bytesBase64Encoded": STANDARD.encode(making.output(0)), "mimeType": "video/mp4"}]})
        }
        false => json!({"generatedSamples": [{"video": {"uri": own_url(request, &making, 0)}}]}),
    };
    let record = match stage {
        Stage::Waiting | Stage::Running | Stage::Cancelled => json!({"name": name}),
        Stage::Done => done(video),
        Stage::Failed(words) => json!({"name": name, "done": true, "error": {"code": 13, "message": words}}),
        Stage::Blocked => {
            done(json!({"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": [making.prompt]}))
        }
    };
    as_json(200, &record)
}
