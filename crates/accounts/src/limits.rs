//! Requests and tokens per minute, per account over all its keys. [`tollgate_storage::Counters`]
//! stores the windows, so that one process or several processes can share them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_storage::{Account, Budget, Counters, Decision};
use tollgate_types::{AccountId, Error, ErrorCode, Retry};

/// Requests per minute of the budget for reads, deletes, cancels and count-only calls.
pub const CONTROL_RPM: u32 = 600;

/// Service that enforces the rate limits of accounts.
pub struct Limiter {
    counters: Arc<dyn Counters>,
    default_rpm: AtomicU32,
    default_tpm: AtomicU64,
}

/// Values of the `x-ratelimit-*` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitHeaders {
    /// State of the request window.
    pub requests: Decision,
    /// State of the token window; `None` before it is known.
    pub tokens: Option<Decision>,
}

/// Tokens reserved by a running call; to be corrected through [`Limiter::correct`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct TokenReservation {
    account: AccountId,
    tokens: u64,
}

impl Limiter {
    /// Creates a limiter with the default limits of accounts.
    pub fn new(counters: Arc<dyn Counters>, rpm: u32, tpm: u64) -> Self {
        Self {
            counters,
            default_rpm: AtomicU32::new(rpm),
            default_tpm: AtomicU64::new(tpm),
        }
    }

    /// Replaces the default limits of requests and tokens per minute.
    pub fn set_defaults(&self, rpm: u32, tpm: u64) {
        self.default_rpm.store(rpm, Ordering::Relaxed);
        self.default_tpm.store(tpm, Ordering::Relaxed);
    }

    /// Returns the maximum number of requests per minute of an account in this budget.
    pub fn rpm(&self, account: &Account, budget: Budget) -> u32 {
        match budget {
            Budget::Work => account
                .limits
                .rpm
                .unwrap_or_else(|| self.default_rpm.load(Ordering::Relaxed)),
            Budget::Control => CONTROL_RPM,
        }
    }

    /// Returns the maximum number of tokens per minute of an account.
    pub fn tpm(&self, account: &Account) -> u64 {
        account
            .limits
            .tpm
            .unwrap_or_else(|| self.default_tpm.load(Ordering::Relaxed))
    }

    /// Counts a request. A refusal includes the decision, for the rate-limit headers.
    pub async fn admit(&self, account: &Account, budget: Budget) -> Result<Decision, (Error, Decision)> {
        let limit = self.rpm(account, budget);
        let decision = match self.counters.admit(account.id, budget, limit).await {
            Ok(decision) => decision,
            Err(error) => return Err((unavailable(error), unknown_decision(u64::from(limit)))),
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

    /// Reserves tokens for a call: its input and its maximum output. A refusal includes the
    /// decision, for the rate-limit headers. A call that exceeds the limit by itself is refused
    /// with 422, so that clients do not retry it.
    pub async fn reserve(
        &self,
        account: &Account,
        input: u64,
        output: u64,
    ) -> Result<(TokenReservation, Decision), (Error, Decision)> {
        let (tokens, limit) = (input.saturating_add(output), self.tpm(account));
        if tokens > limit {
            let known = self.peek(account, Budget::Work).await;
            let decision = known.and_then(|headers| headers.tokens);
            return Err((
                exceeds_limit(input, output, limit),
                decision.unwrap_or_else(|| unknown_decision(limit)),
            ));
        }
        let decision = match self.counters.reserve(account.id, tokens, limit).await {
            Ok(decision) => decision,
            Err(error) => return Err((unavailable(error), unknown_decision(limit))),
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

    /// Replaces a reservation by the used tokens.
    pub async fn correct(&self, reservation: TokenReservation, used: u64) {
        if let Err(error) = self
            .counters
            .correct(reservation.account, reservation.tokens, used)
            .await
        {
            // The reservation then stays in the window for at most a minute.
            let _ = error;
        }
    }

    /// Whether the counters incorrectly admit a request or a token under a limit of zero. The
    /// server checks this at startup.
    pub async fn admits_anything(&self, account: AccountId, budget: Budget) -> bool {
        let request = self.counters.admit(account, budget, 0).await;
        let tokens = self.counters.reserve(account, 1, 0).await;
        request.is_ok_and(|decision| decision.allowed) || tokens.is_ok_and(|decision| decision.allowed)
    }

    /// Returns the current windows without counting; `None` if the counters fail.
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

fn exceeds_limit(input: u64, output: u64, limit: u64) -> Error {
    let advice = match input > limit {
        true => "Shorten the input",
        false => "Lower the output token limit or the number of responses",
    };
    let message = format!(
        "This request needs {} tokens ({input} of input, {output} for output), but the account's \
         limit is {limit} tokens per minute. {advice}, or request a higher limit.",
        input.saturating_add(output)
    );
    Error::new(ErrorCode::ParameterOutOfRange, message)
}

fn unavailable(error: tollgate_storage::StorageError) -> Error {
    let message = "The gateway cannot check limits at the moment. Retry with backoff.";
    Error::new(ErrorCode::Overloaded, message)
        .with_retry(Retry::After(Duration::from_secs(1)))
        .with_source(error)
}

fn unknown_decision(limit: u64) -> Decision {
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
