//! Additions to the OpenAPI descriptions of the API crates: authentication, common response
//! headers, error codes, and an example of each request.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollgate_edge::error::status_and_type;
use tollgate_types::ErrorCode;
use utoipa::Modify;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Object, ObjectBuilder, OpenApi, Ref, RefOr, Required, Server, Type};

/// The table of error codes in docs/errors. The documentation page shows its last three columns.
const ERROR_TABLE: &str = include_str!("../../../../docs/errors/README.md");

/// Example requests by operation id. Their models are those of the simulator, which every server
/// has. File ids are placeholders. A test validates each example against its format.
pub(super) const BODIES: &[(&str, &str)] = &[
    (
        "create_chat_completion",
        r#"{"model": "sim/chat", "messages": [{"role": "user", "content": "Say hello."}]}"#,
    ),
    (
        "create_message",
        r#"{"model": "sim/chat", "max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]}"#,
    ),
    (
        "count_message_tokens",
        r#"{"model": "sim/chat", "messages": [{"role": "user", "content": "Say hello."}]}"#,
    ),
    (
        "create_quote",
        r#"{"endpoint": "/v1/chat/completions", "request": {"model": "sim/chat", "messages": [{"role": "user", "content": "Say hello."}]}}"#,
    ),
    (
        "create_research",
        r#"{"model": "sim/research", "query": "How many passengers did Orsel Lines carry in 2019?", "reasoning_effort": "minimal"}"#,
    ),
    (
        "create_async_chat_completion",
        r#"{"request": {"model": "sim/research", "messages": [{"role": "user", "content": "How many passengers did Orsel Lines carry in 2019?"}], "reasoning_effort": "minimal"}, "idempotency_key": "8e03978e-40d5-43e8-bc93-6894a57f9324"}"#,
    ),
    (
        "generate_images",
        r#"{"model": "sim/image", "prompt": "A lighthouse at dawn.", "aspect_ratio": "16:9", "num_images": 2}"#,
    ),
    (
        "generate_video",
        r#"{"model": "sim/video", "prompt": "A fox in the snow.", "duration": 2}"#,
    ),
    (
        "compose_video",
        r#"{"mode": "plan", "topic": "The lamp of a lighthouse must never go out.", "scenes": 3}"#,
    ),
    (
        "create_video",
        r#"{"model": "sim/video", "prompt": "A fox in the snow.", "seconds": "4", "size": "640x360"}"#,
    ),
    ("remix_video", r#"{"prompt": "The same fox in the rain."}"#),
    ("create_moderation", r#"{"input": ["How are you today?"]}"#),
    (
        "create_decisions",
        r#"{"model": "sim/decide", "state": {"message": "I was charged twice."}, "questions": {"refund": {"type": "noul", "instructions": "Does the message ask for money back?"}, "team": {"type": "choice", "instructions": "Who answers it?", "criteria": {"billing": "Payments", "tech": null}}}}"#,
    ),
    (
        "create_calibration",
        r#"{"model": "sim/decide", "examples": [{"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": true}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}, {"type": "noul", "probability": 0.9, "truth": false}]}"#,
    ),
    (
        "create_client_secret",
        r#"{"expires_after": {"anchor": "created_at", "seconds": 600}, "session": {"type": "realtime", "model": "sim/voice"}, "max_cost": "0.50"}"#,
    ),
    (
        "create_realtime_session",
        r#"{"model": "sim/voice", "voice": "alloy"}"#,
    ),
    (
        "create_transcription_session",
        r#"{"input_audio_transcription": {"model": "sim/transcribe"}, "turn_detection": {"type": "server_vad"}}"#,
    ),
    ("choose_calibration", r#"{"default": true}"#),
    (
        "create_response",
        r#"{"model": "sim/chat", "input": "Say hello."}"#,
    ),
    (
        "count_response_input_tokens",
        r#"{"model": "sim/chat", "input": "Say hello."}"#,
    ),
    (
        "compact_response",
        r#"{"model": "sim/chat", "input": "Say hello."}"#,
    ),
    (
        "create_completion",
        r#"{"model": "sim/chat", "prompt": "Once upon a time"}"#,
    ),
    (
        "generate_content",
        r#"{"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}"#,
    ),
    (
        "stream_generate_content",
        r#"{"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}"#,
    ),
    (
        "count_content_tokens",
        r#"{"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}"#,
    ),
    (
        "embed_content",
        r#"{"content": {"parts": [{"text": "A red fox."}]}, "outputDimensionality": 4}"#,
    ),
    (
        "batch_embed_contents",
        r#"{"requests": [{"model": "models/sim/embeddings", "content": {"parts": [{"text": "A red fox."}]}}]}"#,
    ),
    (
        "create_embeddings",
        r#"{"model": "sim/embeddings", "input": ["A red fox.", "A brown bear."], "dimensions": 4}"#,
    ),
    (
        "create_message_batch",
        r#"{"requests": [{"custom_id": "first", "params": {"model": "sim/chat", "max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]}}]}"#,
    ),
    (
        "create_batch",
        r#"{"input_file_id": "file-00000000000000000000000000000000", "endpoint": "/v1/chat/completions", "completion_window": "24h"}"#,
    ),
    (
        "create_speech",
        r#"{"model": "sim/speech", "input": "Good morning, harbour.", "voice": "alloy"}"#,
    ),
];

/// Example values of path parameters: operation id, parameter, value.
const PATH_VALUES: &[(&str, &str, &str)] = &[
    ("get_model", "model", "sim/chat"),
    ("generate_content", "model", "sim/chat"),
    ("stream_generate_content", "model", "sim/chat"),
    ("count_content_tokens", "model", "sim/chat"),
    ("embed_content", "model", "sim/embeddings"),
    ("batch_embed_contents", "model", "sim/embeddings"),
    ("get_template_preview", "slug", "product-on-white"),
];

/// Operations that accept `x-max-cost`: those with a cost, and the operation that quotes the cost.
const BOUNDED: &[&str] = &[
    "create_chat_completion",
    "create_completion",
    "create_message",
    "create_response",
    "open_response_session",
    "open_realtime_session",
    "compact_response",
    "generate_content",
    "stream_generate_content",
    "embed_content",
    "batch_embed_contents",
    "create_embeddings",
    "create_decisions",
    "create_speech",
    "create_transcription",
    "create_batch",
    "create_message_batch",
    "create_quote",
    "create_video",
    "remix_video",
    "generate_images",
    "generate_video",
    "compose_video",
    "create_research",
    "create_async_chat_completion",
];

/// Responses that have a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// Responses with any status.
    Every,
    /// Responses to a POST that starts work.
    Work,
    /// Responses with an error status.
    Failure,
}

/// Response headers: name, responses that have it, whether its value is an integer, and
/// description.
const HEADERS: &[(&str, On, bool, &str)] = &[
    (
        "x-request-id",
        On::Every,
        false,
        "Id of the request, assigned by the gateway. Quote it in support requests; it identifies the usage row.",
    ),
    ("request-id", On::Every, false, "The same as `x-request-id`."),
    (
        "x-ratelimit-limit-requests",
        On::Every,
        true,
        "Maximum number of requests per minute of the account. Present once the API key is authenticated.",
    ),
    (
        "x-ratelimit-remaining-requests",
        On::Every,
        true,
        "Number of requests that remain before the limit per minute is reached.",
    ),
    (
        "x-ratelimit-reset-requests",
        On::Every,
        false,
        "Time until the full request limit is available again, such as `1.5s` or `6m0s`.",
    ),
    (
        "x-ratelimit-limit-tokens",
        On::Work,
        true,
        "Maximum number of tokens per minute of the account.",
    ),
    (
        "x-ratelimit-remaining-tokens",
        On::Work,
        true,
        "Number of tokens that remain before the limit per minute is reached. Tokens reserved by running calls count as used.",
    ),
    (
        "x-ratelimit-reset-tokens",
        On::Work,
        false,
        "Time until the full token limit is available again, such as `1.5s` or `6m0s`.",
    ),
    (
        "x-tollgate-cost",
        On::Work,
        false,
        "Cost of the call in credits. A stream has `cost` in its usage event instead, if the caller requested one.",
    ),
    (
        "x-tollgate-overhead-us",
        On::Work,
        true,
        "Gateway latency until the response headers in microseconds, without the time spent waiting for the model.",
    ),
    (
        "x-tollgate-structured",
        On::Work,
        false,
        "How the gateway ensured the requested output schema, if the model's provider does not enforce it: `validated` \
         or `repaired`.",
    ),
    (
        "x-tollgate-ignored",
        On::Work,
        false,
        "Optional parameters of the request that were ignored, separated by commas.",
    ),
    (
        "idempotency-replayed",
        On::Work,
        false,
        "`true` if this is the stored response to an earlier request with the same idempotency key.",
    ),
    (
        "x-tollgate-original-request-id",
        On::Work,
        false,
        "Id of the original request, on a replayed response.",
    ),
    (
        "retry-after",
        On::Failure,
        true,
        "Seconds to wait before a retry, if a retry can succeed.",
    ),
    (
        "retry-after-ms",
        On::Failure,
        true,
        "The same as `retry-after` in milliseconds.",
    ),
    (
        "x-should-retry",
        On::Failure,
        false,
        "`false` if a retry of the same request would fail again; otherwise absent.",
    ),
];

/// Names of the headers of admin API responses.
const ADMIN_HEADERS: &[&str] = &["x-request-id", "request-id"];

/// Modifier that adds the two security schemes for API keys to the OpenAPI document.
pub struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key, as `Authorization: Bearer <key>`. It takes precedence over `x-api-key`.",
            ))
            .build();
        let header = ApiKeyValue::with_description("x-api-key", "An API key, as `x-api-key: <key>`.");
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        components.add_security_scheme("x-api-key", SecurityScheme::ApiKey(ApiKey::Header(header)));
    }
}

