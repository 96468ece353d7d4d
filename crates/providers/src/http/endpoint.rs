//! Where a provider is reached and what every request to it carries, worked out once.

use std::fmt;
use std::net::IpAddr;

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use secrecy::{ExposeSecret, SecretString};

use super::plain::Pool;

/// The place of a model's name in an address.
const MODEL: &str = "{model}";

/// What is wrong with an address or a key; for the operator.
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

/// The address of a provider, such as `https://api.example.com/v1`. A query, such as Azure's `?api-version=preview`, is
/// repeated on every path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    prefix: String,
    query: Option<String>,
}

impl BaseUrl {
    /// Reads an address. It has no user name, no password and no fragment.
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
            .ok_or_else(|| wrong("it begins with http:// or https://"))?;
        let authority = parts.authority.ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong(
                "a key belongs into the provider's settings, not into the URL",
            ));
        }
        if text.contains('#') {
            return Err(wrong("it has no fragment"));
        }
        let path = parts.path_and_query;
        let prefix = path.as_ref().map_or("", PathAndQuery::path).trim_end_matches('/');
        Ok(Self {
            scheme,
            authority,
            prefix: prefix.to_owned(),
            query: path.as_ref().and_then(PathAndQuery::query).map(str::to_owned),
        })
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Whether it has a path.
    pub(crate) fn has_path(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        let host = self.authority.host().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The same address with more of a path.
    pub(crate) fn extended(mut self, path: &str) -> Self {
        self.prefix.push_str(path);
        self
    }

    /// The same address without the last segment of its path, and that segment with the slash before it.
    pub(crate) fn without_last_segment(mut self) -> (Self, Option<String>) {
        let last = self.prefix.rfind('/').map(|slash| self.prefix.split_off(slash));
        (self, last)
    }

    /// Whether the path has the place of a model's name in it, as in `/openai/deployments/{model}`.
    pub(crate) fn names_model(&self) -> bool {
        self.prefix.contains(MODEL)
    }

    /// The same address for this model.
    pub(crate) fn for_model(&self, model: &str) -> Self {
        Self {
            prefix: self.prefix.replace(MODEL, &escape(model, "")),
            ..self.clone()
        }
    }

    /// What comes before the collection that the model is in: `/openai`.
    pub(crate) fn before_model(&self) -> Self {
        let before = self.prefix.split(MODEL).next().unwrap_or_default();
        let parent = before.trim_end_matches('/').rsplit_once('/');
        Self {
            prefix: parent.map_or(String::new(), |(parent, _)| parent.to_owned()),
            ..self.clone()
        }
    }

    /// The same server without a path.
    pub(crate) fn root(&self) -> Self {
        Self {
            prefix: String::new(),
            query: None,
            ..self.clone()
        }
    }

    /// A path under the address as it is under [`root`](Self::root).
    pub(crate) fn path_of(&self, path: &str) -> String {
        let query = self.query.as_deref();
        let mark = match (query, path.contains('?')) {
            (None, _) => "",
            (Some(_), true) => "&",
            (Some(_), false) => "?",
        };
        format!("{}{path}{mark}{}", self.prefix, query.unwrap_or_default())
    }

    /// The path and query of an address that a server tells, when it is one of this server's own: of the same scheme,
    /// host and port, or a path alone. What is shown to this server is shown nowhere else.
    pub(crate) fn own_path(&self, told: &str) -> Option<String> {
        if told.starts_with('/') && !told.starts_with("//") && !told.starts_with("/\\") {
            return Some(told.split('#').next().unwrap_or_default().to_owned());
        }
        let uri: Uri = told.split('#').next()?.parse().ok()?;
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

    /// The host, with its port when that is not the usual one.
    pub(crate) fn host(&self) -> &str {
        self.authority.as_str()
    }

    fn join(&self, path: &str) -> Result<Uri, EndpointError> {
        let query = self
            .query
            .as_ref()
            .map_or(String::new(), |query| format!("?{query}"));
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{path}{query}", self.prefix))
            .build()
            .map_err(|_| EndpointError::new(format!("`{self}` cannot be followed by {path}")))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)?;
        self.query.iter().try_for_each(|query| write!(f, "?{query}"))
    }
}

