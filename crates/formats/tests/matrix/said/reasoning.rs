//! What was reasoned, and how to.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_formats::seal;
use tollgate_types::generate::Seal;

use super::{Feature, turns};
use crate::provider::ORIGIN;

const THOUGHT: &str = "A greeting.";
const DATA: &str = "c2VhbA==";

fn sealed(origin: &str) -> String {
    seal::wrap(&Seal {
        origin: origin.to_owned(),
        data: DATA.to_owned(),
    })
}

/// JSON with this provider's seals out of their wrapping.
pub fn unwrapped(json: &str) -> String {
    let wrapped = sealed(ORIGIN);
    json.replace(&STANDARD.encode(&wrapped), DATA)
        .replace(&wrapped, DATA)
}

/// A conversation with an answer that was reasoned about, if the formats have the piece of reasoning.
fn answered(chat: &Value, messages: &Value, responses: &Value, contents: &Value) -> [Value; 5] {
    let hello = json!({"role": "user", "content": "Hello."});
    let text = json!({"type": "text", "text": "Hello to you."});
    let mut said = json!({"role": "assistant", "content": "Hello to you."});
    if let Some(reasoning) = chat.as_str() {
        said["reasoning_content"] = json!(reasoning);
    }
    let list = |pieces: &[&Value]| -> Vec<Value> {
        let pieces = pieces.iter().filter(|piece| !piece.is_null());
        pieces.map(|piece| (*piece).clone()).collect()
    };
    let answer = json!({"role": "assistant", "content": "Hello to you."});
    turns(
        json!([hello, said, hello]),
        json!([hello, {"role": "assistant", "content": list(&[messages, &text])}, hello]),
        json!(list(&[&hello, responses, &answer, &hello])),
        json!([
            {"role": "user", "parts": [{"text": "Hello."}]},
            {"role": "model", "parts": list(&[contents, &json!({"text": "Hello to you."})])},
            {"role": "user", "parts": [{"text": "Hello."}]},
        ]),
    )
}

fn unreasoned() -> [Value; 5] {
    answered(&Value::Null, &Value::Null, &Value::Null, &Value::Null)
}

fn reasoned(origin: &str) -> [Value; 5] {
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
        let mut says = reasoned(ORIGIN);
        says[0] = Value::Null;
        says
    };
    let of_another = {
        let mut says = reasoned("fedcba9876543210");
        says[0] = Value::Null;
        says
    };
    let text = {
        let mut says = answered(&json!(THOUGHT), &Value::Null, &Value::Null, &Value::Null);
        says[1..].fill(Value::Null);
        says
    };
    let level = |level: &str| json!({"generationConfig": {"thinkingConfig": {"thinkingLevel": level}}});
    let budget = |tokens: i64| json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": tokens}}});
    vec![
        Feature::new("reasoning of this provider", THOUGHT, own).over(unreasoned()),
        Feature::new("reasoning of another provider", THOUGHT, of_another).over(unreasoned()),
        Feature::new("reasoning without a seal", THOUGHT, text).over(unreasoned()),
        Feature::new(
            "effort",
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
            "a budget of reasoning",
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
