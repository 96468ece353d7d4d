//! Self-hosted servers, whose reports are less complete than those of the large providers or have
//! other forms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Key, nanos};
use tollgate_testkit::upstream::{Answer, FakeUpstream, ReceivedRequest, Reply, Usage, UsagePosition};

use crate::scene::{BINARY, CHAT, PROVIDER_KEY, Scene, assert_error, hello, with};

/// A gateway with upstreams that each test configures.
struct Setup {
    gateway: Gateway,
    key: Key,
}

impl Setup {
    async fn start(config: String) -> Self {
        let mut options = tollgate_testkit::gateway::Options {
            config,
            ..Default::default()
        };
        options
            .env
            .push(("PROVIDER_KEY".to_owned(), PROVIDER_KEY.to_owned()));
        let gateway = Gateway::start(BINARY, options).await;
        let account = gateway.account().await;
        let key = gateway.key(&account).await;
        gateway.grant(&account, "1000").await;
        Self { gateway, key }
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        let request = Request::json(path, body).key(&self.key.secret);
        self.gateway.client().send(&request).await
    }

    async fn row(&self, response: &Response) -> Value {
        let query = format!("?request_id={}", response.request_id());
        let usage = self.gateway.usage(&self.key.secret, &query).await;
        usage["data"][0].clone()
    }
}

/// Returns the settings of a provider, and of its model with prices and without limits.
fn blocks(name: &str, preset: &str, base_url: &str, more: &str) -> String {
    format!(
        "[providers.{name}]\npreset = \"{preset}\"\nbase_url = \"{base_url}\"\napi_key_env = \"PROVIDER_KEY\"\n{more}\n\
         [models.\"house/{name}\"]\ntargets = [\"{name}/m\"]\nprices = {{ input = \"1\", output = \"2\" }}\n"
    )
}

fn said(model: &str, text: &str, stream: bool) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}], "stream": stream})
}

fn cap_of(body: &Value) -> Option<u64> {
    let names = ["max_tokens", "max_completion_tokens"];
    names.iter().find_map(|name| body[name].as_u64())
}

fn refused(message: &str, param: Value) -> Reply {
    let error =
        json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": null}});
    Reply::body(400, "application/json", error.to_string())
}

/// Behavior of a self-hosted server.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// The server has a context window of 8,192 tokens, which its model list reports.
    WindowListed,
    /// The server has the same context window, which its model list does not report.
    WindowUnlisted,
    /// The server has the same context window and no model list.
    NoList,
    /// The server refuses unknown parameters.
    Strict,
    /// The server refuses output caps above 4,096 tokens.
    ShortAnswers,
}

const SERVERS: [Server; 5] = [
    Server::WindowListed,
    Server::WindowUnlisted,
    Server::NoList,
    Server::Strict,
    Server::ShortAnswers,
];

impl Server {
    fn judge(self, request: &ReceivedRequest) -> Option<Reply> {
        if request.path.ends_with("/models") {
            return match self {
                Server::WindowListed => {
                    let list = json!({"object": "list", "data": [{"id": "m", "max_model_len": 8_192}]});
                    Some(Reply::body(200, "application/json", list.to_string()))
                }
                Server::NoList => Some(Reply::error(404, "not_found", "There is no such path.")),
                _ => {
                    let list = json!({"object": "list", "data": [{"id": "m"}]});
                    Some(Reply::body(200, "application/json", list.to_string()))
                }
            };
        }
        let body = request.json()?;
        let cap = cap_of(&body);
        match self {
            Server::WindowListed | Server::WindowUnlisted | Server::NoList => {
                let input = body["messages"].to_string().len() as u64 / 4;
                let is_too_much = input + cap.unwrap_or(1) > 8_192;
                is_too_much
                    .then(|| refused("This model's maximum context length is 8192 tokens.", Value::Null))
            }
            Server::Strict => {
                let known = [
                    "model",
                    "messages",
                    "stream",
                    "stream_options",
                    "temperature",
                    "n",
                ];
                let mut names = body.as_object()?.keys();
                let unknown = names.find(|name| !known.contains(&name.as_str()))?;
                Some(refused(
                    &format!("Unrecognized request argument: {unknown}"),
                    Value::Null,
                ))
            }
            Server::ShortAnswers => {
                let is_too_much = cap.is_some_and(|cap| cap > 4_096);
                is_too_much.then(|| refused("max_tokens is too large", json!("max_tokens")))
            }
        }
    }

