use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::operations::losses;
use super::{Options, PUBLIC, check, write};

/// Returns a document whose only operation has these request and response schemas.
fn document(request: Value, response: Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "paths": { "/v1/things": { "post": {
            "parameters": [{ "in": "query", "name": "limit", "schema": { "type": "integer", "maximum": 100 } }],
            "requestBody": { "content": { "application/json": { "schema": request } } },
            "responses": { "200": {
                "headers": { "x-request-id": { "schema": { "type": "string" } } },
                "content": { "application/json": { "schema": response } },
            } },
        } } },
        "components": { "schemas": {
            "Text": { "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } },
            "Picture": { "type": "object", "required": ["url"], "properties": { "url": { "type": "string" } } },
            "Tree": { "type": "object", "properties": { "child": { "$ref": "#/components/schemas/Tree" } } },
        } },
    })
}

/// Lists the losses when a request schema changes.
fn in_request(old: Value, new: Value) -> Vec<String> {
    losses(&document(old, json!({})), &document(new, json!({})))
}

/// Lists the losses when a response schema changes.
fn in_response(old: Value, new: Value) -> Vec<String> {
    losses(&document(json!({}), old), &document(json!({}), new))
}

/// Lists the losses when the value at a JSON pointer is replaced, or removed if `value` is null.
fn after_edit(place: &str, value: Value) -> Vec<String> {
    let old = document(json!({}), json!({}));
    let mut new = old.clone();
    let (parent, key) = place.rsplit_once('/').unwrap();
    // A JSON pointer escapes a slash as `~1`.
    let key = key.replace("~1", "/");
    let parent = new.pointer_mut(parent).unwrap();
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(&key);
    } else {
        parent[key] = value;
    }
    losses(&old, &new)
}

/// Returns an object schema with these required names and properties.
fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn text() -> Value {
    json!({ "$ref": "#/components/schemas/Text" })
}

fn image() -> Value {
    json!({ "$ref": "#/components/schemas/Picture" })
}

#[test]
fn the_same_document_has_lost_nothing() {
    let schema = object(
        &["a"],
        json!({ "a": { "oneOf": [text(), image(), { "type": "null" }] } }),
    );
    let document = document(schema.clone(), schema);
    assert_eq!(losses(&document, &document), Vec::<String>::new());
}

#[test]
fn parts_of_an_operation_may_not_go() {
    const OPERATION: &str = "/paths/~1v1~1things/post";
    for (place, value, expected) in [
        (
            "/paths/~1v1~1things".to_owned(),
            Value::Null,
            "/v1/things: the path is gone",
        ),
        (
            OPERATION.to_owned(),
            Value::Null,
            "POST /v1/things: the method is gone",
        ),
        (
            format!("{OPERATION}/responses/200"),
            Value::Null,
            "POST /v1/things: response 200 is gone",
        ),
        (
            format!("{OPERATION}/responses/200/content/application~1json"),
            Value::Null,
            "POST /v1/things: response 200 application/json is gone",
        ),
        (
            format!("{OPERATION}/responses/200/headers/x-request-id"),
            Value::Null,
            "POST /v1/things: response 200 header x-request-id is gone",
        ),
        (
            format!("{OPERATION}/requestBody"),
            Value::Null,
            "POST /v1/things: request body is gone",
        ),
        (
            format!("{OPERATION}/requestBody/required"),
            json!(true),
            "POST /v1/things: request body is newly required",
        ),
        (
            format!("{OPERATION}/parameters"),
            json!([]),
            "POST /v1/things: query parameter limit is gone",
        ),
        (
            format!("{OPERATION}/parameters/0/required"),
            json!(true),
            "POST /v1/things: query parameter limit is newly required",
        ),
        (
            format!("{OPERATION}/parameters/0/schema/maximum"),
            json!(50),
            "POST /v1/things: query parameter limit: maximum narrowed from 100 to 50",
        ),
    ] {
        assert_eq!(after_edit(&place, value), [expected], "{place}");
    }
}

