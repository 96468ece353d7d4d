//! One window on this node: its own counts, its loan, and its unreported changes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tollgate_storage::Decision;

use super::local_window::{LocalWindow, leaves};
use super::script::{Batch, Kind, MAX_AMOUNT, StoreReply, WindowQuery};
use crate::memory::decide;

const SECOND: u64 = 1_000_000;
/// Minimum limit for loans, which save most round trips. Below this limit, requests are counted by
/// their times.
const MIN_LENT_LIMIT: u64 = 3_000;
/// Divisor of a limit that yields the maximum loan.
const LOAN_DIVISOR: u64 = 100;
/// Lifetime of a loan, in microseconds. Equals `LENT` in window.lua.
const LOAN_TTL_MICROS: u64 = SECOND;
/// Maximum number of unconfirmed batches; further changes wait until one is confirmed.
const MAX_SENT_BATCHES: usize = 8;
/// Minimum interval between loan requests of one window while none is granted, in microseconds.
const LOAN_REQUEST_INTERVAL: u64 = SECOND / 10;

/// The current time on two clocks, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// This node's monotonic clock.
    pub(super) local_micros: u64,
    /// The estimated time of the store's clock.
    pub(super) store_micros: u64,
}

/// Requests or tokens that the store has already counted and this node may use.
#[derive(Clone, Copy, Debug)]
struct Loan {
    left: u64,
    limit: u64,
    /// Second of the store's clock in which the loan counts.
    second: u64,
    /// End of the loan, by this node's clock.
    ends: u64,
}

/// Amounts used in the current second (`running`) and in the previous one (`before`).
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    second: u64,
    running: u64,
    before: u64,
}

/// The state of one window on this node.
#[derive(Debug, Default)]
pub(super) struct Window {
    local_window: LocalWindow,
    generation: Option<String>,
    loan: Option<Loan>,
    rate: Rate,
    loan_requested_until: u64,
    /// Free part of the limit in the store's last reply, adjusted by later corrections.
    free: u64,
    /// Time at which the store's window is empty, by its clock, in microseconds.
    empty_at: u64,
    /// Unsent changes by second.
    outbox: BTreeMap<u64, i64>,
    /// Sent and unconfirmed batches, oldest first.
    sent: VecDeque<Batch>,
    /// Whether a report of the window is queued.
    pub(super) is_queued: bool,
}

impl Window {
    /// Decides with the loan. Returns `None` if the loan does not cover the amount.
    pub(super) fn use_loan(&mut self, kind: Kind, wanted: u64, limit: u64, now: Now) -> Option<Decision> {
        let loan = self.loan.as_mut()?;
        let fits = loan.limit == limit && now.local_micros < loan.ends && loan.left >= wanted;
        if !fits {
            return None;
        }
        loan.left -= wanted;
        let loan = *loan;
        self.count(kind, loan.second, wanted, now);
        let reset = self
            .empty_at
            .max(leaves(loan.second))
            .saturating_sub(now.store_micros);
        Some(Decision {
            allowed: true,
            limit,
            remaining: self.free.saturating_add(loan.left).min(limit),
            reset: Duration::from_micros(reset),
            retry_after: Duration::ZERO,
        })
    }

    /// Returns a query for a decision, with unreported changes. Ends the loan; the query returns
    /// its unused part.
    pub(super) fn ask(
        &mut self,
        kind: Kind,
        wanted: u64,
        limit: u64,
        now: Now,
        number: impl FnOnce() -> u64,
    ) -> WindowQuery {
        self.local_window.advance(now.store_micros);
        self.end_loan();
        let bound = limit.min(MAX_AMOUNT);
        let may_borrow = limit >= MIN_LENT_LIMIT && now.local_micros >= self.loan_requested_until;
        let extra = if may_borrow {
            self.rate.of(now).min(bound / LOAN_DIVISOR)
        } else {
            0
        };
        if extra > 0 {
            self.loan_requested_until = now.local_micros + LOAN_REQUEST_INTERVAL;
        }
        WindowQuery {
            wanted: wanted.min(MAX_AMOUNT),
            counted: true,
            limit: bound,
            extra,
            by_time: kind != Kind::Tokens && limit < MIN_LENT_LIMIT,
            generation: self.known_generation(),
            batches: self.batches(now, number),
        }
    }

