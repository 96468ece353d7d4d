//! Answers with a shape that the provider does not enforce: validated, repaired once, and not paid
//! if the repair fails.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Gateway;
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::upstream::{Answer, FakeUpstream, Reply, Usage};

use crate::messages::events_of;
use crate::scene::{
    BINARY, CHAT, GRANTED, PROVIDER_KEY, Scene, assert_error, assert_hides_provider, credits, with,
};

const MESSAGES: &str = "/v1/messages";
/// A model whose provider supports `json_object` and no schemas.
const LOOSE: &str = "acme/loose";
/// A model whose provider uses the Messages format and supports only schemas.
const NATIVE: &str = "acme/native";
/// Price of one token of both models, in nano-credits.
const PRICE: i64 = 1_000;

async fn scene() -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let model = |id: &str, target: &str| {
        format!(
            "[models.\"{id}\"]\ntargets = [\"{target}/m-1\"]\nprices = {{ input = \"1\", output = \"1\" }}\n\
             limits = {{ context_window = 200000, max_output_tokens = 4096 }}\nstructured_output = \"json_schema\"\n"
        )
    };
    let provider = |preset: &str| {
        format!(
            "[providers.{preset}]\nbase_url = \"{}\"\napi_key_env = \"PROVIDER_KEY\"\n",
            upstream.base_url()
        )
    };
    let config = [
        provider("deepseek"),
        provider("anthropic"),
        model(LOOSE, "deepseek"),
        model(NATIVE, "anthropic"),
    ]
    .concat();
    let options = Scene::options(&upstream, Default::default(), &config);
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

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

fn by_schema() -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "s", "schema": schema()}})
}

fn by_mode() -> Value {
    json!({"type": "json_object"})
}

fn chat(model: &str, format: Value, members: Value) -> Value {
    let said = json!([{"role": "user", "content": "a number"}]);
    with(
        json!({"model": model, "messages": said, "max_tokens": 100, "response_format": format}),
        members,
    )
}

async fn post(scene: &Scene, path: &str, body: &Value) -> Response {
    let request = Request::json(path, body).key(&scene.key.secret);
    scene.client().send(&request).await
}

/// Builds a reply with this text and a report of 40 input and 30 output tokens.
fn reply(text: &str) -> Reply {
    let usage = Usage::Fixed {
        prompt: 40,
        completion: 30,
    };
    Reply::answer(Answer::text(text).usage(usage))
}

/// Returns the text of a whole answer or a stream, in either format.
fn text_of(path: &str, response: &Response, stream: bool) -> String {
    assert_eq!(response.status, 200, "{}", response.text());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (path, stream) {
        (CHAT, false) => text(&response.json()["choices"][0]["message"]["content"]),
        (CHAT, true) => {
            let mut events = response.events();
            assert!(
                events.pop().is_some_and(|last| last.is_done()),
                "{}",
                response.text()
            );
            events
                .iter()
                .map(|event| text(&event.json()["choices"][0]["delta"]["content"]))
                .collect()
        }
        (_, false) => text(&response.json()["content"][0]["text"]),
        (_, true) => {
            let events = events_of(response);
            assert_eq!(events.last().unwrap()["type"], "message_stop");
            events.iter().map(|event| text(&event["delta"]["text"])).collect()
        }
    }
}

/// Returns the path and body of every way to request structured output.
fn requests() -> Vec<(&'static str, Value)> {
    let mut requests = Vec::new();
    for stream in [false, true] {
        for (model, format) in [(LOOSE, by_schema()), (NATIVE, by_mode())] {
            let body = chat(model, format, json!({ "stream": stream }));
            requests.push((CHAT, body.clone()));
            requests.push((MESSAGES, body));
        }
    }
    requests
}

