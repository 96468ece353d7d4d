//! Implements [`SubscriptionStore`] on SQLite. A change is committed to the database before the
//! method returns. The credits of a change leave the balance in memory before the write, so that no
//! hold can use them. They are restored if the write fails.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::audit::{Leg, TransferSubject};
use tollgate_storage::subscription::{period_entry, window_entry};
use tollgate_storage::{
    Change, NewSubscription, Payer, Payment, Product, Result, StorageError, Subscription, SubscriptionEvent,
    SubscriptionStore,
};
use tollgate_types::{AccountId, Credits, SubscriptionId, Timestamp};

use super::account::conflict;
use super::balances::AccountBalances;
use super::ledger::Transfer;
use super::{Core, Sqlite};
use crate::ids::lock;
use crate::rows::{EventColumns, SubscriptionColumns, id_bytes, storage_error};

const INSERT: &str = "INSERT INTO subscription (id, account_id, product, subject, price, cadence, payer, allowance, \
    anchor, period, paid_through, cancel_at_period_end, past_due_since, state, window_number) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
// Journal records set `window_number`. This statement clears the column when the subscription ends.
const UPDATE: &str = "UPDATE subscription SET period = $2, paid_through = $3, cancel_at_period_end = $4, \
    past_due_since = $5, state = $6, window_number = CASE WHEN $7 THEN NULL ELSE window_number END, next_plan = $8, \
    next_cadence = $9 WHERE id = $1";
const EVENT: &str = "INSERT INTO subscription_event (subscription_id, number, kind, state, period, at) \
    SELECT $1, count(*), $2, $3, $4, $5 FROM subscription_event WHERE subscription_id = $1";
const GET: &str = "SELECT id, account_id, product, subject, price, cadence, payer, allowance, anchor, period, \
    paid_through, cancel_at_period_end, past_due_since, state, window_number, next_plan, next_cadence FROM subscription WHERE id = $1";
const LIST: &str = "SELECT id, account_id, product, subject, price, cadence, payer, allowance, anchor, period, \
    paid_through, cancel_at_period_end, past_due_since, state, window_number, next_plan, next_cadence FROM subscription \
    WHERE account_id = $1 ORDER BY id DESC";
const DUE: &str = "SELECT id, account_id, product, subject, price, cadence, payer, allowance, anchor, period, \
    paid_through, cancel_at_period_end, past_due_since, state, window_number, next_plan, next_cadence FROM subscription \
    WHERE state IN ('active', 'past_due') AND paid_through <= $1 ORDER BY paid_through, id LIMIT $2";
const EVENTS: &str = "SELECT number, kind, state, period, at FROM subscription_event \
    WHERE subscription_id = $1 ORDER BY number";

#[async_trait]
impl SubscriptionStore for Sqlite {
    async fn subscribe(&self, new: NewSubscription) -> Result<Payment> {
        let core = self.0.core.clone();
        self.run_to_completion(async move { core.subscribe(new).await })
            .await
    }

    async fn replace(&self, old: SubscriptionId, new: NewSubscription, fee: Credits) -> Result<Payment> {
        let core = self.0.core.clone();
        self.run_to_completion(async move { core.replace_subscription(old, new, fee).await })
            .await
    }

    async fn change(&self, id: SubscriptionId, change: Change, at: Timestamp) -> Result<Payment> {
        let core = self.0.core.clone();
        self.run_to_completion(async move { core.change_subscription(id, change, at).await })
            .await
    }

    async fn get(&self, id: SubscriptionId) -> Result<Option<Subscription>> {
        self.subscription(id).await
    }

    async fn list(&self, account: AccountId) -> Result<Vec<Subscription>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(list(connection, account)))
            .await
    }

    async fn allowance(&self, account: AccountId) -> Result<Credits> {
        let account_balances = self.account_balances(account)?;
        let left = lock(&account_balances.sums).allowance;
        Ok(Credits::from_nanos(left))
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Subscription>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(due(connection, now, limit)))
            .await
    }

    async fn events(&self, id: SubscriptionId) -> Result<Vec<SubscriptionEvent>> {
        self.read(move |connection| Box::pin(events(connection, id)))
            .await
    }
}

/// Credits and allowance that a change removes from the balances in memory before the write.
struct ReservedFunds {
    account_balances: Arc<AccountBalances>,
    fee: i64,
    /// The plan that ends and the unused allowance of its week, in nano-credits.
    ended: Option<(Box<Subscription>, i64)>,
}

impl ReservedFunds {
    /// Returns the number of the week that the change closes, and the week's unused allowance in
    /// nano-credits.
    fn closed(&self) -> Option<(i64, i64)> {
        let (plan, left) = self.ended.as_ref()?;
        Some((plan.window?, *left))
    }

    /// Restores the balances after a failed write.
    fn restore(self) {
        let mut sums = lock(&self.account_balances.sums);
        sums.credits += self.fee;
        if let Some((plan, left)) = self.ended {
            sums.plan = Some(plan);
            sums.allowance += left;
        }
    }
}