    /// Returns a query that counts nothing.
    pub(super) fn probe(&mut self, limit: u64, now: Now, number: impl FnOnce() -> u64) -> WindowQuery {
        WindowQuery {
            wanted: 1,
            limit: limit.min(MAX_AMOUNT),
            ..self.report(now, number)
        }
    }

    /// Returns a query that only reports changes.
    pub(super) fn report(&mut self, now: Now, number: impl FnOnce() -> u64) -> WindowQuery {
        self.local_window.advance(now.store_micros);
        WindowQuery {
            limit: MAX_AMOUNT,
            generation: self.known_generation(),
            batches: self.batches(now, number),
            ..WindowQuery::default()
        }
    }

    /// Applies the store's reply to a query sent at `asked`, and returns the decision.
    pub(super) fn apply_reply(
        &mut self,
        kind: Kind,
        ask: &WindowQuery,
        reply: &StoreReply,
        limit: u64,
        asked: Now,
    ) -> Decision {
        let now = Now {
            local_micros: asked.local_micros,
            store_micros: reply.now,
        };
        self.local_window.advance(reply.now);
        self.confirm(ask);
        let lent = reply.granted.saturating_sub(ask.wanted);
        if reply.allowed && ask.counted {
            self.count(kind, reply.second, ask.wanted, now);
        }
        self.check_generation(&reply.generation);
        self.free = limit.saturating_sub(reply.used);
        self.empty_at = reply.now.saturating_add(reply.reset);
        if lent > 0 {
            self.loan_requested_until = 0;
            self.end_loan();
            self.loan = Some(Loan {
                left: lent,
                limit,
                second: reply.second,
                ends: asked.local_micros + LOAN_TTL_MICROS,
            });
        }
        Decision {
            allowed: reply.allowed,
            limit,
            remaining: self.free.saturating_add(self.loan.map_or(0, |loan| loan.left)),
            reset: Duration::from_micros(reply.reset),
            retry_after: Duration::from_micros(reply.retry_after),
        }
    }

    /// Applies the reply to a report.
    pub(super) fn apply_report_reply(&mut self, ask: &WindowQuery, reply: &StoreReply) {
        self.confirm(ask);
        self.check_generation(&reply.generation);
    }

    /// Queues all counts of this node to be sent again if the store has another generation of the
    /// window than this node expects.
    fn check_generation(&mut self, generation: &str) {
        match &self.generation {
            _ if generation.is_empty() => {}
            Some(known) if known != generation => self.mark_lost(generation.to_owned()),
            _ => self.generation = Some(generation.to_owned()),
        }
    }

    /// Removes the batches that the reply to this query confirms.
    fn confirm(&mut self, ask: &WindowQuery) {
        let Some(last) = ask.batches.last() else { return };
        while self.sent.front().is_some_and(|batch| batch.number <= last.number) {
            self.sent.pop_front();
        }
    }

    /// Records that the store lost this window, and queues all counts of this node to be sent
    /// again.
    pub(super) fn mark_lost(&mut self, generation: String) {
        self.generation = Some(generation);
        self.resend_all();
    }

    /// Queues all counts of this node to be sent again.
    pub(super) fn resend_all(&mut self) {
        // The store no longer counts the rest of the loan.
        self.loan = None;
        self.sent.clear();
        self.outbox = self
            .local_window
            .iter()
            .map(|(second, count)| (second, signed(count)))
            .collect();
    }

    /// Moves all counts to the current second and queues them to be sent again, because their times
    /// are no longer known.
    pub(super) fn restart(&mut self, now: Now) {
        self.local_window.restart(now.store_micros / SECOND);
        self.resend_all();
    }

    /// Decides with the counts of this node and its share of the limit.
    pub(super) fn decide_locally(
        &mut self,
        kind: Kind,
        wanted: u64,
        limit: u64,
        share: u64,
        now: Now,
    ) -> Decision {
        self.local_window.advance(now.store_micros);
        let before = decide(&self.local_window, wanted, share, now.store_micros);
        if !before.allowed {
            return Decision { limit, ..before };
        }
        let second = now.store_micros / SECOND;
        self.count(kind, second, wanted, now);
        self.change(second, signed(wanted));
        let after = decide(&self.local_window, 0, share, now.store_micros);
        Decision {
            allowed: true,
            limit,
            ..after
        }
    }

