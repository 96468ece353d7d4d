//! The stream of changes for open pages.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::http::{Answer, Client, End};

use super::browser::{API, Browser};
use super::owner;
use super::people::invited;
use crate::scene::{CHAT, PLAIN, Scene, hello};

const LIVE: &str = "/console/api/v1/live";
const CHAT_ID: &str = "chat_019a3c5e7b1c7d2f8a4e6b9c00000001";

/// An open stream with the id of its last event.
struct Stream {
    answer: Answer,
    last: String,
}

impl Stream {
    /// Opens a stream that continues after `last`.
    async fn open(client: &Client, browser: &Browser, last: &str) -> Self {
        let mut request = browser.request("GET", LIVE, &Value::Null);
        if !last.is_empty() {
            request = request.header("last-event-id", last);
        }
        let answer = client.open(&request).await;
        assert_eq!(answer.head.status, 200);
        let kind = answer.head.header("content-type");
        assert_eq!(kind, Some("text/event-stream; charset=utf-8"));
        assert_eq!(answer.head.header("cache-control"), Some("no-store"));
        Self {
            answer,
            last: last.to_owned(),
        }
    }

    /// Returns topic and data of the next event; `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let text = String::from_utf8(self.answer.next_chunk().await?).unwrap();
            if text == ": ping\n\n" {
                continue;
            }
            let lines: Vec<&str> = text.lines().collect();
            let [event, id, data, ""] = lines[..] else {
                panic!("not one event: {text:?}");
            };
            let field = |line: &str, name: &str| line.strip_prefix(name).unwrap().to_owned();
            self.last = field(id, "id: ");
            let data = serde_json::from_str(&field(data, "data: ")).unwrap();
            return Some((field(event, "event: "), data));
        }
    }

    /// Returns the topics of the state at the beginning.
    async fn beginning(&mut self, count: usize) -> Vec<(String, Value)> {
        let mut topics = Vec::new();
        for _ in 0..count {
            topics.push(self.next().await.unwrap());
        }
        topics
    }

    /// Reads events up to one of this topic whose data satisfies the condition.
    async fn until(&mut self, topic: &str, condition: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (found, data) = self.next().await.unwrap();
            if found == topic && condition(&data) {
                return data;
            }
        }
    }
}

fn chat(base_revision: u32) -> Value {
    json!({"base_revision": base_revision, "from": 0, "kind": "chat", "settings": {}, "turns": [{
        "input": {"content": "hello"},
        "answers": [{"model": "sim/chat", "content": "Hello.", "status": "completed"}],
    }]})
}

async fn changes_arrive(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let client = scene.client();
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut live = Stream::open(&client, &jo, "").await;
    let beginning = live.beginning(5).await;
    let topics: Vec<&str> = beginning.iter().map(|(topic, _)| &**topic).collect();
    assert_eq!(topics, ["balance", "jobs", "keys", "chats", "limits"]);
    assert_eq!(beginning[1].1, json!({"unfinished": 0, "newest": null}));
    assert_eq!(beginning[2].1, json!({"count": 1}));
    assert_eq!(beginning[3].1, json!({"count": 0, "limit": 50}));
    assert_eq!(beginning[4].1, json!({"state": "active"}));
    let credits = beginning[0].1["credits"].clone();

    let path = format!("{API}/chats/{CHAT_ID}");
    jo.done("PUT", &path, &chat(0)).await;
    live.until("chats", |chats| chats["count"] == 1).await;
    jo.done("PATCH", &path, &json!({"title": "Renamed"})).await;
    live.until("chats", |chats| chats["count"] == 1).await;
    jo.done("DELETE", &path, &Value::Null).await;
    live.until("chats", |chats| chats["count"] == 0).await;

    let call = client
        .post_json(CHAT, &scene.key.secret, &hello(json!({"model": PLAIN})))
        .await;
    assert_eq!(call.status, 200);
    live.until("balance", |balance| {
        balance["credits"] != credits && balance["held"] == "0"
    })
    .await;

    jo.done("POST", &format!("{API}/keys"), &json!({"name": "second"}))
        .await;
    live.until("keys", |keys| keys["count"] == 2).await;

    let image = json!({"model": "sim/image", "prompt": "a red square"});
    let job = jo.done("POST", "/console/v1/images/generations", &image).await;
    let id = job["job_id"].as_str().or(job["id"].as_str()).unwrap().to_owned();
    live.until("jobs", |jobs| jobs["newest"] == *id).await;

    let limit = ["accounts", "set-limits", &scene.account, "--chats", "70"];
    scene.gateway.command_line().run(&limit).await;
    live.until("chats", |chats| chats["limit"] == 70).await;

    // A client that continues gets only what has changed since, from any node.
    let last = live.last.clone();
    drop(live);
    jo.done("PUT", &path, &chat(0)).await;
    let mut live = Stream::open(&client, &jo, &last).await;
    let next = live.until("chats", |_| true).await;
    assert_eq!(next, json!({"count": 1, "limit": 70}));
    scene.finish().await;
}

