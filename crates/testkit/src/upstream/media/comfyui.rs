//! ComfyUI's routes (docs.comfy.org/development/comfyui-server/comms_routes). The server reads only
//! the parts of a graph that determine the output: texts, sizes, batches, lengths at 16 frames a
//! second, images that must have been uploaded, and whether a video is saved.

use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{
    Making, MediaServer, Order, SocketFault, Stage, as_json, files, not_found, number, sides_of, text,
};

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    if let Some(id) = path.strip_prefix("/history/") {
        return Some(history(media_server, id));
    }
    match (request.method.as_str(), path) {
        ("POST", "/prompt") => Some(submit(media_server, request)),
        ("POST", "/upload/image") => Some(upload(media_server, request)),
        ("GET", "/queue") => Some(line(media_server)),
        ("POST", "/queue") => Some(delete(media_server, request)),
        ("POST", "/interrupt") => Some(interrupt(media_server, request)),
        ("GET", "/view") => Some(view(media_server, request)),
        ("GET", "/ws") => Some(talk(media_server, request)),
        _ => None,
    }
}

fn upload(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let parts = request.form().unwrap_or_default();
    let Some(name) = parts.iter().find_map(|part| part.file_name.clone()) else {
        return as_json(400, &json!({}));
    };
    media_server.uploads.push(name.clone());
    as_json(200, &json!({"name": name, "subfolder": "", "type": "input"}))
}

fn refused(kind: &str) -> Reply {
    as_json(
        400,
        &json!({"error": {"type": kind, "message": "no"}, "node_errors": {}}),
    )
}

fn submit(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let body = request.json().unwrap_or_default();
    let Some(graph) = body["prompt"].as_object() else {
        return refused("no_prompt");
    };
    let input = |name: &str| {
        graph
            .values()
            .map(|node| &node["inputs"][name])
            .find(|value| !value.is_null())
    };
    let is_known = |node: &&Value| {
        node["class_type"] != "LoadImage" || media_server.uploads.contains(&text(&node["inputs"]["image"]))
    };
    if !graph.values().all(|node| is_known(&node)) {
        return refused("prompt_outputs_failed_validation");
    }
    let order = Order {
        is_video: graph.values().any(|node| node["class_type"] == "SaveVideo"),
        model: String::new(),
        prompt: input("text").map(text).unwrap_or_default(),
        count: input("batch_size").and_then(number).unwrap_or(1),
        size: graph.values().find_map(|node| sides_of(&node["inputs"])),
        seconds: input("length").and_then(number).unwrap_or(0) / 16,
        ..Order::default()
    };
    media_server.submit("comfyui", request, order, |making| {
        as_json(
            200,
            &json!({"prompt_id": making.id, "number": 1, "node_errors": {}}),
        )
    })
}

/// Returns the history of a job. Only history queries count as polls, because a client without a
/// history entry also queries the queue.
fn history(media_server: &mut MediaServer, id: &str) -> Reply {
    let Some((making, stage)) = media_server.poll(id) else {
        return as_json(200, &json!({}));
    };
    let status = |word: &str, message: &str| {
        let messages = json!([["execution_start", {}], [message, {}]]);
        json!({"status_str": word, "completed": word == "success", "messages": messages})
    };
    let entry = match stage {
        Stage::Waiting | Stage::Running => return as_json(200, &json!({})),
        Stage::Done => json!({"outputs": outputs(&making), "status": status("success", "execution_success")}),
        Stage::Failed(words) => {
            let mut failed = status("error", "execution_error");
            failed["messages"][1][1] = json!({"exception_message": words});
            json!({"outputs": {}, "status": failed})
        }
        Stage::Blocked => json!({"outputs": {}, "status": status("error", "execution_error")}),
        Stage::Cancelled if making.polls == 1 => return as_json(200, &json!({})),
        Stage::Cancelled => json!({"outputs": {}, "status": status("error", "execution_interrupted")}),
    };
    let mut history = Map::new();
    history.insert(making.id, entry);
    as_json(200, &Value::Object(history))
}

