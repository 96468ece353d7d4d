//! The only client for URLs that callers write. Such URLs are untrusted: a caller who could make
//! the gateway fetch `http://169.254.169.254/` would read the secrets of the gateway's machine.
//!
//! A URL is parsed once ([`target`]). Each hop resolves its host once, drops addresses that are
//! neither public nor allowed by the operator ([`address`]), and connects to one of the others by
//! its IP address ([`connection`]). No second DNS lookup follows, so DNS rebinding has no effect.
//! The client follows redirects itself and applies all checks to each of them. It applies the same
//! checks to posts, but follows no redirects of posts. It ignores proxies from the environment.
//! Requests contain no key and no cookie of the gateway.
//!
//! [`page`] fetches web pages for research with the same client, and obeys [`robots`].

mod address;
mod call;
mod connection;
mod page;
mod permits;
mod resolve;
mod robots;
mod sniff;
mod target;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_types::AccountId;
use tollgate_upstream::{FetchError, FetchRequest, Fetched, Fetcher, NotifyError, Post, Poster};

pub use address::{Allowed, AllowedError};
pub(crate) use call::{EgressCall, Receive};
use connection::{Answer, Limits};
pub use page::{PageClient, PageSettings};
use permits::{FetchPermit, FetchPermits};
pub use resolve::{Resolve, SystemResolver};
pub use robots::RobotsPolicy;
use target::Target;

use crate::http::HttpClient;

/// Maximum number of redirects of a fetch.
const MAX_REDIRECTS: usize = 3;

/// Settings and limits of the client.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// Non-public networks that callers' URLs may reach.
    pub allow: Vec<Allowed>,
    /// Maximum number of concurrent fetches; others wait.
    pub max_concurrent: usize,
    /// Maximum number of concurrent fetches of one account.
    pub per_account: usize,
    /// Maximum time that a fetch of an account waits for a permit, in addition to `total`.
    pub permit_timeout: Duration,
    /// Maximum time to connect and to receive the response headers, in total for each hop.
    pub headers: Duration,
    /// Maximum time of a fetch or post. For a fetch, the limit of the media kind applies if it is
    /// lower ([`fetch_timeout`](tollgate_upstream::MediaKind::fetch_timeout)).
    pub total: Duration,
    /// Time after which a body must have arrived at `min_bytes_per_second` on average.
    pub grace: Duration,
    /// Minimum average speed of a body, in bytes per second.
    pub min_bytes_per_second: u32,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            max_concurrent: 16,
            per_account: 4,
            permit_timeout: Duration::from_secs(5),
            headers: Duration::from_secs(10),
            total: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            min_bytes_per_second: 64 << 10,
        }
    }
}

/// Client that fetches callers' URLs and posts to them.
pub struct EgressClient {
    settings: EgressSettings,
    resolver: Arc<dyn Resolve>,
    http: Arc<HttpClient>,
    permits: FetchPermits,
}

impl EgressClient {
    /// Builds a client with these settings. The client uses `http` only for the trusted
    /// certificates.
    pub fn new(settings: EgressSettings, resolver: Arc<dyn Resolve>, http: Arc<HttpClient>) -> Self {
        Self {
            permits: FetchPermits::new(settings.max_concurrent, settings.per_account),
            settings,
            resolver,
            http,
        }
    }

    /// Waits for a permit. Fetches of providers' results have no account and wait up to `total`,
    /// since the result can be fetched only once.
    async fn permit(&self, account: Option<AccountId>) -> Result<FetchPermit<'_>, FetchError> {
        let wait = match account {
            Some(_) => self.settings.permit_timeout,
            None => self.settings.total,
        };
        let permit = timeout(wait, self.permits.take(account)).await;
        permit.ok().flatten().ok_or(FetchError::Busy)
    }

    async fn follow(&self, request: &FetchRequest<'_>, deadline: Instant) -> Result<Fetched, FetchError> {
        let mut target = Target::parse(request.url)?;
        let limits = Limits {
            max_bytes: request.max_bytes.min(request.kind.max_bytes()),
            deadline,
        };
        for _ in 0..=MAX_REDIRECTS {
            match connection::get(self, &target, request.media_types, &limits).await? {
                Answer::Body(body) => {
                    let media_type = sniff::media_type(&body.bytes, &body.declared, request.media_types)
                        .ok_or(FetchError::WrongType)?;
                    return Ok(Fetched {
                        bytes: body.bytes,
                        media_type,
                    });
                }
                Answer::Redirect(location) => target = target.redirected(&location)?,
            }
        }
        Err(unreachable("too many redirects"))
    }
}

#[async_trait]
impl Fetcher for EgressClient {
    async fn fetch(&self, request: &FetchRequest<'_>) -> Result<Fetched, FetchError> {
        let _permit = self.permit(request.account).await?;
        let deadline = Instant::now() + self.settings.total.min(request.kind.fetch_timeout());
        timeout_at(deadline, self.follow(request, deadline))
            .await
            .unwrap_or(Err(FetchError::TooSlow))
    }
}

#[async_trait]
impl Poster for EgressClient {
    fn check(&self, url: &str) -> Result<(), NotifyError> {
        let target = Target::parse(url).map_err(|error| NotifyError::permanent(error.to_string()))?;
        match connection::may_be_dialled(self, &target) {
            true => Ok(()),
            false => Err(NotifyError::permanent(
                "has a private IP address or a port other than 80 and 443: the operator can allow it in \
                 egress.allow",
            )),
        }
    }

    async fn post(&self, post: &Post) -> Result<(), NotifyError> {
        let target = Target::parse(&post.url).map_err(|error| NotifyError::permanent(error.to_string()))?;
        let deadline = Instant::now() + self.settings.total;
        let posted = async {
            let _permit = self.permits.take(None).await.ok_or(FetchError::Busy)?;
            connection::post(self, &target, post, deadline).await
        };
        let posted = timeout_at(deadline, posted)
            .await
            .unwrap_or(Err(FetchError::TooSlow));
        match posted {
            Ok(200..=299) => Ok(()),
            // Status 410 (Gone) is permanent.
            Ok(410) => Err(NotifyError::permanent("the endpoint returned 410")),
            Ok(status) => Err(NotifyError::transient(format!("the endpoint returned {status}"))),
            Err(FetchError::TooSlow) => Err(NotifyError::transient("the endpoint did not respond in time")),
            Err(_) => Err(NotifyError::transient("the endpoint cannot be reached")),
        }
    }
}

/// Logs the cause and hides it from the caller: it may reveal the operator's network.
fn unreachable(cause: impl std::fmt::Display) -> FetchError {
    tracing::info!(%cause, "the request to an external URL failed");
    FetchError::Unreachable
}

#[cfg(test)]
mod tests;
