//! The start of every test: a gateway with a scripted upstream, and an account with credits.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Answer, Client, ErrorObject, Request, Response};
use tollgate_testkit::gateway::{Balance, Check, Gateway, Key, Options, Storage, eventually, nanos};
use tollgate_testkit::upstream::FakeUpstream;

/// Path of the built binary.
pub use tollgate_api_tests::BINARY;
/// The chat completions endpoint.
pub const CHAT: &str = "/v1/chat/completions";
/// The model of most tests. Every class of tokens has a different price.
pub const MODEL: &str = "acme/large";
/// A model with the same price for all classes of tokens.
pub const PLAIN: &str = "acme/plain";
/// A model with prices of zero.
pub const FREE: &str = "acme/free";
/// Prices of [`MODEL`], in nano-credits for a token of each class.
pub const PRICES: Classes = Classes {
    input: 1_000,
    cache_read: 100,
    cache_write: 1_500,
    output: 2_000,
    reasoning: 3_000,
};
/// The `max_output_tokens` limit of every model here.
pub const MAX_OUTPUT_TOKENS: i64 = 4_096;
/// Initial balance of a scene's account, in nano-credits.
pub const GRANTED: i64 = 1_000_000_000_000;
/// The provider's name, which must not appear in any text for callers.
pub const PROVIDER: &str = "northwind";
/// The operator's key at the provider, which must not appear in any output.
pub const PROVIDER_KEY: &str = "sk-northwind-c4n4ry";

/// One number for each class of tokens: a count or a price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Classes {
    pub input: i64,
    pub cache_read: i64,
    pub cache_write: i64,
    pub output: i64,
    pub reasoning: i64,
}

impl Classes {
    /// Returns the token counts of a usage row.
    pub fn of_row(row: &Value) -> Self {
        let count = |name: &str| {
            row["usage"][name]
                .as_i64()
                .unwrap_or_else(|| panic!("{name} in {row}"))
        };
        Self {
            input: count("input_tokens"),
            cache_read: count("cache_read_tokens"),
            cache_write: count("cache_write_tokens"),
            output: count("output_tokens"),
            reasoning: count("reasoning_tokens"),
        }
    }

    /// Returns the cost of these tokens at these prices, in nano-credits.
    pub fn at(self, prices: Classes) -> i64 {
        self.input * prices.input
            + self.cache_read * prices.cache_read
            + self.cache_write * prices.cache_write
            + self.output * prices.output
            + self.reasoning * prices.reasoning
    }
}

/// Returns the settings of a scene: one provider, three models, an alias.
pub fn settings(upstream: &FakeUpstream) -> String {
    let limits = format!("limits = {{ context_window = 200000, max_output_tokens = {MAX_OUTPUT_TOKENS} }}");
    format!(
        r#"
[aliases]
"large" = "{MODEL}"

{provider}
[models."{MODEL}"]
targets = ["{PROVIDER}/large-v1"]
prices = {{ input = "1", cache_read = "0.1", cache_write = "1.5", output = "2", reasoning = "3" }}
{limits}

[models."{PLAIN}"]
targets = ["{PROVIDER}/plain-v1"]
prices = {{ input = "1", output = "1" }}
{limits}

[models."{FREE}"]
targets = ["{PROVIDER}/free-v1"]
prices = {{ input = "0", output = "0" }}
{limits}
"#,
        provider = provider(PROVIDER, &upstream.base_url()),
    )
}

/// Returns the settings of a provider at this URL. Its responses are read to the end after callers
/// disconnect, as for hosted providers.
pub fn provider(name: &str, base_url: &str) -> String {
    format!(
        "[providers.{name}]\npreset = \"openai-compatible\"\nbase_url = \"{base_url}\"\napi_key_env = \"PROVIDER_KEY\"\n\
         on_disconnect = \"drain\"\nerror_text = \"hide\"\nanswers = \"together\"\n"
    )
}

/// A gateway, its upstream, and an account with a key.
pub struct Scene {
    pub gateway: Gateway,
    pub upstream: FakeUpstream,
    pub account: String,
    pub key: Key,
}

impl Scene {
    /// Starts a gateway on SQLite with the default settings.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts a gateway on SQLite with these additional settings.
    pub async fn start_with(config: &str) -> Self {
        Self::start_on(Storage::Sqlite, config).await
    }

    /// Starts a gateway on this storage engine with these additional settings.
    pub async fn start_on(storage: Storage, config: &str) -> Self {
        let upstream = FakeUpstream::start().await;
        upstream.set_api_key(PROVIDER_KEY);
        let options = Self::options(&upstream, storage, config);
        let gateway = Gateway::start(BINARY, options).await;
        let account = gateway.account().await;
        let key = gateway.key(&account).await;
        let scene = Self {
            gateway,
            upstream,
            account,
            key,
        };
        scene.gateway.grant(&scene.account, "1000").await;
        scene
    }