#[test]
fn a_new_required_parameter_is_a_loss_and_an_optional_one_is_not() {
    let old = document(json!({}), json!({}));
    for (required, expected) in [(true, 1), (false, 0)] {
        let mut new = old.clone();
        let parameters = new["paths"]["/v1/things"]["post"]["parameters"]
            .as_array_mut()
            .unwrap();
        parameters.push(json!({ "in": "query", "name": "after", "required": required }));
        assert_eq!(losses(&old, &new).len(), expected);
    }
}

#[test]
fn requests_may_not_narrow() {
    let string = || json!({ "type": "string" });
    for (old, new, expected) in [
        (
            object(&[], json!({ "a": string() })),
            object(&[], json!({})),
            ".a is gone",
        ),
        (
            object(&[], json!({ "a": string() })),
            object(&["a"], json!({ "a": string() })),
            ".a is newly required",
        ),
        (
            object(&[], json!({})),
            object(&["a"], json!({ "a": string() })),
            ".a is newly required",
        ),
        (
            string(),
            json!({ "type": "integer" }),
            "the type changed from string to integer",
        ),
        (
            json!({ "type": "number" }),
            json!({ "type": "integer" }),
            "the type changed from number to integer",
        ),
        (
            json!({ "type": ["string", "null"] }),
            string(),
            "the type changed from string or null to string",
        ),
        (json!({}), string(), "the type changed from any to string"),
        (
            json!({ "enum": ["a", "b"] }),
            json!({ "enum": ["a"] }),
            "the value \"b\" is gone",
        ),
        (
            string(),
            json!({ "type": "string", "enum": ["a"] }),
            "is newly limited to certain values",
        ),
        (
            string(),
            json!({ "type": "string", "maxLength": 9 }),
            "maxLength narrowed from none to 9",
        ),
        (
            json!({ "maximum": 2.0 }),
            json!({ "maximum": 1.5 }),
            "maximum narrowed from 2 to 1.5",
        ),
        (
            json!({ "maxItems": 4 }),
            json!({ "maxItems": 3 }),
            "maxItems narrowed from 4 to 3",
        ),
        (
            json!({ "minimum": 0 }),
            json!({ "minimum": 1 }),
            "minimum narrowed from 0 to 1",
        ),
        (
            json!({ "minItems": 0 }),
            json!({ "minItems": 1 }),
            "minItems narrowed from 0 to 1",
        ),
        (
            string(),
            json!({ "type": "string", "pattern": "^a" }),
            "pattern changed from none to ^a",
        ),
        (
            json!({ "format": "int64" }),
            json!({ "format": "int32" }),
            "format changed from int64 to int32",
        ),
        (
            json!({}),
            json!({ "additionalProperties": false }),
            "unknown properties are newly refused",
        ),
        (
            json!({}),
            json!({ "additionalProperties": string() }),
            ".* has a schema now",
        ),
        (
            json!({ "type": "array", "items": string() }),
            json!({ "type": "array", "items": { "type": "integer" } }),
            "[]: the type changed from string to integer",
        ),
        (
            json!({ "oneOf": [text(), image()] }),
            json!({ "oneOf": [text()] }),
            "alternative Picture is gone",
        ),
        (
            json!({ "oneOf": [text(), { "type": "null" }] }),
            text(),
            "alternative 2 is gone",
        ),
        (
            json!({ "allOf": [text(), object(&[], json!({ "b": string() }))] }),
            json!({ "allOf": [text()] }),
            ".b is gone",
        ),
        (
            json!({ "properties": { "b": string() }, "oneOf": [text(), image()] }),
            json!({ "oneOf": [text(), image()] }),
            ".b is gone",
        ),
    ] {
        let found = in_request(old.clone(), new.clone());
        assert!(!found.is_empty(), "nothing found in {old} -> {new}");
        assert!(
            found.iter().any(|loss| loss.contains(expected)),
            "{found:?} has no `{expected}`"
        );
    }
}

