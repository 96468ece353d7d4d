//! Stored responses: continued, read, listed, deleted and compacted.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::upstream::{Answer, Reply};

use super::{NATIVE, RESPONSES, SIM, ended, events_of, saying, scene, send, whole};
use crate::scene::{FREE, MODEL, Scene, assert_error};

async fn read(scene: &Scene, key: &str, path: &str) -> Response {
    scene.client().get(&format!("{RESPONSES}/{path}"), key).await
}

async fn delete(scene: &Scene, key: &str, id: &str) -> Response {
    let request = Request::new("DELETE", &format!("{RESPONSES}/{id}")).key(key);
    scene.client().send(&request).await
}

/// Sends a request and returns the response object, of a stream or of a whole response.
async fn ask(scene: &Scene, body: &Value) -> Value {
    let response = send(scene, body).await;
    match body["stream"] == true {
        true => ended(&events_of(&response)),
        false => whole(&response),
    }
}

/// Returns the turns that the provider received last, each as `role: text`.
fn last_turns(scene: &Scene) -> Vec<String> {
    let body = scene.upstream.requests().pop().unwrap().json().unwrap();
    let turns = body["messages"].as_array().unwrap().iter();
    let text = |content: &Value| match content.as_array() {
        Some(parts) => parts
            .iter()
            .map(|part| part["text"].as_str().unwrap_or("?"))
            .collect(),
        None => content.as_str().unwrap_or_default().to_owned(),
    };
    turns
        .map(|turn| format!("{}: {}", turn["role"].as_str().unwrap(), text(&turn["content"])))
        .collect()
}