impl Core {
    async fn subscription(&self, id: SubscriptionId) -> Result<Option<Subscription>> {
        self.flush_resolved().await?;
        self.read(move |connection| Box::pin(get(connection, id))).await
    }

    async fn subscribe(&self, new: NewSubscription) -> Result<Payment> {
        let _change_guard = self.changing.lock().await;
        let account_balances = self.account_balances(new.account)?;
        let subscription = Subscription::begin(new);
        let is_plan = subscription.terms.product == Product::Plan;
        if is_plan && lock(&account_balances.sums).plan.is_some() {
            return Err(conflict("the account already has a plan"));
        }
        let fee = fee_of(&subscription, None);
        let reserved = match take(&account_balances, fee, false) {
            Ok(reserved) => reserved,
            Err(available) => return Ok(Payment::Denied { available }),
        };
        let (written, new_plan) = (subscription.clone(), subscription.clone());
        let done = self.write(
            move |connection| Box::pin(insert(connection, written, fee)),
            move |()| {
                if is_plan {
                    let mut sums = lock(&account_balances.sums);
                    sums.allowance += new_plan.terms.allowance.nanos();
                    sums.plan = Some(Box::new(new_plan));
                }
            },
        );
        finish(done.await, reserved, subscription)
    }

    async fn replace_subscription(
        &self,
        old: SubscriptionId,
        new: NewSubscription,
        fee: Credits,
    ) -> Result<Payment> {
        let _change_guard = self.changing.lock().await;
        let before = self.subscription(old).await?;
        let before = before.filter(|before| before.terms.account == new.account);
        let before = before.ok_or_else(|| StorageError::not_found(old))?;
        let (account_balances, at) = (self.account_balances(new.account)?, new.anchor);
        let ended = before.after(&Change::Replace, at)?;
        let subscription = Subscription::begin(new);
        let fee = fee_of(&subscription, None).map(|_| fee);
        let reserved = match take(&account_balances, fee, ends_plan(&ended)) {
            Ok(reserved) => reserved,
            Err(available) => return Ok(Payment::Denied { available }),
        };
        let (closed, written, new_plan) = (reserved.closed(), subscription.clone(), subscription.clone());
        let done = self.write(
            move |connection| {
                Box::pin(async move {
                    update(connection, ended, Change::Replace, None, closed, at).await?;
                    insert(connection, written, fee).await
                })
            },
            move |()| {
                if new_plan.terms.product == Product::Plan {
                    let mut sums = lock(&account_balances.sums);
                    sums.allowance += new_plan.terms.allowance.nanos();
                    sums.plan = Some(Box::new(new_plan));
                }
            },
        );
        finish(done.await, reserved, subscription)
    }

    async fn change_subscription(
        &self,
        id: SubscriptionId,
        change: Change,
        at: Timestamp,
    ) -> Result<Payment> {
        let _change_guard = self.changing.lock().await;
        let before = self.subscription(id).await?;
        let before = before.ok_or_else(|| StorageError::not_found(id))?;
        let next = before.after(&change, at)?;
        let account_balances = self.account_balances(next.terms.account)?;
        let fee = fee_of(&next, Some(&change));
        let reserved = match take(&account_balances, fee, ends_plan(&next)) {
            Ok(reserved) => reserved,
            Err(available) => return Ok(Payment::Denied { available }),
        };
        let closed = reserved.closed();
        let (written, new_plan) = (next.clone(), next.clone());
        let done = self.write(
            move |connection| Box::pin(update(connection, written, change, fee, closed, at)),
            move |()| {
                let mut sums = lock(&account_balances.sums);
                let plan = sums.plan.as_deref_mut().filter(|plan| plan.terms.id == id);
                if let Some(plan) = plan {
                    let window = plan.window;
                    *plan = Subscription { window, ..new_plan };
                }
            },
        );
        finish(done.await, reserved, next)
    }
}

/// Returns the fee of a new or renewed subscription; `None` if credits do not pay the fee.
fn fee_of(next: &Subscription, change: Option<&Change>) -> Option<Credits> {
    let pays = matches!(change, None | Some(Change::Renew { .. })) && next.terms.payer == Payer::Credits;
    pays.then_some(next.terms.price)
}

fn ends_plan(next: &Subscription) -> bool {
    next.state.is_terminal() && next.terms.product == Product::Plan
}

/// Removes a fee from the balance, and the plan if `ends` is set. Returns the available credits as
/// the error if they do not cover the fee.
fn take(
    account_balances: &Arc<AccountBalances>,
    fee: Option<Credits>,
    ends: bool,
) -> std::result::Result<ReservedFunds, Credits> {
    let fee = fee.unwrap_or_default().nanos();
    let mut sums = lock(&account_balances.sums);
    if sums.credits < fee {
        return Err(sums.balance().credits);
    }
    sums.credits -= fee;
    let plan = if ends { sums.plan.take() } else { None };
    let ended = plan.map(|plan| (plan, std::mem::take(&mut sums.allowance)));
    drop(sums);
    Ok(ReservedFunds {
        account_balances: account_balances.clone(),
        fee,
        ended,
    })
}

