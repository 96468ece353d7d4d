//! Streams of background responses, read live or again: the events and their numbers are the same.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Answer, Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually, nanos};
use tollgate_testkit::upstream::{Gate, Reply};

use super::{NATIVE, RESPONSES, saying, scene, send};
use crate::scene::{GRANTED, PLAIN, Scene, assert_error};

const BOTH: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];
const STREAMED: &str = "a stream of its own";

fn streamed(model: &str) -> Value {
    saying(model, STREAMED, json!({"background": true, "stream": true}))
}

/// Reads the events after this number, until the end.
async fn follow(node: &Gateway, key: &str, id: &str, after: Option<u64>) -> Response {
    let after = after.map_or(String::new(), |after| format!("&starting_after={after}"));
    let path = format!("{RESPONSES}/{id}?stream=true{after}");
    let response = node.client().get(&path, key).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(
        response
            .header("content-type")
            .unwrap()
            .starts_with("text/event-stream")
    );
    response
}

async fn whole(node: &Gateway, key: &str, id: &str) -> Value {
    node.client().get(&format!("{RESPONSES}/{id}"), key).await.json()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    kinds
        .map(|kind| kind.strip_prefix("response.").unwrap_or(kind))
        .collect()
}

/// Returns an event's data, or `None` for a keep-alive comment.
fn data(event: &str) -> Option<Value> {
    let data = event.lines().find_map(|line| line.strip_prefix("data: "))?;
    Some(serde_json::from_str(data).unwrap())
}

/// Returns the events of a finished stream.
fn finished_events(response: &Response) -> Vec<Value> {
    response.text().split("\n\n").filter_map(data).collect()
}

/// Returns the next event of an open stream.
async fn next(answer: &mut Answer) -> Value {
    loop {
        let chunk = answer.next_chunk().await.unwrap();
        if let Some(event) = data(&String::from_utf8(chunk).unwrap()) {
            return event;
        }
    }
}

/// Returns the events of a stream and asserts that they are numbered from `first` without a gap.
fn numbered(response: &Response, first: u64) -> Vec<Value> {
    let events = finished_events(response);
    let numbers: Vec<u64> = events
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (first..first + numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "{}", response.text());
    events
}

fn id_of(event: &Value) -> String {
    event["response"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn events_are_the_same_each_time() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let (node, key) = (&scene.gateway, &scene.key.secret);
        scene.upstream.push(Reply::words(30));
        let first = send(&scene, &streamed(PLAIN)).await;
        assert_eq!(first.status, 200, "{}", first.text());
        let events = numbered(&first, 0);
        let seen = kinds(&events);
        assert_eq!(
            seen[..4],
            ["created", "queued", "in_progress", "output_item.added"],
            "{seen:?}"
        );
        assert_eq!(seen.last(), Some(&"completed"));
        let statuses: Vec<&Value> = events[..3]
            .iter()
            .map(|event| &event["response"]["status"])
            .collect();
        assert_eq!(statuses, ["queued", "queued", "in_progress"]);
        let deltas = seen.iter().filter(|kind| **kind == "output_text.delta").count();
        assert!(deltas > 10, "{seen:?}");
        let (id, end) = (id_of(&events[0]), &events.last().unwrap()["response"]);
        assert_eq!((&end["background"], &end["id"]), (&json!(true), &json!(id)));

        assert_eq!(follow(node, key, &id, None).await.text(), first.text());
        for after in [0, 1, 2, 7, events.len() as u64 - 2] {
            let rest = follow(node, key, &id, Some(after)).await;
            assert!(first.text().ends_with(&*rest.text()));
            assert_eq!(
                numbered(&rest, after + 1).len() as u64,
                events.len() as u64 - after - 1
            );
        }
        for after in [events.len() as u64 - 1, 1_000_000] {
            assert_eq!(follow(node, key, &id, Some(after)).await.text(), "");
        }
        assert_eq!(&whole(node, key, &id).await, end, "the stored response is equal");
        assert_eq!(scene.upstream.request_count(), 1);
        let row = scene.row(&id.replace("resp_", "req_")).await;
        assert_eq!(row["cost"], end["usage"]["cost"]);
        assert_eq!(scene.settled().await.credits, GRANTED - nanos(&row["cost"]));
        let delete = Request::new("DELETE", &format!("{RESPONSES}/{id}")).key(key);
        assert_eq!(scene.client().send(&delete).await.status, 200);
        let gone = node
            .client()
            .get(&format!("{RESPONSES}/{id}?stream=true"), key)
            .await;
        assert_error("deleted", &gone, "not_found", None);
        scene.finish().await;
    }
}

