//! Plans that can be subscribed to, and what is done with subscriptions whose paid time is over.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::tz::TimeZone;
use tollgate_storage::{
    Cadence, Change, NewSubscription, Payer, Payment, Product, StorageError, StorageErrorKind, Subscription,
    SubscriptionState, SubscriptionStore,
};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, Timestamp};

/// How long a subscription may be past due before it expires.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Subscriptions that one pass looks at.
const BATCH: u32 = 10_000;

const MONTHS_OF_A_YEAR: i64 = 12;

/// A plan as the operator offers it. What is subscribed to keeps the terms of its day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub name: Arc<str>,
    /// What a period costs.
    pub price: Credits,
    /// How long a period is.
    pub cadence: Cadence,
    /// Who pays.
    pub payer: Payer,
    /// What a week includes.
    pub allowance: Credits,
    /// Patterns of the models that it covers.
    pub models: Vec<String>,
}

impl Plan {
    /// The plan with periods of this length; a year of a monthly plan costs twelve months. `None` when there is no such
    /// price: a yearly plan has none for a month.
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

/// The plans that are offered now.
#[derive(Debug, Default)]
pub struct Plans(RwLock<Arc<BTreeMap<Arc<str>, Plan>>>);

impl Plans {
    /// Every plan, by name.
    pub fn all(&self) -> Arc<BTreeMap<Arc<str>, Plan>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Offers these from now on.
    pub fn replace(&self, plans: Vec<Plan>) {
        let plans = plans.into_iter().map(|plan| (plan.name.clone(), plan));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(plans.collect());
    }
}

/// When a period is over, counted from 0. Months are calendar months in UTC from the anchor; where a month has no such
/// day, its last one counts. A time that no calendar has is the end of time.
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

/// The next period of a subscription that is to be paid: the one in which `now` is, since nobody pays for time that
/// passed without a plan, and at least the one after the last.
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

/// Subscribes an account to a plan from now on.
pub async fn subscribe(
    subscriptions: &dyn SubscriptionStore,
    id: SubscriptionId,
    account: AccountId,
    plan: Plan,
    now: Timestamp,
) -> Result<Subscription, Error> {
    let new = NewSubscription {
        id,
        account,
        product: Product::Plan,
        subject: plan.name,
        price: plan.price,
        cadence: plan.cadence,
        payer: plan.payer,
        allowance: plan.allowance,
        anchor: now,
        paid_through: period_end(now, plan.cadence, 0),
    };
    let price = new.price;
    let paid = subscriptions
        .subscribe(new)
        .await
        .map_err(|error| match error.kind {
            StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "There is no such account."),
            StorageErrorKind::Conflict => {
                let message = "The account has a plan that has not ended. An account has one plan at a time.";
                Error::new(ErrorCode::InvalidParameter, message).with_param("account")
            }
            _ => Error::internal(error),
        });
    done(paid?, price)
}

/// What an operator does to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is to end with the time that is paid for.
    Cancel,
    /// It is to go on after all.
    Resume,
    /// Its next period is paid: by credits, or as a payment provider says.
    Renew,
}

/// Changes a subscription as an operator wishes.
pub async fn change(
    subscriptions: &dyn SubscriptionStore,
    id: SubscriptionId,
    wish: Wish,
    now: Timestamp,
) -> Result<Subscription, Error> {
    let found = subscriptions.get(id).await.map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such subscription."))?;
    let change = match wish {
        Wish::Cancel => Change::CancelAtPeriodEnd,
        Wish::Resume => Change::Resume,
        Wish::Renew => next_period(&found, now),
    };
    let changed = subscriptions.change(id, change, now).await;
    let changed = changed.map_err(|error| match error.kind {
        StorageErrorKind::Conflict => refused(&found, wish),
        _ => Error::internal(error),
    });
    done(changed?, found.terms.price)
}

fn refused(subscription: &Subscription, wish: Wish) -> Error {
    let state = subscription.state.as_str();
    let message = match wish {
        _ if subscription.state.is_terminal() => format!("The subscription is {state}; make another one."),
        Wish::Cancel => "The subscription already ends with the time that is paid for.".to_owned(),
        Wish::Resume => "The subscription is not cancelled.".to_owned(),
        Wish::Renew => "The subscription was changed meanwhile. Try again.".to_owned(),
    };
    Error::new(ErrorCode::InvalidParameter, message).with_param("id")
}

fn done(payment: Payment, price: Credits) -> Result<Subscription, Error> {
    match payment {
        Payment::Done(subscription) => Ok(*subscription),
        Payment::Denied { available } => {
            let message = format!("The period costs {price} credits and the account has {available}.");
            Err(Error::new(ErrorCode::InsufficientCredits, message))
        }
    }
}

/// Renews what is due, or says what else becomes of it; answers how many subscriptions changed. Several nodes may do so
/// at once: a period is paid once. A failure is logged and the next pass tries again.
pub async fn renew_due(subscriptions: &dyn SubscriptionStore, now: Timestamp) -> u64 {
    let due = match subscriptions.due(now, BATCH).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "cannot look for subscriptions that are due");
            return 0;
        }
    };
    let mut changed = 0;
    for subscription in due {
        match renew(subscriptions, &subscription, now).await {
            Ok(change) => changed += u64::from(change),
            // Another node did it, or its owner cancelled meanwhile.
            Err(error) if error.kind == StorageErrorKind::Conflict => {}
            Err(error) => {
                tracing::warn!(%error, subscription.id = %subscription.terms.id, "cannot renew a subscription");
            }
        }
    }
    changed
}

/// Whether something changed.
async fn renew(
    subscriptions: &dyn SubscriptionStore,
    subscription: &Subscription,
    now: Timestamp,
) -> Result<bool, StorageError> {
    let id = subscription.terms.id;
    if subscription.cancel_at_period_end {
        subscriptions.change(id, Change::Cancel, now).await?;
        return Ok(true);
    }
    if subscription.terms.payer == Payer::Credits {
        let payment = subscriptions
            .change(id, next_period(subscription, now), now)
            .await?;
        if matches!(payment, Payment::Done(_)) {
            return Ok(true);
        }
    }
    let change = match (subscription.state, subscription.past_due_since) {
        (SubscriptionState::Active, _) => Change::PastDue,
        (_, Some(since)) if now.since(since) >= GRACE => Change::Expire,
        _ => return Ok(false),
    };
    subscriptions.change(id, change, now).await?;
    let state = change.as_str();
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
}