    async fn start(self) -> FakeUpstream {
        let upstream = FakeUpstream::start().await;
        upstream.set_judge(move |request| self.judge(request));
        upstream
    }
}

/// Every preset of chat completions with a configurable URL.
const PRESETS: [&str; 16] = [
    "openai",
    "openrouter",
    "groq",
    "together",
    "fireworks",
    "deepseek",
    "mistral",
    "xai",
    "cerebras",
    "nvidia",
    "ollama",
    "llama.cpp",
    "vllm",
    "sglang",
    "lm-studio",
    "openai-compatible",
];

#[tokio::test]
async fn calls_without_a_cap_are_answered_by_servers_of_every_kind() {
    let mut config = String::new();
    let mut models = Vec::new();
    let mut upstreams = Vec::new();
    for (number, server) in SERVERS.into_iter().enumerate() {
        let upstream = server.start().await;
        // Not every preset requests usage in streams.
        upstream.set_default(Reply::answer(
            Answer::words(9).usage_position(UsagePosition::Always),
        ));
        for preset in PRESETS {
            let name = format!("{}-{number}", preset.replace('.', ""));
            config += &blocks(&name, preset, &upstream.base_url(), "");
            models.push(format!("house/{name}"));
        }
        if !matches!(server, Server::NoList) {
            config += &format!(
                "[providers.rack-{number}]\npreset = \"vllm\"\nbase_url = \"{}\"\n\
                 default_price = {{ input = \"0.05\", output = \"0.20\" }}\n",
                upstream.base_url()
            );
            models.push(format!("rack-{number}/m"));
        }
        upstreams.push(upstream);
    }
    let setup = Setup::start(config).await;
    // A short text, and a text so long that the added cap exceeds the rest of the context.
    for text in ["Hello.".to_owned(), "word ".repeat(4_000)] {
        for (model, stream) in models.iter().flat_map(|model| [(model, false), (model, true)]) {
            let response = setup.post(CHAT, &said(model, &text, stream)).await;
            assert_eq!(response.status, 200, "{model} {stream}: {}", response.text());
            assert!(
                !stream || response.text().ends_with("data: [DONE]\n\n"),
                "{model}"
            );
            let row = setup.row(&response).await;
            assert_eq!(
                (&row["outcome"], row["estimated"].as_bool()),
                (&json!("ok"), Some(false)),
                "{row}"
            );
        }
    }
    let log = setup.gateway.log();
    assert!(
        log.contains("possibly because of the output limit that the gateway added"),
        "{log}"
    );
    setup.gateway.finish().await;
}

