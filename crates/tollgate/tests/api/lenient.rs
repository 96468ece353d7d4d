//! Keys that are lenient: what a model cannot use is left out and named, where other keys are refused.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};

use crate::scene::{CHAT, Scene, with};

/// A model that calls tools.
const ABLE: &str = "acme/able";
const MESSAGES: &str = "/v1/messages";

/// A scene whose key is lenient, and the id of that key.
async fn scene() -> (Scene, String) {
    let model = format!(
        "[models.\"{ABLE}\"]\ntargets = [\"northwind/able-v1\"]\nprices = {{ input = \"1\", output = \"1\" }}\n\
         limits = {{ max_output_tokens = 4096 }}\ntools = true\nstructured_output = \"none\"\n"
    );
    let scene = Scene::start_with(&model).await;
    let id = keys(&scene).await[0]["id"].as_str().unwrap().to_owned();
    set_compat(&scene, &id, "lenient").await;
    (scene, id)
}

async fn keys(scene: &Scene) -> Value {
    let list = ["keys", "list", "--account", &scene.account];
    scene.gateway.command_line().run(&list).await
}

pub async fn set_compat(scene: &Scene, id: &str, compat: &str) {
    let command = ["keys", "set-compat", id, compat];
    scene.gateway.command_line().run(&command).await;
}

async fn post(scene: &Scene, path: &str, body: &Value) -> Response {
    scene
        .client()
        .send(&Request::json(path, body).key(&scene.key.secret))
        .await
}

fn asking(members: Value) -> Value {
    with(
        json!({"model": ABLE, "max_tokens": 200, "messages": [{"role": "user", "content": "Hi"}]}),
        members,
    )
}

/// Refuses a strict key with this parameter; answers what a lenient one is served, and what is told to be left out.
async fn served(scene: &Scene, id: &str, path: &str, members: Value, param: &str) -> (Value, Vec<String>) {
    let body = asking(members);
    set_compat(scene, id, "strict").await;
    let refused = post(scene, path, &body).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!(param)),
        "{}",
        refused.text()
    );
    set_compat(scene, id, "lenient").await;
    let response = post(scene, path, &body).await;
    assert_eq!(response.status, 200, "{body}: {}", response.text());
    let ignored = response.header("x-tollgate-ignored").unwrap_or_default();
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    (sent, ignored.split(',').map(str::to_owned).collect())
}

#[tokio::test]
async fn chat_completions_go_without_what_the_model_cannot_use() {
    let (scene, id) = scene().await;
    let function = json!({"type": "function", "function": {"name": "f"}});
    for kind in ["web_search", "code_interpreter", "mcp", "namespace", "computer"] {
        let tools = json!([{"type": kind, "name": "x"}, function, {"type": "web_search"}]);
        let (sent, ignored) = served(&scene, &id, CHAT, json!({"tools": tools}), "tools[0].type").await;
        assert_eq!(sent["tools"], json!([function]), "{kind}");
        assert_eq!(ignored, ["tools[0]", "tools[2]"], "{kind}");
    }
    let members =
        json!({"tools": [{"type": "web_search"}], "tool_choice": "auto", "colour": "red", "seed": 7});
    let (sent, mut ignored) = served(&scene, &id, CHAT, members, "tools[0].type").await;
    ignored.sort_unstable();
    assert_eq!(ignored, ["colour", "tools[0]"]);
    assert_eq!(
        (&sent["seed"], &sent["messages"][0]["content"]),
        (&json!(7), &json!("Hi"))
    );
    for gone in ["tools", "tool_choice", "colour"] {
        assert_eq!(sent[gone], Value::Null, "{gone}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn messages_go_without_what_the_model_cannot_use() {
    let (scene, id) = scene().await;
    let tool = json!({"name": "f", "input_schema": {"type": "object"}});
    for kind in [
        "web_search_20250305",
        "code_execution_20250825",
        "computer_20251124",
    ] {
        let members = json!({"tools": [tool, {"type": kind, "name": "x"}]});
        let (sent, ignored) = served(&scene, &id, MESSAGES, members, "tools[1].type").await;
        assert_eq!(sent["tools"].as_array().unwrap().len(), 1, "{sent}");
        assert_eq!(
            (&sent["tools"][0]["function"]["name"], &*ignored),
            (&json!("f"), &["tools[1]".to_owned()][..])
        );
    }
    let members =
        json!({"mcp_servers": [{"type": "url", "name": "x", "url": "https://example.com"}], "colour": "red"});
    let (_, mut ignored) = served(&scene, &id, MESSAGES, members, "mcp_servers").await;
    ignored.sort_unstable();
    assert_eq!(ignored, ["colour", "mcp_servers"]);
    let count = format!("{MESSAGES}/count_tokens");
    let body = asking(json!({"tools": [tool, {"type": "web_search_20250305", "name": "x"}]}));
    let counted = post(&scene, &count, &body).await;
    assert_eq!(
        (counted.status, counted.header("x-tollgate-ignored")),
        (200, Some("tools[1]"))
    );
    scene.finish().await;
}

#[tokio::test]
async fn what_was_asked_for_is_never_left_out() {
    let (scene, _) = scene().await;
    for (path, members, param) in [
        (CHAT, json!({"temperature": 9}), "temperature"),
        (CHAT, json!({"messages": []}), "messages"),
        (
            CHAT,
            json!({"tools": [{"type": "function"}]}),
            "tools[0].function",
        ),
        (
            CHAT,
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}}),
            "response_format",
        ),
        (
            CHAT,
            json!({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}),
            "tool_choice.type",
        ),
        (CHAT, json!({"a\u{e9}b": 1}), "a\u{e9}b"),
        (MESSAGES, json!({"top_k": 3}), "top_k"),
        (MESSAGES, json!({"inference_geo": "us"}), "inference_geo"),
        (MESSAGES, json!({"thread": {"type": "create"}}), "thread"),
        (
            MESSAGES,
            json!({"tools": [{"type": "web_search_20250305", "name": "w"}], "tool_choice": {"type": "tool", "name": "w"}}),
            "tool_choice",
        ),
    ] {
        let response = post(&scene, path, &asking(members)).await;
        assert_eq!(
            (response.status, &response.json()["error"]["param"]),
            (400, &json!(param)),
            "{}",
            response.text()
        );
    }
    let many: serde_json::Map<String, Value> = (0..17).map(|n| (format!("x{n}"), json!(n))).collect();
    let response = post(&scene, CHAT, &asking(Value::Object(many))).await;
    assert_eq!(response.status, 400, "sixteen fields go, and no more");
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn keys_are_strict_unless_somebody_says_otherwise() {
    let scene = Scene::start().await;
    let create = [
        "keys",
        "create",
        "--account",
        &scene.account,
        "--compat",
        "lenient",
    ];
    scene.gateway.command_line().run(&create).await;
    let listed = keys(&scene).await;
    let mut kinds: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["compat"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["lenient", "strict"]);
    scene.finish().await;
}
