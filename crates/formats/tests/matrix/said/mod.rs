//! How each feature is said in each format.

pub mod conversation;
pub mod media;
pub mod options;
pub mod reasoning;
pub mod tools;

use serde_json::{Value, json};

/// One feature. Members are in the order of [`client::ALL`](crate::client::ALL); null where a format cannot say it.
pub struct Feature {
    pub name: &'static str,
    /// Members of the request that has everything but the feature.
    pub over: [Value; 5],
    /// Members that say it.
    pub says: [Value; 5],
    /// A text that the provider finds when it is told.
    pub mark: &'static str,
}

impl Feature {
    fn new(name: &'static str, mark: &'static str, says: [Value; 5]) -> Self {
        let over = [Value::Null, Value::Null, Value::Null, Value::Null, Value::Null];
        Self {
            name,
            over,
            says,
            mark,
        }
    }

    /// The feature beside other members.
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

/// Turns in the formats that have them; completions have none.
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
