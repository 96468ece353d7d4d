//! What is known about each candidate: its breaker, its cool-down, and how many retries it may still be given.
//!
//! An open breaker does not forbid a candidate; it moves it behind the others (see [`crate::route`]). So the last one
//! left is always tried, and a pool that fails as a whole recovers as soon as its upstream does.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tollgate_catalog::Candidate;
use tollgate_types::{Clock, Timestamp};
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::settings::Retries;

/// Seconds of the window that breaker and retry budget look at.
const WINDOW: u64 = 10;

/// Health of every candidate.
pub struct Health {
    clock: Arc<dyn Clock>,
    settings: Retries,
    candidates: RwLock<HashMap<u64, Arc<Mutex<State>>>>,
    draws: AtomicU64,
}

/// What is known about a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether it is tried in its own place.
    pub breaker: Breaker,
    /// Failures since it answered last.
    pub failures_in_a_row: u32,
    /// How long until it is tried in its own place again.
    pub retry_in: Duration,
    /// What went wrong last.
    pub last_error: Option<LastError>,
}

/// Whether a candidate is tried in its own place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breaker {
    /// It is.
    #[default]
    Closed,
    /// It failed; others are tried first.
    Open,
    /// It failed; a call is let through now and then.
    HalfOpen,
    /// It asked for a pause.
    CoolingDown,
}

impl Breaker {
    /// The name for operators.
    pub const fn as_str(self) -> &'static str {
        match self {
            Breaker::Closed => "closed",
            Breaker::Open => "open",
            Breaker::HalfOpen => "half_open",
            Breaker::CoolingDown => "cooling_down",
        }
    }
}

/// What went wrong with a call. What the upstream wrote is left out: it may repeat what a caller sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// The kind of failure, its cause, and the status.
    pub what: String,
    /// When.
    pub at: Timestamp,
}

#[derive(Default)]
struct State {
    seconds: [Second; WINDOW as usize],
    failures_in_a_row: u32,
    times_opened: u32,
    open_until: u64,
    next_probe: u64,
    cool_until: u64,
    last_error: Option<LastError>,
}

#[derive(Clone, Copy, Default)]
struct Second {
    at: u64,
    calls: u32,
    failures: u32,
    retries: u32,
}

impl Health {
    /// Nothing known yet.
    pub fn new(clock: Arc<dyn Clock>, settings: Retries) -> Self {
        let draws = AtomicU64::new(clock.now().as_micros().cast_unsigned());
        Self {
            clock,
            settings,
            candidates: RwLock::default(),
            draws,
        }
    }

    /// A number below `total`, evenly spread.
    pub fn draw(&self, total: u64) -> u64 {
        let mut z = self.draws.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % total.max(1)
    }

    /// Whether the candidate should be tried in its own place. A breaker whose time is over lets a probe through now
    /// and then.
    pub fn is_usable(&self, candidate: &Candidate) -> bool {
        let now = self.clock.monotonic_micros();
        self.with(candidate, |state| {
            if state.cool_until > now {
                return false;
            }
            if state.open_until == 0 {
                return true;
            }
            let probe = now >= state.open_until && now >= state.next_probe;
            if probe {
                state.next_probe = now + micros(self.settings.probe_interval);
            }
            probe
        })
    }

    /// A call was answered.
    pub fn succeeded(&self, candidate: &Candidate) {
        let now = self.clock.monotonic_micros();
        self.with(candidate, |state| {
            state.second(now).calls += 1;
            state.failures_in_a_row = 0;
            if state.open_until != 0 {
                state.open_until = 0;
                state.times_opened = 0;
                tracing::info!(provider = %candidate.provider, model = %candidate.upstream_model, "upstream is back");
            }
        });
    }

    /// A call failed. What says nothing about the upstream's health, such as a rejected request, is not counted.
    pub fn failed(&self, candidate: &Candidate, error: &UpstreamError) {
        let now = self.clock.monotonic_micros();
        match error.kind {
            UpstreamErrorKind::Rejected
            | UpstreamErrorKind::ContentBlocked
            | UpstreamErrorKind::ContextLength
            | UpstreamErrorKind::Simulated(_) => return,
            UpstreamErrorKind::RateLimited => self.with(candidate, |state| {
                let wait = error
                    .retry_after
                    .unwrap_or(Duration::from_secs(1))
                    .min(self.settings.breaker_open_cap);
                state.cool_until = now + micros(wait);
            }),
            UpstreamErrorKind::Credentials => {
                self.with(candidate, |state| self.open(state, candidate, now, error))
            }
            UpstreamErrorKind::Unavailable => self.with(candidate, |state| {
                let second = state.second(now);
                second.calls += 1;
                second.failures += 1;
                state.failures_in_a_row += 1;
                if state.open_until <= now && self.should_open(state, now) {
                    self.open(state, candidate, now, error);
                }
            }),
        }
        let last = self.last_error(error);
        self.with(candidate, |state| state.last_error = Some(last));
    }

