//! Finite sets of values that a JSON Schema allows.

use serde_json::Value;

/// Maximum number of nested schemas to read, including the outermost schema. Each `$ref`, `allOf`,
/// `anyOf` or `oneOf` step adds one.
const MAX_HOPS: u32 = 8;

/// Returns the values of an enumeration or a boolean, including null if the schema allows it.
/// `None` for other schemas and beyond [`MAX_HOPS`]. Follows references within `root`, which schema
/// generators use for named enumerations.
pub(super) fn values(schema: &Value, root: &Value) -> Option<Vec<Value>> {
    within(schema, root, MAX_HOPS)
}

fn within(schema: &Value, root: &Value, hops: u32) -> Option<Vec<Value>> {
    let hops = hops.checked_sub(1)?;
    if let Some(values) = schema.get("enum") {
        return values.as_array().cloned();
    }
    if let Some(reference) = schema.get("$ref") {
        let pointer = reference.as_str()?.strip_prefix('#')?;
        return within(root.pointer(pointer)?, root, hops);
    }
    if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        return within(only, root, hops);
    }
    let either = schema.get("anyOf").or_else(|| schema.get("oneOf"));
    if let Some([one, two]) = either.and_then(Value::as_array).map(Vec::as_slice) {
        let is_null = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "null");
        let other = match (is_null(one), is_null(two)) {
            (false, true) => one,
            (true, false) => two,
            _ => return None,
        };
        let mut values = within(other, root, hops)?;
        if !values.contains(&Value::Null) {
            values.push(Value::Null);
        }
        return Some(values);
    }
    match schema.get("type")? {
        Value::String(kind) if kind == "boolean" => Some(vec![true.into(), false.into()]),
        Value::Array(kinds) => match kinds.as_slice() {
            [one, two] if one == "boolean" && two == "null" => {
                Some(vec![true.into(), false.into(), Value::Null])
            }
            _ => None,
        },
        _ => None,
    }
}
