//! The list of models as callers see it, and the names that select a model.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::upstream::{Answer, Reply};

use crate::scene::{FREE, MODEL, PLAIN, Scene, assert_error, hello};

async fn list(scene: &Scene) -> Vec<Value> {
    let response = scene.client().get("/v1/models", &scene.key.secret).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let list = response.json();
    assert_eq!(list["object"], "list");
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn records_describe_their_models() {
    let facts = r#"
[models."acme/seer"]
targets = ["northwind/seer"]
prices = { input = "2.5", output = "10", cache_read = "0.25", "input>1000" = "5" }
limits = { context_window = 1000, max_output_tokens = 50 }
display_name = "Seer"
release_date = "2026-02-28"
input = ["text", "image"]
structured_output = "json_mode"
tools = false
"#;
    let scene = Scene::start_with(facts).await;
    let models = list(&scene).await;
    let ids: Vec<&str> = models.iter().map(|model| model["id"].as_str().unwrap()).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(ids, sorted, "in order, and each once");
    for id in [MODEL, PLAIN, FREE, "acme/seer", "sim/chat"] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
    assert!(
        !ids.contains(&"large"),
        "aliases are other names, not other models"
    );
    let find = |id: &str| models.iter().find(|model| model["id"] == id).unwrap();
    let expected = json!({
        "id": "acme/seer",
        "object": "model",
        "created": 1_772_236_800,
        "owned_by": "acme",
        "type": "chat",
        "display_name": "Seer",
        "release_date": "2026-02-28",
        "context_window": 1000,
        "max_output_tokens": 50,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "endpoints": ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses",
                      "/v1/models/{model}:generateContent"],
        "structured_output": "json_mode",
        "batch_supported": true,
        "pricing": {"cache_read": "0.25", "input": "2.5", "input>1000": "5", "output": "10"},
        "modes": [],
        "limits": {},
        "simulated": false,
    });
    assert_eq!(find("acme/seer"), &expected);
    assert_eq!(
        (&find(MODEL)["release_date"], &find(MODEL)["created"]),
        (&json!("-"), &json!(0))
    );
    assert_eq!(find("sim/chat")["simulated"], true);
    for (id, endpoints) in [
        (
            "sim/image",
            json!([
                "/v1/images/generations",
                "/v1/images/edits",
                "/v1/images/variations"
            ]),
        ),
        (
            "sim/transcribe",
            json!([
                "/v1/audio/transcriptions",
                "/v1/audio/translations",
                "/v1/realtime"
            ]),
        ),
        ("sim/realtime", json!(["/v1/realtime"])),
        ("sim/voice", json!(["/v1/realtime"])),
    ] {
        assert_eq!(find(id)["endpoints"], endpoints, "{id}");
    }
    // Each single record equals its entry in the list.
    for model in &models {
        let path = format!("/v1/models/{}", model["id"].as_str().unwrap());
        let response = scene.client().get(&path, &scene.key.secret).await;
        assert_eq!(response.json(), *model, "{path}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_model_is_found_by_all_its_names() {
    let scene = Scene::start().await;
    // An alias, the provider's name, the id without its vendor prefix, and a simulator.
    for name in ["large", "large-v1", "plain", MODEL, "chat"] {
        let record = scene
            .client()
            .get(&format!("/v1/models/{name}"), &scene.key.secret)
            .await;
        assert_eq!(record.status, 200, "{name}: {}", record.text());
        assert_eq!(record.json()["id"], name, "the record has the requested id");
        for stream in [false, true] {
            scene
                .upstream
                .push(Reply::answer(Answer::words(2).as_model("large-v1-2026-01-01")));
            let response = scene.chat(&hello(json!({"model": name, "stream": stream}))).await;
            assert_eq!(response.status, 200, "{name}: {}", response.text());
            let named: Vec<Value> = if stream {
                let events = response.events();
                events[..events.len() - 1]
                    .iter()
                    .map(|event| event.json()["model"].clone())
                    .collect()
            } else {
                vec![response.json()["model"].clone()]
            };
            assert!(named.iter().all(|model| model == name), "{name}: {named:?}");
            let row = scene.row(response.request_id()).await;
            let (id, upstream) = match name {
                "chat" => ("sim/chat", "chat"),
                "plain" => (PLAIN, "plain-v1"),
                _ => (MODEL, "large-v1"),
            };
            let names = (&row["model"], &row["requested_model"], &row["upstream_model"]);
            assert_eq!(names, (&json!(id), &json!(name), &json!(upstream)), "{row}");
        }
    }
    // The upstream receives its own model name.
    assert!(scene.upstream.requests().iter().all(|request| {
        let model = request.json().unwrap()["model"].clone();
        model == "large-v1" || model == "plain-v1"
    }));
    scene.finish().await;
}

#[tokio::test]
async fn slashes_in_ids_may_be_encoded() {
    let scene = Scene::start().await;
    for path in ["acme/large", "acme%2Flarge", "acme%2flarge", "%61cme/large"] {
        let response = scene
            .client()
            .get(&format!("/v1/models/{path}"), &scene.key.secret)
            .await;
        assert_eq!(response.json()["id"], MODEL, "{path}");
    }
    for path in [
        "acme",
        "acme/",
        "acme/large/",
        "acme/larger",
        "none",
        "%F0%9F%98%80",
        "..%2F..%2Fetc",
        "%00",
    ] {
        let response = scene
            .client()
            .get(&format!("/v1/models/{path}"), &scene.key.secret)
            .await;
        assert_error(path, &response, "model_not_found", Some("model"));
    }
    let head = scene.client().send(&Request::new("HEAD", "/healthz")).await;
    assert_eq!(head.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn unsupported_capabilities_are_refused() {
    let facts = r#"
[models."acme/small"]
targets = ["northwind/small"]
prices = { input = "1", output = "1" }
input = ["text"]
structured_output = "json_mode"
tools = false
[models."acme/plainer"]
targets = ["northwind/plainer"]
prices = { input = "1", output = "1" }
structured_output = "none"
"#;
    let scene = Scene::start_with(facts).await;
    let schema = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}});
    let image = json!([{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}]);
    let audio = json!([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]);
    let said = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    for (model, members, param) in [
        (
            "acme/small",
            json!({"response_format": schema}),
            "response_format",
        ),
        (
            "acme/small",
            json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
            "tools",
        ),
        ("acme/small", said(image.clone()), "messages"),
        ("acme/small", said(audio), "messages"),
        (
            "acme/plainer",
            json!({"response_format": {"type": "json_object"}}),
            "response_format",
        ),
        (
            "acme/plainer",
            json!({"modalities": ["text", "audio"], "audio": {"format": "wav", "voice": "v"}}),
            "modalities",
        ),
    ] {
        let body = crate::scene::with(hello(members), json!({"model": model}));
        assert_error(
            param,
            &scene.chat(&body).await,
            "unsupported_parameter",
            Some(param),
        );
    }
    scene.nothing_happened().await;
    let fine = json!({"model": "acme/small", "response_format": {"type": "json_object"}});
    assert_eq!(scene.chat(&hello(fine)).await.status, 200);
    let fine = crate::scene::with(hello(said(image)), json!({"model": "acme/plainer"}));
    assert_eq!(scene.chat(&fine).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn clients_of_messages_page_through_the_catalog() {
    let scene = Scene::start().await;
    let ids: Vec<String> = list(&scene)
        .await
        .iter()
        .map(|model| model["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(ids.len() > 4, "{ids:?}");
    let get = async |query: &str| {
        let path = format!("/v1/models?{query}");
        let request = Request::get(&path).key(&scene.key.secret);
        let response = scene
            .client()
            .send(&request.header("anthropic-version", "2023-06-01"))
            .await;
        (response.status, response.json())
    };
    let ids_of = |page: &Value| -> Vec<String> {
        let models = page["data"].as_array().unwrap().iter();
        models
            .map(|model| model["id"].as_str().unwrap().to_owned())
            .collect()
    };
    // Forwards, then backwards.
    let (mut seen, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let (status, page) = get(&query).await;
        assert_eq!(status, 200, "{page}");
        let found = ids_of(&page);
        assert_eq!(
            (&page["first_id"], &page["last_id"]),
            (&json!(found[0]), &json!(found[found.len() - 1]))
        );
        seen.extend(found);
        if page["has_more"] == false {
            break;
        }
        let last = page["last_id"].as_str().unwrap().replace('/', "%2F");
        query = format!("limit=2&after_id={last}&beta=true");
    }
    assert_eq!(seen, ids);
    let (_, page) = get(&format!("limit=2&before_id={}", ids[3])).await;
    assert_eq!(
        (ids_of(&page), &page["has_more"]),
        (ids[1..3].to_vec(), &json!(true))
    );
    let (_, page) = get(&format!("limit=1000&before_id={}", ids[3])).await;
    assert_eq!(
        (ids_of(&page), &page["has_more"]),
        (ids[..3].to_vec(), &json!(false))
    );
    let (_, page) = get(&format!("after_id={}", ids[ids.len() - 1])).await;
    let nothing = (&page["data"], &page["first_id"], &page["has_more"]);
    assert_eq!(nothing, (&json!([]), &Value::Null, &json!(false)));
    assert_eq!(ids_of(&get("limit=1000").await.1), ids);
    assert_eq!(ids_of(&get("limit=1").await.1), ids[..1]);
    assert_eq!(ids_of(&get("").await.1), ids[..ids.len().min(20)]);

    let both = format!("after_id={0}&before_id={0}", ids[0]);
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("after_id=none", "after_id"),
        ("before_id=none", "before_id"),
        (&both, "before_id"),
    ] {
        let (status, body) = get(query).await;
        let error = &body["error"];
        assert_eq!(
            (status, &error["code"], &error["param"]),
            (400, &json!("invalid_parameter"), &json!(param)),
            "{query}"
        );
    }
    scene.finish().await;
}