#[tokio::test]
async fn changes_arrive_sqlite() {
    changes_arrive(Storage::Sqlite).await;
}

#[tokio::test]
async fn changes_arrive_postgres() {
    changes_arrive(Storage::Postgres).await;
}

#[tokio::test]
async fn another_node_continues_a_stream_and_sees_its_changes() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let node = scene
        .gateway
        .start_node(Scene::options(&scene.upstream, Storage::Postgres, ""))
        .await;
    let jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut here = Stream::open(&scene.client(), &jo, "").await;
    here.beginning(5).await;
    let mut there = Stream::open(&node.client(), &jo, &here.last).await;
    jo.at(node.client())
        .done("PUT", &format!("{API}/chats/{CHAT_ID}"), &chat(0))
        .await;
    for stream in [&mut here, &mut there] {
        let (topic, data) = stream.next().await.unwrap();
        assert_eq!((&*topic, &data["count"]), ("chats", &json!(1)));
    }
    drop((here, there));
    node.finish().await;
    scene.finish().await;
}

#[tokio::test]
async fn streams_show_no_contents_to_viewers_and_end_with_the_session() {
    let scene = Scene::start().await;
    let client = scene.client();
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    for role in ["viewer", "billing"] {
        let reader = invited(&scene, &mut jo, &format!("{role}@example.com"), role).await;
        let mut live = Stream::open(&client, &reader, "").await;
        let topics: Vec<String> = live.beginning(3).await.into_iter().map(|one| one.0).collect();
        assert_eq!(topics, ["balance", "keys", "limits"], "{role}");
    }

    let mut al = invited(&scene, &mut jo, "al@example.com", "member").await;
    let id = al.session().await["accounts"][0]["member_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let member = format!("{API}/members/{id}");
    let mut live = Stream::open(&client, &al, "").await;
    live.beginning(5).await;
    // A new role ends the stream; the next one follows it.
    jo.done("PATCH", &member, &json!({"role": "viewer"})).await;
    while live.next().await.is_some() {}
    assert_eq!(live.answer.end(), Some(End::Whole));
    let mut live = Stream::open(&client, &al, &live.last).await;
    jo.done("POST", &format!("{API}/keys"), &json!({"name": "second"}))
        .await;
    live.until("keys", |_| true).await;
    jo.done("DELETE", &member, &Value::Null).await;
    while live.next().await.is_some() {}
    let refused = al.refused("GET", LIVE, &Value::Null).await;
    assert_eq!((refused.0, &*refused.2), (404, "x-tollgate-account"));

    let mut live = Stream::open(&client, &jo, "").await;
    jo.clone()
        .done("POST", &format!("{API}/sign-out"), &Value::Null)
        .await;
    while live.next().await.is_some() {}
    let refused = jo.refused("GET", LIVE, &Value::Null).await;
    assert_eq!((refused.0, &*refused.1), (401, "invalid_session"));
    scene.finish().await;
}

#[tokio::test]
async fn malformed_ids_and_too_many_streams_are_refused() {
    let scene = Scene::start().await;
    let client = scene.client();
    let jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    for id in ["7", "1-2-3-4", "1-2-3-4-5-6", "1-2-3-4-z", "é"] {
        let request = jo.request("GET", LIVE, &Value::Null).header("last-event-id", id);
        let error = client.send(&request).await.error();
        assert_eq!(
            (&*error.code, error.param.as_deref()),
            ("invalid_parameter", Some("last-event-id")),
            "{id}"
        );
    }
    let mut streams = Vec::new();
    for _ in 0..100 {
        streams.push(Stream::open(&client, &jo, "").await);
    }
    let request = jo.request("GET", LIVE, &Value::Null);
    let refused = client.send(&request).await;
    assert_eq!(
        (refused.status, &*refused.error().code),
        (429, "rate_limit_exceeded")
    );
    assert_eq!(refused.header("retry-after"), Some("30"));
    // The streams of other accounts are not affected.
    let other = scene.gateway.command_line().create_account("other").await;
    let eve = owner(&scene.gateway, &other, "eve@example.com").await;
    Stream::open(&client, &eve, "").await.beginning(5).await;
    for stream in &mut streams {
        stream.beginning(5).await;
    }
    // An open stream does not delay the shutdown.
    scene.finish().await;
    let ended = streams[0].answer.next_chunk().await;
    assert_eq!(ended, None);
}
