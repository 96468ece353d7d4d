//! What this node knows of one window: what it has counted itself, what was lent to it, and what the store is still to
//! be told.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tollgate_storage::Decision;

use super::own::{Own, leaves};
use super::script::{Ask, Batch, Kind, MOST, Told};
use crate::memory::decide;

const SECOND: u64 = 1_000_000;
/// From this limit on a node is lent some of it, so that most requests need no round trip. Below it requests are
/// counted by their times.
const LENT_FROM: u64 = 3_000;
/// At most this part of the limit is lent at once.
const LENT_PART: u64 = 100;
/// How long what was lent can be used, in microseconds; window.lua knows the same.
const LENT_FOR: u64 = SECOND;
/// Batches that may be under way; more is gathered until they are confirmed.
const MOST_SENT: usize = 8;
/// While one asks for a loan, others ask for none.
const ASKING: u64 = SECOND / 10;

/// The time, by two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// This node's, which never goes back.
    pub(super) here: u64,
    /// The store's, as far as it is known.
    pub(super) there: u64,
}

/// Requests or tokens that are counted at the store and can be used here.
#[derive(Clone, Copy, Debug)]
struct Loan {
    left: u64,
    limit: u64,
    /// The second of the store's clock in which it counts.
    second: u64,
    /// When it is over, by this node's clock.
    ends: u64,
}

/// How much was used in the second that runs and in the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    second: u64,
    running: u64,
    before: u64,
}

/// One window.
#[derive(Debug, Default)]
pub(super) struct Window {
    own: Own,
    life: Option<String>,
    loan: Option<Loan>,
    rate: Rate,
    asking_until: u64,
    /// What is free of the limit at the store, as it was told last, and when its window is empty, by its clock.
    free: u64,
    empty_at: u64,
    /// Changes that are to be told.
    outbox: BTreeMap<u64, i64>,
    /// Those that were told and not confirmed, oldest first.
    sent: VecDeque<Batch>,
    /// Whether it stands in the list of windows that have something to tell.
    pub(super) listed: bool,
}

impl Window {
    /// Decides by what was lent, when that is enough.
    pub(super) fn use_loan(&mut self, kind: Kind, wanted: u64, limit: u64, now: Now) -> Option<Decision> {
        let loan = self.loan.as_mut()?;
        let fits = loan.limit == limit && now.here < loan.ends && loan.left >= wanted;
        if !fits {
            return None;
        }
        loan.left -= wanted;
        let loan = *loan;
        self.count(kind, loan.second, wanted, now);
        let reset = self.empty_at.max(leaves(loan.second)).saturating_sub(now.there);
        Some(Decision {
            allowed: true,
            limit,
            remaining: self.free.saturating_add(loan.left).min(limit),
            reset: Duration::from_micros(reset),
            retry_after: Duration::ZERO,
        })
    }

    /// A question for the store, with what it is still to be told. What is left of a loan goes back with it.
    pub(super) fn ask(
        &mut self,
        kind: Kind,
        wanted: u64,
        limit: u64,
        now: Now,
        number: impl FnOnce() -> u64,
    ) -> Ask {
        self.own.advance(now.there);
        self.end_loan();
        let bound = limit.min(MOST);
        let lends = limit >= LENT_FROM && now.here >= self.asking_until;
        let extra = if lends {
            self.rate.of(now).min(bound / LENT_PART)
        } else {
            0
        };
        if extra > 0 {
            self.asking_until = now.here + ASKING;
        }
        Ask {
            wanted: wanted.min(MOST),
            counted: true,
            limit: bound,
            extra,
            by_time: kind != Kind::Tokens && limit < LENT_FROM,
            life: self.known_life(),
            batches: self.batches(now, number),
        }
    }

    /// The same without counting anything.
    pub(super) fn look(&mut self, limit: u64, now: Now, number: impl FnOnce() -> u64) -> Ask {
        Ask {
            wanted: 1,
            limit: limit.min(MOST),
            ..self.tell(now, number)
        }
    }

    /// The same without wanting anything.
    pub(super) fn tell(&mut self, now: Now, number: impl FnOnce() -> u64) -> Ask {
        self.own.advance(now.there);
        Ask {
            limit: MOST,
            life: self.known_life(),
            batches: self.batches(now, number),
            ..Ask::default()
        }
    }

    /// Takes in what the store has decided. `asked` is when it was asked.
    pub(super) fn learn(&mut self, kind: Kind, ask: &Ask, told: &Told, limit: u64, asked: Now) -> Decision {
        let now = Now {
            here: asked.here,
            there: told.now,
        };
        self.own.advance(told.now);
        self.confirm(ask);
        let lent = told.granted.saturating_sub(ask.wanted);
        if told.allowed && ask.counted {
            self.count(kind, told.second, ask.wanted, now);
        }
        self.meet(&told.life);
        self.free = limit.saturating_sub(told.used);
        self.empty_at = told.now.saturating_add(told.reset);
        if lent > 0 {
            self.asking_until = 0;
            self.end_loan();
            self.loan = Some(Loan {
                left: lent,
                limit,
                second: told.second,
                ends: asked.here + LENT_FOR,
            });
        }
        Decision {
            allowed: told.allowed,
            limit,
            remaining: self.free.saturating_add(self.loan.map_or(0, |loan| loan.left)),
            reset: Duration::from_micros(told.reset),
            retry_after: Duration::from_micros(told.retry_after),
        }
    }