#[test]
fn requests_may_widen() {
    let string = || json!({ "type": "string" });
    for (old, new) in [
        (object(&[], json!({})), object(&[], json!({ "a": string() }))),
        (
            object(&["a"], json!({ "a": string() })),
            object(&[], json!({ "a": string() })),
        ),
        (string(), json!({ "type": ["string", "null"] })),
        (
            json!({ "type": "integer", "format": "int32" }),
            json!({ "type": "number" }),
        ),
        (json!({ "format": "int32" }), json!({ "format": "int64" })),
        (json!({ "enum": ["a"] }), json!({ "enum": ["a", "b"] })),
        (json!({ "type": "string", "enum": ["a"] }), string()),
        (
            json!({ "maximum": 1, "minimum": 1 }),
            json!({ "maximum": 2, "minimum": 0 }),
        ),
        (json!({ "maxLength": 1 }), json!({})),
        (json!({ "additionalProperties": false }), json!({})),
        (text(), json!({ "oneOf": [{ "type": "null" }, text()] })),
        (
            json!({ "oneOf": [text()] }),
            json!({ "oneOf": [image(), text()] }),
        ),
        (text(), object(&[], json!({ "text": string() }))),
    ] {
        assert_eq!(
            in_request(old.clone(), new.clone()),
            Vec::<String>::new(),
            "{old} -> {new}"
        );
    }
}

#[test]
fn responses_may_not_lose() {
    let string = || json!({ "type": "string" });
    for (old, new, expected) in [
        (
            object(&[], json!({ "a": string() })),
            object(&[], json!({})),
            ".a is gone",
        ),
        (
            object(&["a"], json!({ "a": string() })),
            object(&[], json!({ "a": string() })),
            ".a is no longer required",
        ),
        (
            string(),
            json!({ "type": "integer" }),
            "the type changed from string to integer",
        ),
        (
            json!({ "type": "integer" }),
            json!({ "type": "number" }),
            "the type changed from integer to number",
        ),
        (string(), json!({}), "the type changed from string to any"),
        (string(), json!({ "type": ["string", "null"] }), "may now be null"),
        (
            text(),
            json!({ "oneOf": [{ "type": "null" }, text()] }),
            "may now be null",
        ),
        (
            json!({ "enum": ["a", "b"] }),
            json!({ "enum": ["a"] }),
            "the value \"b\" is gone",
        ),
        (
            json!({ "oneOf": [text(), image()] }),
            text(),
            "alternative Picture is gone",
        ),
        (
            json!({ "type": "array", "items": string() }),
            json!({ "type": "array" }),
            "[] has no schema any more",
        ),
    ] {
        let found = in_response(old.clone(), new.clone());
        assert!(
            found.iter().any(|loss| loss.contains(expected)),
            "{found:?} has no `{expected}`"
        );
    }
}

#[test]
fn responses_may_grow() {
    let string = || json!({ "type": "string" });
    for (old, new) in [
        (object(&[], json!({})), object(&["a"], json!({ "a": string() }))),
        (json!({ "type": ["string", "null"] }), string()),
        (json!({ "type": "number" }), json!({ "type": "integer" })),
        (json!({ "enum": ["a"] }), json!({ "enum": ["a", "b"] })),
        (json!({ "maximum": 2 }), json!({ "maximum": 1 })),
        (
            json!({ "oneOf": [text()] }),
            json!({ "oneOf": [text(), image()] }),
        ),
    ] {
        assert_eq!(
            in_response(old.clone(), new.clone()),
            Vec::<String>::new(),
            "{old} -> {new}"
        );
    }
}

