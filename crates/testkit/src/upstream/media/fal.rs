//! fal's queue (docs.fal.ai/model-endpoints/queue), for models of the namespace `fal-ai/…`. Results
//! are served at another host.

use serde_json::{Value, json};

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Making, MediaServer, Order, Stage, as_json, files, number, other_url, sides_of, text};

const NAMESPACE: &str = "/fal-ai/";

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    let rest = path.strip_prefix(NAMESPACE)?;
    let Some((app, rest)) = rest.split_once("/requests/") else {
        return (request.method == "POST").then(|| submit(media_server, request, rest));
    };
    Some(match (request.method.as_str(), rest.split_once('/')) {
        ("GET", Some((id, "status"))) => status(media_server, request, app, id),
        ("PUT", Some((id, "cancel"))) => cancel(media_server, id),
        ("GET", None) => result(media_server, request, rest),
        _ => nothing(),
    })
}

fn nothing() -> Reply {
    as_json(404, &json!({"detail": "Not found"}))
}

/// Returns the URLs of one request, which omit the part after the name of the app.
fn addresses(request: &ReceivedRequest, model: &str, id: &str) -> Value {
    let host = request.header("host").unwrap_or_default();
    let app = model.split('/').next().unwrap_or_default();
    let base = format!("http://{host}{NAMESPACE}{app}/requests/{id}");
    json!({
        "request_id": id, "response_url": base, "status_url": format!("{base}/status"),
        "cancel_url": format!("{base}/cancel"),
    })
}

fn submit(media_server: &mut MediaServer, request: &ReceivedRequest, model: &str) -> Reply {
    let Some(fields) = request.json() else {
        return as_json(400, &json!({"detail": "Invalid JSON"}));
    };
    let duration = text(&fields["duration"]);
    let new = duration.trim_end_matches('s').parse().unwrap_or(0);
    // Some models return the source video with the extension, and some return only the extension.
    let before = match model.ends_with("/extend-video") {
        true => files::length(&text(&fields["video_url"])),
        false => 0,
    };
    let order = Order {
        is_video: !duration.is_empty(),
        model: format!("fal-ai/{model}"),
        prompt: text(&fields["prompt"]),
        count: number(&fields["num_images"]).unwrap_or(1),
        size: sides_of(&fields["image_size"]),
        seconds: before + new,
        ..Order::default()
    };
    media_server.submit("fal", request, order, |making| {
        let mut record = addresses(request, model, &making.id);
        record["status"] = json!("IN_QUEUE");
        record["queue_position"] = json!(0);
        as_json(200, &record)
    })
}

fn status(media_server: &mut MediaServer, request: &ReceivedRequest, app: &str, id: &str) -> Reply {
    let Some((making, stage)) = media_server.poll(id) else {
        return nothing();
    };
    let mut record = addresses(request, app, &making.id);
    let (code, word) = match stage {
        Stage::Waiting => {
            record["queue_position"] = json!(2);
            (202, "IN_QUEUE")
        }
        Stage::Running => (202, "IN_PROGRESS"),
        _ => (200, "COMPLETED"),
    };
    record["status"] = json!(word);
    as_json(code, &record)
}

fn result(media_server: &mut MediaServer, request: &ReceivedRequest, id: &str) -> Reply {
    let Some((making, stage)) = media_server.poll(id) else {
        return nothing();
    };
    let is_blocked = match stage {
        Stage::Done => false,
        Stage::Blocked => true,
        Stage::Failed(words) => {
            let detail = json!([{"loc": ["body", "prompt"], "msg": words, "type": "unprocessable"}]);
            return as_json(422, &json!({"detail": detail}));
        }
        Stage::Cancelled => return as_json(422, &json!({"detail": "Request was cancelled"})),
        Stage::Waiting | Stage::Running => {
            return as_json(400, &json!({"detail": "Request is still in progress"}));
        }
    };
    as_json(200, &output(request, &making, is_blocked))
}

fn output(request: &ReceivedRequest, making: &Making, is_blocked: bool) -> Value {
    let file = |index: u32| json!({"url": other_url(request, making, index), "content_type": "image/png"});
    if making.is_video {
        return json!({"video": file(0), "has_nsfw_concepts": [is_blocked]});
    }
    let images: Vec<Value> = (0..making.count).map(file).collect();
    json!({"images": images, "seed": 1, "has_nsfw_concepts": vec![is_blocked; images.len()], "prompt": making.prompt})
}

fn cancel(media_server: &mut MediaServer, id: &str) -> Reply {
    let Some(making) = media_server.find(id) else {
        return as_json(404, &json!({"status": "NOT_FOUND"}));
    };
    if making.is_cancelled {
        return as_json(400, &json!({"status": "ALREADY_COMPLETED"}));
    }
    making.is_cancelled = true;
    as_json(202, &json!({"status": "CANCELLATION_REQUESTED"}))
}
