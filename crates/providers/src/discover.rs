//! Providers without a configuration block: presets whose environment variable is set, and model
//! servers on this machine.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use secrecy::SecretString;
use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

use crate::http::{BaseUrl, Endpoint, EndpointError, HttpClient, Timeouts};
use crate::openai_compatible::{PRESETS, Preset, listing, preset};
use crate::registry::{self, ProviderConfig};

/// Maximum timeout of the health request that detects another gateway.
const HEALTH_TIMEOUT: Duration = Duration::from_millis(500);

/// Base URL variables of official clients, by preset, whose names cannot be derived from the
/// variable of the key.
const ADDRESS_VARIABLES: &[(&str, &str)] = &[
    ("openai", "OPENAI_API_BASE"),
    ("gemini", "GOOGLE_GEMINI_BASE_URL"),
];

/// Returns blocks for the presets whose key is in the environment, which `variable` reads. A preset
/// without a default address also requires its address variable; a preset with regions requires a
/// region variable. If several presets share a variable, the first preset uses it. A key for
/// another server ([`other_address`]) counts as unset.
pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Vec<ProviderConfig> {
    let filled = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let mut seen = Vec::new();
    let found = registry::preset_names().filter_map(|preset| {
        let variables: Vec<&str> = registry::key_variables(preset)
            .filter(|variable| !seen.contains(variable))
            .collect();
        seen.extend(&variables);
        let key = variables.into_iter().find_map(filled)?;
        if other_address(preset, filled).is_some() {
            return None;
        }
        let base_url = match registry::address_variable(preset) {
            Some(variable) => Some(filled(variable)?),
            None => None,
        };
        let region = match registry::region_variables(preset) {
            [] => None,
            variables => Some(variables.iter().find_map(|variable| filled(variable))?),
        };
        Some(ProviderConfig {
            region,
            preset: Some(preset.to_owned()),
            api_key: Some(SecretString::from(key)),
            base_url,
            ..ProviderConfig::named(preset)
        })
    });
    found.collect()
}

/// Returns the name and the value of the base URL variable if the environment assigns the preset's
/// key to another host, such as `OPENAI_BASE_URL` together with `OPENAI_API_KEY`. `None` for
/// presets without a default address.
pub fn other_address(preset: &str, variable: impl Fn(&str) -> Option<String>) -> Option<(String, String)> {
    let usual = host(registry::default_address(preset)?);
    let derived = registry::key_variables(preset)
        .filter_map(|key| Some(format!("{}_BASE_URL", key.strip_suffix("_API_KEY")?)));
    let others = ADDRESS_VARIABLES.iter().filter(|(name, _)| *name == preset);
    let mut names = derived.chain(others.map(|(_, name)| (*name).to_owned()));
    names.find_map(|name| {
        let address = variable(&name).filter(|address| !address.trim().is_empty())?;
        (host(&address) != usual).then_some((name, address))
    })
}

/// Returns the host of a URL; `None` if the URL is invalid or has no host.
fn host(address: &str) -> Option<String> {
    url::Url::parse(address.trim())
        .ok()?
        .host_str()
        .map(str::to_owned)
}

/// A model server that discovery found.
#[derive(Clone, Debug)]
pub struct LocalServer {
    /// Configuration block for the server.
    pub config: ProviderConfig,
    /// Preset of this type of server, or the generic preset.
    pub preset: &'static Preset,
    /// Models that the server listed during discovery; empty for a server from [`LocalServer::of`].
    pub models: Vec<ListedModel>,
}

/// Finds model servers on the default ports of the presets on this machine, except `own_port`, the
/// gateway's port. Queries all ports concurrently, each with `timeout`. Every server with a model
/// list counts. Its responses determine its preset, not its port.
pub async fn local_servers(http: &Arc<HttpClient>, own_port: u16, timeout: Duration) -> Vec<LocalServer> {
    servers_at(http, default_addresses(own_port), timeout).await
}

/// Whether another gateway listens at the address. The model list of a gateway is not requested:
/// without a key, the gateway would refuse the request and log it.
async fn is_gateway(http: &Arc<HttpClient>, address: &str, timeout: Duration) -> bool {
    let health = url::Url::parse(address)
        .ok()
        .and_then(|url| BaseUrl::parse(&url.origin().ascii_serialization()).ok())
        .and_then(|base| Endpoint::new(&base, "/healthz", &[]).ok());
    let Some(health) = health else { return false };
    let asked = tokio::time::timeout(timeout, http.get(&health, Timeouts::brief(timeout)));
    match asked.await {
        Ok(Ok(answer)) => {
            let id = answer.header("x-request-id");
            answer.status == 200 && id.is_some_and(|id| id.starts_with("req_"))
        }
        _ => false,
    }
}

fn default_addresses(own_port: u16) -> Vec<String> {
    let usual = PRESETS.iter().filter_map(|preset| {
        preset.local_port.filter(|port| *port != own_port)?;
        preset.base_url.map(str::to_owned)
    });
    usual.collect()
}

/// Finds model servers at these addresses, like [`local_servers`].
pub async fn servers_at(
    http: &Arc<HttpClient>,
    addresses: Vec<String>,
    timeout: Duration,
) -> Vec<LocalServer> {
    let asked = addresses.into_iter().map(|address| async move {
        if is_gateway(http, &address, timeout.min(HEALTH_TIMEOUT)).await {
            tracing::debug!(%address, "skipped a port with another gateway");
            return None;
        }
        match tokio::time::timeout(timeout, server_at(http, &address, timeout)).await {
            Ok(Ok(server)) => Some(server),
            Ok(Err(error)) => {
                tracing::debug!(address, %error, "found no model server");
                None
            }
            Err(_) => None,
        }
    });
    let mut found: Vec<LocalServer> = join_all(asked).await.into_iter().flatten().collect();
    make_names_unique(&mut found);
    found
}

