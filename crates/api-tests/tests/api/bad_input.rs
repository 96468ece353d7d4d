//! Invalid chat requests: the documented error, no upstream request, no charge.

mod bodies;
mod bounds;
mod sizes;
mod slowness;
mod transport;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use crate::scene::{CHAT, Scene, assert_error};

/// A request body with its expected error.
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

/// Sends every body to a new scene. Asserts the expected errors, and that nothing was charged or
/// sent upstream.
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

/// Builds a chat request that ends with this message.
fn message(message: Value) -> Value {
    crate::scene::hello(json!({"messages": [{"role": "user", "content": "Hi"}, message]}))
}
