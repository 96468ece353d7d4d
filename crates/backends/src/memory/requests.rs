//! The request window of an account.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate_storage::Decision;

use super::seconds::Seconds;
use super::{WINDOW, Window, decide};

/// Limit above which requests are counted by the second, to bound the memory for their times.
const MAX_LOGGED_REQUESTS: u64 = 10_000;

/// Requests of the last minute.
#[derive(Clone, Debug)]
pub(super) enum Requests {
    /// Admission times in microseconds, oldest first.
    Log(VecDeque<u64>),
    /// Counts by second.
    Seconds(Box<Seconds>),
}

impl Default for Requests {
    fn default() -> Self {
        Requests::Log(VecDeque::new())
    }
}

impl Requests {
    /// Counts a request if the limit allows it, and returns the decision.
    pub(super) fn admit(&mut self, limit: u64, now: u64) -> Decision {
        self.advance(now);
        self.reshape(limit, now);
        let before = decide(self, 1, limit, now);
        if !before.allowed {
            return before;
        }
        match self {
            Requests::Log(times) => times.push_back(now),
            Requests::Seconds(seconds) => seconds.add(1),
        }
        Decision {
            allowed: true,
            ..decide(self, 0, limit, now)
        }
    }

    /// Returns the decision for one request, without counting it.
    pub(super) fn peek(&mut self, limit: u64, now: u64) -> Decision {
        self.advance(now);
        decide(self, 1, limit, now)
    }

    /// Whether the window is empty.
    pub(super) fn is_idle(&mut self, now: u64) -> bool {
        self.advance(now);
        self.total() == 0
    }

    fn advance(&mut self, now: u64) {
        match self {
            Requests::Log(times) => {
                while times
                    .front()
                    .is_some_and(|time| time.saturating_add(WINDOW) <= now)
                {
                    times.pop_front();
                }
            }
            Requests::Seconds(seconds) => {
                seconds.advance(now);
            }
        }
    }

    /// Converts to the representation that the limit requires. If seconds are converted to times,
    /// each request has the end of its second as its time, so that it never leaves the window too
    /// early.
    fn reshape(&mut self, limit: u64, now: u64) {
        match self {
            Requests::Log(times) if limit > MAX_LOGGED_REQUESTS => {
                let mut seconds = Box::<Seconds>::default();
                for time in times {
                    seconds.advance(*time);
                    seconds.add(1);
                }
                seconds.advance(now);
                *self = Requests::Seconds(seconds);
            }
            Requests::Seconds(seconds)
                if limit <= MAX_LOGGED_REQUESTS && seconds.total() <= MAX_LOGGED_REQUESTS =>
            {
                let mut times = VecDeque::new();
                for (end, count) in seconds.iter() {
                    times.extend((0..count).map(|_| end.min(now)));
                }
                *self = Requests::Log(times);
            }
            _ => (),
        }
    }
}

impl Window for Requests {
    fn total(&self) -> u64 {
        match self {
            Requests::Log(times) => times.len() as u64,
            Requests::Seconds(seconds) => seconds.total(),
        }
    }

    fn until_left(&self, amount: u64, now: u64) -> Duration {
        match self {
            Requests::Log(times) => {
                let last = usize::try_from(amount)
                    .ok()
                    .and_then(|amount| amount.checked_sub(1));
                let last = last.and_then(|place| times.get(place));
                last.map_or(Duration::ZERO, |time| {
                    Duration::from_micros(time.saturating_add(WINDOW).saturating_sub(now))
                })
            }
            Requests::Seconds(seconds) => seconds.until_left(amount, now),
        }
    }

    fn until_empty(&self, now: u64) -> Duration {
        match self {
            Requests::Log(times) => self.until_left(times.len() as u64, now),
            Requests::Seconds(seconds) => seconds.until_empty(now),
        }
    }
}