/// A server that refuses `stream_options` receives each stream request again without it, until a
/// refusal shows that it does not support the field.
#[tokio::test]
async fn streams_work_with_servers_that_refuse_stream_options() {
    let upstream = FakeUpstream::start().await;
    upstream.keep_requests(true);
    upstream.set_judge(|request| {
        let is_refused = request.json()?.get("stream_options").is_some();
        is_refused.then(|| {
            refused(
                "[{'loc': ['body', 'stream_options'], 'msg': 'extra'}]",
                Value::Null,
            )
        })
    });
    let setup = Setup::start(blocks("own", "openai-compatible", &upstream.base_url(), "")).await;
    let warning = "the server rejects `stream_options`";
    let completion = json!({"model": "house/own", "prompt": "Hi.", "stream": true});
    let with_usage = with(
        said("house/own", "Hi.", true),
        json!({"stream_options": {"include_usage": true}}),
    );
    // The refusal of an option that the caller sent does not affect other requests.
    for (body, path, requests, is_known) in [
        (&with_usage, CHAT, 2, false),
        (&with_usage, CHAT, 2, false),
        (&said("house/own", "Hi.", true), CHAT, 2, true),
        (&said("house/own", "Hi.", true), CHAT, 1, true),
        (&with_usage, CHAT, 1, true),
        (&completion, "/v1/completions", 1, true),
    ] {
        let before = upstream.requests().len();
        let response = setup.post(path, body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(
            response.text().ends_with("data: [DONE]\n\n"),
            "{}",
            response.text()
        );
        let has_usage = response.text().contains("\"total_tokens\"");
        assert_eq!(has_usage, body == &with_usage, "{}", response.text());
        assert_eq!(upstream.requests().len() - before, requests, "{body}");
        let row = setup.row(&response).await;
        assert_eq!(
            (&row["outcome"], &row["estimated"]),
            (&json!("ok"), &json!(true)),
            "{row}"
        );
        assert!(nanos(&row["cost"]) > 0, "{row}");
        assert_eq!(setup.gateway.log().contains(warning), is_known);
    }
    assert_eq!(setup.gateway.log().matches(warning).count(), 1);
    setup.gateway.finish().await;
}

#[tokio::test]
async fn answers_of_servers_without_usage_have_counted_usage() {
    let upstream = FakeUpstream::start().await;
    upstream.set_default(Reply::answer(Answer::words(3).usage(Usage::Missing)));
    let config = [("own", "vllm"), ("other", "gemini")];
    let config = config.map(|(name, preset)| blocks(name, preset, &upstream.base_url(), ""));
    let setup = Setup::start(config.concat()).await;
    for model in ["house/own", "house/other"] {
        let response = setup.post(CHAT, &said(model, "Hi.", false)).await;
        let row = setup.row(&response).await;
        let usage = &response.json()["usage"];
        assert_eq!(
            (&usage["cost"], &row["estimated"]),
            (&row["cost"], &json!(true)),
            "{model}"
        );
        assert_eq!(
            usage["completion_tokens"], row["usage"]["output_tokens"],
            "{model}"
        );

        let body = json!({"stream_options": {"include_usage": true}});
        let response = setup.post(CHAT, &with(said(model, "Hi.", true), body)).await;
        let row = setup.row(&response).await;
        let text = response.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let chunks: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
        let (first, last) = (&chunks[0], &chunks[chunks.len() - 1]);
        assert_eq!(
            (&last["choices"], &last["usage"]["cost"]),
            (&json!([]), &row["cost"]),
            "{model}"
        );
        assert!(first["id"].as_str().is_some_and(|id| !id.is_empty()), "{first}");
        assert_eq!(
            (&last["id"], &last["created"]),
            (&first["id"], &first["created"]),
            "{model}"
        );
    }
    setup.gateway.finish().await;
}

#[tokio::test]
async fn an_answer_without_a_cap_ends_at_its_hold() {
    let upstream = Server::Strict.start().await;
    upstream.set_default(Reply::words(9_000));
    let setup = Setup::start(blocks("own", "vllm", &upstream.base_url(), "")).await;
    let response = setup.post(CHAT, &said("house/own", "Go on.", true)).await;
    let text = response.text();
    assert!(
        text.ends_with("data: [DONE]\n\n") && text.contains("\"length\""),
        "{}",
        &text[text.len() - 400..]
    );
    let row = setup.row(&response).await;
    let output = row["usage"]["output_tokens"].as_i64().unwrap();
    // The count is an estimate by bytes, and the charge is never more than the hold.
    assert!((4_096..9_000).contains(&output), "{row}");
    let (min, max) = (4_096 * 2_000, 4_096 * 2_000 + 200 * 1_000);
    assert!((min..=max).contains(&nanos(&row["cost"])), "{row}");
    assert_eq!(row["outcome"], "ok");
    setup.gateway.finish().await;
}

#[tokio::test]
async fn an_error_mentions_a_cap_that_the_gateway_added() {
    let upstream = FakeUpstream::start().await;
    upstream.set_judge(|request| {
        let refuses = request.path.ends_with("/completions") && cap_of(&request.json()?).is_some();
        refuses.then(|| refused("no", json!("max_tokens")))
    });
    let setup = Setup::start(blocks("own", "vllm", &upstream.base_url(), "")).await;
    // With a cost limit, the gateway does not retry without a cap.
    let request = Request::json(CHAT, &said("house/own", "Hi.", false))
        .key(&setup.key.secret)
        .header("x-max-cost", "0.001");
    let response = setup.gateway.client().send(&request).await;
    let error = assert_error("max cost", &response, "invalid_parameter", None);
    assert!(error.message.contains("that the gateway added"), "{error:?}");
    let log = setup.gateway.log();
    assert!(log.contains("the gateway had added the output cap"), "{log}");
    // An error about the caller's own cap does not mention the gateway.
    let body = with(said("house/own", "Hi.", false), json!({"max_tokens": 9}));
    let response = setup.post(CHAT, &body).await;
    let error = assert_error("own cap", &response, "invalid_parameter", Some("max_tokens"));
    assert!(!error.message.contains("gateway"), "{error:?}");
    setup.gateway.finish().await;
}

/// After a refusal, an upstream that requires a cap receives a smaller one. If it refuses that,
/// too, the error reports that the gateway set the cap.
#[tokio::test]
async fn an_error_mentions_the_second_cap_of_a_format_that_requires_one() {
    let upstream = FakeUpstream::start().await;
    upstream.set_judge(|request| {
        let cap = request.json()?["max_tokens"].as_u64()?;
        let message =
            format!("max_tokens: {cap} > 500, which is the maximum allowed number of output tokens");
        (cap > 500).then(|| Reply::error(400, "invalid_request_error", &message))
    });
    let setup = Setup::start(blocks("small", "anthropic", &upstream.base_url(), "")).await;
    let response = setup.post(CHAT, &said("house/small", "Hi.", false)).await;
    let error = assert_error("no cap", &response, "invalid_parameter", None);
    assert!(
        error
            .message
            .contains("1024 output tokens that the gateway added"),
        "{error:?}"
    );
    let body = with(said("house/small", "Hi.", false), json!({"max_tokens": 600}));
    let response = setup.post(CHAT, &body).await;
    let error = assert_error("own cap", &response, "invalid_parameter", Some("max_tokens"));
    assert!(!error.message.contains("gateway"), "{error:?}");
    setup.gateway.finish().await;
}

#[tokio::test]
async fn upstream_error_texts_follow_the_error_text_setting() {
    let upstream = FakeUpstream::start().await;
    let words = format!("Template is\nbroken: key {PROVIDER_KEY}, sk-other-1234567.");
    upstream.set_judge(move |request| {
        let is_call = request.path.ends_with("/completions");
        is_call.then(|| refused(&words, json!("made_up")))
    });
    let of = |name: &str, more: &str| blocks(name, "vllm", &upstream.base_url(), more);
    let config = [
        of("usual", ""),
        of("hides", "error_text = \"hide\""),
        of("logs", "error_text = \"log\""),
        of("passes", "error_text = \"pass\""),
    ];
    let setup = Setup::start(config.concat()).await;
    let clean = "Template is broken: key [redacted], [redacted]";
    let mut logged = 0;
    for (name, logs, passes) in [
        ("usual", true, false),
        ("hides", false, false),
        ("logs", true, false),
        ("passes", true, true),
    ] {
        for stream in [false, true] {
            let response = setup
                .post(CHAT, &said(&format!("house/{name}"), "Hi.", stream))
                .await;
            // The error names no parameter that the caller has not sent.
            let error = assert_error(name, &response, "invalid_parameter", None);
            assert_eq!(error.message.contains(clean), passes, "{name}: {error:?}");
            assert!(!response.text().contains("sk-"), "{}", response.text());
            let times = setup.gateway.log().matches(clean).count();
            assert_eq!(times > logged, logs, "{name} {stream}");
            logged = times;
        }
    }
    let log = setup.gateway.log();
    assert!(!log.contains(PROVIDER_KEY) && !log.contains("sk-other"), "{log}");
    setup.gateway.finish().await;
}

#[tokio::test]
async fn the_cap_has_the_name_that_the_server_knows() {
    let upstream = FakeUpstream::start().await;
    upstream.set_default(Reply::words(3));
    let any = blocks("any", "openai-compatible", &upstream.base_url(), "");
    let newest = blocks("newest", "openai", &upstream.base_url(), "");
    let setup = Setup::start(any + &newest).await;
    let turn = json!([{"role": "user", "content": "Hi."}]);
    for (name, known, other) in [
        ("any", "max_tokens", "max_completion_tokens"),
        ("newest", "max_completion_tokens", "max_tokens"),
    ] {
        let model = format!("house/{name}");
        for (path, body) in [
            (
                CHAT.to_owned(),
                json!({"model": model, "messages": turn, "max_completion_tokens": 24}),
            ),
            (
                CHAT.to_owned(),
                json!({"model": model, "messages": turn, "max_tokens": 24}),
            ),
            (
                "/v1/messages".to_owned(),
                json!({"model": model, "messages": turn, "max_tokens": 24}),
            ),
            (
                "/v1/responses".to_owned(),
                json!({"model": model, "input": "Hi.", "max_output_tokens": 24}),
            ),
            (
                format!("/v1beta/models/{model}:generateContent"),
                json!({"contents": [{"parts": [{"text": "Hi."}]}], "generationConfig": {"maxOutputTokens": 24}}),
            ),
        ] {
            let response = setup.post(&path, &body).await;
            assert_eq!(response.status, 200, "{path} {name}: {}", response.text());
            let requests = upstream.requests();
            let sent = requests.last().and_then(ReceivedRequest::json).unwrap();
            assert_eq!(
                (&sent[known], &sent[other]),
                (&json!(24), &Value::Null),
                "{path} {name}"
            );
        }
    }
    setup.gateway.finish().await;
}

#[tokio::test]
async fn several_answers_are_paid_whatever_the_server_counts() {
    // The gateway requests one answer at a time from servers that may not count several answers.
    let upstream = FakeUpstream::start().await;
    upstream.set_default(Reply::words(50));
    let own = blocks("own", "openai-compatible", &upstream.base_url(), "");
    let counted = blocks(
        "counted",
        "openai-compatible",
        &upstream.base_url(),
        "answers = \"together\"",
    );
    let setup = Setup::start(own + &counted).await;
    for stream in [false, true] {
        let before = upstream.request_count();
        let body = with(
            said("house/own", "Go on.", stream),
            json!({"n": 3, "max_tokens": 60}),
        );
        let body = with(
            body,
            json!({"stream_options": stream.then(|| json!({"include_usage": true}))}),
        );
        let response = setup.post(CHAT, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(upstream.request_count() - before, 3);
        let sent = upstream
            .requests()
            .last()
            .and_then(ReceivedRequest::json)
            .unwrap();
        assert!(sent.get("n").is_none(), "{sent}");
        let finished = match stream {
            false => response.json()["choices"].as_array().unwrap().len(),
            true => response.text().matches("\"finish_reason\":\"stop\"").count(),
        };
        assert_eq!(finished, 3, "{}", response.text());
        assert!(
            response.text().contains("\"completion_tokens\":150"),
            "{}",
            response.text()
        );
        let row = setup.row(&response).await;
        assert_eq!(
            (&row["usage"]["output_tokens"], &row["estimated"]),
            (&json!(150), &json!(false))
        );
    }
    // Completions that are sent as a chat have one prompt. Their answers are also requested one at
    // a time.
    for stream in [false, true] {
        let before = upstream.request_count();
        let options = stream.then(|| json!({"include_usage": true}));
        let body = json!({"model": "house/own", "prompt": "Go on.", "n": 3, "max_tokens": 60, "stream": stream,
            "stream_options": options});
        let response = setup.post("/v1/completions", &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(upstream.request_count() - before, 3);
        for index in 0..3 {
            assert!(
                response.text().contains(&format!("\"index\":{index}")),
                "{}",
                response.text()
            );
        }
        let row = setup.row(&response).await;
        assert_eq!(
            (&row["usage"]["output_tokens"], &row["estimated"]),
            (&json!(150), &json!(false))
        );
    }
    // A server that is configured to count all answers counts only one. The gateway detects this by
    // the cap at which all answers ended, or by the number of chunks.
    for (stream, cap, words, min) in [(false, 49, 50, 98), (true, 60, 50, 90)] {
        let usage = Usage::Fixed {
            prompt: 2,
            completion: words.min(cap),
        };
        let answer = Answer::words(50)
            .usage(usage)
            .usage_position(UsagePosition::Always);
        upstream.push(Reply::answer(answer));
        let body = with(
            said("house/counted", "Go on.", stream),
            json!({"n": 2, "max_tokens": cap}),
        );
        let response = setup.post(CHAT, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let row = setup.row(&response).await;
        let output = row["usage"]["output_tokens"].as_i64().unwrap();
        assert!(output >= min && row["estimated"] == true, "{stream}: {row}");
        assert_eq!(nanos(&row["cost"]), output * 2_000 + 2 * 1_000, "{row}");
    }
    setup.gateway.finish().await;
}

#[tokio::test]
async fn fewer_answers_than_requested_end_properly() {
    let scene = Scene::start().await;
    let chunk = |choices: Value, usage: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
               "choices": choices, "usage": usage})
        .to_string()
    };
    let choice = |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
    let said = chunk(
        choice(json!({"role": "assistant", "content": "one"}), Value::Null),
        Value::Null,
    );
    let finish = chunk(choice(json!({}), json!("stop")), Value::Null);
    let report = chunk(
        json!([]),
        json!({"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}),
    );
    for (events, ends) in [
        (vec![&said, &finish, &report], true),
        (vec![&said, &finish], false),
        (vec![&said, &report], false),
    ] {
        scene.upstream.push(Reply::events(events.into_iter().cloned()));
        let response = scene.chat(&hello(json!({"n": 2, "stream": true}))).await;
        assert_eq!(
            response.text().ends_with("data: [DONE]\n\n"),
            ends,
            "{}",
            response.text()
        );
        assert_eq!(
            response.text().contains("\"error\""),
            !ends,
            "{}",
            response.text()
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn missing_parts_of_a_response_are_named() {
    let upstream = FakeUpstream::start().await;
    let url = upstream.base_url();
    let config = blocks("own", "openai-compatible", &url, "answers = \"together\"")
        + &blocks("rack", "vllm", &url, "");
    let setup = Setup::start(config).await;
    let reply = |choice: Value, logprobs: &Value| {
        let choice = with(
            choice,
            json!({"index": 0, "finish_reason": "stop", "logprobs": logprobs}),
        );
        let usage = json!({"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3});
        let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage});
        Reply::body(200, "application/json", answer.to_string())
    };
    let chat = || json!({"message": {"role": "assistant", "content": "Hi."}});
    let calls = json!([{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let calling = json!({"message": {"role": "assistant", "content": null, "tool_calls": calls}});
    let token = json!({"content": [{"token": "Hi.", "logprob": -0.5, "bytes": null, "top_logprobs": []}]});
    let turn = json!([{"role": "user", "content": "Hi."}]);
    let gemini = "/v1beta/models/house/own:generateContent";
    for (path, asked, choice, logprobs, ignored) in [
        (
            CHAT,
            json!({"n": 2, "logprobs": true}),
            chat(),
            Value::Null,
            "n,logprobs",
        ),
        (
            CHAT,
            json!({"n": 2, "logprobs": true}),
            chat(),
            token.clone(),
            "n",
        ),
        (CHAT, json!({"n": 1, "logprobs": true}), chat(), token.clone(), ""),
        (CHAT, json!({"logprobs": false}), chat(), Value::Null, ""),
        (CHAT, json!({"logprobs": true}), calling, Value::Null, ""),
        (
            "/v1/responses",
            json!({"input": "Hi.", "top_logprobs": 2}),
            chat(),
            Value::Null,
            "top_logprobs",
        ),
        (
            "/v1/responses",
            json!({"input": "Hi.", "top_logprobs": 2}),
            chat(),
            token,
            "",
        ),
        (
            gemini,
            json!({"contents": [{"parts": [{"text": "Hi."}]}],
                "generationConfig": {"candidateCount": 2, "responseLogprobs": true}}),
            chat(),
            Value::Null,
            "generationConfig.candidateCount,generationConfig.responseLogprobs",
        ),
        (
            "/v1/completions",
            json!({"model": "house/rack", "prompt": "Hi.", "n": 2, "logprobs": 1}),
            json!({"text": "Hi."}),
            Value::Null,
            "n,logprobs",
        ),
    ] {
        let body = match path {
            CHAT => with(json!({"model": "house/own", "messages": turn}), asked),
            "/v1/responses" => with(json!({"model": "house/own"}), asked),
            _ => asked,
        };
        upstream.push(reply(choice, &logprobs));
        let response = setup.post(path, &body).await;
        assert_eq!(response.status, 200, "{body}: {}", response.text());
        let named = response.header("x-tollgate-ignored").unwrap_or_default();
        assert_eq!(named, ignored, "{path} {body}");
    }
    setup.gateway.finish().await;
}

#[tokio::test]
async fn a_limit_of_the_server_is_named_without_its_text() {
    const PROMPT: &str =
        "This model's maximum context length is 4096 tokens. However, your request has 6000 input tokens.";
    const CAP: &str = "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length \
                       is 4096 tokens and your request has 12 input tokens (100000 > 4096 - 12). None";
    let server = FakeUpstream::start().await;
    server.set_judge(|request| {
        let refused = |message: &str, param: Value| {
            let error = json!({"error": {"message": message, "type": "BadRequestError", "param": param, "code": 400}});
            Reply::body(400, "application/json", error.to_string())
        };
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        (request.method == "POST").then(|| match cap_of(&body) {
            Some(100_000) => refused(CAP, json!("max_tokens")),
            _ => refused(PROMPT, Value::Null),
        })
    });
    let config = blocks("any", "openai-compatible", &server.base_url(), "");
    let setup = Setup::start(config).await;
    let turn = json!([{"role": "user", "content": "Hi."}]);
    for (path, cap, mut body) in [
        (CHAT, "max_tokens", json!({"messages": turn})),
        (CHAT, "max_completion_tokens", json!({"messages": turn})),
        ("/v1/responses", "max_output_tokens", json!({"input": "Hi."})),
    ] {
        body["model"] = json!("house/any");
        body[cap] = json!(24);
        let long = setup.post(path, &body).await;
        assert_eq!(long.status, 400, "{}", long.text());
        assert_eq!(long.json()["error"]["code"], "context_length_exceeded");
        body[cap] = json!(100_000);
        let large = setup.post(path, &body).await;
        let error = large.json()["error"].clone();
        assert_eq!((large.status, &error["param"]), (400, &json!(cap)), "{error}");
        assert_eq!(
            error["message"],
            format!("'{cap}' is larger than the model's limit. Set a smaller value.")
        );
        assert!(!long.text().contains("4096"), "{}", long.text());
    }
    setup.gateway.finish().await;
}

#[tokio::test]
async fn a_prompt_that_is_too_long_has_its_own_error() {
    let (vllm, newer) = (FakeUpstream::start().await, FakeUpstream::start().await);
    for (server, param) in [(&vllm, "input_tokens"), (&newer, "input_text")] {
        server.set_judge(move |request| {
            let error = json!({"error": {"message": "This model's maximum context length is 1024 tokens.",
                "type": "BadRequestError", "param": param, "code": 400}});
            (request.method == "POST").then(|| Reply::body(400, "application/json", error.to_string()))
        });
    }
    // vLLM's messages endpoint states the reason only in its text.
    let messages = FakeUpstream::start().await;
    messages.set_judge(|request| {
        let list = json!({"data": [{"id": "m", "max_model_len": 1_024}]});
        let error = json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": "This model's maximum context length is 1024 tokens. However, it got more."}});
        Some(match request.method.as_str() {
            "GET" => Reply::body(200, "application/json", list.to_string()),
            _ => Reply::body(400, "application/json", error.to_string()),
        })
    });
    let config = [
        blocks("vllm", "vllm", &vllm.base_url(), ""),
        blocks("any", "openai-compatible", &newer.base_url(), ""),
        blocks("messages", "anthropic", &messages.base_url(), ""),
    ];
    let setup = Setup::start(config.concat()).await;
    let text = "word ".repeat(1_000);
    for name in ["vllm", "any", "messages"] {
        for stream in [false, true] {
            let model = format!("house/{name}");
            let turn = json!([{"role": "user", "content": text}]);
            let method = if stream {
                "streamGenerateContent"
            } else {
                "generateContent"
            };
            for (path, body) in [
                (
                    CHAT.to_owned(),
                    json!({"model": model, "messages": turn, "stream": stream}),
                ),
                (
                    "/v1/messages".to_owned(),
                    json!({"model": model, "messages": turn, "stream": stream, "max_tokens": 9}),
                ),
                (
                    "/v1/responses".to_owned(),
                    json!({"model": model, "input": text, "stream": stream}),
                ),
                (
                    "/v1/completions".to_owned(),
                    json!({"model": model, "prompt": text, "stream": stream}),
                ),
                (
                    format!("/v1beta/models/{model}:{method}"),
                    json!({"contents": [{"role": "user", "parts": [{"text": text}]}]}),
                ),
            ] {
                let response = setup.post(&path, &body).await;
                assert_eq!(response.status, 400, "{path} {name}: {}", response.text());
                let text = response.text();
                assert!(text.contains("context_length_exceeded"), "{path} {name}: {text}");
                for param in ["input_tokens", "input_text"] {
                    assert!(!text.contains(param), "{path} {name}: {text}");
                }
            }
        }
    }
    setup.gateway.finish().await;
}

#[tokio::test]
async fn unsupported_input_is_refused_before_the_call() {
    let upstream = FakeUpstream::start().await;
    upstream.pass_over_lists();
    upstream.set_judge(|request| {
        let list = json!({"data": [{"id": "m", "architecture": {"input_modalities": ["text"]}}]});
        (request.method == "GET").then(|| Reply::body(200, "application/json", list.to_string()))
    });
    // The model list is also read if the settings state the limits of the model.
    let stated = blocks("stated", "llama.cpp", &upstream.base_url(), "")
        + "limits = { context_window = 1024, max_output_tokens = 512 }\n";
    let setup = Setup::start(blocks("own", "llama.cpp", &upstream.base_url(), "") + &stated).await;
    let content = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]);
    for model in ["house/own", "house/stated"] {
        let body = json!({"model": model, "messages": [{"role": "user", "content": content}]});
        let response = setup.post(CHAT, &body).await;
        assert_error(model, &response, "unsupported_parameter", Some("messages"));
    }
    assert_eq!(upstream.request_count(), 0);
    assert_eq!(
        setup.post(CHAT, &said("house/own", "Hi.", false)).await.status,
        200
    );
    setup.gateway.finish().await;
}

#[tokio::test]
async fn a_stream_far_beyond_its_cap_is_aborted() {
    let scene = Scene::start().await;
    let chunk = |delta: Value, reason: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices})
            .to_string()
    };
    // The limit is four times the cap plus 4,096 tokens.
    for (words, breaks) in [(4_296, false), (4_297, true)] {
        let said = (0..words).map(|_| chunk(json!({"content": "word "}), Value::Null));
        let finish = chunk(json!({}), json!("stop"));
        scene.upstream.push(Reply::events(said.chain([finish])));
        let response = scene
            .chat(&hello(json!({"stream": true, "max_tokens": 50})))
            .await;
        let text = response.text();
        assert_eq!(
            text.contains("upstream_error"),
            breaks,
            "{words}: {}",
            &text[text.len() - 300..]
        );
        assert_eq!(text.ends_with("data: [DONE]\n\n"), !breaks);
    }
    scene.finish().await;
}

/// Models of a `default_price` keep their names while their server is unavailable: a reload
/// continues to use the last list, and a missing list is requested again.
#[tokio::test]
async fn models_of_a_server_outlast_its_absence() {
    let upstream = FakeUpstream::start().await;
    upstream.set_models(["m"]);
    let is_away = Arc::new(AtomicBool::new(true));
    let away = is_away.clone();
    upstream.set_judge(move |request| {
        let is_list = request.path.ends_with("/models");
        (is_list && away.load(Ordering::Relaxed)).then(|| Reply::error(503, "unavailable", "starting"))
    });
    let config = |price: &str| {
        format!(
            "[providers.rack]\npreset = \"openai-compatible\"\nbase_url = \"{}\"\n\
             default_price = {{ input = \"{price}\", output = \"2\" }}\n",
            upstream.base_url()
        )
    };
    let mut setup = Setup::start(config("1")).await;
    let said = said("rack/m", "Hello.", false);
    assert_eq!(setup.post(CHAT, &said).await.status, 404);
    is_away.store(false, Ordering::Relaxed);
    setup
        .gateway
        .wait_for_log("received the model lists of: rack", 0)
        .await;
    assert_eq!(setup.post(CHAT, &said).await.status, 200);

    is_away.store(true, Ordering::Relaxed);
    setup.gateway.change_config(&config("3"));
    setup.gateway.wait_for_log("settings reloaded", 0).await;
    let log = setup.gateway.log();
    assert!(log.contains("its last list stays in use"), "{log}");
    let response = setup.post(CHAT, &said).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let record = setup
        .gateway
        .client()
        .get("/v1/models/rack/m", &setup.key.secret)
        .await
        .json();
    assert_eq!(record["pricing"]["input"], "3", "{record}");
    setup.gateway.finish().await;
}
