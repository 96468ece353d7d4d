//! Lenient keys: hosted tools, unknown fields and unsupported optional fields are dropped and
//! reported. Requests with other keys are refused.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};

use crate::scene::{CHAT, Scene, with};

/// A model that calls tools.
const ABLE: &str = "acme/able";
const MESSAGES: &str = "/v1/messages";

/// Starts a scene whose key is lenient. Also returns the id of that key.
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

/// Asserts that the request is refused for `param` with a strict key. Returns the upstream body for
/// a lenient key and the names of the ignored fields.
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
async fn chat_completions_drop_unsupported_tools_and_fields() {
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
async fn messages_drop_unsupported_tools_and_fields() {
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

/// Fields that a provider bills outside of tokens are refused. For a lenient key, optional fields
/// and hosted tools are dropped instead.
#[tokio::test]
async fn fields_billed_outside_of_tokens_reach_no_provider() {
    const RESPONSES: &str = "/v1/responses";
    const CONTENT: &str = "/v1/models/acme/able:generateContent";
    let (scene, id) = scene().await;
    let bodies = |path: &str, members: Value| match path {
        RESPONSES => with(json!({"model": ABLE, "input": "Hi"}), members),
        CONTENT => with(json!({"contents": [{"parts": [{"text": "Hi"}]}]}), members),
        _ => asking(members),
    };
    let hosted = |kind: &str| json!({"tools": [{"type": kind, "name": "x"}]});
    for (path, members, param, ignored) in [
        (
            CHAT,
            json!({"web_search_options": {}}),
            "web_search_options",
            Some("web_search_options"),
        ),
        (
            CHAT,
            json!({"moderation": {"model": "m"}}),
            "moderation",
            Some("moderation"),
        ),
        (
            CHAT,
            json!({"service_tier": "priority"}),
            "service_tier",
            Some("service_tier"),
        ),
        (
            CHAT,
            json!({"service_tier": "flex"}),
            "service_tier",
            Some("service_tier"),
        ),
        (
            CHAT,
            json!({"data_sources": []}),
            "data_sources",
            Some("data_sources"),
        ),
        (
            CHAT,
            json!({"search_parameters": {}}),
            "search_parameters",
            Some("search_parameters"),
        ),
        (
            CHAT,
            json!({"plugins": [{"id": "web"}]}),
            "plugins",
            Some("plugins"),
        ),
        (CHAT, hosted("web_search"), "tools[0].type", Some("tools[0]")),
        (
            CHAT,
            json!({"modalities": ["audio"], "audio": {"voice": "a", "format": "wav"}}),
            "modalities",
            None,
        ),
        (
            "/v1/completions",
            json!({"prompt": "Hi", "messages": null, "service_tier": "flex"}),
            "service_tier",
            Some("service_tier"),
        ),
        (
            MESSAGES,
            hosted("web_search_20250305"),
            "tools[0].type",
            Some("tools[0]"),
        ),
        (
            MESSAGES,
            hosted("web_fetch_20250910"),
            "tools[0].type",
            Some("tools[0]"),
        ),
        (
            MESSAGES,
            hosted("code_execution_20250825"),
            "tools[0].type",
            Some("tools[0]"),
        ),
        (MESSAGES, json!({"speed": "fast"}), "speed", Some("speed")),
        (
            MESSAGES,
            json!({"mcp_servers": [{"type": "url", "name": "x", "url": "https://example.com"}]}),
            "mcp_servers",
            Some("mcp_servers"),
        ),
        (MESSAGES, json!({"inference_geo": "us"}), "inference_geo", None),
        (MESSAGES, json!({"container": "c"}), "container", None),
        (RESPONSES, hosted("web_search"), "tools[0].type", Some("tools[0]")),
        (
            RESPONSES,
            hosted("file_search"),
            "tools[0].type",
            Some("tools[0]"),
        ),
        (
            RESPONSES,
            hosted("code_interpreter"),
            "tools[0].type",
            Some("tools[0]"),
        ),
        (
            RESPONSES,
            hosted("image_generation"),
            "tools[0].type",
            Some("tools[0]"),
        ),
        (RESPONSES, hosted("mcp"), "tools[0].type", Some("tools[0]")),
        (
            RESPONSES,
            json!({"service_tier": "priority"}),
            "service_tier",
            Some("service_tier"),
        ),
        (
            RESPONSES,
            json!({"moderation": {"model": "m"}}),
            "moderation",
            Some("moderation"),
        ),
        (
            CONTENT,
            json!({"tools": [{"googleSearch": {}}]}),
            "tools[0].googleSearch",
            Some("tools[0]"),
        ),
        (
            CONTENT,
            json!({"tools": [{"codeExecution": {}}]}),
            "tools[0].codeExecution",
            Some("tools[0]"),
        ),
        (
            CONTENT,
            json!({"tools": [{"urlContext": {}}]}),
            "tools[0].urlContext",
            Some("tools[0]"),
        ),
        (
            CONTENT,
            json!({"generationConfig": {"speechConfig": {}}}),
            "generationConfig.speechConfig",
            None,
        ),
        (CONTENT, json!({"serviceTier": "priority"}), "serviceTier", None),
    ] {
        let mut body = bodies(path, members);
        if path == "/v1/completions" {
            body.as_object_mut().unwrap().remove("messages");
        }
        for compat in ["strict", "standard", "lenient"] {
            set_compat(&scene, &id, compat).await;
            let before = scene.upstream.request_count();
            let response = post(&scene, path, &body).await;
            match ignored.filter(|_| compat == "lenient") {
                Some(name) => {
                    let named = response.header("x-tollgate-ignored").unwrap_or_default();
                    assert_eq!(
                        (response.status, named),
                        (200, name),
                        "{body}: {}",
                        response.text()
                    );
                    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
                    for field in body.as_object().unwrap().keys() {
                        let is_asked = ["model", "messages", "max_tokens", "prompt"].contains(&&**field);
                        assert!(is_asked || sent[field].is_null(), "{field}: {sent}");
                    }
                }
                None => {
                    let error = &response.json()["error"];
                    assert_eq!(
                        (response.status, &error["param"]),
                        (400, &json!(param)),
                        "{compat}: {body}"
                    );
                    assert_eq!(scene.upstream.request_count(), before, "{body}");
                }
            }
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn essential_fields_are_never_dropped() {
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
    assert_eq!(response.status, 400, "at most sixteen fields are dropped");
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn keys_have_standard_compatibility_by_default() {
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
    assert_eq!(kinds, ["lenient", "standard"]);
    scene.finish().await;
}
