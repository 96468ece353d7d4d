//! Web search backends of research, from `[search]`.

use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tollgate_inference::research::WebBackend;
use tollgate_pipeline::{GuardedSearch, Health};
use tollgate_providers::http::EndpointError;
use tollgate_providers::mcp::{self, McpSettings};
use tollgate_providers::search::{self, SearchSettings};
use tollgate_providers::{EgressClient, HttpClient};
use tollgate_storage::{PriceStore, StorageError};
use tollgate_types::{AccountId, Clock, Credits};
use tollgate_upstream::{SearchBackend, SearchConnector};

use crate::config::file::SearchSection;
use crate::config::{Config, ConfigError};
use crate::wiring;

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 64;
/// Maximum duration of a search or a fetch by a server that a request names.
const SERVER_TIMEOUT: Duration = Duration::from_secs(20);
/// Upper bound of `timeout_ms`.
const MAX_TIMEOUT_MS: u64 = 60_000;

/// Builds the configured backends, sorted by name. Sends no request.
///
/// # Errors
///
/// Returns the first error in a section, with its setting.
pub fn build(
    config: &Config,
    http: &Arc<HttpClient>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<WebBackend>, ConfigError> {
    let health = Arc::new(Health::new(clock.clone(), config.pipeline_settings().retries));
    let sections = config.file.search.iter();
    let backends = sections.map(|(name, section)| {
        let backend = backend(config, name, section, (http, clock))?;
        let guarded = GuardedSearch::new(backend, health.clone());
        let kind = section.kind.as_str();
        Ok(WebBackend::new(
            Arc::new(guarded),
            kind,
            section.weight,
            section.price,
        ))
    });
    backends.collect()
}

fn backend(
    config: &Config,
    name: &str,
    section: &SearchSection,
    (http, clock): (&Arc<HttpClient>, &Arc<dyn Clock>),
) -> Result<Arc<dyn SearchBackend>, ConfigError> {
    let place = |key: &str| format!("search.{name}.{key}");
    let wrong = |error: EndpointError| ConfigError::new(format!("search.{name}"), error.to_string());
    check(name, section)?;
    let kind_name = section.kind.as_str();
    let kind = search::kind(kind_name);
    if section.base_url.is_none() && kind.is_none_or(|kind| kind.base_url.is_none()) {
        let message = format!(
            "set the address of the server, such as \"{}\"",
            example_url(kind_name)
        );
        return Err(ConfigError::new(place("base_url"), message));
    }
    let api_key = key_of(config, name, section)?;
    if let (Some(variable), None) = (kind.and_then(|kind| kind.key_variable), &api_key) {
        let message =
            format!("{kind_name} needs a key: set it to the variable with the key, such as \"{variable}\"");
        return Err(ConfigError::new(place("api_key_env"), message));
    }
    let timeout = Duration::from_millis(section.timeout_ms);
    let Some(kind) = kind else {
        let bearer = |key: SecretString| SecretString::from(format!("Bearer {}", key.expose_secret()));
        let settings = McpSettings {
            name: name.to_owned(),
            server_url: section.base_url.clone().unwrap_or_default(),
            authorization: api_key.map(bearer),
            account: None,
            timeout,
        };
        let egress = Arc::new(wiring::egress(config, http));
        let server = mcp::backend(settings, egress, clock.clone()).map_err(wrong)?;
        return Ok(Arc::new(server));
    };
    let settings = SearchSettings {
        name: name.to_owned(),
        kind,
        base_url: section.base_url.clone(),
        api_key,
        timeout,
    };
    search::build(settings, http.clone(), clock.clone()).map_err(wrong)
}

fn example_url(kind: &str) -> &'static str {
    match kind {
        "mcp" => "https://example.com/mcp",
        "mediawiki" => "https://en.wikipedia.org/w",
        _ => "http://127.0.0.1:8888",
    }
}

/// Returns the key of a section; `None` if it names none.
fn key_of(config: &Config, name: &str, section: &SearchSection) -> Result<Option<SecretString>, ConfigError> {
    let (variable, file) = (section.api_key_env.as_deref(), section.api_key_file.as_deref());
    let key = config.key(&format!("search.{name}.api_key_file"), variable, file)?;
    match (variable, &key) {
        (Some(variable), None) => Err(ConfigError::new(
            format!("search.{name}.api_key_env"),
            format!("the variable {variable} is not set: set it, or remove the section"),
        )),
        _ => Ok(key),
    }
}

fn check(name: &str, section: &SearchSection) -> Result<(), ConfigError> {
    let fault = |key: &str, message: &str| Err(ConfigError::new(format!("search.{name}{key}"), message));
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.bytes().next().is_some_and(is_letter)
        && name
            .bytes()
            .all(|byte| is_letter(byte) || byte == b'-' || byte == b'_');
    if !is_name {
        let message =
            "use 1 to 64 of a-z, 0-9, '-' and '_' in the name, and begin it with a letter or a digit";
        return fault("", message);
    }
    if section.price < Credits::ZERO {
        return fault(".price", "must be 0 or more credits a query, such as \"0.005\"");
    }
    if !(1..=MAX_TIMEOUT_MS).contains(&section.timeout_ms) {
        return fault(".timeout_ms", "must be from 1 to 60000");
    }
    if !(section.weight > 0.0 && section.weight.is_finite()) {
        return fault(".weight", "must be a number above 0, such as 1.0");
    }
    Ok(())
}

/// Connects MCP servers that requests name.
pub(crate) struct Servers {
    pub(crate) egress: Arc<EgressClient>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl SearchConnector for Servers {
    fn mcp(
        &self,
        account: AccountId,
        name: &str,
        server_url: &str,
        authorization: Option<&str>,
    ) -> Result<Arc<dyn SearchBackend>, String> {
        let settings = McpSettings {
            name: name.to_owned(),
            server_url: server_url.to_owned(),
            authorization: authorization.map(SecretString::from),
            account: Some(account),
            timeout: SERVER_TIMEOUT,
        };
        let server = mcp::backend(settings, self.egress.clone(), self.clock.clone());
        server
            .map(|server| Arc::new(server) as Arc<dyn SearchBackend>)
            .map_err(|error| error.to_string())
    }
}

/// Stores the prices of backends, so that every charge can be traced to its price.
pub async fn record_prices(
    backends: &[WebBackend],
    prices: &dyn PriceStore,
    clock: &dyn Clock,
) -> Result<(), StorageError> {
    let now = clock.now();
    let records = backends.iter().map(|backend| backend.price_record(now));
    prices.record(records.collect()).await
}

#[cfg(test)]
mod tests;
