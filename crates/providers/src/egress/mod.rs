//! The one client for addresses that callers write. They are strangers' addresses: whoever could have the gateway
//! fetch `http://169.254.169.254/` would read the secrets of the machine it runs on.
//!
//! An address is read once ([`target`]); its host's addresses are looked up once for each hop, those that are not public
//! are left out ([`address`]), and one of the others is dialled as it is ([`connection`]). Nothing asks a name server in
//! between, so a name that changes its mind changes nothing. Redirects are followed here and begin at the first step.
//! Posts go the same way, to one place only. Proxies that the environment names are not used, and nothing of the gateway's own is sent: no key, no cookie.

mod address;
mod connection;
mod resolve;
mod sniff;
mod target;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tollgate_upstream::{FetchError, FetchRequest, Fetched, Fetcher, NotifyError, Post, Poster};

pub use address::{Allowed, AllowedError};
use connection::{Answer, Limits};
pub use resolve::{Resolve, SystemResolver};
use target::Target;

use crate::http::HttpClient;

/// The most redirects that are followed.
const MOST_REDIRECTS: usize = 3;

/// Bounds of the client.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// What may be reached although it is not public.
    pub allow: Vec<Allowed>,
    /// Most fetches at once; others wait, within `total`.
    pub most_at_once: usize,
    /// Longest wait for a connection, and then for the response headers, of each hop.
    pub headers: Duration,
    /// Longest time for all of it.
    pub total: Duration,
    /// How long a body may take before it must come at `least_per_second`.
    pub grace: Duration,
    /// Fewest bytes of a body in a second, on the average from its beginning.
    pub least_per_second: u32,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            most_at_once: 16,
            headers: Duration::from_secs(10),
            total: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            least_per_second: 4 << 10,
        }
    }
}

/// Fetches what callers' addresses name, and posts to them.
pub struct EgressClient {
    settings: EgressSettings,
    resolver: Arc<dyn Resolve>,
    http: Arc<HttpClient>,
    turns: Semaphore,
}

impl EgressClient {
    /// A client with these bounds. `http` lends the certificates that this machine trusts, and nothing else.
    pub fn new(settings: EgressSettings, resolver: Arc<dyn Resolve>, http: Arc<HttpClient>) -> Self {
        Self {
            turns: Semaphore::new(settings.most_at_once.max(1)),
            settings,
            resolver,
            http,
        }
    }

    async fn follow(&self, request: &FetchRequest<'_>, deadline: Instant) -> Result<Fetched, FetchError> {
        let mut target = Target::parse(request.url)?;
        let limits = Limits {
            most_bytes: request.most_bytes.min(request.kind.most_bytes()),
            deadline,
        };
        for _ in 0..=MOST_REDIRECTS {
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
        Err(unreachable("it is redirected too often"))
    }
}

#[async_trait]
impl Fetcher for EgressClient {
    async fn fetch(&self, request: &FetchRequest<'_>) -> Result<Fetched, FetchError> {
        let deadline = Instant::now() + self.settings.total;
        let fetched = async {
            // Never closed.
            let _turn = self.turns.acquire().await.map_err(unreachable)?;
            self.follow(request, deadline).await
        };
        timeout_at(deadline, fetched)
            .await
            .unwrap_or(Err(FetchError::TooSlow))
    }
}

#[async_trait]
impl Poster for EgressClient {
    fn check(&self, url: &str) -> Result<(), NotifyError> {
        let target = Target::parse(url).map_err(|error| NotifyError::for_good(error.to_string()))?;
        match connection::may_be_dialled(self, &target) {
            true => Ok(()),
            false => Err(NotifyError::for_good("is not one that may be reached from here")),
        }
    }

    async fn post(&self, post: &Post) -> Result<(), NotifyError> {
        let target = Target::parse(&post.url).map_err(|error| NotifyError::for_good(error.to_string()))?;
        let deadline = Instant::now() + self.settings.total;
        let posted = async {
            // Never closed.
            let _turn = self.turns.acquire().await.map_err(unreachable)?;
            connection::post(self, &target, post, deadline).await
        };
        let posted = timeout_at(deadline, posted)
            .await
            .unwrap_or(Err(FetchError::TooSlow));
        match posted {
            Ok(200..=299) => Ok(()),
            // Whoever was there says so for ever.
            Ok(410) => Err(NotifyError::for_good("the answer is 410")),
            Ok(status) => Err(NotifyError::for_now(format!("the answer is {status}"))),
            Err(FetchError::TooSlow) => Err(NotifyError::for_now("nobody answers in time")),
            Err(_) => Err(NotifyError::for_now("the address cannot be reached")),
        }
    }
}

/// The cause of a failure goes to the log alone: it may name what the caller has no business to know.
fn unreachable(cause: impl std::fmt::Display) -> FetchError {
    tracing::info!(%cause, "cannot fetch what a caller's address names");
    FetchError::Unreachable
}

#[cfg(test)]
mod tests;
