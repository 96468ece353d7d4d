//! What callers get wrong: the documented refusal, no upstream, no charge.

mod bodies;
mod bounds;
mod sizes;
mod slowness;
mod transport;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use crate::scene::{CHAT, Scene, assert_error};

/// A body and its refusal.
struct Case {
    what: String,
    body: Vec<u8>,
    code: &'static str,
    param: Option<&'static str>,
}

impl Case {
    fn new(what: &str, body: impl Into<Vec<u8>>, code: &'static str, param: Option<&'static str>) -> Self {
        Self {
            what: what.to_owned(),
            body: body.into(),
            code,
            param,
        }
    }
}

/// Sends every body to a scene of its own table and asserts its refusal, and that nothing else happened.
async fn check(cases: Vec<Case>) {
    let scene = Scene::start().await;
    for Case {
        what,
        body,
        code,
        param,
    } in cases
    {
        let request = Request::post(CHAT, body)
            .header("content-type", "application/json")
            .key(&scene.key.secret);
        assert_error(&what, &scene.client().send(&request).await, code, param);
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

/// A request whose last message is this one.
fn message(message: Value) -> Value {
    crate::scene::hello(json!({"messages": [{"role": "user", "content": "Hi"}, message]}))
}
