//! Tests of the upstream with a separate client that checks every byte.

mod answers;
mod client;
mod delivery;
mod faults;
mod media;
mod selection;
mod usage;

use serde_json::{Value, json};

use super::{FakeUpstream, Reply};
use client::{Client, Ended, Response};

/// Builds a chat request with the text `Hi there` and these additional members.
fn request(members: Value) -> Value {
    let mut request = json!({"model": "fake-model", "messages": [{"role": "user", "content": "Hi there"}]});
    for (name, value) in members.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

/// Returns the response to one request on a new connection.
async fn respond(reply: Reply, members: Value) -> Response {
    let upstream = FakeUpstream::start().await;
    upstream.push(reply);
    Client::to(&upstream).await.chat(&request(members)).await
}

/// Returns the text of choice 0 of a streamed answer.
fn streamed_text(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/content").and_then(Value::as_str))
        .collect()
}
