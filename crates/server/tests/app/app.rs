//! A gateway without listeners, in front of a scripted upstream.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tollgate_accounts::KeyParams;
use tollgate_listener::App;
use tollgate_server::assemble::{assemble, http_client};
use tollgate_server::config::env::Environment;
use tollgate_server::wiring::{AppState, Services};
use tollgate_server::{Config, Flags, reload, serve, wiring};
use tollgate_storage::{Account, AccountState, Balance, FileSource, Grant, Limits, LotTerms, Storage};
use tollgate_testkit::upstream::{FakeUpstream, ReceivedRequest};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits};
use tower::ServiceExt;

/// Models whose providers use Chat Completions, Anthropic Messages, Responses and Gemini's
/// generateContent.
pub const MODELS: [&str; 4] = ["acme/chat", "acme/messages", "acme/responses", "acme/contents"];
/// A reasoning model whose provider uses Responses.
pub const THINKING: &str = "acme/thinking";

/// The gateway with its upstream and data directory.
pub struct Scene {
    pub app: Arc<App>,
    admin: Router,
    pub upstream: FakeUpstream,
    pub app_state: Arc<AppState>,
    pub services: Services,
    flags: Flags,
    _data: TempDir,
}

/// An account with an API key.
pub struct Tenant {
    pub id: AccountId,
    pub key: String,
}

/// A response of the gateway.
pub struct Answer {
    pub status: u16,
    /// Value of the response header `x-tollgate-ignored`.
    pub ignored: Option<String>,
    /// Value of the response header `x-request-id`.
    pub request_id: Option<String>,
    pub body: Value,
    pub text: String,
}

impl Scene {
    /// Starts a gateway with these files. `change` modifies its storage before the start.
    pub async fn new(files: Arc<dyn FileSource>, change: impl Fn(&mut Storage)) -> Scene {
        let upstream = FakeUpstream::start().await;
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("tollgate.toml");
        std::fs::write(&path, settings(&upstream.base_url())).unwrap();
        let flags = Flags {
            config: Some(path),
            data: Some(data.path().join("data")),
            ..Flags::default()
        };
        let config = Config::load(&flags, environment()).unwrap();
        let http = http_client(&config);
        let assembled = assemble(&config, &http, &[]).await.unwrap();
        let mut app_state = wiring::app_state(&config).await.unwrap();
        change(&mut app_state.storage);
        let operations = Arc::get_mut(&mut app_state.operations).unwrap();
        change(&mut operations.storage);
        let app_state = Arc::new(app_state);
        let services = wiring::services(&config, app_state.clone(), http, files, Vec::new(), Vec::new());
        reload::install(&services, assembled).await.unwrap();
        let (draining, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        Scene {
            app: Arc::new(serve::app(&config, &services, &draining, &stop)),
            admin: serve::admin_router(&flags, &config, &services),
            upstream,
            app_state,
            services,
            flags,
            _data: data,
        }
    }

    /// Creates an account with this many credits and a key.
    pub async fn tenant(&self, credits: i64) -> Tenant {
        let now = self.app_state.clock.now();
        let id = AccountId::from_u128(self.app_state.ids.next(now));
        let account = Account {
            id,
            name: "tenant".to_owned(),
            state: AccountState::Active,
            limits: Limits::default(),
            test_clock: None,
            created_at: now,
        };
        self.app_state.storage.accounts.create(account).await.unwrap();
        if credits > 0 {
            let grant = Grant {
                id: TransferId::from_u128(self.app_state.ids.next(now)),
                account: id,
                amount: Credits::from_nanos(credits * 1_000_000_000),
                at: now,
                terms: LotTerms::default(),
            };
            self.app_state.storage.ledger.grant(grant).await.unwrap();
        }
        let keys = &self.app_state.keys;
        let made = keys.create(id, KeyParams::plain("test")).await;
        let key = made.unwrap().1.reveal().to_owned();
        Tenant { id, key }
    }

    pub async fn post(&self, tenant: &Tenant, path: &str, body: &Value) -> Answer {
        let request = Request::post(path)
            .header("authorization", format!("Bearer {}", tenant.key))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        self.send(request.unwrap()).await
    }

    pub async fn get(&self, tenant: &Tenant, path: &str) -> Answer {
        let request = Request::get(path)
            .header("authorization", format!("Bearer {}", tenant.key))
            .body(Body::empty());
        self.send(request.unwrap()).await
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        answer(self.app.serve(peer, request).await).await
    }

    /// Writes new prices of every model except [`THINKING`] to the settings file.
    pub fn change_prices(&self, prices: &str) {
        let text = settings(&self.upstream.base_url()).replace(PRICES, prices);
        std::fs::write(self.flags.config.as_ref().unwrap(), text).unwrap();
    }

    /// Reloads the settings file and returns the error message if the new settings are not
    /// activated. Panics if the file is invalid.
    pub async fn reload(&self) -> Result<(), String> {
        let config = Config::load(&self.flags, environment()).unwrap();
        let assembled = assemble(&config, &self.services.http, &[]).await.unwrap();
        let installed = reload::install(&self.services, assembled).await;
        installed.map_err(|error| format!("{error:#}"))
    }

    /// Sends a request to the admin listener.
    pub async fn administer(&self, mut request: Request<Body>) -> Answer {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = self.admin.clone().oneshot(request).await;
        answer(response.unwrap_or_else(|never| match never {})).await
    }

    /// Returns the body of the last POST request to the upstream.
    pub fn sent(&self) -> Option<Value> {
        let posts = |request: &ReceivedRequest| request.method == "POST";
        let last = self.upstream.requests().into_iter().rfind(posts)?;
        last.json()
    }

    /// Returns the available credits of a tenant and the credits held by its calls.
    pub async fn balance(&self, tenant: &Tenant) -> Balance {
        let ledger = &self.app_state.storage.ledger;
        ledger.balance(tenant.id).await.unwrap()
    }
}

/// Prices of most models, in credits per million tokens.
const PRICES: &str = "input = \"1\", output = \"1\"";

fn environment() -> Environment {
    Environment::of(&[("PROVIDER_KEY", "secret")])
}

async fn answer(response: Response) -> Answer {
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let header = |name: &str| {
        let value = parts.headers.get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    Answer {
        status: parts.status.as_u16(),
        ignored: header("x-tollgate-ignored"),
        request_id: header("x-request-id"),
        body: serde_json::from_str(&text).unwrap_or(Value::Null),
        text,
    }
}

/// Returns settings with one provider for each format, all at the same upstream.
fn settings(base_url: &str) -> String {
    let presets = ["openai-compatible", "anthropic", "openai-responses", "gemini"];
    let blocks = MODELS.iter().zip(presets).map(|(model, preset)| {
        let name = model.trim_start_matches("acme/");
        format!(
            r#"
[providers.{name}]
preset = "{preset}"
base_url = "{base_url}"
api_key_env = "PROVIDER_KEY"

[models."{model}"]
targets = ["{name}/gemini-3-{name}"]
prices = {{ {PRICES} }}
limits = {{ context_window = 2000000, max_output_tokens = 4096 }}
input = ["text", "image", "file"]
"#
        )
    });
    let blocks: String = blocks.collect();
    let thinking = format!(
        "[models.\"{THINKING}\"]\ntargets = [\"responses/thinking\"]\nprices = {{ output = \"1\", input = \"1\" }}\n\
         limits = {{ max_output_tokens = 4096 }}\nreasoning = true\n"
    );
    format!("[server]\ndiscover = false\n{blocks}\n{thinking}")
}