fn finish(done: Result<()>, reserved: ReservedFunds, subscription: Subscription) -> Result<Payment> {
    match done {
        Ok(()) => Ok(Payment::Done(Box::new(subscription))),
        Err(error) => {
            reserved.restore();
            Err(error)
        }
    }
}

async fn insert(
    connection: &mut SqliteConnection,
    subscription: Subscription,
    fee: Option<Credits>,
) -> Result<()> {
    let terms = &subscription.terms;
    let row = sqlx::query(INSERT)
        .bind(id_bytes(terms.id.as_u128()))
        .bind(id_bytes(terms.account.as_u128()))
        .bind(terms.product.as_str())
        .bind(terms.subject.to_string())
        .bind(terms.price.nanos())
        .bind(terms.cadence.as_str())
        .bind(terms.payer.as_str())
        .bind(terms.allowance.nanos())
        .bind(terms.anchor.as_micros())
        .bind(subscription.period)
        .bind(terms.paid_through.as_micros())
        .bind(i64::from(subscription.cancel_at_period_end))
        .bind(subscription.past_due_since.map(Timestamp::as_micros))
        .bind(subscription.state.as_str())
        .bind(subscription.window);
    row.execute(&mut *connection).await.map_err(storage_error)?;
    pay(connection, &subscription, fee, terms.anchor).await?;
    if let Some(window) = subscription.window {
        let open = Transfer {
            account: terms.account,
            subject: TransferSubject::Window(window_entry(terms.id, window)),
            leg: Leg::OpenWindow,
            amount: terms.allowance,
            at: terms.anchor,
        };
        open.apply(connection).await?;
    }
    note(connection, &subscription, "created", terms.anchor).await
}

async fn update(
    connection: &mut SqliteConnection,
    next: Subscription,
    change: Change,
    fee: Option<Credits>,
    closed: Option<(i64, i64)>,
    at: Timestamp,
) -> Result<()> {
    let row = sqlx::query(UPDATE)
        .bind(id_bytes(next.terms.id.as_u128()))
        .bind(next.period)
        .bind(next.terms.paid_through.as_micros())
        .bind(i64::from(next.cancel_at_period_end))
        .bind(next.past_due_since.map(Timestamp::as_micros))
        .bind(next.state.as_str())
        .bind(next.state.is_terminal())
        .bind(next.next.as_ref().map(|plan| plan.name.to_string()))
        .bind(next.next.as_ref().map(|plan| plan.cadence.as_str()));
    row.execute(&mut *connection).await.map_err(storage_error)?;
    pay(connection, &next, fee, at).await?;
    if let Some((number, left)) = closed {
        let close = Transfer {
            account: next.terms.account,
            subject: TransferSubject::Window(window_entry(next.terms.id, number)),
            leg: Leg::CloseWindow,
            amount: Credits::from_nanos(left),
            at,
        };
        close.apply(connection).await?;
    }
    note(connection, &next, change.as_str(), at).await
}

/// Writes the transfer of the fee for the subscription's current period. Writes nothing if `fee` is
/// `None`.
async fn pay(
    connection: &mut SqliteConnection,
    subscription: &Subscription,
    fee: Option<Credits>,
    at: Timestamp,
) -> Result<()> {
    let terms = &subscription.terms;
    let Some(amount) = fee else { return Ok(()) };
    let fee = Transfer {
        account: terms.account,
        subject: TransferSubject::Period(period_entry(terms.id, subscription.period)),
        leg: Leg::PlanFee,
        amount,
        at,
    };
    fee.apply(connection).await
}

async fn note(
    connection: &mut SqliteConnection,
    subscription: &Subscription,
    kind: &'static str,
    at: Timestamp,
) -> Result<()> {
    let event = sqlx::query(EVENT)
        .bind(id_bytes(subscription.terms.id.as_u128()))
        .bind(kind)
        .bind(subscription.state.as_str())
        .bind(subscription.period)
        .bind(at.as_micros());
    event.execute(connection).await.map(drop).map_err(storage_error)
}

async fn get(connection: &mut SqliteConnection, id: SubscriptionId) -> Result<Option<Subscription>> {
    let columns: Option<SubscriptionColumns> = sqlx::query_as(GET)
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(Subscription::try_from).transpose()
}

async fn list(connection: &mut SqliteConnection, account: AccountId) -> Result<Vec<Subscription>> {
    let rows: Vec<SubscriptionColumns> = sqlx::query_as(LIST)
        .bind(id_bytes(account.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Subscription::try_from).collect()
}

async fn due(connection: &mut SqliteConnection, now: Timestamp, limit: u32) -> Result<Vec<Subscription>> {
    let rows: Vec<SubscriptionColumns> = sqlx::query_as(DUE)
        .bind(now.as_micros())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Subscription::try_from).collect()
}

async fn events(connection: &mut SqliteConnection, id: SubscriptionId) -> Result<Vec<SubscriptionEvent>> {
    let rows: Vec<EventColumns> = sqlx::query_as(EVENTS)
        .bind(id_bytes(id.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(SubscriptionEvent::try_from).collect()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, UPDATE, EVENT, GET, LIST, DUE, EVENTS];