    fn last_error(&self, error: &UpstreamError) -> LastError {
        let status = error
            .status
            .map(|status| format!(" {status}"))
            .unwrap_or_default();
        LastError {
            what: format!("{:?} ({:?}{status})", error.kind, error.cause),
            at: self.clock.now(),
        }
    }

    /// What is known about a candidate; nothing of one that was never tried.
    pub fn report(&self, candidate: &Candidate) -> Option<Report> {
        let now = self.clock.monotonic_micros();
        let known = self.candidates.read().unwrap_or_else(PoisonError::into_inner);
        let state = known.get(&key(candidate))?;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let (breaker, until) = if state.cool_until > now {
            (Breaker::CoolingDown, state.cool_until)
        } else if state.open_until > now {
            (Breaker::Open, state.open_until)
        } else if state.open_until != 0 {
            (Breaker::HalfOpen, now)
        } else {
            (Breaker::Closed, now)
        };
        Some(Report {
            breaker,
            failures_in_a_row: state.failures_in_a_row,
            retry_in: Duration::from_micros(until - now),
            last_error: state.last_error.clone(),
        })
    }

    fn should_open(&self, state: &State, now: u64) -> bool {
        let (calls, failures, _) = state.sums(now);
        let by_share = calls >= self.settings.breaker_least_calls
            && failures * 100 >= calls * self.settings.breaker_percent;
        state.failures_in_a_row >= self.settings.breaker_consecutive || by_share || state.open_until != 0
    }

    fn open(&self, state: &mut State, candidate: &Candidate, now: u64, error: &UpstreamError) {
        let doubled = self
            .settings
            .breaker_open
            .saturating_mul(1 << state.times_opened.min(16));
        let open_for = doubled.min(self.settings.breaker_open_cap);
        state.open_until = now + micros(open_for);
        state.times_opened += 1;
        let seconds = open_for.as_secs();
        tracing::error!(
            provider = %candidate.provider, model = %candidate.upstream_model, seconds, %error,
            "upstream is set aside; other candidates go first"
        );
    }

    /// Whether one more retry may be sent to this candidate; counts it when it may.
    pub fn may_retry(&self, candidate: &Candidate) -> bool {
        let now = self.clock.monotonic_micros();
        self.with(candidate, |state| {
            let (calls, _, retries) = state.sums(now);
            let seconds = u32::try_from(WINDOW).unwrap_or(1);
            let allowed =
                calls * self.settings.budget_percent / 100 + self.settings.budget_per_second * seconds;
            let may = retries < allowed;
            if may {
                state.second(now).retries += 1;
            }
            may
        })
    }

    fn with<T>(&self, candidate: &Candidate, act: impl FnOnce(&mut State) -> T) -> T {
        let key = key(candidate);
        let known = self
            .candidates
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        let state = known.unwrap_or_else(|| {
            self.candidates
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key)
                .or_default()
                .clone()
        });
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut state)
    }
}

impl State {
    fn second(&mut self, now: u64) -> &mut Second {
        let at = now / 1_000_000;
        let place = &mut self.seconds[usize::try_from(at % WINDOW).unwrap_or(0)];
        if place.at != at {
            *place = Second {
                at,
                ..Second::default()
            };
        }
        place
    }

    /// Calls, failures and retries of the window.
    fn sums(&self, now: u64) -> (u32, u32, u32) {
        let at = now / 1_000_000;
        let recent = self.seconds.iter().filter(|second| second.at + WINDOW > at);
        recent.fold((0, 0, 0), |sum, s| {
            (sum.0 + s.calls, sum.1 + s.failures, sum.2 + s.retries)
        })
    }
}

fn key(candidate: &Candidate) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&candidate.provider, &candidate.upstream_model).hash(&mut hasher);
    hasher.finish()
}

/// Whether a failure leaves it open that the upstream did the work.
pub(crate) fn may_have_run(error: &UpstreamError) -> bool {
    matches!(error.cause, UpstreamCause::Protocol | UpstreamCause::Timeout)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