    /// Returns the options of a scene's gateway.
    pub fn options(upstream: &FakeUpstream, storage: Storage, config: &str) -> Options {
        upstream.pass_over_lists();
        Options {
            config: settings(upstream) + config,
            storage,
            env: vec![
                ("PROVIDER_KEY".to_owned(), PROVIDER_KEY.to_owned()),
                // The media programs are found in `PATH`.
                ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ],
            runner: Vec::new(),
        }
    }

    pub fn client(&self) -> Client {
        self.gateway.client()
    }

    /// Builds a chat request with the scene's key.
    pub fn request(&self, body: &Value) -> Request {
        Request::json(CHAT, body).key(&self.key.secret)
    }

    /// Sends a chat request and reads the whole response.
    pub async fn chat(&self, body: &Value) -> Response {
        self.client().send(&self.request(body)).await
    }

    /// Sends a chat request and returns after the response head, with the body still open.
    pub async fn open(&self, body: &Value) -> Answer {
        self.client().open(&self.request(body)).await
    }

    /// Sends a POST request with the scene's key.
    pub async fn post(&self, path: &str, body: &Value) -> Response {
        let request = Request::json(path, body).key(&self.key.secret);
        self.client().send(&request).await
    }

    /// Returns the account's balance from the usage endpoint.
    pub async fn balance(&self) -> Balance {
        let usage = self.gateway.usage(&self.key.secret, "?limit=1").await;
        Balance {
            credits: nanos(&usage["balance"]["credits"]),
            held: nanos(&usage["balance"]["held"]),
        }
    }

    /// Returns the usage page of one request, with its rows and the current balance.
    pub async fn usage_of(&self, request_id: &str) -> Value {
        self.gateway
            .usage(&self.key.secret, &format!("?request_id={request_id}"))
            .await
    }

    /// Waits for the usage row of a request, which must be its only one.
    pub async fn row(&self, request_id: &str) -> Value {
        let mut usage = Value::Null;
        eventually("the usage row of a request", async || {
            usage = self.usage_of(request_id).await;
            usage["data"].as_array().is_some_and(|rows| !rows.is_empty())
        })
        .await;
        let rows = usage["data"].as_array().unwrap();
        assert_eq!(rows.len(), 1, "{usage}");
        rows[0].clone()
    }

    /// Returns all usage rows of the account, newest first. At most 100 may exist.
    pub async fn rows(&self) -> Vec<Value> {
        let usage = self.gateway.usage(&self.key.secret, "?limit=100").await;
        assert_eq!(usage["has_more"], false, "too many rows for one page");
        usage["data"].as_array().unwrap().clone()
    }

    /// Waits until no hold is open and returns the balance.
    pub async fn settled(&self) -> Balance {
        let mut balance = Balance { credits: 0, held: -1 };
        eventually("no hold of the account is open", async || {
            balance = self.balance().await;
            balance.held == 0
        })
        .await;
        balance
    }

    /// Asserts that nothing was charged, counted or sent upstream.
    pub async fn nothing_happened(&self) {
        let balance = self.balance().await;
        assert_eq!(
            balance,
            Balance {
                credits: GRANTED,
                held: 0
            }
        );
        assert_eq!(self.rows().await, Vec::<Value>::new());
        assert_eq!(self.upstream.request_count(), 0);
    }

    /// Stops the gateway and asserts that its ledger is clean.
    pub async fn finish(self) -> Check {
        self.gateway.finish().await
    }
}

/// Iterates over the files in a folder and its subfolders. Each step reads the disk anew.
pub fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let mut folders = vec![std::fs::read_dir(folder).unwrap()];
    std::iter::from_fn(move || {
        loop {
            let Some(entry) = folders.last_mut()?.next() else {
                folders.pop();
                continue;
            };
            let path = entry.unwrap().path();
            let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() {
                folders.push(std::fs::read_dir(&path).unwrap());
            } else if kind.is_file() {
                return Some(path);
            }
        }
    })
}

/// Returns a node's metrics, from the address that it printed at its start.
pub async fn metrics(node: &Gateway) -> String {
    eventually("the metrics address is printed", async || {
        node.stdout().contains("/metrics\n")
    })
    .await;
    let stdout = node.stdout();
    let (before, _) = stdout.split_once("/metrics\n").unwrap();
    let (_, address) = before.rsplit_once("http://").unwrap();
    let client = Client::new(address.parse().unwrap());
    client.send(&Request::get("/metrics")).await.text().to_owned()
}

/// Waits until a node's metrics contain this line.
pub async fn until_metric(node: &Gateway, line: &str) {
    eventually(line, async || {
        metrics(node).await.lines().any(|shown| shown == line)
    })
    .await;
}

