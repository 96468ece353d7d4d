use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tollgate_edge::error::status_and_type;
use tollgate_formats::openai_realtime::{RealtimeCode, SessionKind, SessionUpdate};
use tollgate_types::ErrorCode;
use tower::ServiceExt;

use super::*;

fn document() -> OpenApi {
    crate::router::document()
}

async fn get_path(path: &str) -> Response<Body> {
    get_with(path, "accept", "*/*").await
}

async fn get_with(path: &str, header: &str, value: &str) -> Response<Body> {
    let request = Request::get(path).header(header, value).body(Body::empty());
    routes(document, Some("help@example.com"), false)
        .oneshot(request.unwrap())
        .await
        .unwrap()
}

async fn bytes(response: Response<Body>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().into()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(bytes(response).await).unwrap()
}

#[tokio::test]
async fn every_file_is_served_with_its_type_and_the_same_policy() {
    let script = tollgate_web::assets()
        .iter()
        .find(|asset| asset.path.contains("/documentation-"))
        .unwrap();
    for (path, content_type, part) in [
        ("/openapi.json", "application/json", "\"openapi\""),
        ("/docs", "text/html; charset=utf-8", "data-base=\"/docs\""),
        ("/docs/", "text/html; charset=utf-8", "data-base=\"/docs\""),
        (
            "/docs/operations/create_response",
            "text/html; charset=utf-8",
            "data-base=\"/docs\"",
        ),
        (
            "/docs/guides/keys",
            "text/html; charset=utf-8",
            "data-base=\"/docs\"",
        ),
        ("/docs/guides/keys.md", "text/markdown; charset=utf-8", "# Keys"),
        (
            "/docs/errors/index.md",
            "text/markdown; charset=utf-8",
            "# Errors",
        ),
        ("/docs/guides.json", "application/json", "\"headings\""),
        ("/docs/samples.json", "application/json", "\"create_response\""),
        (script.path, "text/javascript; charset=utf-8", "import"),
    ] {
        let response = get_path(path).await;
        assert_eq!(response.status(), 200, "{path}");
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        let etag = header("etag");
        assert_eq!(header("content-type"), content_type);
        assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
        let plain = text(response).await;
        assert!(plain.contains(part), "{path}");

        let compressed = get_with(path, "accept-encoding", "gzip, br").await;
        assert_eq!(compressed.headers()["content-encoding"], "gzip", "{path}");
        let content = tollgate_web::decompress(&bytes(compressed).await).unwrap();
        assert_eq!(content, plain.as_bytes(), "{path}");
        let unchanged = get_with(path, "if-none-match", &etag).await;
        assert_eq!(unchanged.status(), 304, "{path}");
    }
    for path in [
        "/docs/guides/decisions.md",
        "/docs/nothing.json",
        "/console/assets/nothing.js",
    ] {
        assert_eq!(get_path(path).await.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn the_admin_listener_has_a_reference_of_its_api() {
    for (path, part) in [
        ("/admin/docs", "data-base=\"/admin/docs\""),
        (
            "/admin/docs/operations/list_accounts",
            "data-base=\"/admin/docs\"",
        ),
        ("/admin/docs/guides/admin.md", "# Administration"),
        ("/admin/openapi.json", "/admin/v1/accounts"),
    ] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = admin_routes(crate::admin::document, true)
            .oneshot(request)
            .await
            .unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert!(text(response).await.contains(part), "{path}");
    }
}

/// Operations without samples: WebSockets.
const WITHOUT_SAMPLE: &[&str] = &["open_response_session", "open_realtime_session"];

#[tokio::test]
async fn samples_belong_to_operations_and_operations_have_samples() {
    let value = serde_json::to_value(document()).unwrap();
    let samples: Value = serde_json::from_str(&text(get_path("/docs/samples.json").await).await).unwrap();
    let samples = samples.as_object().unwrap();
    let mut operations = std::collections::BTreeMap::new();
    for (path, item) in value["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            operations.insert(id, (path, operation));
        }
    }
    for (id, operation) in &operations {
        let is_alias = operation.1["x-alias-of"].is_string();
        let has_sample = samples.contains_key(*id);
        assert_eq!(has_sample, !is_alias && !WITHOUT_SAMPLE.contains(id), "{id}");
    }
    for (id, recorded) in samples {
        let (path, operation) = operations[id.as_str()];
        for sample in recorded.as_array().unwrap() {
            let title = sample["title"].as_str().unwrap();
            let names = sample["path"].as_object().into_iter().flatten();
            let mut filled = path.clone();
            for (name, value) in names {
                filled = filled.replace(&format!("{{{name}}}"), value.as_str().unwrap());
            }
            assert!(!filled.contains('{'), "{id}, {title}: {filled}");
            let response = &operation["responses"][sample["status"].to_string()];
            assert!(
                response.is_object(),
                "{id}, {title}: the status is not documented"
            );
            let is_json = sample["response"].is_object();
            let content = &response["content"]["application/json"];
            assert!(
                !is_json || content.is_object(),
                "{id}, {title}: the response is JSON"
            );
        }
    }
}

#[test]
fn every_error_code_has_a_page() {
    for code in ErrorCode::ALL {
        let path = format!("errors/{}.md", code.as_str());
        assert!(tollgate_web::document(&path).is_some(), "{path}");
    }
}

#[tokio::test]
async fn the_page_of_realtime_sessions_lists_every_code() {
    let page = text(get_path("/docs/guides/realtime.md").await).await;
    let (_, errors) = page.split_once("\n## Errors\n").unwrap();
    let (table, _) = errors.split_once("\n| close code |").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed: Vec<&str> = rows
        .flat_map(|row| row.split(" | ").next().unwrap().split(", "))
        .map(|code| code.trim_matches('`'))
        .collect();
    let mut all: Vec<&str> = RealtimeCode::ALL.iter().map(|code| code.as_str()).collect();
    listed.sort_unstable();
    all.sort_unstable();
    assert_eq!(listed, all);
}

#[tokio::test]
async fn browsers_are_sent_from_the_root_to_a_page() {
    let html = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    for (method, accept, has_console, status, location) in [
        ("GET", html, false, 303, Some("/docs")),
        ("GET", html, true, 303, Some("/console")),
        ("HEAD", html, true, 303, Some("/console")),
        ("POST", html, true, 404, None),
        ("GET", "*/*", true, 404, None),
        ("GET", "application/json", true, 404, None),
    ] {
        let request = Request::builder().method(method).uri("/").header(ACCEPT, accept);
        let response = routes(document, None, has_console)
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        let found = response
            .headers()
            .get("location")
            .map(|place| place.to_str().unwrap());
        assert_eq!(
            (response.status().as_u16(), found),
            (status, location),
            "{method} {accept}"
        );
    }
}

#[tokio::test]
async fn the_served_document_names_support() {
    let served: Value = serde_json::from_str(&text(get_path("/openapi.json").await).await).unwrap();
    assert_eq!(served["x-support"], "help@example.com");
    let committed = serde_json::to_value(document()).unwrap();
    assert_eq!(committed.get("x-support"), None);
}

#[test]
fn the_document_is_the_same_every_time() {
    let once = serde_json::to_string(&document()).unwrap();
    assert!((0..10).all(|_| serde_json::to_string(&document()).unwrap() == once));
}

#[test]
fn paths_are_as_openapi_writes_them_and_each_operation_says_how_to_authenticate() {
    let value = serde_json::to_value(document()).unwrap();
    assert_eq!(value["servers"], json!([{"url": "/"}]));
    let schemes = value["components"]["securitySchemes"].as_object().unwrap();
    assert_eq!(schemes["bearer"]["scheme"], "bearer");
    assert_eq!(schemes["x-api-key"]["in"], "header");
    let paths = value["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/models/{model}"));
    for (path, id) in [
        ("/v1/systemone", "create_decisions_systemone"),
        (
            "/v1beta/models/{model}:generateContent",
            "generate_content_v1beta",
        ),
    ] {
        let responses = &paths[path]["post"]["responses"];
        assert_eq!(paths[path]["post"]["operationId"], id);
        let alias_of = paths[path]["post"]["x-alias-of"].as_str().unwrap();
        assert!(id.starts_with(alias_of), "{id} is an alias of {alias_of}");
        for status in [
            "400", "401", "402", "404", "413", "422", "429", "500", "502", "503", "504",
        ] {
            assert!(responses[status].is_object(), "{path} {status}");
        }
    }
    assert!(paths["/v1/models"]["get"]["responses"]["402"].is_null());
    for (path, item) in paths {
        assert!(!path.contains('*'), "{path}");
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            for requirement in operation["security"].as_array().unwrap() {
                assert!(
                    requirement
                        .as_object()
                        .unwrap()
                        .keys()
                        .all(|name| schemes.contains_key(name)),
                    "{place}"
                );
            }
            for (status, response) in operation["responses"].as_object().unwrap() {
                let response = match response["$ref"].as_str() {
                    Some(reference) => value.pointer(&reference[1..]).unwrap(),
                    None => response,
                };
                let is_code = |code: &&ErrorCode| status_and_type(**code).0.as_str() == status;
                if let Some(code) = ErrorCode::ALL.iter().find(is_code) {
                    let description = response["description"].as_str().unwrap();
                    assert!(description.contains(code.as_str()), "{place} {status}");
                }
                let id = &response["headers"]["x-request-id"]["$ref"];
                assert_eq!(id, "#/components/headers/x-request-id", "{place}");
                assert!(
                    response["description"]
                        .as_str()
                        .is_some_and(|text| !text.is_empty()),
                    "{place}"
                );
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let expected = match name {
                    "Idempotency-Key" | "x-max-cost" | "last-event-id" => "header",
                    _ if path.contains(&format!("{{{name}}}")) => "path",
                    _ => "query",
                };
                assert_eq!(parameter["in"], expected, "{place}: {name}");
            }
            // A multipart form contains a file, so it has no JSON example.
            let content = &operation["requestBody"]["content"];
            if content.is_object() && content["multipart/form-data"].is_null() {
                assert!(
                    content["application/json"]["example"].is_object(),
                    "{place} has no example"
                );
            }
        }
    }
}

