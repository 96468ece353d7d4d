//! The token that calls share, and its renewal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Mutex, MutexGuard};
use tollgate_types::Clock;

use super::{TokenError, TokenSource};
use crate::http::HttpClient;

/// A token with no more than this left is renewed while it is still used. Metadata servers have a new one from four
/// minutes before the end on (google-auth renews at the same time).
const EARLY: Duration = Duration::from_secs(225);
/// A token with no more than this left is not used: it could end under way.
const MARGIN: Duration = Duration::from_secs(10);
/// After an attempt, how long a token that still holds is not renewed again.
const EARLY_APART: Duration = Duration::from_secs(30);
/// How far apart renewals are for a token that was refused: one that the server keeps refusing is not renewed for every
/// call.
const FORCED_APART: Duration = Duration::from_secs(60);
/// The longest wait for a token.
const LONGEST: Duration = Duration::from_secs(10);

/// A token that may be shown.
#[derive(Debug)]
pub(crate) struct Token {
    pub(super) secret: SecretString,
    /// When it ends, on the clock that never goes back: what the wall clock does is of no matter.
    ends: u64,
}

impl Token {
    /// The header that shows it.
    pub(crate) fn authorization(&self) -> SecretString {
        SecretString::from(format!("Bearer {}", self.secret.expose_secret()))
    }
}

/// Tokens of one source. One call at a time renews; those that need the new token wait for it, and share its failure.
#[derive(Debug)]
pub(crate) struct TokenCache {
    source: Box<dyn TokenSource>,
    clock: Arc<dyn Clock>,
    held: RwLock<Option<Arc<Token>>>,
    /// Attempts that have ended.
    ended: AtomicU64,
    renewal: Mutex<Renewal>,
}

/// What is known of the attempts so far. Whoever has it may make the next one.
#[derive(Debug, Default)]
struct Renewal {
    failure: Option<TokenError>,
    /// When the last one ended.
    last: Option<u64>,
    /// When the last one for a refused token began.
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

    /// A token that holds, asked for if need be. A request for one takes no longer than `patience`.
    pub(crate) async fn token(
        &self,
        http: &HttpClient,
        patience: Duration,
    ) -> Result<Arc<Token>, TokenError> {
        let ended = self.ended.load(Ordering::Acquire);
        let Some(token) = self.valid() else {
            return self.needed(ended, http, patience).await;
        };
        if self.left(&token) > EARLY {
            return Ok(token);
        }
        // It still holds: who cannot renew it at once uses it.
        let Ok(renewal) = self.renewal.try_lock() else {
            return Ok(token);
        };
        if self.is_recent(renewal.last, EARLY_APART) {
            return Ok(token);
        }
        match self.renew(renewal, http, patience).await {
            Ok(newer) => Ok(newer),
            Err(error) => {
                tracing::warn!(
                    error = error.detail,
                    "an access token was not renewed and still holds"
                );
                Ok(token)
            }
        }
    }

    /// Another token in place of one that was refused; none when there is none to be had that is worth a second call.
    pub(crate) async fn instead_of(
        &self,
        refused: &Arc<Token>,
        http: &HttpClient,
        patience: Duration,
    ) -> Result<Option<Arc<Token>>, TokenError> {
        let mut renewal = self.renewal.lock().await;
        if let Some(held) = self.valid()
            && !Arc::ptr_eq(&held, refused)
        {
            return Ok(Some(held));
        }
        if self.is_recent(renewal.forced, FORCED_APART) {
            return Ok(None);
        }
        renewal.forced = Some(self.clock.monotonic_micros());
        self.renew(renewal, http, patience).await.map(Some)
    }

    /// Without a token that holds: a new one, by this call or the one that is at it.
    async fn needed(
        &self,
        ended: u64,
        http: &HttpClient,
        patience: Duration,
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
        self.renew(renewal, http, patience).await
    }

    async fn renew(
        &self,
        mut renewal: MutexGuard<'_, Renewal>,
        http: &HttpClient,
        patience: Duration,
    ) -> Result<Arc<Token>, TokenError> {
        let patience = patience.min(LONGEST);
        let asked = self.clock.monotonic_micros();
        let issued = tokio::time::timeout(patience, self.source.issue(http, patience)).await;
        let issued = issued.unwrap_or_else(|_| {
            let place = self.source.place();
            Err(TokenError::unavailable(format!(
                "{place} does not answer in time"
            )))
        });
        let now = self.clock.monotonic_micros();
        renewal.last = Some(now);
        renewal.failure = issued.as_ref().err().cloned();
        let renewed = issued.map(|issued| {
            // It may have been issued as early as it was asked for.
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
        held.as_ref().filter(|token| self.left(token) > MARGIN).cloned()
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
