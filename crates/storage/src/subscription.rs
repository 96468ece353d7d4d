//! Subscriptions: plans and agents that an account pays for by the period. A plan adds a weekly
//! allowance.
//!
//! Week `n` of a plan is `[anchor + 7·24 h·n, anchor + 7·24 h·(n + 1))`. The allowance of week 0 is
//! granted when the subscription is created, the allowance of a later week by the first hold in
//! that week. The unused rest goes to `breakage` when a later week is opened or the subscription
//! ends: unused allowance is not carried over, and the allowance of a later week without a hold is
//! never granted. A closed week is never reopened, even if the clock moves back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, SubscriptionId, Timestamp};

use crate::{Result, StorageError, StorageErrorKind};

/// Length of an allowance week.
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
            /// Returns the name used in storage, in the configuration and on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }

            /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
            pub fn parse(name: &str) -> Option<Self> {
                [$($name::$variant,)+].into_iter().find(|known| known.as_str() == name)
            }
        }
    };
}

pub(crate) use names;

names! {
    /// Type of the product that a subscription pays for.
    Product {
        /// A plan with a weekly allowance; the subject is its name.
        Plan = "plan",
        /// A hosted agent; the subject is its id.
        Agent = "agent",
    }
}

names! {
    /// Length of a billing period.
    Cadence {
        /// A period is a calendar month.
        Monthly = "monthly",
        /// A period is a calendar year.
        Yearly = "yearly",
    }
}

names! {
    /// Source of the payment for a period.
    Payer {
        /// Credits of the account.
        Credits = "credits",
        /// A payment provider; this money is not in the ledger.
        Provider = "provider",
    }
}

names! {
    /// State of a subscription. Only an active subscription gives access.
    SubscriptionState {
        /// The subscription is paid and gives access.
        Active = "active",
        /// The period is unpaid; a payment can still arrive.
        PastDue = "past_due",
        /// The subscription was cancelled and its paid period has ended, or another subscription
        /// replaced it.
        Canceled = "canceled",
        /// The subscription was past due for too long.
        Expired = "expired",
    }
}

impl SubscriptionState {
    /// Whether the state is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, SubscriptionState::Canceled | SubscriptionState::Expired)
    }
}

/// A subscription to be created. Its first period starts at its anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSubscription {
    /// Unique id of the subscription.
    pub id: SubscriptionId,
    /// Account that subscribes.
    pub account: AccountId,
    /// Type of the product that the subscription pays for.
    pub product: Product,
    /// Name of the plan, or id of the agent.
    pub subject: Arc<str>,
    /// Price of a period, in credits.
    pub price: Credits,
    /// Length of a period.
    pub cadence: Cadence,
    /// Source of the payments.
    pub payer: Payer,
    /// Weekly allowance; zero unless the product is a plan.
    pub allowance: Credits,
    /// Start of the subscription, from which weeks and periods are counted.
    pub anchor: Timestamp,
    /// End of the first period.
    pub paid_through: Timestamp,
}

/// A stored subscription with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Terms of the subscription; `paid_through` is the end of the last paid period.
    pub terms: NewSubscription,
    /// Number of the last paid period, from 0.
    pub period: i64,
    /// Whether the subscription ends after the paid period instead of being renewed.
    pub cancel_at_period_end: bool,
    /// Time when the first unpaid period became past due; `None` while no period is unpaid.
    pub past_due_since: Option<Timestamp>,
    /// Current state of the subscription.
    pub state: SubscriptionState,
    /// Number of the open week, from 0; `None` if no week is open.
    pub window: Option<i64>,
    /// Plan of the next period, if it differs from the current plan.
    pub next: Option<NextPlan>,
}

/// Plan of the next period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextPlan {
    /// Name of the plan in the settings.
    pub name: Arc<str>,
    /// Billing period of that plan: a month or a year.
    pub cadence: Cadence,
}

/// A change to a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The next period is paid.
    Renew {
        /// Number of the period, greater than the current one. Skipped periods were not paid.
        period: i64,
        /// End of the period.
        paid_through: Timestamp,
    },
    /// The next period was not paid.
    PastDue,
    /// The subscription is not renewed after the paid period.
    CancelAtPeriodEnd,
    /// The subscription is renewed again: undoes [`CancelAtPeriodEnd`](Self::CancelAtPeriodEnd).
    Resume,
    /// The paid period of a cancelled subscription has ended.
    Cancel,
    /// The subscription was past due for too long.
    Expire,
    /// The next period has another plan; `None` for the same plan.
    Next(Option<NextPlan>),
    /// Another subscription replaces this one.
    Replace,
}

impl Change {
    /// Returns the name used in storage.
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

/// A recorded change of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionEvent {
    /// Number of the event within the subscription, from 0.
    pub number: i64,
    /// `created`, or the name of a [`Change`].
    pub kind: String,
    /// State after the change.
    pub state: SubscriptionState,
    /// Number of the last paid period after the change.
    pub period: i64,
    /// Time of the change.
    pub at: Timestamp,
}

/// Outcome of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payment {
    /// The change was paid, or cost nothing. Contains the subscription after the change.
    Done(Box<Subscription>),
    /// The balance does not cover the price. No data was written.
    Denied {
        /// Credits that can be spent.
        available: Credits,
    },
}

/// The plan that applied to a call when its hold was taken. Later changes of the subscription do
/// not affect the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanUse {
    /// Name of the plan.
    pub name: Arc<str>,
    /// Id of the week of the call, from [`window_entry`].
    pub window: TransferId,
}

/// A week of a plan, as shown to the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Week {
    /// Start of the week, inclusive.
    pub start: Timestamp,
    /// End of the week, exclusive.
    pub end: Timestamp,
    /// Allowance of the week.
    pub limit: Credits,
    /// Part of the allowance that was used or is held by running calls.
    pub used: Credits,
}