fn realtime_session(text: &str, kind: SessionKind, parent: Option<&str>) {
    SessionUpdate::parse(text, kind, parent).unwrap();
}

#[test]
fn examples_are_valid_requests() {
    for (operation, body) in describe::BODIES {
        match *operation {
            "create_chat_completion" => {
                tollgate_formats::openai_chat::validate(&axum::body::Bytes::from_static(body.as_bytes()))
                    .unwrap();
            }
            "create_message" | "count_message_tokens" => {
                use tollgate_formats::anthropic_messages::{Purpose, Version, validate};
                let purpose = match *operation {
                    "create_message" => Purpose::Generate,
                    _ => Purpose::Count,
                };
                validate(body.as_bytes(), Version::default(), purpose).unwrap();
            }
            "create_completion" => {
                tollgate_formats::openai_completions::validate(body.as_bytes()).unwrap();
            }
            "generate_content" | "stream_generate_content" | "count_content_tokens" => {
                use tollgate_formats::gemini::{Purpose, validate};
                validate(body.as_bytes(), Purpose::Generate).unwrap();
            }
            "embed_content" | "batch_embed_contents" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                let content = match *operation {
                    "embed_content" => &body["content"],
                    _ => &body["requests"][0]["content"],
                };
                assert!(content["parts"][0]["text"].is_string(), "{body}");
            }
            "create_response" | "count_response_input_tokens" | "compact_response" => {
                tollgate_formats::openai_responses::validate(body.as_bytes()).unwrap();
            }
            "create_embeddings" => {
                tollgate_formats::embeddings::validate(body.as_bytes()).unwrap();
            }
            "create_quote" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(
                    body["endpoint"].is_string() && body["request"].is_object(),
                    "{body}"
                );
            }
            "create_video" | "remix_video" | "generate_images" | "generate_video" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["prompt"].is_string(), "{body}");
            }
            "compose_video" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["mode"].is_string() && body["topic"].is_string(), "{body}");
            }
            "create_research" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["model"].is_string() && body["query"].is_string(), "{body}");
            }
            "create_async_chat_completion" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                let request = &body["request"];
                assert!(
                    request["model"].is_string() && request["messages"].is_array(),
                    "{body}"
                );
                assert!(body["idempotency_key"].is_string(), "{body}");
            }
            "create_decisions" => {
                tollgate_formats::decisions::read(body.as_bytes()).unwrap();
            }
            "create_calibration" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                let examples = body["examples"].as_array().unwrap();
                assert!(body["model"].is_string() && examples.len() == 30, "{body}");
            }
            "choose_calibration" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["default"].is_boolean(), "{body}");
            }
            "create_client_secret" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                let session = body["session"].to_string();
                realtime_session(&session, SessionKind::Voice, Some("session"));
                assert!(body["expires_after"]["seconds"].is_u64(), "{body}");
            }
            "create_realtime_session" => realtime_session(body, SessionKind::Voice, None),
            "create_transcription_session" => realtime_session(body, SessionKind::Transcription, None),
            "create_speech" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["input"].is_string() && body["voice"].is_string(), "{body}");
            }
            "create_message_batch" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                let request = &body["requests"][0];
                assert!(
                    request["custom_id"].is_string() && request["params"].is_object(),
                    "{body}"
                );
            }
            "create_batch" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["input_file_id"].is_string(), "{body}");
            }
            "create_moderation" => {
                // The tests of the API crate check the content; this test checks the shape.
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["input"][0].is_string(), "{body}");
            }
            other => panic!("nothing checks the example of {other}"),
        }
    }
}

#[test]
fn every_error_code_is_described_and_the_table_of_docs_agrees_with_the_code() {
    let value = serde_json::to_value(document()).unwrap();
    let rows = value["x-error-codes"].as_array().unwrap();
    assert_eq!(rows.len(), ErrorCode::ALL.len());
    assert!(rows.is_sorted_by_key(|row| row["status"].as_u64()));
    for code in ErrorCode::ALL {
        let row = rows.iter().find(|row| row["code"] == code.as_str()).unwrap();
        let (status, kind) = status_and_type(*code);
        let [written_status, _, written_kind, ..] = describe::table_row(*code).unwrap();
        assert_eq!(
            (written_status, written_kind.trim_matches('`')),
            (status.as_str(), kind),
            "{code:?}"
        );
        assert_eq!(row["status"], status.as_u16());
        for member in ["meaning", "retry", "billed"] {
            assert!(
                row[member].as_str().is_some_and(|text| !text.is_empty()),
                "{code:?} {member}"
            );
        }
    }
}
