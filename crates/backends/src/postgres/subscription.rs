//! Implements [`SubscriptionStore`] on PostgreSQL. Like a hold, a change is a transaction that
//! first locks the account's row of credits, so that the values that it reads do not change.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use tollgate_storage::audit::Leg;
use tollgate_storage::subscription::{period_entry, window_entry};
use tollgate_storage::{
    Change, LedgerAccount, NewSubscription, Payer, Payment, Result, StorageError, Subscription,
    SubscriptionEvent, SubscriptionStore,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, SubscriptionId, Timestamp};

use super::Node;
use super::error::while_running;
use super::pool::Statement;
use super::rows;
use crate::rows::{EventColumns, SubscriptionColumns};

pub(super) struct Subscriptions(pub(super) Arc<Node>);

/// The active plan of an account with the remaining allowance of its open week.
pub(super) const ACTIVE_PLAN: &str = "SELECT subscription.*, ledger_account.balance FROM subscription
    JOIN ledger_account ON ledger_account.account_id = subscription.account_id AND kind = 'allowance'
    WHERE subscription.account_id = $1 AND product = 'plan' AND state = 'active'";

#[async_trait]
impl SubscriptionStore for Subscriptions {
    async fn subscribe(&self, new: NewSubscription) -> Result<Payment> {
        let (account, fee) = (new.account, new.price);
        // Leased credits could not pay the fee, and would pay for calls that the plan covers.
        self.0.recall_and_wait(account).await?;
        self.transact(move |connection| Box::pin(subscribe(connection, new, fee)))
            .await
    }

    async fn replace(&self, old: SubscriptionId, new: NewSubscription, fee: Credits) -> Result<Payment> {
        let account = new.account;
        self.0.recall_and_wait(account).await?;
        self.transact(move |connection| Box::pin(replace(connection, old, new, fee)))
            .await
    }

    async fn change(&self, id: SubscriptionId, change: Change, at: Timestamp) -> Result<Payment> {
        let apply_change = || {
            let change = change.clone();
            self.transact(move |connection| Box::pin(apply_change(connection, id, change, at)))
        };
        let denied = match apply_change().await? {
            Payment::Denied { available } => Payment::Denied { available },
            done => return Ok(done),
        };
        match self.get(id).await? {
            Some(subscription) if self.0.recall_and_wait(subscription.terms.account).await? => {
                apply_change().await
            }
            _ => Ok(denied),
        }
    }

    async fn get(&self, id: SubscriptionId) -> Result<Option<Subscription>> {
        let row = self.0.pool.optional(get(id)).await?;
        row.as_ref().map(subscription).transpose()
    }

    async fn list(&self, account: AccountId) -> Result<Vec<Subscription>> {
        let statement = sqlx::query("SELECT * FROM subscription WHERE account_id = $1 ORDER BY id DESC")
            .bind(account.as_u128().to_be_bytes());
        self.0
            .pool
            .all(statement)
            .await?
            .iter()
            .map(subscription)
            .collect()
    }

    async fn allowance(&self, account: AccountId) -> Result<Credits> {
        let statement = sqlx::query(
            "SELECT COALESCE((SELECT balance FROM ledger_account WHERE account_id = id AND kind = 'allowance'), 0)
                AS balance
            FROM account WHERE id = $1",
        );
        let statement = statement.bind(account.as_u128().to_be_bytes());
        match self.0.pool.optional(statement).await? {
            Some(row) => rows::credits(&row, "balance"),
            None => Err(StorageError::not_found(account)),
        }
    }

    async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Subscription>> {
        let statement = sqlx::query(
            "SELECT * FROM subscription WHERE state IN ('active', 'past_due') AND paid_through <= $1
            ORDER BY paid_through, id LIMIT $2",
        );
        let statement = statement.bind(now.as_micros()).bind(i64::from(limit));
        self.0
            .pool
            .all(statement)
            .await?
            .iter()
            .map(subscription)
            .collect()
    }

    async fn events(&self, id: SubscriptionId) -> Result<Vec<SubscriptionEvent>> {
        let statement =
            sqlx::query("SELECT * FROM subscription_event WHERE subscription_id = $1 ORDER BY number")
                .bind(id.as_u128().to_be_bytes());
        let found = self.0.pool.all(statement).await?;
        found.iter().map(rows::whole::<EventColumns, _>).collect()
    }
}

