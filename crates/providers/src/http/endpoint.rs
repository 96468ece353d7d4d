//! A provider's base URL and the headers of every request to it, computed once.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use secrecy::{ExposeSecret, SecretString};
use tollgate_upstream::ErrorText;

use super::error_text::{self, ErrorTexts};
use super::plain::Pool;

/// Placeholder of the model's name in a base URL.
const MODEL_PLACEHOLDER: &str = "{model}";

/// Error of an invalid base URL or key, with a message for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError {
    message: String,
}

impl EndpointError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EndpointError {}

/// Base URL of a provider, such as `https://api.example.com/v1`. A query, such as Azure's
/// `?api-version=preview`, is added to every path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    prefix: String,
    query: Option<String>,
    error_text: ErrorText,
}

impl BaseUrl {
    /// Parses a base URL. Rejects a user name, a password and a fragment.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let wrong = |why: &str| {
            let shown = without_userinfo(text);
            EndpointError::new(format!("`{shown}` is not a base URL: {why}"))
        };
        let uri: Uri = text
            .trim()
            .parse()
            .map_err(|_| wrong("write it like https://api.example.com/v1"))?;
        let parts = uri.into_parts();
        let scheme = parts
            .scheme
            .filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)
            .ok_or_else(|| wrong("it must start with http:// or https://"))?;
        let authority = parts.authority.ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong(
                "remove the user name and the password, and set the key in its own setting",
            ));
        }
        if text.contains('#') {
            return Err(wrong("remove the fragment"));
        }
        let error_text = error_text::default_mode(authority.host());
        let path = parts.path_and_query;
        let prefix = path.as_ref().map_or("", PathAndQuery::path).trim_end_matches('/');
        Ok(Self {
            scheme,
            authority,
            prefix: prefix.to_owned(),
            query: path.as_ref().and_then(PathAndQuery::query).map(str::to_owned),
            error_text,
        })
    }

    /// Returns the base URL with this policy for its error messages, if given.
    pub(crate) fn with_error_text(mut self, error_text: Option<ErrorText>) -> Self {
        self.error_text = error_text.unwrap_or(self.error_text);
        self
    }

    /// Whether the scheme is `https`.
    pub fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    pub(crate) fn has_path(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Whether the host is `localhost` or a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        let host = self.authority.host().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether the host is in the operator's network: a private, loopback or link-local address, a
    /// name without a dot, or a name in a private domain.
    pub(crate) fn is_private(&self) -> bool {
        let host = self.authority.host().trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(v4)) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
            Ok(IpAddr::V6(v6)) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
            Err(_) => {
                let private = [".local", ".internal", ".lan", ".home.arpa"];
                !host.contains('.') || private.iter().any(|end| host.ends_with(end))
            }
        }
    }

    /// Whether the host is in one of these domains.
    pub(crate) fn is_in_domain(&self, domains: &[&str]) -> bool {
        let host = self.authority.host().to_ascii_lowercase();
        let is_in = |domain: &&str| {
            host.strip_suffix(*domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        domains.iter().any(is_in)
    }

    /// Returns the port, explicit or the scheme's default.
    pub(crate) fn port(&self) -> Option<u16> {
        let usual = if self.is_secure() { 443 } else { 80 };
        Some(self.authority.port_u16().unwrap_or(usual))
    }

    /// Appends a path to the base URL's path.
    pub(crate) fn extended(mut self, path: &str) -> Self {
        self.prefix.push_str(path);
        self
    }

    /// Splits off the last segment of the path, including its leading slash.
    pub(crate) fn without_last_segment(mut self) -> (Self, Option<String>) {
        let last = self.prefix.rfind('/').map(|slash| self.prefix.split_off(slash));
        (self, last)
    }

    /// Whether the path has the model placeholder, as in `/openai/deployments/{model}`.
    pub(crate) fn names_model(&self) -> bool {
        self.prefix.contains(MODEL_PLACEHOLDER)
    }

    /// Replaces the placeholder with this model's name.
    pub(crate) fn for_model(&self, model: &str) -> Self {
        Self {
            prefix: self.prefix.replace(MODEL_PLACEHOLDER, &escape(model, "")),
            ..self.clone()
        }
    }

    /// Returns the base URL without the model placeholder and the path segment before it, such as
    /// `/openai` of `/openai/deployments/{model}`.
    pub(crate) fn before_model(&self) -> Self {
        let before = self.prefix.split(MODEL_PLACEHOLDER).next().unwrap_or_default();
        let parent = before.trim_end_matches('/').rsplit_once('/');
        Self {
            prefix: parent.map_or(String::new(), |(parent, _)| parent.to_owned()),
            ..self.clone()
        }
    }

    /// Returns the root URL of the server, without path and query.
    pub(crate) fn root(&self) -> Self {
        Self {
            prefix: String::new(),
            query: None,
            ..self.clone()
        }
    }

    /// Converts a path below the base URL to one below [`root`](Self::root).
    pub(crate) fn path_of(&self, path: &str) -> String {
        let query = self.query.as_deref();
        let mark = match (query, path.contains('?')) {
            (None, _) => "",
            (Some(_), true) => "&",
            (Some(_), false) => "?",
        };
        format!("{}{path}{mark}{}", self.prefix, query.unwrap_or_default())
    }

    /// Returns the path and query of a URL from a response, if the URL has this server's scheme,
    /// host and port, or is only a path; otherwise `None`. So no other server receives the
    /// credentials.
    pub(crate) fn own_path(&self, location: &str) -> Option<String> {
        if location.starts_with('/') && !location.starts_with("//") && !location.starts_with("/\\") {
            return Some(location.split('#').next().unwrap_or_default().to_owned());
        }
        let uri: Uri = location.split('#').next()?.parse().ok()?;
        let is_same_scheme = uri.scheme() == Some(&self.scheme);
        let authority = uri.authority().filter(|_| is_same_scheme)?;
        let port = |authority: &Authority| {
            let usual = if self.is_secure() { 443 } else { 80 };
            authority.port_u16().unwrap_or(usual)
        };
        let is_same_host = authority.host().eq_ignore_ascii_case(self.authority.host());
        let has_user = authority.as_str().contains('@');
        let is_own = is_same_host && !has_user && port(authority) == port(&self.authority);
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        is_own.then(|| path.to_owned())
    }

    /// Returns the host, with the port if the base URL contains one.
    pub(crate) fn host(&self) -> &str {
        self.authority.as_str()
    }

    fn join(&self, path: &str) -> Result<Uri, EndpointError> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(self.path_of(path))
            .build()
            .map_err(|_| EndpointError::new(format!("`{self}` and {path} do not form a URL")))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)?;
        self.query.iter().try_for_each(|query| write!(f, "?{query}"))
    }
}