/// Events of a provider that uses the format are numbered after the two that the gateway sends
/// first.
#[tokio::test]
async fn events_of_a_native_provider_are_numbered() {
    let scene = scene().await;
    let first = send(&scene, &streamed(NATIVE)).await;
    let events = numbered(&first, 0);
    let seen = kinds(&events);
    assert_eq!(seen[..3], ["created", "queued", "in_progress"], "{seen:?}");
    assert_eq!(seen.last(), Some(&"completed"));
    let id = id_of(&events[0]);
    let again = follow(&scene.gateway, &scene.key.secret, &id, None).await;
    assert_eq!(again.text(), first.text());
    let stored = whole(&scene.gateway, &scene.key.secret, &id).await;
    assert_eq!(stored, events.last().unwrap()["response"]);
    scene.finish().await;
}

/// A caller that lost its connection resumes the stream, also on another node. The provider is
/// called once.
#[tokio::test]
async fn an_interrupted_stream_is_resumed() {
    for nodes in [1, 2] {
        let storage = BOTH[nodes - 1];
        let scene = Scene::start_on(storage, "").await;
        let mut other = None;
        if nodes == 2 {
            let options = Scene::options(&scene.upstream, storage, "[jobs]\nconcurrency = 0\n");
            other = Some(scene.gateway.start_node(options).await);
        }
        let gate = Gate::new();
        scene.upstream.push(Reply::words(9).hold_event(5, &gate));
        let request = Request::json(RESPONSES, &streamed(PLAIN)).key(&scene.key.secret);
        let mut answer = scene.client().open(&request).await;
        let mut seen = Vec::new();
        while !seen
            .iter()
            .any(|event: &Value| event["type"] == "response.output_text.delta")
        {
            seen.push(next(&mut answer).await);
        }
        drop(answer);
        let id = id_of(&seen[0]);
        let node = other.as_ref().unwrap_or(&scene.gateway);
        let after = seen.last().unwrap()["sequence_number"].as_u64().unwrap();
        let path = format!("{RESPONSES}/{id}?stream=true&starting_after={after}");
        let rest = node
            .client()
            .open(&Request::get(&path).key(&scene.key.secret))
            .await;
        gate.open();
        let rest = numbered(&rest.rest().await, after + 1);
        assert_eq!(rest.last().unwrap()["type"], "response.completed");
        let text: String = seen
            .iter()
            .chain(&rest)
            .filter(|event| event["type"] == "response.output_text.delta")
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        let end = &rest.last().unwrap()["response"];
        assert_eq!(end["output"][0]["content"][0]["text"], text);
        assert_eq!(scene.upstream.request_count(), 1);
        if let Some(other) = other {
            other.finish().await;
        }
        scene.finish().await;
    }
}

#[tokio::test]
async fn cancelling_ends_the_stream() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "[drain]\ntime_ms = 200\n").await;
        let gate = Gate::new();
        scene.upstream.push(Reply::words(9).hold_event(5, &gate));
        let request = Request::json(RESPONSES, &streamed(PLAIN)).key(&scene.key.secret);
        let mut answer = scene.client().open(&request).await;
        let created = next(&mut answer).await;
        let mut before = 0;
        while next(&mut answer).await["type"] != "response.output_text.delta" {
            before += 1;
        }
        assert!(before > 0);
        let id = id_of(&created);
        let cancel = Request::new("POST", &format!("{RESPONSES}/{id}/cancel")).key(&scene.key.secret);
        let cancelled = scene.client().send(&cancel).await.json();
        assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
        let rest = answer.rest().await;
        assert!(rest.whole);
        let end = finished_events(&rest).pop().unwrap();
        assert_eq!(
            (&end["type"], &end["response"]),
            (&json!("response.failed"), &cancelled),
            "{end}"
        );
        gate.open();
        let again = follow(&scene.gateway, &scene.key.secret, &id, None).await;
        let again = numbered(&again, 0);
        assert_eq!(again.last(), Some(&end));
        scene.settled().await;
        scene.finish().await;
    }
}

