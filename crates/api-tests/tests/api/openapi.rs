//! The OpenAPI document and the page that renders it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use crate::scene::Scene;

/// Whether an operation needs no key.
fn is_open(operation: &Value) -> bool {
    operation["security"] == json!([{}])
}

#[tokio::test]
async fn the_document_lists_the_served_paths() {
    let scene = Scene::start_with("[service]\nsupport = \"help@example.org\"\n").await;
    let response = scene.client().send(&Request::get("/openapi.json")).await;
    assert_eq!(response.header("content-type"), Some("application/json"));
    let document = response.json();
    assert!(
        document["openapi"].as_str().unwrap().starts_with("3.1"),
        "{}",
        document["openapi"]
    );
    assert!(
        document.to_string().contains("help@example.org"),
        "whom to ask is shown"
    );
    let paths = document["paths"].as_object().unwrap();
    let listed: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    for path in [
        "/v1/chat/completions",
        "/v1/models",
        "/v1/models/{model}",
        "/v1/account/usage",
    ] {
        assert!(listed.contains(path), "{path} in {listed:?}");
    }
    // Every documented path exists, requires a key, and refuses other methods.
    for (path, operations) in paths {
        let target = path.replace("{model}", "sim/chat").replace("{id}", "resp_1");
        let documented: BTreeSet<String> = operations
            .as_object()
            .unwrap()
            .keys()
            .map(|method| method.to_uppercase())
            .collect();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let response = scene.client().send(&Request::new(method, &target)).await;
            // These paths match models whose ids may contain slashes and colons, so every GET is
            // routed.
            let catalogs = ["/v1/models/", "/v1beta/models/"];
            let is_model = method == "GET" && catalogs.iter().any(|catalog| path.starts_with(catalog));
            let is_open = method == "GET" && is_open(&operations["get"]);
            let expected = match documented.contains(method) || is_model {
                // The model does not exist, which is visible without a key.
                true if is_open => 404,
                true => 401,
                false => 405,
            };
            assert_eq!(response.status, expected, "{method} {path}");
        }
        for (method, operation) in operations.as_object().unwrap() {
            let what = format!("{method} {path}");
            assert!(
                operation["operationId"].is_string() && operation["tags"].is_array(),
                "{what}"
            );
            let ways = operation["security"].as_array().unwrap().len();
            assert_eq!(
                ways,
                if is_open(operation) { 1 } else { 2 },
                "{what}: either header"
            );
            let answers = ["101", "200"].map(|status| &operation["responses"][status]);
            assert!(answers.iter().any(|answer| answer.is_object()), "{what}");
            assert!(
                operation["responses"].as_object().unwrap().len() >= 2,
                "{what}: failures are documented"
            );
        }
    }
    assert_references_resolve(&document, &document);
    let printed = scene.gateway.command_line().try_run(&["openapi"]).await;
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(printed["paths"], document["paths"], "the command prints the same");
    scene.finish().await;
}

fn assert_references_resolve(value: &Value, document: &Value) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                let pointer = reference
                    .strip_prefix('#')
                    .unwrap_or_else(|| panic!("{reference} leads elsewhere"));
                assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            members
                .values()
                .for_each(|member| assert_references_resolve(member, document));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| assert_references_resolve(item, document)),
        _ => {}
    }
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let scene = Scene::start().await;
    let mut waiting = vec!["/docs".to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        let response = scene.client().send(&Request::get(&path)).await;
        assert_eq!(response.status, 200, "{path}");
        let policy = response.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{path}: {policy}"
        );
        assert_eq!(
            response.header("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        let text = response.text();
        // Scripts and styles load nothing else; the content security policy enforces it.
        let links: &[&str] = if path.ends_with(".js") {
            &[]
        } else {
            &["src=\"", "href=\"", "url("]
        };
        for attribute in links {
            for after in text.split(*attribute).skip(1) {
                let link = after.split(['"', ')', '#']).next().unwrap();
                assert!(
                    !link.contains("://") && !link.starts_with("//"),
                    "{path} loads {link}"
                );
                let is_local = !link.is_empty() && !link.contains(['$', ':']);
                // Both pages are at the root.
                let path = format!("/{}", link.trim_start_matches('/'));
                if is_local && seen.insert(path.clone()) {
                    waiting.push(path);
                }
            }
        }
    }
    assert!(seen.len() >= 2, "a script and a style: {seen:?}");
    scene.finish().await;
}
