//! Subscriptions: what an account pays for by the period. A plan adds an allowance for every week.
//!
//! A week of a plan is `[anchor + 7·24 h·n, anchor + 7·24 h·(n + 1))`. Its allowance is opened by the first hold in it,
//! once, and what is left of it goes to `breakage` when the next one is opened or the subscription ends: nothing is
//! carried over, and a week in which nothing was held was never granted. A week that is closed is not opened again,
//! whatever the clock says.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, SubscriptionId, Timestamp};

use crate::{Result, StorageError, StorageErrorKind};

/// How long an allowance lasts.
pub const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const WEEK_MICROS: i64 = 7 * 24 * 60 * 60 * 1_000_000;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $name {
            /// The name used in storage, in the configuration and on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }

            /// What has this name.
            pub fn parse(name: &str) -> Option<Self> {
                [$($name::$variant,)+].into_iter().find(|known| known.as_str() == name)
            }
        }
    };
}

pub(crate) use names;

names! {
    /// What is subscribed to.
    Product {
        /// A plan with a weekly allowance; the subject is its name.
        Plan = "plan",
        /// A hosted agent; the subject is its id.
        Agent = "agent",
    }
}

names! {
    /// How long a period is.
    Cadence {
        /// A month.
        Monthly = "monthly",
        /// A year.
        Yearly = "yearly",
    }
}

names! {
    /// Where the money for a period comes from.
    Payer {
        /// The account's credits.
        Credits = "credits",
        /// A payment provider; the ledger does not see the money.
        Provider = "provider",
    }
}

names! {
    /// What a subscription is. Only an active one gives access.
    SubscriptionState {
        /// It gives access.
        Active = "active",
        /// A period was not paid; it may still be.
        PastDue = "past_due",
        /// It was cancelled, and what was paid for is over.
        Canceled = "canceled",
        /// It was past due for too long.
        Expired = "expired",
    }
}

impl SubscriptionState {
    /// Whether nothing can change it any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, SubscriptionState::Canceled | SubscriptionState::Expired)
    }
}

/// A subscription to be made. Its first period begins at its anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSubscription {
    /// Id.
    pub id: SubscriptionId,
    /// Whose.
    pub account: AccountId,
    /// What kind of thing.
    pub product: Product,
    /// Which one: the name of a plan, the id of an agent.
    pub subject: Arc<str>,
    /// What a period costs.
    pub price: Credits,
    /// How long a period is.
    pub cadence: Cadence,
    /// Who pays.
    pub payer: Payer,
    /// What a week includes; zero for what is no plan.
    pub allowance: Credits,
    /// When it begins. Weeks and periods are counted from here.
    pub anchor: Timestamp,
    /// When its first period is over.
    pub paid_through: Timestamp,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// What was agreed; `paid_through` is the end of the last period that was paid.
    pub terms: NewSubscription,
    /// The number of that period, from 0.
    pub period: i64,
    /// Whether it ends when what was paid for is over.
    pub cancel_at_period_end: bool,
    /// Since when a period is owed.
    pub past_due_since: Option<Timestamp>,
    /// What it is.
    pub state: SubscriptionState,
    /// The number of the open week, from 0.
    pub window: Option<i64>,
    /// What the next period is of, when it is of another plan.
    pub next: Option<NextPlan>,
}

/// The plan of a later period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextPlan {
    /// Its name.
    pub name: Arc<str>,
    /// How long its periods are.
    pub cadence: Cadence,
}

/// How a subscription is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The next period is paid, through this instant.
    Renew {
        /// The number of the period: above that of the subscription. Periods between were not paid for by anybody.
        period: i64,
        /// When it is over.
        paid_through: Timestamp,
    },
    /// The next period could not be paid.
    PastDue,
    /// No further period is wanted.
    CancelAtPeriodEnd,
    /// Further periods are wanted again.
    Resume,
    /// It was cancelled and its time is over.
    Cancel,
    /// It was past due for too long.
    Expire,
    /// The next period is of another plan; of the same one after all, when there is none.
    Next(Option<NextPlan>),
    /// Another one takes its place.
    Replace,
}

