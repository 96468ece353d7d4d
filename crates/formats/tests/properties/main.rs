//! Properties of all chat requests, responses and events.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gemini;
mod messages;
mod realtime;
mod responses;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use tollgate_formats::openai_chat::{
    CapName, EventEdits, RequestEdits, decode_request, encode_request, encode_usage, inspect_event,
    inspect_response, read_error, splice_event, splice_request, splice_response, validate,
};
use tollgate_formats::sse;
use tollgate_types::{Credits, Usage};

/// Returns a request with all features.
fn rich_request() -> Value {
    json!({
        "model": "maker/model",
        "messages": [
            {"role": "developer", "content": "be kind"},
            {"role": "system", "content": [{"type": "text", "text": "and brief"}], "name": "boss"},
            {"role": "user", "content": [
                {"type": "text", "text": "look \"here\"\n😀", "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}},
            ]},
            {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
                {"id": "b", "type": "custom", "custom": {"name": "c", "input": "free"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "refusal", "refusal": "y"}]},
            {"role": "assistant", "refusal": "no", "function_call": {"name": "g", "arguments": ""}},
            {"role": "function", "name": "g", "content": "3"},
            {"role": "user", "content": "go on"},
        ],
        "max_completion_tokens": 100, "max_tokens": 100, "n": 2, "stream": true,
        "stream_options": {"include_usage": false, "include_obfuscation": false},
        "stop": ["a", "b"], "temperature": 0.5, "top_p": 1, "frequency_penalty": -1.5, "presence_penalty": 2,
        "seed": -7, "logprobs": true, "top_logprobs": 3, "logit_bias": {"1": -100, "2": 5},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "strict": true,
                "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
            {"type": "custom", "custom": {"name": "c", "format": {"type": "grammar",
                "grammar": {"syntax": "lark", "definition": "start: x"}}}},
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
            "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "c"}}]}},
        "parallel_tool_calls": false, "reasoning_effort": "low", "verbosity": "high",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "strict": null}},
        "metadata": {"k": "v"}, "service_tier": "auto", "modalities": ["text", "audio"],
        "audio": {"format": "wav", "voice": {"id": "v"}}, "prediction": {"type": "content", "content": "p"},
        "user": "u", "store": false, "safety_identifier": "s",
        "functions": [{"name": "g"}], "function_call": "auto", "top_k": 4,
    })
}

/// Returns values of all types, to insert anywhere. Most of them are invalid there.
fn stray_values() -> Vec<Value> {
    let texts = [
        "",
        "text",
        "function",
        "custom",
        "assistant",
        "tool",
        "user",
        "a",
        "data:,x",
        "auto",
        "json_schema",
    ];
    let mut values: Vec<Value> = texts.into_iter().map(Value::from).collect();
    values.extend([
        Value::Null,
        json!(true),
        json!(0),
        json!(1),
        json!(2),
        json!(-0.0),
        json!(1.5),
        json!(-3),
        json!(u64::MAX),
        json!([]),
        json!({}),
        json!([{}]),
        json!(["x"]),
        json!({"type": "function", "function": {"name": "f"}}),
        json!({"name": "f", "arguments": "x", "input": "y", "url": "data:,"}),
    ]);
    values
}

/// Appends all positions in a tree to `out`, as JSON pointers.
fn places(value: &Value, here: &str, out: &mut Vec<String>) {
    out.push(here.to_owned());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{here}/{index}"), out);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                places(item, &format!("{here}/{key}"), out);
            }
        }
        _ => {}
    }
}

/// Change to a tree: replace a value, remove a key, add a key.
#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Remove,
    Add(&'static str, Value),
}

