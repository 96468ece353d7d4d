//! What the rooms' own descriptions do not say: how to authenticate, which headers every answer has, every error code,
//! and an example of each request.

use serde_json::{Value, json};
use tollgate_edge::error::status_and_type;
use tollgate_types::ErrorCode;
use utoipa::Modify;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::Response;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Object, ObjectBuilder, OpenApi, Ref, RefOr, Required, Server, Type};

/// The table that people read in docs/errors; its last three columns are shown by the page too.
const ERROR_TABLE: &str = include_str!("../../../../docs/errors/README.md");

/// Requests that work as they are: the simulator is always there. A test holds each against its format.
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

/// Values of path parameters for examples.
const PATH_VALUES: &[(&str, &str, &str)] = &[
    ("get_model", "model", "sim/chat"),
    ("generate_content", "model", "sim/chat"),
    ("stream_generate_content", "model", "sim/chat"),
    ("count_content_tokens", "model", "sim/chat"),
    ("embed_content", "model", "sim/embeddings"),
    ("batch_embed_contents", "model", "sim/embeddings"),
    ("get_template_preview", "slug", "product-on-white"),
];

/// Operations that may cost something, and that which says how much.
const BOUNDED: &[&str] = &[
    "create_chat_completion",
    "create_completion",
    "create_message",
    "create_response",
    "open_response_session",
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
];

/// On which answers a header is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// All.
    Every,
    /// Those of a POST that starts work.
    Work,
    /// Failures.
    Failure,
}

/// Name, where it is found, whether it is a whole number, meaning.
const HEADERS: &[(&str, On, bool, &str)] = &[
    (
        "x-request-id",
        On::Every,
        false,
        "Id of the request, always ours. Quote it when you ask for help; the usage row is found by it.",
    ),
    ("request-id", On::Every, false, "The same as `x-request-id`."),
    (
        "x-ratelimit-limit-requests",
        On::Every,
        true,
        "Requests per minute of the account. Sent once the key is recognised.",
    ),
    (
        "x-ratelimit-remaining-requests",
        On::Every,
        true,
        "Requests that are left of those per minute.",
    ),
    (
        "x-ratelimit-reset-requests",
        On::Every,
        false,
        "Until all requests per minute are there again, such as `1.5s` or `6m0s`.",
    ),
    (
        "x-ratelimit-limit-tokens",
        On::Work,
        true,
        "Tokens per minute of the account.",
    ),
    (
        "x-ratelimit-remaining-tokens",
        On::Work,
        true,
        "Tokens that are left of those per minute, what running calls have reserved taken off.",
    ),
    (
        "x-ratelimit-reset-tokens",
        On::Work,
        false,
        "Until all tokens per minute are there again, such as `1.5s` or `6m0s`.",
    ),
    (
        "x-tollgate-cost",
        On::Work,
        false,
        "What the call cost, in credits. A stream has `cost` in the usage event that the caller asked for instead.",
    ),
    (
        "x-tollgate-overhead-us",
        On::Work,
        true,
        "Microseconds until the response headers that were not spent waiting for the model.",
    ),
    (
        "x-tollgate-structured",
        On::Work,
        false,
        "How an answer got the shape that was asked for, when the model's provider does not force it: `validated` or \
         `repaired`.",
    ),
    (
        "x-tollgate-ignored",
        On::Work,
        false,
        "Optional hints of the request that were dropped, separated by commas.",
    ),
    (
        "idempotency-replayed",
        On::Work,
        false,
        "`true` when the request was carried out before under its idempotency key, and this is that answer.",
    ),
    (
        "x-tollgate-original-request-id",
        On::Work,
        false,
        "Id of the request that was carried out, on an answer that is given again.",
    ),
    (
        "retry-after",
        On::Failure,
        true,
        "Whole seconds to wait before another attempt, where one can help.",
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
        "`false` where another attempt cannot help (402).",
    ),
];

/// Those that answers of the admin API have.
const ADMIN_HEADERS: &[&str] = &["x-request-id", "request-id"];

/// Adds the two ways in which a key is sent.
pub struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key, as `Authorization: Bearer <key>`. It wins when both headers are sent.",
            ))
            .build();
        let header = ApiKeyValue::with_description("x-api-key", "The same key in a header of its own.");
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        components.add_security_scheme("x-api-key", SecurityScheme::ApiKey(ApiKey::Header(header)));
    }
}

/// Makes the document what it is outside of the code: paths as OpenAPI writes them, headers, error codes, examples. The
/// same document comes out whatever the order in which the rooms were merged.
pub fn tidy(document: &mut OpenApi) {
    document.servers = Some(vec![Server::new("/")]);
    plain_paths(document);
    for item in document.paths.paths.values_mut() {
        tidy_item(item);
    }
    add_header_components(document, |_| true);
    let codes = Extensions::from_iter([("x-error-codes", error_codes())]);
    document.extensions.get_or_insert_default().merge(codes);
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

/// The same for the admin API, whose answers have the headers that every answer has, and no others.
pub fn tidy_admin(document: &mut OpenApi) {
    document.servers = Some(vec![Server::new("/")]);
    plain_paths(document);
    for item in document.paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
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
            "Makes it safe to send the request again: under one key it is carried out and charged once, and its answer is \
             given again.",
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
            "The most that the request may cost, in credits such as `0.05`. No more is ever charged. The cap on output tokens \
             is made as small as that needs; an answer that goes beyond it is ended as one that has reached its length. 422 \
             where even the shortest answer may cost more. In a session over a WebSocket it holds for each response.",
        ))
        .schema(Some(schema));
    RefOr::T(parameter.build())
}

fn describe_answer(response: &mut Response, status: &str) {
    let failure = !status.starts_with('2');
    if failure && response.description.is_empty() {
        response.description = "A failure; `code` says which.".to_owned();
    }
    if status == "200" && response.description.is_empty() {
        response.description = "The answer.".to_owned();
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

/// Every error code: status and type from the edge's table, the words from the table in docs/errors; by status.
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

/// A code's row in docs/errors: status, code, type, retry, billed, meaning. A test sees to it that every code has one.
pub(super) fn table_row(code: ErrorCode) -> Option<[&'static str; 6]> {
    let name = format!("[`{}`]", code.as_str());
    let row = ERROR_TABLE
        .lines()
        .find(|line| line.starts_with('|') && line.contains(&name))?;
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    cells.try_into().ok()
}
