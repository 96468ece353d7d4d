//! A window counted by the second.

use std::time::Duration;

use super::Window;

const SECOND: u64 = 1_000_000;

/// Number of stored seconds: the current one and the 60 before it. With 60, an amount counted late
/// in a second would leave the window up to a second too early.
const SLOTS: usize = 61;

/// Amounts of the last 61 seconds, including the current one.
#[derive(Clone, Debug)]
pub(super) struct Seconds {
    counts: [u64; SLOTS],
    total: u64,
    running: u64,
    /// A second before which all amounts are zero.
    oldest: u64,
}

impl Default for Seconds {
    fn default() -> Self {
        Self {
            counts: [0; SLOTS],
            total: 0,
            running: 0,
            oldest: 0,
        }
    }
}

impl Seconds {
    /// Advances to `now`, in microseconds; returns the amount that left the window.
    pub(super) fn advance(&mut self, now: u64) -> u64 {
        let second = now / SECOND;
        let passed = second.saturating_sub(self.running).min(SLOTS as u64);
        let mut left = 0;
        for step in 1..=passed {
            left += std::mem::take(&mut self.counts[slot(self.running + step)]);
        }
        self.total -= left;
        self.running = self.running.max(second);
        left
    }

    /// Adds an amount to the current second.
    pub(super) fn add(&mut self, amount: u64) {
        // The total saturates, so that no second overflows either.
        let amount = amount.min(u64::MAX - self.total);
        if self.total == 0 {
            self.oldest = self.running;
        }
        self.counts[slot(self.running)] += amount;
        self.total += amount;
    }

    /// Subtracts up to `amount` from one second; returns the subtracted amount.
    pub(super) fn take(&mut self, second: u64, amount: u64) -> u64 {
        let count = &mut self.counts[slot(second)];
        let taken = amount.min(*count);
        *count -= taken;
        self.total -= taken;
        taken
    }

    /// Returns the oldest non-empty second and stores it, so that later calls skip the empty
    /// seconds before it.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        let found = self
            .oldest_first()
            .find(|second| self.counts[slot(*second)] > 0)?;
        self.oldest = found;
        Some(found)
    }

    /// Returns the seconds that may be non-empty, oldest first.
    fn oldest_first(&self) -> std::ops::RangeInclusive<u64> {
        let first = self.running.saturating_sub(SLOTS as u64 - 1);
        first.max(self.oldest)..=self.running
    }

    /// Returns the last microsecond of each non-empty second with its amount, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.oldest_first()
            .map(|second| ((second + 1) * SECOND - 1, self.counts[slot(second)]))
            .filter(|(_, count)| *count > 0)
    }
}

impl Window for Seconds {
    fn total(&self) -> u64 {
        self.total
    }

    fn until_left(&self, amount: u64, now: u64) -> Duration {
        let mut left = 0;
        let last = self.oldest_first().find(|second| {
            left += self.counts[slot(*second)];
            left >= amount
        });
        last.map_or(Duration::ZERO, |second| leaves(second, now))
    }

    fn until_empty(&self, now: u64) -> Duration {
        let newest = self
            .oldest_first()
            .rev()
            .find(|second| self.counts[slot(*second)] > 0);
        newest.map_or(Duration::ZERO, |second| leaves(second, now))
    }
}

fn slot(second: u64) -> usize {
    (second % SLOTS as u64) as usize
}

/// Returns the time until this second is no longer among the last 61.
fn leaves(second: u64, now: u64) -> Duration {
    Duration::from_micros(((second + SLOTS as u64) * SECOND).saturating_sub(now))
}