/// Applies these changes to the body.
fn altered(mut body: Value, changes: &[(Index, Change)]) -> Value {
    for (index, change) in changes {
        let mut found = Vec::new();
        places(&body, "", &mut found);
        let place = index.get(&found).clone();
        match change {
            Change::Replace(value) => {
                if let Some(here) = body.pointer_mut(&place) {
                    *here = value.clone();
                }
            }
            Change::Remove => {
                let (parent, key) = place.rsplit_once('/').unwrap_or_default();
                match body.pointer_mut(parent) {
                    Some(Value::Object(fields)) => drop(fields.shift_remove(key)),
                    Some(Value::Array(items)) => {
                        if let Ok(at) = key.parse::<usize>()
                            && at < items.len()
                        {
                            items.remove(at);
                        }
                    }
                    _ => {}
                }
            }
            Change::Add(key, value) => {
                if let Some(Value::Object(fields)) = body.pointer_mut(&place) {
                    fields.insert((*key).to_owned(), value.clone());
                }
            }
        }
    }
    body
}

fn change() -> impl Strategy<Value = Change> {
    let keys = vec![
        "type",
        "role",
        "content",
        "name",
        "index",
        "thinking",
        "reasoning",
        "id",
        "model",
        "null",
        "text",
    ];
    prop_oneof![
        select(stray_values()).prop_map(Change::Replace),
        Just(Change::Remove),
        (select(keys), select(stray_values())).prop_map(|(key, value)| Change::Add(key, value)),
    ]
}

fn apply(request: &mut Value, place: &str, change: Change) {
    match change {
        Change::Replace(value) => {
            if let Some(target) = request.pointer_mut(place) {
                *target = value;
            }
        }
        Change::Add(key, value) => {
            if let Some(Value::Object(fields)) = request.pointer_mut(place) {
                fields.insert(key.to_owned(), value);
            }
        }
        Change::Remove => {
            let Some((parent, key)) = place.rsplit_once('/') else {
                return;
            };
            match request.pointer_mut(parent) {
                Some(Value::Object(fields)) => {
                    fields.shift_remove(key);
                }
                Some(Value::Array(items)) => {
                    items.remove(key.parse().unwrap());
                }
                _ => {}
            }
        }
    }
}