impl Change {
    /// The name used in storage.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Change::Renew { .. } => "renewed",
            Change::PastDue => "past_due",
            Change::CancelAtPeriodEnd => "cancel_requested",
            Change::Resume => "resumed",
            Change::Cancel => "canceled",
            Change::Expire => "expired",
            Change::Next(Some(_)) => "plan_change_requested",
            Change::Next(None) => "plan_change_withdrawn",
            Change::Replace => "replaced",
        }
    }
}

/// What happened to a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionEvent {
    /// From 0.
    pub number: i64,
    /// `created`, or the name of a [`Change`].
    pub kind: String,
    /// What it was afterwards.
    pub state: SubscriptionState,
    /// The period that was paid last.
    pub period: i64,
    /// When.
    pub at: Timestamp,
}

/// Whether something was paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payment {
    /// It was, or cost nothing; the subscription as it is now.
    Done(Box<Subscription>),
    /// The balance does not cover it; nothing was written.
    Denied {
        /// Credits there are.
        available: Credits,
    },
}

/// The plan that applied to a call, frozen when its hold was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanUse {
    /// Its name.
    pub name: Arc<str>,
    /// The week in which the call fell.
    pub window: TransferId,
}

/// A week of a plan as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Week {
    /// When it begins.
    pub start: Timestamp,
    /// When it is over.
    pub end: Timestamp,
    /// What it includes.
    pub limit: Credits,
    /// How much of that is used, or held by calls that run.
    pub used: Credits,
}

/// What a call may draw on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// What is left of the open week, whose number this is.
    Open(i64),
    /// All of this week, which has to be opened first; the open one is over.
    Next(i64),
    /// Nothing.
    Nothing,
}

impl Subscription {
    /// A new subscription: active, its first period paid, its first week open if it is a plan.
    pub fn begin(terms: NewSubscription) -> Subscription {
        let window = (terms.product == Product::Plan).then_some(0);
        Subscription {
            terms,
            period: 0,
            cancel_at_period_end: false,
            past_due_since: None,
            state: SubscriptionState::Active,
            window,
            next: None,
        }
    }

    /// The subscription after a change. `Conflict` when it cannot be changed so from what it is now.
    pub fn after(&self, change: &Change, at: Timestamp) -> Result<Subscription> {
        use SubscriptionState::{Active, Canceled, Expired, PastDue};
        let mut next = self.clone();
        match (self.state, change) {
            (Active | PastDue, Change::Renew { period, paid_through }) if *period > self.period => {
                next.state = Active;
                next.past_due_since = None;
                next.period = *period;
                next.terms.paid_through = *paid_through;
            }
            (Active, Change::PastDue) => {
                next.state = PastDue;
                next.past_due_since = Some(at);
            }
            (Active | PastDue, Change::CancelAtPeriodEnd) if !self.cancel_at_period_end => {
                next.cancel_at_period_end = true;
            }
            (Active | PastDue, Change::Resume) if self.cancel_at_period_end => {
                next.cancel_at_period_end = false;
            }
            (Active | PastDue, Change::Cancel) if self.cancel_at_period_end => {
                next.state = Canceled;
                next.window = None;
            }
            (PastDue, Change::Expire) => {
                next.state = Expired;
                next.window = None;
            }
            (Active | PastDue, Change::Replace) => {
                next.state = Canceled;
                next.window = None;
            }
            (Active | PastDue, Change::Next(plan)) if *plan != self.next && !self.cancel_at_period_end => {
                next.next.clone_from(plan);
            }
            (state, change) => {
                let why = format!(
                    "{} is {} and cannot be {}",
                    self.terms.id,
                    state.as_str(),
                    change.as_str()
                );
                return Err(StorageError::new(StorageErrorKind::Conflict, why));
            }
        }
        Ok(next)
    }