fn outputs(making: &Making) -> Value {
    let file = |index: u32| json!({"filename": format!("{}_{index}", making.id), "subfolder": "a b", "type": "output"});
    let shown = json!({"images": [{"filename": "preview", "subfolder": "", "type": "temp"}]});
    json!({"3": shown, "9": {"images": (0..making.count).map(file).collect::<Vec<_>>()}})
}

fn line(media_server: &MediaServer) -> Reply {
    let entry = |(number, making): (usize, &Making)| json!([number, making.id, {}, {}, []]);
    let open = |making: &Making| !making.is_cancelled && making.fault != Some(super::MediaFault::Lost);
    let of = |wanted: fn(&Making) -> bool| -> Vec<Value> {
        let made = media_server.made.iter().enumerate();
        made.filter(|(_, making)| making.wire == "comfyui" && open(making) && wanted(making))
            .map(entry)
            .collect()
    };
    let running = of(|making| making.polls > 1);
    let pending = of(|making| making.polls <= 1);
    as_json(200, &json!({"queue_running": running, "queue_pending": pending}))
}

fn delete(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let body = request.json().unwrap_or_default();
    for id in body["delete"].as_array().into_iter().flatten() {
        let waiting = media_server.find(&text(id)).filter(|making| making.polls <= 1);
        if let Some(making) = waiting {
            making.is_cancelled = true;
        }
    }
    as_json(200, &json!({}))
}

fn interrupt(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let id = text(&request.json().unwrap_or_default()["prompt_id"]);
    if let Some(making) = media_server.find(&id) {
        making.is_cancelled = true;
    }
    Reply::body(200, "text/plain", "")
}

fn view(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let fields: Vec<(&str, &str)> = query
        .split('&')
        .filter_map(|field| field.split_once('='))
        .collect();
    let field = |name: &str| {
        fields
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| *value)
    };
    let position = (field("subfolder"), field("type")) == (Some("a%20b"), Some("output"));
    let named = field("filename").and_then(|name| name.rsplit_once('_'));
    let found = named.filter(|_| position).and_then(|(id, index)| {
        let index = index.parse().ok()?;
        Some(files::bytes(media_server.find(id)?, index))
    });
    found.unwrap_or_else(not_found)
}

/// Returns the WebSocket messages about the client's jobs, mixed with messages about other jobs.
fn talk(media_server: &mut MediaServer, request: &ReceivedRequest) -> Reply {
    if media_server.socket == SocketFault::Refused {
        return not_found();
    }
    let Some(key) = request.header("sec-websocket-key") else {
        return as_json(400, &json!({}));
    };
    let accept = derive_accept_key(key.as_bytes());
    let mut out = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    )
    .into_bytes();
    let client = request.path.split_once("clientId=").map_or("", |(_, id)| id);
    let theirs = media_server
        .made
        .iter()
        .find(|making| making.key.as_deref() == Some(client));
    let progress = |id: &str, value: u32| {
        let data = json!({"value": value, "max": 20, "prompt_id": id, "node": "3"});
        json!({"type": "progress", "data": data}).to_string()
    };
    let status = json!({"type": "status", "data": {"sid": client}}).to_string();
    frame(&mut out, 1, status.as_bytes());
    match (media_server.socket, theirs) {
        (SocketFault::None, Some(making)) => {
            frame(&mut out, 2, &[0; 300]);
            frame(&mut out, 1, progress("somebody else's", 19).as_bytes());
            frame(&mut out, 1, progress(&making.id, 3 * making.polls).as_bytes());
        }
        (SocketFault::Garbage, _) => {
            frame(&mut out, 1, b"{\"type\": \"progress\", \"data\"");
            // A frame of an unknown kind.
            frame(&mut out, 7, b"?");
        }
        _ => {}
    }
    Reply::raw(out)
}

/// Appends a complete WebSocket frame: its kind, its length, its payload.
fn frame(out: &mut Vec<u8>, kind: u8, message: &[u8]) {
    out.push(0x80 | kind);
    match u8::try_from(message.len()) {
        Ok(length) if length < 126 => out.push(length),
        _ => {
            out.push(126);
            let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend_from_slice(message);
}