/// Hides the text before an `@`, which may contain a password.
fn without_userinfo(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => text.to_owned(),
    }
}

/// A header of a provider's requests, usually for authentication. `Debug` hides its value.
#[derive(Clone, Debug)]
pub struct Credential {
    header: HeaderName,
    value: HeaderValue,
}

impl Credential {
    /// Creates the header `Authorization: Bearer KEY`.
    pub fn bearer(key: &SecretString) -> Result<Self, EndpointError> {
        Self::scheme("Bearer", key)
    }

    /// Creates the header `Authorization: SCHEME KEY`.
    pub(crate) fn scheme(scheme: &str, key: &SecretString) -> Result<Self, EndpointError> {
        let text = SecretString::from(format!("{scheme} {}", key.expose_secret().trim()));
        Self::new(AUTHORIZATION, &text)
    }

    /// Creates a header whose value is the key.
    pub fn header(name: &str, key: &SecretString) -> Result<Self, EndpointError> {
        let header = name
            .parse()
            .map_err(|_| EndpointError::new(format!("`{name}` is not a header name")))?;
        Self::new(header, key)
    }

    fn new(header: HeaderName, secret: &SecretString) -> Result<Self, EndpointError> {
        let mut value = HeaderValue::from_str(secret.expose_secret().trim()).map_err(|_| {
            EndpointError::new(format!(
                "the value for `{header}` has characters that are invalid in a header"
            ))
        })?;
        value.set_sensitive(true);
        Ok(Self { header, value })
    }
}