    /// What a call that is accepted at this instant may draw on. Weeks are opened within the time that is paid for; one
    /// that is open lasts to its end, unless the subscription ends before.
    pub fn draw(&self, at: Timestamp) -> Draw {
        let is_paid = at < self.terms.paid_through;
        if self.terms.product != Product::Plan
            || self.state != SubscriptionState::Active
            || (!is_paid && self.cancel_at_period_end)
        {
            return Draw::Nothing;
        }
        let now = window_number(self.terms.anchor, at);
        match self.window {
            Some(open) if now <= open => Draw::Open(open),
            _ if is_paid && now >= 0 => Draw::Next(now),
            _ => Draw::Nothing,
        }
    }

    /// The week on which a call would draw now, or the one that is open while the plan gives no access. `left` is what
    /// is left of the open week.
    pub fn week_at(&self, left: Credits, now: Timestamp) -> Option<Week> {
        let (number, left) = match (self.draw(now), self.window) {
            (Draw::Next(number), _) => (number, self.terms.allowance),
            (Draw::Open(number), _) | (Draw::Nothing, Some(number)) => (number, left),
            (Draw::Nothing, None) => return None,
        };
        let (start, end) = self.window_span(number);
        Some(Week {
            start,
            end,
            limit: self.terms.allowance,
            used: self.terms.allowance.saturating_sub(left),
        })
    }

    /// When a week begins and ends.
    pub fn window_span(&self, number: i64) -> (Timestamp, Timestamp) {
        let start = |number: i64| {
            let micros = number.saturating_mul(WEEK_MICROS);
            Timestamp::from_micros(self.terms.anchor.as_micros().saturating_add(micros))
        };
        (start(number), start(number.saturating_add(1)))
    }
}

/// The number of the week in which an instant is, counted from an anchor; below zero before it.
pub fn window_number(anchor: Timestamp, at: Timestamp) -> i64 {
    let since = at.as_micros().saturating_sub(anchor.as_micros());
    since.div_euclid(WEEK_MICROS)
}

/// What names a week in the ledger. It follows from subscription and number, so that a week is opened once.
pub fn window_entry(subscription: SubscriptionId, number: i64) -> TransferId {
    entry(b"window", subscription.as_u128(), number)
}

/// What names the fee of a period in the ledger, so that a period is paid once.
pub fn period_entry(subscription: SubscriptionId, number: i64) -> TransferId {
    entry(b"period", subscription.as_u128(), number)
}

/// What names a transfer of a kind that follows from what it belongs to and a number.
pub(crate) fn entry(kind: &[u8], of: u128, number: i64) -> TransferId {
    let digest = Sha256::new()
        .chain_update(kind)
        .chain_update(of.to_be_bytes())
        .chain_update(number.to_be_bytes());
    first_bits(digest)
}

/// The id of the first 128 bits of a digest.
pub(crate) fn first_bits(digest: Sha256) -> TransferId {
    let digest = digest.finalize();
    let first = digest.iter().take(16);
    TransferId::from_u128(first.fold(0, |id, byte| (id << 8) | u128::from(*byte)))
}

/// Keeps subscriptions. Every method is atomic together with the money that it moves; a method that fails has written
/// nothing. Every change is an event that is never changed.
#[async_trait]
pub trait SubscriptionStore: Send + Sync {
    /// Makes a subscription, pays its first period out of credits when these are its payer, and opens its first week if
    /// it is a plan. `NotFound` when there is no such account; `Conflict` when the id was used, or when the account has
    /// a plan that is active or past due and this is another one.
    async fn subscribe(&self, new: NewSubscription) -> Result<Payment>;

    /// Ends a subscription and makes another one of the same account in its place, whose first period costs `fee` instead of
    /// its price. As [`subscribe`](Self::subscribe) and [`change`](Self::change) fail, and then nothing is written.
    async fn replace(&self, old: SubscriptionId, new: NewSubscription, fee: Credits) -> Result<Payment>;

