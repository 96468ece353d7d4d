//! Tested features, with their members in each format.

pub mod conversation;
pub mod media;
pub mod options;
pub mod reasoning;
pub mod tools;

use serde_json::{Value, json};

/// Feature of a request. Members are in the order of [`client::ALL`](crate::client::ALL); null if a
/// format does not support the feature.
pub struct Feature {
    pub name: &'static str,
    /// Members of the request without the feature.
    pub over: [Value; 5],
    /// Members that use the feature.
    pub requests: [Value; 5],
    /// Text that must occur in the provider's request.
    pub mark: &'static str,
}

impl Feature {
    fn new(name: &'static str, mark: &'static str, requests: [Value; 5]) -> Self {
        let over = [Value::Null, Value::Null, Value::Null, Value::Null, Value::Null];
        Self {
            name,
            over,
            requests,
            mark,
        }
    }

    /// Sets the members of the request without the feature.
    fn over(self, over: [Value; 5]) -> Self {
        Self { over, ..self }
    }
}

pub fn all() -> Vec<Feature> {
    [
        conversation::all(),
        media::all(),
        tools::all(),
        reasoning::all(),
        options::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the members for the turns of each format; null for completions, which have no turns.
fn turns(chat: Value, messages: Value, responses: Value, contents: Value) -> [Value; 5] {
    let named = |name: &str, turns: Value| match turns {
        Value::Null => Value::Null,
        turns => json!({ name: turns }),
    };
    [
        named("messages", chat),
        Value::Null,
        named("messages", messages),
        named("input", responses),
        named("contents", contents),
    ]
}
