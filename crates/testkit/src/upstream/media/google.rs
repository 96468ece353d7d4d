//! Imagen, pictures as generated content, and Veo (ai.google.dev/gemini-api/docs/imagen, …/image-generation,
//! …/video), also as Vertex AI has them: there a film comes with its operation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Makers, Making, MediaFault, Order, Stage, as_json, not_found, number, own_url, text};

pub(super) fn reply(makers: &mut Makers, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    let (_, target) = path.split_once("/models/")?;
    if let Some((_, id)) = target.split_once("/operations/")
        && request.method == "GET"
    {
        return Some(operation(makers, request, id));
    }
    let (model, action) = target.rsplit_once(':')?;
    match action {
        "predict" if model.starts_with("imagen") => Some(predict(makers, request, model)),
        "generateContent" if model.ends_with("-image") => Some(generate(makers, request, model)),
        "predictLongRunning" => Some(begin(makers, request, model)),
        "fetchPredictOperation" => {
            let name = text(&request.json().unwrap_or_default()["operationName"]);
            let id = name.rsplit('/').next().unwrap_or_default().to_owned();
            Some(operation(makers, request, &id))
        }
        _ => None,
    }
}

/// The size that a ratio of widths and heights comes to.
fn size_of(ratio: &Value) -> Option<(u32, u32)> {
    let (width, height) = ratio.as_str()?.split_once(':')?;
    Some((8 * width.parse::<u32>().ok()?, 8 * height.parse::<u32>().ok()?))
}

fn predict(makers: &mut Makers, request: &ReceivedRequest, model: &str) -> Reply {
    let body = request.json().unwrap_or_default();
    let order = Order {
        model: model.to_owned(),
        prompt: text(&body["instances"][0]["prompt"]),
        count: number(&body["parameters"]["sampleCount"]).unwrap_or(4),
        size: size_of(&body["parameters"]["aspectRatio"]),
        ..Order::default()
    };
    makers.submit("google", request, order, |making| {
        let shown = if making.fault == Some(MediaFault::Blocked) { 0 } else { making.count };
        let prediction =
            |index| json!({"mimeType": "image/png", "bytesBase64Encoded": STANDARD.encode(making.piece(index))});
        as_json(200, &json!({"predictions": (0..shown).map(prediction).collect::<Vec<_>>()}))
    })
}

fn generate(makers: &mut Makers, request: &ReceivedRequest, model: &str) -> Reply {
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
    makers.submit("google", request, order, |making| {
        let usage = json!({"promptTokenCount": 20, "candidatesTokenCount": 1_290, "totalTokenCount": 1_310});
        let candidate = match making.fault {
            Some(MediaFault::Blocked) => json!({"content": {}, "finishReason": "IMAGE_SAFETY", "index": 0}),
            _ => {
                let data = STANDARD.encode(making.piece(0));
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

fn begin(makers: &mut Makers, request: &ReceivedRequest, model: &str) -> Reply {
    let body = request.json().unwrap_or_default();
    let parameters = &body["parameters"];
    let order = Order {
        is_film: true,
        model: model.to_owned(),
        prompt: text(&body["instances"][0]["prompt"]),
        count: 1,
        size: size_of(&parameters["aspectRatio"]),
        seconds: number(&parameters["durationSeconds"]).unwrap_or(8),
    };
    makers.submit("google", request, order, |making| {
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

fn operation(makers: &mut Makers, request: &ReceivedRequest, id: &str) -> Reply {
    let Some((making, stage)) = makers.poll(id) else {
        return not_found();
    };
    let name = name(request, &making);
    let done = |outcome: Value| match is_vertex(request) {
        true => json!({"name": name, "done": true, "response": outcome}),
        false => json!({"name": name, "done": true, "response": {"generateVideoResponse": outcome}}),
    };
    let film = match is_vertex(request) {
        true => {
            json!({"videos": [{"bytesBase64Encoded": STANDARD.encode(making.piece(0)), "mimeType": "video/mp4"}]})
        }
        false => json!({"generatedSamples": [{"video": {"uri": own_url(request, &making, 0)}}]}),
    };
    let record = match stage {
        Stage::Waiting | Stage::Running | Stage::Cancelled => json!({"name": name}),
        Stage::Done => done(film),
        Stage::Failed(words) => json!({"name": name, "done": true, "error": {"code": 13, "message": words}}),
        Stage::Blocked => {
            done(json!({"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": [making.prompt]}))
        }
    };
    as_json(200, &record)
}