/// Writes a tree with this white space between all tokens.
fn write(value: &Value, space: &str, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { space } else { "," });
                write(item, space, out);
                out.push_str(space);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (key, item)) in fields.iter().enumerate() {
                out.push_str(if index == 0 { space } else { "," });
                out.push_str(&format!("{space}{}{space}:{space}", Value::from(key.as_str())));
                write(item, space, out);
                out.push_str(space);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Returns the expected upstream request, computed on the tree.
fn expected_of(request: &Value, edits: &RequestEdits<'_>, known: impl Fn(&str) -> bool) -> Value {
    let cap_of = |name: &str| request.get(name).filter(|cap| !cap.is_null()).cloned();
    let cap = cap_of("max_completion_tokens").or_else(|| cap_of("max_tokens"));
    // A lower limit of the gateway replaces the caller's.
    let cap = cap.map(|cap| match edits.clamp_output {
        Some(clamp) if clamp < cap.as_u64().unwrap() => json!(clamp),
        _ => cap,
    });
    let mut out = Map::new();
    for (key, value) in request.as_object().unwrap() {
        let is_cap = key == "max_tokens" || key == "max_completion_tokens";
        let renames = edits.cap_name != CapName::AsSent || (cap.is_none() && edits.clamp_output.is_some());
        let is_allowed = known(key) || edits.vendor_fields.contains(&key.as_str());
        if !edits.remove.contains(&key.as_str()) && is_allowed && !(is_cap && renames) {
            let expected_value = if is_cap && !value.is_null() {
                cap.as_ref()
            } else {
                None
            };
            out.insert(key.clone(), expected_value.unwrap_or(value).clone());
        }
    }
    let cap_name = match edits.cap_name {
        CapName::MaxCompletionTokens => "max_completion_tokens",
        _ => "max_tokens",
    };
    match (cap, edits.clamp_output) {
        (Some(cap), _) if edits.cap_name != CapName::AsSent => {
            out.insert(cap_name.to_owned(), cap);
        }
        (None, Some(clamp)) => {
            out.insert(cap_name.to_owned(), json!(clamp));
        }
        _ => {}
    }
    out.insert("model".to_owned(), json!(edits.model));
    if request["stream"] == true && !edits.remove.contains(&"stream_options") {
        let mut options = request["stream_options"].as_object().cloned().unwrap_or_default();
        options.insert("include_usage".to_owned(), json!(true));
        out.insert("stream_options".to_owned(), Value::Object(options));
    }
    for (name, value) in edits.add {
        out.entry((*name).to_owned())
            .or_insert(serde_json::from_str(value).unwrap());
    }
    Value::Object(out)
}

fn subset(all: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(all.to_vec(), 0..=all.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4 * ProptestConfig::default().cases))]

    /// Every request that `validate` accepts can be decoded, and round-trips.
    #[test]
    fn valid_requests_can_be_decoded(changes in proptest::collection::vec((any::<Index>(), change()), 0..4)) {
        let mut request = rich_request();
        for (place, change) in changes {
            let mut all = Vec::new();
            places(&request, "", &mut all);
            apply(&mut request, place.get::<String>(&all), change);
        }
        let body = request.to_string();
        let validated = validate(body.as_bytes());
        let decoded = decode_request(body.as_bytes());
        prop_assert_eq!(validated.is_ok(), decoded.is_ok(), "{:?} {:?} {}", validated, decoded, body);
        if let Ok(decoded) = decoded {
            for cap_name in [CapName::AsSent, CapName::MaxTokens] {
                let encoded = encode_request(&decoded, cap_name);
                let mut again = decode_request(&encoded)
                    .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&encoded)));
                again.include_usage = decoded.include_usage;
                prop_assert_eq!(&again, &decoded);
            }
        }
    }

    /// Splicing has the same effect as editing the tree, and preserves the bytes of other values.
    #[test]
    fn splicing_is_editing_the_tree(
        (order, dropped) in (any::<u64>(), proptest::collection::vec(any::<Index>(), 0..12)),
        space in select(vec!["", " ", "\n\t"]),
        remove in subset(&["seed", "n", "store", "stream_options", "functions", "function_call", "top_k", "absent"]),
        vendor_fields in subset(&["top_k", "min_p"]),
        cap_name in select(vec![CapName::AsSent, CapName::MaxTokens, CapName::MaxCompletionTokens]),
        clamp_output in prop::option::of(1..5_000_u64),
        (no_cap, no_stream) in (any::<bool>(), any::<bool>()),
        add in any::<bool>(),
    ) {
        let mut request = rich_request();
        request["min_p"] = json!([0.1, {"model": "x"}]);
        let fields = request.as_object_mut().unwrap();
        if no_cap {
            fields.shift_remove("max_tokens");
            fields["max_completion_tokens"] = Value::Null;
        }
        if no_stream {
            fields.shift_remove("stream_options");
            fields["stream"] = json!(false);
        }
        for index in dropped {
            let key = index.get(&fields.keys().cloned().collect::<Vec<_>>()).clone();
            let needed = ["model", "messages", "stream", "logprobs", "audio"].contains(&key.as_str());
            if !needed {
                fields.shift_remove(&key);
            }
        }
        let mut keys: Vec<String> = fields.keys().cloned().collect();
        let places = keys.len() as u64;
        keys.rotate_left((order % places) as usize);
        let request: Map<String, Value> = keys.iter().map(|key| (key.clone(), request[key].clone())).collect();
        let request = Value::Object(request);
        let mut body = String::from(space);
        write(&request, space, &mut body);
        let body = Bytes::from(body);

        let edits = RequestEdits {
            model: "up\"stream",
            clamp_output,
            cap_name,
            remove: &remove,
            add: if add { &[("store", "true"), ("seed", "12")] } else { &[] },
            vendor_fields: &vendor_fields,
            developer_as_system: false,
        };
        let head = validate(&body).unwrap();
        let out = splice_request(&body, &head, &edits).concat();
        validate(&out).unwrap_or_else(|error| panic!("{error}: {out:?}"));
        let forwarded: Value = serde_json::from_slice(&out).unwrap();
        let unknown: Vec<&str> = head.unknown_fields().collect();
        let expected = expected_of(&request, &edits, |key| !unknown.contains(&key));
        prop_assert_eq!(&forwarded, &expected, "{:?} of {:?}", &out, &body);

        let out = String::from_utf8(out).unwrap();
        for (key, value) in request.as_object().unwrap() {
            let touched = ["model", "stream_options"].contains(&key.as_str()) || !expected.as_object().unwrap().contains_key(key);
            if !touched && expected[key] == *value {
                let mut text = String::new();
                write(value, space, &mut text);
                prop_assert!(out.contains(&text), "{} is kept to the byte", key);
            }
        }
    }

    /// Only `model` and `usage.cost` of a response change.
    #[test]
    fn splicing_an_answer_is_editing_its_tree(
        order in 0..5_usize,
        space in select(vec!["", " ", "\n"]),
        content in "[a-z\"\\\\\n😀{}:,]{0,20}",
        with_usage in any::<bool>(),
        cost in prop::option::of(0..i64::MAX),
    ) {
        let usage = if with_usage { json!({"prompt_tokens": 1, "cost": 0.1, "completion_tokens": 2}) } else { Value::Null };
        let mut fields = vec![
            ("id", json!("x")),
            ("model", json!("up")),
            ("choices", json!([{"message": {"content": content, "model": "up", "usage": {"cost": 1}}}])),
            ("usage", usage.clone()),
            ("z", json!({"model": "up"})),
        ];
        fields.rotate_left(order);
        let answer: Map<String, Value> = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let mut expected = answer.clone();
        expected["model"] = json!("public/m");
        let cost = cost.map(Credits::from_nanos);
        if let Some(usage) = expected["usage"].as_object_mut() {
            usage.shift_remove("cost");
            if let Some(cost) = cost {
                usage.insert("cost".to_owned(), json!(cost.to_string()));
            }
        }
        let counted = Usage::tokens(3, 2);
        let charged = cost.map(|cost| (&counted, cost));
        let mut body = String::new();
        write(&Value::Object(answer), space, &mut body);
        let body = Bytes::from(body);
        let head = inspect_response(&body).unwrap();
        prop_assert_eq!(head.output_bytes, content.len() as u64);
        let out = splice_response(&body, &head, "public/m", charged);
        let mut whole = expected.clone();
        if !whole["usage"].is_object() && cost.is_some() {
            whole["usage"] = encode_usage(&counted, cost);
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), Value::Object(whole));

        for include_usage in [false, true] {
            let event = sse::Event { name: None, id: None, data: body.clone(), raw: None };
            let head = inspect_event(&event.data).unwrap();
            let Some(out) = splice_event(&event, &head, &EventEdits::new("public/m", include_usage), cost) else {
                prop_assert!(!include_usage && content.is_empty());
                continue;
            };
            let mut reader = sse::EventReader::default();
            reader.push(out);
            let data = reader.next_event().unwrap().unwrap().data;
            let mut expected = expected.clone();
            if !include_usage {
                expected.shift_remove("usage");
            }
            prop_assert_eq!(serde_json::from_slice::<Value>(&data).unwrap(), Value::Object(expected));
        }
    }

    /// No input makes a parser panic.
    #[test]
    fn garbage_is_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        place in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let _ = validate(&bytes);
        let _ = inspect_event(&bytes);
        let _ = inspect_response(&bytes);
        let _ = read_error(&bytes);
        let mut body = rich_request().to_string().into_bytes();
        let place = place.index(body.len());
        body[place] = byte;
        let _ = validate(&body);
        let _ = inspect_event(&body);
        prop_assert!(validate(&body[..place]).is_err());
    }
}

/// The base request of the tests in this file is valid.
#[test]
fn the_rich_request_is_valid() {
    validate(rich_request().to_string().as_bytes()).unwrap();
}