/// One path of a provider, with the common parts of its requests. `Debug` hides keys.
#[derive(Debug)]
pub struct Endpoint {
    pub(super) uri: Uri,
    /// The URI without scheme and host, as HTTP/1.1 requires.
    pub(super) path: Uri,
    pub(super) headers: HeaderMap,
    pub(super) secure: bool,
    pub(super) error_texts: Arc<ErrorTexts>,
    /// Pool of plain HTTP connections; unused for TLS.
    pub(super) pool: Pool,
}

impl Endpoint {
    /// Returns the policy for error messages of this endpoint.
    pub(crate) fn error_texts(&self) -> &Arc<ErrorTexts> {
        &self.error_texts
    }

    /// Builds the endpoint of a path below the base URL. Later credentials for the same header
    /// replace earlier ones.
    pub fn new(base: &BaseUrl, path: &str, credentials: &[Credential]) -> Result<Self, EndpointError> {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION"))),
        );
        if !base.is_secure() {
            // Without this header, hyper would write it for each request. TLS may use HTTP/2, which
            // has no such header.
            let host = HeaderValue::from_str(base.authority.as_str())
                .map_err(|_| EndpointError::new(format!("`{}` is not a host", base.authority)))?;
            headers.insert(HOST, host);
        }
        for credential in credentials {
            headers.insert(credential.header.clone(), credential.value.clone());
        }
        let uri = base.join(path)?;
        let path = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        let secret = |credential: &Credential| {
            let text = credential.value.to_str().ok()?;
            Some(SecretString::from(text))
        };
        let secrets = credentials.iter().filter_map(secret).collect();
        Ok(Self {
            error_texts: Arc::new(ErrorTexts::new(base.error_text, secrets)),
            uri,
            path,
            headers,
            secure: base.is_secure(),
            pool: Pool::default(),
        })
    }
}

/// The path and the additional headers of one request to an endpoint.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(super) uri: Uri,
    /// The URI without scheme and host, as HTTP/1.1 requires.
    pub(super) path: Uri,
    pub(super) headers: HeaderMap,
}

impl Variant {
    /// Creates a variant with a path below `base` and without additional headers.
    pub(crate) fn new(base: &BaseUrl, path: &str) -> Result<Self, EndpointError> {
        let uri = base.join(path)?;
        let path = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        Ok(Self {
            uri,
            path,
            headers: HeaderMap::new(),
        })
    }

    /// Returns the path as sent, without the query.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Sets a header that is not a secret.
    pub(crate) fn insert_plain(&mut self, header: HeaderName, value: &str) -> Result<(), EndpointError> {
        let value = HeaderValue::from_str(value)
            .map_err(|_| EndpointError::new(format!("`{header}` has an invalid value")))?;
        self.headers.insert(header, value);
        Ok(())
    }

    /// Sets a header that may be a secret.
    pub(crate) fn insert(&mut self, name: &str, value: &SecretString) -> Result<(), EndpointError> {
        let Credential { header, value } = Credential::header(name, value)?;
        self.headers.insert(header, value);
        Ok(())
    }
}

/// Percent-encodes all characters except ASCII letters and digits, `-._~` and those in `unescaped`.
pub(crate) fn escape(text: &str, unescaped: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        let stays =
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || unescaped.as_bytes().contains(&byte);
        match stays {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
