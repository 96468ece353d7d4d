//! Plans, their subscriptions, and the renewal of due subscriptions.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::tz::TimeZone;
use tollgate_storage::{
    Cadence, Change, NewSubscription, NextPlan, Payer, Payment, Product, StorageError, StorageErrorKind,
    Subscription, SubscriptionState, SubscriptionStore,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, Timestamp};

/// Time that a subscription may be past due before it expires.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Maximum number of subscriptions in one pass.
const BATCH: u32 = 10_000;

const MONTHS_OF_A_YEAR: i64 = 12;

/// A plan as offered by the operator. Later changes of the plan do not affect existing
/// subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Unique name of the plan.
    pub name: Arc<str>,
    /// Price of a billing period, in credits.
    pub price: Credits,
    /// Billing period: a month or a year.
    pub cadence: Cadence,
    /// Payment from credits, or through a payment provider.
    pub payer: Payer,
    /// Credits that each week includes.
    pub allowance: Credits,
    /// Patterns of the models that the allowance covers.
    pub models: Vec<String>,
}

impl Plan {
    /// Returns the plan with this billing period. For a monthly plan, a year costs twelve months.
    /// `None` for a yearly plan with a monthly period, or on overflow.
    pub fn with_cadence(mut self, cadence: Cadence) -> Option<Plan> {
        match (self.cadence, cadence) {
            (Cadence::Yearly, Cadence::Monthly) => return None,
            (Cadence::Monthly, Cadence::Yearly) => {
                let price = self.price.nanos().checked_mul(MONTHS_OF_A_YEAR)?;
                self.price = Credits::from_nanos(price);
            }
            _ => {}
        }
        self.cadence = cadence;
        Some(self)
    }
}

/// The currently offered plans, by name.
#[derive(Debug, Default)]
pub struct Plans(RwLock<Arc<BTreeMap<Arc<str>, Plan>>>);

impl Plans {
    /// Returns all offered plans, by name.
    pub fn all(&self) -> Arc<BTreeMap<Arc<str>, Plan>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the offered plans.
    pub fn replace(&self, plans: Vec<Plan>) {
        let plans = plans.into_iter().map(|plan| (plan.name.clone(), plan));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(plans.collect());
    }
}

/// Returns the end of a period; periods are counted from 0. Months are calendar months in UTC from
/// the anchor; in a shorter month, the last day is used. A time outside the calendar is `i64::MAX`.
pub fn period_end(anchor: Timestamp, cadence: Cadence, period: i64) -> Timestamp {
    let months = match cadence {
        Cadence::Monthly => 1,
        Cadence::Yearly => MONTHS_OF_A_YEAR,
    };
    let end = || {
        let anchor = jiff::Timestamp::from_microsecond(anchor.as_micros()).ok()?;
        let months = period.checked_add(1)?.checked_mul(months)?;
        let months = jiff::Span::new().try_months(months).ok()?;
        let end = anchor.to_zoned(TimeZone::UTC).checked_add(months).ok()?;
        Some(end.timestamp().as_microsecond())
    };
    Timestamp::from_micros(end().unwrap_or(i64::MAX))
}

/// Returns the renewal for the next period: the period that contains `now`, and at least the one
/// after the last paid period. Time without a plan is not charged.
fn next_period(subscription: &Subscription, now: Timestamp) -> Change {
    let terms = &subscription.terms;
    let mut period = subscription.period.saturating_add(1);
    let mut paid_through = period_end(terms.anchor, terms.cadence, period);
    while paid_through <= now {
        period = period.saturating_add(1);
        paid_through = period_end(terms.anchor, terms.cadence, period);
    }
    Change::Renew { period, paid_through }
}

fn terms(id: SubscriptionId, account: AccountId, plan: Plan, anchor: Timestamp) -> NewSubscription {
    NewSubscription {
        id,
        account,
        product: Product::Plan,
        subject: plan.name,
        price: plan.price,
        cadence: plan.cadence,
        payer: plan.payer,
        allowance: plan.allowance,
        anchor,
        paid_through: period_end(anchor, plan.cadence, 0),
    }
}