async fn server_at(
    http: &Arc<HttpClient>,
    address: &str,
    timeout: Duration,
) -> Result<LocalServer, UpstreamError> {
    let wrong = |error: EndpointError| UpstreamError::connect(error.to_string());
    let base = BaseUrl::parse(address).map_err(wrong)?;
    let body = get(http, &base, "/models", timeout).await?;
    let models = listing::read(&body)?;
    let preset = match preset_of_owner(&body) {
        Some(preset) => preset,
        None => preset_of_endpoints(http, &base.root(), timeout).await,
    };
    Ok(LocalServer {
        models,
        ..LocalServer::at(preset.name, preset, Some(address))
    })
}

async fn get(
    http: &Arc<HttpClient>,
    base: &BaseUrl,
    path: &str,
    timeout: Duration,
) -> Result<Bytes, UpstreamError> {
    let endpoint =
        Endpoint::new(base, path, &[]).map_err(|error| UpstreamError::connect(error.to_string()))?;
    let response = http.get(&endpoint, Timeouts::brief(timeout)).await?;
    if response.status != 200 {
        return Err(UpstreamError::protocol(format!("status {}", response.status)));
    }
    response.whole(listing::LIMIT).await
}

/// Values of `owned_by` in the model lists of servers, and the presets of these servers: vLLM's
/// `protocol.py`, SGLang's `protocol.py`, llama.cpp's `server.cpp`.
const OWNERS: &[(&str, &str)] = &[("vllm", "vllm"), ("sglang", "sglang"), ("llamacpp", "llama.cpp")];

/// Returns the preset of a server, by the owner of its first model; `None` if the owner is unknown.
fn preset_of_owner(list: &[u8]) -> Option<&'static Preset> {
    let list: Value = serde_json::from_slice(list).ok()?;
    let owner = list.pointer("/data/0/owned_by")?.as_str()?;
    let (_, name) = OWNERS.iter().find(|(known, _)| *known == owner)?;
    preset(name)
}

/// Returns the preset of a server, by endpoints that are specific to one type of server. Returns
/// the generic preset if none of them responds as expected.
async fn preset_of_endpoints(http: &Arc<HttpClient>, root: &BaseUrl, timeout: Duration) -> &'static Preset {
    let json = async |path: &str| -> Value {
        let body = get(http, root, path, timeout).await.ok();
        body.and_then(|body| serde_json::from_slice(&body).ok())
            .unwrap_or_default()
    };
    // https://docs.ollama.com/api-reference/get-version, https://lmstudio.ai/docs/developer/rest
    let (ollama, newer, older) = tokio::join!(
        json("/api/version"),
        json("/api/v1/models"),
        json("/api/v0/models")
    );
    let is_lm_studio =
        newer.pointer("/models/0/publisher").is_some() || older.pointer("/data/0/publisher").is_some();
    let name = if is_lm_studio {
        "lm-studio"
    } else if ollama.get("version").is_some_and(Value::is_string) {
        "ollama"
    } else {
        registry::ANY_SERVER
    };
    preset(name).unwrap_or(&PRESETS[PRESETS.len() - 1])
}

/// Gives the preset's name to a server on the preset's default port and to the only server of a
/// preset. Appends the port to the names of other servers, so that each name identifies one server.
fn make_names_unique(found: &mut [LocalServer]) {
    let kinds: Vec<&str> = found.iter().map(|server| server.preset.name).collect();
    for server in found {
        let port = port_of(&server.config);
        let alone = kinds.iter().filter(|kind| **kind == server.preset.name).count() == 1;
        if !alone && port != server.preset.local_port {
            let port = port.unwrap_or_default();
            server.config.name = format!("{}-{port}", server.preset.name).into();
        }
    }
}

fn port_of(config: &ProviderConfig) -> Option<u16> {
    BaseUrl::parse(config.base_url.as_deref()?).ok()?.port()
}

impl LocalServer {
    /// Creates a server that an earlier search found, without its models; `None` for an unknown
    /// preset.
    pub fn of(name: &str, preset_name: &str, address: Option<&str>) -> Option<Self> {
        Some(Self::at(name, preset(preset_name)?, address))
    }

    fn at(name: &str, preset: &'static Preset, address: Option<&str>) -> Self {
        Self {
            config: ProviderConfig {
                preset: Some(preset.name.to_owned()),
                base_url: address.map(str::to_owned),
                ..ProviderConfig::named(name)
            },
            preset,
            models: Vec::new(),
        }
    }

    /// Whether both servers have the same port or the same name.
    pub fn is_same(&self, other: &Self) -> bool {
        self.config.name == other.config.name || port_of(&self.config) == port_of(&other.config)
    }

    /// Whether a block with this preset and address refers to this server: both are on this machine
    /// and have the same port. Without an address, the preset's default applies.
    pub fn is_at(&self, preset_name: &str, address: Option<&str>) -> bool {
        let usual = || preset(preset_name).and_then(|preset| preset.base_url);
        let parsed = |address: &str| BaseUrl::parse(address).ok();
        let stated = address.or_else(usual).and_then(parsed);
        let own = self.config.base_url.as_deref().and_then(parsed);
        stated
            .zip(own)
            .is_some_and(|(one, other)| one.is_local() && other.is_local() && one.port() == other.port())
    }
}

#[cfg(test)]
mod tests;