/// Allowance available to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// The rest of the allowance of the open week with this number.
    Open(i64),
    /// The full allowance of the week with this number, which the call must open first, because the
    /// open week has ended.
    Next(i64),
    /// No allowance: credits must pay for the call.
    Nothing,
}

impl Subscription {
    /// Returns a new, active subscription: its first period is paid, and the first week of a plan
    /// is open.
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

    /// Returns the subscription after a change. `Conflict` if its current state does not allow the
    /// change.
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
                    "{} is {} and does not permit the change '{}'",
                    self.terms.id,
                    state.as_str(),
                    change.as_str()
                );
                return Err(StorageError::new(StorageErrorKind::Conflict, why));
            }
        }
        Ok(next)
    }

    /// Returns the allowance for a call accepted at this time. Weeks are opened only within the
    /// paid period. An open week lasts until its end, unless the subscription ends earlier.
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

    /// Returns the week whose allowance a call would use now, or the open week while the plan gives
    /// no access. `left` is the unused allowance of the open week. `None` if no week is open and
    /// none can be opened.
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

    /// Returns the start and the end of a week.
    pub fn window_span(&self, number: i64) -> (Timestamp, Timestamp) {
        let start = |number: i64| {
            let micros = number.saturating_mul(WEEK_MICROS);
            Timestamp::from_micros(self.terms.anchor.as_micros().saturating_add(micros))
        };
        (start(number), start(number.saturating_add(1)))
    }
}

/// Returns the number of the week that contains a time; negative before the anchor.
pub fn window_number(anchor: Timestamp, at: Timestamp) -> i64 {
    let since = at.as_micros().saturating_sub(anchor.as_micros());
    since.div_euclid(WEEK_MICROS)
}

/// Returns the ledger id of a week, derived from subscription and number, so that each week is
/// opened only once.
pub fn window_entry(subscription: SubscriptionId, number: i64) -> TransferId {
    entry(b"window", subscription.as_u128(), number)
}

/// Returns the ledger id of a period's fee, derived from subscription and number, so that each
/// period is paid only once.
pub fn period_entry(subscription: SubscriptionId, number: i64) -> TransferId {
    entry(b"period", subscription.as_u128(), number)
}

/// Derives a transfer id from a kind, the id of its subject, and a number.
pub(crate) fn entry(kind: &[u8], of: u128, number: i64) -> TransferId {
    let digest = Sha256::new()
        .chain_update(kind)
        .chain_update(of.to_be_bytes())
        .chain_update(number.to_be_bytes());
    first_bits(digest)
}

/// Returns the id made of the first 128 bits of a digest.
pub(crate) fn first_bits(digest: Sha256) -> TransferId {
    let digest = digest.finalize();
    let first = digest.iter().take(16);
    TransferId::from_u128(first.fold(0, |id, byte| (id << 8) | u128::from(*byte)))
}

/// Stores subscriptions. Every method is atomic together with its transfers: a method that fails
/// has written nothing. Every change appends an immutable event.
#[async_trait]
pub trait SubscriptionStore: Send + Sync {
    /// Creates a subscription, pays its first period if the payer is credits, and opens the first
    /// week of a plan. `NotFound` if the account does not exist. `Conflict` if the id was used, or
    /// if the product is a plan and the account already has a plan that is active or past due.
    async fn subscribe(&self, new: NewSubscription) -> Result<Payment>;

    /// Ends a subscription and creates another one of the same account, whose first period costs
    /// `fee` instead of its price. Fails with the errors of [`subscribe`](Self::subscribe) and
    /// [`change`](Self::change); a failed call writes nothing.
    async fn replace(&self, old: SubscriptionId, new: NewSubscription, fee: Credits) -> Result<Payment>;

    /// Changes a subscription; credits pay for a renewal if they are its payer. When the
    /// subscription ends, the rest of its open week goes to `breakage`. `NotFound` if it does not
    /// exist. `Conflict` if its state does not allow the change, for example a renewal of a paid
    /// period.
    async fn change(&self, id: SubscriptionId, change: Change, at: Timestamp) -> Result<Payment>;

    /// Returns the subscription; `None` if it does not exist.
    async fn get(&self, id: SubscriptionId) -> Result<Option<Subscription>>;

    /// Lists the subscriptions of an account, newest first.
    async fn list(&self, account: AccountId) -> Result<Vec<Subscription>>;

    /// Returns the unused allowance of the open week of an account's plan. `NotFound` if the
    /// account does not exist.
    async fn allowance(&self, account: AccountId) -> Result<Credits>;

    /// Lists up to `limit` active and past due subscriptions whose paid period has ended, longest
    /// overdue first.
    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Subscription>>;

    /// Lists the events of a subscription, oldest first.
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

    /// Returns the time this many weeks and microseconds after the anchor.
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
        assert_eq!(ends.draw(after(4, 1)), Draw::Nothing, "the paid period has ended");
        for state in [
            SubscriptionState::PastDue,
            SubscriptionState::Canceled,
            SubscriptionState::Expired,
        ] {
            let plan = Subscription { state, ..plan() };
            assert_eq!(plan.draw(after(0, 0)), Draw::Nothing, "{state:?}");
        }
    }

    /// Each row contains a state, whether the subscription is cancelled, and the new state after
    /// each change, in the order of `changes`.
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
        // PostgreSQL computes the same value; a different value would open a week twice.
        assert_eq!(
            window_entry(one, 0).to_string(),
            "xfer_7644d002e2709d068eca50a70b38998d"
        );
    }

    #[test]
    fn names_round_trip() {
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