/// Completes the public OpenAPI document with parts that the code does not declare: paths in
/// OpenAPI syntax, headers, error codes and examples. The result does not depend on the order in
/// which the API crates were merged.
pub fn tidy(document: &mut OpenApi) {
    document.servers = Some(vec![Server::new("/")]);
    plain_paths(document);
    for item in document.paths.paths.values_mut() {
        tidy_item(item);
    }
    add_failures(document);
    add_aliases(document);
    add_header_components(document, |_| true);
    let codes = Extensions::from_iter([("x-error-codes", error_codes())]);
    document.extensions.get_or_insert_default().merge(codes);
}

/// Alternative paths of operations: path, alias, and suffix of the alias's operation ids.
const ALIASES: &[(&str, &str, &str)] = &[
    ("/v1/decisions", "/v1/systemone", "_systemone"),
    ("/v1/decisions", "/v1beta/decisions", "_v1beta"),
    (
        "/v1/models/{model}:generateContent",
        "/v1beta/models/{model}:generateContent",
        "_v1beta",
    ),
    (
        "/v1/models/{model}:streamGenerateContent",
        "/v1beta/models/{model}:streamGenerateContent",
        "_v1beta",
    ),
    (
        "/v1/models/{model}:countTokens",
        "/v1beta/models/{model}:countTokens",
        "_v1beta",
    ),
    (
        "/v1/models/{model}:embedContent",
        "/v1beta/models/{model}:embedContent",
        "_v1beta",
    ),
    (
        "/v1/models/{model}:batchEmbedContents",
        "/v1beta/models/{model}:batchEmbedContents",
        "_v1beta",
    ),
];