    /// Changes a subscription; a renewal is paid out of credits when these are its payer. When it ends, what is left of
    /// its open week goes to `breakage`. `NotFound` when there is no such subscription; `Conflict` when it cannot be
    /// changed so from what it is now, a renewal of a period that is paid included.
    async fn change(&self, id: SubscriptionId, change: Change, at: Timestamp) -> Result<Payment>;

    /// The subscription; `None` when there is none.
    async fn get(&self, id: SubscriptionId) -> Result<Option<Subscription>>;

    /// Those of an account, newest first.
    async fn list(&self, account: AccountId) -> Result<Vec<Subscription>>;

    /// What is left of the open week of an account's plan. `NotFound` when there is no such account.
    async fn allowance(&self, account: AccountId) -> Result<Credits>;

    /// Those that are active or past due and whose paid time is over, those that are owed longest first.
    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Subscription>>;

    /// What happened to a subscription, oldest first.
    async fn events(&self, id: SubscriptionId) -> Result<Vec<SubscriptionEvent>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: Timestamp = Timestamp::from_micros(1_000_000);

    fn plan() -> Subscription {
        Subscription::begin(NewSubscription {
            id: SubscriptionId::from_u128(1),
            account: AccountId::from_u128(2),
            product: Product::Plan,
            subject: "lite".into(),
            price: Credits::from_nanos(9),
            cadence: Cadence::Monthly,
            payer: Payer::Credits,
            allowance: Credits::from_nanos(5),
            anchor: ANCHOR,
            paid_through: after(4, 1),
        })
    }

    /// So many weeks and microseconds after the anchor.
    fn after(weeks: i64, micros: i64) -> Timestamp {
        Timestamp::from_micros(ANCHOR.as_micros() + weeks * WEEK_MICROS + micros)
    }

    #[test]
    fn weeks_begin_at_the_anchor_and_are_half_open() {
        for (weeks, micros, number) in [
            (0, 0, 0),
            (0, -1, -1),
            (1, -1, 0),
            (1, 0, 1),
            (-1, 0, -1),
            (3, 5, 3),
        ] {
            assert_eq!(
                window_number(ANCHOR, after(weeks, micros)),
                number,
                "{weeks} {micros}"
            );
        }
        assert_eq!(plan().window_span(2), (after(2, 0), after(3, 0)));
        assert_eq!(WEEK.as_micros(), WEEK_MICROS.unsigned_abs().into());
    }

    #[test]
    fn a_call_draws_on_the_open_week_or_opens_its_own() {
        for (window, at, draw) in [
            (Some(0), after(0, 0), Draw::Open(0)),
            (Some(0), after(1, -1), Draw::Open(0)),
            (Some(0), after(1, 0), Draw::Next(1)),
            (Some(0), after(3, 0), Draw::Next(3)),
            (Some(3), after(1, 0), Draw::Open(3)),
            (Some(3), after(-9, 0), Draw::Open(3)),
            (None, after(2, 0), Draw::Next(2)),
            (None, after(0, -1), Draw::Nothing),
            (Some(4), after(4, 1), Draw::Open(4)),
            (Some(3), after(4, 1), Draw::Nothing),
            (Some(3), after(4, 0), Draw::Next(4)),
        ] {
            let plan = Subscription { window, ..plan() };
            assert_eq!(plan.draw(at), draw, "{window:?} {at:?}");
        }
        let ends = Subscription {
            cancel_at_period_end: true,
            window: Some(4),
            ..plan()
        };
        assert_eq!(ends.draw(after(4, 0)), Draw::Open(4));
        assert_eq!(ends.draw(after(4, 1)), Draw::Nothing, "what was paid for is over");
        for state in [
            SubscriptionState::PastDue,
            SubscriptionState::Canceled,
            SubscriptionState::Expired,
        ] {
            let plan = Subscription { state, ..plan() };
            assert_eq!(plan.draw(after(0, 0)), Draw::Nothing, "{state:?}");
        }
    }

