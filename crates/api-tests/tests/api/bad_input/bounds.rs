//! Both sides of every bound of the chat format.

use serde_json::{Map, Value, json};

use super::{Case, check};
use crate::scene::{MAX_OUTPUT_TOKENS, Scene, hello};

/// Values of a parameter within and beyond its bounds, and the parameter that the error names.
struct Bound {
    name: &'static str,
    within: Vec<Value>,
    beyond: Vec<Value>,
    param: &'static str,
    besides: Value,
}

fn bound(name: &'static str, within: Value, beyond: Value) -> Bound {
    let list = |values: Value| values.as_array().unwrap().clone();
    Bound {
        name,
        within: list(within),
        beyond: list(beyond),
        param: name,
        besides: json!({}),
    }
}

fn pairs(count: usize, key: usize, value: usize) -> Value {
    let pair = |number: usize| (format!("{number:0key$}"), json!("v".repeat(value)));
    Value::Object((0..count).map(pair).collect::<Map<_, _>>())
}

fn tools(count: usize) -> Value {
    let tool = |number| json!({"type": "function", "function": {"name": format!("f{number}")}});
    (0..count).map(tool).collect()
}

fn named_schema(length: usize) -> Value {
    let schema = json!({"name": "n".repeat(length), "schema": {"type": "object"}});
    json!({"type": "json_schema", "json_schema": schema})
}

