//! Web search services and search servers, behind the port of search backends.
//!
//! A kind is a row of [`KINDS`]: address and authentication as data, and functions that write the
//! request and read the response. Suggested reading order: [`KINDS`], `client`, `ask`, `hits`, then
//! one module for each kind.

mod ask;
mod brave;
mod client;
mod exa;
mod hits;
mod mediawiki;
mod perplexity;
mod plain;
mod searxng;
mod serper;
mod tavily;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use tollgate_types::Clock;
use tollgate_upstream::{SearchBackend, UpstreamError};

use crate::http::{BaseUrl, Credential, EndpointError, HttpClient};
use ask::Ask;
use client::WebSearch;
use hits::Found;
pub(crate) use plain::plain_text;

/// Type of search service: one format of requests and responses.
pub struct SearchKind {
    /// Name in settings.
    pub name: &'static str,
    /// Base URL of the service; `None` for kinds that operators host themselves.
    pub base_url: Option<&'static str>,
    /// Usual environment variable of the key; `None` if the kind needs no key.
    pub key_variable: Option<&'static str>,
    /// Path of searches below the base URL.
    path: &'static str,
    auth: Auth,
    request: fn(&Ask<'_>) -> WireRequest,
    hits: fn(&Value, &BaseUrl) -> Result<Vec<Found>, UpstreamError>,
    /// Corrects the error of an error status, from the first bytes of the body.
    refine: fn(UpstreamError, &[u8]) -> UpstreamError,
}

/// Header that contains the key.
enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// The key alone, in the header of this name.
    Header(&'static str),
}

/// A request in the format of a kind.
struct WireRequest {
    call: Call,
    /// Whether the request contains all date filters of the query, without widening them.
    filters_date: bool,
}

/// Method and parameters of a request.
enum Call {
    /// GET with this query.
    Get(Vec<(&'static str, String)>),
    /// POST of this JSON.
    Post(Value),
}

/// All kinds, by name.
pub const KINDS: &[SearchKind] = &[
    brave::KIND,
    exa::KIND,
    mediawiki::KIND,
    perplexity::KIND,
    searxng::KIND,
    serper::KIND,
    tavily::KIND,
];

/// Returns the kind with this name in settings.
pub fn kind(name: &str) -> Option<&'static SearchKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Settings of one search backend.
pub struct SearchSettings {
    /// Name of the backend.
    pub name: String,
    /// Type of the service.
    pub kind: &'static SearchKind,
    /// Base URL; `None` for that of the kind.
    pub base_url: Option<String>,
    /// Key; `None` only for kinds that need none.
    pub api_key: Option<SecretString>,
    /// Maximum duration of a search.
    pub timeout: Duration,
}

/// Builds a search backend. Sends no request. Fails if the base URL or the key is invalid, or if
/// the key would be sent unencrypted outside the operator's network.
pub fn build(
    settings: SearchSettings,
    http: Arc<HttpClient>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn SearchBackend>, EndpointError> {
    let kind = settings.kind;
    let base = base_of(settings.base_url.as_deref(), kind)?;
    if kind.key_variable.is_some() && settings.api_key.is_none() {
        return Err(EndpointError::new(format!("{} needs a key", kind.name)));
    }
    if settings.api_key.is_some() && !base.is_secure() && !base.is_private() {
        return Err(EndpointError::new(format!(
            "`{base}` is not https: the key would be sent unencrypted"
        )));
    }
    if base.is_secure() {
        http.check_tls()?;
    }
    let credential = |key: &SecretString| match kind.auth {
        Auth::Bearer => Credential::bearer(key),
        Auth::Header(name) => Credential::header(name, key),
    };
    let credential = settings.api_key.as_ref().map(credential).transpose()?;
    let backend = WebSearch::new(
        settings.name,
        kind,
        base,
        credential.as_slice(),
        (http, clock, settings.timeout),
    )?;
    Ok(Arc::new(backend))
}

/// Parses the base URL of a backend. The path of searches at its end is removed, because addresses
/// are often copied with it.
fn base_of(stated: Option<&str>, kind: &SearchKind) -> Result<BaseUrl, EndpointError> {
    let Some(text) = stated.or(kind.base_url) else {
        return Err(EndpointError::new("set base_url to the address of the server"));
    };
    if text.contains('?') {
        return Err(EndpointError::new(
            "remove the query, which begins with '?', from base_url",
        ));
    }
    let text = text.trim().trim_end_matches('/');
    BaseUrl::parse(text.strip_suffix(kind.path).unwrap_or(text))
}

/// Returns an error unchanged: `refine` of kinds whose statuses have their usual meanings.
fn unchanged(error: UpstreamError, _: &[u8]) -> UpstreamError {
    error
}
