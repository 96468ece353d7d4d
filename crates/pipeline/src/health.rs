//! Health of candidates: circuit breaker, cool-down, and retry budget.
//!
//! An open breaker does not exclude a candidate; it moves the candidate behind the others (see
//! [`crate::route`]). So at least one candidate is always tried, and a model whose candidates all
//! failed recovers as soon as an upstream does.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tollgate_catalog::Candidate;
use tollgate_types::{Clock, Timestamp};
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::settings::Retries;

/// Length of the window of the breaker and of the retry budget, in seconds.
const WINDOW: u64 = 10;

/// Health data of all candidates.
pub struct Health {
    clock: Arc<dyn Clock>,
    settings: Retries,
    candidates: RwLock<HashMap<u64, Arc<Mutex<State>>>>,
    draws: AtomicU64,
}

/// Health report of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// State of the circuit breaker.
    pub breaker: Breaker,
    /// Number of consecutive failures since the last success.
    pub failures_in_a_row: u32,
    /// Time until the candidate is tried in its configured order again; zero in the states `Closed`
    /// and `HalfOpen`.
    pub retry_in: Duration,
    /// Last error of the candidate.
    pub last_error: Option<LastError>,
}

/// State of a candidate's circuit breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breaker {
    /// The candidate is tried in its configured order.
    #[default]
    Closed,
    /// The candidate failed repeatedly; others are tried first.
    Open,
    /// The open time is over; single probe calls are tried in the configured order.
    HalfOpen,
    /// The candidate returned a rate limit error; others are tried first until its `retry_after`
    /// has passed.
    CoolingDown,
}

impl Breaker {
    /// Returns the name of the state in the admin API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Breaker::Closed => "closed",
            Breaker::Open => "open",
            Breaker::HalfOpen => "half_open",
            Breaker::CoolingDown => "cooling_down",
        }
    }
}

/// The last error of a candidate, without the upstream's text, which may contain a caller's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// Kind and cause of the error, and the HTTP status if there is one.
    pub what: String,
    /// Time of the failure.
    pub at: Timestamp,
}

/// Class of a request, by properties that determine whether an upstream can execute it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Hash of the endpoint and of the features that the request uses.
    pub coarse: u64,
    /// Hash of the endpoint, the features and the size class.
    pub fine: u64,
}

/// Number of request shapes that must fail without a success in between, before error objects of
/// the upstream count as failures of the upstream.
const MIN_FAILED_SHAPES: usize = 3;
/// Maximum number of stored shapes per candidate.
const MAX_SHAPES: usize = 32;

#[derive(Default)]
struct State {
    /// Fine hashes of the shapes of successful requests, the most recent one last.
    answered: Vec<u64>,
    /// Coarse hashes of the shapes of requests for which the upstream returned an error object
    /// since the last success.
    reported: Vec<u64>,
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
    /// Creates an empty table, in which all candidates count as healthy.
    pub fn new(clock: Arc<dyn Clock>, settings: Retries) -> Self {
        let draws = AtomicU64::new(clock.now().as_micros().cast_unsigned());
        Self {
            clock,
            settings,
            candidates: RwLock::default(),
            draws,
        }
    }

    /// Returns a pseudo-random number below `total`, uniformly distributed.
    pub fn draw(&self, total: u64) -> u64 {
        let mut z = self.draws.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % total.max(1)
    }

    /// Whether the candidate should be tried in its configured order. After the open time, the
    /// breaker permits one probe per interval.
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

    /// Records a successful call, which closes the breaker.
    pub fn succeeded(&self, candidate: &Candidate, shape: Shape) {
        let now = self.clock.monotonic_micros();
        self.with(candidate, |state| {
            state.second(now).calls += 1;
            state.failures_in_a_row = 0;
            state.record_answer(shape);
            if state.open_until != 0 {
                state.open_until = 0;
                state.times_opened = 0;
                tracing::info!(provider = %candidate.provider, model = %candidate.upstream_model, "upstream recovered; its circuit breaker is closed");
            }
        });
    }

    /// Records a failed call. Errors that do not concern the upstream's health, such as a rejected
    /// request, are not counted. Neither are error objects that the upstream returns for one shape
    /// of request while it succeeds with others.
    pub fn failed(&self, candidate: &Candidate, error: &UpstreamError, shape: Shape) {
        let now = self.clock.monotonic_micros();
        match error.kind {
            UpstreamErrorKind::Rejected
            | UpstreamErrorKind::Unsupported
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
                if error.is_reported && !state.is_evidence(shape) {
                    return;
                }
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

    /// Returns the health report of a candidate; `None` if no health data of the candidate is
    /// recorded.
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
        let by_share = calls >= self.settings.breaker_min_calls
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
            "circuit breaker of an upstream opened; other candidates are tried first"
        );
    }

    /// Takes one retry from the candidate's budget. Returns `false` if the budget is exhausted.
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
    fn record_answer(&mut self, shape: Shape) {
        self.reported.clear();
        if self.answered.last() == Some(&shape.fine) {
            return;
        }
        self.answered.retain(|known| *known != shape.fine);
        if self.answered.len() == MAX_SHAPES {
            self.answered.remove(0);
        }
        self.answered.push(shape.fine);
    }

    /// Whether an error object that the upstream returned counts as a failure of the upstream: this
    /// shape succeeded before, or several shapes failed without a success in between.
    fn is_evidence(&mut self, shape: Shape) -> bool {
        if self.answered.contains(&shape.fine) {
            return true;
        }
        if !self.reported.contains(&shape.coarse) {
            self.reported.push(shape.coarse);
        }
        self.reported.len() >= MIN_FAILED_SHAPES
    }

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

    /// Returns the numbers of calls, failures and retries in the window.
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

/// Whether the upstream may have executed the call despite the failure.
pub(crate) fn may_have_run(error: &UpstreamError) -> bool {
    matches!(error.cause, UpstreamCause::Protocol | UpstreamCause::Timeout)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
