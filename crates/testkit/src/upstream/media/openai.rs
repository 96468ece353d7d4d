//! OpenAI's images and videos (platform.openai.com/docs/api-reference/images and …/videos).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{
    Making, MediaFault, MediaServer, Order, Stage, as_json, files, not_found, number, own_url, size_of, text,
};

const PATHS: [&str; 3] = ["/images/generations", "/images/edits", "/images/variations"];

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    if request.method == "POST" && PATHS.iter().any(|end| path.ends_with(end)) {
        return Some(make_images(media_server, request));
    }
    if request.method == "POST" && path.ends_with("/videos") {
        return Some(make_video(media_server, request));
    }
    let (_, rest) = path.split_once("/videos/")?;
    if let Some(id) = rest.strip_suffix("/content") {
        let making = media_server.find(id).map(|making| files::bytes(making, 0));
        return Some(making.unwrap_or_else(not_found));
    }
    match request.method.as_str() {
        "GET" => Some(media_server.poll(rest).map_or_else(not_found, status_reply)),
        "DELETE" => Some(forget(media_server, rest)),
        _ => None,
    }
}

/// Returns the fields of a JSON body or a form.
fn fields(request: &ReceivedRequest) -> Option<Value> {
    if let Some(parts) = request.form() {
        let fields = parts.into_iter().filter(|part| part.file_name.is_none());
        let fields: Map<String, Value> = fields
            .map(|part| (part.name.clone(), json!(part.text())))
            .collect();
        return Some(Value::Object(fields));
    }
    request.json().filter(Value::is_object)
}

fn no_request() -> Reply {
    Reply::error(400, "invalid_request", "neither JSON nor a form")
}

fn make_images(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let Some(fields) = fields(request) else {
        return no_request();
    };
    let size = fields["size"].as_str().and_then(size_of);
    let order = Order {
        model: text(&fields["model"]),
        prompt: text(&fields["prompt"]),
        count: number(&fields["n"]).unwrap_or(1),
        size: size.or_else(|| super::sides_of(&fields)),
        ..Order::default()
    };
    let is_at_address = fields["response_format"] == "url";
    media_server.submit("openai", request, order, |making| {
        if let Some(MediaFault::Fails(words)) = &making.fault {
            return Reply::error(500, "server_error", words);
        }
        if making.fault == Some(MediaFault::Blocked) {
            return Reply::error(400, "moderation_blocked", &making.prompt);
        }
        let data = (0..making.count).map(|index| match is_at_address {
            true => json!({"url": own_url(request, making, index)}),
            false => json!({"b64_json": STANDARD.encode(making.output(index))}),
        });
        let usage = json!({
            "input_tokens": 30, "input_tokens_details": {"text_tokens": 10, "image_tokens": 20},
            "output_tokens": 1_000 * making.count, "total_tokens": 1_000 * making.count + 30,
        });
        let data: Vec<Value> = data.collect();
        as_json(
            200,
            &json!({"created": 1_790_000_000, "data": data, "usage": usage}),
        )
    })
}

fn make_video(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let Some(fields) = fields(request) else {
        return no_request();
    };
    let order = Order {
        is_video: true,
        model: text(&fields["model"]),
        prompt: text(&fields["prompt"]),
        count: 1,
        size: fields["size"].as_str().and_then(size_of),
        seconds: number(&fields["seconds"]).unwrap_or(4),
        ..Order::default()
    };
    media_server.submit("openai", request, order, |making| {
        as_json(200, &record(making, "queued", 0))
    })
}

fn record(making: &Making, status: &str, progress: u32) -> Value {
    json!({
        "id": making.id, "object": "video", "model": making.model, "status": status, "progress": progress,
        "created_at": 1_790_000_000, "seconds": making.seconds.to_string(), "error": null,
        "size": format!("{}x{}", making.size.0, making.size.1),
    })
}

fn status_reply((making, stage): (Making, Stage)) -> Reply {
    let failed = |code: &str, words: &str| {
        let mut record = record(&making, "failed", 50);
        record["error"] = json!({"code": code, "message": words});
        record
    };
    let record = match stage {
        Stage::Waiting => record(&making, "queued", 0),
        Stage::Running => record(&making, "in_progress", 40),
        Stage::Done => record(&making, "completed", 100),
        Stage::Failed(words) => failed("video_generation_failed", &words),
        Stage::Blocked => failed("moderation_blocked", &making.prompt),
        Stage::Cancelled => return not_found(),
    };
    as_json(200, &record)
}

fn forget(media_server: &mut MediaServer, id: &str) -> Reply {
    let Some(making) = media_server.find(id) else {
        return not_found();
    };
    making.is_cancelled = true;
    as_json(
        200,
        &json!({"id": id, "object": "video.deleted", "deleted": true}),
    )
}