    /// Every state, every change, and what comes of it.
    #[test]
    fn changes_are_those_of_the_table() {
        use SubscriptionState::{Active, Canceled, Expired, PastDue};
        let renew = |period| Change::Renew {
            period,
            paid_through: after(8, 0),
        };
        let changes = [
            renew(1),
            renew(0),
            renew(2),
            Change::PastDue,
            Change::CancelAtPeriodEnd,
            Change::Resume,
            Change::Cancel,
            Change::Expire,
            Change::Next(Some(NextPlan {
                name: "max".into(),
                cadence: Cadence::Yearly,
            })),
            Change::Replace,
        ];
        let table = [
            (
                Active,
                false,
                [
                    Some(Active),
                    None,
                    Some(Active),
                    Some(PastDue),
                    Some(Active),
                    None,
                    None,
                    None,
                    Some(Active),
                    Some(Canceled),
                ],
            ),
            (
                Active,
                true,
                [
                    Some(Active),
                    None,
                    Some(Active),
                    Some(PastDue),
                    None,
                    Some(Active),
                    Some(Canceled),
                    None,
                    None,
                    Some(Canceled),
                ],
            ),
            (
                PastDue,
                false,
                [
                    Some(Active),
                    None,
                    Some(Active),
                    None,
                    Some(PastDue),
                    None,
                    None,
                    Some(Expired),
                    Some(PastDue),
                    Some(Canceled),
                ],
            ),
            (
                PastDue,
                true,
                [
                    Some(Active),
                    None,
                    Some(Active),
                    None,
                    None,
                    Some(PastDue),
                    Some(Canceled),
                    Some(Expired),
                    None,
                    Some(Canceled),
                ],
            ),
            (Canceled, true, [None; 10]),
            (Expired, false, [None; 10]),
        ];
        for (state, cancel_at_period_end, expected) in table {
            let before = Subscription {
                state,
                cancel_at_period_end,
                ..plan()
            };
            for (change, expected) in changes.iter().zip(expected) {
                let next = before.after(change, after(1, 0));
                assert_eq!(
                    next.as_ref().ok().map(|next| next.state),
                    expected,
                    "{state:?} {change:?}"
                );
                let Ok(next) = next else { continue };
                assert_eq!(
                    next.past_due_since.is_some(),
                    next.state == PastDue && state == Active
                );
                assert_eq!(next.window.is_none(), next.state.is_terminal(), "{change:?}");
            }
        }
        let renewed = plan().after(&renew(1), after(1, 0)).unwrap();
        assert_eq!((renewed.period, renewed.terms.paid_through), (1, after(8, 0)));
    }

    #[test]
    fn entries_differ_by_kind_subscription_and_number() {
        let (one, two) = (SubscriptionId::from_u128(1), SubscriptionId::from_u128(2));
        let entries = [
            window_entry(one, 0),
            window_entry(one, 1),
            window_entry(two, 0),
            period_entry(one, 0),
        ];
        let distinct: std::collections::HashSet<_> = entries.into_iter().collect();
        assert_eq!(distinct.len(), entries.len());
        // What PostgreSQL makes of the same bytes; another value would open a week twice.
        assert_eq!(
            window_entry(one, 0).to_string(),
            "xfer_7644d002e2709d068eca50a70b38998d"
        );
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(Product::parse("agent"), Some(Product::Agent));
        assert_eq!(Cadence::parse("yearly"), Some(Cadence::Yearly));
        assert_eq!(Payer::parse("provider"), Some(Payer::Provider));
        assert_eq!(
            SubscriptionState::parse("past_due"),
            Some(SubscriptionState::PastDue)
        );
        assert_eq!(SubscriptionState::parse("paused"), None);
    }
}
