//! Implements [`LotStore`] on PostgreSQL. Like a hold, a change is a transaction that first locks
//! the account's row of credits, so that spent and held amounts do not change while they are
//! assigned.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use tollgate_storage::lot::{Funds, LotRemoval, Withdrawal, assign, expire, withdraw};
use tollgate_storage::{
    Grant, Lot, LotStore, NewRefund, RefundOutcome, Result, StorageError, StorageErrorKind,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Timestamp};

use super::Node;
use super::error::while_running;
use super::pool::{Pool, Statement};
use super::subscription::{add_missing_ledger_accounts, execute, lock, move_credits};
use super::{refund, rows};
use crate::rows::LotColumns;

pub(super) struct Lots(pub(super) Arc<Node>);

#[async_trait]
impl LotStore for Lots {
    async fn lots(&self, account: AccountId, now: Timestamp) -> Result<Vec<Lot>> {
        transact(self.0.settled(Some(account)).await, move |connection| {
            Box::pin(async move {
                expire_lots(connection, account, now).await?;
                let mut lots = select(
                    connection,
                    "SELECT * FROM credit_lot WHERE account_id = $1",
                    account,
                )
                .await?;
                lots.sort_by(Lot::burn_order);
                Ok(lots)
            })
        })
        .await
    }

    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let over = sqlx::query(
            "SELECT account_id FROM credit_lot WHERE remaining > 0 AND expires_at <= $1
            GROUP BY account_id ORDER BY min(expires_at) LIMIT $2",
        );
        let over = over.bind(now.as_micros()).bind(i64::from(limit));
        let mut expired = 0;
        for row in self.0.pool.all(over).await? {
            let account = AccountId::from_u128(rows::id(&row, "account_id")?);
            let work = transact(&self.0.pool, move |connection| {
                Box::pin(expire_lots(connection, account, now))
            });
            expired += work.await?;
        }
        Ok(expired)
    }

    async fn withdraw(&self, lot: TransferId, total: Credits, at: Timestamp) -> Result<Withdrawal> {
        let owner =
            sqlx::query("SELECT account_id FROM credit_lot WHERE id = $1").bind(lot.as_u128().to_be_bytes());
        if let Some(row) = self.0.pool.optional(owner).await? {
            let account = AccountId::from_u128(rows::id(&row, "account_id")?);
            self.0.recall_and_wait(account).await?;
        }
        transact(&self.0.pool, move |connection| {
            Box::pin(withdraw_lot(connection, lot, total, at))
        })
        .await
    }

    async fn refund(&self, new: NewRefund) -> Result<RefundOutcome> {
        transact(self.0.settled(Some(new.account)).await, move |connection| {
            Box::pin(refund::refund_call(connection, new))
        })
        .await
    }
}

/// Adds credits to an account as a separate lot.
pub(super) async fn grant(pool: &Pool, grant: Grant) -> Result<()> {
    transact(pool, move |connection| {
        Box::pin(async move {
            let (before, lots, _) = assigned(connection, grant.account).await?;
            let statement = sqlx::query("SELECT FROM grant_lot($1, $2, $3, $4, $5, $6, $7, $8)")
                .bind(grant.account.as_u128().to_be_bytes())
                .bind(grant.id.as_u128().to_be_bytes())
                .bind(grant.amount.nanos())
                .bind(grant.at.as_micros())
                .bind(grant.terms.kind.as_str())
                .bind(i64::from(grant.terms.priority))
                .bind(grant.terms.expires_at.map(Timestamp::as_micros))
                .bind(grant.terms.note);
            execute(connection, statement).await?;
            update(connection, &before, &lots).await
        })
    })
    .await
}

/// Runs `work` in a transaction, which is rolled back if `work` fails.
pub(super) async fn transact<T, F>(pool: &Pool, work: F) -> Result<T>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
{
    pool.call(|connection| Box::pin(within_transaction(connection, work)))
        .await?
}

async fn within_transaction<T, F>(connection: &mut PgConnection, work: F) -> sqlx::Result<Result<T>>
where
    F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send,
{
    let mut transaction = connection.begin().await?;
    let outcome = work(&mut transaction).await;
    match outcome {
        Ok(_) => transaction.commit().await?,
        Err(_) => transaction.rollback().await?,
    }
    Ok(outcome)
}

/// Locks the account. Returns its lots with remaining credits, the same lots after all spending is
/// assigned, and the account's funds.
pub(super) async fn assigned(
    connection: &mut PgConnection,
    account: AccountId,
) -> Result<(Vec<Lot>, Vec<Lot>, Funds)> {
    let available = lock(connection, account).await?;
    add_missing_ledger_accounts(connection, account).await?;
    let held = sqlx::query(
        "SELECT (COALESCE((SELECT sum(amount - allowance - returned) FROM hold WHERE account_id = $1), 0)
            + COALESCE((SELECT balance FROM ledger_account WHERE account_id = $1 AND kind = 'lease'), 0))::BIGINT AS credits",
    );
    let held = held.bind(account.as_u128().to_be_bytes());
    let row = held.fetch_one(&mut *connection).await.map_err(while_running)?;
    let funds = Funds {
        available,
        held: rows::credits(&row, "credits")?,
    };
    let with_remaining = "SELECT * FROM credit_lot WHERE account_id = $1 AND remaining > 0";
    let before = select(connection, with_remaining, account).await?;
    let mut lots = before.clone();
    assign(&mut lots, funds);
    Ok((before, lots, funds))
}

