//! Rules of sites for crawlers: robots.txt (RFC 9309). A site without the file allows everything; a
//! site whose file cannot be read allows nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use texting_robots::Robot;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tollgate_upstream::{FetchError, FetchedPage, PageSkipped};

use super::page::{PageAnswer, PageClient};
use super::target::Target;
use super::{MAX_REDIRECTS, unreachable};

/// Name of the crawler in robots.txt.
const AGENT: &str = "TollgateResearch";
/// Time for which the rules of a site are cached.
const LIFETIME: Duration = Duration::from_hours(24);
/// Time for which the failure to read the rules of a site is cached.
const FAILURE_LIFETIME: Duration = Duration::from_mins(10);
/// Maximum time to fetch the rules of a site.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum crawl delay. A site that requests more gets this delay.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Maximum number of sites in the cache.
const MAX_SITES: usize = 10_000;
/// Maximum size of all rules in the cache, in bytes.
const MAX_CACHED_BYTES: usize = 32 << 20;
/// Maximum size of the rules of one site, in bytes. RFC 9309 requires 500 KiB.
const MAX_RULES_BYTES: usize = 1 << 20;
/// Maximum number of rules with `$` of one site. Each of them is a regular expression.
const MAX_PATTERNS: usize = 1_000;

/// Whether the rules of sites apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsPolicy {
    /// The rules apply.
    Obey,
    /// No rules are fetched.
    Ignore,
}

/// Rules of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rules {
    /// The site has no rules.
    None,
    /// The rules cannot be read.
    Unknown,
    /// Text of the file.
    File(Bytes),
}

/// A site in the cache.
struct Site {
    fetched_at: Instant,
    rules: OnceCell<Rules>,
    /// Time of the next request that the crawl delay permits.
    next_request: Mutex<Option<Instant>>,
}

/// Cache of the rules of sites.
#[derive(Default)]
pub(super) struct Robots {
    /// Sites by their origin: scheme, host and port.
    sites: Mutex<HashMap<String, Arc<Site>>>,
}

impl Robots {
    /// Checks that the rules of the site allow the URL. Returns the time of the request, which the
    /// crawl delay determines. Returns [`FetchError::Busy`] if it is after `wait_until`.
    pub(super) async fn check(
        &self,
        client: &PageClient,
        target: &Target,
        wait_until: Instant,
    ) -> Result<Instant, PageSkipped> {
        let site = self.site(&target.origin());
        let rules = site.rules.get_or_try_init(|| fetch(client, target, wait_until));
        let rules = rules.await?;
        let file = match rules {
            Rules::None => return Ok(Instant::now()),
            Rules::Unknown => return Err(PageSkipped::UnknownRules),
            Rules::File(file) => file.clone(),
        };
        let path = target.path().to_owned();
        // The rules are parsed for each request: parsed rules need much more memory than their
        // text.
        let judged = tokio::task::spawn_blocking(move || judge(&file, &path)).await;
        let delay = judged.map_err(unreachable)??;
        site.reserve(delay, wait_until)
    }

    /// Returns the cached site, or a new one without rules.
    fn site(&self, origin: &str) -> Arc<Site> {
        let now = Instant::now();
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = sites.get(origin).filter(|site| !site.is_expired(now)) {
            return site.clone();
        }
        let site = Arc::new(Site {
            fetched_at: now,
            rules: OnceCell::new(),
            next_request: Mutex::new(None),
        });
        sites.insert(origin.to_owned(), site.clone());
        shrink(&mut sites, now);
        site
    }
}

/// Removes expired sites if the cache is full, and then the oldest ones.
fn shrink(sites: &mut HashMap<String, Arc<Site>>, now: Instant) {
    let size = |sites: &HashMap<String, Arc<Site>>| sites.values().map(|site| site.bytes()).sum::<usize>();
    if sites.len() <= MAX_SITES && size(sites) <= MAX_CACHED_BYTES {
        return;
    }
    sites.retain(|_, site| !site.is_expired(now));
    let age = |(origin, site): (&String, &Arc<Site>)| (site.fetched_at, site.bytes(), origin.clone());
    let mut ages: Vec<_> = sites.iter().map(age).collect();
    ages.sort_unstable();
    let mut bytes = size(sites);
    for (_, site_bytes, origin) in ages {
        // Several sites are removed, so that the next ones need no search.
        if sites.len() <= MAX_SITES * 9 / 10 && bytes <= MAX_CACHED_BYTES {
            return;
        }
        sites.remove(&origin);
        bytes -= site_bytes;
    }
}

impl Site {
    fn is_expired(&self, now: Instant) -> bool {
        let lifetime = match self.rules.get() {
            Some(Rules::Unknown) => FAILURE_LIFETIME,
            _ => LIFETIME,
        };
        now.duration_since(self.fetched_at) >= lifetime
    }

    fn bytes(&self) -> usize {
        match self.rules.get() {
            Some(Rules::File(file)) => file.len(),
            _ => 0,
        }
    }

    /// Reserves the next request to the site.
    fn reserve(&self, delay: Duration, wait_until: Instant) -> Result<Instant, PageSkipped> {
        let now = Instant::now();
        if delay.is_zero() {
            return Ok(now);
        }
        let mut next = self.next_request.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = next.map_or(now, |next| next.max(now));
        if turn > wait_until {
            return Err(FetchError::Busy.into());
        }
        *next = Some(turn + delay);
        Ok(turn)
    }
}

/// Fetches the rules of the site of a URL. Returns an error if the fetch did not start.
async fn fetch(client: &PageClient, target: &Target, wait_until: Instant) -> Result<Rules, FetchError> {
    Ok(match file(client, target, wait_until).await {
        Ok(page) => match page.status {
            200 if page.bytes.len() <= MAX_RULES_BYTES => Rules::File(page.bytes),
            400..=499 => Rules::None,
            _ => Rules::Unknown,
        },
        // The server has another file there, such as an image.
        Err(FetchError::WrongType) => Rules::None,
        Err(FetchError::Busy) => return Err(FetchError::Busy),
        Err(error) => {
            tracing::debug!(%error, host = target.authority(), "cannot fetch robots.txt");
            Rules::Unknown
        }
    })
}

async fn file(client: &PageClient, target: &Target, wait_until: Instant) -> Result<FetchedPage, FetchError> {
    let mut target = target.redirected("/robots.txt")?;
    let mut left = TIMEOUT;
    for _ in 0..=MAX_REDIRECTS {
        match client.hop(&target, wait_until, &mut left).await? {
            PageAnswer::Page(page) => return Ok(page),
            PageAnswer::Redirect(location) => target = target.redirected(&location)?,
        }
    }
    Err(unreachable("too many redirects"))
}

/// Applies rules to a path. Returns the crawl delay.
fn judge(file: &[u8], path: &str) -> Result<Duration, PageSkipped> {
    if memchr::memchr_iter(b'$', file).count() > MAX_PATTERNS {
        return Err(PageSkipped::UnknownRules);
    }
    let robot = Robot::new(AGENT, file).map_err(|error| {
        tracing::debug!(%error, "a robots.txt is malformed");
        PageSkipped::UnknownRules
    })?;
    if !robot.allowed(path) {
        return Err(PageSkipped::Disallowed);
    }
    let delay = robot.delay.unwrap_or_default();
    Ok(Duration::from_secs_f32(delay.clamp(0.0, MAX_DELAY.as_secs_f32())))
}

#[cfg(test)]
mod tests;
