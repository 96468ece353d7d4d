//! Generates a small document that fits a JSON Schema, for structured output.

use serde_json::{Map, Value, json};

/// Maximum depth of a document. Below it, values of a recursive schema are null.
const DEEPEST: usize = 16;

/// Returns a minimal document for the usual keywords of structured output: `type`, `properties`,
/// `required`, `items`, `minItems`, `enum`, `const`, `anyOf`, `minimum`, and `$ref` within the
/// schema.
pub(super) fn sample(schema: &Value) -> Value {
    sample_of(schema, schema, DEEPEST)
}

fn sample_of(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let resolved = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return resolved.map_or(Value::Null, |found| sample_of(found, root, depth - 1));
    }
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    for keyword in ["enum", "anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema
            .get(keyword)
            .and_then(Value::as_array)
            .and_then(|list| list.first())
        {
            return if keyword == "enum" {
                first.clone()
            } else {
                sample_of(first, root, depth - 1)
            };
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or("null"),
        _ => "object",
    };
    // Gemini's schemas write types in upper case.
    match kind.to_ascii_lowercase().as_str() {
        "object" => object(schema, root, depth),
        "array" => {
            let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1) as usize;
            let item = schema
                .get("items")
                .map_or(Value::Null, |items| sample_of(items, root, depth - 1));
            Value::Array(vec![item; count])
        }
        "string" => json!("sample"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(true),
        _ => Value::Null,
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let mut members = Map::new();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            members.insert(name.clone(), sample_of(property, root, depth - 1));
        }
    }
    Value::Object(members)
}
