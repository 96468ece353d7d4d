//! Replicate's predictions (replicate.com/docs/reference/http). Results are served at another host.

use serde_json::{Value, json};

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Making, MediaServer, Order, Stage, as_json, not_found, number, other_url, sides_of, text};

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    if request.method == "POST" && path.ends_with("/predictions") {
        return Some(submit(media_server, request));
    }
    let (_, rest) = path.split_once("/predictions/")?;
    if let Some(id) = rest.strip_suffix("/cancel").filter(|_| request.method == "POST") {
        let Some(making) = media_server.find(id) else {
            return Some(not_found());
        };
        making.is_cancelled = true;
        return Some(as_json(200, &json!({"id": id, "status": "canceled"})));
    }
    let status_reply = |(making, stage): (Making, Stage)| status_reply(request, &making, stage);
    (request.method == "GET").then(|| media_server.poll(rest).map_or_else(not_found, status_reply))
}

fn submit(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let Some(body) = request.json() else {
        return as_json(400, &json!({"title": "Invalid JSON", "status": 400}));
    };
    let named = request
        .bare_path()
        .split_once("/models/")
        .and_then(|(_, rest)| rest.strip_suffix("/predictions"));
    let input = &body["input"];
    let duration = number(&input["duration"]);
    let order = Order {
        is_video: duration.is_some(),
        model: named.map_or_else(|| text(&body["version"]), str::to_owned),
        prompt: text(&input["prompt"]),
        count: number(&input["num_outputs"]).unwrap_or(1),
        size: sides_of(input),
        seconds: duration.unwrap_or(0),
        ..Order::default()
    };
    media_server.submit("replicate", request, order, |making| {
        as_json(201, &record(making, "starting", Value::Null, Value::Null))
    })
}

fn record(making: &Making, status: &str, output: Value, error: Value) -> Value {
    let get = format!("https://api.replicate.com/v1/predictions/{}", making.id);
    json!({
        "id": making.id, "model": making.model, "status": status, "output": output, "error": error,
        "logs": "", "metrics": {}, "created_at": "2026-11-01T00:00:00Z",
        "urls": {"get": get, "cancel": format!("{get}/cancel")},
    })
}

fn status_reply(request: &ReceivedRequest, making: &Making, stage: Stage) -> Reply {
    let failed = |words: String| record(making, "failed", Value::Null, json!(words));
    let record = match stage {
        Stage::Waiting => record(making, "starting", Value::Null, Value::Null),
        Stage::Running => record(making, "processing", Value::Null, Value::Null),
        Stage::Done => {
            let urls: Vec<String> = (0..making.count)
                .map(|index| other_url(request, making, index))
                .collect();
            // A model with one output may report the output without a list.
            let output = match making.is_video {
                true => json!(urls[0]),
                false => json!(urls),
            };
            record(making, "succeeded", output, Value::Null)
        }
        Stage::Failed(words) => failed(words),
        Stage::Blocked => failed(format!(
            "The output of {} was flagged as sensitive. (E005)",
            making.prompt
        )),
        Stage::Cancelled => record(making, "canceled", Value::Null, Value::Null),
    };
    as_json(200, &record)
}