/// A text with everything before an `@` hidden: somebody may have put a password there.
fn without_userinfo(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => text.to_owned(),
    }
}

/// How a key is shown to a provider.
#[derive(Clone, Debug)]
pub struct Credential {
    header: HeaderName,
    value: HeaderValue,
}

impl Credential {
    /// `Authorization: Bearer …`.
    pub fn bearer(key: &SecretString) -> Result<Self, EndpointError> {
        Self::scheme("Bearer", key)
    }

    /// `Authorization: SCHEME …`.
    pub(crate) fn scheme(scheme: &str, key: &SecretString) -> Result<Self, EndpointError> {
        let text = SecretString::from(format!("{scheme} {}", key.expose_secret().trim()));
        Self::new(AUTHORIZATION, &text)
    }

    /// A header with the key as its value.
    pub fn header(name: &str, key: &SecretString) -> Result<Self, EndpointError> {
        let header = name
            .parse()
            .map_err(|_| EndpointError::new(format!("`{name}` is not the name of a header")))?;
        Self::new(header, key)
    }

    fn new(header: HeaderName, secret: &SecretString) -> Result<Self, EndpointError> {
        let mut value = HeaderValue::from_str(secret.expose_secret().trim()).map_err(|_| {
            EndpointError::new(format!(
                "the value for `{header}` has characters that a header cannot carry"
            ))
        })?;
        value.set_sensitive(true);
        Ok(Self { header, value })
    }
}

/// One path of a provider with all that its requests have in common. Keys never show in its `Debug` form.
#[derive(Debug)]
pub struct Endpoint {
    pub(super) uri: Uri,
    /// The path alone, as HTTP/1.1 wants it.
    pub(super) path: Uri,
    pub(super) headers: HeaderMap,
    pub(super) secure: bool,
    /// Used when it is not secure.
    pub(super) pool: Pool,
}

impl Endpoint {
    /// The path under the base. Later credentials for one header replace earlier ones.
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
            // hyper would write it anew for each request. Over TLS it may be HTTP/2, which has no such header.
            let host = HeaderValue::from_str(base.authority.as_str())
                .map_err(|_| EndpointError::new(format!("`{}` is not a host", base.authority)))?;
            headers.insert(HOST, host);
        }
        for credential in credentials {
            headers.insert(credential.header.clone(), credential.value.clone());
        }
        let uri = base.join(path)?;
        let path = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        Ok(Self {
            uri,
            path,
            headers,
            secure: base.is_secure(),
            pool: Pool::default(),
        })
    }
}

/// How one request differs from the others of its endpoint: by its path, and by more headers.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(super) uri: Uri,
    /// The path alone, as HTTP/1.1 wants it.
    pub(super) path: Uri,
    pub(super) headers: HeaderMap,
}

impl Variant {
    /// Another path under the same base.
    pub(crate) fn new(base: &BaseUrl, path: &str) -> Result<Self, EndpointError> {
        let uri = base.join(path)?;
        let path = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        Ok(Self {
            uri,
            path,
            headers: HeaderMap::new(),
        })
    }

    /// The path as it is sent, without a query.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// One more header, or another value for one, that is no secret.
    pub(crate) fn insert_plain(&mut self, header: HeaderName, value: &str) -> Result<(), EndpointError> {
        let value = HeaderValue::from_str(value)
            .map_err(|_| EndpointError::new(format!("`{header}` cannot have that value")))?;
        self.headers.insert(header, value);
        Ok(())
    }

    /// One more header, or another value for one. It may be a secret.
    pub(crate) fn insert(&mut self, name: &str, value: &SecretString) -> Result<(), EndpointError> {
        let Credential { header, value } = Credential::header(name, value)?;
        self.headers.insert(header, value);
        Ok(())
    }
}

/// Percent-encodes all but letters, digits, `-._~`, and what is to be `kept`.
pub(crate) fn escape(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        let stays =
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.as_bytes().contains(&byte);
        match stays {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