fn bounds() -> Vec<Bound> {
    let words = |words: &[&str]| json!(words);
    let mut all = vec![
        bound(
            "temperature",
            json!([0, 2, 0.0, 2.0, 1e0, 0.7, null]),
            json!([-0.1, 2.1, 9, "1", true, []]),
        ),
        bound("top_p", json!([0, 1, 0.5]), json!([-0.01, 1.01, "1"])),
        bound("frequency_penalty", json!([-2, 2, 0]), json!([-2.01, 2.01, "0"])),
        bound("presence_penalty", json!([-2, 2, 0]), json!([-2.01, 2.01, {}])),
        bound("n", json!([1, 128]), json!([0, 129, -1, 1.5, "1"])),
        bound(
            "max_tokens",
            json!([1, MAX_OUTPUT_TOKENS]),
            json!([0, -1, 1.5, "5", 1e30]),
        ),
        bound(
            "max_completion_tokens",
            json!([1, MAX_OUTPUT_TOKENS]),
            json!([0, -1, 1.5, "5"]),
        ),
        bound(
            "seed",
            json!([i64::MIN, i64::MAX, 0]),
            json!([9_223_372_036_854_775_808_u64, 1.5, "7"]),
        ),
        bound(
            "stop",
            json!(["x", ["a", "b", "c", "d"], [], null]),
            json!([["a", "b", "c", "d", "e"], 5, {}]),
        ),
        bound("logprobs", json!([true, false]), json!([1, "true"])),
        bound("parallel_tool_calls", json!([true, false]), json!(["true", 0])),
        bound("store", json!([true, false]), json!(["no"])),
        bound("stream", json!([false]), json!(["true", 1])),
        bound(
            "reasoning_effort",
            words(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
            json!(["extreme", "", 1]),
        ),
        bound("verbosity", words(&["low", "medium", "high"]), json!(["loud", 2])),
        bound("service_tier", words(&["auto", "default"]), json!(["first", 1])),
        bound("user", json!(["u", ""]), json!([5, {}])),
        bound(
            "safety_identifier",
            json!(["i".repeat(128)]),
            json!(["i".repeat(129), 1]),
        ),
        bound(
            "metadata",
            json!([pairs(16, 64, 512), {}]),
            json!([pairs(17, 4, 4), pairs(1, 65, 1), []]),
        ),
        bound("tools", json!([tools(1), tools(128)]), json!([tools(129)])),
        bound(
            "prompt_cache_retention",
            words(&["in_memory", "24h"]),
            json!(["7d"]),
        ),
        bound(
            "response_format",
            json!([named_schema(64), {"type": "text"}, {"type": "json_object"}]),
            json!([5]),
        ),
    ];
    all.extend([
        Bound {
            besides: json!({"logprobs": true}),
            ..bound("top_logprobs", json!([0, 20]), json!([-1, 21, 1.5]))
        },
        Bound {
            param: "logit_bias.50",
            ..bound(
                "logit_bias",
                json!([{"50": -100}, {"50": 100}]),
                json!([{"50": -100.5}, {"50": 101}, {"50": "1"}]),
            )
        },
        Bound {
            param: "stop[1]",
            ..bound("stop", json!([]), json!([["a", 1]]))
        },
        Bound {
            param: "metadata.0",
            ..bound("metadata", json!([]), json!([pairs(1, 1, 513), {"0": 5}]))
        },
        Bound {
            param: "response_format.json_schema.name",
            ..bound(
                "response_format",
                json!([]),
                json!([named_schema(65), named_schema(0)]),
            )
        },
    ]);
    all
}

impl Bound {
    fn body(&self, value: &Value) -> Value {
        let mut body = hello(self.besides.clone());
        body[self.name] = value.clone();
        body
    }
}

#[tokio::test]
async fn values_beyond_a_bound_are_refused() {
    let case = |bound: &Bound, value: &Value| {
        let body = bound.body(value).to_string();
        Case::new(
            &format!("{} = {value}", bound.name),
            body,
            "invalid_parameter",
            Some(bound.param),
        )
    };
    let of_one =
        |bound: &Bound| -> Vec<Case> { bound.beyond.iter().map(|value| case(bound, value)).collect() };
    let mut cases: Vec<Case> = bounds().iter().flat_map(of_one).collect();
    // Valid in the format, but beyond the limit of the model.
    for name in ["max_tokens", "max_completion_tokens"] {
        let mut body = hello(json!({}));
        body[name] = json!(MAX_OUTPUT_TOKENS + 1);
        cases.push(Case::new(
            name,
            body.to_string(),
            "parameter_out_of_range",
            Some(name),
        ));
    }
    check(cases).await;
}

#[tokio::test]
async fn values_within_the_bounds_are_forwarded() {
    let scene = Scene::start().await;
    let mut sent = 0;
    for bound in bounds() {
        for value in &bound.within {
            let what = format!("{} = {value}", bound.name);
            let response = scene.chat(&bound.body(value)).await;
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            sent += 1;
            let requests = scene.upstream.requests();
            assert_eq!(requests.len(), sent, "{what}");
            let received = requests[sent - 1].json().unwrap();
            // The gateway sends the name that every server supports.
            let name = match bound.name {
                "max_completion_tokens" => "max_tokens",
                name => name,
            };
            assert_eq!(received.get(name), Some(value), "{what} reaches the upstream");
        }
    }
    assert_eq!(scene.settled().await.held, 0);
    scene.finish().await;
}

#[tokio::test]
async fn unsupported_hints_are_dropped_and_reported() {
    let scene = Scene::start().await;
    let hints = json!({"client_metadata": {"a": 1}, "context_management": [], "betas": ["x"], "labels": {}});
    let response = scene.chat(&hello(hints.clone())).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let mut ignored: Vec<&str> = response
        .header("x-tollgate-ignored")
        .unwrap()
        .split(',')
        .collect();
    ignored.sort_unstable();
    assert_eq!(
        ignored,
        ["betas", "client_metadata", "context_management", "labels"]
    );
    let received = scene.upstream.requests()[0].json().unwrap();
    for name in hints.as_object().unwrap().keys() {
        assert_eq!(received.get(name), None, "{name}");
    }
    // Fields that the provider's preset allows are forwarded.
    let response = scene.chat(&hello(json!({"top_k": 40, "min_p": 0.05}))).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let received = scene.upstream.requests()[1].json().unwrap();
    assert_eq!(
        (&received["top_k"], &received["min_p"]),
        (&json!(40), &json!(0.05))
    );
    scene.finish().await;
}