#[tokio::test]
async fn an_answer_that_fits_is_validated() {
    let scene = scene().await;
    for (path, body) in requests() {
        scene.upstream.push(reply("```json\n{\"n\": 7}\n```"));
        let response = post(&scene, path, &body).await;
        let what = format!("{path} {body}");
        assert_eq!(
            text_of(path, &response, body["stream"] == true),
            "{\"n\": 7}",
            "{what}"
        );
        assert_eq!(
            response.header("x-tollgate-structured"),
            Some("validated"),
            "{what}"
        );
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (&row["usage"]["input_tokens"], &row["usage"]["output_tokens"]),
            (&json!(40), &json!(30)),
            "{row}"
        );
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert_ne!(sent["stream"], true, "{sent}");
        let first = sent["messages"][0].to_string() + &sent["system"].to_string();
        assert!(first.contains("one JSON object"), "the shape is sent: {sent}");
        if body["model"] == LOOSE {
            assert_eq!(sent["response_format"], by_mode(), "{sent}");
            assert!(first.contains("integer"), "with the schema: {sent}");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_repaired_once_and_both_are_paid() {
    let scene = scene().await;
    for (path, body) in requests() {
        scene.upstream.push(reply("the number is seven"));
        scene.upstream.push(reply("{\"n\": 7}"));
        let response = post(&scene, path, &body).await;
        let what = format!("{path} {body}");
        assert_eq!(
            text_of(path, &response, body["stream"] == true),
            "{\"n\": 7}",
            "{what}"
        );
        assert_eq!(
            response.header("x-tollgate-structured"),
            Some("repaired"),
            "{what}"
        );
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (&row["usage"]["input_tokens"], &row["usage"]["output_tokens"]),
            (&json!(80), &json!(60)),
            "{row}"
        );
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        let messages = sent["messages"].as_array().unwrap();
        let [.., answer, fault] = messages.as_slice() else {
            panic!("{sent}");
        };
        assert_eq!(answer["role"], "assistant", "{sent}");
        assert!(answer.to_string().contains("the number is seven"), "{sent}");
        assert!(
            fault.to_string().contains("not JSON"),
            "the prompt names the fault: {sent}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn an_answer_that_never_fits_is_an_error_and_not_paid() {
    let scene = scene().await;
    for (path, body) in requests() {
        let before = scene.upstream.request_count();
        scene.upstream.push(reply("{\"n\": \"seven"));
        scene.upstream.push(reply("[]"));
        let response = post(&scene, path, &body).await;
        if path == CHAT {
            assert_error("twice", &response, "upstream_error", None);
        } else {
            let error = response.message_error();
            assert_eq!((response.status, error.code.as_str()), (502, "upstream_error"));
            assert_hides_provider("twice", &error.message);
        }
        assert_eq!(scene.upstream.request_count() - before, 2, "two attempts");
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (&row["cost"], &row["outcome"]),
            (&json!("0"), &json!("upstream_error")),
            "{row}"
        );
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn a_second_attempt_that_fails_is_not_paid() {
    let scene = scene().await;
    let body = chat(LOOSE, by_schema(), json!({}));
    scene.upstream.push(reply("no"));
    scene.upstream.push(Reply::error(400, "invalid_request", "fake"));
    let response = post(&scene, CHAT, &body).await;
    assert_eq!(response.status, 400, "{}", response.text());
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn the_hold_covers_both_attempts() {
    let scene = scene().await;
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await;
    let body = chat(LOOSE, by_schema(), json!({"max_tokens": 4_000}));
    // One attempt costs at most its bytes and its cap. The balance does not cover a second output.
    let one = (body.to_string().len() as i64 + 1_000 + 4_000) * PRICE;
    scene.gateway.grant(&poor, &credits(one)).await;
    let send = async || {
        scene
            .client()
            .send(&Request::json(CHAT, &body).key(&key.secret))
            .await
    };
    assert_error("covers one", &send().await, "insufficient_credits", None);
    assert_eq!(scene.upstream.request_count(), 0);
    // The missing amount: the second output, and the second input with the first answer in it.
    scene
        .gateway
        .grant(&poor, &credits(4_000 * PRICE + 50_000 * PRICE))
        .await;
    scene.upstream.push(reply("no"));
    scene.upstream.push(reply("{\"n\": 7}"));
    assert_eq!(send().await.header("x-tollgate-structured"), Some("repaired"));
    scene.finish().await;
}

#[tokio::test]
async fn tool_calls_and_cut_answers_stay_unchanged() {
    let scene = scene().await;
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
    scene
        .upstream
        .push(Reply::answer(Answer::calling("f", &json!({}))));
    let response = post(&scene, CHAT, &chat(LOOSE, by_schema(), tools)).await;
    assert_eq!(
        response.json()["choices"][0]["finish_reason"],
        "tool_calls",
        "{}",
        response.text()
    );
    scene
        .upstream
        .push(Reply::answer(Answer::text("{\"n\": ").finish_reason("length")));
    let response = post(&scene, CHAT, &chat(LOOSE, by_schema(), json!({}))).await;
    assert_eq!(
        response.json()["choices"][0]["finish_reason"],
        "length",
        "{}",
        response.text()
    );
    assert_eq!(scene.upstream.request_count(), 2);
    scene.finish().await;
}

#[tokio::test]
async fn a_supported_format_is_forwarded_unchanged() {
    let scene = scene().await;
    for (path, body) in [
        (CHAT, chat(LOOSE, by_mode(), json!({}))),
        (CHAT, chat(NATIVE, by_schema(), json!({}))),
        (MESSAGES, chat(NATIVE, by_schema(), json!({}))),
    ] {
        scene.upstream.push(reply("{\"n\": 7}"));
        let response = post(&scene, path, &body).await;
        assert_eq!(text_of(path, &response, false), "{\"n\": 7}");
        assert_eq!(response.header("x-tollgate-structured"), None);
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert_eq!(sent["messages"].as_array().unwrap().len(), 1, "{sent}");
        assert_eq!(sent["system"], Value::Null, "{sent}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn formats_that_cannot_be_validated_are_refused() {
    let scene = scene().await;
    let of = |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "s", "schema": schema}});
    for (body, code, param) in [
        (
            chat(LOOSE, by_schema(), json!({"n": 2})),
            "unsupported_parameter",
            "n",
        ),
        (
            chat(LOOSE, of(json!({"type": "nonsense"})), json!({})),
            "invalid_parameter",
            "response_format",
        ),
        (
            chat(
                LOOSE,
                of(json!({"$ref": "https://example.com/s.json"})),
                json!({}),
            ),
            "invalid_parameter",
            "response_format",
        ),
    ] {
        assert_error(
            &body.to_string(),
            &post(&scene, CHAT, &body).await,
            code,
            Some(param),
        );
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