    /// Returns the local decision for one request or token, without counting it.
    pub(super) fn peek_locally(&mut self, limit: u64, share: u64, now: Now) -> Decision {
        self.local_window.advance(now.store_micros);
        Decision {
            limit,
            ..decide(&self.local_window, 1, share, now.store_micros)
        }
    }

    /// Replaces a reservation by the used amount.
    pub(super) fn correct(&mut self, reserved: u64, used: u64, now: Now) {
        self.local_window.advance(now.store_micros);
        let taken = self.local_window.correct(reserved);
        let back: u64 = taken.iter().map(|(_, part)| part).sum();
        for (second, part) in taken {
            self.change(second, -signed(part));
        }
        if used > 0 {
            let second = now.store_micros / SECOND;
            self.local_window.add(second, used);
            self.change(second, signed(used));
        }
        self.free = self.free.saturating_add(back).saturating_sub(used);
    }

    /// Ends the loan if it has expired. Returns true if there is no loan afterwards.
    pub(super) fn end_loan_if_over(&mut self, now: Now) -> bool {
        if self.loan.is_some_and(|loan| loan.ends <= now.local_micros) {
            self.end_loan();
        }
        self.loan.is_none()
    }

    /// Ends the loan and queues the return of its unused part.
    pub(super) fn end_loan(&mut self) {
        if let Some(loan) = self.loan.take() {
            self.change(loan.second, -signed(loan.left));
            self.free = self.free.saturating_add(loan.left);
        }
    }

    /// Whether the window has unreported changes.
    pub(super) fn has_unreported(&self) -> bool {
        !self.sent.is_empty() || !self.outbox.is_empty()
    }

    /// Whether the window can be removed.
    pub(super) fn is_idle(&mut self, now: Now) -> bool {
        self.local_window.advance(now.store_micros);
        self.local_window.is_idle(now.store_micros) && self.end_loan_if_over(now) && !self.has_unreported()
    }

    fn count(&mut self, kind: Kind, second: u64, amount: u64, now: Now) {
        self.rate.note(amount, now);
        match kind {
            Kind::Tokens => self.local_window.reserve(second, amount, now.store_micros),
            Kind::Work | Kind::Control => self.local_window.add(second, amount),
        }
    }

    fn change(&mut self, second: u64, change: i64) {
        let total = self.outbox.entry(second).or_default();
        *total = total.saturating_add(change);
        if *total == 0 {
            self.outbox.remove(&second);
        }
    }

    /// Returns the known generation; `None` for a window without counts, which accepts any
    /// generation.
    fn known_generation(&mut self) -> Option<String> {
        if self.local_window.iter().next().is_none() && !self.has_unreported() {
            self.generation = None;
        }
        self.generation.clone()
    }

    /// Returns the batches to send: unconfirmed ones first and unchanged, then new ones.
    fn batches(&mut self, now: Now, number: impl FnOnce() -> u64) -> Vec<Batch> {
        if self.sent.len() < MAX_SENT_BATCHES {
            let outbox = std::mem::take(&mut self.outbox);
            let changes = outbox
                .into_iter()
                .filter(|(second, _)| leaves(*second) > now.store_micros);
            let changes: Vec<(u64, i64)> = changes.collect();
            if !changes.is_empty() {
                self.sent.push_back(Batch {
                    number: number(),
                    changes,
                });
            }
        }
        self.sent.iter().cloned().collect()
    }
}

impl Rate {
    fn note(&mut self, amount: u64, now: Now) {
        self.advance(now);
        self.running = self.running.saturating_add(amount);
    }

    fn of(&mut self, now: Now) -> u64 {
        self.advance(now);
        self.running.max(self.before)
    }

    fn advance(&mut self, now: Now) {
        let second = now.local_micros / SECOND;
        if second == self.second {
            return;
        }
        self.before = if second == self.second + 1 {
            self.running
        } else {
            0
        };
        self.running = 0;
        self.second = second;
    }
}

fn signed(amount: u64) -> i64 {
    amount.min(MAX_AMOUNT).cast_signed()
}