/// Returns the part of the last paid price for the time after the open week, which would be unused
/// if the subscription ended now. Rounded down.
fn unused(subscription: &Subscription, now: Timestamp) -> Credits {
    let terms = &subscription.terms;
    let week_end = subscription.window.map(|open| subscription.window_span(open).1);
    let from = week_end.map_or(now, |end| end.max(now)).as_micros();
    let begin = match subscription.period {
        0 => terms.anchor,
        period => period_end(terms.anchor, terms.cadence, period - 1),
    };
    let (begin, end) = (begin.as_micros(), terms.paid_through.as_micros());
    if subscription.state != SubscriptionState::Active || from >= end || begin >= end {
        return Credits::ZERO;
    }
    let part = i128::from(end) - i128::from(from.max(begin));
    let whole = i128::from(end) - i128::from(begin);
    let unused = i128::from(terms.price.nanos()) * part / whole;
    Credits::from_nanos(i64::try_from(unused).unwrap_or_default())
}

/// Whether the other plan starts immediately: its weekly allowance is not lower, its periods are
/// not shorter, and `unused` is at most its price. Other plans start with the next period.
fn starts_immediately(old: &NewSubscription, plan: &Plan, unused: Credits) -> bool {
    let is_shorter = (old.cadence, plan.cadence) == (Cadence::Yearly, Cadence::Monthly);
    plan.allowance >= old.allowance && !is_shorter && unused <= plan.price
}

/// Changes the plan of a subscription. An immediate change starts a new subscription with the id
/// `new`, whose first period is cheaper by the unused part of the old one if credits pay for it.
/// Other changes take effect with the next period. Returns the resulting subscription.
pub async fn change_plan(
    subscriptions: &dyn SubscriptionStore,
    id: SubscriptionId,
    new: SubscriptionId,
    plan: Plan,
    now: Timestamp,
) -> Result<Subscription, Error> {
    let found = subscriptions.get(id).await.map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "The subscription does not exist."))?;
    let old = &found.terms;
    let refuse = |message: &str| Err(Error::new(ErrorCode::InvalidParameter, message).with_param("plan"));
    if old.product != Product::Plan {
        return refuse("The subscription is not for a plan, so its plan cannot change.");
    }
    if found.state != SubscriptionState::Active {
        return refuse(
            "The subscription is not active. If a payment is overdue, pay it; otherwise, create a new subscription.",
        );
    }
    if plan.payer != old.payer {
        return refuse(
            "The new plan has another payer than the subscription. Cancel the subscription, and subscribe to the new plan after it has ended.",
        );
    }
    let is_same = plan.name == old.subject && plan.cadence == old.cadence;
    if !is_same {
        let unused = match old.payer {
            Payer::Credits => unused(&found, now),
            Payer::Provider => Credits::ZERO,
        };
        if starts_immediately(old, &plan, unused) {
            let fee = plan.price.saturating_sub(unused);
            let replaced = subscriptions
                .replace(id, terms(new, old.account, plan, now), fee)
                .await;
            return done(replaced.map_err(|error| changed_meanwhile(error, &found))?, fee);
        }
    }
    let next = (!is_same).then_some(NextPlan {
        name: plan.name,
        cadence: plan.cadence,
    });
    if next.is_none() && found.next.is_none() {
        return refuse("The subscription already has this plan.");
    }
    let changed = subscriptions.change(id, Change::Next(next), now).await;
    done(
        changed.map_err(|error| changed_meanwhile(error, &found))?,
        Credits::ZERO,
    )
}

fn changed_meanwhile(error: StorageError, subscription: &Subscription) -> Error {
    let message = match (error.kind, subscription.cancel_at_period_end) {
        (StorageErrorKind::Conflict, true) => "The subscription is cancelled. Resume it first.",
        (StorageErrorKind::Conflict, false) => {
            "The subscription is already scheduled to change to this plan, or was changed concurrently. Check its next plan before you retry."
        }
        _ => return Error::internal(error),
    };
    Error::new(ErrorCode::InvalidParameter, message).with_param("id")
}

