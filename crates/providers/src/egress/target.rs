//! An address that a caller wrote, read once. What is dialled, and what is asked for, comes from this one reading: two
//! readers of one text that differ are how guards are passed.

use tollgate_upstream::FetchError;
use url::{Host, Url};

/// The longest address.
const LONGEST: usize = 8 << 10;

/// Where something is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    url: Url,
}

impl Target {
    /// Reads what a caller wrote.
    pub(super) fn parse(text: &str) -> Result<Self, FetchError> {
        let refused = |()| FetchError::NotAnAddress;
        let rest = after_scheme(text).ok_or(()).map_err(refused)?;
        check_spelling(text).map_err(refused)?;
        check_authority(rest).map_err(refused)?;
        let url = Url::parse(text).map_err(|_| FetchError::NotAnAddress)?;
        Self::of(url)
    }

    /// Where it goes on from here. Going from https to http is refused.
    pub(super) fn redirected(&self, location: &str) -> Result<Self, FetchError> {
        let refused = |()| FetchError::Unreachable;
        check_spelling(location).map_err(refused)?;
        let rest = after_scheme(location).or_else(|| location.strip_prefix("//"));
        if let Some(rest) = rest {
            check_authority(rest).map_err(refused)?;
        }
        let url = self.url.join(location).map_err(|_| FetchError::Unreachable)?;
        if self.is_secure() && url.scheme() != "https" {
            return Err(super::unreachable("it is redirected from https to http"));
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

    /// The host: a name, or an address in its one spelling, whatever the caller's was.
    pub(super) fn host(&self) -> Host<&str> {
        // An address with a host is all that gets here.
        self.url.host().unwrap_or(Host::Domain(""))
    }

    /// The port.
    pub(super) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(0)
    }

    /// Whether TLS is spoken.
    pub(super) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Path and query.
    pub(super) fn path(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }

    /// Host and port, as they stand in the header.
    pub(super) fn authority(&self) -> &str {
        &self.url[url::Position::BeforeHost..url::Position::AfterPort]
    }

    /// The whole address.
    pub(super) fn as_str(&self) -> &str {
        self.url.as_str()
    }
}

/// What stands behind `http://` or `https://`.
fn after_scheme(text: &str) -> Option<&str> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let start = text.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    })
}

/// Backslashes, white space and control characters are read by some as if they were something else, or not there.
fn check_spelling(text: &str) -> Result<(), ()> {
    let is_odd = |c: char| c == '\\' || c.is_control() || c.is_whitespace();
    if text.len() > LONGEST || text.contains(is_odd) {
        return Err(());
    }
    Ok(())
}

/// There is a host, and nobody's name before it: not even an empty one, which leaves no trace when it is read.
fn check_authority(rest: &str) -> Result<(), ()> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return Err(());
    }
    Ok(())
}
