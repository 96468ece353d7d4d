use serde_json::{Value, json};

use super::sample;

const USER_TEXT: &str = "Tell of the sea. It is wide.";

fn check(schema: Value) -> Value {
    let value = sample(&schema, USER_TEXT).unwrap_or_else(|| panic!("nothing found for {schema}"));
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{value} for {schema}: {errors:?}");
    value
}

#[test]
fn samples_match_their_schemas() {
    let schemas = [
        json!({}),
        json!(true),
        json!({"type": "object"}),
        json!({"type": ["null", "string"]}),
        json!({"const": {"a": [1]}}),
        json!({"enum": [3, "x", null]}),
        json!({"type": "string", "enum": [3, "x"]}),
        json!({"type": "null"}),
        json!({"type": "boolean"}),
        json!({"properties": {"a": {"type": "integer"}}}),
        json!({"type": "object", "required": ["a", "b"], "additionalProperties": false,
            "properties": {"a": {"type": "string"}, "b": {"type": "number"}, "c": {"type": "string"}}}),
        json!({"type": "object", "required": ["free"], "properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "required": ["x"], "additionalProperties": {"type": "integer", "minimum": 9}}),
        json!({"type": "object", "minProperties": 3, "properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "required": ["a"], "minProperties": 2,
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "additionalProperties": false}),
        json!({"type": "array"}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 4}),
        json!({"type": "array", "items": {"type": "integer", "maximum": -3}, "minItems": 4, "uniqueItems": true}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3, "uniqueItems": true}),
        json!({"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": true}),
        json!({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "uniqueItems": true}),
        json!({"type": "array", "items": {"type": "object", "required": ["id"],
            "properties": {"id": {"type": "integer"}}}, "minItems": 2, "uniqueItems": true}),
        json!({"type": "array", "maxItems": 0}),
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
        json!({"type": "array", "contains": {"const": 5}, "items": {"type": "integer"}, "minItems": 2}),
        json!({"type": "string", "minLength": 20}),
        json!({"type": "string", "maxLength": 2}),
        json!({"type": "string", "maxLength": 0}),
        json!({"type": "string", "minLength": 3, "maxLength": 3}),
        json!({"type": "integer", "minimum": 5}),
        json!({"type": "integer", "maximum": -5}),
        json!({"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7}),
        json!({"type": "integer", "minimum": 0.5, "maximum": 1.5}),
        json!({"type": "integer", "minimum": 10, "multipleOf": 7}),
        json!({"type": "integer", "minimum": -20, "maximum": -15, "multipleOf": 6}),
        json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        json!({"type": "number", "minimum": 0.25, "maximum": 0.75, "multipleOf": 0.5}),
        json!({"type": "number", "minimum": 1e12}),
        json!({"minimum": 3}),
        json!({"minItems": 1}),
    ];
    for schema in schemas {
        check(schema);
    }
}

#[test]
fn patterns_and_formats() {
    for pattern in [
        "^a+$",
        "^[A-Z]{3}-\\d{4}$",
        "^(yes|no)$",
        "^\\w+@\\w+\\.com$",
        "^#[0-9a-fA-F]{6}$",
        "^(?:[a-z]+\\s)*[a-z]+$",
        "^[^a-z]$",
        "^.{5,9}$",
        "\\d",
        "^\\+?[1-9]\\d{1,14}$",
        "^\\p{Lu}$",
    ] {
        check(json!({"type": "string", "pattern": pattern}));
    }
    for (pattern, min, max) in [
        ("^[a-z]+$", 12, 12),
        ("^[a-z]{2,}-\\d*$", 9, 20),
        ("^x?$", 0, 0),
        ("abc", 9, 12),
    ] {
        check(json!({"type": "string", "pattern": pattern, "minLength": min, "maxLength": max}));
    }
    check(json!({"type": "array", "uniqueItems": true, "minItems": 30,
        "items": {"type": "string", "pattern": "^[a-z]{2}$"}}));
    for format in [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "uuid",
        "json-pointer",
        "regex",
        "made-up",
    ] {
        check(json!({"type": "array", "minItems": 3, "items": {"type": "string", "format": format}}));
    }
}

#[test]
fn references_and_combinations() {
    let schemas = [
        json!({"$defs": {"n": {"type": "integer", "minimum": 3}}, "properties": {"a": {"$ref": "#/$defs/n"}}}),
        json!({"definitions": {"a/b": {"const": 1}}, "$ref": "#/definitions/a~1b"}),
        json!({"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s", "minLength": 9}),
        json!({"allOf": [{"type": "object", "required": ["a"], "properties": {"a": {"minimum": 3}}},
            {"required": ["b"], "properties": {"a": {"type": "integer", "maximum": 3}, "b": {"type": "string"}}}]}),
        json!({"allOf": [{"type": ["integer", "string"]}, {"type": "number"}]}),
        json!({"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}]}),
        json!({"allOf": [{"minLength": 2}, {"minLength": 6}], "type": "string"}),
        json!({"anyOf": [{"type": "array", "minItems": 1, "items": false}, {"type": "integer"}]}),
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"type": "object", "properties": {"kind": {}}, "required": ["kind"],
            "anyOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["x"]}]}),
        json!({"$defs": {"node": {"type": "object", "required": ["left", "right"], "additionalProperties": false,
            "properties": {"left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                "right": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}, "$ref": "#/$defs/node"}),
        json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}),
        json!({"type": "object", "required": ["next"], "properties": {"next": {"oneOf": [{"$ref": "#"}, {"type": "null"}]}}}),
    ];
    for schema in schemas {
        check(schema);
    }
}

/// The schema is one that the SDKs generate from a typical user-defined model.
#[test]
fn a_strict_schema_as_the_sdks_write_it() {
    let value = check(json!({
        "type": "object", "title": "Event", "additionalProperties": false,
        "required": ["name", "date", "participants", "priority", "place"],
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "date": {"type": "string", "format": "date"},
            "participants": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/Person"}},
            "priority": {"enum": ["low", "high"], "type": "string"},
            "place": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Place"}]}
        },
        "$defs": {
            "Person": {"type": "object", "required": ["name", "age"], "additionalProperties": false,
                "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18, "maximum": 99}}},
            "Place": {"type": "object", "required": ["city"], "additionalProperties": false,
                "properties": {"city": {"type": "string"}}}
        }
    }));
    assert_eq!(value["participants"].as_array().unwrap().len(), 2);
}

#[test]
fn unsatisfiable_schemas_are_abandoned_early() {
    for schema in [
        json!(false),
        json!({"type": "nonsense"}),
        json!({"enum": []}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$ref": "#"}),
        json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}),
        json!({"type": "object", "required": ["a"], "additionalProperties": false}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"type": "array", "minItems": 1_000_000_000}),
        json!({"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000}}),
        json!({"type": "integer", "minimum": 3, "maximum": 2}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "string", "pattern": "(((a{999}){999}){999})"}),
        json!({"allOf": [{"type": "string"}, {"type": "integer"}]}),
        json!(7),
    ] {
        assert_eq!(sample(&schema, USER_TEXT), None, "{schema}");
    }
}

#[test]
fn long_texts_repeat_the_users_words() {
    let schema = json!({"type": "array", "minItems": 2, "items": {"type": "string", "minLength": 12, "maxLength": 60}});
    assert_eq!(
        check(schema),
        json!([
            "Tell of the sea. It is wide.",
            "A closer look: Tell of the sea. It is wide."
        ])
    );
    let min = json!({"type": "string", "minLength": 40, "maxLength": 50});
    assert!(
        check(min)
            .as_str()
            .unwrap()
            .starts_with("Tell of the sea. It is wide. Tell")
    );
    let titled = json!({
        "type": "object", "required": ["title"],
        "properties": {"title": {"type": "string", "minLength": 1, "maxLength": 20}},
    });
    assert_eq!(check(titled), json!({"title": "Tell of the sea. It"}));
    let narrow = json!({"type": "string", "minLength": 12, "maxLength": 12});
    assert_eq!(check(narrow).as_str().unwrap().len(), 12);
}
