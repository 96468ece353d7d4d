//! The choice of the reply to a request.

use serde_json::{Value, json};

use super::super::directive;
use super::super::{Reply, refusing_base_url};
use super::{Client, FakeUpstream, request};

async fn text_for(client: &mut Client, members: Value) -> String {
    let body = client.chat(&request(members)).await.json();
    body["choices"][0]["message"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn specific_replies_precede_general_ones() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    upstream.set_default(Reply::text("default"));
    upstream.set_for_model("b", Reply::text("standing of b"));
    upstream.push(Reply::text("first"));
    upstream.push_for_model("b", Reply::text("first of b"));
    upstream.push(Reply::text("second"));
    assert_eq!(upstream.queued(), 2);
    let directive = json!({"model": "b", "messages": [{"role": "user", "content": "[[tokens=1]]"}]});
    for (members, expected) in [
        (json!({"model": "b"}), "first of b"),
        (json!({"model": "b"}), "first"),
        (directive.clone(), "second"),
        (directive, "w1"),
        (json!({"model": "b"}), "standing of b"),
        (json!({"model": "c"}), "default"),
    ] {
        assert_eq!(text_for(&mut client, members).await, expected);
    }
}

#[tokio::test]
async fn lists_and_finds_models() {
    let upstream = FakeUpstream::start().await;
    upstream.set_models(["one", "maker/two"]);
    let mut client = Client::to(&upstream).await;
    let list = client.get("/v1/models").await.json();
    assert_eq!(list["object"], "list");
    assert_eq!(
        list["data"][1],
        json!({"id": "maker/two", "object": "model", "created": 1_790_000_000, "owned_by": "fake"})
    );
    assert_eq!(client.get("/v1/models/maker/two").await.json()["id"], "maker/two");
    assert_eq!(
        client.get("/v1/models/maker%2Ftwo").await.json()["id"],
        "maker/two"
    );
    let missing = client.get("/v1/models/three").await;
    assert_eq!(
        (missing.status, missing.json()["error"]["code"].as_str().unwrap()),
        (404, "model_not_found")
    );
    upstream.push_for_models(Reply::html(502));
    assert_eq!(client.get("/v1/models").await.status, 502);
    assert_eq!(client.get("/v1/elsewhere").await.status, 404);
}

#[tokio::test]
async fn demands_a_key_when_it_has_one() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key("secret");
    let mut client = Client::to(&upstream).await;
    for (header, status) in [
        ("x-none: 1", 401),
        ("authorization: Bearer other", 401),
        ("authorization: Bearer secret", 200),
        ("x-api-key: secret", 200),
        ("api-key: secret", 200),
    ] {
        client
            .send(format!("GET /v1/models HTTP/1.1\r\n{header}\r\n\r\n").as_bytes())
            .await;
        assert_eq!(client.read().await.status, status, "{header}");
    }
}

#[tokio::test]
async fn a_directive_picks_the_reply() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    let mut ask = async |text: &str| {
        let messages = json!([{"role": "user", "content": [{"type": "text", "text": text}]}]);
        client.chat(&json!({"model": "m", "messages": messages})).await
    };
    let message = |body: Value| body["choices"][0]["message"].clone();
    assert_eq!(
        message(ask("please [[n=3,d=0]] now").await.json())["content"],
        "w1 w2 w3"
    );
    assert_eq!(
        message(ask("[[sim refuse]]").await.json())["refusal"],
        "I cannot help with that."
    );
    let called = message(ask(r#"[[sim tool=find:{"in":[[1],[2]]} reason=2]]"#).await.json());
    assert_eq!(
        called["tool_calls"][0]["function"],
        json!({"name": "find", "arguments": "{\"in\":[[1],[2]]}"})
    );
    assert_eq!(called["reasoning_content"], "r1 r2 ");
    let usage = ask("[[prompt=11 completion=22 cached=3]]").await.json()["usage"].clone();
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(11), &json!(22))
    );
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 3);
    for (text, status) in [
        ("[[error=rate_limit_exceeded]]", 429),
        ("[[error=insufficient_credits]]", 402),
        ("[[error=invalid_parameter]]", 400),
        ("[[error=x status=418]]", 418),
        ("[[fault=html-503]]", 503),
        ("[[fault=unheard-of]]", 400),
    ] {
        assert_eq!(ask(text).await.status, status, "{text}");
    }
}

#[test]
fn directives_are_read_strictly() {
    assert!(
        directive::read("no directive, only [one] bracket")
            .unwrap()
            .is_none()
    );
    for text in [
        "[[tokens=many]]",
        "[[tokens=3",
        "[[colour=red]]",
        "[[tool=x]]",
        "[[tool=x:{oops}]]",
        "[[fault=]]",
    ] {
        assert!(directive::read(text).is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_stopped_upstream_refuses_connections() {
    let url = refusing_base_url();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
    let refused = tokio::net::TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
