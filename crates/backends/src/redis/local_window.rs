//! This node's own counts in one window, by the second of the store's clock. The node decides by
//! them while the store is unavailable, and resends them to a store that lost its windows.

use std::collections::VecDeque;
use std::time::Duration;

use crate::memory::Window;

const SECOND: u64 = 1_000_000;
/// Number of seconds in the window: the current second and the 60 before it.
const COUNTED_SECONDS: u64 = 61;
/// Retention of a reservation that left an otherwise empty window, in microseconds. No call lasts
/// this long.
const MAX_CALL_MICROS: u64 = 3_600 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    second: u64,
    counted: u64,
    /// Reserved part of `counted` that is not corrected yet.
    pending: u64,
}

/// Counts of the last minute, oldest first.
#[derive(Debug, Default)]
pub(super) struct LocalWindow {
    counts: VecDeque<Count>,
    total: u64,
    /// Sum of the uncorrected reservations that left the window.
    pending_outside: u64,
    last_reserved: u64,
}

impl LocalWindow {
    /// Advances to `now`, in microseconds.
    pub(super) fn advance(&mut self, now: u64) {
        while let Some(first) = self.counts.front().filter(|count| leaves(count.second) <= now) {
            self.total -= first.counted;
            self.pending_outside = self.pending_outside.saturating_add(first.pending);
            self.counts.pop_front();
        }
    }

    /// Adds an amount to a second.
    pub(super) fn add(&mut self, second: u64, amount: u64) {
        let amount = amount.min(u64::MAX - self.total);
        self.total += amount;
        self.at(second).counted += amount;
    }

    /// Adds an amount to a second as a reservation.
    pub(super) fn reserve(&mut self, second: u64, amount: u64, now: u64) {
        let amount = amount.min(u64::MAX - self.total);
        self.add(second, amount);
        self.at(second).pending += amount;
        self.last_reserved = now;
    }

    /// Removes a reservation, oldest first; returns the removed amount of each second.
    pub(super) fn correct(&mut self, reserved: u64) -> Vec<(u64, u64)> {
        let outside = reserved.min(self.pending_outside);
        self.pending_outside -= outside;
        let mut open = reserved - outside;
        let mut taken = Vec::new();
        for count in &mut self.counts {
            let part = open.min(count.pending);
            if part > 0 {
                count.pending -= part;
                count.counted -= part;
                self.total -= part;
                open -= part;
                taken.push((count.second, part));
            }
        }
        taken
    }

    /// Returns each non-empty second with its count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.counts.iter().filter(|count| count.counted > 0);
        counts.map(|count| (count.second, count.counted))
    }

    /// Moves all counts to this second, because their times are no longer known.
    pub(super) fn restart(&mut self, second: u64) {
        let pending = self
            .counts
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(count.pending));
        self.counts.clear();
        if self.total > 0 {
            let counted = self.total;
            self.counts.push_back(Count {
                second,
                counted,
                pending,
            });
        }
    }

    /// Whether the window can be removed.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        let over = self.last_reserved.saturating_add(MAX_CALL_MICROS) <= now;
        self.total == 0 && self.counts.is_empty() && (self.pending_outside == 0 || over)
    }

    fn at(&mut self, second: u64) -> &mut Count {
        let place = self.counts.partition_point(|count| count.second < second);
        if self.counts.get(place).is_none_or(|count| count.second != second) {
            let (counted, pending) = (0, 0);
            self.counts.insert(
                place,
                Count {
                    second,
                    counted,
                    pending,
                },
            );
        }
        &mut self.counts[place]
    }
}

impl Window for LocalWindow {
    fn total(&self) -> u64 {
        self.total
    }

    fn until_left(&self, amount: u64, now: u64) -> Duration {
        let mut left = 0_u64;
        let last = self.counts.iter().find(|count| {
            left += count.counted;
            left >= amount
        });
        last.map_or(Duration::ZERO, |count| until(count.second, now))
    }

    fn until_empty(&self, now: u64) -> Duration {
        let newest = self.iter().last();
        newest.map_or(Duration::ZERO, |(second, _)| until(second, now))
    }
}

/// Returns the time at which a second leaves the window, in microseconds.
pub(super) fn leaves(second: u64) -> u64 {
    (second + COUNTED_SECONDS) * SECOND
}

fn until(second: u64, now: u64) -> Duration {
    Duration::from_micros(leaves(second).saturating_sub(now))
}