#[tokio::test]
async fn a_conversation_continues() {
    let scene = Scene::start().await;
    for stream in [false, true] {
        scene.upstream.push(Reply::answer(Answer::text("ho")));
        let first = saying(FREE, "hi", json!({"stream": stream, "instructions": "Be brief."}));
        let first = ask(&scene, &first).await;
        assert_eq!(
            (&first["store"], &first["previous_response_id"]),
            (&json!(true), &Value::Null)
        );
        scene.upstream.push(Reply::answer(Answer::text("well")));
        let members = json!({"previous_response_id": first["id"], "stream": stream});
        let second = ask(&scene, &saying(FREE, "and?", members)).await;
        assert_eq!(second["previous_response_id"], first["id"]);
        // Instructions apply only to their own request.
        assert_eq!(last_turns(&scene), ["user: hi", "assistant: ho", "user: and?"]);
        // A request without input is refused for a model that cannot continue without a user turn.
        let mut silent = saying(FREE, "", json!({"previous_response_id": second["id"]}));
        silent.as_object_mut().unwrap().remove("input");
        let refused = send(&scene, &silent).await;
        assert_error(
            "no turn of the user",
            &refused,
            "unsupported_parameter",
            Some("previous_response_id"),
        );
        // Two responses can continue from the same response.
        scene.upstream.push(Reply::answer(Answer::text("so")));
        let other = saying(FREE, "other", json!({"previous_response_id": first["id"]}));
        ask(&scene, &other).await;
        assert_eq!(last_turns(&scene), ["user: hi", "assistant: ho", "user: other"]);
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_call_is_answered_in_the_next_request() {
    let scene = Scene::start().await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    scene
        .upstream
        .push(Reply::answer(Answer::calling("f", &json!({"x": 1}))));
    let first = ask(&scene, &saying(MODEL, "go", json!({"tools": tools}))).await;
    let result = |call: &Value| json!([{"type": "function_call_output", "call_id": call, "output": "7"}]);
    let next = |input: Value| json!({"tools": tools, "previous_response_id": first["id"], "input": input});
    // Parameters are numbered by the request, not by the whole conversation.
    let bad = saying(MODEL, "", next(result(&json!("call_none"))));
    assert_error(
        "no such call",
        &send(&scene, &bad).await,
        "invalid_parameter",
        Some("input[0].call_id"),
    );
    let bad = saying(
        MODEL,
        "",
        next(json!([{"role": "user", "content": "x"}, {"role": "nobody"}])),
    );
    let failed = send(&scene, &bad).await;
    assert_eq!(
        failed.json()["error"]["param"],
        "input[1].role",
        "{}",
        failed.text()
    );
    let body = saying(MODEL, "", next(result(&first["output"][0]["call_id"])));
    ask(&scene, &body).await;
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["name"], "f");
    assert_eq!(sent["messages"][2]["role"], "tool");
    scene.finish().await;
}

#[tokio::test]
async fn stored_responses_are_read_listed_and_deleted() {
    let scene = Scene::start().await;
    let key = &scene.key.secret;
    let parts = json!([{"type": "input_text", "text": "two"}]);
    let input =
        json!([{"role": "user", "content": "one"}, {"type": "message", "role": "user", "content": parts}]);
    let first = ask(&scene, &saying(SIM, "", json!({"input": input, "stream": true}))).await;
    let second = ask(
        &scene,
        &saying(SIM, "three", json!({"previous_response_id": first["id"]})),
    )
    .await;
    let (id, next) = (first["id"].as_str().unwrap(), second["id"].as_str().unwrap());
    assert_eq!(read(&scene, key, id).await.json(), first);
    assert_eq!(
        read(&scene, key, &format!("{next}?include[]=x")).await.json(),
        second
    );

    let list = async |query: &str| read(&scene, key, &format!("{next}/input_items?{query}")).await;
    let said = |page: &Value| -> Vec<String> {
        let items = page["data"].as_array().unwrap().iter();
        items
            .map(|item| item["content"][0]["text"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = list("order=asc").await.json();
    assert_eq!(
        (&all["object"], &all["has_more"]),
        (&json!("list"), &json!(false))
    );
    assert_eq!(said(&all), ["one", "two", "two", "three"]);
    assert_eq!(said(&list("").await.json()), ["three", "two", "two", "one"]);
    let page = list("order=asc&limit=3").await.json();
    assert_eq!(
        (page["data"].as_array().unwrap().len(), &page["has_more"]),
        (3, &json!(true))
    );
    let rest = list(&format!("order=asc&after={}", page["last_id"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(said(&rest), ["three"]);
    let whole_page = list("order=asc&limit=4").await.json();
    assert_eq!(whole_page["has_more"], false);
    for (query, code, param) in [
        ("limit=0", "invalid_parameter", "limit"),
        ("limit=101", "invalid_parameter", "limit"),
        ("limit=x", "invalid_parameter", "limit"),
        ("order=up", "invalid_parameter", "order"),
        ("after=msg_none", "invalid_parameter", "after"),
        ("page=2", "unknown_parameter", "page"),
    ] {
        assert_error(query, &list(query).await, code, Some(param));
    }
    assert_eq!(list("limit=1").await.status, 200);
    assert_eq!(list("limit=100").await.status, 200);
    let streamed = read(&scene, key, &format!("{id}?stream=true")).await;
    assert_error("stream", &streamed, "invalid_parameter", Some("stream"));
    let resumed = read(&scene, key, &format!("{id}?starting_after=1")).await;
    assert_error("resumed", &resumed, "invalid_parameter", Some("starting_after"));
    let cancel = Request::json(&format!("{RESPONSES}/{id}/cancel"), &json!({})).key(key);
    let cancelled = scene.client().send(&cancel).await;
    assert_error("cancel", &cancelled, "invalid_parameter", Some("id"));

    let gone = delete(&scene, key, id).await;
    assert_eq!(
        gone.json(),
        json!({"id": id, "object": "response", "deleted": true})
    );
    assert_error("again", &delete(&scene, key, id).await, "not_found", None);
    assert_error("read", &read(&scene, key, id).await, "not_found", None);
    assert_eq!(read(&scene, key, next).await.json(), second);
    for previous in [id, next] {
        let body = saying(SIM, "x", json!({"previous_response_id": previous}));
        let refused = send(&scene, &body).await;
        assert_error(previous, &refused, "not_found", Some("previous_response_id"));
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_response_of_another_account_is_not_found() {
    let scene = Scene::start().await;
    let mine = ask(&scene, &saying(SIM, "secret", json!({}))).await;
    let (id, item) = (mine["id"].as_str().unwrap(), &mine["output"][0]["id"]);
    let account = scene.gateway.account().await;
    scene.gateway.grant(&account, "1").await;
    let other = scene.gateway.key(&account).await.secret;
    let missing = format!("resp_{:032x}", 1);
    let post = async |body: &Value| {
        let request = Request::json(RESPONSES, body).key(&other);
        scene.client().send(&request).await
    };
    for there in [id, &missing, "resp_1", "x"] {
        assert_error(there, &read(&scene, &other, there).await, "not_found", None);
        let items = read(&scene, &other, &format!("{there}/input_items")).await;
        assert_error(there, &items, "not_found", None);
        assert_error(there, &delete(&scene, &other, there).await, "not_found", None);
        let cancel = Request::json(&format!("{RESPONSES}/{there}/cancel"), &json!({})).key(&other);
        assert_error(there, &scene.client().send(&cancel).await, "not_found", None);
        let body = saying(SIM, "x", json!({"previous_response_id": there}));
        assert_error(
            there,
            &post(&body).await,
            "not_found",
            Some("previous_response_id"),
        );
    }
    let body = saying(
        SIM,
        "",
        json!({"input": [{"type": "item_reference", "id": item}]}),
    );
    assert_error("item", &post(&body).await, "not_found", Some("input[0].id"));
    assert_eq!(read(&scene, &scene.key.secret, id).await.json(), mine);
    scene.finish().await;
}

#[tokio::test]
async fn responses_without_store_are_not_stored() {
    let scene = Scene::start().await;
    for stream in [false, true] {
        let answer = ask(
            &scene,
            &saying(SIM, "hi", json!({"store": false, "stream": stream})),
        )
        .await;
        assert_eq!(answer["store"], false);
        let found = read(&scene, &scene.key.secret, answer["id"].as_str().unwrap()).await;
        assert_error("not stored", &found, "not_found", None);
    }
    let failed = send(&scene, &saying(SIM, "[[sim error=upstream_error]]", json!({}))).await;
    let id = failed.request_id().replace("req_", "resp_");
    let found = read(&scene, &scene.key.secret, &id).await;
    assert_error("failed", &found, "not_found", None);
    scene.finish().await;
}

#[tokio::test]
async fn items_are_named_by_their_ids() {
    let scene = scene().await;
    scene
        .upstream
        .push(Reply::answer(Answer::text("ho").reasoning(2)));
    let members = json!({"reasoning": {"effort": "low"}});
    let first = send(&scene, &saying(NATIVE, "hi", members)).await.json();
    let reference = |item: &Value| json!({"type": "item_reference", "id": item["id"]});
    let output = first["output"].as_array().unwrap();
    let mut input = vec![json!({"role": "user", "content": "hi"})];
    input.extend(output.iter().map(reference));
    input.push(json!({"role": "user", "content": "and?"}));
    let second = send(&scene, &saying(NATIVE, "", json!({"input": input}))).await;
    assert_eq!(second.status, 200, "{}", second.text());
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    let kinds: Vec<&str> = sent["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap_or("message"))
        .collect();
    assert_eq!(kinds, ["message", "reasoning", "message", "message"]);
    assert_eq!(sent["input"][2]["content"][0]["text"], "ho");
    let seal = sent["input"][1]["encrypted_content"].as_str().unwrap();
    assert!(
        seal.starts_with("enc-"),
        "the provider gets its own seal back: {seal}"
    );
    for (input, code, param) in [
        (
            json!([{"type": "item_reference", "id": "msg_none"}]),
            "not_found",
            "input[0].id",
        ),
        (
            json!([{"type": "item_reference"}]),
            "missing_required_parameter",
            "input[0].id",
        ),
    ] {
        let refused = send(&scene, &saying(NATIVE, "", json!({"input": input}))).await;
        assert_error(param, &refused, code, Some(param));
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_long_conversation_is_compacted() {
    let scene = Scene::start().await;
    scene.upstream.push(Reply::answer(Answer::text("ho")));
    let first = ask(&scene, &saying(FREE, "hi", json!({}))).await;
    scene.upstream.push(Reply::answer(Answer::text("They greeted.")));
    let path = format!("{RESPONSES}/compact");
    let input = json!([{"role": "user", "content": "more"}]);
    let body = json!({"model": MODEL, "previous_response_id": first["id"], "input": input});
    let request = Request::json(&path, &body).key(&scene.key.secret);
    let compacted = scene.client().send(&request).await;
    assert_eq!(compacted.status, 200, "{}", compacted.text());
    assert!(
        compacted
            .header("x-tollgate-cost")
            .is_some_and(|cost| cost != "0")
    );
    let compacted = compacted.json();
    assert_eq!(compacted["object"], "response.compaction");
    assert!(compacted["usage"]["total_tokens"].as_u64() > Some(0));
    let [system, record] = &last_turns(&scene)[..] else {
        panic!("{:?}", last_turns(&scene))
    };
    assert!(
        system.starts_with("system: ") || system.starts_with("developer: "),
        "{system}"
    );
    assert_eq!(record, "user: [user]\nhi\n\n[assistant]\nho\n\n[user]\nmore\n\n");
    let output = compacted["output"].as_array().unwrap();
    assert_eq!(output.len(), 3, "{compacted}");
    assert_eq!(output[2]["type"], "compaction");
    for (item, text) in output.iter().zip(["hi", "more"]) {
        let content = json!([{"type": "input_text", "text": text}]);
        assert_eq!(
            (&item["type"], &item["status"], &item["role"], &item["content"]),
            (&json!("message"), &json!("completed"), &json!("user"), &content)
        );
        assert!(item["id"].as_str().unwrap().starts_with("msg_"), "{item}");
    }
    assert_ne!(output[0]["id"], output[1]["id"]);
    assert!(!compacted.to_string().contains("greeted"), "{compacted}");

    scene.upstream.push(Reply::answer(Answer::text("so")));
    let mut input = output.clone();
    input.push(json!({"role": "user", "content": "go on"}));
    ask(&scene, &saying(FREE, "", json!({"input": input}))).await;
    let sent = last_turns(&scene);
    assert_eq!((sent.len(), &*sent[0], &*sent[3]), (4, "user: hi", "user: go on"));
    assert!(sent[2].ends_with("They greeted."), "{sent:?}");

    // Another account cannot read the compacted item, and it is not silently dropped.
    let account = scene.gateway.account().await;
    let other = scene.gateway.key(&account).await.secret;
    let body = saying(FREE, "", json!({"input": [output[2]]}));
    let request = Request::json(RESPONSES, &body).key(&other);
    let refused = scene.client().send(&request).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    scene.finish().await;
}

#[tokio::test]
async fn nodes_share_stored_responses() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let second = scene.gateway.start_node(options).await;
    let first = ask(&scene, &saying(SIM, "c4n4ry", json!({}))).await;
    let id = first["id"].as_str().unwrap();
    let there = second
        .client()
        .get(&format!("{RESPONSES}/{id}"), &scene.key.secret)
        .await;
    assert_eq!(there.json(), first);
    let body = saying(SIM, "next", json!({"previous_response_id": id}));
    let request = Request::json(RESPONSES, &body).key(&scene.key.secret);
    assert_eq!(second.client().send(&request).await.status, 200);
    second.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn stored_responses_are_not_readable_in_files() {
    let mut scene = Scene::start().await;
    let first = ask(&scene, &saying(SIM, "c4n4ry-in-a-prompt", json!({}))).await;
    scene.gateway.stop().await;
    let mut looked = 0;
    for entry in std::fs::read_dir(scene.gateway.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let canary = b"c4n4ry-in-a-prompt";
            assert!(
                !bytes.windows(canary.len()).any(|window| window == canary),
                "{}",
                path.display()
            );
            looked += 1;
        }
    }
    assert!(looked > 0);
    scene.gateway.restart().await;
    let id = first["id"].as_str().unwrap();
    assert_eq!(read(&scene, &scene.key.secret, id).await.json(), first);
    scene.finish().await;
}
