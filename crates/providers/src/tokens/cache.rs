//! Caches and renews the access token that calls share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Mutex, MutexGuard};
use tollgate_types::Clock;

use super::{TokenError, TokenSource};
use crate::http::HttpClient;

/// Remaining lifetime at which a token is renewed early. Metadata servers return a new token from
/// four minutes before expiry (google-auth renews at the same time).
const EARLY_RENEWAL: Duration = Duration::from_secs(225);
/// Remaining lifetime at which a token is no longer used, because it could expire in transit.
const EXPIRY_MARGIN: Duration = Duration::from_secs(10);
/// Minimum time between early renewals of a valid token.
const EARLY_RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time between renewals of rejected tokens, so that a permanent rejection does not cause a
/// renewal for every call.
const FORCED_RENEWAL_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum duration of a token request.
const MAX_TOKEN_WAIT: Duration = Duration::from_secs(10);

/// An access token.
#[derive(Debug)]
pub(crate) struct Token {
    pub(super) secret: SecretString,
    /// Expiry in microseconds on the monotonic clock, which changes of the wall clock do not
    /// affect.
    ends: u64,
}

impl Token {
    /// Returns the value of the `Authorization` header.
    pub(crate) fn authorization(&self) -> SecretString {
        SecretString::from(format!("Bearer {}", self.secret.expose_secret()))
    }
}

/// Token of one source. Only one call renews it at a time; other calls that need the new token wait
/// for it and share its error.
#[derive(Debug)]
pub(crate) struct TokenCache {
    source: Box<dyn TokenSource>,
    clock: Arc<dyn Clock>,
    held: RwLock<Option<Arc<Token>>>,
    /// Number of ended renewal attempts.
    ended: AtomicU64,
    renewal: Mutex<Renewal>,
}

/// State of the renewal attempts. Only the holder of the lock may start an attempt.
#[derive(Debug, Default)]
struct Renewal {
    failure: Option<TokenError>,
    /// Time when the last attempt ended, in microseconds on the monotonic clock.
    last: Option<u64>,
    /// Time when the last attempt for a rejected token started, in microseconds on the monotonic
    /// clock.
    forced: Option<u64>,
}

impl TokenCache {
    pub(crate) fn new(source: Box<dyn TokenSource>, clock: Arc<dyn Clock>) -> Self {
        Self {
            source,
            clock,
            held: RwLock::default(),
            ended: AtomicU64::new(0),
            renewal: Mutex::default(),
        }
    }

    /// Returns a valid token, and requests a new one if needed. The request times out after
    /// `timeout`, at most [`MAX_TOKEN_WAIT`].
    pub(crate) async fn token(&self, http: &HttpClient, timeout: Duration) -> Result<Arc<Token>, TokenError> {
        let ended = self.ended.load(Ordering::Acquire);
        let Some(token) = self.valid() else {
            return self.needed(ended, http, timeout).await;
        };
        if self.left(&token) > EARLY_RENEWAL {
            return Ok(token);
        }
        // The token is still valid, so a call that would have to wait for the renewal uses it.
        let Ok(renewal) = self.renewal.try_lock() else {
            return Ok(token);
        };
        if self.is_recent(renewal.last, EARLY_RENEWAL_INTERVAL) {
            return Ok(token);
        }
        match self.renew(renewal, http, timeout).await {
            Ok(newer) => Ok(newer),
            Err(error) => {
                tracing::warn!(
                    error = error.detail,
                    "cannot renew an access token; the current token is still valid"
                );
                Ok(token)
            }
        }
    }

    /// Returns a replacement of a rejected token: the current token if it is a different one,
    /// otherwise a new token. `None` if the last renewal of a rejected token started less than
    /// [`FORCED_RENEWAL_INTERVAL`] ago.
    pub(crate) async fn replace_refused(
        &self,
        refused: &Arc<Token>,
        http: &HttpClient,
        timeout: Duration,
    ) -> Result<Option<Arc<Token>>, TokenError> {
        let mut renewal = self.renewal.lock().await;
        if let Some(held) = self.valid()
            && !Arc::ptr_eq(&held, refused)
        {
            return Ok(Some(held));
        }
        if self.is_recent(renewal.forced, FORCED_RENEWAL_INTERVAL) {
            return Ok(None);
        }
        renewal.forced = Some(self.clock.monotonic_micros());
        self.renew(renewal, http, timeout).await.map(Some)
    }

    /// Waits for a new token, which this call or a concurrent one requests.
    async fn needed(
        &self,
        ended: u64,
        http: &HttpClient,
        timeout: Duration,
    ) -> Result<Arc<Token>, TokenError> {
        let renewal = self.renewal.lock().await;
        if let Some(token) = self.valid() {
            return Ok(token);
        }
        if self.ended.load(Ordering::Acquire) != ended
            && let Some(failure) = &renewal.failure
        {
            return Err(failure.clone());
        }
        self.renew(renewal, http, timeout).await
    }

    async fn renew(
        &self,
        mut renewal: MutexGuard<'_, Renewal>,
        http: &HttpClient,
        timeout: Duration,
    ) -> Result<Arc<Token>, TokenError> {
        let timeout = timeout.min(MAX_TOKEN_WAIT);
        let asked = self.clock.monotonic_micros();
        let issued = tokio::time::timeout(timeout, self.source.issue(http, timeout)).await;
        let issued = issued.unwrap_or_else(|_| {
            let description = self.source.description();
            Err(TokenError::unavailable(format!(
                "{description} did not respond in time"
            )))
        });
        let now = self.clock.monotonic_micros();
        renewal.last = Some(now);
        renewal.failure = issued.as_ref().err().cloned();
        let renewed = issued.map(|issued| {
            // The server may have issued the token as early as the request was sent.
            let ends = asked.saturating_add(micros(issued.lifetime));
            Arc::new(Token {
                secret: issued.secret,
                ends,
            })
        });
        if let Ok(token) = &renewed {
            *self.held.write().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        }
        self.ended.fetch_add(1, Ordering::Release);
        renewed
    }

    fn valid(&self) -> Option<Arc<Token>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.as_ref()
            .filter(|token| self.left(token) > EXPIRY_MARGIN)
            .cloned()
    }

    fn left(&self, token: &Token) -> Duration {
        Duration::from_micros(token.ends.saturating_sub(self.clock.monotonic_micros()))
    }

    fn is_recent(&self, at: Option<u64>, apart: Duration) -> bool {
        at.is_some_and(|at| self.clock.monotonic_micros().saturating_sub(at) < micros(apart))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
