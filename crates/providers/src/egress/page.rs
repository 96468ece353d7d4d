//! Fetches web pages for research. Each hop passes the same checks as every request of the egress
//! client, and the robots.txt of its site.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, LOCATION,
    USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_types::AccountId;
use tollgate_upstream::page::{is_page_type, is_pdf_type};
use tollgate_upstream::{FetchError, FetchedPage, MAX_PAGE_BYTES, MAX_PDF_BYTES, PageFetcher, PageSkipped};

use super::connection::IncomingBody;
use super::connection::{self, Limits};
use super::permits::{KeyedPermit, KeyedPermits};
use super::robots::{Robots, RobotsPolicy};
use super::target::Target;
use super::{EgressClient, MAX_REDIRECTS, unreachable};

/// User agent of page requests. Sites address it in robots.txt by its name without the version.
const PAGE_AGENT: &str = concat!("TollgateResearch/", env!("CARGO_PKG_VERSION"));
/// Accepted media types, in the order of preference.
const ACCEPTED: &str = "text/html, application/xhtml+xml, application/pdf;q=0.9, text/*;q=0.9, application/json;q=0.8, */*;q=0.1";
/// Maximum length of a header value that is returned, in bytes.
const MAX_VALUE_BYTES: usize = 500;

/// Limits of page fetches.
#[derive(Clone, Debug)]
pub struct PageSettings {
    /// Whether robots.txt files apply.
    pub robots: RobotsPolicy,
    /// Maximum number of concurrent fetches.
    pub max_concurrent: usize,
    /// Maximum number of concurrent fetches of one account.
    pub per_account: usize,
    /// Maximum number of concurrent connections to one host.
    pub per_host: usize,
    /// Maximum time of a fetch with its redirects, without the time that it waits for permits and
    /// for the crawl delay of a site.
    pub total: Duration,
    /// Maximum time that a fetch waits for its permits and for crawl delays.
    pub max_wait: Duration,
}

impl Default for PageSettings {
    fn default() -> Self {
        Self {
            robots: RobotsPolicy::Obey,
            max_concurrent: 64,
            per_account: 8,
            per_host: 2,
            total: Duration::from_secs(20),
            max_wait: Duration::from_secs(30),
        }
    }
}

/// Client that fetches web pages.
pub struct PageClient {
    client: EgressClient,
    settings: PageSettings,
    robots: Option<Robots>,
    all: Semaphore,
    accounts: KeyedPermits<AccountId>,
    hosts: KeyedPermits<String>,
}

/// Response of one hop.
pub(super) enum PageAnswer {
    Page(FetchedPage),
    /// Value of the `Location` header, verbatim.
    Redirect(String),
}

/// Permits of one hop.
struct HopPermit<'t> {
    _host: KeyedPermit<'t, String>,
    _all: SemaphorePermit<'t>,
}

impl PageClient {
    /// Builds a client with these limits. `client` makes the requests; its own limits of
    /// concurrency and its total time do not apply.
    pub fn new(client: EgressClient, settings: PageSettings) -> Self {
        let robots = match settings.robots {
            RobotsPolicy::Obey => Some(Robots::default()),
            RobotsPolicy::Ignore => None,
        };
        Self {
            client,
            robots,
            all: Semaphore::new(settings.max_concurrent.max(1)),
            accounts: KeyedPermits::new(settings.per_account),
            hosts: KeyedPermits::new(settings.per_host),
            settings,
        }
    }

    /// Waits for the permits of a hop until `wait_until`.
    async fn permit(&self, target: &Target, wait_until: Instant) -> Result<HopPermit<'_>, FetchError> {
        let host = target.host().to_string();
        let permits = async {
            let host = self.hosts.take(host).await?;
            // The semaphore is never closed.
            let all = self.all.acquire().await.ok()?;
            Some(HopPermit {
                _host: host,
                _all: all,
            })
        };
        let taken = timeout_at(wait_until, permits).await;
        taken.ok().flatten().ok_or(FetchError::Busy)
    }

    /// Requests one URL of any site. Waits for a permit until `wait_until`, and subtracts the time
    /// of the request from `left`.
    pub(super) async fn hop(
        &self,
        target: &Target,
        wait_until: Instant,
        left: &mut Duration,
    ) -> Result<PageAnswer, FetchError> {
        let _permit = self.permit(target, wait_until).await?;
        let started = Instant::now();
        let deadline = started + *left;
        let answer = timeout_at(deadline, self.get(target, deadline)).await;
        *left = left.saturating_sub(started.elapsed());
        answer.unwrap_or(Err(FetchError::TooSlow))
    }

    async fn get(&self, target: &Target, deadline: Instant) -> Result<PageAnswer, FetchError> {
        let mut request = connection::request(target, &[])?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(USER_AGENT, HeaderValue::from_static(PAGE_AGENT));
        let read = |response| read(&self.client, target, response, deadline);
        let headers = connection::headers_deadline(&self.client, deadline);
        connection::exchange(&self.client, target, request, headers, read).await
    }

    /// Follows redirects to the page.
    async fn follow(&self, url: &str, wait_until: Instant) -> Result<FetchedPage, PageSkipped> {
        let mut target = Target::parse(url)?;
        let mut left = self.settings.total;
        for _ in 0..=MAX_REDIRECTS {
            if let Some(robots) = &self.robots {
                let turn = robots.check(self, &target, wait_until).await?;
                sleep_until(turn).await;
            }
            match self.hop(&target, wait_until, &mut left).await? {
                PageAnswer::Page(page) => return Ok(page),
                PageAnswer::Redirect(location) => target = target.redirected(&location)?,
            }
        }
        Err(unreachable("too many redirects").into())
    }
}

