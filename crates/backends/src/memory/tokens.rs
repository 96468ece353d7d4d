//! The window of tokens: reserved before a call, corrected after it.
//!
//! A reservation counts in the second in which it was made, until it is corrected or a minute old; what was used counts
//! in the second in which it became known. A correction does not say which reservation it is for. It is taken to be
//! for the oldest that is not corrected, whether it has left the window or not: where calls end in another order than
//! they began, the window then holds too much for a while, never too little.

use tollgate_storage::Decision;

use super::seconds::Seconds;
use super::{Window, decide};

/// How long a reservation that left the window is remembered in an account that does nothing else. No call lasts
/// this long.
const LONGEST_CALL: u64 = 3_600_000_000;

/// Tokens of the last minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    counted: Seconds,
    /// The part of `counted` that is not corrected yet.
    pending: Seconds,
    /// Reservations that left the window before they were corrected.
    pending_outside: u64,
    last_reserved: u64,
}

impl Tokens {
    /// Counts the tokens if they fit.
    pub(super) fn reserve(&mut self, tokens: u64, limit: u64, now: u64) -> Decision {
        self.advance(now);
        let before = decide(&self.counted, tokens, limit, now);
        if !before.allowed {
            return before;
        }
        self.counted.add(tokens);
        self.pending.add(tokens);
        self.last_reserved = now;
        Decision {
            allowed: true,
            ..decide(&self.counted, 0, limit, now)
        }
    }

    /// Replaces a reservation by what was used.
    pub(super) fn correct(&mut self, reserved: u64, used: u64, now: u64) {
        self.advance(now);
        let outside = reserved.min(self.pending_outside);
        self.pending_outside -= outside;
        let mut open = reserved - outside;
        while open > 0
            && let Some(second) = self.pending.oldest()
        {
            let taken = self.pending.take(second, open);
            self.counted.take(second, taken);
            open -= taken;
        }
        self.counted.add(used);
    }

    /// What a request for one token would be told.
    pub(super) fn peek(&mut self, limit: u64, now: u64) -> Decision {
        self.advance(now);
        decide(&self.counted, 1, limit, now)
    }

    /// Whether nothing is left to know.
    pub(super) fn is_idle(&mut self, now: u64) -> bool {
        self.advance(now);
        let over = self.last_reserved.saturating_add(LONGEST_CALL) <= now;
        self.counted.total() == 0 && (self.pending_outside == 0 || over)
    }

    fn advance(&mut self, now: u64) {
        self.counted.advance(now);
        let left = self.pending.advance(now);
        self.pending_outside = self.pending_outside.saturating_add(left);
    }
}
