//! Features about reasoning: its content and its parameters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_formats::reasoning_envelope;
use tollgate_types::generate::Seal;

use super::{Feature, turns};
use crate::provider::ORIGIN;

const THOUGHT: &str = "A greeting.";
const DATA: &str = "c2VhbA==";

fn sealed(origin: &str) -> String {
    reasoning_envelope::wrap(&Seal {
        origin: origin.to_owned(),
        data: DATA.to_owned(),
    })
}

/// Replaces this provider's wrapped signatures in JSON with their data.
pub fn unwrapped(json: &str) -> String {
    let wrapped = sealed(ORIGIN);
    json.replace(&STANDARD.encode(&wrapped), DATA)
        .replace(&wrapped, DATA)
}

/// Returns a conversation with a model turn that has reasoning, in the formats that support this
/// reasoning.
fn answered(chat: &Value, messages: &Value, responses: &Value, contents: &Value) -> [Value; 5] {
    let hello = json!({"role": "user", "content": "Hello."});
    let text = json!({"type": "text", "text": "Hello to you."});
    let mut assistant_message = json!({"role": "assistant", "content": "Hello to you."});
    if let Some(reasoning) = chat.as_str() {
        assistant_message["reasoning_content"] = json!(reasoning);
    }
    let list = |items: &[&Value]| -> Vec<Value> {
        let items = items.iter().filter(|item| !item.is_null());
        items.map(|item| (*item).clone()).collect()
    };
    let answer = json!({"role": "assistant", "content": "Hello to you."});
    turns(
        json!([hello, assistant_message, hello]),
        json!([hello, {"role": "assistant", "content": list(&[messages, &text])}, hello]),
        json!(list(&[&hello, responses, &answer, &hello])),
        json!([
            {"role": "user", "parts": [{"text": "Hello."}]},
            {"role": "model", "parts": list(&[contents, &json!({"text": "Hello to you."})])},
            {"role": "user", "parts": [{"text": "Hello."}]},
        ]),
    )
}

fn without_reasoning() -> [Value; 5] {
    answered(&Value::Null, &Value::Null, &Value::Null, &Value::Null)
}

fn with_reasoning(origin: &str) -> [Value; 5] {
    let seal = sealed(origin);
    answered(
        &Value::Null,
        &json!({"type": "thinking", "thinking": THOUGHT, "signature": seal}),
        &json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}], "encrypted_content": seal}),
        &json!({"text": THOUGHT, "thought": true, "thoughtSignature": STANDARD.encode(&seal)}),
    )
}

pub fn all() -> Vec<Feature> {
    let own = {
        let mut requests = with_reasoning(ORIGIN);
        requests[0] = Value::Null;
        requests
    };
    let foreign = {
        let mut requests = with_reasoning("fedcba9876543210");
        requests[0] = Value::Null;
        requests
    };
    let text = {
        let mut requests = answered(&json!(THOUGHT), &Value::Null, &Value::Null, &Value::Null);
        requests[1..].fill(Value::Null);
        requests
    };
    let level = |level: &str| json!({"generationConfig": {"thinkingConfig": {"thinkingLevel": level}}});
    let budget = |tokens: i64| json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": tokens}}});
    vec![
        Feature::new("reasoning from this provider", THOUGHT, own).over(without_reasoning()),
        Feature::new("reasoning from another provider", THOUGHT, foreign).over(without_reasoning()),
        Feature::new("reasoning without a signature", THOUGHT, text).over(without_reasoning()),
        Feature::new(
            "reasoning effort",
            "",
            [
                json!({"reasoning_effort": "high"}),
                Value::Null,
                json!({"output_config": {"effort": "high"}}),
                json!({"reasoning": {"effort": "high"}}),
                level("HIGH"),
            ],
        ),
        Feature::new(
            "a reasoning budget",
            "",
            [
                Value::Null,
                Value::Null,
                json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}),
                Value::Null,
                budget(2048),
            ],
        ),
        Feature::new(
            "no reasoning",
            "",
            [
                json!({"reasoning_effort": "none"}),
                Value::Null,
                json!({"thinking": {"type": "disabled"}}),
                json!({"reasoning": {"effort": "none"}}),
                budget(0),
            ],
        ),
    ]
}
