//! Requests that providers receive, by the abilities of each model in the default catalog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_testkit::gateway::Gateway;
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::upstream::{FakeUpstream, Reply};

use crate::lenient::set_compat;
use crate::scene::{BINARY, CHAT, PROVIDER_KEY, Scene, with};

const MESSAGES: &str = "/v1/messages";

/// Reasoning fields that a model receives for effort `medium` and for effort `none`.
enum Reasons {
    /// Claude: `thinking` and `output_config`.
    Claude(Value, Value),
    /// Gemini: `thinkingConfig`.
    Gemini(Value, Value),
}

/// Lists every reasoning chat model of Anthropic and Google with its reasoning fields. The flag is
/// true if the model accepts system messages within the conversation.
fn table() -> Vec<(&'static str, Reasons, bool)> {
    let adaptive = |effort: &str| json!([{"type": "adaptive"}, {"effort": effort}]);
    let off = || json!([{"type": "disabled"}, null]);
    let stops = || Reasons::Claude(adaptive("medium"), off());
    let always = || Reasons::Claude(adaptive("medium"), adaptive("low"));
    let budget = || {
        let enabled = json!([{"type": "enabled", "budget_tokens": 2_000}, null]);
        Reasons::Claude(enabled, off())
    };
    let level =
        |none: Value| Reasons::Gemini(json!({"includeThoughts": true, "thinkingLevel": "MEDIUM"}), none);
    let gemini = || level(json!({"thinkingBudget": 0}));
    vec![
        ("anthropic/claude-fable-5.1", always(), true),
        ("anthropic/claude-fable-5", always(), true),
        ("anthropic/claude-opus-5.5", always(), true),
        ("anthropic/claude-opus-5", stops(), true),
        ("anthropic/claude-opus-4.8", stops(), true),
        ("anthropic/claude-opus-4.7", stops(), false),
        ("anthropic/claude-opus-4.6", stops(), false),
        ("anthropic/claude-sonnet-5.5", stops(), true),
        ("anthropic/claude-sonnet-5", stops(), false),
        ("anthropic/claude-sonnet-4.6", stops(), false),
        ("anthropic/claude-haiku-5.5", stops(), true),
        ("anthropic/claude-haiku-4.5", budget(), false),
        ("google/gemini-4-argon", gemini(), false),
        ("google/gemini-3.8-flash", gemini(), false),
        ("google/gemini-3.7-flash", gemini(), false),
        ("google/gemini-3.6-flash", gemini(), false),
        ("google/gemini-3.5-flash", gemini(), false),
        ("google/gemini-3.5-flash-lite", gemini(), false),
        (
            "google/gemini-3.1-pro-preview",
            level(json!({"includeThoughts": true, "thinkingLevel": "LOW"})),
            false,
        ),
        ("google/gemini-3.1-flash-lite", gemini(), false),
        ("google/gemini-3-flash-preview", gemini(), false),
    ]
}

async fn scene() -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let base_url = upstream.base_url();
    let mut config = String::new();
    for preset in ["anthropic", "gemini"] {
        config += &format!(
            "[providers.{preset}]\npreset = \"{preset}\"\nbase_url = \"{base_url}\"\napi_key_env = \"PROVIDER_KEY\"\n"
        );
    }
    config += &format!(
        "[providers.bedrock]\nbase_url = \"{base_url}\"\nregion = \"us-east-1\"\napi_key_env = \"PROVIDER_KEY\"\n\
         [models.\"acme/tuned\"]\ntargets = [\"anthropic/claude-haiku-4-5-20251001\"]\n{COMMON}\
         [models.\"acme/cloud-haiku\"]\ntargets = [\"bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0\"]\n{COMMON}\
         [models.\"acme/cloud-opus\"]\ntargets = [\"bedrock/global.anthropic.claude-opus-5-5\"]\n{COMMON}\
         [models.\"acme/mixed\"]\ntargets = [\"anthropic/claude-opus-5\", \"gemini/gemini-3.8-flash\"]\n{COMMON}\
         [models.\"acme/claudes\"]\ntargets = [\"anthropic/claude-opus-5\", \"anthropic/claude-haiku-4-5-20251001\"]\n{COMMON}\
         [models.\"acme/stated\"]\ntargets = [\"anthropic/claude-x\"]\nreasoning_control = \"effort\"\n\
         reasoning_efforts = [\"low\", \"max\"]\nsystem_turns = true\n{COMMON}"
    );
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

const COMMON: &str = "prices = { input = \"1\", output = \"1\" }\nlimits = { max_output_tokens = 8192 }\n\
                      tools = true\nreasoning = true\ninput = [\"text\", \"image\"]\n";