/// Adds the aliases. Their operations name the one that they are an alias of as `x-alias-of`.
fn add_aliases(document: &mut OpenApi) {
    let paths = &mut document.paths.paths;
    for (path, alias, suffix) in ALIASES {
        let Some(mut item) = paths.get(*path).cloned() else {
            continue;
        };
        for operation in item.get.iter_mut().chain(&mut item.post) {
            let Some(id) = operation.operation_id.take() else {
                continue;
            };
            operation.operation_id = Some(format!("{id}{suffix}"));
            let alias = Extensions::from_iter([("x-alias-of", Value::from(id))]);
            operation.extensions.get_or_insert_default().merge(alias);
        }
        paths.insert((*alias).to_owned(), item);
    }
}

/// Adds to each operation the error statuses that it can return. Each status has one shared
/// description.
fn add_failures(document: &mut OpenApi) {
    let mut found = BTreeSet::new();
    for (path, item) in &mut document.paths.paths {
        let posts = item.post.is_some();
        let methods = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in methods.into_iter().flatten() {
            for status in failures(path, operation, posts) {
                found.insert(status);
                let reference = Ref::new(format!("#/components/responses/failure-{status}"));
                let responses = &mut operation.responses.responses;
                responses
                    .entry(status.to_string())
                    .or_insert(RefOr::Ref(reference));
            }
        }
    }
    let components = document.components.get_or_insert_default();
    for status in found {
        let name = format!("failure-{status}");
        components.responses.insert(name, RefOr::T(failure(status)));
    }
}