#[async_trait]
impl PageFetcher for PageClient {
    async fn fetch(&self, account: Option<AccountId>, url: &str) -> Result<FetchedPage, PageSkipped> {
        let wait_until = Instant::now() + self.settings.max_wait;
        let _own = match account {
            Some(account) => {
                let taken = timeout_at(wait_until, self.accounts.take(account)).await;
                Some(taken.ok().flatten().ok_or(FetchError::Busy)?)
            }
            None => None,
        };
        self.follow(url, wait_until).await
    }
}

/// Reads the response: a page, a redirect or an error.
async fn read(
    client: &EgressClient,
    target: &Target,
    response: Response<IncomingBody>,
    deadline: Instant,
) -> Result<PageAnswer, FetchError> {
    let (head, body) = response.into_parts();
    let headers = &head.headers;
    let value = |name: HeaderName| -> Option<String> {
        let text = connection::text(headers, &name)?.trim();
        (!text.is_empty() && text.len() <= MAX_VALUE_BYTES).then(|| text.to_owned())
    };
    let status = head.status.as_u16();
    if let (301 | 302 | 303 | 307 | 308, Some(location)) = (status, connection::text(headers, &LOCATION)) {
        return Ok(PageAnswer::Redirect(location.to_owned()));
    }
    let (media_type, charset) = content_type(connection::text(headers, &CONTENT_TYPE).unwrap_or_default());
    let bytes = match status {
        200 if is_page_type(&media_type) => {
            let max_bytes = match is_pdf_type(&media_type) {
                true => MAX_PDF_BYTES,
                false => MAX_PAGE_BYTES,
            };
            content(client, headers, body, Limits { max_bytes, deadline }).await?
        }
        200 => return Err(FetchError::WrongType),
        _ => Bytes::new(),
    };
    Ok(PageAnswer::Page(FetchedPage {
        status,
        final_url: target.as_str().to_owned(),
        media_type,
        charset,
        etag: value(ETAG),
        last_modified: value(LAST_MODIFIED),
        bytes,
    }))
}

/// Splits the value of a `Content-Type` header into the media type, in lower case, and the charset.
fn content_type(value: &str) -> (String, Option<String>) {
    let mut parts = value.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']).trim();
        let is_charset = name.trim().eq_ignore_ascii_case("charset") && !value.is_empty();
        (is_charset && value.len() <= MAX_VALUE_BYTES).then(|| value.to_owned())
    });
    (media_type, charset)
}

/// Reads the body and decompresses it. Both sizes are limited.
async fn content(
    client: &EgressClient,
    headers: &HeaderMap,
    body: IncomingBody,
    limits: Limits,
) -> Result<Bytes, FetchError> {
    let announced = connection::text(headers, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limits.max_bytes) {
        return Err(FetchError::TooLarge);
    }
    let encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encodings = encodings.map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase());
    let encodings: Vec<Vec<u8>> = encodings.filter(|name| name != b"identity").collect();
    let is_gzip = match encodings.as_slice() {
        [] => false,
        [name] => matches!(name.as_slice(), b"gzip" | b"x-gzip"),
        _ => false,
    };
    if !is_gzip && !encodings.is_empty() {
        return Err(unreachable(
            "the response has a compression that the request did not accept",
        ));
    }
    let bytes = connection::body_within(client, body, &limits).await?;
    match is_gzip {
        true => inflated(bytes, limits.max_bytes).await,
        false => Ok(bytes),
    }
}

/// Decompresses gzip on a thread where it may block. Stops after `max_bytes`.
async fn inflated(packed: Bytes, max_bytes: u64) -> Result<Bytes, FetchError> {
    let inflate = move || {
        let mut bytes = Vec::new();
        let mut reader = std::io::Read::take(flate2::bufread::MultiGzDecoder::new(&*packed), max_bytes + 1);
        std::io::Read::read_to_end(&mut reader, &mut bytes).map_err(unreachable)?;
        match bytes.len() as u64 > max_bytes {
            true => Err(FetchError::TooLarge),
            false => Ok(Bytes::from(bytes)),
        }
    };
    tokio::task::spawn_blocking(inflate).await.map_err(unreachable)?
}

#[cfg(test)]
mod tests {
    use super::content_type;

    #[test]
    fn content_types_are_split() {
        for (value, media_type, charset) in [
            ("", "", None),
            ("Text/HTML", "text/html", None),
            ("text/html; charset=utf-8", "text/html", Some("utf-8")),
            (
                "text/html;x=y; Charset=\"Shift_JIS\"",
                "text/html",
                Some("Shift_JIS"),
            ),
            ("text/html; charset=", "text/html", None),
            ("text/html; charset", "text/html", None),
        ] {
            let expected = (media_type.to_owned(), charset.map(str::to_owned));
            assert_eq!(content_type(value), expected, "{value}");
        }
    }
}