impl Subscriptions {
    /// Runs `work` in a transaction, which is rolled back if `work` fails or the payment is denied.
    async fn transact<F>(&self, work: F) -> Result<Payment>
    where
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<Payment>> + Send + 'static,
    {
        self.0
            .pool
            .call(|connection| Box::pin(within_transaction(connection, work)))
            .await?
    }
}

async fn within_transaction<F>(connection: &mut PgConnection, work: F) -> sqlx::Result<Result<Payment>>
where
    F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<Payment>> + Send,
{
    let mut transaction = connection.begin().await?;
    let outcome = work(&mut transaction).await;
    match outcome {
        Ok(Payment::Done(_)) => transaction.commit().await?,
        _ => transaction.rollback().await?,
    }
    Ok(outcome)
}

fn subscription(row: &PgRow) -> Result<Subscription> {
    rows::whole::<SubscriptionColumns, _>(row)
}

fn get(id: SubscriptionId) -> Statement {
    sqlx::query("SELECT * FROM subscription WHERE id = $1").bind(id.as_u128().to_be_bytes())
}

async fn replace(
    connection: &mut PgConnection,
    old: SubscriptionId,
    new: NewSubscription,
    fee: Credits,
) -> Result<Payment> {
    let found = get(old)
        .fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    let owner = found.as_ref().map(subscription).transpose()?;
    if owner.is_none_or(|owner| owner.terms.account != new.account) {
        return Err(StorageError::not_found(old));
    }
    apply_change(connection, old, Change::Replace, new.anchor).await?;
    subscribe(connection, new, fee).await
}

async fn subscribe(connection: &mut PgConnection, new: NewSubscription, fee: Credits) -> Result<Payment> {
    let (account, at) = (new.account, new.anchor);
    let available = lock(connection, account).await?;
    let subscription = Subscription::begin(new);
    let terms = &subscription.terms;
    let statement = sqlx::query(
        "INSERT INTO subscription (id, account_id, product, subject, price, cadence, payer, allowance, anchor, period,
            paid_through, cancel_at_period_end, state, window_number)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13)",
    );
    let statement = statement
        .bind(terms.id.as_u128().to_be_bytes())
        .bind(account.as_u128().to_be_bytes())
        .bind(terms.product.as_str())
        .bind(terms.subject.to_string())
        .bind(terms.price.nanos())
        .bind(terms.cadence.as_str())
        .bind(terms.payer.as_str())
        .bind(terms.allowance.nanos())
        .bind(terms.anchor.as_micros())
        .bind(subscription.period)
        .bind(terms.paid_through.as_micros())
        .bind(subscription.state.as_str())
        .bind(subscription.window);
    execute(connection, statement).await?;
    add_missing_ledger_accounts(connection, account).await?;
    if !pay(connection, &subscription, fee, available, at).await? {
        return Ok(Payment::Denied { available });
    }
    if let Some(window) = subscription.window {
        let entry = window_entry(terms.id, window);
        let transfer = (entry, "window", Leg::OpenWindow, terms.allowance);
        move_credits(connection, account, transfer, at).await?;
    }
    note(connection, &subscription, "created", at).await?;
    Ok(Payment::Done(Box::new(subscription)))
}

async fn apply_change(
    connection: &mut PgConnection,
    id: SubscriptionId,
    change: Change,
    at: Timestamp,
) -> Result<Payment> {
    let found = get(id)
        .fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    let found = found.ok_or_else(|| StorageError::not_found(id))?;
    let account = subscription(&found)?.terms.account;
    let available = lock(connection, account).await?;
    let row = get(id).fetch_one(&mut *connection).await.map_err(while_running)?;
    let before = subscription(&row)?;
    let next = before.after(&change, at)?;
    if matches!(change, Change::Renew { .. })
        && !pay(connection, &next, next.terms.price, available, at).await?
    {
        return Ok(Payment::Denied { available });
    }
    if let (Some(window), None) = (before.window, next.window) {
        let close = sqlx::query("SELECT close_window($1, $2, $3, $4)")
            .bind(account.as_u128().to_be_bytes())
            .bind(id.as_u128().to_be_bytes())
            .bind(window)
            .bind(at.as_micros());
        execute(connection, close).await?;
    }
    let update = sqlx::query(
        "UPDATE subscription SET period = $2, paid_through = $3, cancel_at_period_end = $4, past_due_since = $5,
            state = $6, window_number = $7, next_plan = $8, next_cadence = $9 WHERE id = $1",
    );
    let update = update
        .bind(id.as_u128().to_be_bytes())
        .bind(next.period)
        .bind(next.terms.paid_through.as_micros())
        .bind(i64::from(next.cancel_at_period_end))
        .bind(next.past_due_since.map(Timestamp::as_micros))
        .bind(next.state.as_str())
        .bind(next.window)
        .bind(next.next.as_ref().map(|plan| plan.name.to_string()))
        .bind(next.next.as_ref().map(|plan| plan.cadence.as_str()));
    execute(connection, update).await?;
    note(connection, &next, change.as_str(), at).await?;
    Ok(Payment::Done(Box::new(next)))
}

