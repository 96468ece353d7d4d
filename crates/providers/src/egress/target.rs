//! A caller's URL, parsed once. The host of the connection and the requested path come from the
//! same parser: if two parsers disagreed, a URL could bypass the checks.

use tollgate_upstream::FetchError;
use url::{Host, Url};

/// Maximum size of a URL, in bytes.
const MAX_URL_BYTES: usize = 8 << 10;

/// A parsed and checked URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    url: Url,
}

impl Target {
    /// Parses and checks a caller's URL.
    pub(super) fn parse(text: &str) -> Result<Self, FetchError> {
        let refused = |()| FetchError::NotAnAddress;
        let rest = after_scheme(text).ok_or(()).map_err(refused)?;
        check_spelling(text).map_err(refused)?;
        check_authority(rest).map_err(refused)?;
        let url = Url::parse(text).map_err(|_| FetchError::NotAnAddress)?;
        Self::of(url)
    }

    /// Resolves the location of a redirect. Rejects a change from https to http.
    pub(super) fn redirected(&self, location: &str) -> Result<Self, FetchError> {
        let refused = |()| FetchError::Unreachable;
        check_spelling(location).map_err(refused)?;
        let rest = after_scheme(location).or_else(|| location.strip_prefix("//"));
        if let Some(rest) = rest {
            check_authority(rest).map_err(refused)?;
        }
        let url = self.url.join(location).map_err(|_| FetchError::Unreachable)?;
        if self.is_secure() && url.scheme() != "https" {
            return Err(super::unreachable("the redirect changes from https to http"));
        }
        Self::of(url).map_err(|_| FetchError::Unreachable)
    }

    fn of(mut url: Url) -> Result<Self, FetchError> {
        let is_plain = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.host_str().is_some_and(|host| !host.is_empty());
        if !is_plain {
            return Err(FetchError::NotAnAddress);
        }
        url.set_fragment(None);
        Ok(Self { url })
    }

    /// Returns the host: a name, or an IP address in its normal form.
    pub(super) fn host(&self) -> Host<&str> {
        // `parse` accepts only URLs with a host.
        self.url.host().unwrap_or(Host::Domain(""))
    }

    /// Returns the explicit port, or the scheme's default.
    pub(super) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(0)
    }

    /// Whether the scheme is https.
    pub(super) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(super) fn path(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }

    /// Returns the host and port, as in the `Host` header.
    pub(super) fn authority(&self) -> &str {
        &self.url[url::Position::BeforeHost..url::Position::AfterPort]
    }

    /// Returns the scheme, host and port.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns the whole URL.
    pub(super) fn as_str(&self) -> &str {
        self.url.as_str()
    }
}

/// Returns the part of a URL after `http://` or `https://`.
fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let start = text.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    })
}

/// Rejects URLs with backslashes, white space or control characters, which URL parsers treat
/// differently, and URLs that are too long.
fn check_spelling(text: &str) -> Result<(), ()> {
    let is_odd = |c: char| c == '\\' || c.is_control() || c.is_whitespace();
    if text.len() > MAX_URL_BYTES || text.contains(is_odd) {
        return Err(());
    }
    Ok(())
}

/// Rejects URLs without a host and URLs with user information. The URL parser removes empty user
/// information silently.
fn check_authority(rest: &str) -> Result<(), ()> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return Err(());
    }
    Ok(())
}
