//! Requests and tokens per minute, per account over all its keys. The windows themselves are behind
//! [`tollgate_storage::Counters`], so that one process or many can keep them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_storage::{Account, Budget, Counters, Decision};
use tollgate_types::{AccountId, Error, ErrorCode, Retry};

/// Requests a minute of the budget for reads, deletes, cancels and count-only calls.
pub const CONTROL_RPM: u32 = 600;

/// Applies an account's limits.
pub struct Limiter {
    counters: Arc<dyn Counters>,
    default_rpm: AtomicU32,
    default_tpm: AtomicU64,
}

/// What the `x-ratelimit-*` headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitHeaders {
    /// The window of requests.
    pub requests: Decision,
    /// The window of tokens, once it is known.
    pub tokens: Option<Decision>,
}

/// Tokens that a running call has reserved; to be given back or corrected through [`Limiter::correct`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct TokenReservation {
    account: AccountId,
    tokens: u64,
}

impl Limiter {
    /// A limiter with the limits of accounts that have none of their own.
    pub fn new(counters: Arc<dyn Counters>, rpm: u32, tpm: u64) -> Self {
        Self {
            counters,
            default_rpm: AtomicU32::new(rpm),
            default_tpm: AtomicU64::new(tpm),
        }
    }

    /// Changes the defaults.
    pub fn set_defaults(&self, rpm: u32, tpm: u64) {
        self.default_rpm.store(rpm, Ordering::Relaxed);
        self.default_tpm.store(tpm, Ordering::Relaxed);
    }

    fn rpm(&self, account: &Account, budget: Budget) -> u32 {
        match budget {
            Budget::Work => account
                .limits
                .rpm
                .unwrap_or_else(|| self.default_rpm.load(Ordering::Relaxed)),
            Budget::Control => CONTROL_RPM,
        }
    }

    fn tpm(&self, account: &Account) -> u64 {
        account
            .limits
            .tpm
            .unwrap_or_else(|| self.default_tpm.load(Ordering::Relaxed))
    }

    /// Counts a request. A refusal carries its decision for the headers.
    pub async fn admit(&self, account: &Account, budget: Budget) -> Result<Decision, (Error, Decision)> {
        let limit = self.rpm(account, budget);
        let decision = match self.counters.admit(account.id, budget, limit).await {
            Ok(decision) => decision,
            Err(error) => return Err((unavailable(error), nothing_known(u64::from(limit)))),
        };
        if decision.allowed {
            return Ok(decision);
        }
        let message = format!(
            "Rate limit reached: {limit} requests per minute. Try again in {}.",
            seconds_text(decision.retry_after)
        );
        Err((refused(message, decision), decision))
    }

    /// Reserves tokens for a call. A refusal carries its decision for the headers.
    pub async fn reserve(
        &self,
        account: &Account,
        tokens: u64,
    ) -> Result<(TokenReservation, Decision), (Error, Decision)> {
        let limit = self.tpm(account);
        let decision = match self.counters.reserve(account.id, tokens, limit).await {
            Ok(decision) => decision,
            Err(error) => return Err((unavailable(error), nothing_known(limit))),
        };
        if decision.allowed {
            return Ok((
                TokenReservation {
                    account: account.id,
                    tokens,
                },
                decision,
            ));
        }
        let message = format!(
            "Rate limit reached: {limit} tokens per minute, {} left, {tokens} needed by this request. Try again in {}.",
            decision.remaining,
            seconds_text(decision.retry_after)
        );
        Err((refused(message, decision), decision))
    }

    /// Replaces a reservation by what was used.
    pub async fn correct(&self, reservation: TokenReservation, used: u64) {
        if let Err(error) = self
            .counters
            .correct(reservation.account, reservation.tokens, used)
            .await
        {
            // The window is then too full for at most a minute.
            let _ = error;
        }
    }

    /// Whether a limit of zero lets anything through, which it must not. Asked at start.
    pub async fn admits_anything(&self, account: AccountId, budget: Budget) -> bool {
        let request = self.counters.admit(account, budget, 0).await;
        let tokens = self.counters.reserve(account, 1, 0).await;
        request.is_ok_and(|decision| decision.allowed) || tokens.is_ok_and(|decision| decision.allowed)
    }

    /// What the windows hold now.
    pub async fn peek(&self, account: &Account, budget: Budget) -> Option<LimitHeaders> {
        let (rpm, tpm) = (self.rpm(account, budget), self.tpm(account));
        let (requests, tokens) = self.counters.peek(account.id, budget, rpm, tpm).await.ok()?;
        Some(LimitHeaders {
            requests,
            tokens: Some(tokens),
        })
    }
}

fn refused(message: String, decision: Decision) -> Error {
    Error::new(ErrorCode::RateLimitExceeded, message).with_retry(Retry::After(decision.retry_after))
}

fn unavailable(error: tollgate_storage::StorageError) -> Error {
    let message = "The gateway cannot check limits at the moment. Retry with backoff.";
    Error::new(ErrorCode::Overloaded, message)
        .with_retry(Retry::After(Duration::from_secs(1)))
        .with_source(error)
}

fn nothing_known(limit: u64) -> Decision {
    Decision {
        allowed: false,
        limit,
        remaining: 0,
        reset: Duration::ZERO,
        retry_after: Duration::from_secs(1),
    }
}

fn seconds_text(duration: Duration) -> String {
    let millis = duration.as_millis().max(1);
    format!("{}.{:03}s", millis / 1000, millis % 1000)
}