async fn post(scene: &Scene, path: &str, body: &Value) -> Response {
    let request = Request::json(path, body).key(&scene.key.secret);
    scene.client().send(&request).await
}

/// Posts a request. Returns the body that the upstream received and the names of the ignored
/// fields.
async fn served(scene: &Scene, path: &str, body: &Value) -> (Value, Vec<String>) {
    let response = post(scene, path, body).await;
    assert_eq!(response.status, 200, "{body}: {}", response.text());
    let ignored = response
        .header("x-tollgate-ignored")
        .unwrap_or_default()
        .split(',');
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    (
        sent,
        ignored
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

async fn refused(scene: &Scene, path: &str, body: &Value, param: &str) {
    set_compat(scene, &scene.key.id, "strict").await;
    let before = scene.upstream.request_count();
    let response = post(scene, path, body).await;
    let error = &response.json()["error"];
    assert_eq!(
        (response.status, &error["code"], &error["param"]),
        (400, &json!("unsupported_parameter"), &json!(param)),
        "{body}"
    );
    assert_eq!(scene.upstream.request_count(), before, "{body}");
    set_compat(scene, &scene.key.id, "standard").await;
}

fn reasoning_of(sent: &Value) -> (&Value, &Value) {
    (&sent["thinking"], &sent["output_config"])
}

#[tokio::test]
async fn every_catalog_model_receives_the_fields_it_supports() {
    let scene = scene().await;
    let listed = scene.client().get("/v1/models", &scene.key.secret).await.json();
    let ids = listed["data"].as_array().unwrap().iter().filter(|model| {
        let id = model["id"].as_str().unwrap();
        let is_covered = id.starts_with("anthropic/") || id.starts_with("google/gemini");
        is_covered && model["type"] == "chat"
    });
    let mut ids: Vec<&str> = ids.map(|model| model["id"].as_str().unwrap()).collect();
    let table = table();
    let mut known: Vec<&str> = table.iter().map(|(id, ..)| *id).collect();
    ids.sort_unstable();
    known.sort_unstable();
    assert_eq!(ids, known, "the table lists every such model of the catalog");

    let turns = json!([
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
        {"role": "system", "content": "three"}, {"role": "user", "content": "four"},
    ]);
    for (id, reasons, takes_turns) in table {
        let asked = |effort: &str| {
            json!({"model": id, "max_completion_tokens": 4_000, "reasoning_effort": effort,
                "messages": [{"role": "user", "content": "hi"}]})
        };
        let (medium, _) = served(&scene, CHAT, &asked("medium")).await;
        let (none, ignored) = served(&scene, CHAT, &asked("none")).await;
        let is_off = match &reasons {
            Reasons::Claude(expected, off) => {
                assert_eq!(reasoning_of(&medium), (&expected[0], &expected[1]), "{id}");
                assert_eq!(reasoning_of(&none), (&off[0], &off[1]), "{id}");
                off[0]["type"] == "disabled"
            }
            Reasons::Gemini(expected, off) => {
                let thinking = |sent: &Value| sent["generationConfig"]["thinkingConfig"].clone();
                assert_eq!(
                    (thinking(&medium), thinking(&none)),
                    (expected.clone(), off.clone()),
                    "{id}"
                );
                off["thinkingBudget"] == 0
            }
        };
        let named: &[&str] = if is_off { &[] } else { &["reasoning_effort"] };
        assert_eq!(ignored, named, "{id}");

        let body = json!({"model": id, "max_completion_tokens": 4_000, "messages": turns});
        let (sent, ignored) = served(&scene, CHAT, &body).await;
        let reminder = "<system-reminder>\nthree\n</system-reminder>";
        match (&reasons, takes_turns) {
            (Reasons::Claude(..), true) => {
                let expected = json!([
                    {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
                    {"role": "user", "content": "four"}, {"role": "system", "content": "three"},
                ]);
                assert_eq!(
                    (&sent["messages"], &*ignored),
                    (&expected, &[][..] as &[String]),
                    "{id}"
                );
            }
            (Reasons::Claude(..), false) => {
                let blocks = json!([{"type": "text", "text": reminder}, {"type": "text", "text": "four"}]);
                let expected = json!([
                    {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
                    {"role": "user", "content": blocks},
                ]);
                assert_eq!(
                    (&sent["messages"], &*ignored),
                    (&expected, &["messages.role".to_owned()][..]),
                    "{id}"
                );
                refused(&scene, CHAT, &body, "messages[2].role").await;
            }
            (Reasons::Gemini(..), _) => {
                let expected = json!([{"text": reminder}, {"text": "four"}]);
                assert_eq!(
                    (&sent["contents"][2]["parts"], &*ignored),
                    (&expected, &["messages.role".to_owned()][..])
                );
                refused(&scene, CHAT, &body, "messages[2].role").await;
            }
        }
    }
    scene.finish().await;
}

/// Claude models that accept `temperature` and `top_p`.
const SAMPLED: [&str; 3] = [
    "anthropic/claude-opus-4.6",
    "anthropic/claude-sonnet-4.6",
    "anthropic/claude-haiku-4.5",
];

#[tokio::test]
async fn sampling_parameters_are_left_out_for_models_that_refuse_them() {
    let scene = scene().await;
    let claude = table()
        .into_iter()
        .filter(|(id, ..)| id.starts_with("anthropic/"));
    for (id, ..) in claude {
        let turns = json!([{"role": "user", "content": "hi"}]);
        let sampling = json!({"temperature": 0.2, "top_p": 0.5});
        let body = with(
            json!({"model": id, "max_tokens": 100, "messages": turns}),
            sampling,
        );
        let (sent, ignored) = served(&scene, CHAT, &body).await;
        if SAMPLED.contains(&id) {
            assert_eq!(
                (&sent["temperature"], &sent["top_p"]),
                (&json!(0.2), &json!(0.5)),
                "{id}"
            );
            assert!(ignored.is_empty(), "{id}: {ignored:?}");
            continue;
        }
        assert_eq!(
            (&sent["temperature"], &sent["top_p"]),
            (&Value::Null, &Value::Null),
            "{id}"
        );
        assert_eq!(ignored, ["temperature", "top_p"], "{id}");
        refused(&scene, CHAT, &body, "temperature").await;
    }

    let opus = "anthropic/claude-opus-5";
    let contents = json!([{"role": "user", "parts": [{"text": "hi"}]}]);
    for (config, name) in [
        (
            json!({"generationConfig": {"temperature": 0.2}}),
            "generationConfig.temperature",
        ),
        (
            json!({"generationConfig": {"topP": 0.5}}),
            "generationConfig.topP",
        ),
        (
            json!({"generation_config": {"top_p": 0.5}}),
            "generation_config.top_p",
        ),
    ] {
        let path = format!("/v1/{opus}:generateContent");
        let (sent, ignored) = served(&scene, &path, &with(json!({"contents": contents}), config)).await;
        assert_eq!(
            (&sent["temperature"], &sent["top_p"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(ignored, [name]);
    }
    // In the provider's own format a request is forwarded unchanged.
    let body = json!({"model": opus, "max_tokens": 100, "temperature": 0.2,
        "messages": [{"role": "user", "content": "hi"}]});
    let (sent, ignored) = served(&scene, MESSAGES, &body).await;
    assert_eq!((&sent["temperature"], ignored.len()), (&json!(0.2), 0));
    // Bedrock has other names for the same models.
    let body = json!({"model": "acme/cloud-opus", "max_tokens": 100, "temperature": 0.2,
        "messages": [{"role": "user", "content": "hi"}]});
    let (sent, ignored) = served(&scene, CHAT, &body).await;
    assert_eq!(sent["inferenceConfig"].get("temperature"), None);
    assert_eq!(ignored, ["temperature"]);
    scene.finish().await;
}

#[tokio::test]
async fn reasoning_effort_becomes_a_token_budget_within_the_cap() {
    let scene = scene().await;
    let haiku = "anthropic/claude-haiku-4.5";
    let enabled = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    for (effort, cap, expected) in [
        ("low", 2_000, enabled(1_024)),
        ("medium", 60_000, enabled(8_192)),
        ("max", 60_000, enabled(24_576)),
        ("high", 10_000, enabled(5_000)),
        ("high", 1_025, enabled(1_024)),
    ] {
        for (path, members) in [
            (
                CHAT,
                json!({"reasoning_effort": effort, "max_completion_tokens": cap, "messages": [{"role": "user", "content": "hi"}]}),
            ),
            (
                "/v1/responses",
                json!({"reasoning": {"effort": effort}, "max_output_tokens": cap, "input": "hi"}),
            ),
        ] {
            let (sent, _) = served(&scene, path, &with(json!({"model": haiku}), members)).await;
            let budget =
                json!({"type": sent["thinking"]["type"], "budget_tokens": sent["thinking"]["budget_tokens"]});
            assert_eq!(
                (&budget, &sent["output_config"]),
                (&expected, &Value::Null),
                "{effort} {cap}"
            );
        }
    }
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let body = json!({"model": haiku, "max_completion_tokens": 4_000, "reasoning_effort": "high",
        "messages": [{"role": "user", "content": "hi"}]});
    for members in [
        json!({"max_completion_tokens": 1_024}),
        json!({"temperature": 0.2}),
        json!({"tools": tools, "tool_choice": "required"}),
    ] {
        let body = with(body.clone(), members);
        let (sent, ignored) = served(&scene, CHAT, &body).await;
        assert_eq!(
            (&sent["thinking"], &*ignored),
            (&Value::Null, &["reasoning_effort".to_owned()][..])
        );
        refused(&scene, CHAT, &body, "reasoning_effort").await;
    }
    let (sent, ignored) = served(&scene, CHAT, &with(body, json!({"temperature": 1}))).await;
    assert_eq!((&sent["thinking"], ignored.len()), (&enabled(2_000), 0));
    scene.finish().await;
}

#[tokio::test]
async fn dated_versions_inherit_abilities_and_settings_override_them() {
    let scene = scene().await;
    let ask = |model: &str, effort: &str| {
        json!({"model": model, "max_completion_tokens": 4_000, "reasoning_effort": effort,
            "messages": [{"role": "user", "content": "hi"}]})
    };
    let (sent, _) = served(&scene, CHAT, &ask("acme/tuned", "low")).await;
    assert_eq!(
        sent["thinking"],
        json!({"type": "enabled", "budget_tokens": 1_024})
    );
    let (sent, _) = served(&scene, CHAT, &ask("acme/stated", "medium")).await;
    assert_eq!(
        reasoning_of(&sent),
        (&json!({"type": "adaptive"}), &json!({"effort": "max"}))
    );
    for (model, effort, expected) in [
        (
            "acme/cloud-haiku",
            "low",
            json!({"thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        ),
        (
            "acme/cloud-haiku",
            "none",
            json!({"thinking": {"type": "disabled"}}),
        ),
        (
            "acme/cloud-opus",
            "none",
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ),
        (
            "acme/cloud-opus",
            "xhigh",
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}),
        ),
    ] {
        scene.upstream.push(converse());
        let (sent, _) = served(&scene, CHAT, &ask(model, effort)).await;
        assert_eq!(sent["additionalModelRequestFields"], expected, "{model} {effort}");
    }
    scene.finish().await;
}

fn converse() -> Reply {
    let body = json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}}, "stopReason": "end_turn",
        "usage": {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12},
    });
    Reply::body(200, "application/json", body.to_string())
}

#[tokio::test]
async fn system_messages_in_a_conversation_reach_only_models_that_support_them() {
    let scene = scene().await;
    let body = |model: &str| {
        json!({"model": model, "max_tokens": 200, "messages": [
            {"role": "user", "content": "one"},
            {"role": "system", "content": [{"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": "three"}, {"role": "user", "content": "four"},
            {"role": "system", "content": "five"},
        ]})
    };
    let (sent, ignored) = served(&scene, MESSAGES, &body("anthropic/claude-opus-4.8")).await;
    assert_eq!(sent["messages"], body("")["messages"]);
    assert_eq!(ignored.len(), 0);
    // This model is not in the catalog, and its settings have `system_turns = true`.
    let (sent, _) = served(&scene, MESSAGES, &body("acme/stated")).await;
    assert_eq!(sent["messages"], body("")["messages"]);
    let old = body("anthropic/claude-sonnet-4.6");
    let (sent, ignored) = served(&scene, MESSAGES, &old).await;
    let roles: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "user", "assistant", "user", "user"]);
    assert_eq!(
        (
            &sent["messages"][1]["content"][0],
            &sent["messages"][4]["content"]
        ),
        (
            &json!({"type": "text", "text": "<system-reminder>\ntwo\n</system-reminder>", "cache_control": {"type": "ephemeral"}}),
            &json!("<system-reminder>\nfive\n</system-reminder>")
        )
    );
    assert_eq!(ignored, ["messages.role"]);
    refused(&scene, MESSAGES, &old, "messages[1].role").await;
    scene.finish().await;
}

#[tokio::test]
async fn bedrock_gets_tool_definitions_for_earlier_tool_calls() {
    let scene = scene().await;
    let inert = |name: &str| {
        json!({"toolSpec": {"name": name, "description": "This tool is no longer available. Do not call it.",
            "inputSchema": {"json": {"type": "object", "properties": {}}}}})
    };
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let chat = json!({"model": "acme/cloud-haiku", "max_tokens": 100, "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [call("b", "g"), call("a", "f"), call("c", "f")]},
        {"role": "tool", "tool_call_id": "b", "content": "1"}, {"role": "tool", "tool_call_id": "a", "content": "2"},
        {"role": "tool", "tool_call_id": "c", "content": "3"},
        {"role": "system", "content": "hurry"}, {"role": "user", "content": "sum up"},
    ]});
    let messages = json!({"model": "acme/cloud-haiku", "max_tokens": 100, "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "g", "input": {}}, {"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "1"}, {"type": "tool_result", "tool_use_id": "a", "content": "2"}]},
    ]});
    let mine = json!([{"type": "function", "function": {"name": "mine"}}]);
    for (path, body) in [
        (CHAT, chat.clone()),
        (
            CHAT,
            with(chat.clone(), json!({"tools": mine, "tool_choice": "none"})),
        ),
        (
            CHAT,
            with(chat.clone(), json!({"tools": [], "parallel_tool_calls": true})),
        ),
        (MESSAGES, messages),
    ] {
        scene.upstream.push(converse());
        let (sent, _) = served(&scene, path, &body).await;
        assert_eq!(
            sent["toolConfig"],
            json!({"tools": [inert("f"), inert("g")]}),
            "{body}"
        );
        assert_eq!(
            sent["messages"][2]["content"][0]["toolResult"]["toolUseId"], "b",
            "results come first"
        );
    }
    // No definitions are added to a conversation without tool calls, or beside tools that the model
    // may call.
    for (members, expected) in [
        (
            json!({"messages": [{"role": "user", "content": "hi"}], "tools": mine, "tool_choice": "none"}),
            Value::Null,
        ),
        (
            json!({"tools": mine}),
            json!({"tools": [{"toolSpec": {"name": "mine", "inputSchema": {"json": {"type": "object", "properties": {}}}}}]}),
        ),
    ] {
        scene.upstream.push(converse());
        let (sent, _) = served(&scene, CHAT, &with(chat.clone(), members)).await;
        assert_eq!(sent["toolConfig"], expected);
    }
    scene.finish().await;
}