/// Assigns spending to the lots and removes the credits of expired lots. Returns the number of lots
/// that lost credits.
async fn expire_lots(connection: &mut PgConnection, account: AccountId, now: Timestamp) -> Result<u64> {
    let (before, mut lots, funds) = assigned(connection, account).await?;
    let held = match lots.iter().any(|lot| lot.is_expired(now)) {
        true => open_holds(connection, account).await?,
        false => Vec::new(),
    };
    let held_before = |instant: Timestamp| {
        let earlier = held.iter().filter(|(at, _)| *at < instant);
        Credits::from_nanos(earlier.map(|(_, credits)| credits).sum())
    };
    let removals = expire(&mut lots, funds, now, held_before);
    write_removals(connection, account, (&before, &lots), &removals, now).await?;
    Ok(removals.len() as u64)
}

/// Assigns spending to the lots, then withdraws the unused credits of a purchase or promotion, up
/// to `total` over all withdrawals. Returns `Conflict` for the lot of a refund.
async fn withdraw_lot(
    connection: &mut PgConnection,
    lot: TransferId,
    total: Credits,
    at: Timestamp,
) -> Result<Withdrawal> {
    let statement = sqlx::query(
        "SELECT credit_lot.* FROM account JOIN credit_lot ON account_id = account.id AND credit_lot.id = $1",
    );
    let row = statement
        .bind(lot.as_u128().to_be_bytes())
        .fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    let found: Lot = rows::whole::<LotColumns, _>(&row.ok_or_else(|| StorageError::not_found(lot))?)?;
    if found.terms.kind.withdrawal().is_none() {
        let why = "a refund cannot be withdrawn";
        return Err(StorageError::new(StorageErrorKind::Conflict, why));
    }
    let (before, mut lots, funds) = assigned(connection, found.account).await?;
    let removals = withdraw(&mut lots, funds, lot, total);
    write_removals(
        connection,
        found.account,
        (&before, &lots),
        removals.as_slice(),
        at,
    )
    .await?;
    Ok(Withdrawal {
        account: found.account,
        amount: removals.map_or(Credits::ZERO, |removals| removals.amount),
    })
}

/// Writes the changed lots and the transfers of the removed credits.
async fn write_removals(
    connection: &mut PgConnection,
    account: AccountId,
    (before, lots): (&[Lot], &[Lot]),
    removals: &[LotRemoval],
    at: Timestamp,
) -> Result<()> {
    update(connection, before, lots).await?;
    for LotRemoval { entry, leg, amount } in removals {
        move_credits(connection, account, (*entry, "lot", *leg, *amount), at).await?;
    }
    Ok(())
}

/// Returns the creation time and the held credits (in nano-credits, without allowance) of the
/// account's open holds.
async fn open_holds(connection: &mut PgConnection, account: AccountId) -> Result<Vec<(Timestamp, i64)>> {
    let statement = sqlx::query(
        "SELECT created_at, amount - allowance - returned AS credits FROM hold WHERE account_id = $1",
    );
    let statement = statement.bind(account.as_u128().to_be_bytes());
    let found = statement.fetch_all(connection).await.map_err(while_running)?;
    let open = |row: &PgRow| Ok((rows::timestamp(row, "created_at")?, rows::get(row, "credits")?));
    found.iter().map(open).collect()
}

async fn select(
    connection: &mut PgConnection,
    statement: &'static str,
    account: AccountId,
) -> Result<Vec<Lot>> {
    let statement = sqlx::query(statement).bind(account.as_u128().to_be_bytes());
    let found = statement.fetch_all(connection).await.map_err(while_running)?;
    found.iter().map(rows::whole::<LotColumns, _>).collect()
}

/// Writes the lots that differ from `before`.
pub(super) async fn update(connection: &mut PgConnection, before: &[Lot], lots: &[Lot]) -> Result<()> {
    for lot in lots.iter().filter(|lot| !before.contains(lot)) {
        let statement: Statement = sqlx::query(
            "UPDATE credit_lot SET remaining = $3, expired = $4, withdrawn = $5 WHERE account_id = $1 AND id = $2",
        );
        let statement = statement
            .bind(lot.account.as_u128().to_be_bytes())
            .bind(lot.id.as_u128().to_be_bytes())
            .bind(lot.remaining.nanos())
            .bind(lot.expired.nanos())
            .bind(lot.withdrawn.nanos());
        execute(connection, statement).await?;
    }
    Ok(())
}
