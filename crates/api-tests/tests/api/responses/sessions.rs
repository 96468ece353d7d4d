//! `/v1/responses` over WebSocket.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, Gate, Reply};

use super::{RESPONSES, SIM, ended};
use crate::scene::{FREE, MODEL, PLAIN, Scene, assert_error, credits, with};

type Socket = WebSocketStream<TcpStream>;

async fn try_connect(scene: &Scene, headers: &[(&'static str, &str)]) -> Result<Socket, tungstenite::Error> {
    let address = scene.gateway.address();
    let mut request = format!("ws://{address}{RESPONSES}").into_client_request()?;
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    Ok(client_async(request, stream).await?.0)
}

async fn connect(scene: &Scene) -> Socket {
    let bearer = format!("Bearer {}", scene.key.secret);
    try_connect(scene, &[("authorization", &bearer)]).await.unwrap()
}

async fn say(socket: &mut Socket, message: &Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

/// Returns the next message, or `None` after the end of the session.
async fn hear(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await?.unwrap() {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

fn creating(model: &str, text: &str) -> Value {
    json!({"type": "response.create", "model": model, "input": text})
}

/// Sends a message and reads the events of its response. Returns the final response.
async fn ask(socket: &mut Socket, message: &Value) -> Value {
    say(socket, message).await;
    let mut events = Vec::new();
    loop {
        let event = hear(socket).await.unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        events.push(event);
        if kind == "response.completed" || kind == "response.incomplete" {
            return ended(&events);
        }
        assert_ne!(kind, "error", "{events:?}");
    }
}

fn error_of(message: &Value) -> (u64, &str, Option<&str>) {
    assert_eq!(message["type"], "error", "{message}");
    let error = &message["error"];
    assert!(
        error["message"].is_string() && error["type"].is_string(),
        "{message}"
    );
    (
        message["status"].as_u64().unwrap(),
        error["code"].as_str().unwrap(),
        error["param"].as_str(),
    )
}

#[tokio::test]
async fn turns_follow_one_another() {
    let scene = Scene::start().await;
    let mut socket = connect(&scene).await;
    let first = ask(&mut socket, &creating(SIM, "hi there")).await;
    assert_eq!(first["output"][0]["content"][0]["text"], "hi there");
    let mut next = creating(SIM, "and you?");
    next["previous_response_id"] = first["id"].clone();
    let second = ask(&mut socket, &next).await;
    assert_ne!(first["id"], second["id"]);
    // Each turn is a request with its own id, charge and usage row.
    for response in [&first, &second] {
        let request = response["id"].as_str().unwrap().replace("resp_", "req_");
        let row = scene.row(&request).await;
        assert_eq!(row["endpoint"], RESPONSES);
        assert_eq!(row["cost"], response["usage"]["cost"], "{row}");
    }
    socket.close(None).await.unwrap();
    scene.finish().await;
}

#[tokio::test]
async fn the_latest_response_is_known_although_it_is_not_stored() {
    let scene = Scene::start().await;
    let mut socket = connect(&scene).await;
    let mut message = creating(FREE, "one");
    message["store"] = json!(false);
    scene.upstream.push(Reply::answer(Answer::text("1")));
    let mut last = ask(&mut socket, &message).await;
    for (text, answer) in [("two", "2"), ("three", "3")] {
        message["input"] = json!(text);
        message["previous_response_id"] = last["id"].clone();
        scene.upstream.push(Reply::answer(Answer::text(answer)));
        last = ask(&mut socket, &message).await;
    }
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 5, "{sent}");
    // Another session cannot continue from this response.
    let mut other = connect(&scene).await;
    message["previous_response_id"] = last["id"].clone();
    say(&mut other, &message).await;
    let refused = hear(&mut other).await.unwrap();
    assert_eq!(
        error_of(&refused),
        (404, "previous_response_not_found", Some("previous_response_id"))
    );
    drop((socket, other));
    scene.finish().await;
}

#[tokio::test]
async fn a_failed_turn_discards_the_response_it_continued() {
    let scene = Scene::start().await;
    let mut socket = connect(&scene).await;
    let gone = (404, "previous_response_not_found", Some("previous_response_id"));
    let stray = json!([{"type": "function_call_output", "call_id": "call_unknown", "output": "x"}]);
    for (members, expected) in [
        (
            json!({"input": stray}),
            (400, "invalid_parameter", Some("input[0].call_id")),
        ),
        (
            json!({"temperature": 9}),
            (400, "invalid_parameter", Some("temperature")),
        ),
        (
            json!({"input": "[[sim error=overloaded]]"}),
            (503, "overloaded", None),
        ),
    ] {
        let mut message = creating(SIM, "one");
        message["store"] = json!(false);
        let first = ask(&mut socket, &message).await;
        message["input"] = json!("two");
        message["previous_response_id"] = first["id"].clone();
        say(&mut socket, &with(message.clone(), members)).await;
        assert_eq!(error_of(&hear(&mut socket).await.unwrap()), expected);
        say(&mut socket, &message).await;
        assert_eq!(error_of(&hear(&mut socket).await.unwrap()), gone);
    }
    // A failed turn that continues from no response leaves the latest response available.
    let mut message = creating(SIM, "one");
    message["store"] = json!(false);
    let first = ask(&mut socket, &message).await;
    say(&mut socket, &with(message.clone(), json!({"temperature": 9}))).await;
    assert_eq!(error_of(&hear(&mut socket).await.unwrap()).0, 400);
    message["previous_response_id"] = first["id"].clone();
    ask(&mut socket, &message).await;
    socket.close(None).await.unwrap();
    scene.finish().await;
}

#[tokio::test]
async fn bad_messages_are_answered_and_the_session_continues() {
    let scene = Scene::start().await;
    let mut socket = connect(&scene).await;
    let mut cold = creating(SIM, "x");
    cold["temperature"] = json!(9);
    let mut behind = creating(SIM, "x");
    behind["background"] = json!(true);
    for (message, expected) in [
        (json!("text"), (400, "invalid_json", None)),
        (json!({"model": SIM}), (400, "invalid_parameter", Some("type"))),
        (
            json!({"type": "response.steer"}),
            (400, "invalid_parameter", Some("type")),
        ),
        (
            json!({"type": "response.create"}),
            (400, "missing_required_parameter", Some("model")),
        ),
        (creating("no/model", "x"), (404, "model_not_found", Some("model"))),
        (cold, (400, "invalid_parameter", Some("temperature"))),
        (behind, (400, "unsupported_parameter", Some("background"))),
    ] {
        say(&mut socket, &message).await;
        let refused = hear(&mut socket).await.unwrap();
        assert_eq!(error_of(&refused), expected, "{message}");
    }
    say(
        &mut socket,
        &creating(SIM, "[[sim tokens=4 error=upstream_error]]"),
    )
    .await;
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "response.failed") {
        let event = hear(&mut socket).await.unwrap();
        kinds.push(event["type"].as_str().unwrap().to_owned());
        assert_ne!(kinds.last().unwrap(), "response.completed");
        if kinds.last().unwrap() == "error" && kinds.len() == 1 {
            break;
        }
    }
    ask(&mut socket, &creating(SIM, "still here")).await;
    drop(socket);
    scene.finish().await;
}

#[tokio::test]
async fn one_response_at_a_time() {
    let scene = Scene::start().await;
    let mut socket = connect(&scene).await;
    let gate = Gate::new();
    scene
        .upstream
        .push(Reply::answer(Answer::words(3)).hold_head(&gate));
    say(&mut socket, &creating(MODEL, "first")).await;
    scene.upstream.wait_for_requests(1).await;
    gate.open();
    ended(&{
        let mut events = Vec::new();
        loop {
            let event = hear(&mut socket).await.unwrap();
            let is_end = event["type"] == "response.completed";
            events.push(event);
            if is_end {
                break events;
            }
        }
    });
    drop(socket);
    scene.finish().await;
}

#[tokio::test]
async fn a_session_requires_a_key() {
    let scene = Scene::start().await;
    let status = |result: Result<Socket, tungstenite::Error>| match result {
        Err(tungstenite::Error::Http(response)) => response.status().as_u16(),
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert_eq!(status(try_connect(&scene, &[]).await), 401);
    assert_eq!(
        status(try_connect(&scene, &[("x-api-key", "sk-service-x")]).await),
        401
    );
    let key = scene.key.secret.as_str();
    let host = scene.gateway.address().to_string();
    let page = [("x-api-key", key), ("origin", "https://evil.example")];
    assert_eq!(status(try_connect(&scene, &page).await), 403);
    let own = format!("http://{host}");
    try_connect(&scene, &[("x-api-key", key), ("origin", &own)])
        .await
        .unwrap();
    let plain = scene.client().send(&Request::get(RESPONSES).key(key)).await;
    assert_error("no upgrade", &plain, "method_not_allowed", None);
    assert_eq!(plain.header("allow"), Some("POST"));
    scene.finish().await;
}

#[tokio::test]
async fn the_sessions_of_an_account_are_limited() {
    let scene = Scene::start().await;
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(connect(&scene).await);
    }
    let bearer = format!("Bearer {}", scene.key.secret);
    let refused = try_connect(&scene, &[("authorization", &bearer)]).await;
    match refused {
        Err(tungstenite::Error::Http(response)) => assert_eq!(response.status(), 429),
        other => panic!("{:?}", other.map(|_| ())),
    }
    // A closed session no longer counts towards the limit.
    let mut closed = open.pop().unwrap();
    closed.close(None).await.unwrap();
    while closed.next().await.is_some_and(|message| message.is_ok()) {}
    let mut again = connect(&scene).await;
    ask(&mut again, &creating(SIM, "hi")).await;
    scene.finish().await;
}

#[tokio::test]
async fn a_revoked_key_ends_with_the_next_turn_and_no_credits_are_a_402() {
    let scene = Scene::start().await;
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await.secret;
    let mut socket = try_connect(&scene, &[("x-api-key", &key)]).await.unwrap();
    say(&mut socket, &creating(MODEL, "x")).await;
    let refused = hear(&mut socket).await.unwrap();
    assert_eq!(error_of(&refused), (402, "insufficient_credits", None));
    drop(socket);
    scene.finish().await;
}

#[tokio::test]
async fn a_stop_waits_for_the_turn_and_closes_the_session() {
    let mut scene = Scene::start().await;
    let mut socket = connect(&scene).await;
    ask(&mut socket, &creating(SIM, "hi")).await;
    scene.gateway.signal("TERM").await;
    assert_eq!(hear(&mut socket).await, None);
    assert_eq!(scene.gateway.wait_for_exit().await, Some(0));
    scene.gateway.restart().await;
    scene.finish().await;
}

/// The `x-max-cost` of the handshake applies to each response.
#[tokio::test]
async fn the_cost_limit_of_a_handshake_applies_to_every_response() {
    let scene = Scene::start().await;
    let bearer = format!("Bearer {}", scene.key.secret);
    let bad = try_connect(&scene, &[("authorization", &bearer), ("x-max-cost", "much")]).await;
    let tungstenite::Error::Http(refused) = bad.unwrap_err() else {
        panic!("the handshake went wrong in another way")
    };
    assert_eq!(refused.status(), 400);
    let body = |text: &str| with(creating(PLAIN, text), json!({"store": false}));
    let quoted = json!({"endpoint": RESPONSES, "request": {
        "model": PLAIN, "input": "hi", "store": false, "stream": true, "max_output_tokens": 20
    }});
    let quote = scene
        .client()
        .post_json("/v1/quote", &scene.key.secret, &quoted)
        .await
        .json();
    let allowed = nanos(&quote["most"]);
    let allowing = [("authorization", &*bearer), ("x-max-cost", &*credits(allowed))];
    let mut socket = try_connect(&scene, &allowing).await.unwrap();
    for _ in 0..2 {
        scene.upstream.push(Reply::answer(Answer::words(200)));
        let response = ask(&mut socket, &body("hi")).await;
        assert_eq!(
            response["incomplete_details"]["reason"], "max_output_tokens",
            "{response}"
        );
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        let cap = sent["max_tokens"].as_i64().unwrap();
        assert!((16..100).contains(&cap), "{sent}");
        let cost = nanos(&response["usage"]["cost"]);
        assert!(cost > 0 && cost <= allowed, "{response}");
    }
    let asked = scene.upstream.request_count();
    say(&mut socket, &body(&"long ".repeat(100))).await;
    let refused = hear(&mut socket).await.unwrap();
    assert_eq!(
        error_of(&refused),
        (422, "parameter_out_of_range", Some("x-max-cost"))
    );
    assert_eq!(scene.upstream.request_count(), asked);
    drop(socket);
    scene.finish().await;
}
