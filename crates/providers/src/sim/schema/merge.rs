//! Merges two JSON Schemas that a value must both match.

use serde_json::{Map, Value, json};

/// Keywords for which the larger value applies.
const LARGER: &[&str] = &[
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "minItems",
    "minProperties",
];
/// Keywords for which the smaller value applies.
const SMALLER: &[&str] = &[
    "maximum",
    "exclusiveMaximum",
    "maxLength",
    "maxItems",
    "maxProperties",
];

/// Combines two schemas into one that requires both. For keywords that cannot be combined, the
/// value of `other` applies. `None` if the schemas exclude each other.
pub(super) fn merged(one: &Map<String, Value>, other: &Value) -> Option<Value> {
    let other = match other {
        Value::Bool(true) => return Some(Value::Object(one.clone())),
        Value::Object(other) => other,
        _ => return None,
    };
    let mut whole = one.clone();
    for (keyword, value) in other {
        let joined = match whole.get(keyword) {
            None => value.clone(),
            Some(known) if known == value => continue,
            Some(known) => both(keyword, known, value)?,
        };
        whole.insert(keyword.clone(), joined);
    }
    Some(Value::Object(whole))
}

fn both(keyword: &str, one: &Value, other: &Value) -> Option<Value> {
    let is_larger = one.as_f64() >= other.as_f64();
    Some(match (keyword, one, other) {
        (name, ..) if LARGER.contains(&name) => if is_larger { one } else { other }.clone(),
        (name, ..) if SMALLER.contains(&name) => if is_larger { other } else { one }.clone(),
        ("properties", Value::Object(ours), Value::Object(theirs)) => {
            let mut all = ours.clone();
            for (name, theirs) in theirs {
                let property = match ours.get(name) {
                    Some(ours) => json!({"allOf": [ours, theirs]}),
                    None => theirs.clone(),
                };
                all.insert(name.clone(), property);
            }
            Value::Object(all)
        }
        ("required", Value::Array(ours), Value::Array(theirs)) => {
            let new = theirs.iter().filter(|name| !ours.contains(name));
            Value::Array(ours.iter().chain(new).cloned().collect())
        }
        ("enum", Value::Array(ours), Value::Array(theirs)) => {
            let shared: Vec<Value> = ours
                .iter()
                .filter(|value| theirs.contains(value))
                .cloned()
                .collect();
            if shared.is_empty() {
                return None;
            }
            Value::Array(shared)
        }
        ("type", ..) => shared_type(one, other)?,
        ("allOf", Value::Array(ours), Value::Array(theirs)) => {
            Value::Array(ours.iter().chain(theirs).cloned().collect())
        }
        ("items", ..) => json!({"allOf": [one, other]}),
        ("additionalProperties", ..) if *other == true => one.clone(),
        ("const", ..) => return None,
        _ => other.clone(),
    })
}

/// Returns the types that both schemas allow, where each `integer` is also a `number`; `None` if
/// there are none.
fn shared_type(one: &Value, other: &Value) -> Option<Value> {
    let list = |value: &Value| match value {
        Value::Array(names) => names.clone(),
        name => vec![name.clone()],
    };
    let (ours, theirs) = (list(one), list(other));
    let allowed = |name: &&Value, by: &[Value]| {
        by.contains(name) || (**name == "integer" && by.iter().any(|other| other == "number"))
    };
    let shared: Vec<Value> = ours
        .iter()
        .filter(|name| allowed(name, &theirs))
        .chain(
            theirs
                .iter()
                .filter(|name| !ours.contains(name) && allowed(name, &ours)),
        )
        .cloned()
        .collect();
    (!shared.is_empty()).then_some(Value::Array(shared))
}
