//! Conversion of the format's schemas, a subset of OpenAPI 3.0, to JSON Schema.

use serde_json::{Map, Value, json};

/// Fields whose value is one schema.
const ONE: &[&str] = &["items", "additionalProperties"];
/// Fields whose value is a list of schemas.
const MANY: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];
/// Fields whose value is an object of schemas by name.
const NAMED: &[&str] = &["properties", "$defs"];
/// Bounds of 64 bits, which the JSON form of protocol buffers writes as strings.
const COUNTS: &[&str] = &[
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
];

/// Converts a schema: names of fields become camel case, types become lower case, counts become
/// numbers, `nullable` becomes the type `null`, and `propertyOrdering` is dropped.
pub(super) fn from_openapi(schema: Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema;
    };
    let mut is_nullable = false;
    let mut out = Map::new();
    for (written, value) in fields {
        let name = super::name::canonical(&written).into_owned();
        let value = match &*name {
            "nullable" => {
                is_nullable = value == true;
                continue;
            }
            "propertyOrdering" => continue,
            "type" => match value {
                Value::String(kind) if kind == "TYPE_UNSPECIFIED" => continue,
                Value::String(kind) => Value::String(kind.to_ascii_lowercase()),
                other => other,
            },
            name if ONE.contains(&name) => from_openapi(value),
            name if MANY.contains(&name) => each(value),
            name if NAMED.contains(&name) => by_name(value),
            name if COUNTS.contains(&name) => count(value),
            _ => value,
        };
        out.insert(name, value);
    }
    if is_nullable {
        allow_null(&mut out);
    }
    Value::Object(out)
}

fn each(value: Value) -> Value {
    match value {
        Value::Array(schemas) => Value::Array(schemas.into_iter().map(from_openapi).collect()),
        other => other,
    }
}

fn by_name(value: Value) -> Value {
    match value {
        Value::Object(schemas) => {
            let schemas = schemas.into_iter();
            Value::Object(
                schemas
                    .map(|(name, schema)| (name, from_openapi(schema)))
                    .collect(),
            )
        }
        other => other,
    }
}

fn count(value: Value) -> Value {
    let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
    number.map_or(value, Value::from)
}

fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(Value::String(kind)) = schema.get("type") {
        let both = json!([kind, "null"]);
        schema.insert("type".to_owned(), both);
    } else if let Some(Value::Array(schemas)) = schema.get_mut("anyOf") {
        schemas.push(json!({"type": "null"}));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subset_becomes_json_schema() {
        for (openapi, expected) in [
            (json!({"type": "STRING"}), json!({"type": "string"})),
            (
                json!({"type": "OBJECT", "propertyOrdering": ["a"], "required": ["a"], "properties": {
                    "a": {"type": "ARRAY", "minItems": "2", "items": {"type": "INTEGER", "format": "int32"}},
                    "type": {"type": "STRING", "nullable": true, "enum": ["x"]},
                }}),
                json!({"type": "object", "required": ["a"], "properties": {
                    "a": {"type": "array", "minItems": 2, "items": {"type": "integer", "format": "int32"}},
                    "type": {"type": ["string", "null"], "enum": ["x", null]},
                }}),
            ),
            (
                json!({"any_of": [{"type": "NUMBER"}, {"type": "BOOLEAN"}], "nullable": true}),
                json!({"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "null"}]}),
            ),
            (
                json!({"type": "TYPE_UNSPECIFIED", "title": "t"}),
                json!({"title": "t"}),
            ),
            (
                json!({"type": "object", "properties": {}}),
                json!({"type": "object", "properties": {}}),
            ),
        ] {
            assert_eq!(from_openapi(openapi.clone()), expected, "{openapi}");
        }
    }
}