    /// Takes in the answer to a question that wanted nothing.
    pub(super) fn learn_of(&mut self, ask: &Ask, told: &Told) {
        self.confirm(ask);
        self.meet(&told.life);
    }

    /// Asked of one window and counted in another: what is not known to be there is told again.
    fn meet(&mut self, life: &str) {
        match &self.life {
            _ if life.is_empty() => {}
            Some(known) if known != life => self.lost(life.to_owned()),
            _ => self.life = Some(life.to_owned()),
        }
    }

    /// The store has confirmed what it was told with this question.
    fn confirm(&mut self, ask: &Ask) {
        let Some(last) = ask.batches.last() else { return };
        while self.sent.front().is_some_and(|batch| batch.number <= last.number) {
            self.sent.pop_front();
        }
    }

    /// The store has lost this window: it is told everything that this node has counted in it.
    pub(super) fn lost(&mut self, life: String) {
        self.life = Some(life);
        self.retell();
    }

    /// Everything that this node has counted is to be told again.
    pub(super) fn retell(&mut self) {
        // What is left of a loan is counted nowhere any more.
        self.loan = None;
        self.sent.clear();
        self.outbox = self
            .own
            .iter()
            .map(|(second, count)| (second, signed(count)))
            .collect();
    }

    /// When something was counted is not known any more: it counts from now.
    pub(super) fn restart(&mut self, now: Now) {
        self.own.restart(now.there / SECOND);
        self.retell();
    }

    /// Decides by what this node has counted itself, under its share of the limit.
    pub(super) fn decide_alone(
        &mut self,
        kind: Kind,
        wanted: u64,
        limit: u64,
        share: u64,
        now: Now,
    ) -> Decision {
        self.own.advance(now.there);
        let before = decide(&self.own, wanted, share, now.there);
        if !before.allowed {
            return Decision { limit, ..before };
        }
        let second = now.there / SECOND;
        self.count(kind, second, wanted, now);
        self.change(second, signed(wanted));
        let after = decide(&self.own, 0, share, now.there);
        Decision {
            allowed: true,
            limit,
            ..after
        }
    }

    /// What one more would be told, by what this node has counted itself.
    pub(super) fn peek_alone(&mut self, limit: u64, share: u64, now: Now) -> Decision {
        self.own.advance(now.there);
        Decision {
            limit,
            ..decide(&self.own, 1, share, now.there)
        }
    }

    /// Replaces a reservation by what was used.
    pub(super) fn correct(&mut self, reserved: u64, used: u64, now: Now) {
        self.own.advance(now.there);
        let taken = self.own.correct(reserved);
        let back: u64 = taken.iter().map(|(_, part)| part).sum();
        for (second, part) in taken {
            self.change(second, -signed(part));
        }
        if used > 0 {
            let second = now.there / SECOND;
            self.own.add(second, used);
            self.change(second, signed(used));
        }
        self.free = self.free.saturating_add(back).saturating_sub(used);
    }

    /// Gives back what is left of a loan whose time is over; answers whether there is none any more.
    pub(super) fn end_loan_if_over(&mut self, now: Now) -> bool {
        if self.loan.is_some_and(|loan| loan.ends <= now.here) {
            self.end_loan();
        }
        self.loan.is_none()
    }

    /// Gives back what is left of a loan.
    pub(super) fn end_loan(&mut self) {
        if let Some(loan) = self.loan.take() {
            self.change(loan.second, -signed(loan.left));
            self.free = self.free.saturating_add(loan.left);
        }
    }

    /// Whether the store is to be told something.
    pub(super) fn has_news(&self) -> bool {
        !self.sent.is_empty() || !self.outbox.is_empty()
    }

    /// Whether nothing is left to know.
    pub(super) fn is_idle(&mut self, now: Now) -> bool {
        self.own.advance(now.there);
        self.own.is_idle(now.there) && self.end_loan_if_over(now) && !self.has_news()
    }

    fn count(&mut self, kind: Kind, second: u64, amount: u64, now: Now) {
        self.rate.note(amount, now);
        match kind {
            Kind::Tokens => self.own.reserve(second, amount, now.there),
            Kind::Work | Kind::Control => self.own.add(second, amount),
        }
    }

    fn change(&mut self, second: u64, change: i64) {
        let whole = self.outbox.entry(second).or_default();
        *whole = whole.saturating_add(change);
        if *whole == 0 {
            self.outbox.remove(&second);
        }
    }

    /// The life of the window at the store, where that matters: to a node that has counted nothing, one is as good as
    /// another.
    fn known_life(&mut self) -> Option<String> {
        if self.own.iter().next().is_none() && !self.has_news() {
            self.life = None;
        }
        self.life.clone()
    }

    /// What is to be told: what was not confirmed comes again as it was, before anything newer.
    fn batches(&mut self, now: Now, number: impl FnOnce() -> u64) -> Vec<Batch> {
        if self.sent.len() < MOST_SENT {
            let outbox = std::mem::take(&mut self.outbox);
            let changes = outbox
                .into_iter()
                .filter(|(second, _)| leaves(*second) > now.there);
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
        let second = now.here / SECOND;
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
    amount.min(MOST).cast_signed()
}
