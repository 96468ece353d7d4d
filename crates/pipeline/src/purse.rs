//! Budget of a job with many calls: a call starts only if its maximum cost fits in the job's hold,
//! beside the calls that are running and a reserve for the last calls.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_types::Credits;

/// Budget of a job. All amounts together never exceed the hold.
#[derive(Debug)]
pub struct Purse {
    held: Credits,
    state: Mutex<PurseState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PurseState {
    spent: Credits,
    in_flight: Credits,
    /// Maximum cost of the last calls, which other calls must leave.
    reserve: Credits,
}

/// Permission for one call. Dropping it releases the amount without a cost.
#[derive(Debug)]
pub struct Reservation<'p> {
    purse: &'p Purse,
    amount: Credits,
    is_from_reserve: bool,
}

impl Purse {
    /// Creates the budget of a job with this hold. `spent` is the cost of recorded calls, and
    /// `reserve` the maximum cost of the last calls.
    pub fn new(held: Credits, spent: Credits, reserve: Credits) -> Self {
        let state = PurseState {
            spent,
            in_flight: Credits::ZERO,
            reserve,
        };
        Self {
            held,
            state: Mutex::new(state),
        }
    }

    /// Reserves the maximum cost of a call; `None` if the hold does not cover it beside the reserve
    /// of the last calls.
    pub fn reserve(&self, amount: Credits) -> Option<Reservation<'_>> {
        let mut state = self.state();
        let taken = sum([state.spent, state.in_flight, state.reserve, amount])?;
        if taken > self.held {
            return None;
        }
        state.in_flight = state.in_flight.checked_add(amount)?;
        Some(self.reservation(amount, false))
    }

    /// Reserves the maximum cost of one of the last calls, from their reserve first.
    pub fn reserve_last(&self, amount: Credits) -> Option<Reservation<'_>> {
        let mut state = self.state();
        let reserve = state.reserve.saturating_sub(amount);
        let taken = sum([state.spent, state.in_flight, reserve, amount])?;
        if taken > self.held {
            return None;
        }
        state.in_flight = state.in_flight.checked_add(amount)?;
        state.reserve = reserve;
        Some(self.reservation(amount, true))
    }

    /// Returns the cost of the calls that have ended, and the amount of the running calls.
    pub fn totals(&self) -> (Credits, Credits) {
        let state = self.state();
        (state.spent, state.in_flight)
    }

    const fn reservation(&self, amount: Credits, is_from_reserve: bool) -> Reservation<'_> {
        Reservation {
            purse: self,
            amount,
            is_from_reserve,
        }
    }

    fn state(&self) -> MutexGuard<'_, PurseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation<'_> {
    /// Ends the call with its cost, which is at most the reserved amount.
    pub fn settle(mut self, cost: Credits) {
        let cost = cost.min(self.amount);
        let mut state = self.purse.state();
        state.in_flight = state.in_flight.saturating_sub(self.amount);
        state.spent = state.spent.checked_add(cost).unwrap_or(Credits::MAX);
        drop(state);
        self.amount = Credits::ZERO;
    }
}

impl Drop for Reservation<'_> {
    /// Returns the amount of a call that ended without a cost.
    fn drop(&mut self) {
        if self.amount.is_zero() {
            return;
        }
        let mut state = self.purse.state();
        state.in_flight = state.in_flight.saturating_sub(self.amount);
        if self.is_from_reserve {
            state.reserve = state.reserve.checked_add(self.amount).unwrap_or(Credits::MAX);
        }
    }
}

fn sum(amounts: [Credits; 4]) -> Option<Credits> {
    amounts
        .into_iter()
        .try_fold(Credits::ZERO, |sum, amount| sum.checked_add(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(nanos: i64) -> Credits {
        Credits::from_nanos(nanos)
    }

    #[test]
    fn calls_leave_the_reserve() {
        let purse = Purse::new(credits(100), credits(10), credits(40));
        assert!(purse.reserve(credits(51)).is_none());
        let call = purse.reserve(credits(50)).unwrap();
        assert!(purse.reserve(credits(1)).is_none());
        call.settle(credits(20));
        assert_eq!(purse.totals(), (credits(30), Credits::ZERO));
        let call = purse.reserve(credits(30)).unwrap();
        drop(call);
        assert_eq!(purse.totals(), (credits(30), Credits::ZERO));
    }

    #[test]
    fn last_calls_use_the_reserve_first() {
        let purse = Purse::new(credits(100), credits(60), credits(40));
        assert!(purse.reserve(credits(1)).is_none());
        let first = purse.reserve_last(credits(25)).unwrap();
        assert!(purse.reserve_last(credits(16)).is_none());
        drop(first);
        let first = purse.reserve_last(credits(25)).unwrap();
        first.settle(credits(25));
        assert!(purse.reserve_last(credits(15)).is_some());
        assert_eq!(purse.totals().0, credits(85));
    }

    #[test]
    fn a_cost_never_exceeds_its_reservation() {
        let purse = Purse::new(credits(10), Credits::ZERO, Credits::ZERO);
        purse.reserve(credits(10)).unwrap().settle(credits(99));
        assert_eq!(purse.totals(), (credits(10), Credits::ZERO));
        assert!(purse.reserve(credits(1)).is_none());
    }
}