#[tokio::test]
async fn parallel_tool_call_settings_are_ignored_where_providers_lack_them() {
    let scene = scene().await;
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let flat = json!([{"type": "function", "name": "f"}]);
    let asked = json!([{"role": "user", "content": "hi"}]);
    for model in ["google/gemini-3.5-flash", "acme/cloud-haiku"] {
        for (path, body, param) in [
            (
                CHAT,
                json!({"messages": asked, "tools": tools, "parallel_tool_calls": false}),
                "parallel_tool_calls",
            ),
            (
                "/v1/responses",
                json!({"input": "hi", "tools": flat, "parallel_tool_calls": false}),
                "parallel_tool_calls",
            ),
            (
                MESSAGES,
                json!({"max_tokens": 100, "messages": asked, "tools": [{"name": "f", "input_schema": {"type": "object"}}],
                    "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
                "tool_choice.disable_parallel_tool_use",
            ),
        ] {
            let body = with(body, json!({"model": model}));
            if model.starts_with("acme/") {
                scene.upstream.push(converse());
            }
            let (_, ignored) = served(&scene, path, &body).await;
            assert!(ignored.contains(&param.to_owned()), "{body}: {ignored:?}");
            refused(&scene, path, &body, param).await;
        }
    }
    scene.finish().await;
}

/// A fallback receives a request that it supports, and the response header lists the dropped
/// fields. A strict key has no such fallback.
#[tokio::test]
async fn fallbacks_get_adapted_requests() {
    let scene = scene().await;
    let is_failing = Arc::new(AtomicBool::new(false));
    let fails = is_failing.clone();
    scene.upstream.set_judge(move |request| {
        let is_primary = request.json()?["model"] == "claude-opus-5";
        (is_primary && fails.load(Ordering::Relaxed)).then(|| Reply::error(500, "api_error", "no"))
    });
    let turns = json!([
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
        {"role": "system", "content": "three"}, {"role": "user", "content": "four"},
    ]);
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let asked = json!([{"role": "user", "content": "hi"}]);
    let reminder = "<system-reminder>\nthree\n</system-reminder>";
    for (model, path, body, param, expected) in [
        (
            "acme/mixed",
            CHAT,
            json!({"messages": turns}),
            "messages.role",
            reminder,
        ),
        (
            "acme/mixed",
            CHAT,
            json!({"messages": asked, "tools": tools, "parallel_tool_calls": false}),
            "parallel_tool_calls",
            "functionDeclarations",
        ),
        (
            "acme/mixed",
            "/v1/responses",
            json!({"input": turns}),
            "input.role",
            reminder,
        ),
        (
            "acme/mixed",
            MESSAGES,
            json!({"max_tokens": 100, "messages": turns}),
            "messages.role",
            reminder,
        ),
        (
            "acme/claudes",
            CHAT,
            json!({"messages": turns}),
            "messages.role",
            reminder,
        ),
        (
            "acme/claudes",
            MESSAGES,
            json!({"max_tokens": 100, "messages": turns}),
            "messages.role",
            reminder,
        ),
    ] {
        let body = with(body, json!({"model": model}));
        let primary = scene.upstream.request_count();
        let (sent, ignored) = served(&scene, path, &body).await;
        assert_eq!(scene.upstream.request_count(), primary + 1, "{body}");
        assert_eq!(sent["model"], "claude-opus-5", "{body}");
        assert!(!ignored.contains(&param.to_owned()), "{body}: {ignored:?}");

        is_failing.store(true, Ordering::Relaxed);
        let (sent, ignored) = served(&scene, path, &body).await;
        assert_ne!(sent["model"], "claude-opus-5", "{body}");
        let escaped = expected.replace('\n', "\\n");
        assert!(sent.to_string().contains(&escaped), "{body}: {sent}");
        assert!(ignored.contains(&param.to_owned()), "{body}: {ignored:?}");

        set_compat(&scene, &scene.key.id, "strict").await;
        let response = post(&scene, path, &body).await;
        assert_eq!(response.status, 502, "{body}: {}", response.text());
        set_compat(&scene, &scene.key.id, "standard").await;
        is_failing.store(false, Ordering::Relaxed);
        // Another success prevents the failures from counting against the target.
        served(&scene, path, &body).await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn images_in_tool_results_move_to_the_next_user_message() {
    let scene = Scene::start_with(
        "[models.\"acme/sees\"]\ntargets = [\"northwind/sees-v1\"]\nprices = { input = \"1\", output = \"1\" }\n\
         limits = { max_output_tokens = 4096 }\ntools = true\ninput = [\"text\", \"image\"]\n",
    )
    .await;
    let image = |data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
    let result =
        |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let one = || {
        result(
            "a",
            json!([{"type": "text", "text": "seen"}, image("iVBORw0KGgpB")]),
        )
    };
    let messages = |more: Value| {
        let mut turns = vec![
            json!({"role": "user", "content": "look"}),
            json!({"role": "assistant", "content": [call("a"), call("b")]}),
        ];
        turns.extend(more.as_array().unwrap().iter().cloned());
        json!({"model": "acme/sees", "max_tokens": 100, "messages": turns})
    };
    let note = json!({"type": "text", "text": "[The attachments of this result are in the next message of the user.]"});
    let attached =
        |id: &str| json!({"type": "text", "text": format!("Attached to the result of the tool call {id}:")});
    let shown = |data: &str| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
    let first_result =
        json!({"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "seen"}, note]});
    for (more, expected) in [
        (
            json!([{"role": "user", "content": [one(), result("b", json!([image("iVBORw0KGgpC")]))]}]),
            json!([
                first_result,
                {"role": "tool", "tool_call_id": "b", "content": note["text"]},
                {"role": "user", "content": [attached("a"), shown("iVBORw0KGgpB"), attached("b"), shown("iVBORw0KGgpC")]},
            ]),
        ),
        (
            json!([{"role": "user", "content": [one(), result("b", json!("2")), {"type": "text", "text": "and?"}]}]),
            json!([
                first_result,
                {"role": "tool", "tool_call_id": "b", "content": "2"},
                {"role": "user", "content": [attached("a"), shown("iVBORw0KGgpB"), {"type": "text", "text": "and?"}]},
            ]),
        ),
        (
            json!([{"role": "user", "content": [one(), result("b", json!("2"))]}, {"role": "assistant", "content": "I see"}, {"role": "user", "content": "go on"}]),
            json!([
                first_result,
                {"role": "tool", "tool_call_id": "b", "content": "2"},
                {"role": "user", "content": [attached("a"), shown("iVBORw0KGgpB")]},
                {"role": "assistant", "content": "I see"},
                {"role": "user", "content": "go on"},
            ]),
        ),
    ] {
        let (sent, ignored) = served(&scene, MESSAGES, &messages(more)).await;
        let turns = sent["messages"].as_array().unwrap();
        assert_eq!(json!(turns[2..]), expected);
        assert_eq!(ignored.len(), 0, "{ignored:?}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn image_jpg_is_sent_as_image_jpeg() {
    let scene = scene().await;
    let body = |model: &str| {
        let url = json!({"url": "data:image/jpg;base64,/9j/2Q=="});
        json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]})
    };
    for (model, place, expected) in [
        (
            "anthropic/claude-opus-5",
            "/messages/0/content/0/source/media_type",
            "image/jpeg",
        ),
        (
            "google/gemini-3.5-flash",
            "/contents/0/parts/0/inlineData/mimeType",
            "image/jpeg",
        ),
        ("acme/cloud-haiku", "/messages/0/content/0/image/format", "jpeg"),
    ] {
        if model.starts_with("acme/") {
            scene.upstream.push(converse());
        }
        let (sent, _) = served(&scene, CHAT, &body(model)).await;
        assert_eq!(sent.pointer(place), Some(&json!(expected)), "{model}: {sent}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn client_specific_fields_are_accepted() {
    let scene = scene().await;
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "schema": schema});
    let base = json!({"model": "anthropic/claude-opus-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]});
    // `output_format` is the name of the field in the preview of structured outputs.
    let (sent, _) = served(
        &scene,
        MESSAGES,
        &with(base.clone(), json!({"output_format": format})),
    )
    .await;
    assert_eq!(
        (&sent["output_config"], &sent["output_format"]),
        (&json!({"format": format}), &Value::Null)
    );
    let members = json!({"output_format": format, "output_config": {"effort": "low"}});
    let (sent, _) = served(&scene, MESSAGES, &with(base.clone(), members)).await;
    assert_eq!(
        (&sent["output_config"], &sent["output_format"]),
        (&json!({"format": format, "effort": "low"}), &Value::Null)
    );
    let gemini = json!({"model": "google/gemini-3.5-flash", "output_format": format});
    let (sent, _) = served(&scene, MESSAGES, &with(base.clone(), gemini)).await;
    assert_eq!(sent["generationConfig"]["responseJsonSchema"], schema);
    for (members, param) in [
        (
            json!({"output_format": format, "output_config": {"format": format}}),
            "output_format",
        ),
        (
            json!({"output_format": format, "response_format": {"type": "text"}}),
            "response_format",
        ),
        (
            json!({"output_format": {"type": "json_schema"}}),
            "output_format.schema",
        ),
        (
            json!({"output_format": {"type": "text", "schema": {}}}),
            "output_format.type",
        ),
    ] {
        let response = post(&scene, MESSAGES, &with(base.clone(), members)).await;
        assert_eq!(
            (response.status, &response.json()["error"]["param"]),
            (400, &json!(param))
        );
    }
    // `direct` is the default: the model itself calls the tool.
    let tool = |callers: Value| json!({"tools": [{"name": "f", "input_schema": {"type": "object"}, "allowed_callers": callers}]});
    for (model, callers) in [
        ("anthropic/claude-opus-5", json!(["direct"])),
        ("google/gemini-3.5-flash", json!(["direct"])),
        ("anthropic/claude-opus-5", json!(null)),
    ] {
        let body = with(with(base.clone(), tool(callers)), json!({"model": model}));
        let (_, ignored) = served(&scene, MESSAGES, &body).await;
        assert_eq!(ignored.len(), 0, "{ignored:?}");
    }
    let body = with(base.clone(), tool(json!(["direct", "code_execution_20260120"])));
    refused(&scene, MESSAGES, &body, "tools[0].allowed_callers[1]").await;
    // OpenRouter's field that requests the cost. Responses always contain the cost, so the field is
    // dropped.
    for model in [
        "anthropic/claude-opus-5",
        "google/gemini-3.5-flash",
        "acme/large",
        "sim/chat",
    ] {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}], "usage": {"include": true}});
        let response = post(&scene, CHAT, &body).await;
        assert_eq!(response.status, 200, "{model}: {}", response.text());
        assert!(response.json()["usage"]["cost"].is_string(), "{model}");
        if model != "sim/chat" {
            let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
            assert_eq!(sent["usage"], Value::Null, "{model}");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn invalid_schemas_images_and_caps_are_refused() {
    let scene = scene().await;
    let chat = |members: Value| {
        with(
            json!({"model": "sim/chat", "messages": [{"role": "user", "content": "hi"}]}),
            members,
        )
    };
    let schema = |schema: Value| {
        chat(
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}),
        )
    };
    let image = |url: &str| {
        chat(
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}),
        )
    };
    let of_schema = "response_format.json_schema.schema";
    let of_url = "messages[0].content[0].image_url.url";
    for (body, param) in [
        (schema(json!({"type": "nope"})), of_schema),
        (
            schema(json!({"type": "object", "properties": {"a": {"type": ["string", "text"]}}})),
            of_schema,
        ),
        (
            schema(
                json!({"type": "object", "properties": {"a": {"type": "number", "minimum": 2, "maximum": 1}}}),
            ),
            of_schema,
        ),
        (
            schema(json!({"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 1}})),
            of_schema,
        ),
        (image("data:image/png;base64,!!!!"), of_url),
        (image("data:image/png;base64,AAA"), of_url),
        (image("data:image/png;base64,"), of_url),
    ] {
        let response = post(&scene, CHAT, &body).await;
        let error = &response.json()["error"];
        assert_eq!(
            (response.status, &error["code"], &error["param"]),
            (400, &json!("invalid_parameter"), &json!(param)),
            "{body}"
        );
    }
    // The data is not an image but has an image's media type.
    let before = scene.upstream.request_count();
    for text in [
        "hello",
        "<!doctype html><p>hello</p>",
        "<svg xmlns='http://www.w3.org/2000/svg'/>",
    ] {
        let data = STANDARD.encode(text);
        let url = format!("data:image/png;base64,{data}");
        let source = json!({"type": "base64", "media_type": "image/png", "data": data});
        for (path, body, param) in [
            (CHAT, image(&url), of_url),
            (
                MESSAGES,
                json!({"model": "anthropic/claude-opus-5", "max_tokens": 9,
                    "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}),
                "messages[0].content[0].source.data",
            ),
            (
                "/v1/responses",
                json!({"model": "sim/chat",
                    "input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]}),
                "input[0].content[0].image_url",
            ),
            (
                "/v1beta/models/google/gemini-3.5-flash:generateContent",
                json!({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}]}),
                "contents[0].parts[0].inlineData.data",
            ),
        ] {
            let response = post(&scene, path, &body).await;
            let error = &response.json()["error"];
            assert_eq!(
                (response.status, &error["code"], &error["param"]),
                (400, &json!("invalid_parameter"), &json!(param)),
                "{path} {text}"
            );
        }
    }
    assert_eq!(scene.upstream.request_count(), before);
    // Property names may equal JSON Schema keywords.
    let named = json!({"type": "object", "properties": {"type": {"const": "nope"}, "minimum": {"type": "integer"}, "maximum": {"type": "integer"}}, "required": ["type"]});
    // A JPEG with the media type of a PNG is forwarded: the provider decides.
    let images = [
        "data:image/png;base64,iVBORw0KGgo=",
        "data:image/png;base64,/9j/4AAQ",
    ]
    .map(image);
    for body in images.into_iter().chain([schema(named)]) {
        let response = post(&scene, CHAT, &body).await;
        assert_eq!(response.status, 200, "{body}: {}", response.text());
    }
    for (cap, status) in [(0, 400), (1, 200)] {
        let body = json!({"model": "sim/chat", "prompt": "hi", "max_tokens": cap});
        let response = post(&scene, "/v1/completions", &body).await;
        assert_eq!(response.status, status, "{}", response.text());
        if status == 400 {
            assert_eq!(response.json()["error"]["param"], "max_tokens");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn model_paths_work_without_the_models_prefix() {
    let scene = scene().await;
    let body = json!({"contents": [{"parts": [{"text": "hi"}]}]});
    for path in [
        "/v1beta/google/gemini-3.5-flash:generateContent",
        "/v1/google/gemini-3.5-flash:generateContent",
        "/v1beta/google%2Fgemini-3.5-flash:generateContent",
        "/v1beta/google/gemini-3.5-flash:streamGenerateContent?alt=sse",
        "/v1/google/gemini-3.5-flash:countTokens",
        "/v1beta/sim/embeddings:embedContent",
    ] {
        let body = match path.ends_with("embedContent") {
            true => json!({"content": {"parts": [{"text": "hi"}]}}),
            false => body.clone(),
        };
        let request = Request::json(path, &body)
            .without("authorization")
            .header("x-goog-api-key", scene.key.secret.clone());
        let response = scene.client().send(&request).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        // Google's clients expect errors in Google's format.
        let request = Request::json(path, &json!({"x": 1}))
            .without("authorization")
            .header("x-goog-api-key", scene.key.secret.clone());
        assert_eq!(
            scene.client().send(&request).await.json()["error"]["status"],
            "INVALID_ARGUMENT",
            "{path}"
        );
    }
    for (method, path, status) in [
        ("GET", "/v1beta/google/gemini-3.5-flash:generateContent", 405),
        ("GET", "/v1beta/models/sim/chat:generateContent", 405),
        ("GET", "/v1/models/sim/chat:countTokens", 405),
        ("POST", "/v1beta/google/gemini-3.5-flash:explain", 404),
        ("POST", "/v1/google/gemini-3.5-flash", 404),
        ("GET", "/v1/nothing/here", 404),
        ("POST", "/v1/nothing", 404),
    ] {
        let request = Request::json(path, &body)
            .with_method(method)
            .key(&scene.key.secret);
        let response = scene.client().send(&request).await;
        assert_eq!(response.status, status, "{method} {path}: {}", response.text());
        assert_eq!(
            response.header("allow").is_some(),
            status == 405,
            "{method} {path}"
        );
    }
    scene.finish().await;
}