/// Subscribes an account to a plan that starts now.
pub async fn subscribe(
    subscriptions: &dyn SubscriptionStore,
    id: SubscriptionId,
    account: AccountId,
    plan: Plan,
    now: Timestamp,
) -> Result<Subscription, Error> {
    let new = terms(id, account, plan, now);
    let price = new.price;
    let paid = subscriptions
        .subscribe(new)
        .await
        .map_err(|error| match error.kind {
            StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "The account does not exist."),
            StorageErrorKind::Conflict => {
                let message = "The account has a plan that has not ended. An account has one plan at a time.";
                Error::new(ErrorCode::InvalidParameter, message).with_param("account")
            }
            _ => Error::internal(error),
        });
    done(paid?, price)
}

/// A change to a subscription by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAction {
    /// Ends the subscription after the paid period.
    Cancel,
    /// Undoes a cancellation.
    Resume,
    /// Pays the next period from credits, or records a payment through the provider.
    Renew,
}

/// Applies an operator's change to a subscription.
pub async fn change(
    subscriptions: &dyn SubscriptionStore,
    id: SubscriptionId,
    action: PlanAction,
    now: Timestamp,
) -> Result<Subscription, Error> {
    let found = subscriptions.get(id).await.map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "The subscription does not exist."))?;
    let change = match action {
        PlanAction::Cancel => Change::CancelAtPeriodEnd,
        PlanAction::Resume => Change::Resume,
        PlanAction::Renew => next_period(&found, now),
    };
    let changed = subscriptions.change(id, change, now).await;
    let changed = changed.map_err(|error| match error.kind {
        StorageErrorKind::Conflict => refused(&found, action),
        _ => Error::internal(error),
    });
    done(changed?, found.terms.price)
}

fn refused(subscription: &Subscription, action: PlanAction) -> Error {
    let state = subscription.state.as_str();
    let message = match action {
        _ if subscription.state.is_terminal() => {
            format!("The subscription is {state}. Create a new subscription.")
        }
        PlanAction::Cancel => "The subscription already ends after the paid period.".to_owned(),
        PlanAction::Resume => "The subscription is not cancelled.".to_owned(),
        PlanAction::Renew => "The subscription was changed concurrently. Retry.".to_owned(),
    };
    Error::new(ErrorCode::InvalidParameter, message).with_param("id")
}

fn done(payment: Payment, price: Credits) -> Result<Subscription, Error> {
    match payment {
        Payment::Done(subscription) => Ok(*subscription),
        Payment::Denied { available } => {
            let message = format!(
                "The period costs {price} credits, but the account has {available}. Add credits, then retry."
            );
            Err(Error::new(ErrorCode::InsufficientCredits, message))
        }
    }
}

/// Renews, cancels or expires the due subscriptions and returns the number of changes. Several
/// nodes may call this concurrently: each period is paid once. A failure is logged, and the next
/// pass tries again. `is_left` excludes subscriptions: [`test_clock`](crate::test_clock) renews
/// those of accounts with a test clock, [`top_ups`](crate::top_ups) those of a payment provider.
pub async fn renew_due(
    subscriptions: &dyn SubscriptionStore,
    plans: &Plans,
    ids: &IdSource,
    now: Timestamp,
    is_left: impl Fn(&Subscription) -> bool,
) -> u64 {
    let mut due = match subscriptions.due(now, BATCH).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "cannot read the due subscriptions");
            return 0;
        }
    };
    due.retain(|due| !is_left(due));
    renew_all(subscriptions, plans, ids, due, now).await
}

/// Renews, cancels or expires the subscriptions in `due` at `now`, and returns the number of
/// changes.
pub(crate) async fn renew_all(
    subscriptions: &dyn SubscriptionStore,
    plans: &Plans,
    ids: &IdSource,
    due: Vec<Subscription>,
    now: Timestamp,
) -> u64 {
    let mut changed = 0;
    for subscription in due {
        let next = next_plan(plans, &subscription);
        let id = SubscriptionId::from_u128(ids.next(now));
        match renew(subscriptions, &subscription, next.map(|plan| (id, plan)), now).await {
            Ok(change) => changed += u64::from(change),
            // Another node renewed the subscription, or its owner cancelled it concurrently.
            Err(error) if error.kind == StorageErrorKind::Conflict => {}
            Err(error) => {
                tracing::warn!(%error, subscription.id = %subscription.terms.id, "cannot renew a subscription");
            }
        }
    }
    changed
}

