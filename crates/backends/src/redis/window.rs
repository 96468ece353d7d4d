//! One window on this node: its own counts, its loan, and its unreported changes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tollgate_storage::Decision;

use super::local_window::{LocalWindow, leaves};
use super::script::{Batch, Kind, MAX_AMOUNT, StoreReply, WindowQuery};
use crate::memory::decide;

const SECOND: u64 = 1_000_000;
/// Minimum limit for loans, which save most round trips. Below it requests are counted by their
/// times.
const MIN_LENT_LIMIT: u64 = 3_000;
/// A loan is at most the limit divided by this.
const LOAN_DIVISOR: u64 = 100;
/// Lifetime of a loan, in microseconds; window.lua has the same value.
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

/// Requests or tokens that are counted at the store already and can be used here.
#[derive(Clone, Copy, Debug)]
struct Loan {
    left: u64,
    limit: u64,
    /// The second of the store's clock that the loan counts in.
    second: u64,
    /// End of the loan, by this node's clock.
    ends: u64,
}

/// Amounts used in the running second and in the previous one.
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
    /// Free part of the limit at the store in its last reply, and the time at which its window is
    /// empty, by its clock.
    free: u64,
    empty_at: u64,
    /// Unsent changes by second.
    outbox: BTreeMap<u64, i64>,
    /// Sent and unconfirmed batches, oldest first.
    sent: VecDeque<Batch>,
    /// Whether a report of the window is queued.
    pub(super) is_queued: bool,
}

impl Window {
    /// Decides by the loan, if it covers the amount.
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

    /// A query for a decision, with unreported changes. Ends the loan, whose unused part is
    /// returned with the query.
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

    /// A query that counts nothing.
    pub(super) fn probe(&mut self, limit: u64, now: Now, number: impl FnOnce() -> u64) -> WindowQuery {
        WindowQuery {
            wanted: 1,
            limit: limit.min(MAX_AMOUNT),
            ..self.report(now, number)
        }
    }

    /// A query that only reports changes.
    pub(super) fn report(&mut self, now: Now, number: impl FnOnce() -> u64) -> WindowQuery {
        self.local_window.advance(now.store_micros);
        WindowQuery {
            limit: MAX_AMOUNT,
            generation: self.known_generation(),
            batches: self.batches(now, number),
            ..WindowQuery::default()
        }
    }

    /// Applies the store's decision. `asked` is the time of the query.
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

    /// Resends unconfirmed counts if the store counted in another window than the query expected.
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

    /// The store lost this window: resends all counts of this node.
    pub(super) fn mark_lost(&mut self, generation: String) {
        self.generation = Some(generation);
        self.resend_all();
    }

    /// Queues all counts of this node to be sent again.
    pub(super) fn resend_all(&mut self) {
        // The rest of the loan is no longer counted anywhere.
        self.loan = None;
        self.sent.clear();
        self.outbox = self
            .local_window
            .iter()
            .map(|(second, count)| (second, signed(count)))
            .collect();
    }

    /// Moves all counts to now and resends them, because their times are no longer known.
    pub(super) fn restart(&mut self, now: Now) {
        self.local_window.restart(now.store_micros / SECOND);
        self.resend_all();
    }

    /// Decides by the counts of this node, under its share of the limit.
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

    /// The local decision for one request or token, without counting it.
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

    /// Returns the unused part of an expired loan; the result is whether there is no loan now.
    pub(super) fn end_loan_if_over(&mut self, now: Now) -> bool {
        if self.loan.is_some_and(|loan| loan.ends <= now.local_micros) {
            self.end_loan();
        }
        self.loan.is_none()
    }

    /// Returns the unused part of the loan.
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

    /// The known generation; `None` for a window without counts, to which any generation is equal.
    fn known_generation(&mut self) -> Option<String> {
        if self.local_window.iter().next().is_none() && !self.has_unreported() {
            self.generation = None;
        }
        self.generation.clone()
    }

    /// The batches to send: unconfirmed ones unchanged, before newer ones.
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