/// Locks the account's row of credits until the transaction ends; returns the credits.
pub(super) async fn lock(connection: &mut PgConnection, account: AccountId) -> Result<Credits> {
    let statement = sqlx::query(
        "SELECT balance FROM ledger_account WHERE account_id = $1 AND kind = 'credits' FOR NO KEY UPDATE",
    );
    let statement = statement.bind(account.as_u128().to_be_bytes());
    let row = statement
        .fetch_optional(connection)
        .await
        .map_err(while_running)?;
    rows::credits(&row.ok_or_else(|| StorageError::not_found(account))?, "balance")
}

/// Creates the ledger accounts that an account lacks. Nodes of the previous version create accounts
/// without the ledger accounts that this version added.
pub(super) async fn add_missing_ledger_accounts(
    connection: &mut PgConnection,
    account: AccountId,
) -> Result<()> {
    let kinds: Vec<&'static str> = LedgerAccount::ALL.map(LedgerAccount::as_str).into();
    let statement = sqlx::query(
        "INSERT INTO ledger_account (account_id, kind, balance) SELECT $1, kind, 0 FROM unnest($2::text[]) AS kinds (kind)
        ON CONFLICT DO NOTHING",
    );
    execute(
        connection,
        statement.bind(account.as_u128().to_be_bytes()).bind(kinds),
    )
    .await
}

/// Transfers the fee of the subscription's current period from credits, unless the payment provider
/// collects the fee. Returns `false` if the credits do not cover the fee.
async fn pay(
    connection: &mut PgConnection,
    subscription: &Subscription,
    fee: Credits,
    available: Credits,
    at: Timestamp,
) -> Result<bool> {
    let terms = &subscription.terms;
    if terms.payer == Payer::Provider {
        return Ok(true);
    }
    if available < fee {
        return Ok(false);
    }
    let entry = period_entry(terms.id, subscription.period);
    let transfer = (entry, "period", Leg::PlanFee, fee);
    move_credits(connection, terms.account, transfer, at).await?;
    Ok(true)
}

/// Moves an amount from one ledger account to another. The caller must hold the account's lock.
pub(super) async fn move_credits(
    connection: &mut PgConnection,
    account: AccountId,
    (entry, subject, leg, amount): (TransferId, &'static str, Leg, Credits),
    at: Timestamp,
) -> Result<()> {
    let (debit, credit) = leg.sides();
    let statement = sqlx::query("SELECT move_credits($1, $2, $3, $4, $5, $6, $7, $8, NULL)")
        .bind(account.as_u128().to_be_bytes())
        .bind(entry.as_u128().to_be_bytes())
        .bind(subject)
        .bind(leg.as_i16())
        .bind(debit.as_str())
        .bind(credit.as_str())
        .bind(amount.nanos())
        .bind(at.as_micros());
    execute(connection, statement).await
}

async fn note(
    connection: &mut PgConnection,
    subscription: &Subscription,
    kind: &'static str,
    at: Timestamp,
) -> Result<()> {
    let statement = sqlx::query(
        "INSERT INTO subscription_event (subscription_id, number, kind, state, period, at)
        SELECT $1, count(*), $2, $3, $4, $5 FROM subscription_event WHERE subscription_id = $1",
    );
    let statement = statement
        .bind(subscription.terms.id.as_u128().to_be_bytes())
        .bind(kind)
        .bind(subscription.state.as_str())
        .bind(subscription.period)
        .bind(at.as_micros());
    execute(connection, statement).await
}

/// Executes a statement on the connection of a transaction.
pub(super) async fn execute(connection: &mut PgConnection, statement: Statement) -> Result<()> {
    statement
        .execute(connection)
        .await
        .map(drop)
        .map_err(while_running)
}