#[test]
fn events_of_a_stream_are_compared() {
    let mut old = document(json!({}), json!({}));
    let content = |document: &mut Value, schema: Value| {
        document["paths"]["/v1/things"]["post"]["responses"]["200"]["content"]["text/event-stream"] =
            json!({ "itemSchema": schema });
    };
    content(&mut old, object(&[], json!({ "delta": { "type": "string" } })));
    let mut new = old.clone();
    content(&mut new, object(&[], json!({})));
    assert_eq!(
        losses(&old, &new),
        ["POST /v1/things: response 200 text/event-stream.delta is gone"]
    );
}

#[test]
fn a_shared_schema_is_followed_and_may_hold_itself() {
    let tree = json!({ "$ref": "#/components/schemas/Tree" });
    let old = document(tree.clone(), tree);
    let mut new = old.clone();
    let child = &mut new["components"]["schemas"]["Tree"]["properties"]["child"];
    *child = json!({ "description": "the next", "allOf": [{ "$ref": "#/components/schemas/Tree" }] });
    assert_eq!(losses(&old, &new), Vec::<String>::new());
    new["components"]["schemas"]["Tree"]["required"] = json!(["child"]);
    let found = losses(&old, &new);
    assert!(
        found
            .iter()
            .any(|loss| loss.ends_with("application/json.child is newly required")),
        "{found:?}"
    );
}

#[test]
fn options_are_read() {
    let options = Options::parse(&["--from", "a.json", "--allow-breaking"]).unwrap();
    assert_eq!(
        options,
        Options {
            from: Some("a.json".into()),
            allow_breaking: true
        }
    );
    assert!(Options::parse(&["--from"]).is_err());
    assert!(Options::parse(&["--force"]).is_err());
}

/// Creates a folder with an empty docs/, and options that read the generated document from a file
/// in it.
fn folder(generated: &Value) -> (tempfile::TempDir, Options) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    let from = folder.path().join("generated.json");
    fs::write(&from, generated.to_string()).unwrap();
    (
        folder,
        Options {
            from: Some(from),
            allow_breaking: false,
        },
    )
}

fn git(root: &Path, arguments: &[&str]) {
    let author = [
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.com",
        "-c",
        "commit.gpgsign=false",
    ];
    let status = Command::new("git")
        .args(author)
        .args(arguments)
        .current_dir(root)
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

#[test]
fn a_document_is_current_after_it_was_written() {
    let (folder, options) = folder(&document(json!({}), json!({})));
    assert!(
        !check(folder.path(), &options).unwrap(),
        "there is no document yet"
    );
    assert!(write(folder.path(), &options).unwrap());
    assert!(check(folder.path(), &options).unwrap());
    let stale = fs::read_to_string(folder.path().join(PUBLIC.path))
        .unwrap()
        .replace("3.1.0", "3.2.0");
    fs::write(folder.path().join(PUBLIC.path), stale).unwrap();
    assert!(
        !check(folder.path(), &options).unwrap(),
        "the document differs from the code"
    );
}

#[test]
fn a_rewritten_working_file_cannot_hide_a_loss() {
    let full = object(&[], json!({ "a": { "type": "string" } }));
    let (folder, mut options) = folder(&document(full, json!({})));
    let root = folder.path();
    assert!(write(root, &options).unwrap());
    git(root, &["init", "--quiet"]);
    git(root, &["add", PUBLIC.path]);
    git(root, &["commit", "--quiet", "--message", "the document"]);
    assert!(check(root, &options).unwrap());

    let narrowed = document(object(&[], json!({})), json!({}));
    fs::write(options.from.as_ref().unwrap(), narrowed.to_string()).unwrap();
    assert!(!write(root, &options).unwrap(), "a loss is refused");
    fs::write(root.join(PUBLIC.path), narrowed.to_string()).unwrap();
    assert!(
        !check(root, &options).unwrap(),
        "the last commit still has the property"
    );
    options.allow_breaking = true;
    assert!(write(root, &options).unwrap(), "a loss on purpose is written");
}

#[test]
fn non_documents_are_rejected() {
    let (folder, options) = folder(&json!({ "hello": "world" }));
    assert!(check(folder.path(), &options).is_err());
}