/// Returns the error statuses of an operation. `posts` is true if the path accepts POST.
fn failures(path: &str, operation: &Operation, posts: bool) -> Vec<u16> {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let has_body = operation.request_body.is_some();
    let (has_path, costs) = (path.contains('{'), BOUNDED.contains(&id));
    let names_model = costs || has_body;
    let rules = [
        (400, has_body || operation.parameters.is_some()),
        (
            401,
            operation
                .security
                .as_ref()
                .is_some_and(|security| !security.is_empty()),
        ),
        (402, costs),
        (404, has_path || names_model),
        (408, has_body),
        (409, posts),
        (413, has_body),
        (415, has_body),
        (422, posts),
        (429, true),
        (500, true),
        (502, costs),
        (503, true),
        (504, costs),
    ];
    let may = rules.into_iter().filter(|(_, may)| *may);
    may.map(|(status, _)| status).collect()
}

/// Returns the shared description of an error status.
fn failure(status: u16) -> Response {
    let codes = ErrorCode::ALL.iter();
    let codes: Vec<String> = codes
        .filter(|code| status_and_type(**code).0.as_u16() == status)
        .map(|code| format!("`{}`", code.as_str()))
        .collect();
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("ErrorBody")))
        .build();
    let mut response = ResponseBuilder::new()
        .description(format!("An error: {}.", codes.join(", ")))
        .content("application/json", content)
        .build();
    add_headers(&mut response, &status.to_string(), true);
    response
}

fn add_header_components(document: &mut OpenApi, is_wanted: impl Fn(&str) -> bool) {
    let components = document.components.get_or_insert_default();
    for (name, _, whole, meaning) in HEADERS.iter().filter(|(name, ..)| is_wanted(name)) {
        let mut header = Header::new(Object::with_type(if *whole {
            Type::Integer
        } else {
            Type::String
        }));
        header.description = Some((*meaning).to_owned());
        components.headers.insert((*name).to_owned(), RefOr::T(header));
    }
}

fn plain_paths(document: &mut OpenApi) {
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
}

/// Completes the admin OpenAPI document. Its responses have only the headers that all responses
/// have.
pub fn tidy_admin(document: &mut OpenApi) {
    document.servers = Some(vec![Server::new("/")]);
    plain_paths(document);
    for item in document.paths.paths.values_mut() {
        let methods = [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in methods.into_iter().flatten() {
            for (status, response) in &mut operation.responses.responses {
                if let RefOr::T(response) = response {
                    describe_answer(response, status);
                    for name in ADMIN_HEADERS {
                        let reference = Ref::new(format!("#/components/headers/{name}"));
                        response.headers.insert((*name).to_owned(), RefOr::Ref(reference));
                    }
                }
            }
        }
    }
    add_header_components(document, |name| ADMIN_HEADERS.contains(&name));
    let codes = Extensions::from_iter([("x-error-codes", error_codes())]);
    document.extensions.get_or_insert_default().merge(codes);
}

fn tidy_item(item: &mut PathItem) {
    let starts_work = item.post.is_some();
    if let Some(post) = &mut item.post {
        post.parameters.get_or_insert_default().push(idempotency_key());
    }
    let methods = [
        &mut item.get,
        &mut item.post,
        &mut item.put,
        &mut item.patch,
        &mut item.delete,
    ];
    for operation in methods.into_iter().flatten() {
        let id = operation.operation_id.as_deref().unwrap_or_default();
        if BOUNDED.contains(&id) {
            operation.parameters.get_or_insert_default().push(max_cost());
        }
        add_examples(operation);
        for (status, response) in &mut operation.responses.responses {
            if let RefOr::T(response) = response {
                add_headers(response, status, starts_work);
            }
        }
    }
}

fn idempotency_key() -> RefOr<Parameter> {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(255));
    let parameter = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "Makes retries safe: requests with the same key are executed and charged once, and repeats receive the stored \
             response.",
        ))
        .schema(Some(schema));
    RefOr::T(parameter.build())
}

