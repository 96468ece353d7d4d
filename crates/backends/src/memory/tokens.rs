//! The token window of an account: tokens are reserved before a call and corrected after it.
//!
//! A reservation counts in the second in which it was made, until it is corrected or leaves the
//! window. Used tokens count in the second of the correction. A correction does not identify its
//! reservation: it applies to the oldest uncorrected ones, inside the window or not. If calls end
//! in another order than they started, the window temporarily counts too much, never too little.

use tollgate_storage::Decision;

use super::seconds::Seconds;
use super::{Window, decide};

/// Time after which uncorrected reservations of an idle account are discarded, in microseconds. No
/// call lasts this long.
const MAX_CALL_MICROS: u64 = 3_600_000_000;

/// Tokens of the last minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    counted: Seconds,
    /// The part of `counted` that is not corrected yet.
    pending: Seconds,
    /// Sum of the uncorrected reservations that left the window.
    pending_outside: u64,
    last_reserved: u64,
}

impl Tokens {
    /// Counts the tokens if the limit allows them, and returns the decision.
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

    /// Replaces reserved tokens by the used tokens.
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

    /// Returns the decision for one token, without counting it.
    pub(super) fn peek(&mut self, limit: u64, now: u64) -> Decision {
        self.advance(now);
        decide(&self.counted, 1, limit, now)
    }

    /// Whether the window can be removed.
    pub(super) fn is_idle(&mut self, now: u64) -> bool {
        self.advance(now);
        let over = self.last_reserved.saturating_add(MAX_CALL_MICROS) <= now;
        self.counted.total() == 0 && (self.pending_outside == 0 || over)
    }

    fn advance(&mut self, now: u64) {
        self.counted.advance(now);
        let left = self.pending.advance(now);
        self.pending_outside = self.pending_outside.saturating_add(left);
    }
}