/// Builds a chat request to [`MODEL`] with the text `Hi there` and these additional members.
pub fn hello(members: Value) -> Value {
    with(
        json!({"model": MODEL, "messages": [{"role": "user", "content": "Hi there"}]}),
        members,
    )
}

/// Builds a chat request to [`MODEL`] with this user message.
pub fn saying(text: &str, stream: bool) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": stream})
}

/// Adds members to an object, or replaces them.
pub fn with(mut object: Value, members: Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

/// Returns the highest cost of a call to a model with one price for all classes, in nano-credits. A
/// token has at least one byte, and a message adds at most eight tokens.
pub fn flat_bound(body: &Value, price: i64, output_cap: i64) -> i64 {
    let bytes = i64::try_from(body.to_string().len()).unwrap();
    let messages = i64::try_from(body["messages"].as_array().unwrap().len()).unwrap();
    (bytes + 8 * messages + output_cap) * price
}

/// Formats nano-credits as the shortest decimal string of credits, as the API writes it.
pub fn shortest_credits(nanos: i64) -> String {
    let text = credits(nanos);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats nano-credits as a decimal string of credits, as the command line accepts it.
pub fn credits(nanos: i64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Returns the HTTP status and the `type` of an error code.
pub fn meaning(code: &str) -> (u16, &'static str) {
    match code {
        "invalid_json"
        | "missing_required_parameter"
        | "invalid_parameter"
        | "unknown_parameter"
        | "unsupported_parameter"
        | "unsupported_endpoint"
        | "content_policy_violation"
        | "context_length_exceeded" => (400, "invalid_request_error"),
        "missing_api_key" | "invalid_api_key" => (401, "authentication_error"),
        "insufficient_credits" => (402, "billing_error"),
        "permission_denied" => (403, "permission_error"),
        "not_found" | "model_not_found" => (404, "not_found_error"),
        "method_not_allowed" => (405, "invalid_request_error"),
        "request_timeout" => (408, "invalid_request_error"),
        "conflict" | "idempotency_in_progress" => (409, "conflict_error"),
        "gone" => (410, "not_found_error"),
        "request_too_large" => (413, "invalid_request_error"),
        "unsupported_media_type" => (415, "invalid_request_error"),
        "parameter_out_of_range" | "output_blocked" | "idempotency_key_reused" => {
            (422, "invalid_request_error")
        }
        "rate_limit_exceeded" => (429, "rate_limit_error"),
        "internal_error" => (500, "server_error"),
        "upstream_error" => (502, "upstream_error"),
        "upstream_timeout" => (504, "upstream_error"),
        "model_unavailable" | "overloaded" => (503, "server_error"),
        _ => panic!("{code} is no code of the contract"),
    }
}

/// Asserts that a response is this error, in every part of the contract.
pub fn assert_error(what: &str, response: &Response, code: &str, param: Option<&str>) -> ErrorObject {
    let (status, kind) = meaning(code);
    let error = assert_any_error(what, response);
    assert_eq!(
        (response.status, error.code.as_str()),
        (status, code),
        "{what}: {error:?}"
    );
    assert_eq!(error.kind, kind, "{what}");
    assert_eq!(error.param.as_deref(), param, "{what}: {error:?}");
    error
}

/// Asserts that a response is an error in the shape of the contract.
pub fn assert_any_error(what: &str, response: &Response) -> ErrorObject {
    assert!(response.whole, "{what}: the response is cut");
    assert!(
        response.status >= 400,
        "{what}: {} {}",
        response.status,
        response.text()
    );
    assert!(
        !response.body().is_empty(),
        "{what}: {} without a body: {:?}",
        response.status,
        response.head
    );
    let content_type = response.header("content-type").unwrap_or_default();
    assert!(
        content_type.starts_with("application/json"),
        "{what}: {:?}",
        response.head
    );
    assert_request_id(what, response);
    let error = response.error();
    assert_hides_provider(what, &error.message);
    error
}

/// Asserts that both headers contain the request id.
pub fn assert_request_id(what: &str, response: &Response) {
    let ids = [response.header("x-request-id"), response.header("request-id")];
    assert!(
        ids[0].is_some_and(|id| id.starts_with("req_") && id.len() == 36),
        "{what}: {:?}",
        response.head
    );
    assert_eq!(ids[0], ids[1], "{what}");
}

/// Asserts that a text for callers contains no provider name, address, secret, or text of an
/// upstream.
pub fn assert_hides_provider(what: &str, text: &str) {
    let lower = text.to_lowercase();
    for secret in [
        PROVIDER,
        PROVIDER_KEY,
        "127.0.0.1",
        "http:",
        "fake",
        "sk-secret",
        "large-v1",
        "openai",
        "server had an",
    ] {
        assert!(!lower.contains(secret), "{what}: {text:?} names {secret}");
    }
}