/// A response that is cancelled before its start has the events of acceptance and failure.
#[tokio::test]
async fn a_response_that_never_started_has_three_events() {
    let scene = Scene::start_with("[jobs]\nconcurrency = 0\n").await;
    let request = Request::json(RESPONSES, &streamed(PLAIN)).key(&scene.key.secret);
    let mut answer = scene.client().open(&request).await;
    let id = id_of(&next(&mut answer).await);
    let cancel = Request::new("POST", &format!("{RESPONSES}/{id}/cancel")).key(&scene.key.secret);
    scene.client().send(&cancel).await;
    let rest = numbered(&answer.rest().await, 1);
    assert_eq!(kinds(&rest), ["queued", "failed"]);
    assert_eq!(rest[1]["response"]["status"], "cancelled");
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn a_broken_provider_stream_fails_once_and_is_not_repeated() {
    let scene = Scene::start().await;
    scene
        .upstream
        .push(Reply::words(9).error_after(4, "server_error", "the server had an accident"));
    let first = send(&scene, &streamed(PLAIN)).await;
    let events = numbered(&first, 0);
    let end = events.last().unwrap();
    assert_eq!(end["type"], "response.failed", "{end}");
    assert!(kinds(&events).contains(&"output_text.delta"));
    assert_eq!(end["response"]["error"]["code"], "server_error", "{end}");
    assert!(!first.text().contains("accident"));
    let id = id_of(&events[0]);
    assert_eq!(
        whole(&scene.gateway, &scene.key.secret, &id).await,
        end["response"]
    );
    assert_eq!(
        follow(&scene.gateway, &scene.key.secret, &id, None).await.text(),
        first.text()
    );
    assert_eq!(scene.upstream.request_count(), 1);
    scene.settled().await;
    scene.finish().await;
}

/// Events written before a crash are still readable. The response has failed, and the provider is
/// not called again.
#[tokio::test]
async fn events_before_a_crash_are_still_readable() {
    for storage in BOTH {
        let mut scene = Scene::start_on(storage, "").await;
        let gate = Gate::new();
        scene.upstream.push(Reply::words(9).hold_event(5, &gate));
        let request = Request::json(RESPONSES, &streamed(PLAIN)).key(&scene.key.secret);
        let mut answer = scene.client().open(&request).await;
        let mut seen = Vec::new();
        while !seen
            .iter()
            .any(|event: &Value| event["type"] == "response.output_text.delta")
        {
            seen.push(next(&mut answer).await);
        }
        scene.gateway.kill().await;
        gate.open();
        if storage == Storage::Postgres {
            let database = scene.gateway.database().unwrap();
            database.execute("UPDATE job SET lease_until = 0").await;
        }
        scene.gateway.restart().await;
        let again = follow(&scene.gateway, &scene.key.secret, &id_of(&seen[0]), None).await;
        let again = numbered(&again, 0);
        assert_eq!(again[..seen.len()], seen[..]);
        let end = again.last().unwrap();
        assert_eq!(end["type"], "response.failed", "{end}");
        assert_eq!(scene.upstream.request_count(), 1);
        assert_eq!(scene.settled().await.credits, GRANTED);
        scene.finish().await;
    }
}

/// A long answer is stored in few rows, and no row shows its text.
#[tokio::test]
async fn many_events_are_stored_in_few_rows() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    scene.upstream.push(Reply::words(2_000));
    let events = numbered(&send(&scene, &streamed(PLAIN)).await, 0);
    assert!(events.len() > 2_000);
    let few = "DO $$ BEGIN \
        ASSERT (SELECT count(*) FROM job_event) < 200, 'rows'; \
        ASSERT NOT EXISTS (SELECT 1 FROM job_event WHERE position('w100'::bytea IN body) > 0), 'seen'; END $$";
    scene.gateway.database().unwrap().execute(few).await;
    scene.finish().await;
}

#[tokio::test]
async fn responses_without_events_are_refused_with_a_reason() {
    let scene = Scene::start().await;
    let (node, key) = (&scene.gateway, &scene.key.secret);
    let asked = saying(PLAIN, "hello", json!({}));
    let plain = send(&scene, &asked).await.json();
    let asked = saying(PLAIN, "hello", json!({"background": true}));
    let background = send(&scene, &asked).await.json();
    let followed = numbered(&send(&scene, &streamed(PLAIN)).await, 0);
    let id = id_of(&followed[0]);
    let get = async |id: &str, query: &str, key: &str| {
        let path = format!("{RESPONSES}/{id}?{query}");
        node.client().get(&path, key).await
    };
    for response in [&plain, &background] {
        let refused = get(response["id"].as_str().unwrap(), "stream=true", key).await;
        assert_error("not streamed", &refused, "invalid_parameter", Some("stream"));
    }
    for (query, param) in [
        ("stream=1", "stream"),
        ("stream=true&starting_after=-1", "starting_after"),
        ("stream=true&starting_after=x", "starting_after"),
        ("stream=true&starting_after=", "starting_after"),
        ("starting_after=1", "starting_after"),
        ("stream=false&starting_after=1", "starting_after"),
    ] {
        assert_error(
            query,
            &get(&id, query, key).await,
            "invalid_parameter",
            Some(param),
        );
    }
    assert_eq!(get(&id, "stream=false&include[]=x", key).await.json()["id"], id);
    let stranger = scene.gateway.key(&scene.gateway.account().await).await.secret;
    for (id, key) in [(&*id, &stranger), ("resp_1", key)] {
        assert_error("foreign", &get(id, "stream=true", key).await, "not_found", None);
    }
    eventually("the other response exists", async || {
        whole(node, key, background["id"].as_str().unwrap()).await["status"] == "completed"
    })
    .await;
    scene.finish().await;
}
