//! stable-diffusion.cpp's server with its native API (leejet/stable-diffusion.cpp,
//! examples/server/api.md).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Making, MediaServer, Order, Stage, as_json, number, sides_of, text};

const JOBS: &str = "/sdcpp/v1/jobs/";

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    match (request.method.as_str(), path) {
        ("GET", "/sdcpp/v1/capabilities") => {
            return Some(as_json(200, &json!({"supported_modes": ["img_gen", "vid_gen"]})));
        }
        ("POST", "/sdcpp/v1/img_gen") => return Some(submit(media_server, request, false)),
        ("POST", "/sdcpp/v1/vid_gen") => return Some(submit(media_server, request, true)),
        _ => {}
    }
    let rest = path.strip_prefix(JOBS)?;
    Some(match rest.strip_suffix("/cancel") {
        Some(id) => cancel(media_server, id),
        // The server deletes finished jobs after some minutes.
        None => media_server.poll(rest).map_or_else(gone, status_reply),
    })
}

fn gone() -> Reply {
    as_json(410, &json!({"error": "job expired"}))
}

fn submit(media_server: &mut MediaServer, request: &ReceivedRequest, is_video: bool) -> Reply {
    let Some(fields) = request.json() else {
        return as_json(400, &json!({"error": "invalid json"}));
    };
    let frames = number(&fields["video_frames"]).unwrap_or(1).saturating_sub(1);
    let order = Order {
        is_video,
        model: String::new(),
        prompt: text(&fields["prompt"]),
        count: number(&fields["batch_count"]).unwrap_or(1),
        size: sides_of(&fields),
        seconds: frames / number(&fields["fps"]).unwrap_or(16).max(1),
        ..Order::default()
    };
    media_server.submit("sdcpp", request, order, |making| {
        let record = json!({
            "id": making.id, "kind": kind(making), "status": "queued", "created": 1_775_401_200,
            "poll_url": format!("{JOBS}{}", making.id),
        });
        as_json(202, &record)
    })
}

fn kind(making: &Making) -> &'static str {
    if making.is_video { "vid_gen" } else { "img_gen" }
}

fn status_reply((making, stage): (Making, Stage)) -> Reply {
    let (status, position, result, error) = match stage {
        Stage::Waiting => ("queued", 3, Value::Null, Value::Null),
        Stage::Running => ("generating", 0, Value::Null, Value::Null),
        Stage::Done => ("completed", 0, result(&making), Value::Null),
        Stage::Failed(words) => (
            "failed",
            0,
            Value::Null,
            json!({"code": "generation_failed", "message": words}),
        ),
        Stage::Blocked => (
            "failed",
            0,
            Value::Null,
            json!({"code": "content_filter", "message": making.prompt}),
        ),
        Stage::Cancelled => (
            "cancelled",
            0,
            Value::Null,
            json!({"code": "cancelled", "message": "by client"}),
        ),
    };
    let record = json!({
        "id": making.id, "kind": kind(&making), "status": status, "created": 1_775_401_200,
        "queue_position": position, "result": result, "error": error,
    });
    as_json(200, &record)
}

fn result(making: &Making) -> Value {
    if making.is_video {
        let body = STANDARD.encode(making.output(0));
        return json!({"output_format": "webm", "mime_type": "video/webm", "b64_json": body, "fps": 16});
    }
    let image = |index| json!({"index": index, "b64_json": STANDARD.encode(making.output(index))});
    json!({"output_format": "png", "images": (0..making.count).map(image).collect::<Vec<_>>()})
}

fn cancel(media_server: &mut MediaServer, id: &str) -> Reply {
    let Some(making) = media_server.find(id) else {
        return gone();
    };
    if making.is_cancelled {
        return as_json(409, &json!({"error": "job is not cancellable"}));
    }
    making.is_cancelled = true;
    as_json(200, &json!({"id": id, "status": "cancelled"}))
}
