//! What this node itself has counted in one window, by the second of the store's clock. It is what the node counts by
//! when the store is away, and what it tells a store that has lost its windows.

use std::collections::VecDeque;
use std::time::Duration;

use crate::memory::Window;

const SECOND: u64 = 1_000_000;
/// A second counts until it lies a whole minute back.
const KEPT: u64 = 61;
/// How long a reservation that left the window is remembered in a window that is otherwise empty. No call lasts this
/// long.
const LONGEST_CALL: u64 = 3_600 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    second: u64,
    counted: u64,
    /// The part of it that is reserved and not corrected yet.
    pending: u64,
}

/// Counts of the last minute, oldest first.
#[derive(Debug, Default)]
pub(super) struct Own {
    counts: VecDeque<Count>,
    total: u64,
    /// Reservations that left the window before they were corrected.
    pending_outside: u64,
    last_reserved: u64,
}

impl Own {
    /// Lets time pass up to `now`, in microseconds.
    pub(super) fn advance(&mut self, now: u64) {
        while let Some(first) = self.counts.front().filter(|count| leaves(count.second) <= now) {
            self.total -= first.counted;
            self.pending_outside = self.pending_outside.saturating_add(first.pending);
            self.counts.pop_front();
        }
    }

    /// Counts this much in a second.
    pub(super) fn add(&mut self, second: u64, amount: u64) {
        let amount = amount.min(u64::MAX - self.total);
        self.total += amount;
        self.at(second).counted += amount;
    }

    /// Counts this much in a second until it is corrected.
    pub(super) fn reserve(&mut self, second: u64, amount: u64, now: u64) {
        let amount = amount.min(u64::MAX - self.total);
        self.add(second, amount);
        self.at(second).pending += amount;
        self.last_reserved = now;
    }

    /// Takes back a reservation, the oldest first, and answers how much was in which second.
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

    /// Each second with what is counted in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.counts.iter().filter(|count| count.counted > 0);
        counts.map(|count| (count.second, count.counted))
    }

    /// Lets everything count from this second: when it was counted is not known any more.
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

    /// Whether nothing is left to know.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        let over = self.last_reserved.saturating_add(LONGEST_CALL) <= now;
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

impl Window for Own {
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

/// When a second leaves the window.
pub(super) fn leaves(second: u64) -> u64 {
    (second + KEPT) * SECOND
}

fn until(second: u64, now: u64) -> Duration {
    Duration::from_micros(leaves(second).saturating_sub(now))
}