fn max_cost() -> RefOr<Parameter> {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(r"^[0-9]+(\.[0-9]{1,9})?$"));
    let parameter = ParameterBuilder::new()
        .name("x-max-cost")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "Maximum cost of the request, in credits such as `0.05`. The charge never exceeds it. The gateway lowers the \
             output token limit to fit, so a long answer may end with a length finish reason. Fails with 422 if even the \
             shortest answer may cost more. In a WebSocket session, the limit applies to each response.",
        ))
        .schema(Some(schema));
    RefOr::T(parameter.build())
}

fn describe_answer(response: &mut Response, status: &str) {
    let failure = !status.starts_with('2');
    if failure && response.description.is_empty() {
        response.description = "An error; `code` identifies it.".to_owned();
    }
    if status == "200" && response.description.is_empty() {
        response.description = "The request succeeded. The body contains the result.".to_owned();
    }
}

fn add_headers(response: &mut Response, status: &str, starts_work: bool) {
    let failure = !status.starts_with('2');
    describe_answer(response, status);
    for (name, on, ..) in HEADERS {
        let found = match on {
            On::Every => true,
            On::Work => starts_work,
            On::Failure => failure,
        };
        if found {
            let reference = Ref::new(format!("#/components/headers/{name}"));
            response.headers.insert((*name).to_owned(), RefOr::Ref(reference));
        }
    }
}

fn add_examples(operation: &mut Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let body = BODIES.iter().find(|(operation, _)| *operation == id);
    let content = match &mut operation.request_body {
        Some(RefOr::T(request)) => request.content.get_mut("application/json"),
        _ => None,
    };
    if let (Some((_, text)), Some(RefOr::T(content))) = (body, content) {
        content.example = serde_json::from_str(text).ok();
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(described) = parameter else { continue };
        let value = PATH_VALUES
            .iter()
            .find(|(operation, name, _)| *operation == id && *name == described.name);
        if let Some((.., value)) = value {
            let described = std::mem::replace(described, Parameter::new(""));
            *parameter = RefOr::T(
                ParameterBuilder::from(described)
                    .example(Some(Value::from(*value)))
                    .build(),
            );
        }
    }
}

/// Returns all error codes, ordered by status. Statuses and types are those of the edge crate; the
/// texts are from the table in docs/errors.
fn error_codes() -> Value {
    let mut codes = ErrorCode::ALL.to_vec();
    codes.sort_by_key(|code| status_and_type(*code).0);
    codes
        .iter()
        .map(|code| {
            let (status, kind) = status_and_type(*code);
            let [.., retry, billed, meaning] = table_row(*code).unwrap_or_default();
            json!({
                "status": status.as_u16(), "code": code.as_str(), "type": kind,
                "meaning": meaning, "retry": retry, "billed": billed
            })
        })
        .collect()
}

/// Returns the row of a code in docs/errors: status, code, type, retry, billed, meaning. A test
/// checks that every code has a row.
pub(super) fn table_row(code: ErrorCode) -> Option<[&'static str; 6]> {
    let name = format!("[`{}`]", code.as_str());
    let row = ERROR_TABLE
        .lines()
        .find(|line| line.starts_with('|') && line.contains(&name))?;
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    cells.try_into().ok()
}
