//! Features about the order of turns.

use serde_json::{Value, json};

use super::{Feature, turns};

pub fn all() -> Vec<Feature> {
    let hello = json!({"role": "user", "content": "Hello."});
    let answer = json!({"role": "assistant", "content": "Hello to you."});
    let brief = "Be brief.";
    let contents = |texts: &[(&str, &str)]| -> Value {
        let turn = |(role, text): &(&str, &str)| json!({"role": role, "parts": [{"text": text}]});
        texts.iter().map(turn).collect()
    };
    let system = json!({"role": "system", "content": brief});
    let later = json!([hello, answer, system, hello]);
    let with_answer = json!([hello, answer]);
    let cached = json!([{"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}]);
    vec![
        Feature::new(
            "system messages at the beginning",
            brief,
            [
                json!({"messages": [system, hello]}),
                Value::Null,
                json!({"system": brief}),
                json!({"instructions": brief}),
                json!({"systemInstruction": {"parts": [{"text": brief}]}}),
            ],
        ),
        Feature::new(
            "system messages later",
            brief,
            turns(later.clone(), later.clone(), later, Value::Null),
        )
        .over(turns(
            json!([hello, answer, hello]),
            json!([hello, answer, hello]),
            json!([hello, answer, hello]),
            Value::Null,
        )),
        Feature::new(
            "a final assistant message (prefill)",
            "Hello to you.",
            turns(
                with_answer.clone(),
                with_answer.clone(),
                with_answer,
                contents(&[("user", "Hello."), ("model", "Hello to you.")]),
            ),
        ),
        Feature::new(
            "name of a message's author",
            "Ada",
            turns(
                json!([{"role": "user", "name": "Ada", "content": "Hello."}]),
                Value::Null,
                Value::Null,
                Value::Null,
            ),
        ),
        Feature::new(
            "cache breakpoints",
            "ache",
            turns(
                Value::Null,
                json!([{"role": "user", "content": cached}]),
                json!([{"role": "user", "content": [
                    {"type": "input_text", "text": "Hello.", "prompt_cache_breakpoint": {"mode": "explicit"}},
                ]}]),
                Value::Null,
            ),
        ),
    ]
}