/// Returns the plan of the next period, if it differs from the current one and is still offered
/// with the same payer.
fn next_plan(plans: &Plans, subscription: &Subscription) -> Option<Plan> {
    let next = subscription.next.as_ref()?;
    let plan = plans.all().get(&next.name).cloned();
    let plan = plan.and_then(|plan| plan.with_cadence(next.cadence));
    let plan = plan.filter(|plan| plan.payer == subscription.terms.payer);
    if plan.is_none() {
        let name = &next.name;
        tracing::warn!(subscription.id = %subscription.terms.id, "the plan {name} is no longer offered with this cadence and payer; the subscription keeps its current plan");
    }
    plan
}

/// Returns the start of the next plan's subscription: the end of the old one, or `now` if that end
/// is at least one period ago.
fn next_start(subscription: &Subscription, plan: &Plan, now: Timestamp) -> Timestamp {
    let ended = subscription.terms.paid_through;
    match period_end(ended, plan.cadence, 0) > now {
        true => ended,
        false => now,
    }
}

/// Renews or cancels a subscription, or marks it as past due or expired; returns whether it
/// changed. `next` is the plan of the next period, with the id of its subscription.
pub(crate) async fn renew(
    subscriptions: &dyn SubscriptionStore,
    subscription: &Subscription,
    next: Option<(SubscriptionId, Plan)>,
    now: Timestamp,
) -> Result<bool, StorageError> {
    let id = subscription.terms.id;
    if subscription.cancel_at_period_end {
        subscriptions.change(id, Change::Cancel, now).await?;
        return Ok(true);
    }
    if subscription.terms.payer == Payer::Credits {
        let payment = match next {
            Some((new, plan)) => {
                let (price, begin) = (plan.price, next_start(subscription, &plan, now));
                let new = terms(new, subscription.terms.account, plan, begin);
                subscriptions.replace(id, new, price).await?
            }
            None => {
                let change = next_period(subscription, now);
                subscriptions.change(id, change, now).await?
            }
        };
        if matches!(payment, Payment::Done(_)) {
            return Ok(true);
        }
    }
    let change = match (subscription.state, subscription.past_due_since) {
        (SubscriptionState::Active, _) => Change::PastDue,
        (_, Some(since)) if now.since(since) >= GRACE => Change::Expire,
        _ => return Ok(false),
    };
    let state = change.as_str();
    subscriptions.change(id, change, now).await?;
    tracing::info!(subscription.id = %id, state, "a period of subscription {id} was not paid");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let instant: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_micros(instant.as_microsecond())
    }

    #[test]
    fn periods_are_calendar_months_from_the_anchor() {
        for (anchor, cadence, period, end) in [
            (
                "2026-01-31T13:30:00.000001Z",
                Cadence::Monthly,
                0,
                "2026-02-28T13:30:00.000001Z",
            ),
            (
                "2026-01-31T13:30:00.000001Z",
                Cadence::Monthly,
                1,
                "2026-03-31T13:30:00.000001Z",
            ),
            (
                "2026-12-05T00:00:00Z",
                Cadence::Monthly,
                0,
                "2027-01-05T00:00:00Z",
            ),
            ("2028-02-29T00:00:00Z", Cadence::Yearly, 0, "2029-02-28T00:00:00Z"),
            ("2028-02-29T00:00:00Z", Cadence::Yearly, 3, "2032-02-29T00:00:00Z"),
        ] {
            assert_eq!(
                period_end(at(anchor), cadence, period),
                at(end),
                "{anchor} {period}"
            );
        }
        let end_of_time = Timestamp::from_micros(i64::MAX);
        assert_eq!(
            period_end(at("2026-01-31T00:00:00Z"), Cadence::Monthly, i64::MAX),
            end_of_time
        );
    }

    #[test]
    fn a_year_of_a_monthly_plan_costs_twelve_months() {
        let plan = |cadence| Plan {
            name: "lite".into(),
            price: Credits::from_nanos(5),
            cadence,
            payer: Payer::Credits,
            allowance: Credits::ZERO,
            models: Vec::new(),
        };
        let price = |from, to| plan(from).with_cadence(to).map(|plan| plan.price.nanos());
        assert_eq!(price(Cadence::Monthly, Cadence::Monthly), Some(5));
        assert_eq!(price(Cadence::Monthly, Cadence::Yearly), Some(60));
        assert_eq!(price(Cadence::Yearly, Cadence::Yearly), Some(5));
        assert_eq!(price(Cadence::Yearly, Cadence::Monthly), None);
    }

    fn subscribed(anchor: &str, period: i64, window: Option<i64>) -> Subscription {
        let anchor = at(anchor);
        let plan = Plan {
            name: "lite".into(),
            price: Credits::from_nanos(3_000),
            cadence: Cadence::Monthly,
            payer: Payer::Credits,
            allowance: Credits::from_nanos(500),
            models: vec!["*".to_owned()],
        };
        let terms = terms(
            SubscriptionId::from_u128(1),
            AccountId::from_u128(2),
            plan,
            anchor,
        );
        let paid_through = period_end(anchor, Cadence::Monthly, period);
        Subscription {
            period,
            window,
            ..Subscription::begin(NewSubscription {
                paid_through,
                ..terms
            })
        }
    }

    /// A period of 30 days costs 3,000: 100 a day is unused for the days after the open week.
    #[test]
    fn unused_time_starts_after_the_open_week() {
        for (period, window, now, expected) in [
            (0, Some(0), "2026-11-01T00:00:00Z", 2_300),
            (0, Some(0), "2026-11-07T23:59:59Z", 2_300),
            (0, Some(1), "2026-11-08T00:00:00Z", 1_600),
            // The current week is not open, so that it is unused from now on.
            (0, Some(0), "2026-11-10T00:00:00Z", 2_100),
            (0, None, "2026-11-10T12:00:00Z", 2_050),
            (0, Some(4), "2026-11-29T00:00:00Z", 0),
            (0, Some(0), "2026-12-01T00:00:00Z", 0),
            (0, Some(0), "2027-12-01T00:00:00Z", 0),
            // December has 31 days, and the week that started in November includes five of them.
            (1, Some(4), "2026-12-01T00:00:00Z", 2_516),
        ] {
            let subscription = subscribed("2026-11-01T00:00:00Z", period, window);
            assert_eq!(
                unused(&subscription, at(now)).nanos(),
                expected,
                "{period} {window:?} {now}"
            );
        }
        let owed = Subscription {
            state: SubscriptionState::PastDue,
            ..subscribed("2026-11-01T00:00:00Z", 0, Some(0))
        };
        assert_eq!(unused(&owed, at("2026-11-10T00:00:00Z")), Credits::ZERO);
    }

    /// Each row contains the allowance, price and billing period of the other plan, the unused part
    /// of the old one, and whether the other plan starts immediately.
    #[test]
    fn upgrades_start_immediately_and_downgrades_next_period() {
        let old = subscribed("2026-11-01T00:00:00Z", 0, Some(0)).terms;
        for (allowance, price, cadence, unused, expected) in [
            (501, 4_000, Cadence::Monthly, 2_300, true),
            (500, 3_000, Cadence::Monthly, 2_300, true),
            (500, 36_000, Cadence::Yearly, 2_300, true),
            (499, 4_000, Cadence::Monthly, 0, false),
            (900, 2_299, Cadence::Monthly, 2_300, false),
            (900, 2_300, Cadence::Monthly, 2_300, true),
        ] {
            let plan = Plan {
                name: "other".into(),
                price: Credits::from_nanos(price),
                cadence,
                payer: Payer::Credits,
                allowance: Credits::from_nanos(allowance),
                models: Vec::new(),
            };
            let immediately = starts_immediately(&old, &plan, Credits::from_nanos(unused));
            assert_eq!(immediately, expected, "{allowance} {price} {unused}");
        }
        let yearly = NewSubscription {
            cadence: Cadence::Yearly,
            ..old
        };
        let monthly = Plan {
            name: "other".into(),
            price: Credits::from_nanos(9_000),
            cadence: Cadence::Monthly,
            payer: Payer::Credits,
            allowance: Credits::from_nanos(900),
            models: Vec::new(),
        };
        assert!(!starts_immediately(&yearly, &monthly, Credits::ZERO));
    }
}
